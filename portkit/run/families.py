"""Runs a case on inputs that kernels get wrong: one line of the verdict for each family.

The families are those of :data:`portkit.model.FAMILIES`, made from the case's own inputs
by exact operations, so that every host has the same bits. They run on a small shape of
the case: on a device that whose last axis is nearest to the cell's, since the last axis
decides the code; interpreted and emulated the smallest, since time is short there. Cells that
share it share the result.

The check is that of :mod:`portkit.run.verify`, with three differences:

* Such inputs are often badly conditioned (the variance of a constant row). So the limit
  has one term more: four times what the float64 reference itself changes when every
  input moves by one rounding of float32. A result is right if it is that of inputs so
  near.
* Where the unfused chain overflows on the same device, the fused function may too.
* ``denormal``: a device may take denormal numbers for zero. Each element may agree with
  the reference for the inputs as they are or for inputs flushed to zero.

In ``nan`` and ``inf`` the finite elements decide the status; whether NaN and Inf stand
where the reference has them is recorded beside it and decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from portkit.model import (
    FAMILIES,
    NONFINITE_FAMILIES,
    Cell,
    Direction,
    FamilyVerdict,
    KernelCase,
    Outcome,
    Shape,
    Stage,
    Status,
)
from portkit.run.calls import Results, Upstream, as_real, is_floating, upstream_for
from portkit.run.discrete import DiscreteRule
from portkit.run.inputs import InputMaker
from portkit.run.reference import ReferenceMaker, unfused
from portkit.run.tree import map_named_tensors, map_tensors, named_tensors
from portkit.run.verify import (
    Difference,
    Limit,
    Tolerance,
    compare,
    position,
    root_mean_square,
    what_is_wrong,
    worst_outcome,
)
from portkit.run.watched import GuardedStage, Ran, Runner, StageFailed, run_fused

_POWERS: Mapping[str, Mapping[str, int]] = {
    # dtype → power of two; others as float32
    "large": {"float16": 6, "float8_e4m3fn": 2, "float8_e5m2": 2, "float8_e4m3fnuz": 2, "float8_e5m2fnuz": 2},
    "tiny": {"float16": -10, "float8_e4m3fn": -4, "float8_e5m2": -4, "float8_e4m3fnuz": -4, "float8_e5m2fnuz": -4},
}
_DEFAULT_POWER = {"large": 40, "tiny": -40}
_MOVE = 2.0**-24
_MOVES = 4.0

_done: dict[tuple[object, ...], tuple[KernelCase, Families]] = {}
"""Results of this process; the case is kept so that its id stays its own."""


@dataclass(frozen=True)
class Families:
    """What all families of a cell showed."""

    lines: Mapping[str, FamilyVerdict]
    shape: Shape
    outcome: Outcome  # the worst; passed where all are right
    left_out: Mapping[str, str]  # family → why


def run_families(case: KernelCase, cell: Cell, runner: Runner, seed: int) -> Families:
    """Run every family that applies to a case.

    Raises:
        StageFailed: the device is lost.
    """
    small = replace(cell, shape=_family_shape(case, cell.shape, runner))
    key = (id(case), small.direction, small.shape, small.dtype, small.variant, runner.device, seed)
    if key not in _done:
        _done[key] = (case, _run_all(case, small, runner, seed))
    return _done[key][1]


def _family_shape(case: KernelCase, shape: Shape, runner: Runner) -> Shape:
    return min(case.small_shapes, key=math.prod, default=shape) if runner.hurried else nearest_small_shape(case, shape)


def nearest_small_shape(case: KernelCase, shape: Shape) -> Shape:
    """The case's small shape whose last axis is nearest to that of ``shape``."""
    return min(case.small_shapes, key=lambda small: abs(small[-1] - shape[-1]), default=shape)


