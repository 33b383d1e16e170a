"""How an instruction gets its meaning: the look-up over the tables of all families."""

from __future__ import annotations

import functools

import numpy as np

from portkit.emulate.core.findings import Unsupported, readable
from portkit.emulate.ptx.decode import Decoder, Read, Step
from portkit.emulate.ptx.isa.families import FAMILIES
from portkit.emulate.ptx.isa.registry import NOT_RUN, Compiled, Entry, Table, join
from portkit.emulate.ptx.program import Immediate, Instruction, Program
from portkit.emulate.ptx.types import Type


@functools.cache
def all_entries() -> Table:
    """Every row of every family."""
    return join(FAMILIES.values())


def entry_of(program: Program, instruction: Instruction) -> Entry:
    """The row of an instruction, refused where the architecture lacks it.

    Raises:
        Unsupported: there is none.
    """
    entries = _rows(instruction)
    kinds = Decoder(program, instruction).kinds
    last = kinds[-1] if kinds else None
    for entry in entries:
        if not entry.types or last in entry.types:
            if program.architecture.number < entry.since:
                raise Unsupported(f"{program.architecture.name} has no {instruction.opcode}", instruction.site)
            return entry
    raise Unsupported(f"{_what_is_missing(instruction, last)} is not known", instruction.site)


def _what_is_missing(instruction: Instruction, last: Type | None) -> str:
    """What an instruction that has rows has, and none of them: a type, or something in the place of one."""
    if last:
        return f"type .{last.suffix} of {instruction.opcode}"
    behind = instruction.modifiers[row_name(instruction).count(".") :]
    return f".{behind[-1]} of {instruction.opcode}" if behind else f"{instruction.opcode} without a type"


def _rows(instruction: Instruction) -> tuple[Entry, ...]:
    return all_entries()[row_name(instruction)]


def row_name(instruction: Instruction) -> str:
    """The longest part of an instruction's name that a table has.

    Raises:
        Unsupported: no table has any.
    """
    found = _row_name(instruction.opcode, instruction.modifiers)
    if found is None:
        raise Unsupported(f"instruction {instruction.name} is not known", instruction.site)
    return found


@functools.lru_cache(maxsize=4096)
def _row_name(opcode: str, modifiers: tuple[str, ...]) -> str | None:
    names, known = (opcode, *modifiers), all_entries()
    every = (".".join(names[:length]) for length in range(len(names), 0, -1))
    return next((name for name in every if name in known), None)


def compile_instruction(program: Program, instruction: Instruction) -> Compiled:
    """The step of one instruction, with the registers that it uses.

    Raises:
        Unsupported: the name, a type, an operand or a modifier is not modelled.
    """
    entry = entry_of(program, instruction)
    decoder = Decoder(program, instruction)
    step = _guarded(decoder, entry, build_step(entry, decoder))
    return Compiled(instruction, entry, step, decoder.uses, _members(decoder, entry), made=step)


def build_step(entry: Entry, decoder: Decoder) -> Step:
    """What an instruction does where its guard, if it has one, is true.

    Raises:
        Unsupported: as ``compile_instruction``.
    """
    decoder.ignore(*row_name(decoder.instruction).split(".")[1:])
    if entry.types:
        decoder.chosen_by_type()
    with readable(decoder.site):
        step = entry.build(decoder)
    decoder.finish()
    return step


ALL_LANES = ("-1", "0xffffffff", "4294967295", "0xFFFFFFFF")
"""Member masks of a whole warp, as written."""


def _members(decoder: Decoder, entry: Entry) -> Read | None:
    if not entry.masked:
        return None
    mask = decoder.operands[-1]
    if isinstance(mask, Immediate) and mask.text in ALL_LANES:
        return None
    read = decoder.read(mask, Type.B32)
    if decoder.instruction.guard is None:
        return read
    condition = decoder.guard()
    return lambda machine: np.where(condition(machine), read(machine), NOT_RUN)


def _guarded(decoder: Decoder, entry: Entry, step: Step) -> Step:
    """The step for the threads whose guard is true; what ends a block sees to its guard itself."""
    guard = decoder.instruction.guard
    if guard is None or entry.ends:
        return step
    condition = decoder.guard()
    return lambda machine: machine.guarded(condition(machine), step)
