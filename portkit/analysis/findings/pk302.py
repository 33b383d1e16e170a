"""Denormals are kept on some targets only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, listed, names, sides
from portkit.analysis.points import Context, some_launch
from portkit.model import Status
from portkit.store.merge import Row

FAMILY = "denormal"


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        judged = [(rows, others) for rows, others in map(_judged, point.same_families()) if rows and others]
        for rows, others in judged:
            over, within = sides(rows, others)
            text = (
                f"With inputs below the smallest normal number the result is over its limit on {over}, and within it "
                f"on {within}. Values that small are 0 on some targets and numbers on others."
            )
            yield rule.finding(point, rows, others, text)
        if judged:
            continue
        rows, others = point.parted(_flushes, _keeps, needs=("exp_flushing",))
        if rows:
            text = (
                f"Exponentials give 0 for results below the smallest normal number on {listed(names(rows))}, and "
                f"keep them on {listed(names(others))}. Probabilities that small differ between targets."
            )
            yield rule.finding(point, rows, others, text)


def _judged(ran: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """Rows that fail with denormal inputs, and those that pass."""
    lines = [(row, row.record.verdict.families.get(FAMILY)) for row in ran if row.record.verdict]
    return (
        [row for row, line in lines if line and line.status is Status.WRONG_RESULT],
        [row for row, line in lines if line and line.status.good],
    )


def _flushes(row: Row) -> bool:
    return some_launch(row, lambda each: bool((each.get("exp") or each.get("exp2")) and each.get("exp_flushing")))


def _keeps(row: Row) -> bool:
    kept = some_launch(row, lambda each: bool(each.get("exp_keeping") or each.get("exp_scaled")))
    return kept and not _flushes(row)


RULE = Rule(
    id="PK302",
    title="Denormals are kept on some targets only",
    severity=Severity.WARNING,
    evidence="the input family denormal of rows that ran it on one shape, and machine text of the binary",
    cause="Some instructions and modes replace numbers below the smallest normal one by zero: ex2.approx.ftz "
    "on NVIDIA, a bare v_exp_f32 on AMD. Others keep them, at the price of scaling before and after.",
    cost="Results near zero differ: a probability or a gradient that is tiny on one target is exactly 0 on another.",
    remedy="Keep values out of that range (scale, or clamp before the exponential) rather than relying on "
    "either behaviour.",
    check=_check,
)
