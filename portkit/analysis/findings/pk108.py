"""Occupancy lost by fusing."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.points import Context
from portkit.analysis.findings.rule import Finding, Rule, Severity
from portkit.analysis.roofline import probe_of, roofline
from portkit.model import Counted
from portkit.store.merge import Row

_POINTS = 25
"""Percentage points below the unfused chain from which on occupancy was lost."""


_AT_CEILING = 0.9
"""Share of the measured ceiling from which on more waves could gain nothing."""


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        for row in point.measured:
            functions = row.counters.functions if row.counters else {}
            fused, eager = functions.get("fused"), functions.get("eager")
            reached = _reached(row, context)
            if fused and eager and _lost(fused, eager) >= _POINTS and (reached or 0) < _AT_CEILING:
                yield rule.finding(point, [row], [], _text(row, fused, eager, reached))


def _lost(fused: Counted, eager: Counted) -> float:
    """Percentage points of theoretical occupancy; 0 where either is unknown."""
    before, after = eager.occupancy_theoretical_pct, fused.occupancy_theoretical_pct
    return 0.0 if before is None or after is None else before - after


def _reached(row: Row, context: Context) -> float | None:
    """Share of the ceiling that bounds it, as measured on its device."""
    record = row.record
    probe = probe_of(record, context.dataset.probes)
    return roofline(record, probe, context.target(row)).attainment_measured


def _text(row: Row, fused: Counted, eager: Counted, reached: float | None) -> str:
    limiter = f", limited by {fused.occupancy_limiter}" if fused.occupancy_limiter else ""
    share = f" It reaches {100 * reached:.0f} % of the ceiling that was measured there." if reached is not None else ""
    return (
        f"On {row.record.cell.target} the fused kernel reaches {fused.occupancy_theoretical_pct:.0f} % theoretical "
        f"occupancy{limiter}, where the longest kernel of the unfused chain reaches "
        f"{eager.occupancy_theoretical_pct:.0f} %. Less latency is hidden by other waves.{share}"
    )


RULE = Rule(
    id="PK108",
    title="Occupancy lost by fusing",
    severity=Severity.WARNING,
    evidence="hardware counters of the fused function and of the unfused chain, and the device's ceilings",
    cause="One kernel that does the work of several keeps the values of all of them: more registers or more "
    "shared memory a block than any single one needs.",
    cost="Fewer waves are resident, so less latency is hidden; the bytes that fusing saves are partly paid back.",
    remedy="Smaller tiles or more warps, or a fused kernel that is cut where few bytes cross.",
    check=_check,
)
