"""Runs fused function, unfused chain and float64 reference of a cell, and judges them.

What interpreted and measured cells share. Each stage that raises ends the cell with an
outcome of its own; what failed in the fused run is told apart by the caller, which
knows the device.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from portkit.model import Build, Cell, Direction, KernelCase, Outcome, Stage, Status, Verdict, Work
from portkit.run.calls import Results, Upstream, upstream_for
from portkit.run.classify import describe, failing_line
from portkit.run.families import Families, run_families
from portkit.run.fingerprint import fingerprint
from portkit.run.guards import same_bits
from portkit.run.inputs import InputMaker, hash_tensors
from portkit.run.reference import Reference, ReferenceMaker
from portkit.run.tree import map_tensors
from portkit.run.verify import Run, judge, worst_outcome
from portkit.run.watched import GuardedStage, Observe, Ran, Runner, StageFailed, run_fused, settle

__all__ = [
    "Evaluation",
    "Given",
    "Observe",
    "Runner",
    "StageFailed",
    "evaluate",
    "given_for",
    "run_unjudged",
    "work_of",
]

RUNS = 3
"""Calls of the fused function on the same inputs, compared bit by bit."""


@dataclass(frozen=True)
class Given:
    """Inputs of a cell and what its results are judged by: the same for all variants."""

    inputs: dict[str, Any]
    input_hash: str
    upstream: Upstream
    reference: Reference
    margins: dict[int, torch.Tensor]
    stale: Results
    baseline: Results


@dataclass(frozen=True)
class Evaluation:
    """A judged cell, with what comes after needs."""

    inputs: dict[str, Any]
    upstream: Upstream  # gradients that come in; empty for a forward cell
    run: Run | None  # what was judged, with the reference that judges baselines, too; None: given up for its memory
    verdict: Verdict
    outcome: Outcome
    build: Build | None  # None: nobody observed the launches
    fingerprint: bytes
    nulls: dict[str, str]  # what of the verdict is unknown, and why


def given_for(case: KernelCase, cell: Cell, runner: Runner, *, seed: int) -> Given:
    """Make the inputs of a cell and run what is no part of its variant: float64 reference and unfused chain.

    Raises:
        StageFailed: a stage raised; carries the cell's outcome.
    """
    explain = runner.explain
    maker = ReferenceMaker(case, cell, runner.free_bytes)
    with GuardedStage(Stage.INPUTS, Status.CAPTURE_FAILED, explain):
        make = InputMaker(seed, runner.device)
        inputs = case.inputs(make, cell.shape, cell.dtype)
        input_hash = hash_tensors(inputs)
    with GuardedStage(Stage.REFERENCE, Status.REFERENCE_FAILED, explain):
        upstream = _upstream(case, cell, inputs, make, maker)
        reference = maker.make(inputs, upstream)
        settle(reference.results)
        margins = maker.margins(reference, inputs)
        stale = maker.like(reference, _other_inputs(case, cell, runner, seed), upstream)
    with GuardedStage(Stage.REFERENCE, Status.BASELINE_FAILED, explain):
        baseline = settle(maker.chain(inputs, upstream))
    return Given(inputs, input_hash, upstream, reference, margins, stale, baseline)


def evaluate(case: KernelCase, cell: Cell, runner: Runner, *, seed: int, given: Given | None = None) -> Evaluation:
    """Run and judge one cell, forward or backward, and its input families.

    Args:
        case: the case.
        cell: a cell of it.
        runner: how it runs.
        seed: of the inputs.
        given: of a cell that differs in its variant alone; made anew unless given.

    Raises:
        StageFailed: a stage raised; carries the cell's outcome.
    """
    explain = runner.explain
    given = given or given_for(case, cell, runner, seed=seed)
    inputs, upstream = given.inputs, given.upstream
    with GuardedStage(Stage.RUN, Status.LAUNCH_ERROR, explain):
        ran, repeatable = _run_repeatedly(case, cell, inputs, upstream, runner)
    with GuardedStage(Stage.VERIFY, Status.CAPTURE_FAILED, explain):
        run = Run(
            input_hash=given.input_hash,
            fused=ran.results,
            unfused=given.baseline,
            reference=given.reference,
            stale=given.stale,
            margins=given.margins,
            beside=ran.beside,
            changed=ran.changed,
            repeatable=repeatable,
            runs=RUNS,
            truncates=runner.truncates,
        )
        verdict, outcome = judge(case, cell, run)
        printed = fingerprint(ran.results.named, given.input_hash)
    families = run_families(case, cell, runner, seed)
    return Evaluation(
        inputs,
        upstream,
        run,
        replace(verdict, families=families.lines, families_shape=families.shape),
        worst_outcome([each for each in (outcome, families.outcome) if each.status is not Status.PASSED]),
        ran.build,
        printed,
        _left_out(families),
    )


def run_unjudged(case: KernelCase, cell: Cell, runner: Runner, *, seed: int) -> tuple[Ran, bool]:
    """Run a forward cell that has no reference to be judged by: what shows all the same.

    Returns:
        The first run, and whether the others gave the same bits.

    Raises:
        StageFailed: a stage raised; carries the cell's outcome.
    """
    with GuardedStage(Stage.INPUTS, Status.CAPTURE_FAILED, runner.explain):
        inputs = case.inputs(InputMaker(seed, runner.device), cell.shape, cell.dtype)
    with GuardedStage(Stage.RUN, Status.LAUNCH_ERROR, runner.explain):
        return _run_repeatedly(case, cell, inputs, (), runner)


def work_of(case: KernelCase, cell: Cell) -> tuple[Work | None, dict[str, str]]:
    """The work of a cell's direction; where the case has no model of it or it raises, none, and the reason as a null.

    A verdict needs no work model, so the cell's status does not change.
    """
    model = case.work_model(cell.direction)
    if model is None:
        backward = cell.direction is Direction.BACKWARD
        why = "no backward_work, and its work model is that of the forward pass" if backward else "no work model"
        return None, {"work": f"the case has {why}"}
    try:
        work = model(cell.shape, cell.dtype)
    except Exception as error:
        return None, {"work": f"the case's work model raised {describe(error)} at {failing_line(error)}"}
    if not isinstance(work, Work):
        return None, {"work": f"the case's work model returned {type(work).__name__}, not portkit.Work"}
    return work, {}


def _upstream(
    case: KernelCase, cell: Cell, inputs: dict[str, Any], make: InputMaker, maker: ReferenceMaker
) -> Upstream:
    """Gradients that come in, of the shape and dtype of the forward outputs."""
    if cell.direction is Direction.FORWARD:
        return ()
    forward = replace(cell, direction=Direction.FORWARD)
    outputs = replace(maker, cell=forward).chain(inputs)
    return upstream_for([tensor for _, tensor in outputs.named], make)


def _other_inputs(case: KernelCase, cell: Cell, runner: Runner, seed: int) -> dict[str, Any]:
    """Other values, half as large: what an earlier call may have worked on."""
    inputs: dict[str, Any] = map_tensors(
        _halved, case.inputs(InputMaker(seed + 1, runner.device), cell.shape, cell.dtype)
    )
    return inputs


def _halved(value: torch.Tensor) -> torch.Tensor:
    if not (value.is_floating_point() or value.is_complex()):
        return value
    return (value.to(torch.float32) / 2).to(value.dtype) if value.element_size() == 1 else value / 2


def _run_repeatedly(
    case: KernelCase, cell: Cell, inputs: dict[str, Any], upstream: Upstream, runner: Runner
) -> tuple[Ran, bool]:
    """The first run, and whether the others gave the same bits; faults of all of them."""
    first = run_fused(case, cell, inputs, upstream, runner.observe)
    repeatable = True
    for _ in range(RUNS - 1):
        again = run_fused(case, cell, inputs, upstream)
        repeatable = repeatable and _same(first, again)
        first = replace(
            first,
            beside=tuple(dict.fromkeys((*first.beside, *again.beside))),
            changed=tuple(dict.fromkeys((*first.changed, *again.changed))),
        )
    return first, repeatable


def _same(one: Ran, other: Ran) -> bool:
    pairs = zip(one.results.tensors, other.results.tensors, strict=False)
    return len(one.results.tensors) == len(other.results.tensors) and all(
        a is b if a is None or b is None else _alike(a, b) for a, b in pairs
    )


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    form = ((one.shape, one.stride(), one.dtype), (other.shape, other.stride(), other.dtype))
    return form[0] == form[1] and same_bits(one, other)


def _left_out(families: Families) -> dict[str, str]:
    return {f"verdict.families.{name}": why for name, why in families.left_out.items()}
