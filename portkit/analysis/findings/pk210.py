"""More threads than elements where a warp is wider."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, each, listed, names
from portkit.analysis.points import Context, launches
from portkit.model import Launch
from portkit.store.merge import Row


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows, others = point.parted(_idle, _busy, needs=("tile",))
        if rows:
            yield rule.finding(point, rows, others, _text(rows, others))


def _text(rows: list[Row], others: list[Row]) -> str:
    launch = next(each for each in launches(rows[0]) if _is_idle(each))
    resources, tile = launch.resources, (launch.signals or {})["tile"]
    return (
        f"A block of {launch.kernel} has {resources.threads_per_block} threads on {listed(names(rows))}, where a "
        f"warp is {resources.warp_size} wide, for tensors of at most {tile} elements, and {each(others, _threads)}. "
        "The lanes without an element repeat the work of others."
    )


def _threads(row: Row) -> str:
    return f"{max(each.resources.threads_per_block for each in launches(row))} threads"


def _is_idle(launch: Launch) -> bool:
    tile = (launch.signals or {}).get("tile", 0)
    return launch.resources.warp_size > 32 and 1 < tile < launch.resources.threads_per_block


def _idle(row: Row) -> bool:
    return any(map(_is_idle, launches(row)))


def _busy(row: Row) -> bool:
    read = [each for each in launches(row) if each.signals]
    return any(x.resources.warp_size == 32 for x in read) and all(
        x.resources.threads_per_block <= (x.signals or {}).get("tile", 0) for x in read
    )


RULE = Rule(
    id="PK210",
    title="More threads than elements where a warp is wider",
    severity=Severity.INFO,
    evidence="Triton IR of the binary, and its threads",
    cause="num_warps is the same everywhere, a warp is not: with 64 lanes a block has twice the threads, and "
    "more than its largest tensor has elements.",
    cost="Lanes without an element of their own repeat the work of others: half of the block takes slots and "
    "registers and adds nothing.",
    remedy="Halve num_warps where a warp has 64 threads, or give a block more elements.",
    check=_check,
)
