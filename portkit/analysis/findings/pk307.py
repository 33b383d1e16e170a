"""Results differ beyond the rounding model."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping, Sequence

from portkit.analysis.distance import Distance
from portkit.analysis.findings.rule import Finding, Rule, Severity, each, sides
from portkit.analysis.points import Context, Point
from portkit.model import Direction, Status
from portkit.store.merge import Row

Operation = tuple[str, Direction, tuple[int, ...], str, str]
"""Case, direction, shape, dtype and variant."""


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    parted = _parted(context.distances)
    for point in context.points:
        for rows, others in _judged(point):
            text = (
                f"On the same inputs the error is {each(rows, _error, others)}, and "
                f"{each(others, _error, rows)}. That is more than the case's rounding explains, so something else "
                "than rounding differs."
            )
            yield rule.finding(point, rows, others, text)
        rows, others = _nonfinite(point, parted)
        if rows:
            one, other = sides(rows, others)
            text = (
                f"On the same inputs the output of {one} has NaN or Inf where that of {other} has numbers, or the "
                "reverse. Rounding does not do that."
            )
            yield rule.finding(point, rows, others, text)


def _parted(distances: Iterable[Distance]) -> dict[Operation, list[Distance]]:
    """Distances of outputs that part in NaN or Inf, by operation."""
    found: dict[Operation, list[Distance]] = collections.defaultdict(list)
    for apart in distances:
        if any(output.max_ulp is None for output in apart.outputs):
            found[apart.kernel, apart.direction, apart.shape, apart.dtype, apart.variant].append(apart)
    return found


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


def _nonfinite(point: Point, parted: Mapping[Operation, Sequence[Distance]]) -> tuple[list[Row], list[Row]]:
    """Rows whose good outputs part in NaN or Inf, by their samples."""
    found = parted.get((point.case, point.direction, point.shape, point.dtype, point.variant))
    if not found:
        return [], []
    known = {f"{x.record.cell.target} {x.record.evidence.value} (run {x.record.run_id})": x for x in point.ran}
    pairs = [(known[x.one], known[x.other]) for x in found if x.one in known and x.other in known]
    return [other for _, other in pairs], list({id(one): one for one, _ in pairs}.values())


def _error(row: Row) -> str:
    """In units of its limit; where codes or indices have to be equal, how many are not."""
    verdict = row.record.verdict
    known = [(x.fused_error, x.limit) for x in verdict.outputs if x.fused_error is not None] if verdict else []
    if others := max((error for error, limit in known if not limit), default=0):
        return f"that {100 * others:.2g} % of codes or indices are others"
    shares = [error / limit for error, limit in known if limit]
    apart = _families(row)
    if apart and max(shares, default=0) <= 1:
        return f"over its limit on inputs of the family {', '.join(apart)}"
    return f"{max(shares):.2f} of its limit" if shares else "within its limit" if known else "not finite"


def _families(row: Row) -> list[str]:
    """Of a wrong row, the families of inputs on which it is."""
    verdict = row.record.verdict
    if row.record.outcome.status.good or not verdict:
        return []
    return [name for name, each in verdict.families.items() if each.status is Status.WRONG_RESULT]


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