def forms(case: KernelCase, cell: Cell) -> Iterator[tuple[KernelCase, Cell]]:
    """What a measured cell's families call that may be built anew: those whose form and not only values are others."""
    small = replace(cell, shape=nearest_small_shape(case, cell.shape))
    yield case, small
    if "tail" not in case.family_gaps and small.shape[-1] >= 2:
        yield case, _shorter(small)
    if "strided" not in case.family_gaps and case.strided_inputs:
        yield replace(case, inputs=lambda *given: _strided(case, case.inputs(*given))), small


def _shorter(cell: Cell) -> Cell:
    """The cell with one element less on its last axis."""
    return replace(cell, shape=(*cell.shape[:-1], cell.shape[-1] - 1))


def _strided(case: KernelCase, inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {n: map_tensors(_apart, x) if n in case.strided_inputs else x for n, x in inputs.items()}


def _run_all(case: KernelCase, cell: Cell, runner: Runner, seed: int) -> Families:
    left_out = {family: why for (family, dtype), why in runner.family_gaps.items() if dtype == cell.dtype}
    left_out.update(case.family_gaps)
    if not case.strided_inputs:
        left_out.setdefault("strided", "the case names no strided_inputs")
    if cell.shape[-1] < 2:
        left_out.setdefault("tail", "the last axis has one element")
    lines, outcomes = {}, []
    for name in FAMILIES:
        if name in left_out:
            continue
        try:
            lines[name], message = _Family(name, case, cell, runner, seed).run()
        except StageFailed as failed:
            if failed.outcome.status is Status.DEVICE_FAULT:
                raise StageFailed(replace(failed.outcome, message=f"family {name}: {failed.outcome.message}")) from None
            lines[name], message = (FamilyVerdict(failed.outcome.status, None, None, None), failed.outcome.message)
        if lines[name].status is not Status.PASSED:
            outcomes.append(Outcome(lines[name].status, Stage.VERIFY, f"family {name}: {message}"))
    return Families(lines, cell.shape, worst_outcome(outcomes), left_out)


@dataclass(frozen=True)
class _Family:
    """One family of one cell."""

    name: str
    case: KernelCase
    cell: Cell
    runner: Runner
    seed: int

    def run(self) -> tuple[FamilyVerdict, str]:
        """Its line, and what is wrong in words."""
        explain = self.runner.explain
        with GuardedStage(Stage.INPUTS, Status.CAPTURE_FAILED, explain):
            make = InputMaker(self.seed, self.runner.device)
            cell, inputs = self.inputs(make)
        with GuardedStage(Stage.REFERENCE, Status.BASELINE_FAILED, explain):
            upstream = self.upstream(cell, inputs, make)
            baseline = unfused(self.case, cell, inputs, upstream)
        with GuardedStage(Stage.REFERENCE, Status.REFERENCE_FAILED, explain):
            maker = ReferenceMaker(self.case, cell, self.runner.free_bytes)
            reference = maker.make(inputs, upstream)
            moved = maker.like(reference, map_tensors(self.moved, inputs), upstream)
            flushed = None
            if self.name == "denormal":
                flushed = maker.like(reference, map_tensors(_flushed, inputs), upstream)
            margins = maker.margins(reference, inputs)
        with GuardedStage(Stage.RUN, Status.LAUNCH_ERROR, explain):
            ran = run_fused(self.case, cell, inputs, upstream)
        with GuardedStage(Stage.VERIFY, Status.CAPTURE_FAILED, explain):
            found = _Found(ran, baseline, reference.results, moved, flushed, margins)
            return self.judge(cell, found)

    def inputs(self, make: InputMaker) -> tuple[Cell, dict[str, Any]]:
        """The cell and the family's inputs."""
        cell = _shorter(self.cell) if self.name == "tail" else self.cell
        inputs = self.case.inputs(make, cell.shape, cell.dtype)
        if self.name == "strided":
            return cell, _strided(self.case, inputs)
        floating = [place for place, tensor in named_tensors(inputs) if is_floating(tensor)]
        if self.name in NONFINITE_FAMILIES:
            floating = floating[:1]
        change = _CHANGES.get(self.name)
        if change is None:
            return cell, inputs
        return cell, map_named_tensors(lambda place, x: change(x) if place in floating and x.numel() else x, inputs)

    def moved(self, x: Any) -> Any:
        """Every element off by one rounding of float32, up or down.

        Equal elements move alike, for any kernel sees that they are equal; but those of
        constant rows do not: their sums are what is rounded.
        """
        if not is_floating(x):
            return x
        wide = x.to(torch.float64)
        places = torch.arange(1.0, x.numel() + 1, device=x.device, dtype=torch.float64).view(x.shape)
        sign = _mixed(places if self.name == "constant" else x) % 2 * 2 - 1
        return wide * (1 + _MOVE * sign)

    def upstream(self, cell: Cell, inputs: Mapping[str, Any], make: InputMaker) -> Upstream:
        """Gradients that come in, of the normal kind."""
        if cell.direction is Direction.FORWARD:
            return ()
        forward = replace(cell, direction=Direction.FORWARD)
        return upstream_for([t for _, t in unfused(self.case, forward, inputs).named], make)

    def judge(self, cell: Cell, found: _Found) -> tuple[FamilyVerdict, str]:
        """The output nearest to its limit decides."""
        if found.ran.beside:
            return FamilyVerdict(Status.OUT_OF_BOUNDS, None, None, None), "; ".join(found.ran.beside)
        if found.shapes_differ():
            return FamilyVerdict(Status.WRONG_RESULT, None, None, None), "outputs of another number, shape or dtype"
        tolerance = Tolerance(self.case, cell, self.runner.truncates)
        outputs = [self._output(tolerance, found, i, name) for i, name in found.present()]
        agree = all(own.nonfinite_agree for own, _, _ in outputs)
        wrong = [message for _, _, message in outputs if message]
        own, limit, _ = max(outputs, key=lambda each: _over(each[0], each[1]))
        status = Status.WRONG_RESULT if wrong else Status.PASSED
        return FamilyVerdict(status, _short(own.error), _short(limit.value), agree), "; ".join(wrong)

    def _output(self, tolerance: Tolerance, found: _Found, i: int, name: str) -> tuple[Difference, Limit, str]:
        """One output's error, its limit, and what is wrong with it in words."""
        result, reference = found.real(found.ran.results, i), found.real(found.reference, i)
        other, moved, flushed = found.real(found.baseline, i), found.real(found.moved, i), found.real(found.flushed, i)
        assert result is not None
        assert reference is not None
        assert other is not None
        assert moved is not None
        special = self.case.discrete.get(i) if name.isdigit() else None
        if special is not None or not result.is_floating_point():
            margin = found.margins.get(i)
            rule = DiscreteRule(
                margin, tolerance.band(special.band if special else None), special.step if special else None
            )
            finite = torch.isfinite(reference.to(torch.float64))  # of codes of fp8; others have no NaN
            share, index = rule.wrong(result, reference, finite if self.name in NONFINITE_FAMILIES else None)
            agree = bool((torch.isfinite(result.to(torch.float64)) == finite).all())
            own, limit = Difference(share, index, agree), Limit(0.0, rule.text)
        else:
            scale = root_mean_square(reference)
            unfused_error = compare(other, reference, scale, flushed=flushed).error
            terms = (
                1 if name.isdigit() else max(t.numel() for _, t in found.reference.named) // max(reference.numel(), 1)
            )
            conditioning = _MOVES * (compare(moved, reference, scale).error or 0.0)
            limit = tolerance.limit(result.dtype, unfused_error, scale, terms=terms, conditioning=conditioning)
            excused = None if self.name in NONFINITE_FAMILIES else other
            own = compare(result, reference, scale, flushed=flushed, excused=excused)
        right = own.error is None or own.error <= limit.value
        if right and (own.nonfinite_agree or self.name in NONFINITE_FAMILIES):
            return own, limit, ""
        return own, limit, what_is_wrong(name, own, limit, result, reference)


@dataclass(frozen=True)
class _Found:
    """Results of one family."""

    ran: Ran
    baseline: Results
    reference: Results
    moved: Results  # reference for inputs off by one rounding
    flushed: Results | None  # reference for inputs without denormals
    margins: Mapping[int, torch.Tensor]

    @staticmethod
    def real(results: Results | None, i: int) -> torch.Tensor | None:
        """An output, complex ones in parts."""
        tensor = results.tensors[i] if results else None
        return None if tensor is None else as_real(tensor)

    def present(self) -> list[tuple[int, str]]:
        """Position and name of what there is to judge."""
        return [(i, name) for i, name in enumerate(self.baseline.names) if self.baseline.tensors[i] is not None]

    def shapes_differ(self) -> bool:
        """Whether the fused results have not the form of the unfused chain's."""
        own, other = self.ran.results.tensors, self.baseline.tensors
        return [None if t is None else (t.shape, t.dtype) for t in own] != [
            None if t is None else (t.shape, t.dtype) for t in other
        ]


def _over(own: Difference, limit: Limit) -> float:
    """Error in units of its limit."""
    return (own.error or 0.0) / limit.value if limit.value else float(bool(own.error)) * 1e300


def _short(value: float | None) -> float | None:
    """Three digits: a record has no room for more."""
    return None if value is None else float(f"{value:.3g}")


def _times_power(family: str) -> Callable[[torch.Tensor], torch.Tensor]:
    def change(x: torch.Tensor) -> torch.Tensor:
        name = str(x.dtype).removeprefix("torch.")
        return (x.to(torch.float64) * 2.0 ** _POWERS[family].get(name, _DEFAULT_POWER[family])).to(x.dtype)

    return change


def _mixed(x: torch.Tensor) -> torch.Tensor:
    """A number of 24 bits for each element; the same for equal ones, so that what is alike stays alike."""
    return ((x.to(torch.float64).view(torch.int64) >> 20) * 2654435761 >> 40).bitwise_and_((1 << 24) - 1)


def _denormal(x: torch.Tensor) -> torch.Tensor:
    """Magnitudes of x, at most 1 of them, as shares of the smallest normal number."""
    wide = x.to(torch.float64)
    largest = float(wide.abs().max()) or 1.0
    return (wide * (torch.finfo(x.dtype).smallest_normal / largest * 0.99)).to(x.dtype)


def _constant(x: torch.Tensor) -> torch.Tensor:
    return x.clone().copy_(x[..., :1].expand(x.shape)) if x.dim() else x


def _ties(x: torch.Tensor) -> torch.Tensor:
    return ((x.to(torch.float64) * 2).round() / 2).to(x.dtype)


def _zeros(x: torch.Tensor) -> torch.Tensor:
    third = _mixed(x) % 3
    return x.clone().masked_fill_(third == 0, 0.0).masked_fill_(third == 1, -0.0)


def _with(*values: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """Each value in a row of its own, a third along it."""

    def change(x: torch.Tensor) -> torch.Tensor:
        out, length = x.clone(), x.shape[-1] if x.dim() else 1
        for row, value in enumerate(values[: x.numel() // length]):
            out[position(row * length + length // 3, x.shape)] = value
        return out

    return change


_CHANGES: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "large": _times_power("large"),
    "tiny": _times_power("tiny"),
    "denormal": _denormal,
    "constant": _constant,
    "ties": _ties,
    "zeros": _zeros,
    "nan": _with(float("nan")),
    "inf": _with(float("inf"), float("-inf")),
}


def _apart(x: Any) -> Any:
    """The same rows, 32 elements further apart: as aligned as they were."""
    if not isinstance(x, torch.Tensor) or x.dim() < 2:
        return x
    wide = x.new_zeros((*x.shape[:-1], x.shape[-1] + 32))
    wide[..., : x.shape[-1]] = x
    return wide[..., : x.shape[-1]]


def _flushed(x: Any) -> Any:
    if not is_floating(x):
        return x
    wide = x.to(torch.float64)
    return wide.masked_fill(wide.abs() < torch.finfo(x.dtype).smallest_normal, 0.0)
