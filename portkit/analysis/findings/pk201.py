"""Plain arithmetic where others use matrix units."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, each, listed, names
from portkit.analysis.points import Context, count, signals, total
from portkit.store.merge import Row


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows, others = point.parted(_plain, _matrix, needs=("dot.",))
        if rows:
            yield rule.finding(point, rows, others, _text(rows, others))


def _text(rows: list[Row], others: list[Row]) -> str:
    return (
        f"The products of tiles became plain multiply-adds on {listed(names(rows))}, with no matrix instruction, "
        f"where they are {each(others, _instructions)}. "
        "Vector units multiply at a fraction of the rate of matrix units."
    )


def _instructions(row: Row) -> str:
    return f"{total(row, 'matrix.')} matrix instructions"


def _plain(row: Row) -> bool:
    return any(count(each, "dot.") and not count(each, "matrix.") for each in signals(row))


def _matrix(row: Row) -> bool:
    with_dots = [each for each in signals(row) if count(each, "dot.")]
    return bool(with_dots) and all(count(each, "matrix.") for each in with_dots)


RULE = Rule(
    id="PK201",
    title="Plain arithmetic where others use matrix units",
    severity=Severity.WARNING,
    evidence="Triton IR and machine text of the binary",
    cause="tl.dot became multiply-adds on the vector units: the target has no matrix instruction for these "
    "operand types, precision or shape, or the compiler does not use it.",
    cost="Vector units give a fraction of the rate of matrix units, each element takes registers of its own, "
    "and the unrolled products often spill.",
    remedy="Use operand types that the target has matrix instructions for (float16 or bfloat16 with float32 "
    "sums), a precision that it has (tf32, xf32), or tiles of at least 16 in each direction; otherwise "
    "take another kernel on those targets.",
    check=_check,
)
