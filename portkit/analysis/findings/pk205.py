"""No asynchronous copies."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, each, listed, names
from portkit.analysis.points import Context, some_launch, total
from portkit.store.merge import Row


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows, others = point.parted(_staged, _asynchronous, needs=("staged_loads",))
        if rows:
            yield rule.finding(point, rows, others, _text(rows, others))


def _text(rows: list[Row], others: list[Row]) -> str:
    return (
        f"Tiles of the pipelined loop are loaded through registers on {listed(names(rows))}, and copied "
        "asynchronously on "
        f"{listed(names(others))} ({each(others, _copies)}). What is in flight takes registers, and the "
        "waves that compute also store it to shared memory."
    )


def _copies(row: Row) -> str:
    return f"{total(row, 'async_copies')} copies"


def _staged(row: Row) -> bool:
    return some_launch(row, lambda each: bool(each.get("staged_loads") and not each.get("async_copies")))


def _asynchronous(row: Row) -> bool:
    return some_launch(row, lambda each: bool(each.get("async_copies"))) and not _staged(row)


RULE = Rule(
    id="PK205",
    title="No asynchronous copies",
    severity=Severity.INFO,
    evidence="Triton IR and machine text of the binary",
    cause="A pipelined loop loads tiles ahead. Where the target and its backend have copies from memory to "
    "shared memory that pass no register, the loads wait nowhere; elsewhere they land in registers and "
    "are stored to shared memory from there.",
    cost="The tiles in flight take registers, and the stores take issue slots of the same waves that "
    "compute; the same num_stages hides less.",
    remedy="Tune num_stages by the target: 2 is mostly right where loads are staged through registers, 3 and "
    "more where copies are asynchronous.",
    check=_check,
)
