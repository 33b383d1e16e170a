"""Exponentials take another path."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.points import Context, some_launch, total
from portkit.analysis.findings.rule import Finding, Rule, Severity, each, listed, names
from portkit.store.merge import Row


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows, others = point.parted(_scales, _is_direct, needs=("exp_scaled",))
        if rows:
            text = (
                f"Exponentials are scaled around the instruction {each(rows, _times)}, about five instructions "
                "each, and are two "
                f"on {listed(names(others))}. Where the inner loop is exponentials that is a good part of it."
            )
            yield rule.finding(point, rows, others, text)


def _times(row: Row) -> str:
    return f"{total(row, 'exp_scaled')} times"


def _scales(row: Row) -> bool:
    return some_launch(row, lambda each: bool(each.get("exp") and each.get("exp_scaled")))


def _is_direct(row: Row) -> bool:
    return some_launch(
        row, lambda each: bool(each.get("exp") and (each.get("exp_keeping") or each.get("exp_flushing")))
    ) and (not _scales(row))


RULE = Rule(
    id="PK303",
    title="Exponentials take another path",
    severity=Severity.INFO,
    evidence="Triton IR and machine text of the binary",
    cause="tl.exp becomes a multiplication and one approximate instruction on NVIDIA. On AMD the instruction "
    "flushes denormals, so the operand is tested and scaled before it and the result after it.",
    cost="Five instructions where there are two, which shows in softmax and attention, whose inner loop is "
    "exponentials; results may differ in the last bits.",
    remedy="Use tl.exp2 with the factor log2(e) folded into a scale that is there already: one instruction on both.",
    check=_check,
)
