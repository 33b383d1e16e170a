"""What an output's elements are held against beside their own size: one scale of all, or one a place.

A **place** is an index of the last axis but one: a token of a sequence, a row of a matrix. Where parts of an output
differ much in size, as gradients of causal attention do, whose early tokens are summed over few keys and large, the
root mean square of the whole is that of the small ones, and the large ones' roundings look like faults.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

__all__ = ["PlaceScale", "Scale", "by_place"]

_CHUNK = 1 << 22  # elements squared at once


@dataclass(frozen=True)
class PlaceScale:
    """A scale for each place, at least that of the whole output."""

    places: torch.Tensor  # (places,), float64
    length: int  # of the last axis

    def at(self, positions: torch.Tensor) -> torch.Tensor:
        """Scales of elements by their positions in the flattened output."""
        return self.places[positions // self.length % self.places.numel()]


Scale = float | PlaceScale


def by_place(reference: torch.Tensor, whole: float) -> PlaceScale | None:
    """Root mean square of the finite elements of each place, or of the whole where that is larger.

    Args:
        reference: (…, places, length), in float64. Of two axes a place is one row, and has no scale of
            its own.
        whole: root mean square of all of it.

    Returns:
        None where the output has no places to tell apart.
    """
    if reference.dim() < 3 or reference.shape[-2] < 2 or reference.numel() == 0:
        return None
    places, length = reference.shape[-2:]
    stacked = reference.reshape(-1, places, length)
    total = torch.zeros(places, dtype=torch.float64, device=reference.device)
    count = total.clone()
    for part in stacked.split(max(1, _CHUNK // (places * length))):
        wide = part.to(torch.float64)
        finite = wide.isfinite()
        total += wide.masked_fill(~finite, 0.0).div_(whole).square_().sum(dim=(0, 2))
        count += finite.sum(dim=(0, 2))
    return PlaceScale((total / count.clamp(min=1.0)).sqrt_().clamp_(min=1.0).mul_(whole), length)
