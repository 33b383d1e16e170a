"""fp8 saturates on some targets only."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, listed, names
from portkit.analysis.points import Context, some_launch
from portkit.store.merge import Row


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows, others = point.parted(_overflows, _saturates, needs=("fp8_narrow",))
        if rows:
            text = (
                f"Conversions to fp8 do not clamp on {listed(names(rows))}, and do on {listed(names(others))}. A "
                "number over the format's largest one becomes a NaN or Inf there, and the largest number elsewhere."
            )
            yield rule.finding(point, rows, others, text)


def _overflows(row: Row) -> bool:
    return some_launch(row, lambda each: bool(each.get("fp8_narrow") and not each.get("fp8_saturate")))


def _saturates(row: Row) -> bool:
    return some_launch(row, lambda each: bool(each.get("fp8_narrow") and each.get("fp8_saturate"))) and not _overflows(
        row
    )


RULE = Rule(
    id="PK305",
    title="fp8 saturates on some targets only",
    severity=Severity.WARNING,
    evidence="machine text of the binary",
    cause="A conversion to fp8 of a number over the largest one gives that largest number, or a NaN or Inf: "
    "by instruction on NVIDIA (satfinite), by a mode bit or a clamp in front of it on AMD.",
    cost="An outlier becomes 448 on one target and a NaN on another, and the NaN spreads.",
    remedy="Clamp to the format's largest number before converting; then every target gives the same.",
    check=_check,
)
