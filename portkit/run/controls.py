"""Wrong results that every verdict must refuse, where they apply.

``all_zeros``, ``one_element_off`` (by a visible amount), ``rows_swapped`` (two unequal
ones) and ``stale_output`` (the right output for other inputs). Each is given to the same
check as the fused result. One that does not apply (an output of one row has none to
swap; an output that no input changes is never stale; one without elements can't be wrong) is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import torch

VISIBLE = 1 / 16
"""Relative error of one element that every check must see."""


class Check(Protocol):
    """What judges one output."""

    def refuses(self, wrong: torch.Tensor, at: torch.Tensor | None = None) -> bool:
        """Whether it finds a result wrong.

        Args:
            wrong: elements in the output's dtype, flat.
            at: their positions in the flattened output; None for all of them, in order.
        """

    def firm(self, at: torch.Tensor) -> torch.Tensor:
        """Those of some positions where only one value is right."""


def controls(
    check: Check, dtype: torch.dtype, reference: torch.Tensor, scale: float, stale: torch.Tensor | None
) -> dict[str, bool]:
    """Each control that applies to an output, and whether its check refused it.

    Args:
        check: what judges the output.
        dtype: of the output.
        reference: of the output, in float64, or as it is where it is discrete.
        scale: root mean square of the reference.
        stale: the reference for other inputs.
    """
    if reference.numel() == 0:
        return {}
    wrongs = {
        "all_zeros": (
            torch.zeros(1, dtype=torch.uint8, device=reference.device).to(dtype).expand(reference.numel()),
            None,
        ),
        "one_element_off": _one_element_off(check, dtype, reference, scale),
        "rows_swapped": _rows_swapped(dtype, reference),
        "stale_output": _stale(dtype, reference, stale),
    }
    return {name: check.refuses(*wrong) for name, wrong in wrongs.items() if wrong is not None}


Wrong = tuple[torch.Tensor, torch.Tensor | None]


def _one_element_off(check: Check, dtype: torch.dtype, reference: torch.Tensor, scale: float) -> Wrong | None:
    """The first finite one of some spread elements, made wrong by a visible amount."""
    flat = reference.reshape(-1)
    at = torch.arange(0, flat.numel(), max(flat.numel() // 1024, 1), device=flat.device)
    at = check.firm(at)
    at = at[flat[at].to(dtype).to(torch.float64).isfinite()][:1]
    if at.numel() == 0:
        return None
    right = flat[at].to(torch.float64)
    if dtype is torch.bool:
        return right == 0, at
    visible = max(VISIBLE, 4 * torch.finfo(dtype).eps) * (right.abs() + scale) if dtype.is_floating_point else 1
    return (right + visible).to(dtype), at


def _rows_swapped(dtype: torch.dtype, reference: torch.Tensor) -> Wrong | None:
    """The first row and one unequal to it, changing places; None where there is none."""
    if reference.dim() < 2 or reference.numel() == 0:
        return None
    length = reference.shape[-1]
    rows = reference.reshape(-1, length)
    for i in range(1, min(rows.shape[0], 64)):
        if not torch.equal(rows[0], rows[i]):
            columns = torch.arange(length, device=rows.device)
            return rows[[i, 0]].reshape(-1).to(dtype), torch.cat([columns, columns + i * length])
    return None


def _stale(dtype: torch.dtype, reference: torch.Tensor, stale: torch.Tensor | None) -> Wrong | None:
    if stale is None or stale.shape != reference.shape or torch.equal(stale, reference):
        return None
    return stale.reshape(-1).to(dtype), None


def differing(wrongs: Mapping[str, bool]) -> Iterator[str]:
    """Names of controls that were let pass, as words."""
    return (name.replace("_", " ") for name, refused in wrongs.items() if not refused)
