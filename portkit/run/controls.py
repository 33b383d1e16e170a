"""Wrong results that every verdict must refuse, where they apply.

``all_zeros``, ``one_element_off`` (by a visible amount), ``rows_swapped`` (pairs of unequal
ones from first to last, each pair by itself) and ``stale_output`` (the right output for other
inputs). Each is given to the same check as the fused result. One that does not apply (an output of one row has none to
swap; an output that no input changes is never stale; one without elements can't be wrong) is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import torch

from portkit.run.scale import PlaceScale, Scale

VISIBLE = 1 / 16
"""Relative error of one element that every check must see."""

SWAPPED = 8
"""Rows, spread evenly from the first to the last, each of which is swapped with another of them."""


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
    check: Check, dtype: torch.dtype, reference: torch.Tensor, scale: Scale, stale: torch.Tensor | None
) -> dict[str, bool]:
    """Each control that applies to an output, and whether its check refused it.

    Args:
        check: what judges the output.
        dtype: of the output.
        reference: of the output, in float64, or as it is where it is discrete.
        scale: root mean square of the reference, or scales by place.
        stale: the reference for other inputs.
    """
    if reference.numel() == 0:
        return {}
    zeros = torch.zeros(1, dtype=torch.uint8, device=reference.device).to(dtype).expand(reference.numel())
    wrongs: dict[str, list[Wrong]] = {
        "all_zeros": [(zeros, None)],
        "one_element_off": _one_element_off(check, dtype, reference, scale),
        "rows_swapped": _rows_swapped(dtype, reference),
        "stale_output": _stale(dtype, reference, stale),
    }
    return {name: all(check.refuses(*wrong) for wrong in each) for name, each in wrongs.items() if each}


Wrong = tuple[torch.Tensor, torch.Tensor | None]


def _one_element_off(check: Check, dtype: torch.dtype, reference: torch.Tensor, scale: Scale) -> list[Wrong]:
    """The first finite one of some spread elements, made wrong by a visible amount."""
    flat = reference.reshape(-1)
    at = torch.arange(0, flat.numel(), max(flat.numel() // 1024, 1), device=flat.device)
    at = check.firm(at)
    at = at[flat[at].to(dtype).to(torch.float64).isfinite()][:1]
    if at.numel() == 0:
        return []
    right = flat[at].to(torch.float64)
    if dtype is torch.bool:
        return [(right == 0, at)]
    if not dtype.is_floating_point:
        return [((right + 1).to(dtype), at)]
    beside = scale.at(at) if isinstance(scale, PlaceScale) else scale
    return [(_rounded_up(right + visible(dtype) * (right.abs() + beside), dtype), at)]


def visible(dtype: torch.dtype) -> float:
    """Relative error of one element that every check of a floating dtype must see."""
    return max(VISIBLE, 4.0 * float(torch.finfo(dtype).eps))


def _rounded_up(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The next numbers of the dtype; rounded down, an error among its subnormals would be less than it should be."""
    info = torch.finfo(dtype)
    nearest = values.to(dtype)
    above = (values + (values.abs() * info.eps).clamp(min=info.smallest_normal * info.eps)).to(dtype)
    return torch.where(nearest.to(torch.float64) < values, above, nearest)


def _rows_swapped(dtype: torch.dtype, reference: torch.Tensor) -> list[Wrong]:
    """Pairs of rows that change places: each of some spread ones with that of them which is least like it."""
    if reference.dim() < 2 or reference.numel() == 0:
        return []
    length = reference.shape[-1]
    rows = reference.reshape(-1, length)
    spread = torch.linspace(0, rows.shape[0] - 1, min(SWAPPED, rows.shape[0]), dtype=torch.float64).long().tolist()
    columns = torch.arange(length, device=rows.device)
    return [
        (rows[[j, i]].reshape(-1).to(dtype), torch.cat([columns + i * length, columns + j * length]))
        for i, j in _unlike(rows[spread], spread)
    ]


def _unlike(rows: torch.Tensor, names: list[int]) -> list[tuple[int, int]]:
    """Each row with the one that differs from it most in one element, by their names; none where all are equal."""
    wide = rows.to(torch.complex128 if rows.is_complex() else torch.float64)
    pairs = []
    for name, row in zip(names, wide, strict=True):
        distance, other = (wide - row).abs().nan_to_num(0.0).amax(dim=-1).max(dim=0)
        if distance > 0:
            pairs.append((min(name, names[other]), max(name, names[other])))
    return list(dict.fromkeys(pairs))


def _stale(dtype: torch.dtype, reference: torch.Tensor, stale: torch.Tensor | None) -> list[Wrong]:
    if stale is None or stale.shape != reference.shape or torch.equal(stale, reference):
        return []
    return [(stale.reshape(-1).to(dtype), None)]


def differing(wrongs: Mapping[str, bool]) -> Iterator[str]:
    """Names of controls that were let pass, as words."""
    return (name.replace("_", " ") for name, refused in wrongs.items() if not refused)
