"""A cell's runner, the stages that may fail it, and one watched call of its fused function."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from portkit.model import Build, Cell, Direction, KernelCase, Outcome, Stage, Status
from portkit.run import stages
from portkit.run.calls import Results, Upstream, call
from portkit.run.classify import describe, failing_line
from portkit.run.guards import Guards, same_bits
from portkit.run.reference import FreeBytes, free_bytes
from portkit.run.tree import map_named_tensors, named_tensors

Explain = Callable[[BaseException, Stage], Outcome | None]
"""Outcome of an exception that the device explains whatever the stage; None for others."""


class Recorder(Protocol):
    """What records the launches made while it is open."""

    gradients: bool  # whether they are those of a backward cell

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
    family_gaps: Mapping[tuple[str, str], str] = field(default_factory=dict)  # family, dtype → why it says nothing here
    hurried: bool = False  # families on the case's smallest shape
    free_bytes: FreeBytes = free_bytes


@dataclass(frozen=True)
class Ran:
    """One watched call of the fused function."""

    results: Results
    beside: tuple[str, ...]  # writes outside of tensors, in words
    changed: tuple[str, ...]  # inputs written to that are not declared in place
    build: Build | None  # None: nobody observed the launches


def run_fused(
    case: KernelCase, cell: Cell, inputs: Mapping[str, Any], upstream: Upstream = (), observe: Observe | None = None
) -> Ran:
    """Call the fused function on copies of the inputs between guard bands."""
    guards = Guards()
    copies = map_named_tensors(guards.copy, inputs)
    before = dict(named_tensors(copies))  # the function may put others in their lists
    incoming = tuple(None if x is None else guards.copy("upstream gradient", x) for x in upstream)
    params = case.variants[cell.variant]
    with contextlib.nullcontext() if observe is None else observe() as recorder:
        if recorder:
            recorder.gradients = cell.direction is Direction.BACKWARD
        with guards:
            results = call(lambda **given: case.fused(**given, **params), case, cell, copies, incoming)
        settle(results)
    kind = "output " if cell.direction is Direction.FORWARD else ""
    beside = guards.faults([(f"{kind}{name}", tensor) for name, tensor in results.named])
    changed = _changed({n: v for n, v in inputs.items() if n not in case.in_place}, before)
    return Ran(results, tuple(beside), changed, recorder.take() if recorder else None)


def _changed(inputs: Mapping[str, Any], copies: Mapping[str, torch.Tensor]) -> tuple[str, ...]:
    """Places of tensors that the function wrote to."""
    return tuple(place for place, tensor in named_tensors(inputs) if not same_bits(tensor, copies[place]))


def settle(results: Results) -> Results:
    """Wait for the device, so that a fault shows in the stage that made it."""
    if any(tensor.is_cuda for _, tensor in results.named):
        torch.cuda.synchronize()
    return results


@dataclass(frozen=True)
class GuardedStage:
    """Turns what a stage raises into the outcome of its cell, as ``StageFailed``.

    No generator: from Python 3.12 on, one that raises another exception leaves the first in a
    cycle with the frames it came from, and they hold tensors (seen: 60 GB of a device).
    """

    stage: Stage
    status: Status  # where the device does not explain it
    explain: Explain

    def __enter__(self) -> None:
        stages.enter(self.stage)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, StageFailed) or not isinstance(error, Exception):
            return
        own = Outcome(self.status, self.stage, f"{describe(error)} at {failing_line(error)}")
        raise StageFailed(self.explain(error, self.stage) or own) from error
