"""tf32 or xf32 on some targets only."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, listed, names
from portkit.analysis.points import Context, some_launch
from portkit.store.merge import Row


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows, others = point.parted(_short, _full, needs=("matrix.tf32",))
        if rows:
            yield rule.finding(point, rows, others, _text(rows, others))


def _text(rows: list[Row], others: list[Row]) -> str:
    return (
        f"Products of float32 tiles run as tf32 or xf32 on {listed(names(rows))}, which keep 10 bits of an operand, "
        "and in "
        f"another precision on {listed(names(others))}. Results differ by about 1e-3 of their size, and so does the "
        "rate."
    )


def _short(row: Row) -> bool:
    return some_launch(row, lambda each: bool(each.get("dot.f32") and each.get("matrix.tf32")))


def _full(row: Row) -> bool:
    return some_launch(row, lambda each: bool(each.get("dot.f32"))) and not _short(row)


RULE = Rule(
    id="PK203",
    title="tf32 or xf32 on some targets only",
    severity=Severity.WARNING,
    evidence="Triton IR and machine text of the binary",
    cause="tl.dot of float32 takes the precision that the backend has as its default: tf32 on NVIDIA from "
    "sm_80 on, xf32 on gfx942, and full float32 on every other AMD target.",
    cost="tf32 and xf32 keep 10 bits of each operand: results differ by about 1e-3 of their size between "
    "targets, and the rate differs by several times.",
    remedy='Write input_precision="ieee" for the same result everywhere, "tf32" only where a target accepts it; '
    "let the case say allow_tf32 so that its limit is right.",
    check=_check,
)
