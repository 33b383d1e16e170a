"""What the steps of the workflows call: plan, watchdog, baseline, comment; and their shell."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from factories import header, record
from fake_github import TOKEN, fake_github, step_variables
from ruamel.yaml import YAML

import portkit
from portkit.ci.jobs import expectation, github_entry, jobs
from portkit.ci.nights import workflow_file
from portkit.ci.runners import Presence, Runner, presence
from portkit.ci.watch import watch
from portkit.cli import main
from portkit.errors import CiError
from portkit.fleet.site import read_fleet
from portkit.render.github import MARKER
from portkit.store.journal import Journal
from portkit.targets.catalog import load_catalog

NIGHTLY = Path(portkit.__file__).parent.parent / ".github/workflows/nightly.yml"

FLEET = """
seconds: {job: 3601}
places:
  - target: h200
    name: big
    count: 2
    python: /opt/p/bin/python
    setup: [". env"]
    env: {SALT: "a 'b'"}
    ci: {runner: [self-hosted, H200], image: cuda}
  - {target: mi300x, ci: {runner: [mi300x], image: rocm}}
  - {target: l4, ci: {runner: [l4], image: cuda, options: ["--gpus", "device=0 1"]}, optional: true}
  - {target: t4, host: t4, container: "apptainer exec --nv 'an i.sif'", ci: {runner: [t4]}}
  - {target: a100, host: a100-host}
"""

REPOSITORY = {"id": 7, "default_branch": "main"}


@pytest.fixture
def github(tmp_path, monkeypatch):
    """A GitHub on loopback, the variables of a step and an empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    with fake_github() as fake:
        variables = {
            **step_variables(fake.address),
            "GITHUB_TOKEN": TOKEN,
            "GITHUB_RUN_ATTEMPT": "2",
            "GITHUB_OUTPUT": str(tmp_path / "output"),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
            "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        Path("fleet.yaml").write_text(FLEET)
        yield fake


def outputs():
    return dict(line.split("=", 1) for line in Path("output").read_text().splitlines())


# -- plan


def test_a_place_becomes_an_entry_of_the_matrix(github):
    found = jobs(read_fleet(Path("fleet.yaml")), load_catalog())
    big, mi300x, l4, t4 = map(github_entry, found)
    assert big == {
        "place": "big",
        "target": "h200",
        "count": 2,
        "runner": ["self-hosted", "H200"],
        "container": {"image": "cuda", "options": "--gpus=all --ipc=host"},
        "setup": ". env\nexport SALT='a '\"'\"'b'\"'\"''",
        "command": "/opt/p/bin/python",
        "minutes": 76,
        "limit": "3601s",
    }
    assert mi300x["container"]["options"].startswith("--device=/dev/kfd --device=/dev/dri")
    assert l4["container"]["options"] == "--gpus 'device=0 1'"
    assert (t4["container"], t4["command"]) == ("", "apptainer exec --nv 'an i.sif' python3")
    assert expectation(found) == "h200:measured,mi300x:measured,t4:measured"


def test_without_the_right_to_see_runners_all_are_planned_and_watched(github, capsys):
    assert main(["ci", "plan"]) == 0
    assert [each["place"] for each in json.loads(outputs()["jobs"])] == ["big", "mi300x-ci", "l4-ci", "t4-t4"]
    assert outputs()["watch"] == "true"
    assert github.asked == []


def runner(name, status, *labels):
    return {"name": name, "status": status, "labels": [{"name": label} for label in labels]}


def test_a_place_whose_runners_are_offline_gets_no_job_and_stays_expected(github, monkeypatch, capsys):
    monkeypatch.setenv("PORTKIT_RUNNERS_TOKEN", TOKEN)
    one = [runner("a", "online", "self-hosted", "h200"), runner("b", "offline", "mi300x"), runner("c", "offline", "l4")]
    github.answers["/repos/octo/kernels/actions/runners"] = {"runners": one}
    github.answers["/orgs/octo/actions/runners"] = {"runners": [runner("d", "online", "t4")]}
    assert main(["ci", "plan"]) == 0
    assert [each["place"] for each in json.loads(outputs()["jobs"])] == ["big", "t4-t4"]
    assert outputs()["expect"] == "h200:measured,mi300x:measured,t4:measured"
    assert outputs()["watch"] == "false"
    assert capsys.readouterr().out.splitlines() == [
        "::error title=mi300x-ci is offline::no runner with the labels mi300x is online",
        "::warning title=l4-ci is offline::no runner with the labels l4 is online",
    ]


def test_a_token_without_the_right_is_a_warning_and_the_watchdog_watches(github, monkeypatch, capsys):
    monkeypatch.setenv("PORTKIT_RUNNERS_TOKEN", "another")
    assert main(["ci", "plan"]) == 0
    assert outputs()["watch"] == "true"
    assert capsys.readouterr().out == "::warning title=runners are not known::answered 401 Unauthorized\n"


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["GPU"], Presence.ONLINE),
        (["gpu", "b"], Presence.OFFLINE),
        (["gpu", "a", "b"], Presence.UNKNOWN),
        (["ubuntu-latest"], Presence.UNKNOWN),
    ],
)
def test_a_runner_must_have_every_label(labels, expected):
    known = [Runner("a", True, frozenset({"gpu", "a"})), Runner("b", False, frozenset({"gpu", "b"}))]
    assert presence(labels, known) is expected


