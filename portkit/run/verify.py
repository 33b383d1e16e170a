"""Judges a fused result against float64, and the judgement by negative controls.

**Error** of an output is ``max |result - reference| / (|reference| + scale)``, where
``scale`` is the root mean square of the reference (1 where it is zero throughout):
relative for large elements, and finite where an element is near zero. NaN and Inf
must stand where the reference, rounded to the output's dtype, has them; all other
elements enter the error.

**Limit** of an output, unless the case states one for the dtype:

    limit = 2 e + r + u (16 + 4 log2 n) + c

    e   error of the unfused chain in the same dtype on the same device. Fusion must
        not cost accuracy; 2, because both are the largest of many random errors. A
        chain so bad that the check would say nothing (below) is no excuse to a result
        that needs none: it is held to 15/16 of the error that every check must see. One
        that does not keep to that is judged with a scale of its place, below.
    r   rounding to the output's dtype: half its epsilon, and half its smallest
        subnormal over ``scale``. Twice that where a conversion cuts instead of
        rounding: Triton's interpreter does, to bfloat16.
    u   2^-24, the rounding of float32, in which kernels accumulate; 2^-11 where the
        case lets products use tf32 or xf32; 2^-53 for a float64 output.
    16  exp, rsqrt and division of GPUs: each within 2 ulp = 4 u (PTX ISA: ex2.approx,
        rsqrt.approx, div.full), and exp(x) takes x log2(e) u from its argument.
    n   terms summed into one output. A sum by halves errs by at most u log2 n
        (Higham, "The accuracy of floating point summation", 1993); 4 for lanes that
        first add some terms one after another. A gradient sums over what its input was
        broadcast to as well.
    c   conditioning, for input families alone: see :mod:`portkit.run.families`.

**Scale by place**: where the limit is too wide for the check to say anything, and the
result does not keep to a narrower one, an element's scale is the root mean square over
its place, its index of the last axis but one (:mod:`portkit.run.scale`), or that of the
whole where that is larger. Errors and limit are taken anew by it, and count where the
check says something then.

A complex output is judged by its real and imaginary parts, on a last axis of their own.
An output without elements is right in the right form.
Integer and bool outputs must be exact, and outputs with a rule of their own follow
:mod:`portkit.run.discrete`.

**Controls** (:mod:`portkit.run.controls`): the same check must refuse wrong results made
for it. A limit too wide to do so, or a reference that says nothing, is a ``weak_check``
and no verdict.

A change of the rule, its terms or the controls raises ``VERDICT_RULE`` of :mod:`portkit.model`.

All comparisons go in chunks: temporaries stay under 300 MiB.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from portkit.model import VERDICT_RULE, Cell, KernelCase, Outcome, OutputError, Stage, Status, Verdict
from portkit.run.calls import Results, as_real
from portkit.run.controls import VISIBLE, controls, differing, visible
from portkit.run.discrete import DiscreteRule
from portkit.run.guards import unwritten
from portkit.run.inputs import hash_tensors
from portkit.run.reference import Reference
from portkit.run.scale import PlaceScale, Scale, by_place

__all__ = ["UNFUSED_MULTIPLE", "VISIBLE", "Run", "compare", "judge", "judge_baseline", "worst_outcome"]

UNFUSED_MULTIPLE = 2.0
"""How many times the unfused chain's error a fused result may have."""
DRAWN_IN = 15 / 16
"""Limit of a result that needs no more, as a share of the error that must be seen."""

_CHUNK = 1 << 22  # elements compared at once; 32 MiB in float64


@dataclass(frozen=True)
class Difference:
    """What comparing a result with its reference found."""

    error: float | None  # None: nothing finite to compare; 0 over no elements
    index: int  # of the worst element, in the flattened output
    nonfinite_agree: bool

    def within(self, limit: float) -> bool:
        """Whether a result so far off is right."""
        return self.nonfinite_agree and self.error is not None and self.error <= limit


@dataclass(frozen=True)
class Limit:
    """Largest error of a right result, and how it came about."""

    value: float
    rule: str


