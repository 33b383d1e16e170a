"""Loads that begin a loop around a compare-and-swap.

LLVM's AtomicExpand pass makes such loops of atomic operations that an architecture lacks, as of an addition of 16 bits:
a plain load guesses what is there, and the compare-and-swap of the same address fails where the guess was wrong. So the
load can't race with other atomics.
"""

from __future__ import annotations

from collections.abc import Iterable

from portkit.emulate.ptx.execute import Code
from portkit.emulate.ptx.program import Address, Operand


def guesses(code: Code) -> frozenset[int]:
    """Lines of loads that have the address of a compare-and-swap."""
    every = [item.instruction for item in code.compiled]
    swapped = {_address(item.operands) for item in every if item.opcode == "atom" and "cas" in item.modifiers}
    return frozenset(item.site.line for item in every if item.opcode == "ld" and _address(item.operands) in swapped)


def _address(operands: Iterable[Operand]) -> Address:
    """Behind the result."""
    return next(item for item in operands if isinstance(item, Address))
