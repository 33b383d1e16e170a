"""GitLab's code quality report, and the fetch of its last good night."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from factories import header, record
from fake_github import fake_github

from portkit.cli import main
from portkit.model import Outcome, Stage, Status
from portkit.plan.places import Place
from portkit.render.github import Annotation
from portkit.render.gitlab import code_quality
from portkit.store.journal import Journal


def test_a_remark_on_a_line_is_an_entry_and_one_without_is_none():
    found = [
        Annotation("error", "PK101 spills", "softmax: 16 B", Place("kernels/softmax.py", 12)),
        Annotation("notice", "out_of_resources on l4", "a\x00b", Place("kernels/softmax.py", 3)),
        Annotation("warning", "no place", "", None),
    ]
    first, second = json.loads(code_quality(found))
    assert first.pop("fingerprint") != second["fingerprint"]
    assert first == {
        "description": "PK101 spills: softmax: 16 B",
        "check_name": "PK101",
        "severity": "critical",
        "location": {"path": "kernels/softmax.py", "lines": {"begin": 12}},
    }
    assert (second["severity"], "\x00" in second["description"]) == ("info", False)


def test_the_same_remark_has_the_same_fingerprint_tomorrow():
    found = [Annotation("error", "PK101 spills", "softmax: 16 B", Place("kernels/softmax.py", 12))]
    assert code_quality(found) == code_quality(list(found))


def test_the_report_names_lines_of_the_matrix(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("kernels").mkdir()
    Path("kernels/softmax.py").write_text('import portkit\n\nCASE = portkit.KernelCase(name="softmax")\n')
    Path("matrix.yaml").write_text("kernels: {softmax: }\ntargets: [mi300x]\n")
    journal = Journal.create(tmp_path / "night", header(cells=1))
    journal.append(record(target="mi300x", outcome=Outcome(Status.COMPILE_ERROR, Stage.COMPILE, "no such thing")))
    journal.finish()
    assert main(["report", "night", "--format", "gitlab-code-quality", "-o", "quality.json"]) == 0
    (entry,) = json.loads(Path("quality.json").read_text())
    assert entry["location"]["path"] == "kernels/softmax.py"
    assert "no such thing" in entry["description"]


@pytest.fixture
def gitlab(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with fake_github(header="JOB-TOKEN", prefix="") as fake:
        for name, value in {
            "CI_API_V4_URL": f"{fake.address}/api/v4",
            "CI_PROJECT_ID": "12",
            "CI_DEFAULT_BRANCH": "feature/main",
            "CI_JOB_TOKEN": "a-token",
        }.items():
            monkeypatch.setenv(name, value)
        yield fake


NIGHT = "/api/v4/projects/12/jobs/artifacts/feature%2Fmain/download"


def test_the_last_good_night_of_the_default_branch_is_fetched(gitlab):
    gitlab.answers[NIGHT] = ["an archive"]
    assert main(["ci", "gitlab-night", "--job", "merge", "-o", "baseline.zip"]) == 0
    assert Path("baseline.zip").read_text() == '["an archive"]'
    ((_, _, query, _),) = gitlab.asked
    assert query == {"job": "merge", "search_recent_successful_pipelines": "true"}


def test_the_first_night_of_gitlab_has_none(gitlab, capsys):
    assert main(["ci", "gitlab-night", "--job", "merge", "-o", "baseline.zip"]) == 0
    assert not Path("baseline.zip").exists()
    assert "no earlier night" in capsys.readouterr().err


def test_a_gitlab_that_fails_is_an_error(gitlab, capsys):
    gitlab.answers[NIGHT] = 503
    assert main(["ci", "gitlab-night", "--job", "merge", "-o", "baseline.zip"]) == 2
    assert "answered 503" in capsys.readouterr().err