def test_runners_come_in_pages(github, monkeypatch):
    monkeypatch.setenv("PORTKIT_RUNNERS_TOKEN", TOKEN)
    pages = {"1": [runner(str(i), "offline", "x") for i in range(100)], "2": [runner("last", "online", "mi300x")]}
    github.answers["/repos/octo/kernels/actions/runners"] = lambda query: {"runners": pages[query["page"]]}
    assert main(["ci", "plan"]) == 0
    assert outputs()["watch"] == "true"
    assert [query["page"] for _, path, query, _ in github.asked if path.startswith("/repos")] == ["1", "2"]


# -- watchdog


def test_the_watchdog_waits_until_all_have_started():
    answers, slept = [["a", "b"], ["b"], []], []
    assert watch(lambda: answers.pop(0), 300, sleep=slept.append) == []
    assert slept == [30, 30]


def test_the_watchdog_gives_up_at_its_limit():
    slept = []
    assert watch(lambda: ["a"], 70, sleep=slept.append) == ["a"]
    assert slept == [30, 30, 10]


def test_a_job_without_a_runner_is_named_with_its_labels(github, monkeypatch, capsys):
    monkeypatch.setattr("portkit.ci.watch.time.sleep", lambda seconds: None)
    Path("fleet.yaml").write_text(FLEET + "ci: {queue_minutes: 1}\n")
    github.answers["/repos/octo/kernels/actions/runs/100/attempts/2/jobs"] = {
        "jobs": [
            {"name": "big", "status": "queued"},
            {"name": "mi300x-ci", "status": "in_progress"},
            {"name": "merge", "status": "waiting"},
        ]
    }
    assert main(["ci", "watch"]) == 1
    told = "::error title=big has no runner::none with the labels self-hosted, H200 took the job in 1 minutes\n"
    assert capsys.readouterr().out == told
    assert "`big` still waits" in Path("summary").read_text()


# -- the last good night


def run(number, **changes):
    given = {"id": number, "event": "schedule", "head_branch": "main", "head_repository": {"id": 7}}
    return {**given, **changes}


def nights(github, *runs, artifacts):
    github.answers["/repos/octo/kernels"] = REPOSITORY
    github.answers["/repos/octo/kernels/actions/workflows/nightly.yml/runs"] = {"workflow_runs": list(runs)}
    for number, expired in artifacts.items():
        path = f"/repos/octo/kernels/actions/runs/{number}/artifacts"
        github.answers[path] = {"artifacts": [{"name": "portkit-night", "expired": expired}]}


@pytest.mark.parametrize(
    "foreign",
    [
        run(99, head_repository={"id": 8}),
        run(99, head_repository=None),
        run(99, event="pull_request"),
        run(99, event="pull_request_target"),
        run(99, event="workflow_run"),
        run(99, head_branch="topic"),
        run(100),
    ],
    ids=["fork", "deleted fork", "pull request", "its target", "after another", "branch", "this run"],
)
def test_a_run_that_may_be_anyones_is_never_the_baseline(github, foreign):
    nights(github, foreign, run(42), artifacts={99: False, 100: False, 42: False})
    assert main(["ci", "baseline", "--artifact", "portkit-night"]) == 0
    assert outputs() == {"run": "42"}


def test_a_night_whose_artifact_is_gone_is_passed_over(github):
    nights(github, run(43), run(42), run(41), artifacts={43: True, 42: False, 41: False})
    assert main(["ci", "baseline", "--artifact", "portkit-night"]) == 0
    assert outputs() == {"run": "42"}
    assert next(query for _, path, query, _ in github.asked if path.endswith("/runs"))["status"] == "success"


