"""Results differ beyond the rounding model."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.distance import Distance
from portkit.analysis.findings.points import Context, Point
from portkit.analysis.findings.rule import Finding, Rule, Severity, each, listed, names
from portkit.model import Status
from portkit.store.merge import Row


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        for rows, others in _judged(point):
            text = (
                f"On the same inputs the error is {each(rows, _error)} of its limit, and {each(others, _error)}. "
                "That is more than the case's rounding explains, so something else than rounding differs."
            )
            yield rule.finding(point, rows, others, text)
        rows, others = _nonfinite(point, context)
        if rows:
            text = (
                f"On the same inputs the output of {listed(names(rows))} has NaN or Inf where that of "
                f"{listed(names(others))} "
                "has numbers, or the reverse. Rounding does not do that."
            )
            yield rule.finding(point, rows, others, text)


def _judged(point: Point) -> Iterator[tuple[list[Row], list[Row]]]:
    """Wrong rows and right ones, of those that had the same inputs."""
    groups: dict[str, list[Row]] = {}
    for row in point.ran:
        if row.record.verdict:
            groups.setdefault(row.record.verdict.input_hash, []).append(row)
    for group in groups.values():
        wrong = [row for row in group if row.record.outcome.status is Status.WRONG_RESULT]
        right = [row for row in group if row.record.outcome.status.good]
        if wrong and right:
            yield wrong, right


def _nonfinite(point: Point, context: Context) -> tuple[list[Row], list[Row]]:
    """Rows whose good outputs part in NaN or Inf, by their samples."""
    known = {f"{x.record.cell.target} {x.record.evidence.value} (run {x.record.run_id})": x for x in point.ran}
    parted = [
        (x.one, x.other) for x in context.distances if _is_of(x, point) and any(y.max_ulp is None for y in x.outputs)
    ]
    pairs = [(known[one], known[other]) for one, other in parted if one in known and other in known]
    return [other for _, other in pairs], list({id(one): one for one, _ in pairs}.values())


def _is_of(apart: Distance, point: Point) -> bool:
    operation = apart.kernel, apart.direction, apart.shape, apart.dtype, apart.variant
    return operation == (point.case, point.direction, point.shape, point.dtype, point.variant)


def _error(row: Row) -> str:
    verdict = row.record.verdict
    shares = (
        [x.fused_error / x.limit for x in verdict.outputs if x.fused_error is not None and x.limit] if verdict else []
    )
    return f"{max(shares):.2f}" if shares else "not finite, which is over every share"


RULE = Rule(
    id="PK307",
    title="Results differ beyond the rounding model",
    severity=Severity.ERROR,
    evidence="verdicts and output samples of rows that ran on the same inputs, emulated ones too",
    cause="On the same inputs one target is within the limit that the case's rounding allows and another is "
    "not, or one has NaN or Inf where the other has numbers. Rounding alone does not do that: another "
    "precision of products, a wrong index, a race or a compiler fault does.",
    cost="Training and inference give other results on that target, and tests pass on the other.",
    remedy="Look first at PK203, PK301 and PK302 of the same kernel; then run it with input_precision=ieee and "
    "with one stage, and under the sanitizer or emulated.",
    check=_check,
)
