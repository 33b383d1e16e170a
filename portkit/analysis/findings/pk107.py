"""What limits occupancy differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from portkit.analysis.findings.rule import Finding, Rule, Severity, each, listed, names
from portkit.analysis.points import Context, total
from portkit.model import Occupancy
from portkit.store.merge import Row

_POINTS = 20
"""Percentage points between targets from which on their occupancy differs."""


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        known = [(row, found) for row in point.binaries if (found := _occupancy(row))]
        best = max((found.percent for _, found in known), default=0.0)
        limiters = sorted({found.limiter for _, found in known if found.percent == best})
        low = [row for row, x in known if best - x.percent >= _POINTS and x.limiter not in limiters]
        if low:
            full = [row for row, found in known if found.percent == best]
            others = [row for row, _ in known if row not in low and row not in full]
            told = {row.record.cell.target: f"{found.percent:.0f} % by {found.limiter}" for row, found in known}
            text = (
                f"Theoretical occupancy is limited to {each(low, _of(told))}, and "
                f"{best:.0f} % by {listed(limiters)} is reached on {listed(names(full))}"
                f"{f'; {each(others, _of(told))}' if others else ''}. "
                f"Fewer resident waves hide less of the latency of memory{_unless(low)}."
            )
            yield rule.finding(point, low, full, text)


def _unless(rows: Sequence[Row]) -> str:
    """Where some rows copy asynchronously, that few waves may be meant."""
    ahead = [row for row in rows if total(row, "async_copies")]
    return f", but for what asynchronous copies fetch ahead on {listed(names(ahead))}" if ahead else ""


def _of(told: Mapping[str, str]) -> Callable[[Row], str]:
    return lambda row: told[row.record.cell.target]


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
    cost="With fewer resident waves there is less work to hide the latency of memory behind, unless a pipeline of "
    "asynchronous copies hides it, as in large products, which few waves serve well; what to change to get more of "
    "them differs from target to target.",
    remedy="Look at the limiter of the target, not at a common one: fewer registers (smaller tiles, more "
    "warps) do nothing where shared memory limits.",
    check=_check,
)