def test_any_result_will_do_for_the_history(github):
    nights(github, run(42), artifacts={42: False})
    assert main(["ci", "baseline", "--artifact", "portkit-night", "--any-result"]) == 0
    query = next(query for _, path, query, _ in github.asked if path.endswith("/runs"))
    assert (query["branch"], query["status"]) == ("main", "completed")


def test_the_first_night_has_no_baseline(github, capsys):
    nights(github, artifacts={})
    assert main(["ci", "baseline", "--artifact", "portkit-night"]) == 0
    assert outputs() == {"run": ""}
    assert capsys.readouterr().out.startswith("::notice title=no earlier night::")


def test_an_api_that_fails_is_an_error_and_not_no_baseline(github, capsys):
    github.answers["/repos/octo/kernels"] = 500
    assert main(["ci", "baseline", "--artifact", "portkit-night"]) == 2
    assert "GET /repos/octo/kernels: answered 500" in capsys.readouterr().err


def test_a_step_without_its_variables_says_which(monkeypatch, capsys):
    monkeypatch.delenv("GITHUB_WORKFLOW_REF", raising=False)
    assert main(["ci", "baseline", "--artifact", "portkit-night"]) == 2
    assert "GITHUB_WORKFLOW_REF: is not set" in capsys.readouterr().err


def test_a_reference_of_another_form_is_refused():
    with pytest.raises(CiError, match="names no workflow file"):
        workflow_file("octo/repo/dynamic@refs/heads/main")


# -- the comment

HEAD = {"id": 8, "owner": {"login": "some one"}}
PULL = {"number": 5, "head": {"sha": "c0ffee", "repo": {"id": 8}}}


def commented(github, tmp_path, *pulls, comments=()):
    event = {"head_repository": HEAD, "head_branch": "main&x=$(id)", "head_sha": "c0ffee", "pull_requests": []}
    Path("event.json").write_text(json.dumps({"workflow_run": event}))
    github.answers["/repos/octo/kernels/pulls"] = list(pulls)
    github.answers["GET /repos/octo/kernels/issues/5/comments"] = list(comments)
    github.answers["POST /repos/octo/kernels/issues/5/comments"] = {"html_url": "https://new"}
    github.answers["PATCH /repos/octo/kernels/issues/comments/31"] = {"html_url": "https://renewed"}
    journal = Journal.create(tmp_path / "reports", header(cells=1))
    journal.append(record())
    journal.finish()
    assert main(["ci", "comment", "reports"]) == 0
    return [(method, body["body"]) for method, _, _, body in github.asked if method != "GET"]


def test_the_comment_goes_to_the_pull_request_whose_head_was_run(github, tmp_path):
    ((method, text),) = commented(github, tmp_path, PULL)
    assert method == "POST"
    assert text.startswith(f"{MARKER}\n\n## Kernels over targets")
    asked = next(query for _, path, query, _ in github.asked if path.endswith("/pulls"))
    assert asked["head"] == "some one:main&x=$(id)"


@pytest.mark.parametrize(
    "other",
    [
        {"number": 5, "head": {"sha": "beef", "repo": {"id": 8}}},
        {"number": 5, "head": {"sha": "c0ffee", "repo": {"id": 9}}},
        {"number": 5, "head": {"sha": "c0ffee", "repo": None}},
    ],
    ids=["newer commit", "another fork", "deleted fork"],
)
def test_another_pull_request_gets_no_comment(github, tmp_path, other):
    assert commented(github, tmp_path, other) == []


def test_the_own_comment_is_renewed_and_nobody_elses(github, tmp_path):
    bot, person = {"login": "github-actions[bot]"}, {"login": "someone"}
    others = [
        {"id": 29, "user": person, "body": MARKER},
        {"id": 30, "user": bot, "body": "another workflow's"},
        {"id": 31, "user": bot, "body": f"{MARKER}\nold"},
    ]
    ((method, _),) = commented(github, tmp_path, PULL, comments=others)
    assert method == "PATCH"


def test_an_event_of_another_kind_is_refused(github, capsys):
    Path("event.json").write_text('{"workflow_run": {"head_sha": "c0ffee"}}')
    assert main(["ci", "comment", "reports"]) == 2
    assert "the event is of no run of a pull request" in capsys.readouterr().err


# -- the shell of the steps, as GitHub runs it


def step(job, name):
    steps = YAML(typ="safe").load(NIGHTLY)["jobs"][job]["steps"]
    return next(each["run"] for each in steps if each.get("name") == name)


