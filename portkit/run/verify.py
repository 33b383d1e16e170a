"""Judges a fused result against float64, and the judgement by negative controls.

**Error** of an output is ``max |result - reference| / (|reference| + scale)``, where
``scale`` is the root mean square of the reference (1 where it is zero throughout):
relative for large elements, and finite where an element is near zero. NaN and Inf
must stand where the reference, rounded to the output's dtype, has them; all other
elements enter the error.

**Limit** of an output, unless the case states one for the dtype:

    limit = 2 e + r + u (16 + 4 log2 n)

    e   error of the unfused chain in the same dtype on the same device. Fusion must
        not cost accuracy; 2, because both are the largest of many random errors.
    r   rounding to the output's dtype: half its epsilon, and half its smallest
        subnormal over ``scale``. Twice that where a conversion cuts instead of
        rounding: Triton's interpreter does, to bfloat16.
    u   2^-24, the rounding of float32, in which kernels accumulate; 2^-11 where the
        case lets products use tf32 or xf32; 2^-53 for a float64 output.
    16  exp, rsqrt and division of GPUs: each within 2 ulp = 4 u (PTX ISA: ex2.approx,
        rsqrt.approx, div.full), and exp(x) takes x log2(e) u from its argument.
    n   terms summed into one output. A sum by halves errs by at most u log2 n
        (Higham, "The accuracy of floating point summation", 1993); 4 for lanes that
        first add some terms one after another.

Integer and bool outputs must be exact.

**Controls.** The same comparison must refuse, for every output: all zeros; one element
off by 1/16 of ``|reference| + scale`` (four epsilons in dtypes coarser than that); two
unequal rows swapped. A limit too wide to do so, or a reference that says nothing, is a
``weak_check`` and no verdict.

All comparisons go in chunks: temporaries stay under 300 MiB.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from portkit.model import Cell, KernelCase, Outcome, OutputError, Stage, Status, Verdict
from portkit.run.inputs import hash_tensors
from portkit.run.reference import Outputs

UNFUSED_MULTIPLE = 2.0
"""How many times the unfused chain's error a fused result may have."""

VISIBLE = 1 / 16
"""Relative error of one element that every check must see."""

_CHUNK = 1 << 22  # elements compared at once; 32 MiB in float64


@dataclass(frozen=True)
class Difference:
    """What comparing a result with its reference found."""

    error: float | None  # None: nothing finite to compare
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
    """What one run of a cell left to judge."""

    inputs: Mapping[str, Any]  # as the fused function left them
    input_hash: str  # ``hash_tensors`` of the inputs before it ran
    fused: Outputs
    unfused: Outputs  # of the unfused chain in the cell's dtype
    reference64: Outputs  # of the unfused chain in float64
    truncates: bool = False  # conversions to bfloat16 cut instead of rounding


def judge(case: KernelCase, cell: Cell, run: Run) -> tuple[Verdict, Outcome]:
    """Whether the fused outputs are right, and whether this check could have said no.

    Returns:
        The verdict, and ``passed``, ``wrong_result`` or ``weak_check``.
    """
    output_hash = hash_tensors({str(i): x for i, x in enumerate(run.fused)})
    fault = _fault_of_form(run)
    if fault is not None:
        return Verdict((), run.input_hash, output_hash, {}), Outcome(Status.WRONG_RESULT, Stage.VERIFY, fault)
    tolerance = Tolerance(case, cell, run.truncates)
    judged = [
        _judge_output(tolerance, str(i), *tensors)
        for i, tensors in enumerate(zip(run.fused, run.unfused, run.reference64, strict=True))
    ]
    controls = _all_refused([controls for _, _, controls in judged])
    verdict = Verdict(tuple(output for output, _, _ in judged), run.input_hash, output_hash, controls)
    return verdict, _outcome(controls, [message for _, message, _ in judged if message])


