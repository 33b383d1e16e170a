"""Nodes differ by more than the gain."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity
from portkit.analysis.points import Context


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    spreads = {each.cell: each for each in context.spreads if each.cell}
    for point in context.points:
        for row in point.measured:
            spread = spreads.get(row.record.cell)
            ratio = row.record.timing.speedup.get("eager") if row.record.timing else None
            if spread is None or ratio is None or spread.relative <= abs(ratio.value - 1):
                continue
            text = (
                f"{len(spread.values)} devices of {row.record.cell.target} differ by {100 * spread.relative:.1f} % "
                "on this cell, "
                f"and fusing changes its time by {100 * abs(ratio.value - 1):.1f} %. Another device may show the "
                "opposite."
            )
            yield rule.finding(point, [row], [], text)


RULE = Rule(
    id="PK505",
    title="Nodes differ by more than the gain",
    severity=Severity.WARNING,
    evidence="times of one cell on several devices of one SKU",
    cause="Devices of one name differ in clocks, cooling and memory; the spread between them is larger than "
    "the gain that the row claims over eager.",
    cost="On another device of the same name the sign of the difference may be the other.",
    remedy="Compare on one device, or on several and report the spread; the interleaved ratio of one device is "
    "safer than two times.",
    check=_check,
)
