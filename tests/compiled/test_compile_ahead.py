"""What scripts/compile_ahead.py takes from a matrix, and what it says of a chain that fails."""

import importlib.util
import sys
from pathlib import Path

import pytest

from portkit.model import CaseSource, Cell, Direction

ROOT = Path(__file__).parents[2]
MATRIX = """\
version: 1
kernels:
  softmax:
    {path: PATH/softmax.py, shapes: [4096x4096, 1024x32768], dtypes: [bfloat16, float32], variants: [w4, w8]}
  swiglu: {path: PATH/swiglu.py, shapes: [8192x14336], dtypes: [bfloat16], directions: [forward]}
targets: [h200]
"""


@pytest.fixture(scope="module")
def ahead():
    spec = importlib.util.spec_from_file_location("compile_ahead", ROOT / "scripts" / "compile_ahead.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_chain_is_compiled_once_in_each_mode(ahead, tmp_path):
    matrix = tmp_path / "matrix.yaml"
    matrix.write_text(MATRIX.replace("PATH", str(ROOT / "kernels")))
    found = ahead.jobs(matrix, "full", "h200", without={"swiglu"})
    chains = [(job.cell.direction, job.cell.shape, job.cell.dtype, job.mode) for job in found]
    modes = ("compile_max_autotune", "compile")
    expected = {
        (direction, shape, dtype, mode)
        for direction in Direction
        for shape in ((4096, 4096), (1024, 32768))
        for dtype in ("bfloat16", "float32")
        for mode in modes
    }
    assert len(chains) == len(expected)
    assert set(chains) == expected
    assert {job.cell.case for job in ahead.jobs(matrix, "full", "h200")} == {"softmax", "swiglu"}


def test_a_chain_that_fails_is_told(ahead):
    cell = Cell("absent", Direction.FORWARD, (4, 8), "float32", "", "h200")
    told = ahead.compile_one(ahead.Job(CaseSource("absent", path=str(ROOT / "kernels" / "absent.py")), cell, "compile"))
    assert told.startswith("absent forward 4x8 compile: ")
    assert "absent.py" in told
