"""Loads that begin a loop around a compare-and-swap.

LLVM's AtomicExpand pass makes such loops of atomic operations that the hardware lacks: a plain load guesses what is
there, and the compare-and-swap of the same address fails where the guess was wrong. So the load can't race with
other atomics.
"""

from __future__ import annotations

from portkit.emulate.amdgcn.execute import Code
from portkit.emulate.amdgcn.operands import File, parse_register
from portkit.emulate.amdgcn.program import Instruction

_SWAP = "_atomic_cmpswap"


def guesses(code: Code) -> frozenset[int]:
    """Lines of loads that a compare-and-swap checks.

    They give what it compares with, or have its address as written.
    """
    swaps = [number for number, item in enumerate(code.compiled) if _SWAP in item.instruction.mnemonic]
    if not swaps:
        return frozenset()
    instructions = [item.instruction for item in code.compiled]
    addresses = {_swap_address(instructions[number]) for number in swaps}
    by_address = {item.site.line for item in instructions if _is_load(item) and _address(item, 1) in addresses}
    return frozenset(by_address | {line for number in swaps for line in _compared(code, number)})


def _compared(code: Code, swap: int) -> list[int]:
    """The load that is the last to write the register which a compare-and-swap compares with."""
    register = _data(code, code.compiled[swap].instruction)
    for item in reversed(code.compiled[:swap]):
        if register in item.uses.writes:
            return [item.instruction.site.line] if _is_load(item.instruction) else []
    return []


def _data(code: Code, instruction: Instruction) -> tuple[File, int]:
    """The last of the registers that a compare-and-swap takes: new values, then those to compare with."""
    place = 0 if instruction.mnemonic.startswith("buffer_") else _returns(instruction) + 1
    register = parse_register(instruction.operands[place], code.program.directive("accum_offset", 256))
    assert register
    return register.file, register.index + register.count - 1


def _is_load(instruction: Instruction) -> bool:
    return instruction.mnemonic.startswith(("global_load_", "flat_load_", "buffer_load_"))


def _swap_address(instruction: Instruction) -> tuple[str, ...]:
    """The result, where there is one, is named before the address, and the data behind it; buffers' data before it."""
    if instruction.mnemonic.startswith("buffer_"):
        return _address(instruction, 1)
    returns, operands = _returns(instruction), instruction.operands
    return _form(instruction, (operands[returns], *operands[returns + 2 :]))


def _returns(instruction: Instruction) -> int:
    """1 where the old value is returned, in an operand of its own; else 0."""
    return len(instruction.operands) - (3 if instruction.mnemonic.startswith("global_") else 2)


def _address(instruction: Instruction, first: int) -> tuple[str, ...]:
    return _form(instruction, instruction.operands[first:])


def _form(instruction: Instruction, operands: tuple[str, ...]) -> tuple[str, ...]:
    """Address operands with what else makes the address."""
    space = instruction.mnemonic.partition("_")[0]
    modes = [name for name in ("offen", "idxen") if name in instruction.modifiers]
    return (space, *operands, str(instruction.number("offset")), *modes)
