"""What a process may do to itself or to others, and that the cells beside it go on."""

from __future__ import annotations

import os
import signal
import time
from types import SimpleNamespace

import pytest
from workshop import CASES, Workshop

from portkit.model import CaseSource, Cell, CellResult, Direction, Evidence, Outcome, Stage, Status
from portkit.run.jobs import Compiling, Entered, Finished, Job, Limits, Started, Trying, Unusable
from portkit.run.limits import GIB, STAGE_SECONDS
from portkit.run.output import KEPT_BYTES
from portkit.run.processes import processes_of
from portkit.run.session import Session
from portkit.run.supervisor import Pending, Worker, cause_of_death
from portkit.run.worker import Means, Timed, only_device, work_through

SHAPES = ((1024,), (2048,), (4096,))


@pytest.fixture(scope="module")
def guarded():
    """A session with tight bounds."""
    stages = {**STAGE_SECONDS, Stage.COMPILE: 6.0}
    session = Session(Limits(workers=2, stage_seconds=stages, memory_bytes=GIB * 3 // 2))
    yield Workshop(session)
    session.close()


def build_three(workshop, name):
    """Results of a case whose middle shape is fatal; those beside it must be built."""
    cells = [Cell(name, Direction.FORWARD, shape, "float32", "default", "h200") for shape in SHAPES]
    results = workshop.build(CaseSource(name, path=str(CASES / "fatal.py")), cells)
    first, fatal, last = (results[cell] for cell in cells)
    assert (first.outcome, last.outcome) == (Outcome(Status.BUILT), Outcome(Status.BUILT))
    return fatal


def test_of_a_flood_of_output_the_last_lines_are_kept(guarded):
    fatal = build_three(guarded, "host_floods")
    assert fatal.outcome == Outcome(
        Status.CAPTURE_FAILED,
        Stage.CAPTURE,
        "host code ended the process: exit 5: Error: these are the last words",
    )
    assert len(fatal.blobs["log"]) < KEPT_BYTES
    assert fatal.blobs["log"].endswith(b"nothing but noise\nError: these are the last words")


def test_too_much_memory_ends_the_cell_and_names_the_limit(guarded):
    fatal = build_three(guarded, "host_hoards")
    assert (fatal.outcome.status, fatal.outcome.stage) == (Status.CAPTURE_FAILED, Stage.CAPTURE)
    assert fatal.outcome.message.startswith("ended over the memory limit: 1.")
    assert "1.50 GiB allowed, outside the compiler" in fatal.outcome.message


def test_a_compiler_over_its_time_is_ended_and_named(guarded):
    fatal = build_three(guarded, "slow_to_compile")
    assert fatal.outcome == Outcome(
        Status.TIMEOUT, Stage.COMPILE, "stage compile took more than its limit of 6 s, while compiling unrolled"
    )


def test_a_process_killed_from_outside_is_no_verdict_on_the_kernel(guarded):
    fatal = build_three(guarded, "host_is_killed")
    assert (fatal.outcome.status, fatal.outcome.stage) == (Status.WORKER_LOST, Stage.CAPTURE)
    assert fatal.outcome.message.startswith("killed from outside (signal SIGKILL)")


def test_a_cell_that_takes_the_supervisor_with_it_is_found_and_given_up(guarded):
    fatal = build_three(guarded, "host_kills_parent")
    assert fatal.outcome == Outcome(Status.WORKER_LOST, Stage.RUN, "the supervisor ended (signal SIGKILL)")


def test_cells_beside_one_that_takes_the_supervisor_with_it_are_built(guarded):
    """Its own is first, so that every supervisor begins with it, another beside it."""
    names = ("host_kills_parent", "host_exits", "host_hangs", "host_floods")
    culprit, *others = (
        Cell(name, Direction.FORWARD, (2048 if name == names[0] else 1024,), "float32", "default", "h200")
        for name in names
    )
    lost, *results = guarded.build_cases("fatal.py", culprit, *others)
    assert lost.outcome.status is Status.WORKER_LOST
    assert [result.outcome for result in results] == [Outcome(Status.BUILT)] * 3


def test_a_supervisor_that_was_killed_is_replaced():
    session = Session(Limits(workers=1))
    session.prestart()
    (link,) = session._links.values()
    os.kill(link._process.pid, signal.SIGKILL)
    (result,) = Workshop(session).build_case("fatal.py", "host_exits", "h200", shape=(1024,))
    session.close()
    assert result.outcome == Outcome(Status.BUILT)


def test_nothing_is_left_of_a_session_that_is_closed():
    session = Session(Limits(workers=1))
    session.prestart()
    (link,) = session._links.values()
    marks = link._mark
    begin = time.monotonic()
    while not processes_of(marks):  # a process has its mark once it executes its program
        assert time.monotonic() - begin < 30
        time.sleep(0.01)
    begin = time.monotonic()
    session.close()
    assert time.monotonic() - begin < 4
    assert processes_of(marks) == []


class Sent(list):
    """A connection that keeps what is sent."""

    send = list.append


def test_a_process_gives_up_where_its_device_no_longer_answers():
    cells = tuple(Cell("case", Direction.FORWARD, shape, "float32", "default", "h200") for shape in SHAPES)
    fault, sent = Outcome(Status.DEVICE_FAULT, Stage.RUN, "illegal memory access"), Sent()

    def run(cell):
        return CellResult(cell, Evidence.MEASURED, Outcome(Status.PASSED) if cell is cells[0] else fault)

    work_through(Job(Evidence.MEASURED, CaseSource("case"), cells), Means(run, lambda: False), sent)
    assert [type(message) for message in sent] == [Started, Finished, Started, Finished, Unusable]
    sent.clear()
    work_through(Job(Evidence.MEASURED, CaseSource("case"), cells), Means(run, lambda: True), sent)
    assert len(sent) == 6


@pytest.mark.parametrize("evidence", [Evidence.MEASURED, Evidence.COMPILED])
def test_a_measured_result_has_the_seconds_of_its_stages(evidence):
    cells = tuple(Cell("case", Direction.FORWARD, shape, "float32", "default", "h200") for shape in SHAPES[:2])
    sent = Sent()
    told = Timed(sent)

    def run(cell):
        told.send(Entered(Stage.RUN))
        told.send(Compiling("kernel"))
        told.send(Entered(Stage.RUN))
        told.send(Trying("liger"))
        time.sleep(0.02 if cell is cells[0] else 0.0)
        told.send(Entered(Stage.TIMING))
        return CellResult(cell, evidence, Outcome(Status.PASSED))

    work_through(Job(evidence, CaseSource("case"), cells), Means(run), told)
    first, second = (message.result for message in sent if isinstance(message, Finished))
    if evidence is Evidence.COMPILED:
        assert not first.stage_seconds
        return
    assert list(first.stage_seconds) == [Stage.INPUTS, Stage.RUN, Stage.COMPILE, Stage.BASELINE, Stage.TIMING]
    assert first.stage_seconds[Stage.BASELINE] >= 0.02 > second.stage_seconds[Stage.BASELINE]
    assert sum(first.stage_seconds.values()) == pytest.approx(first.seconds, abs=5e-3)


@pytest.mark.parametrize(
    ("stage", "status"),
    [
        (Stage.IMPORT, Status.CAPTURE_FAILED),
        (Stage.INPUTS, Status.CAPTURE_FAILED),
        (Stage.REFERENCE, Status.REFERENCE_FAILED),
        (Stage.COMPILE, Status.COMPILER_CRASH),
        (Stage.RUN, Status.WORKER_LOST),
        (Stage.TIMING, Status.WORKER_LOST),
    ],
)
def test_the_stage_of_a_death_says_whose_fault_it_is(stage, status):
    process = SimpleNamespace(exitcode=-6, is_alive=lambda: False)
    output = SimpleNamespace(of_cell=lambda number: "terminate called\n")
    job = Job(Evidence.MEASURED, CaseSource("case"), ())
    outcome = cause_of_death(Worker(Pending((job,)), process, None, output, stage=stage))
    assert (outcome.status, outcome.stage) == (status, stage)
    assert outcome.message.endswith("signal SIGABRT: terminate called")


FAULTED = "Memory access fault by GPU node-1 (Agent handle: 0xca58750) on address 0x7fbb5f1a8000. Reason: Unknown."
APERTURE = (
    ":0:rocdevice.cpp :3006: Callback: Queue 0x7f aborting with error : HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION:"
    " The agent attempted to access memory beyond the largest legal address. code: 0x29"
)


@pytest.mark.parametrize("said", [FAULTED, APERTURE, "HW Exception by GPU node-2 (Agent handle: 0x1) reason :GPU Hang"])
@pytest.mark.parametrize(
    ("stage", "outcome"),
    [
        (Stage.RUN, (Status.DEVICE_FAULT, Stage.RUN)),
        (Stage.TIMING, (Status.DEVICE_FAULT, Stage.TIMING)),
        (Stage.COMPILE, (Status.DEVICE_FAULT, Stage.RUN)),  # of a kernel before it: the runtime looks on its own
        (Stage.REFERENCE, (Status.REFERENCE_FAILED, Stage.REFERENCE)),
    ],
)
def test_rocm_s_runtime_aborts_where_cuda_raises(stage, outcome, said):
    process = SimpleNamespace(exitcode=-6, is_alive=lambda: False)
    output = SimpleNamespace(of_cell=lambda number: f"a warning\n{said}\nAborted\n")
    job = Job(Evidence.MEASURED, CaseSource("case"), ())
    found = cause_of_death(Worker(Pending((job,)), process, None, output, stage=stage))
    assert (found.status, found.stage) == outcome
    assert found.message == f"signal SIGABRT: {said}"


def test_a_device_is_counted_among_those_that_the_user_left_visible():
    assert only_device(1, {})["CUDA_VISIBLE_DEVICES"] == "1"
    assert only_device(1, {"CUDA_VISIBLE_DEVICES": "4, 6"}) == dict.fromkeys(
        ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"), "6"
    )
