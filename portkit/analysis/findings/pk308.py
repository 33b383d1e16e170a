"""Repeatable on some targets only."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, each, sides
from portkit.analysis.points import Context
from portkit.store.merge import Row


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows = [row for row in point.ran if row.record.verdict and row.record.verdict.repeatable is False]
        others = [row for row in point.ran if row.record.verdict and row.record.verdict.repeatable]
        if rows and others:
            text = (
                f"Runs on the same inputs gave other bits: {each(rows, _runs, others)}. "
                f"On {sides(rows, others)[1]} all were alike, so a test that compares bits there says nothing of the "
                "others."
            )
            yield rule.finding(point, rows, others, text)


def _runs(row: Row) -> str:
    return f"in {row.record.verdict.runs if row.record.verdict else 0} runs"


RULE = Rule(
    id="PK308",
    title="Repeatable on some targets only",
    severity=Severity.WARNING,
    evidence="runs of the same function on the same inputs, emulated ones in several orders of waves",
    cause="The order in which blocks or waves add to one place is not fixed: atomics do it, and so does a "
    "race. Whether it shows depends on how many run at once, so it shows on some targets alone.",
    cost="Two runs differ in their last bits there, and a test that compares bits fails now and then.",
    remedy="Sum in a fixed order: partial sums and a second kernel instead of atomics. Where there are no "
    "atomics, look for a missing barrier.",
    check=_check,
)
