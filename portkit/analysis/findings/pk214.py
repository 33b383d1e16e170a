"""An option without effect."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, listed, names
from portkit.analysis.points import Context, Point, by_operation, launches
from portkit.store.merge import Row


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for one, other in _variants(context.points):
        pairs = _pairs(one, other)
        same = [row for row, twin in pairs if _hashes(row) == _hashes(twin) and _options([(row, twin)])]
        differ = [row for row, twin in pairs if _hashes(row) != _hashes(twin)]
        if same and differ:
            text = (
                f"Variants {one.variant} and {other.variant} differ in {listed(_options(pairs))}, and are the same "
                "binary on "
                f"{listed(names(same))}, where the option does nothing. On {listed(names(differ))} it makes another "
                "one."
            )
            yield rule.finding(one, same, differ, text)


def _variants(points: Iterable[Point]) -> Iterator[tuple[Point, Point]]:
    """Variants of one operation, each with the next by name: their number may be large."""
    for group in by_operation(points).values():
        yield from itertools.pairwise(group)


def _pairs(one: Point, other: Point) -> list[tuple[Row, Row]]:
    """Rows of both on one target whose launches differ in options alone."""
    twins = {row.record.cell.target: row for row in other.binaries}
    pairs = [(row, twins[row.record.cell.target]) for row in one.binaries if row.record.cell.target in twins]
    alike = [pair for pair in pairs if _source(pair[0]) == _source(pair[1])]
    return alike if any(_options([pair]) for pair in alike) else []


def _source(row: Row) -> list[tuple[object, ...]]:
    """What two launches have alike where only options differ."""
    return [(x.kernel, x.num_warps, dict(x.specialization), dict(x.constants)) for x in launches(row)]


def _hashes(row: Row) -> list[str]:
    return [x.binary_hash for x in launches(row)]


def _options(pairs: Iterable[tuple[Row, Row]]) -> list[str]:
    """Options in which the launches of pairs differ."""
    found: dict[str, None] = {}
    for row, twin in pairs:
        for one, other in zip(launches(row), launches(twin), strict=False):
            mine, its = {**one.options, "num_stages": one.num_stages}, {**other.options, "num_stages": other.num_stages}
            found |= dict.fromkeys(name for name in {**mine, **its} if mine.get(name) != its.get(name))
    return list(found)


RULE = Rule(
    id="PK214",
    title="An option without effect",
    severity=Severity.INFO,
    evidence="hashes of binaries of two variants that differ in one option",
    cause="Two variants that differ in one option alone, or in none that the binary shows, are the same "
    "binary on one target and two on another: the backend takes the option and does nothing with it, "
    "such as the shape of the matrix instruction where there is one shape only.",
    cost="Tuning over it compiles and measures the same code several times, and a gain on one target says "
    "nothing about the other.",
    remedy="Leave the option out of the configurations of that target.",
    check=_check,
)