@dataclass(frozen=True)
class Run:
    """What the runs of a cell left to judge."""

    input_hash: str  # ``hash_tensors`` of the inputs before they ran
    fused: Results
    unfused: Results  # of the unfused chain in the cell's dtype
    reference: Reference  # of the unfused chain in float64
    stale: Results | None = None  # reference for other inputs
    margins: Mapping[int, torch.Tensor] = field(default_factory=dict)  # position of a discrete output → its margins
    beside: tuple[str, ...] = ()  # writes outside of tensors, in words
    changed: tuple[str, ...] = ()  # inputs written to that are not declared in place
    repeatable: bool | None = None  # whether all runs gave the same bits
    runs: int = 1
    truncates: bool = False  # conversions to bfloat16 cut instead of rounding


def judge(case: KernelCase, cell: Cell, run: Run) -> tuple[Verdict, Outcome]:
    """Whether the fused results are right, and whether this check could have said no.

    Returns:
        The verdict, and ``passed`` or the first that applies of ``weak_check``,
        ``out_of_bounds``, ``wrong_result`` and ``nondeterministic``.
    """
    verdict = Verdict(
        outputs=(),
        input_hash=run.input_hash,
        output_hash=hash_tensors(dict(run.fused.named)),
        controls={},
        repeatable=run.repeatable,
        runs=run.runs,
        guards_intact=not run.beside,
        reference=run.reference.how,
        rule_version=VERDICT_RULE,
    )
    fault = _fault_of_form(run, _other(case))
    if fault is not None:
        return verdict, worst_outcome([*_outcomes(case, run), Outcome(Status.WRONG_RESULT, Stage.VERIFY, fault)])
    judged = [_judge_output(case, cell, output, run.truncates) for output in _outputs(case, run)]
    refused = _all_refused([one for _, _, one in judged])
    empty = bool(judged) and all(t.numel() == 0 for _, t in run.fused.named)
    outcomes = [*([] if empty else _weakness(refused)), *_outcomes(case, run)]
    if messages := [message for _, message, _ in judged if message]:
        outcomes.append(Outcome(Status.WRONG_RESULT, Stage.VERIFY, "; ".join(messages)))
    return replace(verdict, outputs=tuple(o for o, _, _ in judged), controls=refused), worst_outcome(outcomes)


def judge_baseline(case: KernelCase, cell: Cell, run: Run) -> tuple[tuple[OutputError, ...], str]:
    """Errors of a baseline's outputs by the fused function's own rule, and what is wrong in words.

    Without controls: they try the check, which is the cell's. A library may give an output in the
    cell's dtype where the case's is wider, as a loss in the logits': that rounding is in its limit.

    Args:
        case: the case.
        cell: a cell of it.
        run: the cell's, with the results of the baseline in place of the fused ones.
    """
    if fault := _fault_of_form(run, _other(case), getattr(torch, cell.dtype)):
        return (), fault
    tolerance = Tolerance(case, cell, run.truncates)
    found = [
        _compare_discrete(output, _rule_of(tolerance, output))
        if output.discrete
        else _compare_float(tolerance, output)[:2]
        for output in _outputs(case, run)
    ]
    return tuple(error for error, _ in found), "; ".join(message for _, message in found if message)


def worst_outcome(outcomes: Sequence[Outcome]) -> Outcome:
    """The first in the order of :class:`Status`; ``passed`` where there is none."""
    order = list(Status)
    return min(outcomes, key=lambda outcome: order.index(outcome.status), default=Outcome(Status.PASSED))


