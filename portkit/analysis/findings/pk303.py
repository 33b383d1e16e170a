"""Exponentials take another path."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, each, places
from portkit.analysis.points import Context, some_launch, total
from portkit.store.merge import Row


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows, others = point.parted(_scales, _is_direct, needs=("exp_scaled",))
        if rows:
            text = (
                f"Exponentials that keep denormals take seven instructions each in {each(rows, _places)}, and "
                f"{each(others, _length)}. Where the inner loop is exponentials that is a good part of it; tl.exp2 is "
                "one instruction on all of them."
            )
            yield rule.finding(point, rows, others, text)


def _places(row: Row) -> str:
    return places(total(row, "exp_scaled"))


def _length(row: Row) -> str:
    """Multiplication by log2(e) and instruction; ptxas scales around what keeps denormals too."""
    return "five" if total(row, "exp_keeping") else "two"


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
    cause="The instruction of either vendor flushes denormals, so tl.exp scales its operand and its result: on AMD by "
    "a comparison, two selections and an exact scaling, seven instructions in all; on NVIDIA ptxas makes five of "
    "ex2.approx, and none of the scaling where it is asked to flush.",
    cost="Two instructions more an exponential than on NVIDIA, and six more than tl.exp2 on either, which shows in "
    "softmax and attention, whose inner loop is exponentials; results may differ in the last bits.",
    remedy="Use tl.exp2 with the factor log2(e) folded into a scale that is there already: one instruction on both, "
    "which gives 0 for results below the smallest normal number.",
    check=_check,
)
