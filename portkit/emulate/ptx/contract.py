"""Quotients that go into sums before they are rounded, as the assembler has it.

PTX lets the assembler fuse a product and a sum that name no rounding mode. Triton's compiler has fused most itself, but
not the product in ``div.full``, the dividend times an approximate reciprocal: ``ptxas`` makes one ``FFMA`` of it and of
``add`` or ``sub``, where sums of the same block are all that takes the quotient. So the SASS of sm_75 to sm_120 shows,
and an H200's norms, whose ``sum / n + eps`` it is.

Source: PTX ISA, "Floating Point Instructions: add"; ``ptxas`` itself,
in ``tests/compiled/test_contracted_sass.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from portkit.emulate.ptx.program import Address, Instruction, Negated, Operand, Pair, Program, Register, Vector

ADDED, LESS, FROM = "+added", "+less", "+from"
"""Modifiers of ``div.full`` with a fourth operand, which no text can name: q + c, q - c, c - q."""

_ENDS = frozenset({"bra", "brx", "call", "ret", "exit", "trap"})
"""Opcodes behind which another block begins."""


def contracted(program: Program) -> Program:
    """The program with such sums; their quotients stay, where nothing takes them."""
    quotients = [each for each in program.instructions if _is(each, "div", "full", "f32")]
    if not quotients:
        return program
    counts = Counter(register for each in program.instructions for register in _registers(each.operands))
    changed = list(program.instructions)
    for quotient in quotients:
        for each in _sums(program, quotient, counts):
            changed[each.index] = _taking(each, quotient)
    return replace(program, instructions=tuple(changed))


def _is(instruction: Instruction, opcode: str, *modifiers: str) -> bool:
    return instruction.opcode == opcode and instruction.modifiers == modifiers and instruction.guard is None


def _registers(operands: Sequence[Operand]) -> Iterator[Register]:
    """All that operands name, as often as they do."""
    for each in operands:
        if isinstance(each, Register):
            yield each
        elif isinstance(each, Vector):
            yield from _registers(each.items)
        elif isinstance(each, Pair):
            yield from _registers((each.first, each.second))
        elif isinstance(each, Negated):
            yield from _registers((each.operand,))
        elif isinstance(each, Address):
            yield from _registers((each.base, *each.more))


def _sums(program: Program, quotient: Instruction, counts: Counter[Register]) -> list[Instruction]:
    """Those that take a quotient; none where anything else does, or where its operands are others by then."""
    result, *given = quotient.operands
    left = counts[result] - 1 if isinstance(result, Register) else 0
    found: list[Instruction] = []
    for each in _block(program, quotient.index + 1):
        if not left:
            break
        taken = sum(item == result for item in _registers(each.operands))
        if taken:
            if taken > 1 or each.operands[0] == result or not (_is(each, "add", "f32") or _is(each, "sub", "f32")):
                return []
            found.append(each)
            left -= 1
        if left and set(_registers(each.operands[:1])) & set(_registers(given)):
            return []
    return [] if left else found


def _block(program: Program, first: int) -> Iterator[Instruction]:
    """From an instruction to the end of its block."""
    for each in program.instructions[first:]:
        if each.index in program.targets or each.opcode in _ENDS:
            return
        yield each


def _taking(each: Instruction, quotient: Instruction) -> Instruction:
    """A sum with the quotient's operands in place of the quotient."""
    total, left, right = each.operands
    first = left == quotient.operands[0]
    how = ADDED if each.opcode == "add" else LESS if first else FROM
    operands = total, *quotient.operands[1:], right if first else left
    return replace(each, opcode="div", modifiers=("full", how, "f32"), operands=operands)