def compare(
    result: torch.Tensor,
    reference: torch.Tensor,
    scale: Scale,
    *,
    at: torch.Tensor | None = None,
    flushed: torch.Tensor | None = None,
    excused: torch.Tensor | None = None,
) -> Difference:
    """Largest error of ``result`` against a float64 reference of the same shape.

    Args:
        result: in the output's dtype.
        reference: in float64.
        scale: root mean square of the reference, or scales by place.
        at: positions of the elements in the flattened output; all of it if left out.
        flushed: another reference that is as right, element by element.
        excused: a result whose NaN and Inf are as right as the reference's.
    """
    flat = result.reshape(-1)
    others = [None if x is None else x.reshape(-1) for x in (reference, flushed, excused)]
    parts = [
        _compare_part(
            flat[part],
            *(None if x is None else x[part] for x in others),
            scale=scale.at(_positions(part, at, flat.device)) if isinstance(scale, PlaceScale) else scale,
        )
        for part in _chunks(flat.numel())
    ]
    if not parts:
        return Difference(0.0, 0, True)
    value, chunk = torch.stack([part.worst for part in parts]).max(dim=0)
    found = (
        torch.stack([part.agree for part in parts]).all(),
        torch.stack([part.compared for part in parts]).any(),
        value,
        torch.stack([part.where for part in parts]).index_select(0, chunk.view(1)).squeeze(0) + chunk * _CHUNK,
    )
    # One wait for the device; float64 holds every index exactly.
    agree, compared, worst, index = torch.stack([each.to(torch.float64) for each in found]).tolist()
    return Difference(worst, int(index), bool(agree)) if compared else Difference(None, 0, bool(agree))


@dataclass(frozen=True)
class _Part:
    """Findings of one chunk, on the device."""

    worst: torch.Tensor
    where: torch.Tensor  # within the chunk
    agree: torch.Tensor
    compared: torch.Tensor  # whether anything was finite


def _compare_part(
    result: torch.Tensor,
    reference: torch.Tensor,
    flushed: torch.Tensor | None,
    excused: torch.Tensor | None,
    *,
    scale: float | torch.Tensor,
) -> _Part:
    got, wanted = result.to(torch.float64), reference.to(torch.float64)
    rounded = wanted.to(result.dtype).to(torch.float64)
    finite = got.isfinite() & rounded.isfinite()
    agree = finite | _alike(got, rounded)
    if excused is not None:
        other = excused.to(torch.float64)
        agree |= _alike(got, other) & ~other.isfinite()
    error = (got - wanted).abs_() / (wanted.abs() + scale)
    if flushed is not None:
        error = torch.minimum(error, (got - flushed).abs_() / (wanted.abs() + scale))
    worst, where = error.masked_fill_(~finite, 0.0).max(dim=0)
    return _Part(worst, where, agree.all(), finite.any())


def _alike(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one == other) | (one.isnan() & other.isnan())


def root_mean_square(reference: torch.Tensor) -> float:
    """Root mean square of the finite elements; 1 where it would be zero."""
    flat = reference.reshape(-1)
    total = torch.zeros((), dtype=torch.float64, device=flat.device)
    count, largest = total.clone(), _largest_finite(flat)
    by = torch.where(largest > 0, largest, 1.0)
    for chunk in _chunks(flat.numel()):
        part = flat[chunk].to(torch.float64)
        finite = part.isfinite()
        # Over the largest: the square of 1e-200 is 0 in float64.
        total += part.masked_fill(~finite, 0.0).div_(by).square_().sum()
        count += finite.sum()
    squares, finite_count, scale = torch.stack([total, count, largest]).tolist()  # one wait for the device
    return math.sqrt(squares / max(finite_count, 1.0)) * scale or 1.0


def _largest_finite(flat: torch.Tensor) -> torch.Tensor:
    largest = torch.zeros((), dtype=torch.float64, device=flat.device)
    for chunk in _chunks(flat.numel()):
        part = flat[chunk].to(torch.float64)
        largest = torch.maximum(largest, part.masked_fill(~part.isfinite(), 0.0).abs().max())
    return largest


