"""64-bit integer division."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, each, places
from portkit.analysis.points import Context, total
from portkit.store.merge import Row


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows = [row for row in point.binaries if total(row, "division64")] if point.shows("division64") else []
        if rows:
            text = (
                f"The kernel divides 64-bit integers by values known at run time alone in {each(rows, _divisions)}. "
                "Each is a routine of 50 to 150 instructions, which in an inner loop outweighs the loads."
            )
            yield rule.finding(point, rows, [row for row in point.binaries if row not in rows], text)


def _divisions(row: Row) -> str:
    return places(total(row, "division64"))


RULE = Rule(
    id="PK208",
    title="64-bit integer division",
    severity=Severity.INFO,
    evidence="LLVM IR of the binary",
    cause="No GPU divides 64-bit integers in one instruction: each division or remainder by a value that is "
    "not known when the kernel is compiled becomes a routine of 50 to 150 instructions.",
    cost="In the address computation of an inner loop that outweighs the loads; in front of it, it costs "
    "some microseconds a launch at most.",
    remedy="Divide 32-bit values where the range allows, pass the divisor as tl.constexpr, or keep quotients "
    "from one turn to the next.",
    check=_check,
)
