"""Division takes a slow path."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, each, listed, names, places
from portkit.analysis.points import Context, some_launch, total
from portkit.store.merge import Row


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows, others = point.parted(_exact, _fast, needs=("division_exact",))
        if rows:
            yield rule.finding(point, rows, others, _text(rows, others))


def _text(rows: list[Row], others: list[Row]) -> str:
    return (
        f"Float32 divisions are rounded exactly, in eleven instructions each, in {each(rows, _places)}, and to 2 ulp, "
        f"in eight, on {listed(names(others))}. Their last bits may differ; the cost shows inside an inner loop alone."
    )


def _places(row: Row) -> str:
    return places(total(row, "division_exact"))


def _exact(row: Row) -> bool:
    return some_launch(row, lambda each: bool(each.get("division_exact"))) and not total(row, "division_fast")


def _fast(row: Row) -> bool:
    return some_launch(row, lambda each: bool(each.get("division_fast")))


RULE = Rule(
    id="PK218",
    title="Division takes a slow path",
    severity=Severity.INFO,
    evidence="machine text of the binary",
    cause="A float32 division in the source is rounded as IEEE 754 says on AMD, by eleven instructions in a chain "
    "around a reciprocal, and to 2 ulp on NVIDIA, where ptxas makes eight of div.full.",
    cost="Some instructions more, each waiting for the one before it, which shows in kernels that divide in an inner "
    "loop and nowhere else; results may differ in the last bit or two.",
    remedy="Divide once and multiply by the reciprocal where a loop divides by one value; write tl.div_rn where one "
    "rounding is to hold on both.",
    check=_check,
)
