"""Achieved occupancy far below theoretical."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity
from portkit.analysis.points import Context

_SHARE = 0.6
"""Achieved ÷ theoretical, below which the difference is told."""


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        for row in point.measured:
            fused = row.counters.functions.get("fused") if row.counters else None
            theory, achieved = (
                (fused.occupancy_theoretical_pct, fused.occupancy_achieved_pct) if fused else (None, None)
            )
            if theory is None or achieved is None or achieved >= _SHARE * theory:
                continue
            waves = fused.waves_per_unit if fused else None
            told = f" The grid is {waves:.2f} times what is resident at once." if waves is not None else ""
            text = (
                f"On {row.record.cell.target} {achieved:.0f} % occupancy was achieved, of {theory:.0f} % in "
                f"theory.{told} Units stand idle for part of the kernel."
            )
            yield rule.finding(point, [row], [], text)


RULE = Rule(
    id="PK404",
    title="Achieved occupancy far below theoretical",
    severity=Severity.INFO,
    evidence="hardware counters of measured rows",
    cause="Theory says how many waves could be resident; fewer were. The grid has too few blocks to fill the "
    "device or leaves a tail, blocks end at different times, or waves wait to be launched.",
    cost="Units stand idle for part of the kernel, whatever its registers allow.",
    remedy="More and smaller blocks, a persistent grid of a whole number of waves a unit, or a shape that "
    "fills the device.",
    check=_check,
)
