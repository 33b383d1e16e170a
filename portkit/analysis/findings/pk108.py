"""Occupancy lost by fusing."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.points import Context
from portkit.analysis.findings.rule import Finding, Rule, Severity

_POINTS = 25
"""Percentage points below the unfused chain from which on occupancy was lost."""


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        for row in point.measured:
            functions = row.counters.functions if row.counters else {}
            fused, eager = functions.get("fused"), functions.get("eager")
            before = eager.occupancy_theoretical_pct if eager else None
            after = fused.occupancy_theoretical_pct if fused else None
            if before is None or after is None or before - after < _POINTS:
                continue
            limiter = f", limited by {fused.occupancy_limiter}" if fused and fused.occupancy_limiter else ""
            text = (
                f"On {row.record.cell.target} the fused kernel reaches {after:.0f} % theoretical "
                f"occupancy{limiter}, where the "
                f"longest kernel of the unfused chain reaches {before:.0f} %. Less latency is hidden by other waves."
            )
            yield rule.finding(point, [row], [], text)


RULE = Rule(
    id="PK108",
    title="Occupancy lost by fusing",
    severity=Severity.WARNING,
    evidence="hardware counters of the fused function and of the unfused chain",
    cause="One kernel that does the work of several keeps the values of all of them: more registers or more "
    "shared memory a block than any single one needs.",
    cost="Fewer waves are resident, so less latency is hidden; the bytes that fusing saves are partly paid back.",
    remedy="Smaller tiles or more warps, or a fused kernel that is cut where few bytes cross. Where the fused "
    "time is at the memory ceiling nothing is lost.",
    check=_check,
)
