"""Registers that are read where no way from the entry has written them.

Judged on the program: a read is a fault where *no* way writes the register before it. Registers that only some
ways or some lanes write are not told apart, since compilers leave those undefined with reason: a value that no
active lane uses needs no definition.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

from portkit.emulate.amdgcn.execute import Block, Code
from portkit.emulate.amdgcn.flow import solve
from portkit.emulate.amdgcn.isa.registry import Compiled
from portkit.emulate.amdgcn.operands import EXEC, TTMP, File
from portkit.emulate.amdgcn.program import Program
from portkit.emulate.core.findings import Finding, Kind

Registers = frozenset[tuple[File, int]]


def at_entry(program: Program) -> Registers:
    """What the hardware fills before the first instruction (LLVM, AMDGPU usage, "Initial Kernel Execution State")."""
    ids = range(program.directive("user_sgpr_count") + 4)
    scalars = {*ids, EXEC, EXEC + 1, *range(TTMP, TTMP + 16)}
    return frozenset({(File.VECTOR, 0), *((File.SCALAR, index) for index in scalars)})


def unwritten_reads(code: Code) -> dict[int, list[Finding]]:
    """Instructions that read a register that nothing wrote, by the first instruction of their block."""
    written = [frozenset(item.uses.writes) for item in code.compiled]
    by_halves = {start for start, each in code.blocks.items() if any(item.uses.halves for item in _items(code, each))}

    def through(block: Block, state: Registers) -> Registers:
        if block.start not in by_halves:
            return state.union(*written[block.start : block.after])
        known = set(state)
        for item in _items(code, block):
            known |= _defined(item, known)
        return frozenset(known)

    states = solve(code, at_entry(code.program), through, frozenset.union)
    judged = {start: _judge(_items(code, code.blocks[start]), known) for start, known in states.items()}
    return {start: found for start, found in judged.items() if found}


def _items(code: Code, block: Block) -> tuple[Compiled, ...]:
    return code.compiled[block.start : block.after]


def _defined(item: Compiled, known: AbstractSet[tuple[File, int]]) -> set[tuple[File, int]]:
    """What an instruction writes, but for a half that is made of what nothing wrote.

    Compilers join two operations, or one and nothing, where a value is the other half of a pair.
    """
    halves = [half for half in item.uses.halves if half.reads <= known]
    return set().union(*(half.writes for half in halves)) if halves else item.uses.writes


_WIDE_INTEGER = re.compile(r"v_\w+_[biu]64(_|$)")
_SPILLS = re.compile(r"v_writelane_b32|v_accvgpr_write_b32|scratch_store")
_ACCUMULATES = re.compile(r"v_(mfma|smfmac|wmma|swmmac|fmac|mac|dot\d+c|pk_fmac)")


def judged_reads(item: Compiled) -> set[tuple[File, int]]:
    """Reads that need a definition.

    Left out are 64-bit integer arithmetic on vectors, of which programs often use the low half alone, registers
    that an instruction changes in part (a lane, a half), which it only reads to keep the rest, and what saves or
    copies registers that may hold nothing: spills, and moves in pairs. Of two results in pairs, one is enough.
    """
    name, second = item.instruction.mnemonic, item.instruction.second
    if second and name.startswith("v_dual_mov") and second.mnemonic.startswith("v_dual_mov"):
        return set()
    if _WIDE_INTEGER.match(name) or _SPILLS.match(name):
        return set()
    return item.uses.reads if _ACCUMULATES.match(name) else item.uses.reads - item.uses.writes


def _judge(items: tuple[Compiled, ...], known: Registers) -> list[Finding]:
    found, so_far = [], set(known)
    for item in items:
        missing = min(judged_reads(item) - so_far, key=_place, default=None)
        if missing is not None and not any(half.reads <= so_far for half in item.uses.halves):
            found.append(_finding(item, missing))
        so_far |= _defined(item, so_far)
    return found


def _place(register: tuple[File, int]) -> tuple[str, int]:
    return register[0].value, register[1]


def _finding(item: Compiled, register: tuple[File, int]) -> Finding:
    message = f"{register[0].value}{register[1]} is read, and nothing wrote it"
    return Finding(Kind.UNWRITTEN_REGISTER, message, item.instruction.site)
