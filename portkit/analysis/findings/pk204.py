"""Atomics by compare-and-swap."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, each, listed, names
from portkit.analysis.points import Context, some_launch, total
from portkit.store.merge import Row


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows, others = point.parted(_loops, _native, needs=("atomic_cas",))
        if rows:
            yield rule.finding(point, rows, others, _text(rows, others))


def _text(rows: list[Row], others: list[Row]) -> str:
    return (
        f"Atomic additions are loops of compare-and-swap on {listed(names(rows))} ({each(rows, _swaps)}), and one "
        f"instruction on {listed(names(others))}. Each attempt is a round trip to the L2 cache, and contention adds "
        "attempts."
    )


def _swaps(row: Row) -> str:
    return f"{total(row, 'atomic_cas')} compare-and-swap"


def _loops(row: Row) -> bool:
    return some_launch(
        row, lambda each: bool(each.get("atomic_float") and each.get("atomic_cas") and not each.get("atomic_compare"))
    )


def _native(row: Row) -> bool:
    return some_launch(row, lambda each: bool(each.get("atomic_float") and each.get("atomic_native"))) and not _loops(
        row
    )


RULE = Rule(
    id="PK204",
    title="Atomics by compare-and-swap",
    severity=Severity.WARNING,
    evidence="Triton IR and machine text of the binary",
    cause="The target has no atomic addition for this type, so each becomes a loop: load, add, compare-and- "
    "swap, and again if another thread was faster.",
    cost="Every attempt is a round trip to the L2 cache; where many threads add to one address, attempts "
    "grow with the square of their number.",
    remedy="Sum in float32 and convert at the end, sum within a block first, or write partial sums and add "
    "them in a second kernel.",
    check=_check,
)
