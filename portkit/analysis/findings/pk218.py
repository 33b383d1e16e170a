"""Division takes a slow path."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.points import Context, some_launch, total
from portkit.analysis.findings.rule import Finding, Rule, Severity, each, listed, names
from portkit.store.merge import Row


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows, others = point.parted(_exact, _fast, needs=("division_exact",))
        if rows:
            yield rule.finding(point, rows, others, _text(rows, others))


def _text(rows: list[Row], others: list[Row]) -> str:
    return (
        f"Float32 divisions are rounded exactly, in about ten instructions, {each(rows, _times)}, and to 2 ulp on "
        f"{listed(names(others))}. Their last bits may differ, and in an inner loop so does the cost."
    )


def _times(row: Row) -> str:
    return f"{total(row, 'division_exact')} times"


def _exact(row: Row) -> bool:
    return some_launch(row, lambda each: bool(each.get("division_exact"))) and not total(row, "division_fast")


def _fast(row: Row) -> bool:
    return some_launch(row, lambda each: bool(each.get("division_fast")))


RULE = Rule(
    id="PK218",
    title="Division takes a slow path",
    severity=Severity.INFO,
    evidence="machine text of the binary",
    cause="A float32 division in the source is rounded as IEEE 754 says on AMD, with a sequence of about ten "
    "instructions around a reciprocal, and to 2 ulp on NVIDIA with div.full.",
    cost="About four times the instructions of a division, which shows in kernels that divide in an inner "
    "loop; results may differ in the last bit or two.",
    remedy="Multiply by a reciprocal that is taken once, or use tl.fdiv or tl.div_rn where one rounding is to "
    "hold on both.",
    check=_check,
)
