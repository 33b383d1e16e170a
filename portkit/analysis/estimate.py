"""Figures with their 95 % interval, and how sums, differences and ratios carry the interval on.

By interval arithmetic (IEEE 1788-2015, the set-based flavour): the result's bounds are reached where each figure is at
one end of its own interval. That holds however the figures err together, which nobody measured: kernels of one run
share clocks and temperature, and two calls may rest on one median. It is wider than the interval of figures that err
apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float

    def __mul__(self, factor: float) -> Estimate:
        """The same in another unit, or of several calls; the factor is positive."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)

    def __add__(self, other: Estimate) -> Estimate:
        """The sum."""
        return Estimate(self.value + other.value, self.low + other.low, self.high + other.high)

    def __sub__(self, other: Estimate) -> Estimate:
        """The difference."""
        return Estimate(self.value - other.value, self.low - other.high, self.high - other.low)

    def __truediv__(self, other: Estimate) -> Estimate:
        """The ratio of two whose intervals are positive."""
        return Estimate(self.value / other.value, self.low / other.high, self.high / other.low)


NOTHING: Final = Estimate(0, 0, 0)


def total(parts: Iterable[Estimate]) -> Estimate:
    """The sum of all."""
    return sum(parts, start=NOTHING)
