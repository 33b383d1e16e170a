"""NaN and Inf come out differently."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, sides
from portkit.analysis.points import Context, signals
from portkit.model import NONFINITE_FAMILIES
from portkit.store.merge import Row


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        for family, ran in itertools.product(NONFINITE_FAMILIES, point.same_families()):
            rows = [row for row in ran if _agrees(row, family) is False]
            others = [row for row in ran if _agrees(row, family)]
            if rows and others:
                apart, alike = sides(rows, others)
                text = (
                    f"With {family} in the input, the output has NaN and Inf in other places than the float64 "
                    f"reference on {apart}, and in the same on {alike}.{_cause(rows)} "
                    "Such an input then goes on unseen on some targets alone."
                )
                yield rule.finding(point, rows, others, text)


def _agrees(row: Row, family: str) -> bool | None:
    verdict = row.record.verdict
    found = verdict.families.get(family) if verdict else None
    return found.nonfinite_agree if found else None


def _cause(rows: list[Row]) -> str:
    if any(each.get("max_number") for row in rows for each in signals(row)):
        return " Its maxima and minima give the number where one operand is a NaN."
    return ""


RULE = Rule(
    id="PK301",
    title="NaN and Inf come out differently",
    severity=Severity.WARNING,
    evidence="the input families nan and inf of rows that ran them on one shape, emulated ones too",
    cause="Maxima and minima either drop a NaN or keep it, by instruction and by mode of the unit: tl.max and "
    "tl.maximum drop it unless propagate_nan is asked for, and so the output has a number where the "
    "reference has a NaN, or the reverse.",
    cost="A NaN that should stop a training run goes on as a number on some targets, and a run does not "
    "repeat elsewhere.",
    remedy="Ask for propagate_nan=tl.PropagateNan.ALL where NaN must stay, or mask it on purpose; test with both.",
    check=_check,
)