@dataclass(frozen=True)
class Tolerance:
    """The rule of the module's docstring for one cell."""

    case: KernelCase
    cell: Cell
    truncates: bool = False

    def limit(
        self,
        dtype: torch.dtype,
        unfused_error: float | None,
        scale: float,
        *,
        terms: int = 1,
        conditioning: float | None = None,
    ) -> Limit:
        """Limit of an output of ``dtype`` whose reference has the root mean square ``scale``.

        Args:
            dtype: of the output.
            unfused_error: of the unfused chain; None where it is not finite.
            scale: root mean square of the reference.
            terms: at least so many were summed into one element.
            conditioning: what inputs off by one rounding change, where that counts.
        """
        if (own := self._own()) is not None:
            return Limit(own, f"the case's own limit for {self.cell.dtype}")
        if not dtype.is_floating_point:
            return Limit(0.0, "exact")
        rounding, rounding_name = self._rounding(dtype, scale)
        unit, unit_name = self._accumulation(dtype)
        growth = self.growth(terms)
        value = UNFUSED_MULTIPLE * (unfused_error or 0.0) + rounding + unit * growth + (conditioning or 0.0)
        known = "unfused not finite" if unfused_error is None else f"{UNFUSED_MULTIPLE:g} x unfused {unfused_error:.1e}"
        moved = "" if conditioning is None else f" + conditioning {conditioning:.1e}"
        return Limit(value, f"{known} + {rounding_name} {rounding:.1e} + {unit_name} {unit:.1e} x {growth:.0f}{moved}")

    def drawn_in(self, limit: Limit, own: Difference, result: torch.Tensor) -> Limit:
        """A limit so wide that the check would say nothing, for a result that keeps to a narrower one."""
        most = DRAWN_IN * visible(result.dtype) if self.is_blind(limit, result) else 0.0
        return Limit(most, f"{limit.rule}, drawn in to {most:.1e}") if most and own.within(most) else limit

    def is_blind(self, limit: Limit, result: torch.Tensor) -> bool:
        """Whether the rule gave a limit so wide that the check says nothing."""
        derived = self._own() is None and result.dtype.is_floating_point
        return derived and limit.value > DRAWN_IN * visible(result.dtype)

    def _own(self) -> float | None:
        """What the case says for this dtype and shape."""
        own = self.case.limits.get(self.cell.dtype)
        return own(self.cell.shape) if callable(own) else own

    def growth(self, terms: int = 1) -> float:
        """Roundings that a right result may be off by."""
        return 16 + 4 * math.log2(max(self.case.reduction_length(self.cell.shape), terms, 1))

    def band(self, given: float | None) -> float:
        """The band around ties of a discrete output."""
        return given if given is not None else self._accumulation(torch.float32)[0] * self.growth()

    def _accumulation(self, dtype: torch.dtype) -> tuple[float, str]:
        if dtype is torch.float64:
            return 2.0**-53, "float64"
        return (2.0**-11, "tf32") if self.case.allow_tf32 else (2.0**-24, "float32")

    def _rounding(self, dtype: torch.dtype, scale: float) -> tuple[float, str]:
        info = torch.finfo(dtype)
        half = info.eps / 2 + info.smallest_normal * info.eps / 2 / scale
        name = str(dtype).removeprefix("torch.")
        if self.truncates and dtype is torch.bfloat16:
            return 2 * half, f"cutting to {name}"
        return half, f"rounding to {name}"


@dataclass(frozen=True)
class Output:
    """One output of a cell, or one gradient, with what it is judged by."""

    name: str
    fused: torch.Tensor
    unfused: torch.Tensor
    reference: torch.Tensor
    stale: torch.Tensor | None
    terms: int  # summed into one element of a gradient
    discrete: bool
    margin: torch.Tensor | None
    band: float | None
    step: int | None

    @property
    def dtype(self) -> str:
        """PyTorch's name of its dtype."""
        return str(self.fused.dtype).removeprefix("torch.")


@dataclass(frozen=True)
class _FloatCheck:
    reference: torch.Tensor
    scale: Scale
    limit: float

    def refuses(self, wrong: torch.Tensor, at: torch.Tensor | None = None) -> bool:
        flat = self.reference.reshape(-1)
        return not compare(wrong, flat if at is None else flat[at], self.scale, at=at).within(self.limit)

    def firm(self, at: torch.Tensor) -> torch.Tensor:
        return at


@dataclass(frozen=True)
class _DiscreteCheck:
    reference: torch.Tensor
    rule: DiscreteRule

    def refuses(self, wrong: torch.Tensor, at: torch.Tensor | None = None) -> bool:
        flat, margin = self.reference.reshape(-1), self.rule.margin
        if at is not None:
            flat, margin = flat[at], None if margin is None else margin.reshape(-1)[at]
        return DiscreteRule(margin, self.rule.band, self.rule.step).wrong(wrong, flat)[0] > 0

    def firm(self, at: torch.Tensor) -> torch.Tensor:
        return at if self.rule.margin is None else at[self.rule.margin.reshape(-1)[at] > self.rule.band]


