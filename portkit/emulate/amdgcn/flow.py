"""What holds at the start of each block of a program, whichever way waves came there."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from portkit.emulate.amdgcn.execute import Block, Code
from portkit.emulate.amdgcn.isa.control import CONDITIONS, JUMPS, ends_block, return_points
from portkit.emulate.amdgcn.isa.registry import base_name
from portkit.emulate.core import flow
from portkit.emulate.core.flow import State


def successors(code: Code, block: Block) -> Iterable[int]:
    """First instructions of the blocks that may come next."""
    last = code.compiled[block.after - 1].instruction
    name = base_name(last.mnemonic)
    if block.after - 1 in code.program.far:
        yield code.program.far[block.after - 1]
        return
    if name in JUMPS:
        yield from code.program.entries
        yield from return_points(code.program) if name == "s_setpc_b64" else ()
        return
    if name in CONDITIONS or name == "s_branch":
        yield from (code.program.labels[item] for item in last.operands if item in code.program.labels)
    if (not ends_block(last) or name not in {"s_branch", "s_endpgm", "s_trap"}) and block.after in code.blocks:
        yield block.after


def solve(
    code: Code, start: State, through: Callable[[Block, State], State], join: Callable[[State, State], State]
) -> dict[int, State]:
    """State at the start of every block that can be reached.

    Args:
        code: the program.
        start: state where waves begin.
        through: state behind a block from the one before it.
        join: of two ways that meet; repeated joins must come to an end.
    """
    return flow.solve(
        code.entry,
        start,
        lambda number, state: through(code.blocks[number], state),
        lambda number: successors(code, code.blocks[number]),
        join,
    )
