"""Whether a way's result is right.

Two good implementations of a model round differently, so neither is held against the other alone.
The model is built once more in float64, and a way is right if it is about as near to that as the
eager model is: the root mean square of its error at most twice eager's and half an epsilon, its
largest error at most four times eager's and eight epsilons. NaN and infinities must be where the
reference, or eager, has them. Where no float64 model can be had, the way is held against eager
within the limits of :data:`LOOSE`, by dtype.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from portkit.run.verify import compare, root_mean_square
from portkit.store.toggled import Agreement

RMS_TIMES: Final = 2.0
WORST_TIMES: Final = 4.0

LOOSE: Final[Mapping[torch.dtype, float]] = {
    torch.bfloat16: 2e-2,
    torch.float16: 4e-3,
    torch.float32: 1e-4,
    torch.float64: 1e-10,
}
"""Limit of the root mean square against eager; the largest error may be sixteen times as large."""

_LOOSE_WORST: Final = 16.0

Tensors = Sequence[torch.Tensor]


@dataclass(frozen=True)
class Judge:
    """Holds results against a reference.

    Args:
        eager: tensors of the eager result.
        reference: the same in float64; None where there is none.
    """

    eager: Tensors
    reference: Tensors | None

    def judge(self, result: Tensors) -> Agreement:
        """The worst of all tensors."""
        if why := _form(result, self.eager):
            return Agreement(False, self._against, 0.0, None, 0.0, 0.0, why)
        each = [self._judge(*three) for three in zip(result, self.eager, self.reference or self.eager, strict=True)]
        return max(each, key=lambda one: (not one.right, one.rms / (one.rms_limit or 1.0)))

    @property
    def _against(self) -> str:
        return "float64" if self.reference is not None else "eager"

    def _judge(self, result: torch.Tensor, eager: torch.Tensor, reference: torch.Tensor) -> Agreement:
        if not eager.is_floating_point():
            equal = bool(torch.equal(result, eager))
            return Agreement(equal, "eager", 0.0, 0.0, 0.0, 0.0, "" if equal else "whole numbers differ from eager's")
        exact = reference.to(torch.float64)
        rms, worst, agree = _errors(result, exact, eager)
        rms_limit, worst_limit = self._limits(eager, exact)
        why = "" if agree else "NaN or infinities are elsewhere than in the reference"
        if not why and (rms > rms_limit or worst is None or worst > worst_limit):
            why = f"its error is over the limit: rms {rms:.2g} of {rms_limit:.2g}"
            why += "" if worst is None else f", largest {worst:.2g} of {worst_limit:.2g}"
        return Agreement(not why, self._against, rms, worst, rms_limit, worst_limit, why)

    def _limits(self, eager: torch.Tensor, exact: torch.Tensor) -> tuple[float, float]:
        if self.reference is None:
            loose = LOOSE.get(eager.dtype, LOOSE[torch.bfloat16])
            return loose, _LOOSE_WORST * loose
        rms, worst, _ = _errors(eager, exact, eager)
        epsilon = torch.finfo(eager.dtype).eps
        return RMS_TIMES * rms + epsilon / 2, WORST_TIMES * (worst or 0.0) + 8 * epsilon


def _form(result: Tensors, eager: Tensors) -> str:
    own, wanted = ([(tuple(each.shape), each.dtype) for each in some] for some in (result, eager))
    return "" if own == wanted else f"returns tensors of {own[:4]}, eager of {wanted[:4]}"


def _errors(result: torch.Tensor, exact: torch.Tensor, eager: torch.Tensor) -> tuple[float, float | None, bool]:
    """Root mean square and largest error, both relative; whether NaN and Inf are in the same places."""
    scale = root_mean_square(exact)
    found = compare(result, exact, scale, excused=eager)
    error = result.to(torch.float64) - exact
    finite = error.isfinite()
    total = float(error.masked_fill(~finite, 0.0).square().sum()) / max(int(finite.sum()), 1)
    return total**0.5 / scale, found.error, found.nonfinite_agree
