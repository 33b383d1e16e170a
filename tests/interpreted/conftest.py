"""Fixtures of tests that run kernels in Triton's interpreter: torch and Triton on a CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="kernel cases need torch")
pytest.importorskip("triton", reason="kernel cases need Triton")

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="session")
def interpret():
    """Results of cells of ``(path, name)`` cases, from one process with the interpreter."""

    def run(*cases: tuple[Path, str]) -> list[dict]:
        # One thread: the tensors are small, and other test processes share the cores.
        env = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, str(HERE / "interpreted_cells.py")],
            input=json.dumps([[str(path), name] for path, name in cases]),
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run
