"""The scripts behind make: what they refuse, and what they promise of exit codes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import portkit

SCRIPT = Path(portkit.__file__).parent.parent / "scripts" / "environment.sh"


def environment(folder, **variables):
    env = {**os.environ, **variables}
    argv = ["bash", SCRIPT, folder]
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def bare_python(tmp_path):
    """An interpreter that has no torch: one that sees no packages at all."""
    path = tmp_path / "python3"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    path.chmod(0o755)
    return str(path)


def test_amd_host_without_torch_is_refused(tmp_path, bare_python):
    done = environment(tmp_path / "venv", PYTHON=bare_python, PORTKIT_KFD=os.devnull)
    assert done.returncode == 1
    assert "https://pytorch.org/get-started/locally/" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_no_interpreter_is_refused(tmp_path):
    done = environment(tmp_path / "venv", PYTHON=str(tmp_path / "none"))
    assert done.returncode == 1
    assert "no Python 3.11 or later" in done.stderr
    assert "make PYTHON=" in done.stderr


@pytest.fixture
def checkout(tmp_path):
    """The benchmark script beside an environment whose pytest and portkit are told what to do."""
    shutil.copytree(SCRIPT.parent, tmp_path / "scripts")
    commands = tmp_path / "venv" / "bin"
    commands.mkdir(parents=True)

    def tell(python, portkit):
        for name, text in (("python", python), ("portkit", portkit)):
            (commands / name).write_text(f"#!/bin/sh\n{text}\n")
            (commands / name).chmod(0o755)
        argv = ["bash", tmp_path / "scripts" / "benchmark.sh", "venv"]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)

    return tell


@pytest.mark.parametrize("code", [0, 1, 3])
def test_table_comes_whatever_pytest_says(checkout, code):
    done = checkout(f"sleep 0.05; touch reports/local/r.jsonl; exit {code}", 'echo "$1 of $2"')
    assert done.returncode == code
    assert done.stdout.index("merge of reports/local/r.jsonl") < done.stdout.index("report of reports/local/r.jsonl")
    assert "report:     reports/local/r.jsonl" in done.stdout


@pytest.mark.parametrize(("code", "expected"), [(0, 1), (5, 5)])
def test_run_without_a_report_fails(checkout, code, expected):
    done = checkout(f"exit {code}", "echo TABLE")
    assert done.returncode == expected
    assert "no report was written" in done.stderr
    assert "TABLE" not in done.stdout


def test_merge_that_fails_is_not_hidden(checkout):
    assert checkout("sleep 0.05; touch reports/local/r.jsonl", "exit 2").returncode == 2
