"""How an instruction gets its meaning: the look-up over the tables of all families."""

from __future__ import annotations

import functools

from portkit.emulate.amdgcn.architecture import RDNA
from portkit.emulate.amdgcn.decode import Decoder, Uses
from portkit.emulate.amdgcn.isa import dual
from portkit.emulate.amdgcn.isa.families import FAMILIES
from portkit.emulate.amdgcn.isa.registry import Compiled, Entry, Table, base_name, join
from portkit.emulate.amdgcn.operands import SCALARS, File
from portkit.emulate.amdgcn.program import Instruction, Program
from portkit.emulate.core.findings import Unsupported, readable


@functools.cache
def all_entries() -> Table:
    """Every mnemonic that the emulator knows."""
    return join(FAMILIES.values())


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
