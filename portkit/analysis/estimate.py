"""Figures with their 95 % interval, and how sums, differences and ratios carry the interval on.

Half-widths of figures that err apart add in squares (the law of propagation of uncertainty, JCGM 100:2008,
5.1.2, of independent quantities), below and above each for itself, since intervals of a bootstrap are not symmetric.
"""

from __future__ import annotations

import math
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
        """The same in another unit, or of several calls that err together."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)

    def __add__(self, other: Estimate) -> Estimate:
        """The sum of two that err apart: half-widths add in squares."""
        value = self.value + other.value
        below = math.hypot(self.value - self.low, other.value - other.low)
        above = math.hypot(self.high - self.value, other.high - other.value)
        return Estimate(value, value - below, value + above)

    def __sub__(self, other: Estimate) -> Estimate:
        """The difference of two that err apart."""
        return self + Estimate(-other.value, -other.high, -other.low)

    def __truediv__(self, other: Estimate) -> Estimate:
        """The ratio of two positive ones that err apart: relative half-widths add in squares."""
        value = self.value / other.value
        below = math.hypot(1 - self.low / self.value, other.high / other.value - 1)
        above = math.hypot(self.high / self.value - 1, 1 - other.low / other.value)
        return Estimate(value, value * (1 - below), value * (1 + above))


NOTHING: Final = Estimate(0, 0, 0)


def total(parts: Iterable[Estimate]) -> Estimate:
    """The sum of figures that err apart."""
    return sum(parts, start=NOTHING)
