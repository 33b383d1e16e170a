"""Works through the cells of one job in a process made for it.

The process is forked from the supervisor, which has torch and Triton loaded and
has imported no user code. It may die at any point: what was finished has been
sent, and the supervisor knows what was under way.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection

from portkit.errors import CaseError
from portkit.model import Cell, CellResult, Evidence, Outcome, Stage, Status, Target
from portkit.run.build import Builder
from portkit.run.capture import Recorder, capture, observe
from portkit.run.interpret import interpret_cell
from portkit.run.jobs import Compiling, Finished, Job, Started
from portkit.run.load import load_case
from portkit.run.measure import measure_cell
from portkit.run.scrub import scrub
from portkit.run.shim import install

RunCell = Callable[[Cell], CellResult]


def work(job: Job, connection: Connection) -> None:
    """Run every cell of the job and send each result as soon as it is there."""
    run = _prepare(job, connection)
    for cell in job.cells:
        connection.send(Started(cell))
        start = time.perf_counter()
        result = run(cell)
        connection.send(Finished(replace(result, seconds=time.perf_counter() - start)))


def _prepare(job: Job, connection: Connection) -> RunCell:
    makers = {Evidence.COMPILED: _builder, Evidence.INTERPRETED: _interpreter, Evidence.MEASURED: _device}
    try:
        return makers[job.evidence](job, connection)
    except CaseError as error:
        outcome = Outcome(Status.CAPTURE_FAILED, Stage.IMPORT, scrub(error.render()))
        return lambda cell: CellResult(cell, job.evidence, outcome)


def _builder(job: Job, connection: Connection) -> RunCell:
    target = _target(job)
    answers, mode = install(target)
    recorder = Recorder(target, lambda kernel: connection.send(Compiling(kernel, dict(answers.asked))))
    capture(recorder, answers)
    with mode:
        case = load_case(job.source)
    return Builder(case, recorder, answers, mode, job.seed).build_cell


def _interpreter(job: Job, connection: Connection) -> RunCell:
    case = load_case(job.source)
    return lambda cell: interpret_cell(case, cell, seed=job.seed)


def _device(job: Job, connection: Connection) -> RunCell:
    target = _target(job)
    if job.device_index is not None:  # before CUDA or HIP is initialised in this process
        os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["HIP_VISIBLE_DEVICES"] = str(job.device_index)
    case = load_case(job.source)
    return lambda cell: measure_cell(case, cell, target, observe=lambda: observe(target), seed=job.seed)


def _target(job: Job) -> Target:
    if job.target is None:
        raise ValueError(f"a {job.evidence} job needs a target")
    return job.target