Judged = tuple[OutputError, str, dict[str, bool]]
"""An output's errors, what is wrong with it in words, and the controls."""


def _judge_output(case: KernelCase, cell: Cell, output: Output, truncates: bool) -> Judged:
    tolerance = Tolerance(case, cell, truncates)
    return _judge_discrete(tolerance, output) if output.discrete else _judge_float(tolerance, output)


def _judge_float(tolerance: Tolerance, output: Output) -> Judged:
    found, message, scale = _compare_float(tolerance, output)
    check = _FloatCheck(output.reference, scale, found.limit)
    return found, message, controls(check, output.fused.dtype, output.reference, scale, output.stale)


@dataclass(frozen=True)
class _Measured:
    """Errors of an output by one scale, and the limit that they give."""

    scale: Scale
    own: Difference
    unfused_error: float | None
    limit: Limit


def _compare_float(tolerance: Tolerance, output: Output) -> tuple[OutputError, str, Scale]:
    reference, result = output.reference, output.fused
    by = _measured(tolerance, output, whole := root_mean_square(reference), whole)
    if tolerance.is_blind(by.limit, result) and (places := by_place(reference, whole)) is not None:
        other = _measured(tolerance, output, places, whole)
        by = by if tolerance.is_blind(other.limit, result) else other
    own, limit = by.own, by.limit
    found = OutputError(
        output.name, output.dtype, own.error, by.unfused_error, limit.value, limit.rule, own.nonfinite_agree
    )
    return found, "" if own.within(limit.value) else what_is_wrong(output.name, own, limit, result, reference), by.scale


def _measured(tolerance: Tolerance, output: Output, scale: Scale, whole: float) -> _Measured:
    result = output.fused
    own, other = (compare(x, output.reference, scale) for x in (result, output.unfused))
    unfused_error = other.error if other.nonfinite_agree else None
    limit = tolerance.limit(result.dtype, unfused_error, whole, terms=output.terms)
    if isinstance(scale, PlaceScale):
        limit = replace(limit, rule=f"{limit.rule}, scale by place")
    return _Measured(scale, own, unfused_error, tolerance.drawn_in(limit, own, result))


def _judge_discrete(tolerance: Tolerance, output: Output) -> Judged:
    rule = _rule_of(tolerance, output)
    found, message = _compare_discrete(output, rule)
    check = _DiscreteCheck(output.reference, rule)
    return found, message, controls(check, output.fused.dtype, output.reference, 1.0, output.stale)


def _rule_of(tolerance: Tolerance, output: Output) -> DiscreteRule:
    return DiscreteRule(output.margin, tolerance.band(output.band), output.step)


def _compare_discrete(output: Output, rule: DiscreteRule) -> tuple[OutputError, str]:
    (share, index), (unfused_share, _) = (rule.wrong(x, output.reference) for x in (output.fused, output.unfused))
    found = OutputError(output.name, output.dtype, share, unfused_share, 0.0, rule.text, True, rule.band_share)
    if not share:
        return found, ""
    where = position(index, output.fused.shape)
    values = f"{_value(output.fused, where)}, not {_value(output.reference, where)}"
    return found, f"output {output.name}: {share:.2%} of the elements differ ({rule.text}), first at {where}: {values}"


def what_is_wrong(name: str, own: Difference, limit: Limit, result: torch.Tensor, reference: torch.Tensor) -> str:
    """The fault of an output in words."""
    if count := unwritten(result):
        return f"output {name}: {count} of {result.numel()} elements were never written"
    if not own.nonfinite_agree:
        return f"output {name}: NaN or Inf not where the reference has them"
    if own.error is None:
        return f"output {name}: nothing finite to compare"
    where = position(own.index, result.shape)
    got, wanted = _value(result, where), _value(reference, where)
    return f"output {name}: error {own.error:.2e} over {limit.value:.2e}, worst at {where}: {got}, not {wanted}"


