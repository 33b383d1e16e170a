"""What limits occupancy differs."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.points import Context
from portkit.analysis.findings.rule import Finding, Rule, Severity, each, listed, names
from portkit.model import Occupancy
from portkit.store.merge import Row

_POINTS = 20
"""Percentage points between targets from which on their occupancy differs."""


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows = [row for row in point.binaries if _occupancy(row)]
        best = max((_percent(row) for row in rows), default=0.0)
        full = [row for row in rows if _percent(row) == best]
        limiters = sorted({_limiter(row) for row in full})
        low = [row for row in rows if best - _percent(row) >= _POINTS and _limiter(row) not in limiters]
        if low:
            text = (
                f"Theoretical occupancy is limited to {each(low, _told)}, and {best:.0f} % by {listed(limiters)} is "
                f"reached on {listed(names(full))}. Fewer resident waves hide less of the latency of memory."
            )
            yield rule.finding(point, low, full, text)


def _told(row: Row) -> str:
    return f"{_percent(row):.0f} % by {_limiter(row)}"


def _percent(row: Row) -> float:
    found = _occupancy(row)
    return found.percent if found else 0.0


def _limiter(row: Row) -> str:
    found = _occupancy(row)
    return found.limiter if found else ""


def _occupancy(row: Row) -> Occupancy | None:
    build = row.record.build
    if build is None or any((x.options.get("num_ctas") or 1) > 1 or x.limits_broken for x in build.candidates):
        return None
    return build.worst_occupancy


RULE = Rule(
    id="PK107",
    title="What limits occupancy differs",
    severity=Severity.INFO,
    evidence="theoretical occupancy of the binary",
    cause="Registers, shared memory, waves and blocks of a unit stand in other proportions on each "
    "architecture, so another of them runs out first.",
    cost="With fewer resident waves there is less work to hide the latency of memory behind; what to change "
    "to get more of them differs from target to target.",
    remedy="Look at the limiter of the target, not at a common one: fewer registers (smaller tiles, more "
    "warps) do nothing where shared memory limits.",
    check=_check,
)
