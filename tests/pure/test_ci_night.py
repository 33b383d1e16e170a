"""A night of the workflow by its own shell: plan, merge and gate, step by step, with the real commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fake_github import TOKEN, fake_github, step_variables
from nights import night
from ruamel.yaml import YAML

import portkit
from portkit.cli import main

ROOT = Path(portkit.__file__).parent.parent

FLEET = """
places:
  - {target: h200, ci: {runner: [h200]}}
  - {target: mi300x, ci: {runner: [mi300x]}}
"""

REPOSITORY = "/repos/octo/kernels"


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    """The night in a folder, after its steps: the folder, and step → how it ended."""
    folder = tmp_path_factory.mktemp("night")
    previous = Path.cwd()
    os.chdir(folder)
    try:
        yield folder, _night(folder)
    finally:
        os.chdir(previous)


def _night(folder):
    (folder / "fleet.yaml").write_text(FLEET)
    shutil.copy(ROOT / "matrix.yaml", folder)
    assert main(["ci", "github"]) == 0
    workflow = YAML(typ="safe").load(folder / ".github/workflows/nightly.yml")
    night(folder / "reports/baseline", 1, triton="3.6.0")  # what the steps between would have downloaded
    night(folder / "reports/night", 2, triton="3.6.0", fused_ms=0.7)
    assert main(["history", "add", "reports/baseline"]) == 0
    with fake_github() as github:
        github.answers[REPOSITORY] = {"id": 7, "default_branch": "main"}
        run = {"id": 42, "event": "schedule", "head_branch": "main", "head_repository": {"id": 7}}
        github.answers[f"{REPOSITORY}/actions/workflows/nightly.yml/runs"] = {"workflow_runs": [run]}
        artifacts = [{"name": name, "expired": False} for name in ("portkit-night", "portkit-history")]
        github.answers[f"{REPOSITORY}/actions/runs/42/artifacts"] = {"artifacts": artifacts}
        return _steps(folder, workflow, github.address)


def _steps(folder, workflow, address):
    ended = {}
    outputs: dict[str, str] = {}
    for job in ("plan", "merge", "gate"):
        for step in workflow["jobs"][job]["steps"]:
            if "run" in step and "pip install" not in step["run"]:
                done = _run(folder, workflow["env"], step, outputs, address)
                ended[step["name"]] = done
                outputs |= dict(re.findall(r"^(\w+)=(.*)$", _taken(folder / "output"), re.MULTILINE))
    return ended


def _run(folder, env, step, outputs, address):
    """A step as GitHub runs it, its expressions worked out from the outputs so far."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "portkit").write_text(f'#!/bin/bash\nexec {sys.executable} -m portkit "$@"\n')
    (tools / "portkit").chmod(0o755)
    given = {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        **step_variables(address),
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        **{name: str(value) for name, value in {**env, **step.get("env", {})}.items()},
    }
    known = {"github.token": TOKEN, "inputs.accept": ""}
    for name, value in given.items():
        found = re.fullmatch(r"\$\{\{ (.*) \}\}", value)
        if found:
            given[name] = known[found[1]] if found[1] in known else outputs[found[1].rpartition(".")[2]]
    argv = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(argv, cwd=folder, env=given, capture_output=True, text=True, check=False)


def _taken(file):
    text = file.read_text() if file.exists() else ""
    file.unlink(missing_ok=True)
    return text


def test_every_step_ends_as_it_must(worked):
    _, ended = worked
    assert {name: done.returncode for name, done in ended.items()} == {
        "Plan": 0,
        "Merge; a target without a measured row fails": 1,
        "Table for the summary of this run": 1,
        "Find the history": 0,
        "Add this night to the history": 0,
        "Page for a browser": 0,
        "Find the last night that was good, on the default branch of this repository": 0,
        "Gate": 1,
    }, "\n".join(done.stderr for done in ended.values())


def test_a_missing_target_is_named_and_the_table_is_there_all_the_same(worked):
    folder, ended = worked
    assert "MISSING: no row of mi300x:measured" in ended["Merge; a target without a measured row fails"].stderr
    summary = (folder / "summary.md").read_text()
    assert "**Missing: no row of mi300x:measured.**" in summary
    assert "softmax" in (folder / "comparison.md").read_text()


def test_a_slower_kernel_fails_the_gate_in_the_summary(worked):
    folder, _ = worked
    assert "1 fail of 2 cells compared" in (folder / "summary.md").read_text()
    assert "×1.400" in (folder / "gate.md").read_text()


def test_the_history_has_both_nights(worked):
    folder, ended = worked
    assert "20261102T021700Z-0badcafe: 2 rows, new" in ended["Add this night to the history"].stdout
    assert len(list((folder / "history").iterdir())) == 2
    assert (folder / "report.html").stat().st_size > 100_000
