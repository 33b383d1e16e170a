"""Faults on some targets only."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.failures import status_and_message
from portkit.analysis.findings.rule import Finding, Rule, Severity, each, sides
from portkit.analysis.points import Context
from portkit.model import Status
from portkit.store.merge import Row

_FAULTS = (Status.OUT_OF_BOUNDS, Status.DATA_RACE, Status.DEVICE_FAULT, Status.NONDETERMINISTIC)
_CHARACTERS = 200


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows = [row for row in point.ran_or_died if row.record.outcome.status in _FAULTS]
        others = [row for row in point.ran_or_died if row.record.outcome.status.good]
        if rows and others:
            text = (
                f"It ends as {each(rows, _told, others)}, and passes on {sides(rows, others)[1]}. "
                "The fault is in the source, and the targets on which it passes do not show it."
            )
            yield rule.finding(point, rows, others, text)


def _told(row: Row) -> str:
    return status_and_message(row, _CHARACTERS)


RULE = Rule(
    id="PK309",
    title="Faults on some targets only",
    severity=Severity.ERROR,
    evidence="status of rows that ran, emulated ones too",
    cause="An access out of bounds, a race or a missing barrier is in the source, and shows where the memory "
    "behind, the width of a warp or the order of waves lets it: lanes of one warp go in step, and 32 of "
    "them are a warp on one target and half of one on another.",
    cost="The kernel is broken everywhere, and the targets on which it passes only hide it.",
    remedy="Mend the source, not the target: mask the access, or put a barrier where values pass between "
    "threads. The message names the place.",
    check=_check,
)