def position(index: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Indices on each axis of an element of the flattened output."""
    where: list[int] = []
    for size in reversed(shape):
        index, last = divmod(index, size)
        where.insert(0, last)
    return tuple(where)


def _value(tensor: torch.Tensor, where: tuple[int, ...]) -> str:
    return f"{float(tensor[where]):.6g}"


def _outputs(case: KernelCase, run: Run) -> Iterator[Output]:
    stale = run.stale.tensors if run.stale else (None,) * len(run.fused.tensors)
    columns = (run.fused.tensors, run.unfused.tensors, run.reference.results.tensors, stale)
    real = [[None if t is None else as_real(t) for t in column] for column in columns]
    for i, (name, fused, unfused, reference, other) in enumerate(zip(run.fused.names, *real, strict=True)):
        if fused is None or unfused is None or reference is None:  # an input that no output depends on
            continue
        rule = case.discrete.get(i) if name.isdigit() else None
        yield Output(
            name=name,
            fused=run.reference.part_of(fused),
            unfused=run.reference.part_of(unfused),
            reference=reference,
            stale=other,
            terms=1 if name.isdigit() else _terms(run, reference),
            discrete=rule is not None or not fused.is_floating_point(),
            margin=run.margins.get(i),
            band=rule.band if rule else None,
            step=rule.step if rule else None,
        )


def _terms(run: Run, gradient: torch.Tensor) -> int:
    """Elements of the largest gradient for each of this one: an input that was broadcast sums so many."""
    largest = max(int(t.numel()) for t in run.reference.results.tensors if t is not None)
    return largest // max(int(gradient.numel()), 1)


def _all_refused(found: list[dict[str, bool]]) -> dict[str, bool]:
    """A control counts as refused when every output that it applies to refused it."""
    names = dict.fromkeys(name for one in found for name in one)
    return {name: all(one[name] for one in found if name in one) for name in names}


def _weakness(refused: Mapping[str, bool]) -> Iterator[Outcome]:
    missed = ", ".join(differing(refused))
    if missed or not refused:
        text = f"the check would let pass: {missed}" if missed else "no output to check"
        yield Outcome(Status.WEAK_CHECK, Stage.VERIFY, text)


def _outcomes(case: KernelCase, run: Run) -> Iterator[Outcome]:
    """What the runs themselves showed, whatever the results."""
    if run.beside:
        yield Outcome(Status.OUT_OF_BOUNDS, Stage.VERIFY, "; ".join(run.beside))
    if run.changed:
        which = ", ".join(run.changed)
        text = f"the fused function changed its inputs ({which}), which the case does not declare in_place"
        yield Outcome(Status.WRONG_RESULT, Stage.VERIFY, text)
    if case.deterministic and run.repeatable is False:
        text = f"declared deterministic, but {run.runs} runs on the same inputs gave different bits"
        yield Outcome(Status.NONDETERMINISTIC, Stage.VERIFY, text)


def _other(case: KernelCase) -> str:
    """What the form of the results is held against, in words: a call that nobody declared as a case has no chain."""
    return "unfused chain" if case.is_declared else "reference"


def _fault_of_form(run: Run, against: str, also: torch.dtype | None = None) -> str | None:
    """A wrong number of outputs, shape or dtype, or a gradient that is not made, in words; ``also`` is no wrong one."""
    if len(run.fused.tensors) != len(run.unfused.tensors):
        return f"{len(run.fused.tensors)} outputs, the {against} has {len(run.unfused.tensors)}"
    for name, result, other in zip(run.fused.names, run.fused.tensors, run.unfused.tensors, strict=True):
        if result is None or other is None:
            if (result is None) != (other is None):
                return f"{name}: {'no gradient' if result is None else 'a gradient'}, unlike the {against}"
            continue
        if result.shape != other.shape:
            return f"output {name}: shape {tuple(result.shape)}, the {against}'s is {tuple(other.shape)}"
        if result.dtype not in {other.dtype, also if other.is_floating_point() else None}:
            return f"output {name}: {result.dtype}, the {against}'s is {other.dtype}"
    return None


def _positions(part: slice, at: torch.Tensor | None, device: torch.device) -> torch.Tensor:
    return torch.arange(part.start, part.stop, device=device) if at is None else at[part]


def _chunks(count: int) -> Iterator[slice]:
    return (slice(first, min(first + _CHUNK, count)) for first in range(0, count, _CHUNK))
