"""How an instruction gets its meaning: tables of entries, and the look-up over all of them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from portkit.emulate.amdgcn.architecture import ALL, CDNA, RDNA, Generation
from portkit.emulate.amdgcn.decode import Decoder, Step, Uses
from portkit.emulate.amdgcn.isa import dual
from portkit.emulate.amdgcn.operands import SCALARS, File, Type
from portkit.emulate.amdgcn.program import Instruction, Program
from portkit.emulate.core.findings import Unsupported, readable
from portkit.emulate.core.vectors import Approximation

Build: TypeAlias = Callable[[Decoder], Step]

_ENCODING = re.compile(r"(_e32|_e64)?(_dpp|_sdwa|_dpp8)?$")


@dataclass(frozen=True)
class Operands:
    """Types of an instruction that computes one result from its operands and nothing else."""

    result: Type
    sources: tuple[Type, ...]
    accumulate: bool = False  # the destination is the last source


@dataclass(frozen=True)
class Entry:
    """Meaning of one mnemonic."""

    build: Build
    section: str  # ISA document, number and title of the section
    generations: frozenset[Generation] = ALL  # that have it
    operands: Operands | None = None  # where it is arithmetic on them alone
    approximation: Approximation | None = None  # None: the device's bits, NaNs' own apart

    @property
    def source(self) -> str:
        """Of ``section``, what the documents of its generations say; RDNA4's have the numbers of RDNA3's."""
        families = [name for name, family in (("CDNA", CDNA), ("RDNA", RDNA)) if self.generations & family]
        parts = [part for part in self.section.split("; ") if part.startswith(tuple(families))]
        only_newest = self.generations == {Generation.RDNA4}
        return "; ".join(part.replace("RDNA3 ", "RDNA4 ") if only_newest else part for part in parts)


Table: TypeAlias = Mapping[str, Entry]


@dataclass(frozen=True)
class Compiled:
    """One instruction, ready to run."""

    instruction: Instruction
    step: Step
    uses: Uses


def table_of(build: Build, section: str, names: str, generations: frozenset[Generation] = ALL) -> dict[str, Entry]:
    """One entry for several mnemonics, given in one string."""
    return {name: Entry(build, section, generations) for name in names.split()}


def join(tables: Iterable[Table]) -> dict[str, Entry]:
    """One table of several; a mnemonic that two of them define is a mistake."""
    joined: dict[str, Entry] = {}
    for table in tables:
        twice = joined.keys() & table.keys()
        if twice:
            raise ValueError(f"defined twice: {', '.join(sorted(twice))}")
        joined.update(table)
    return joined


@functools.cache
def all_entries() -> Table:
    """Every mnemonic that the emulator knows."""
    from portkit.emulate.amdgcn.isa.families import FAMILIES  # noqa: PLC0415 - the families import this module

    return join(FAMILIES.values())


@functools.cache
def base_name(mnemonic: str) -> str:
    """A mnemonic without the suffix of its encoding."""
    return _ENCODING.sub("", mnemonic)


def entry_of(program: Program, instruction: Instruction) -> Entry:
    """The entry of an instruction, refused where the architecture lacks it."""
    name = base_name(instruction.mnemonic)
    entry = all_entries().get(name)
    if entry is None:
        raise Unsupported(f"instruction {name} is not known", instruction.site)
    if program.architecture.generation not in entry.generations:
        raise Unsupported(f"{program.architecture.name} has no {name}", instruction.site)
    return entry


def compile_instruction(program: Program, instruction: Instruction) -> Compiled:
    """The step of one instruction, with the registers that it uses.

    Raises:
        Unsupported: the mnemonic, an operand or a modifier is not modelled.
    """
    if instruction.second is not None:
        return _compile_dual(program, instruction, instruction.second)
    entry = entry_of(program, instruction)
    decoder = Decoder(program, instruction)
    try:
        with readable(instruction.site):
            step = entry.build(decoder)
    except Unsupported as error:
        raise error if error.site else Unsupported(error.cause, instruction.site) from None
    decoder.finish()
    _check_registers(program, instruction, decoder.uses)
    return Compiled(instruction, step, decoder.uses)


def _check_registers(program: Program, instruction: Instruction, uses: Uses) -> None:
    """Refuse registers that the architecture has not."""
    most = {File.VECTOR: program.architecture.max_vgprs, File.SCALAR: SCALARS}
    for file, index in uses.reads | uses.writes:
        if not 0 <= index < most[file]:
            raise Unsupported(f"{program.architecture.name} has no register {file.value}{index}", instruction.site)


def _compile_dual(program: Program, instruction: Instruction, other: Instruction) -> Compiled:
    """Both halves of a dual-issue instruction."""
    halves = [dual.single(half) for half in (instruction, other)]
    if None in halves or program.architecture.generation not in RDNA:
        raise Unsupported("no dual-issue form", instruction.site)
    first, second = (compile_instruction(program, half) for half in halves if half)
    written = min(index for file, index in first.uses.writes if file is File.VECTOR)
    step = dual.together(first.step, second.step, written, second.uses.reads)
    uses = Uses(first.uses.reads | second.uses.reads, first.uses.writes | second.uses.writes)
    return Compiled(instruction, step, uses)
