"""Runs fused function, unfused chain and float64 reference of a cell, and judges them.

What interpreted and measured cells share. Each stage that raises ends the cell with an
outcome of its own; what failed in the fused run is told apart by the caller, which
knows the device.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from portkit.model import Build, Cell, Direction, KernelCase, Outcome, Stage, Status, Verdict
from portkit.run import stages
from portkit.run.classify import describe, failing_line
from portkit.run.inputs import InputMaker, hash_tensors
from portkit.run.reference import Outputs, as_outputs, float64_reference, unfused
from portkit.run.verify import Run, judge

Explain = Callable[[BaseException, Stage], Outcome | None]
"""Outcome of an exception that the device explains whatever the stage; None for others."""


class Recorder(Protocol):
    """What records the launches made while it is open."""

    def take(self) -> Build:
        """The build of the launches so far."""


Observe = Callable[[], contextlib.AbstractContextManager[Recorder]]
"""Opens a recorder of launches."""


class StageFailed(Exception):  # noqa: N818  (an event of the run, not an error of portkit)
    """A stage ended the cell."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        super().__init__(outcome.message)


@dataclass(frozen=True)
class Runner:
    """How cells run on a device, or in the interpreter."""

    device: str  # cpu or cuda
    explain: Explain
    observe: Observe | None = None  # None: launches are not recorded
    truncates: bool = False  # conversions to bfloat16 cut instead of rounding


@dataclass(frozen=True)
class Evaluation:
    """A judged cell, with the inputs for what comes after."""

    inputs: dict[str, Any]
    verdict: Verdict
    outcome: Outcome
    build: Build | None  # None: nobody observed the launches


def evaluate(case: KernelCase, cell: Cell, runner: Runner, *, seed: int) -> Evaluation:
    """Run and judge one forward cell.

    Raises:
        StageFailed: a stage raised; carries the cell's outcome.
    """
    if cell.direction is Direction.BACKWARD:
        raise StageFailed(Outcome(Status.CAPTURE_FAILED, Stage.VERIFY, "gradients are built, not yet judged"))
    explain = runner.explain
    with _stage(Stage.INPUTS, Status.CAPTURE_FAILED, explain):
        inputs = case.inputs(InputMaker(seed, runner.device), cell.shape, cell.dtype)
        input_hash = hash_tensors(inputs)
    with _stage(Stage.REFERENCE, Status.REFERENCE_FAILED, explain):
        reference64 = _settled(float64_reference(case, inputs))
    with _stage(Stage.REFERENCE, Status.BASELINE_FAILED, explain):
        baseline = _settled(unfused(case, inputs))
    with _stage(Stage.RUN, Status.LAUNCH_ERROR, explain):
        fused, build = _run_fused(case, cell, inputs, runner.observe)
    with _stage(Stage.VERIFY, Status.CAPTURE_FAILED, explain):
        run = Run(inputs, input_hash, fused, baseline, reference64, runner.truncates)
        verdict, outcome = judge(case, cell, run)
    return Evaluation(inputs, verdict, outcome, build)


def _run_fused(
    case: KernelCase, cell: Cell, inputs: dict[str, Any], observe: Observe | None
) -> tuple[Outputs, Build | None]:
    params = case.variants[cell.variant]
    with torch.no_grad():
        if observe is None:
            return _settled(as_outputs(case.fused(**inputs, **params))), None
        with observe() as recorder:
            outputs = _settled(as_outputs(case.fused(**inputs, **params)))
        return outputs, recorder.take()


def _settled(outputs: Outputs) -> Outputs:
    """Wait for the device, so that a fault shows in the stage that made it."""
    if any(x.is_cuda for x in outputs):
        torch.cuda.synchronize()
    return outputs


@contextlib.contextmanager
def _stage(stage: Stage, status: Status, explain: Explain) -> Iterator[None]:
    try:
        stages.enter(stage)
        yield
    except Exception as error:
        own = Outcome(status, stage, f"{describe(error)} at {failing_line(error)}")
        raise StageFailed(explain(error, stage) or own) from error