def shell(script, folder, program, **variables):
    """Run a step with a program in the place of portkit and of Python."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    for name in ("portkit", "python3"):
        (tools / name).write_text(f"#!/bin/bash\n{program}")
        (tools / name).chmod(0o755)
    given = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", **variables}
    argv = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(argv, cwd=folder, env=given, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("code", "accept", "expected"),
    [(0, "", 0), (1, "false", 1), (1, "true", 0), (2, "true", 2), (3, "", 0)],
)
def test_the_gates_exit_code_decides(tmp_path, code, accept, expected):
    program = f"echo verdict > gate.md; exit {code}"
    summary = tmp_path / "summary"
    done = shell(step("gate", "Gate"), tmp_path, program, GITHUB_STEP_SUMMARY=str(summary), ACCEPT=accept)
    assert done.returncode == expected
    assert summary.read_text() == "verdict\n"
    assert ("::warning" in done.stdout) == (code in (1, 3) and expected == 0)


def place(**changes):
    given = {
        "SETUP": "export FROM_SETUP=1",
        "COMMAND": "python3",
        "TARGET": "h200",
        "COUNT": "1",
        "LIMIT": "60s",
        "MATRIX": "a b.yaml",
        "TIER": "quick",
        "CELL_SECONDS": "900",
        "REPORTS": "reports/1-1",
    }
    return {**given, **changes}


def test_a_place_runs_what_the_fleet_file_says_word_for_word(tmp_path):
    done = shell(step("run", "Preflight and run"), tmp_path, 'printf "[%s]" "$FROM_SETUP" "$@"; echo', **place())
    assert done.stdout.splitlines() == [
        "[1][-m][portkit.fleet.preflight][--matrix][a b.yaml][--target][h200][--count][1]",
        "[1][-m][pytest][--benchmark][--portkit-matrix][a b.yaml][--portkit-tier][quick][--portkit-target][h200]"
        "[--portkit-cell-seconds][900][--portkit-report][reports/1-1]",
    ]


def test_a_wrong_gpu_ends_the_job_before_the_run(tmp_path):
    program = (
        'case "$2" in portkit.fleet.preflight) echo "expected 1 × h200,"; echo "none"; exit 3 ;; *) touch ran ;; esac'
    )
    done = shell(step("run", "Preflight and run"), tmp_path, program, **place())
    assert (done.returncode, done.stdout) == (3, "::error title=preflight::expected 1 × h200, none\n")
    assert not (tmp_path / "ran").exists()


def test_a_command_in_a_container_is_split_as_a_shell_splits_it(tmp_path):
    given = place(COMMAND="python3 'an i.sif' python3")
    done = shell(step("run", "Preflight and run"), tmp_path, 'printf "[%s]" "$1" "$2"; echo', **given)
    assert done.stdout.splitlines() == ["[an i.sif][python3]"] * 2


def test_a_run_over_its_time_is_ended_from_outside(tmp_path):
    program = 'case "$2" in pytest) sleep 20 ;; esac'
    done = shell(step("run", "Preflight and run"), tmp_path, program, **place(LIMIT="0.3s"))
    assert done.returncode == 124


def test_a_value_with_shell_in_it_stays_a_value(tmp_path):
    evil = "$(touch pwned) `touch pwned`; touch pwned"
    shell(step("run", "Preflight and run"), tmp_path, "exit 0", **place(TARGET=evil, MATRIX=evil, REPORTS=evil))
    assert not (tmp_path / "pwned").exists()


GITLAB = YAML(typ="safe").load(NIGHTLY.parents[2] / "docs/examples/gitlab-ci.yml")


@pytest.mark.parametrize(
    ("code", "accept", "expected"), [(0, "", 0), (1, "", 1), (1, "true", 0), (2, "true", 2), (3, "", 3)]
)
def test_gitlabs_gate_keeps_code_3_for_the_pipeline_to_allow(tmp_path, code, accept, expected):
    (tmp_path / "baseline.zip").touch()
    done = shell(GITLAB["gate"]["script"][1], tmp_path, f"echo verdict > gate.md; exit {code}", PORTKIT_ACCEPT=accept)
    assert done.returncode == expected
    assert done.stdout.startswith("verdict\n")


def test_gitlabs_first_night_has_no_gate(tmp_path):
    done = shell(GITLAB["gate"]["script"][1], tmp_path, "exit 9")
    assert (done.returncode, done.stdout) == (0, "")


def test_a_place_of_gitlab_fails_without_a_report(tmp_path):
    last = GITLAB["run h200"]["script"][-1]
    (tmp_path / "night/7").mkdir(parents=True)
    assert shell(last, tmp_path, "", CI_JOB_ID="7").returncode != 0
    (tmp_path / "night/7/a.jsonl").touch()
    assert shell(last, tmp_path, "", CI_JOB_ID="7").returncode == 0
