"""Two nights of each CI system by the files that ``portkit ci`` writes: all shell of all jobs runs here, in order.

The first night is well. In the second a kernel has changed for the worse, and a new place has no GPU.
"""

from __future__ import annotations

import shutil

import pytest
from ci_systems import ROOT, Github, Gitlab
from fake_github import fake_github

from portkit.cli import main

PROJECT = ROOT / "tests" / "fleet" / "project"
FLEET = """\
tier: full
options: [--portkit-emulate, "off", -k, float32 and not 4194304 and not b1024 and not b512]
places:
  - {target: mi300x, count: 0, ci: {runner: [mi300x]}, setup: ["export FROM_SETUP=1"], env: {PORTKIT_SALT: "a 'b'"}}
"""
NEW_PLACE = "  - {target: h200, ci: {runner: [h200]}}\n"
REST = 'ci: {tools: ["true"], install: ["true"]}\n'
GOOD = "    inside = lanes < n\n"
WORSE = GOOD + '    tl.static_assert(BLOCK < 128, "too wide")\n'


@pytest.fixture
def project(tmp_path, monkeypatch):
    folder = tmp_path / "project"
    shutil.copytree(PROJECT, folder)
    monkeypatch.chdir(folder)
    return folder


def write(project, system, *, worse=False):
    """The files of a day."""
    (project / "fleet.yaml").write_text(FLEET + (NEW_PLACE if worse else "") + REST)
    if worse:
        kernel = project / "kernels" / "scaled_sum.py"
        text = kernel.read_text()
        assert text.count(GOOD) == 1
        kernel.write_text(text.replace(GOOD, WORSE))
    assert main(["ci", system]) == 0


def told(ended):
    return "\n".join(f"{name}: {done.code}\n{done.out[-2000:]}\n{done.err[-2000:]}" for name, done in ended.items())


@pytest.mark.slow
def test_two_nights_of_github(project, tmp_path):
    with fake_github() as api:
        github = Github(tmp_path / "github", api)
        write(project, "github")
        first = github.night(project)
        assert {name: done.code for name, done in first.items() if done.code} == {}, told(first)
        assert github.good == [1]
        assert "gate: Gate" not in first  # there is nothing to compare with
        write(project, "github", worse=True)
        second = github.night(project)
    assert {name: done.code for name, done in second.items() if done.code} == {
        "builds: Run": 1,
        "mi300x-ci: Preflight and run": 1,
        "h200-ci: Preflight and run": 3,
        "h200-ci: Keep the report": 1,
        "merge: Merge; a target without a measured row fails": 1,
        "merge: Table for the summary of this run": 1,
        "gate: Gate": 1,
    }, told(second)
    assert "::error title=preflight::expected 1 × h200, no GPU is visible" in second["h200-ci: Preflight and run"].out
    assert "MISSING: no row of h200:measured" in second["merge: Merge; a target without a measured row fails"].err
    assert second["merge: Add this night to the history"].out.count(", new") == 2
    summary = (tmp_path / "github" / "summary-2.md").read_text()
    assert "built → unsupported" in summary
    assert {path.name for path in github.artifacts(2).iterdir()} == {
        "report-builds",
        "report-mi300x-ci",
        "portkit-night",
        "portkit-page",
        "portkit-history",
        "portkit-gate",
    }
    assert len(list((github.artifacts(2) / "portkit-history").iterdir())) == 4


@pytest.mark.slow
def test_two_nights_of_gitlab(project, tmp_path):
    with fake_github(header="JOB-TOKEN", prefix="") as api:
        gitlab = Gitlab(tmp_path / "gitlab", api)
        write(project, "gitlab")
        first = gitlab.night(project)
        assert {name: done.code for name, done in first.items()} == {
            "builds": 0,
            "builds, after": 0,
            "run mi300x-ci": 0,
            "merge": 0,
            "gate": 0,
        }, told(first)
        write(project, "gitlab", worse=True)
        second = gitlab.night(project)
    assert {name: done.code for name, done in second.items()} == {
        "builds": 1,
        "builds, after": 0,
        "run mi300x-ci": 1,
        "run h200-ci": 3,
        "merge": 1,
        "gate": 1,
    }, told(second)
    assert "expected 1 × h200, no GPU is visible" in second["run h200-ci"].out
    assert "MISSING: no row of h200:measured" in second["merge"].err
    assert "built → unsupported" in second["gate"].out
    assert len(list((tmp_path / "gitlab" / "cache" / "history").iterdir())) == 4
