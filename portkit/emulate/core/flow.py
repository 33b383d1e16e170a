"""What holds at the start of each block of a program, whichever way waves came there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

State = TypeVar("State")


def solve(
    entry: int,
    start: State,
    through: Callable[[int, State], State],
    successors: Callable[[int], Iterable[int]],
    join: Callable[[State, State], State],
) -> dict[int, State]:
    """State at the start of every block that can be reached; blocks go by the number of their first instruction.

    Args:
        entry: block where waves begin.
        start: state there.
        through: state behind a block from the one before it.
        successors: blocks that may come after one.
        join: of two ways that meet; repeated joins must come to an end.
    """
    found = {entry: start}
    waiting = [entry]
    while waiting:
        block = waiting.pop()
        behind = through(block, found[block])
        for target in successors(block):
            joined = join(found[target], behind) if target in found else behind
            if target not in found or joined != found[target]:
                found[target] = joined
                waiting.append(target)
    return found
