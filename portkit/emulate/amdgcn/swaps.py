"""Loads that begin a loop around a compare-and-swap.

LLVM's AtomicExpand pass makes such loops of atomic operations that the hardware lacks: a plain load guesses what is
there, and the compare-and-swap of the same address fails where the guess was wrong. So the load can't race with
other atomics.
"""

from __future__ import annotations

from portkit.emulate.amdgcn.execute import Code
from portkit.emulate.amdgcn.program import Instruction

_SWAP = "_atomic_cmpswap"


def guesses(code: Code) -> frozenset[int]:
    """Lines of loads whose address, as written, a compare-and-swap of the program has too."""
    instructions = [item.instruction for item in code.compiled]
    swapped = {_swap_address(item) for item in instructions if _SWAP in item.mnemonic}
    if not swapped:
        return frozenset()
    return frozenset(item.site.line for item in instructions if _is_load(item) and _address(item, 1) in swapped)


def _is_load(instruction: Instruction) -> bool:
    return instruction.mnemonic.startswith(("global_load_", "flat_load_", "buffer_load_"))


def _swap_address(instruction: Instruction) -> tuple[str, ...]:
    """The result, where there is one, is named before the address, and the data behind it; buffers' data before it."""
    operands = instruction.operands
    if instruction.mnemonic.startswith("buffer_"):
        return _address(instruction, 1)
    returns = len(operands) - (3 if instruction.mnemonic.startswith("global_") else 2)
    behind = operands[returns + 2 :]
    return _form(instruction, (operands[returns], *behind))


def _address(instruction: Instruction, first: int) -> tuple[str, ...]:
    return _form(instruction, instruction.operands[first:])


def _form(instruction: Instruction, operands: tuple[str, ...]) -> tuple[str, ...]:
    """Address operands with what else makes the address."""
    space = instruction.mnemonic.partition("_")[0]
    modes = [name for name in ("offen", "idxen") if name in instruction.modifiers]
    return (space, *operands, str(instruction.number("offset")), *modes)
