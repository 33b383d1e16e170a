"""Occupancy lost by fusing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from portkit.analysis.findings.rule import Finding, Rule, Severity, each
from portkit.analysis.points import Context, fastest
from portkit.analysis.roofline import probe_of, roofline
from portkit.model import Counted
from portkit.store.merge import Row

_POINTS = 25
"""Percentage points below the unfused chain from which on occupancy was lost."""


_AT_CEILING = 0.9
"""Share of the measured ceiling from which on more waves could gain nothing."""


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point, rows in fastest(context.points):
        lost = [row for row in rows if _lost(row) >= _POINTS and (_reached(row, context) or 0) < _AT_CEILING]
        if lost:
            others = [row for row in rows if row not in lost and _both(row)]
            yield rule.finding(point, lost, others, _text(lost, context))


def _both(row: Row) -> tuple[Counted, Counted] | None:
    """What was counted of the fused function and of the unfused chain."""
    functions = row.counters.functions if row.counters else {}
    fused, eager = functions.get("fused"), functions.get("eager")
    return (fused, eager) if fused and eager else None


def _lost(row: Row) -> float:
    """Percentage points of theoretical occupancy; 0 where either is unknown."""
    both = _both(row)
    after, before = (each.occupancy_theoretical_pct for each in both) if both else (None, None)
    return 0.0 if before is None or after is None else before - after


def _reached(row: Row, context: Context) -> float | None:
    """Share of the ceiling that bounds it, as measured on its device."""
    record = row.record
    probe = probe_of(record, context.dataset.probes)
    return roofline(record, probe, context.target(row)).attainment_measured


def _text(rows: Sequence[Row], context: Context) -> str:
    reached = [row for row in rows if _reached(row, context) is not None]
    share = each(reached, lambda row: f"{100 * (_reached(row, context) or 0):.0f} %")
    told = f" Of the ceiling that was measured it reaches {share}." if reached else ""
    return f"The fused kernel reaches {each(rows, _theory)}. Less latency is hidden by other waves.{told}"


def _theory(row: Row) -> str:
    both = _both(row)
    if both is None:
        return "what was not counted"
    fused, eager = both
    limiter = f", limited by {fused.occupancy_limiter}," if fused.occupancy_limiter else ""
    return (
        f"{fused.occupancy_theoretical_pct:.0f} % theoretical occupancy{limiter} and the longest kernel of the unfused "
        f"chain {eager.occupancy_theoretical_pct:.0f} %"
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