def compare(result: torch.Tensor, reference: torch.Tensor, scale: float) -> Difference:
    """Largest error of ``result`` against a float64 reference of the same shape."""
    worst, where, agree, compared = [], [], [], []
    flat, flat_reference = result.reshape(-1), reference.reshape(-1)
    for first, last in _chunks(flat.numel()):
        got, wanted = flat[first:last].to(torch.float64), flat_reference[first:last].to(torch.float64)
        rounded = wanted.to(result.dtype).to(torch.float64)
        finite = got.isfinite() & rounded.isfinite()
        agree.append((finite | (got == rounded) | (got.isnan() & rounded.isnan())).all())
        compared.append(finite.any())
        error = ((got - wanted).abs_() / (wanted.abs() + scale)).masked_fill_(~finite, 0.0)
        value, index = error.max(dim=0)
        worst.append(value)
        where.append(index + first)
    if not worst or not bool(torch.stack(compared).any()):
        return Difference(None, 0, not agree or bool(torch.stack(agree).all()))
    value, chunk = torch.stack(worst).max(dim=0)
    return Difference(float(value), int(torch.stack(where)[chunk]), bool(torch.stack(agree).all()))


def root_mean_square(reference: torch.Tensor) -> float:
    """Root mean square of the finite elements; 1 where it would be zero."""
    flat = reference.reshape(-1)
    total = torch.zeros((), dtype=torch.float64, device=flat.device)
    count = torch.zeros((), dtype=torch.int64, device=flat.device)
    for first, last in _chunks(flat.numel()):
        part = flat[first:last].to(torch.float64)
        finite = part.isfinite()
        total += part.masked_fill(~finite, 0.0).square_().sum()
        count += finite.sum()
    return math.sqrt(float(total) / max(int(count), 1)) or 1.0


@dataclass(frozen=True)
class Tolerance:
    """The rule of the module's docstring for one cell."""

    case: KernelCase
    cell: Cell
    truncates: bool = False

    def limit(self, dtype: torch.dtype, unfused_error: float | None, scale: float) -> Limit:
        """Limit of an output of ``dtype`` whose reference has the root mean square ``scale``."""
        if self.cell.dtype in self.case.limits:
            return Limit(self.case.limits[self.cell.dtype], f"the case's own limit for {self.cell.dtype}")
        if not dtype.is_floating_point:
            return Limit(0.0, "exact")
        rounding, rounding_name = self._rounding(dtype, scale)
        unit, unit_name = self._accumulation(dtype)
        growth = 16 + 4 * math.log2(max(self.case.reduction_length(self.cell.shape), 1))
        value = UNFUSED_MULTIPLE * (unfused_error or 0.0) + rounding + unit * growth
        known = "unfused not finite" if unfused_error is None else f"{UNFUSED_MULTIPLE:g} x unfused {unfused_error:.1e}"
        return Limit(value, f"{known} + {rounding_name} {rounding:.1e} + {unit_name} {unit:.1e} x {growth:.0f}")

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


def _judge_output(
    tolerance: Tolerance, name: str, result: torch.Tensor, unfused: torch.Tensor, reference: torch.Tensor
) -> tuple[OutputError, str, dict[str, bool]]:
    """The output's errors, what is wrong with it in words, and the controls."""
    scale = root_mean_square(reference)
    own, other = compare(result, reference, scale), compare(unfused, reference, scale)
    unfused_error = other.error if other.nonfinite_agree else None
    limit = tolerance.limit(result.dtype, unfused_error, scale)
    dtype = str(result.dtype).removeprefix("torch.")
    output = OutputError(name, dtype, own.error, unfused_error, limit.value, limit.rule, own.nonfinite_agree)
    message = "" if own.within(limit.value) else _what_is_wrong(name, own, limit, result, reference)
    return output, message, _controls(result.dtype, reference, scale, limit.value)


