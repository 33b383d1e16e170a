"""A process that dies costs its own cell."""

from __future__ import annotations

import triton
from packaging.version import Version
from workshop import CASES

from portkit.model import CaseSource, Cell, Direction, Status


def _cells(name, *shapes, target="h200"):
    return [Cell(name, Direction.FORWARD, shape, "float32", "default", target) for shape in shapes]


def _source(name):
    return CaseSource(name, path=str(CASES / "fatal.py"))


def test_a_compiler_that_exits_without_a_word(workshop):
    """Up to Triton 3.7; from then on it comes back with a binary that lacks the instruction."""
    cells = _cells("inline_ptx", (1024,), target="mi300x") + _cells("inline_ptx", (1024,), target="h200")
    rocm, cuda = workshop.build(_source("inline_ptx"), cells).values()
    if rocm.cell.target != "mi300x":
        rocm, cuda = cuda, rocm
    if Version(triton.__version__) < Version("3.8"):
        assert rocm.outcome.status is Status.COMPILER_CRASH
        assert rocm.outcome.message == "exit 1: error: couldn't allocate output register for constraint 'f'"
    else:
        assert rocm.outcome.status is Status.MISCOMPILED
        assert "inline assembly 'tanh.approx.f32 $0, $1;' is not in the amdgcn" in rocm.outcome.message
    assert cuda.outcome.status is Status.BUILT


def test_cells_after_a_death_still_run(workshop):
    cells = _cells("host_exits", (1024,), (2048,), (4096,))
    results = workshop.build(_source("host_exits"), cells)
    assert [results[c].outcome.status for c in cells] == [Status.BUILT, Status.CAPTURE_FAILED, Status.BUILT]
    assert "exit 3" in results[cells[1]].outcome.message


def test_a_hang_ends_at_the_time_limit(hasty_workshop):
    cells = _cells("host_hangs", (1024,), (2048,), (4096,))
    results = hasty_workshop.build(_source("host_hangs"), cells)
    assert [results[c].outcome.status for c in cells] == [Status.BUILT, Status.TIMEOUT, Status.BUILT]
    assert "outside the compiler" in results[cells[1]].outcome.message


def test_a_file_that_fails_to_import_fails_its_cells(workshop, tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("import portkit\n\nraise RuntimeError('no such thing')\n")
    (result,) = workshop.build(CaseSource("broken", path=str(path)), _cells("broken", (8,))).values()
    assert result.outcome.status is Status.CAPTURE_FAILED
    assert "broken.py:3" in result.outcome.message
    assert "no such thing" in result.outcome.message


def test_a_fault_of_the_source_is_a_compile_error_on_every_target(workshop):
    cells = _cells("undefined_name", (1024,)) + _cells("undefined_name", (1024,), target="mi300x")
    outcomes = [result.outcome for result in workshop.build(_source("undefined_name"), cells).values()]
    assert [outcome.status for outcome in outcomes] == [Status.COMPILE_ERROR] * 2
    assert all("x_pointer" in outcome.message for outcome in outcomes)
