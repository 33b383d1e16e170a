"""Compile time out of line."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from portkit.analysis.findings.rule import Finding, Rule, Severity, each, listed, names
from portkit.analysis.points import Context, Point, total
from portkit.model import Stage, Status
from portkit.store.merge import Row

_TIMES = 5.0
"""Seconds, or lines, over the median of the other targets."""
_SECONDS = 5.0
_LINES = 5000


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        late = [row for row in point.attempts if _timed_out(row)]
        slow = _outstanding(point)
        others = [row for row in point.binaries if row not in slow and row.record.outcome.status.good]
        if (late or slow) and others:
            told = [
                *([f"it did not end within its limit on {listed(names(late))}"] if late else []),
                *([each(slow, _size)] if slow else []),
            ]
            text = (
                f"Compiling it is out of line: {'; '.join(told)}, against {_sizes(others)}. "
                "That time is spent once for each specialisation, and by an autotuner for each configuration."
            )
            yield rule.finding(point, [*late, *slow], others, text)


def _timed_out(row: Row) -> bool:
    outcome = row.record.outcome
    return outcome.status is Status.TIMEOUT and outcome.stage is Stage.COMPILE


def _outstanding(point: Point) -> list[Row]:
    """Rows of which seconds or lines stand far over the median of the others."""
    rows = point.binaries
    figures: list[tuple[Sequence[float], float]] = [
        (list(map(_seconds, rows)), _SECONDS),
        (list(map(_lines, rows)), _LINES),
    ]
    return [row for i, row in enumerate(rows) if any(_stands_out(values, i, least) for values, least in figures)]


def _stands_out(values: Sequence[float], place: int, least: float) -> bool:
    if values[place] < least or len(values) < 2:
        return False
    return values[place] >= _TIMES * statistics.median([*values[:place], *values[place + 1 :]]) > 0


def _seconds(row: Row) -> float:
    """Seconds of all builds; 0 where all came from the cache."""
    return sum(x.compile_seconds or 0 for x in row.record.build.candidates) if row.record.build else 0


def _lines(row: Row) -> int:
    return total(row, "llvm_lines")


def _size(row: Row) -> str:
    seconds = _seconds(row)
    return f"{_lines(row)} lines of LLVM IR" + (f" in {seconds:.1f} s" if seconds else "")


def _sizes(rows: list[Row]) -> str:
    """From the least to the most of several rows."""
    lines, seconds = sorted(map(_lines, rows)), max(map(_seconds, rows))
    count = f"{lines[0]} to {lines[-1]}" if lines[0] < lines[-1] else str(lines[0])
    return (
        f"{count} lines of LLVM IR" + (f" in {seconds:.1f} s at most" if seconds else "") + f" on {listed(names(rows))}"
    )


RULE = Rule(
    id="PK408",
    title="Compile time out of line",
    severity=Severity.WARNING,
    evidence="seconds and LLVM IR of the build, or that it did not end",
    cause="The same source becomes many times the code on one backend: a product without a matrix instruction "
    "is unrolled, an emulated conversion is repeated for each element, or a deep pipeline is copied; "
    "later passes take time that grows faster than the code.",
    cost="The first call on that target takes seconds to minutes, once for each specialisation, and an "
    "autotuner multiplies that.",
    remedy="Use smaller tiles or the target's own formats there, fewer stages, and ship a warm cache.",
    check=_check,
)
