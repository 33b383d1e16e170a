"""Compares codes, indices and flags: equal, or near a tie.

Where the exact value lies near the border between two codes, rounding decides which of
the two comes out, and a right kernel may differ from its reference. A case says how near
by :class:`portkit.model.Discrete`: elements whose ``margin`` is at most ``band`` may be
off by ``step`` codes; all others must be equal. The **error** is the share of elements
that break this; its limit is 0. The share within the band stands beside it, since a
verdict over a wide band says little.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

_CHUNK = 1 << 22  # elements compared at once; 32 MiB as int64


@dataclass(frozen=True)
class DiscreteRule:
    """The rule of one output of one cell."""

    margin: torch.Tensor | None  # float64, of the output's shape; None: exact everywhere
    band: float
    step: int | None

    @property
    def text(self) -> str:
        """The rule in words, for the record."""
        if self.margin is None:
            return "exact"
        off = "of any value" if self.step is None else f"off by {self.step} at most"
        return f"equal outside {self.band:.1e} of a tie, within it {off}"

    @property
    def band_share(self) -> float | None:
        """Share of elements within the band; None without one."""
        if self.margin is None or self.margin.numel() == 0:
            return None
        return float((self.margin <= self.band).sum()) / int(self.margin.numel())

    def wrong(
        self, result: torch.Tensor, reference: torch.Tensor, among: torch.Tensor | None = None
    ) -> tuple[float, int]:
        """Share of the elements that are wrong, and the first of them in the flattened output.

        Args:
            result: of the fused function.
            reference: of the unfused chain in float64.
            among: which elements are looked at; None: all.
        """
        reference = reference.to(result.dtype)
        flat, wanted = codes(result).reshape(-1), codes(reference).reshape(-1)
        if among is not None:
            wanted = torch.where(among.reshape(-1), wanted, flat)
        margin = None if self.margin is None else self.margin.reshape(-1)
        count, first_wrong = 0, -1
        for first in range(0, flat.numel(), _CHUNK):
            part = slice(first, first + _CHUNK)
            bad = self._bad(flat[part], wanted[part], None if margin is None else margin[part])
            found = int(bad.sum())
            if found and first_wrong < 0:
                first_wrong = first + int(bad.to(torch.uint8).argmax())
            count += found
        return count / max(flat.numel(), 1), max(first_wrong, 0)

    def _bad(self, got: torch.Tensor, wanted: torch.Tensor, margin: torch.Tensor | None) -> torch.Tensor:
        off = (got - wanted).abs_()
        if margin is None:
            return off != 0
        inside = margin <= self.band
        return torch.where(inside, off > self.step if self.step is not None else torch.zeros_like(inside), off != 0)


def codes(tensor: torch.Tensor) -> torch.Tensor:
    """Elements as numbers that count codes: fp8 by its order, bools by their byte, integers as they are."""
    if tensor.dtype is torch.bool:  # by its byte: one that was never written is neither True nor False
        return tensor.contiguous().view(torch.uint8).to(torch.int64)
    if tensor.is_floating_point() and tensor.element_size() == 1:
        raw = tensor.contiguous().view(torch.uint8).to(torch.int64)
        return torch.where(raw >= 128, 128 - raw, raw)
    return tensor.to(torch.float64) if tensor.is_floating_point() else tensor.to(torch.int64)
