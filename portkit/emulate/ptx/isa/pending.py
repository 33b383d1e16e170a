"""Registers whose results are under way: what may be done with them before a wait.

Moves, and what puts halves together, are no use of a result: compilers place them where they like, and what they take
is not there either. Every other instruction that touches such a register is refused when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.findings import Fault, Finding, Kind, Site
from portkit.emulate.ptx.decode import Decoder, Step
from portkit.emulate.ptx.isa.registry import Compiled
from portkit.emulate.ptx.machine import Array, Machine, Mask
from portkit.emulate.ptx.program import Program, Register


class PendingRegisters:
    """Registers under way, each with a number by thread above 0 that says what it waits for."""

    what = "a register {} that is not there yet"

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._out: dict[Register, NDArray[np.int64]] = {}

    @property
    def busy(self) -> bool:
        """Whether something is under way."""
        return bool(self._out)

    def refuse(self, site: Site, registers: Iterable[Register], verb: str) -> None:
        """Refuse that the selected threads touch registers under way.

        Raises:
            Fault: they do.
        """
        if not self._out:
            return
        for register in registers:
            own = self._of(register)
            if own is not None and own.any() and not self.excused(own):
                thread = int(self.machine.selected[np.argmax(own != 0)])
                message = self.what.format(verb)
                raise Fault(Finding(Kind.MISSING_WAIT, message, site, self.machine.place(thread)))

    def excused(self, numbers: Array) -> bool:
        """Whether the assembler waits by itself for what the selected threads have under way."""
        return False

    def _of(self, register: Register) -> NDArray[np.int64] | None:
        numbers = self._out.get(register)
        return None if numbers is None else numbers[self.machine.select]

    def take(self, registers: Iterable[Register], numbers: Array) -> None:
        """Put registers of the selected threads under way, or with 0 no longer.

        Registers that go together share an array of numbers, which nobody changes.
        """
        made: dict[int, NDArray[np.int64]] = {}
        for register in registers:
            old = self._out.get(register)
            if id(old) not in made:
                made[id(old)] = new = np.zeros(self.machine.threads, np.int64) if old is None else old.copy()
                new[self.machine.select] = numbers
            self._out[register] = made[id(old)]

    def carry(self, sources: Iterable[Register], targets: Iterable[Register]) -> None:
        """Let registers of the selected threads wait for what their sources wait for."""
        if not self._out:
            return
        numbers = [own for own in map(self._of, sources) if own is not None]
        latest = np.maximum.reduce(numbers) if numbers else np.zeros(1, np.int64)
        self.take(targets if latest.any() else [each for each in targets if each in self._out], latest)

    def out(self, number: Array) -> Mask:
        """Which of the selected threads have something under way with a number."""
        found: Mask = np.zeros(self.machine.count, np.bool_)
        for numbers in {id(each): each for each in self._out.values()}.values():
            found |= numbers[self.machine.select] == number
        return found

    def free(self, limit: Array) -> None:
        """End what waits for a number up to the limit of each selected thread."""
        arrays = {id(numbers): numbers for numbers in self._out.values()}
        left = {key: self._later(numbers, limit) for key, numbers in arrays.items()}
        registers = {register: left[id(numbers)] for register, numbers in self._out.items()}
        self._out = {register: numbers for register, numbers in registers.items() if numbers is not None}

    def _later(self, numbers: NDArray[np.int64], limit: Array) -> NDArray[np.int64] | None:
        """Numbers but those up to the limit; None where that is all."""
        left, own = numbers.copy(), numbers[self.machine.select]
        left[self.machine.select] = np.where(own <= limit, 0, own)
        return left if left.any() else None

    def changed(self, writes: Iterable[Register]) -> None:
        """Note registers that the selected threads have written."""


@dataclass(frozen=True)
class _Held:
    """Registers that instructions with results under way use."""

    unit: type[PendingRegisters]
    results: set[Register]
    carriers: set[Register]  # results, and what moves put them into
    noted: set[Register]  # whose writes the unit hears of


def judged(
    program: Program,
    compiled: tuple[Compiled, ...],
    unit: type[PendingRegisters],
    makes: Callable[[Compiled], bool],
    factors: set[Register],
) -> tuple[Compiled, ...]:
    """Let every instruction that touches a register under way be judged when it runs.

    Args:
        program: the kernel.
        compiled: its instructions.
        unit: that knows what is under way.
        makes: whether an instruction has its results later.
        factors: further registers of whose writes the unit hears.
    """
    results = {each for item in compiled if makes(item) for each in item.uses.writes}
    if not results:
        return compiled
    held = _Held(unit, results, _carriers(compiled, results), results | factors)
    return tuple(item if makes(item) else _watched(program, item, held) for item in compiled)


def _moves(item: Compiled) -> bool:
    """Whether an instruction only puts bits elsewhere."""
    name = ".".join((item.instruction.opcode, *item.instruction.modifiers))
    return name.startswith(("mov.", "prmt.")) or name in {"cvt.u32.u16", "cvt.u16.u32", "shl.b32", "shr.u32", "or.b32"}


def _carriers(compiled: tuple[Compiled, ...], results: set[Register]) -> set[Register]:
    moves = [item for item in compiled if _moves(item)]
    found, before = set(results), 0
    while len(found) > before:
        before = len(found)
        for item in moves:
            if item.uses.reads & found:
                found |= item.uses.writes
    return found


def _watched(program: Program, item: Compiled, held: _Held) -> Compiled:
    reads, writes = item.uses.reads & held.carriers, item.uses.writes & (held.carriers | held.noted)
    if not (reads or writes):
        return item
    inner = item.step
    judge = _judgement(item, reads, writes, held)
    guard = Decoder(program, item.instruction).guard() if item.instruction.guard else None

    def always(machine: Machine) -> None:
        judge(machine)
        inner(machine)

    def guarded(machine: Machine) -> None:
        if guard:
            machine.guarded(guard(machine), judge)
        inner(machine)

    return replace(item, step=guarded if guard else always)


def _judgement(item: Compiled, reads: set[Register], writes: set[Register], held: _Held) -> Step:
    site, moves = item.instruction.site, _moves(item)
    results, noted = writes & held.results, writes & held.noted
    overwritten, carried = results - reads, writes & held.carriers

    def judge(machine: Machine) -> None:
        pending = machine.unit(held.unit)
        if pending.busy:
            if not moves:
                pending.refuse(site, reads, "used")
            pending.refuse(site, overwritten, "overwritten")
            pending.carry(reads if moves else (), carried)
        if noted:
            pending.changed(noted)

    return judge