def _what_is_wrong(name: str, own: Difference, limit: Limit, result: torch.Tensor, reference: torch.Tensor) -> str:
    if not own.nonfinite_agree:
        return f"output {name}: NaN or Inf not where the reference has them"
    if own.error is None:
        return f"output {name}: nothing finite to compare"
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(own.index), result.shape))
    got, wanted = float(result[index]), float(reference[index])
    return f"output {name}: error {own.error:.2e} over {limit.value:.2e}, worst at {index}: {got:.6g}, not {wanted:.6g}"


def _controls(dtype: torch.dtype, reference: torch.Tensor, scale: float, limit: float) -> dict[str, bool]:
    """Each control that applies to this output, and whether it was refused."""
    wrongs = {
        "all_zeros": _all_zeros(dtype, reference),
        "one_element_off": _one_element_off(dtype, reference, scale),
        "rows_swapped": _rows_swapped(dtype, reference),
    }
    return {
        name: not compare(wrong, right, scale).within(limit)
        for name, pair in wrongs.items()
        if pair is not None
        for wrong, right in [pair]
    }


def _all_zeros(dtype: torch.dtype, reference: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(1, dtype=dtype, device=reference.device).expand(reference.numel()), reference.reshape(-1)


def _one_element_off(
    dtype: torch.dtype, reference: torch.Tensor, scale: float
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The first finite one of some spread elements, made wrong by a visible amount."""
    flat = reference.reshape(-1)
    sample = flat[:: max(flat.numel() // 1024, 1)]
    finite = sample[sample.to(dtype).isfinite()]
    if finite.numel() == 0:
        return None
    right = finite[:1].to(torch.float64)
    visible = max(VISIBLE, 4 * torch.finfo(dtype).eps) * (right.abs() + scale) if dtype.is_floating_point else 1
    return (right + visible).to(dtype), right


def _rows_swapped(dtype: torch.dtype, reference: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The first row and one unequal to it, changing places; None where there is none."""
    if reference.dim() < 2 or reference.numel() == 0:
        return None
    rows = reference.reshape(-1, reference.shape[-1])
    for i in range(1, min(rows.shape[0], 64)):
        if not torch.equal(rows[0], rows[i]):
            return rows[[i, 0]].to(dtype), rows[[0, i]]
    return None


def _all_refused(controls: list[dict[str, bool]]) -> dict[str, bool]:
    """A control counts as refused when every output that it applies to refused it."""
    names = dict.fromkeys(name for one in controls for name in one)
    return {name: all(one[name] for one in controls if name in one) for name in names}


def _outcome(controls: Mapping[str, bool], messages: list[str]) -> Outcome:
    missed = [name.replace("_", " ") for name, refused in controls.items() if not refused]
    if missed or not controls:
        text = f"the check would let pass: {', '.join(missed)}" if missed else "no output to check"
        return Outcome(Status.WEAK_CHECK, Stage.VERIFY, text)
    if messages:
        return Outcome(Status.WRONG_RESULT, Stage.VERIFY, "; ".join(messages))
    return Outcome(Status.PASSED)


def _fault_of_form(run: Run) -> str | None:
    """A wrong number of outputs, shape or dtype, or inputs written to, in words."""
    if len(run.fused) != len(run.unfused):
        return f"{len(run.fused)} outputs, the unfused chain has {len(run.unfused)}"
    for i, (result, other) in enumerate(zip(run.fused, run.unfused, strict=True)):
        if result.shape != other.shape:
            return f"output {i}: shape {tuple(result.shape)}, the unfused chain's is {tuple(other.shape)}"
        if result.dtype != other.dtype:
            return f"output {i}: {result.dtype}, the unfused chain's is {other.dtype}"
    if hash_tensors(run.inputs) != run.input_hash:
        return "the fused function changed its inputs, which the unfused chain leaves alone"
    return None


def _chunks(count: int) -> Iterator[tuple[int, int]]:
    return ((first, min(first + _CHUNK, count)) for first in range(0, count, _CHUNK))
