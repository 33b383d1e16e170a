"""Too few samples."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity
from portkit.analysis.points import Context

_LEAST = 20
"""Samples of the fused function below which its interval is hardly one."""


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        for row in point.measured:
            timing = row.record.timing
            if timing is None or (timing.settled is not False and timing.fused.events.samples >= _LEAST):
                continue
            clock = timing.fused.events
            width = (clock.high_ms - clock.low_ms) / clock.median_ms if clock.median_ms else 0.0
            text = (
                f"On {row.record.cell.target} the median rests on {clock.samples} samples, with a 95 % interval of "
                f"{100 * width:.1f} % of it. Smaller differences can't be told from noise."
            )
            yield rule.finding(point, [row], [], text)


RULE = Rule(
    id="PK503",
    title="Too few samples",
    severity=Severity.INFO,
    evidence="samples and intervals of measured rows",
    cause="The time limit ended the measurement before the interval of the median was narrow enough, or few "
    "samples were taken at all.",
    cost="Differences of the width of the interval can not be told from noise.",
    remedy="Give the row more time, lock the clocks, or look why it scatters: outliers, throttling, other processes.",
    check=_check,
)
