"""Compile time out of line."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from portkit.analysis.findings.points import Context, Point, total
from portkit.analysis.findings.rule import Finding, Rule, Severity, each, listed, names
from portkit.model import Stage, Status
from portkit.store.merge import Row

_TIMES = 5.0
"""Seconds, or lines, over the median of the other targets."""
_SECONDS = 5.0
_LINES = 5000


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        late = [row for row in point.attempts if _timed_out(row)]
        slow = [row for row in point.binaries if _stands_out(row, point)]
        others = [row for row in point.binaries if row not in slow and row.record.outcome.status.good]
        if (late or slow) and others:
            told = [
                *([f"it did not end within its limit on {listed(names(late))}"] if late else []),
                *([each(slow, _size)] if slow else []),
            ]
            text = (
                f"Compiling it is out of line: {'; '.join(told)}, against {each(others, _size)}. "
                "That time is spent once for each specialisation, and by an autotuner for each configuration."
            )
            yield rule.finding(point, [*late, *slow], others, text)


def _timed_out(row: Row) -> bool:
    outcome = row.record.outcome
    return outcome.status is Status.TIMEOUT and outcome.stage is Stage.COMPILE


def _stands_out(row: Row, point: Point) -> bool:
    rest = [each for each in point.binaries if each is not row]
    return any(
        bool(rest) and figure(row) >= least and figure(row) >= _TIMES * statistics.median(map(figure, rest)) > 0
        for figure, least in ((_seconds, _SECONDS), (_lines, _LINES))
    )


def _seconds(row: Row) -> float:
    """Seconds of all builds; 0 where all came from the cache."""
    return sum(x.compile_seconds or 0 for x in row.record.build.candidates) if row.record.build else 0


def _lines(row: Row) -> int:
    return total(row, "llvm_lines")


def _size(row: Row) -> str:
    seconds = _seconds(row)
    return f"{_lines(row)} lines of LLVM IR" + (f" in {seconds:.1f} s" if seconds else "")


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
