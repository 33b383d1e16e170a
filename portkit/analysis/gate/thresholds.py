"""From when a difference counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from portkit.errors import ReportError

CLOCKS: Final = ("auto", "events", "trace")


@dataclass(frozen=True)
class Thresholds:
    """Sizes and level of the gate. A slowdown needs both: its size, and to be no chance.

    Raises:
        ReportError: a value that can't be, by its option.
    """

    warn_ratio: float = 1.05  # current ÷ baseline time above which a cell warns
    fail_ratio: float = 1.10  # above which it fails
    short_us: float = 4.0  # below it the change must be as many µs as the ratio makes of this time
    level: float = 0.001  # chance that a cell without a change passes for one
    clock: str = "auto"  # trace where both sides have it, else events

    def __post_init__(self) -> None:
        if not 1 < self.warn_ratio <= self.fail_ratio < float("inf"):
            raise ReportError(
                f"{self.warn_ratio:g} and {self.fail_ratio:g} are no thresholds",
                place="--warn, --fail",
                remedy="give ratios above 1, the one that fails not below the one that warns",
            )
        if not 0 < self.level < 0.5:
            raise ReportError(f"{self.level:g} is no level", place="--level", remedy="give a share between 0 and 0.5")
        if not 0 <= self.short_us < float("inf"):
            raise ReportError(f"{self.short_us:g} µs is no time", place="--short-us", remedy="give 0 or more")

    def least_change_ms(self, baseline_ms: float, ratio: float) -> float:
        """By how many ms a time must grow to be above a ratio; under ``short_us`` it is constant."""
        return (ratio - 1) * max(baseline_ms, self.short_us / 1e3)
