"""Branches, calls, ends and traps.

Source: PTX ISA, "Control Flow Instructions" and "Miscellaneous Instructions".

A control instruction ends a block: its step sets the program counters or states of the selected threads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from portkit.emulate.core.findings import Fault, Finding, Kind
from portkit.emulate.core.schedule import ENDED
from portkit.emulate.ptx.decode import Decoder, Step
from portkit.emulate.ptx.isa.registry import Entry
from portkit.emulate.ptx.machine import Machine
from portkit.emulate.ptx.program import Symbol
from portkit.emulate.ptx.types import Type

_FLOW = "Control Flow Instructions"
_MORE = "Miscellaneous Instructions"


def label(decoder: Decoder, number: int) -> int:
    """Index of the instruction that an operand names."""
    operand = decoder.operands[number]
    if not isinstance(operand, Symbol) or operand.name not in decoder.program.labels:
        raise decoder.unsupported(f"label {getattr(operand, 'name', operand)} is not in the text")
    return decoder.program.labels[operand.name]


def _branch(decoder: Decoder) -> Step:
    decoder.ignore("uni")
    decoder.need(1)
    target, after = label(decoder, 0), decoder.instruction.index + 1
    if decoder.instruction.guard is None:
        return lambda machine: machine.go(target)
    condition = decoder.guard()
    return lambda machine: machine.part(np.where(condition(machine), target, after))


def _branch_by_index(decoder: Decoder) -> Step:
    """brx.idx."""
    decoder.ignore("uni")
    decoder.need(2)
    table = decoder.operands[1]
    if decoder.instruction.guard or not isinstance(table, Symbol) or table.name not in decoder.program.tables:
        raise decoder.unsupported("branch by a table that is not in the text, or guarded")
    targets = np.array([decoder.program.labels[name] for name in decoder.program.tables[table.name]], np.int64)
    read = decoder.read(decoder.operands[0], Type.U32)

    def step(machine: Machine) -> None:
        chosen = machine.spread(read(machine))
        if chosen.max() >= targets.size:
            raise Fault(Finding(Kind.UNDEFINED, "a branch behind the end of its table", decoder.site))
        machine.part(targets[chosen])

    return step


def guarded_end(decoder: Decoder, action: Step) -> Step:
    """An action for the threads whose guard is true; the others go on."""
    after = decoder.instruction.index + 1
    if decoder.instruction.guard is None:
        return action
    condition = decoder.guard()

    def step(machine: Machine) -> None:
        machine.go(after)
        machine.guarded(condition(machine), action)

    return step


def _exit(decoder: Decoder) -> Step:
    decoder.ignore("uni")
    decoder.need(0)
    return guarded_end(decoder, lambda machine: machine.halt(ENDED))


def _trap(decoder: Decoder) -> Step:
    decoder.need(0)
    site = decoder.site

    def action(machine: Machine) -> None:
        place = machine.place(int(machine.selected[0]))
        raise Fault(Finding(Kind.TRAP, "the kernel gives up", site, place))

    return guarded_end(decoder, action)


def nothing(*modifiers: str) -> Callable[[Decoder], Step]:
    """Builds what changes nothing that is modelled, whatever its operands; with the modifiers that it may have."""

    def build(decoder: Decoder) -> Step:
        decoder.ignore(*modifiers)
        return lambda machine: None

    return build


TABLE: dict[str, tuple[Entry, ...]] = {
    "bra": (Entry(_branch, f"{_FLOW}: bra", ends=True),),
    "brx.idx": (Entry(_branch_by_index, f"{_FLOW}: brx.idx", ends=True),),
    "exit": (Entry(_exit, f"{_FLOW}: exit", ends=True),),
    "trap": (Entry(_trap, f"{_MORE}: trap", ends=True),),
    "brkpt": (Entry(_trap, f"{_MORE}: brkpt", ends=True),),
    "nanosleep.u32": (Entry(nothing(), f"{_MORE}: nanosleep", since=70, changes=False),),
    "pmevent": (Entry(nothing("mask"), f"{_MORE}: pmevent", changes=False),),
}
