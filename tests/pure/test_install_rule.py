"""``make`` on a host with an AMD GPU: PyPI's torch, which is the CUDA build, is never installed there."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "environment.sh"


def install(folder, **environment):
    """Run it with a Python that has no torch."""
    python = folder / "bare"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    return subprocess.run(
        [SCRIPT, str(folder / "venv")],
        env={**os.environ, "PYTHON": str(python), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_is_refused_with_what_helps(tmp_path):
    (tmp_path / "kfd").touch()
    done = install(tmp_path, PORTKIT_KFD=str(tmp_path / "kfd"))
    assert done.returncode == 1
    assert "this host has an AMD GPU" in done.stderr
    assert "install a ROCm build of torch" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_the_device_node_is_the_kernel_s():
    """The variable is for this test alone."""
    assert "${PORTKIT_KFD:-/dev/kfd}" in SCRIPT.read_text()
