"""Works through the cells of one job in a process made for it.

The process is forked from the supervisor, which has torch and Triton loaded and
has imported no user code. It may die at any point: what was finished has been
sent, and the supervisor knows what was under way.

It lives as long as its job, so measured cells of one case share a context of CUDA or
HIP; it gives up early where that context was ruined, and another takes over.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Protocol

from portkit.errors import CaseError
from portkit.garbage import Seldom
from portkit.model import Cell, CellResult, Evidence, KernelCase, Outcome, Shape, Stage, Status, Target
from portkit.plan.check import small_call
from portkit.run import ahead, stages
from portkit.run.baselines import DeviceLostError, Wanted
from portkit.run.build import Builder
from portkit.run.capture import Recorder, capture, observe
from portkit.run.ceilings.probe import probe_device
from portkit.run.checked import naming_imports
from portkit.run.classify import describe
from portkit.run.emulated import emulate_cell, emulate_from_here
from portkit.run.interpret import interpret_cell
from portkit.run.interpreted_calls import with_interpreter
from portkit.run.jobs import (
    Compiling,
    DeviceAnswers,
    DeviceRefuses,
    Entered,
    Finished,
    GivenUp,
    Job,
    Probed,
    Started,
    Trying,
    Unusable,
)
from portkit.run.load import load_case
from portkit.run.measure import Sanitize, measure_cell
from portkit.run.measured_cases import MeasuredCases
from portkit.run.output import mark
from portkit.run.pinned import device_answers, device_refusal, only_device
from portkit.run.processes import resident_bytes
from portkit.run.sanitize import Sanitized, sanitize_cell
from portkit.run.scrub import scrub
from portkit.run.shim import install
from portkit.run.stages import Stopwatch
from portkit.run.stand_in import claimed, for_interpreting, under
from portkit.run.texts import TextsOfBuilds
from portkit.run.torch_settings import kept_settings
from portkit.store.texts import BLOB as TEXTS

RunCell = Callable[[Cell], CellResult]


class Messages(Protocol):
    """Where a worker tells how it gets on."""

    def send(self, message: object) -> None:
        """Tell it."""


@dataclass(frozen=True)
class Timed:
    """Passes messages on, and has the stages timed that they tell of."""

    onwards: Messages
    stopwatch: Stopwatch = field(default_factory=Stopwatch)

    def send(self, message: object) -> None:
        """Pass a message on; a result with the seconds of its stages where its cell was measured."""
        match message:
            case Started():
                self.stopwatch.begin()
            case Entered(stage):
                self.stopwatch.enter(stage)
            case Compiling():
                self.stopwatch.enter(Stage.COMPILE)
            case Trying():
                self.stopwatch.enter(Stage.BASELINE)
            case Finished(result) if result.evidence is Evidence.MEASURED:
                message = Finished(replace(result, stage_seconds=self.stopwatch.seconds()))
        self.onwards.send(message)


@dataclass(frozen=True)
class Means:
    """How a job's cells run in this process."""

    run: RunCell
    still_usable: Callable[[], bool] = lambda: True  # asked after a cell that was not good
    serves: Callable[[Cell], bool] = lambda cell: True  # asked before each cell, and outside of it
    between: Callable[[], None] = lambda: None  # called behind each cell, and outside of it


def work(job: Job, connection: Connection) -> None:
    """Run every cell of the job and send each result as soon as it is there."""
    _work(job, Timed(connection))


def _work(job: Job, connection: Messages) -> None:
    if job.evidence is Evidence.MEASURED and not _take_device(job, connection):
        return
    if job.probe:
        connection.send(Probed(probe_device(_target(job), _device_id(job) or "")))
        return
    stages.listen(lambda stage: connection.send(Entered(stage)))
    means = _prepare(job, connection)
    if job.evidence is not Evidence.MEASURED:  # whose garbage may hold a device's memory
        means = replace(means, between=Seldom(functools.partial(resident_bytes, os.getpid())).look)
    work_through(job, means, connection)


def _take_device(job: Job, connection: Messages) -> bool:
    """Leave this process its GPU alone, and tell whether that answers."""
    if job.device is not None:  # before CUDA or HIP is initialised in this process
        os.environ.update(only_device(job.device.index, os.environ))
    refusal = device_refusal()
    connection.send(DeviceRefuses(scrub(refusal)) if refusal else DeviceAnswers())
    return refusal is None


def work_through(job: Job, means: Means, connection: Messages) -> None:
    """Run cells in order, up to one that leaves the process unusable."""
    for number, cell in enumerate(job.cells):
        if not means.serves(cell):
            connection.send(Unusable())
            return
        os.write(sys.stderr.fileno(), mark(number))
        connection.send(Started(job.evidence, cell))
        start = time.perf_counter()
        try:
            with kept_settings():  # a case that changes them must not change the next cells
                result = means.run(cell)
        except DeviceLostError as lost:
            connection.send(GivenUp(lost.name, lost.found))
            return
        seconds = time.perf_counter() - start
        connection.send(Finished(replace(result, seconds=seconds, device=_device_id(job))))
        means.between()
        if not (result.outcome.status.good or means.still_usable()):
            connection.send(Unusable())
            return


