"""Fixtures of tests that run kernels in Triton's interpreter: torch and Triton on a CPU."""

from __future__ import annotations

import collections
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
VARIANTS = "test_every_variant_is_right"


@pytest.fixture(scope="session")
def interpreted():
    """Lines that a script of this folder writes, in a process with the interpreter."""

    def run(script: str, text: str = "") -> list[str]:
        # One thread: the tensors are small, and other test processes share the cores.
        env = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-W", "ignore", str(HERE / script)]
        done = subprocess.run(command, input=text, env=env, capture_output=True, text=True, timeout=1800, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


@pytest.fixture(scope="session")
def interpret(interpreted):
    """Results of cells of ``(path, name)`` cases, on all small shapes or the smallest, from one process."""

    def run(*cases: tuple[Path, str], smallest: bool = False) -> list[dict]:
        asked = json.dumps([[str(path), name, smallest] for path, name in cases])
        return [json.loads(line) for line in interpreted("interpreted_cells.py", asked)]

    return run


@pytest.fixture(scope="module")
def variants(request, interpreted):
    """Name and whether everywhere → cells of a case, of all that a module's test of variants asks, from one process."""
    asked = [x.callspec.params for x in request.session.items if VARIANTS in x.name and x.module is request.module]
    cases = [[request.module.path_of(each["name"]), each["name"], each["everywhere"]] for each in asked]
    found = collections.defaultdict(list)
    for line in interpreted("variant_cells.py", json.dumps(cases)):
        name, everywhere, *cell = json.loads(line)
        found[name, everywhere].append(cell)
    return found
