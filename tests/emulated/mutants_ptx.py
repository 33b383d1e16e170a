"""What mutants of PTX instructions need: kinds of instructions, and programs with one of them changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from portkit.emulate.ptx.decode import Decoder, Uses
from portkit.emulate.ptx.execute import Code, cut
from portkit.emulate.ptx.isa.families import PASSES
from portkit.emulate.ptx.isa.lookup import compile_instruction
from portkit.emulate.ptx.isa.registry import Compiled
from portkit.emulate.ptx.program import Immediate, Instruction
from portkit.emulate.ptx.together import compile_all
from portkit.emulate.ptx.types import Type

if TYPE_CHECKING:
    from mutants import Change

_KINDS = {
    "fence": re.compile(r"fence\.proxy|wgmma\.fence"),
    "barrier": re.compile(r"(bar|barrier)\."),
    "mbarrier": re.compile(r"mbarrier\.(init|inval)"),
    "arrive": re.compile(r"mbarrier\.(arrive|expect_tx)|tcgen05\.commit"),
    "commit": re.compile(r".*\.commit_group"),
    "wait": re.compile(r"mbarrier\.(try|test)_wait|.*\.(wait_group|wait_all)|tcgen05\.wait"),
}
_HINT = re.compile(r"ret$|exit$|tcgen05\.(dealloc|relinquish)|trap$")

ASKS = re.compile(r"mbarrier\.(try|test)_wait")
"""Questions whether a phase of an mbarrier has ended."""


def kind_of(code: Code, index: int) -> str:
    """One of the kinds that order, ``hint`` or ``other``."""
    item = code.compiled[index]
    name = name_of(item)
    if not item.entry.changes or _HINT.match(name):
        return "hint"
    return next((kind for kind, pattern in _KINDS.items() if pattern.match(name)), "other")


def name_of(item: Compiled) -> str:
    """Opcode with its modifiers."""
    return item.instruction.name


def changed(code: Code, change: Change) -> Code:
    """The program with one instruction changed; deleted, it does nothing, and a question whether to wait says no."""
    compiled = list(before_passes(code))
    old = compiled[change.index]
    make = _changes(old.instruction).get(change.name)
    if make:
        compiled[change.index] = compile_instruction(code.program, make(old.instruction))
    else:
        compiled[change.index] = _deleted(code, old)
    return passed(code, compiled)


def _deleted(code: Code, old: Compiled) -> Compiled:
    entry = replace(old.entry, ends=False, begins=False, collective=False, masked=False, changes=False)
    if not ASKS.match(name_of(old)):
        return replace(old, entry=entry, step=lambda machine: None, uses=Uses(), members=None)
    decoder = Decoder(code.program, old.instruction)
    write = decoder.write(decoder.operands[0], Type.PRED)
    step = lambda machine: write(machine, np.ones(machine.count, np.bool_))  # noqa: E731
    return replace(old, entry=replace(entry, changes=True), step=step, uses=decoder.uses, members=None)


def weaker(code: Code, index: int) -> list[str]:
    """Names of an instruction's changes."""
    return list(_changes(code.compiled[index].instruction))


Make = Callable[[Instruction], Instruction]


def _changes(instruction: Instruction) -> dict[str, Make]:
    """Waits for a group less or one parity's phase, other numbers of arrivals and bytes, fences of other memory."""
    name = instruction.name
    if re.match(r".*\.wait_group", name):
        return {f"wait {_number(instruction, 0) + 1}": _with(0, _number(instruction, 0) + 1)}
    if ASKS.match(name):
        return {f"parity {parity}": _with(2, parity) for parity in (0, 1)}
    if name.startswith("mbarrier.init"):
        return {"one arrival more": _with(1, _number(instruction, 1) + 1)}
    if "expect_tx" in name:
        last = len(instruction.operands) - 1
        return {f"{more:+d} bytes": _with(last, _number(instruction, last) + more) for more in (-16, 16)}
    if name.startswith("fence.proxy.async.shared"):
        return {"of global memory": lambda old: replace(old, modifiers=("proxy", "async", "global"))}
    return {}


def _number(instruction: Instruction, place: int) -> int:
    operand = instruction.operands[place]
    assert isinstance(operand, Immediate), instruction
    return int(operand.text, 0)


def _with(place: int, number: int) -> Make:
    def make(old: Instruction) -> Instruction:
        operands = list(old.operands)
        operands[place] = Immediate(str(number))
        return replace(old, operands=tuple(operands))

    return make


_KEPT = 8
_COMPILED: dict[int, tuple[Code, tuple[Compiled, ...]]] = {}
"""Of the last programs, by their identity: instructions before the passes."""


def before_passes(code: Code) -> tuple[Compiled, ...]:
    """Instructions before the passes, which must see a change; those of a changed program with what was changed."""
    if id(code) not in _COMPILED:
        _keep(code, compile_all(code.program))
    return _COMPILED[id(code)][1]


def _keep(code: Code, compiled: tuple[Compiled, ...]) -> None:
    while len(_COMPILED) >= _KEPT:
        del _COMPILED[next(iter(_COMPILED))]
    _COMPILED[id(code)] = code, compiled


def passed(code: Code, compiled: Sequence[Compiled]) -> Code:
    """The program of instructions that have not been through the passes."""
    found = tuple(compiled)
    for each in PASSES:
        found = each(code.program, found)
    made = cut(code.program, found)
    _keep(made, tuple(compiled))
    return made