def _prepare(job: Job, connection: Messages) -> Means:
    makers = {
        Evidence.COMPILED: _builder,
        Evidence.EMULATED: _emulator,
        Evidence.INTERPRETED: _interpreter,
        Evidence.MEASURED: _device,
    }
    try:
        return makers[job.evidence](job, connection)
    except CaseError as error:
        outcome = Outcome(Status.CAPTURE_FAILED, Stage.IMPORT, scrub(error.render()))
        return Means(lambda cell: CellResult(cell, job.evidence, outcome))


def _builder(job: Job, connection: Messages) -> Means:
    target = _target(job)
    if why := _no_limits(target):
        missing = Outcome(Status.BACKEND_MISSING, Stage.LIMITS, f"{why}, so a build can't be judged")
        return Means(lambda cell: CellResult(cell, job.evidence, missing))
    answers, mode = install(target)
    recorder = Recorder(
        target,
        on_compile=lambda kernel: connection.send(Compiling(kernel, dict(answers.asked))),
        on_compiled=lambda: stages.enter(Stage.CAPTURE),
    )
    capture(recorder, answers, mode)
    with mode:
        case = load_case(job.source)
    build = with_texts(Builder(case, recorder, answers, mode, job.seed).build_cell, recorder.texts)
    return Means(naming_imports(build) if job.source.check else build)


def _emulator(job: Job, connection: Messages) -> Means:
    target = _target(job)
    if why := _no_limits(target):
        missing = Outcome(Status.BACKEND_MISSING, Stage.LIMITS, f"{why}, so its build can't be judged")
        return Means(lambda cell: CellResult(cell, job.evidence, missing))
    answers, mode = install(target, backing="cpu")
    recorder = Recorder(
        target,
        on_compile=lambda kernel: connection.send(Compiling(kernel, dict(answers.asked))),
        on_compiled=lambda: stages.enter(Stage.RUN),
    )
    emulator = emulate_from_here(recorder, answers, mode, job.lane_instructions)
    source = job.source if job.source.check is None else replace(job.source, check=small_call(job.source.check))
    with mode:
        case = load_case(source)
    case = claimed(mode, case)
    if source.check and source.check.reference is None:
        case = with_interpreter(case, source)
    case = emulator.counting(case)
    run = with_texts(lambda cell: emulate_cell(case, cell, emulator, recorder, seed=job.seed), recorder.texts)
    return Means(naming_imports(run) if source.check else run)


def _interpreter(job: Job, connection: Messages) -> Means:
    platform = for_interpreting()
    with platform:
        case = load_case(job.source)
    case = replace(case, fused=under(platform, case.fused))
    return Means(lambda cell: interpret_cell(case, cell, seed=job.seed))


def _device(job: Job, connection: Messages) -> Means:
    target, cases = _target(job), MeasuredCases(job)

    def run(cell: Cell) -> CellResult:
        try:
            case = cases.case_of(cell)
        except CaseError as error:
            outcome = Outcome(Status.CAPTURE_FAILED, Stage.IMPORT, scrub(error.render()))
            result = CellResult(cell, Evidence.MEASURED, outcome)
        else:
            result = measure(case, cell)
        cases.note(result)
        return result

    def watched() -> AbstractContextManager[Recorder]:
        return observe(
            target,
            on_compile=lambda kernel: connection.send(Compiling(kernel)),
            on_compiled=lambda: stages.enter(Stage.RUN),
            texts=texts,
            built=ahead.seconds,
        )

    def measure(case: KernelCase, cell: Cell) -> CellResult:
        known, trying = job.given_up.get(cell, {}), lambda name: connection.send(Trying(name))
        result = measure_cell(
            case,
            cell,
            target,
            observe=None if unjudged else watched,
            seed=job.seed,
            sanitize=sanitizers[cell.case],
            modes=job.modes,
            baselines=Wanted(cases.job_of(cell).baselines, known, trying, device_answers),
        )
        return replace(result, nulls={**result.nulls, "build": unjudged}) if unjudged else result

    unjudged, texts = _no_limits(target), TextsOfBuilds()
    sanitizers = {own.source.name: _sanitizer(own) if job.sanitize else None for own in job.by_case()}
    return Means(with_texts(run, texts), device_answers, cases.take_up)


def with_texts(run: RunCell, texts: TextsOfBuilds) -> RunCell:
    """What runs a cell, its result with the texts of its kernels."""

    def run_and_keep(cell: Cell) -> CellResult:
        result = run(cell)
        try:
            return replace(result, blobs={**result.blobs, **texts.blob(result.build)})
        except Exception as error:  # what a Triton to come has in another place costs the texts, not the cell
            return replace(result, nulls={**result.nulls, TEXTS: f"can't be read: {describe(error)}"})

    return run_and_keep


def _sanitizer(job: Job) -> Sanitize:
    """Cells that differ in their large shape alone share one run of the tools."""

    @functools.cache
    def run(cell: Cell, shape: Shape) -> Sanitized:
        return sanitize_cell(job.source, cell, shape=shape, seed=job.seed)

    return lambda cell, shape: run(replace(cell, shape=shape), shape)


def _device_id(job: Job) -> str | None:
    return job.device.device_id if job.device else None


def _no_limits(target: Target) -> str | None:
    """Why launches on the target can't be judged; None where they can."""
    arch = target.architecture
    return None if arch.sourced else f"no source that portkit has gives the limits of {arch.name}"


def _target(job: Job) -> Target:
    if job.target is None:
        raise ValueError(f"a {job.evidence} job needs a target")
    return job.target
