"""The script that makes the environment refuses before it installs."""

import os
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
