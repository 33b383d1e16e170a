"""How an instruction gets its meaning: tables of entries, and the look-up over all of them.

A table has one row for an opcode, with those of its suffixes that make it another instruction: ``add``, ``bar.sync``,
``mbarrier.try_wait``, ``cp.async.bulk.tensor``. The longest name that a table has counts. Where several rows have one
name, the last type of the instruction decides.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from portkit.emulate.core.findings import Unsupported, readable
from portkit.emulate.core.vectors import Approximation
from portkit.emulate.ptx.decode import Decoder, Read, Step, Uses
from portkit.emulate.ptx.program import Immediate, Instruction, Program
from portkit.emulate.ptx.types import Type

Build: TypeAlias = Callable[[Decoder], Step]


@dataclass(frozen=True)
class Entry:
    """Meaning of one row.

    The flags say how the instruction takes part in control flow; guards are the registry's affair.
    """

    build: Build
    section: str  # title of the section of the PTX ISA document
    types: frozenset[Type] = frozenset()  # of the last type of the instruction; empty: whatever there is
    since: int = 0  # compute capability × 10
    approximation: Approximation | None = None  # None: the device's bits, NaNs' own apart
    collective: bool = False  # the lanes of a warp run it together
    masked: bool = False  # those that its last operand names
    ends: bool = False  # threads may part behind it: its step sets program counters or states
    begins: bool = False  # a block begins with it, so that threads can come back to it
    changes: bool = True  # False: nothing that is modelled


Table: TypeAlias = Mapping[str, tuple[Entry, ...]]


@dataclass(frozen=True)
class Compiled:
    """One instruction, ready to run."""

    instruction: Instruction
    entry: Entry
    step: Step
    uses: Uses
    members: Read | None = None  # lanes that run it together, by bit; None: all
    also: tuple[Uses, ...] = ()  # of instructions behind it that run with it
    made: Step | None = None  # as its entry made it; where ``step`` is another, something has been added or taken away
    key: Hashable | None = None  # what those have in common that may run as one


Pass: TypeAlias = Callable[[Program, tuple[Compiled, ...]], tuple[Compiled, ...]]
"""Changes the steps of a program, as where registers must not be touched before a wait."""


def join(tables: Iterable[Table]) -> dict[str, tuple[Entry, ...]]:
    """One table of several; rows of one name need types that tell them apart."""
    joined: dict[str, tuple[Entry, ...]] = {}
    for table in tables:
        for name, entries in table.items():
            joined[name] = (*joined.get(name, ()), *entries)
    for name, entries in joined.items():
        kinds = [kind for entry in entries for kind in entry.types]
        if len(entries) > 1 and (len(kinds) != len(set(kinds)) or not all(entry.types for entry in entries)):
            raise ValueError(f"defined twice: {name}")
    return joined


@functools.cache
def all_entries() -> Table:
    """Every row of every family."""
    from portkit.emulate.ptx.isa.families import FAMILIES  # noqa: PLC0415 - the families import this module

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
    what = f"type .{last.suffix} of {instruction.opcode}" if last else f"{instruction.opcode} without a type"
    raise Unsupported(f"{what} is not known", instruction.site)


def _rows(instruction: Instruction) -> tuple[Entry, ...]:
    return all_entries()[row_name(instruction)]


def row_name(instruction: Instruction) -> str:
    """The longest part of an instruction's name that a table has.

    Raises:
        Unsupported: no table has any.
    """
    found = _row_name(instruction.opcode, instruction.modifiers)
    if found is None:
        raise Unsupported(f"instruction {instruction.opcode} is not known", instruction.site)
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
    return decoder.read(mask, Type.B32)


def _guarded(decoder: Decoder, entry: Entry, step: Step) -> Step:
    """The step for the threads whose guard is true; what ends a block sees to its guard itself."""
    guard = decoder.instruction.guard
    if guard is None or entry.ends:
        return step
    condition = decoder.guard()
    return lambda machine: machine.guarded(condition(machine), step)
