"""A process that dies costs its own cell."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import triton
from packaging.version import Version
from workshop import CASES, Workshop

from portkit.model import CaseSource, Cell, Direction, Evidence, Outcome, Stage, Status
from portkit.run.jobs import Compiling, Job, Limits, Started
from portkit.run.output import Output
from portkit.run.processes import processes_of
from portkit.run.session import Session
from portkit.run.supervisor import Pending, Worker, cause_of_death, share
from portkit.targets.catalog import load_catalog


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


@pytest.mark.parametrize("name", ["exits_on_h100", "exits_after_a_kernel_on_h100"])
def test_an_end_on_one_sku_says_nothing_of_its_sisters(workshop, name):
    h100, h200 = workshop.build_case("lingering.py", name, "h100", "h200", shape=(256,))
    assert (h100.outcome.status, h100.outcome.stage) == (Status.CAPTURE_FAILED, Stage.CAPTURE)
    assert h100.outcome.message.startswith("host code ended the process: exit 3")
    assert h200.outcome == Outcome(Status.BUILT)
    assert h200.seconds > 0


def _died(process_of_h100, **asked):
    worker = Worker(
        Pending((Job(Evidence.COMPILED, CaseSource("case"), tuple(_cells("case", (8,), target="h100"))),)),
        process_of_h100,
        None,
        Output(),
    )
    worker.note(Started(Evidence.COMPILED, worker.job.cells[0]))
    worker.note(Compiling("kernel", asked))
    worker.lose(worker.job.cells[0], cause_of_death(worker))
    return worker


def test_a_crash_of_the_compiler_holds_for_sisters_that_answer_alike():
    h200 = Job(Evidence.COMPILED, CaseSource("case"), tuple(_cells("case", (8,))), load_catalog().get("h200"))
    aborted = SimpleNamespace(exitcode=-signal.SIGABRT, pid=1, is_alive=lambda: False)
    killed = SimpleNamespace(exitcode=-signal.SIGKILL, pid=1, is_alive=lambda: False)
    (shared,), left = share(_died(aborted, multi_processor_count=132).known, h200)
    assert (shared.cell, shared.outcome.status, left) == (h200.cells[0], Status.COMPILER_CRASH, ())
    assert share(_died(aborted, multi_processor_count=114).known, h200) == ([], h200.cells)
    assert share(_died(killed, multi_processor_count=132).known, h200) == ([], h200.cells)
    worker = _died(aborted, multi_processor_count=132)
    unknown = replace(worker.known[0], asked={"made_up": None})
    assert share([unknown], h200) == ([], h200.cells)


def test_what_host_code_started_ends_with_its_process(workshop):
    begin = time.monotonic()
    (result,) = workshop.build_case("lingering.py", "lingers", "h200", shape=(256,))
    assert result.outcome == Outcome(Status.BUILT)
    assert time.monotonic() - begin < 60  # the thread sleeps for longer
    links = workshop.session._links.values()
    until = time.monotonic() + 5
    while (
        left := [command for link in links for command in _commands(link) if command.startswith(b"sleep")]
    ) and time.monotonic() < until:
        time.sleep(0.05)  # a killed process is gone a moment later
    assert left == []
    assert all(_commands(link) != [] for link in links)


def _commands(link):
    return [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in processes_of(link._mark)]


def test_host_code_sees_no_interpreter(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    session = Session(Limits(workers=1))
    (result,) = Workshop(session).build_case("lingering.py", "looks_for_the_interpreter", "h200", shape=(256,))
    session.close()
    assert result.outcome == Outcome(Status.BUILT)
