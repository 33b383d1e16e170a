"""Barriers of a block, and of a warp.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions": bar, barrier, bar.warp.sync.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.findings import Fault, Finding, Kind, Site
from portkit.emulate.core.schedule import ENDED, READY, WAITING
from portkit.emulate.ptx.decode import Decoder, Read, Step, Write
from portkit.emulate.ptx.isa.registry import Entry
from portkit.emulate.ptx.isa.telling import Told, learn, tell_all
from portkit.emulate.ptx.machine import LANES, Array, Machine, Threads
from portkit.emulate.ptx.types import Type, types_of

_SYNC = "Parallel Synchronization and Communication Instructions"

BARRIERS = 16
"""Named barriers of a block."""

EVERYONE = 0
"""Count of a barrier for all threads of the block."""


@dataclass(frozen=True)
class _Reduction:
    """What the threads at a barrier get of their predicates."""

    predicate: Callable[[Machine], Array]
    function: Callable[[Array], Array]  # of one block's
    write: Write


def met(machine: Machine, groups: NDArray[np.int64], threads: Threads | None = None, told: Sequence[Told] = ()) -> None:
    """Threads of one block, or all of some, have met at a barrier, behind others that only arrived."""
    if machine.gathered:
        machine.gathered(groups, threads)
    if clocks := machine.clocks:
        for group in groups.tolist():
            clocks.meet(clocks.of_group(group) if threads is None else np.unique(threads // LANES))
    if threads is not None and told:
        learn(machine, told, threads)


class Barriers:
    """Who waits where.

    Args:
        machine: the threads.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.number: Array = np.full(machine.threads, -1, np.int64)  # barrier that a thread waits at
        self.needed: Array = np.zeros(machine.threads, np.int64)  # threads that complete it
        self.at: Array = np.zeros(machine.threads, np.int64)  # index of the instruction
        self.value: Array = np.zeros(machine.threads, np.bool_)
        self.arrived: Array = np.zeros((len(machine.groups), BARRIERS), np.int64)  # without waiting
        self.expected: Array = np.zeros(len(machine.groups) * BARRIERS, np.int64)  # threads, of barriers in use
        self.told: dict[tuple[int, int], list[Told]] = {}  # by those, by block and barrier
        self.reductions: dict[int, _Reduction] = {}

    def wait(self, numbers: Array, needed: Array, at: int) -> None:
        """Let the selected threads wait; those behind the last one that was missing go on."""
        machine = self.machine
        own = machine.selected
        self._expect(numbers, needed, at)
        self.number[own], self.needed[own], self.at[own] = numbers, needed, at
        machine.halt(WAITING)
        if not self.machine.patient:
            self.complete()

    def _expect(self, numbers: Array, needed: Array, at: int) -> None:
        """Refuse different numbers of threads for one use of a barrier.

        Raises:
            Fault: they differ.
        """
        machine = self.machine
        if np.ndim(numbers) == np.ndim(needed) == 0:  # as mostly
            count = machine.per_group if needed == EVERYONE else int(needed)
            column = self.expected.reshape(-1, BARRIERS)[:, int(numbers)]
            if not np.count_nonzero((column != 0) & (column != count)):
                column[machine.group[machine.select]] = count
                return
        keys = machine.group[machine.select] * BARRIERS + numbers
        counts = machine.spread(np.where(np.asarray(needed) == EVERYONE, machine.per_group, needed))
        known = self.expected[keys]
        self.expected[keys] = counts
        other = ((known != 0) & (known != counts)) | (self.expected[keys] != counts)
        if other.any():
            which = int(np.argmax(other))
            message = f"a barrier for {counts[which]} threads, and by others for another number"
            site = machine.program.instructions[at].site
            raise Fault(Finding(Kind.UNDEFINED, message, site, machine.place(int(machine.selected[which]))))

    def arrive(self, numbers: Array, needed: Array, at: int) -> None:
        """Count the selected threads at a barrier; they go on."""
        self._expect(numbers, needed, at)
        own, spread = self.machine.selected, self.machine.spread(numbers)
        np.add.at(self.arrived, (self.machine.group[own], spread), 1)
        for key in np.unique(self.machine.group[own] * BARRIERS + spread).tolist():
            mine = own[self.machine.group[own] * BARRIERS + spread == key]
            told = self.told.setdefault((key // BARRIERS, key % BARRIERS), [])
            told += tell_all(self.machine, mine)
        if not self.machine.patient:
            self.complete()

    def complete(self) -> bool:
        """Free the threads of barriers that have all they need; whether there were any."""
        machine = self.machine
        waiting = machine.state == WAITING
        if not waiting.any():
            return False
        if self._one_for_all(waiting):
            freed = self._complete_blocks(waiting)
        else:
            keys = np.unique(machine.group[waiting] * BARRIERS + self.number[waiting]).tolist()
            freed = sum(self._complete_one(key // BARRIERS, key % BARRIERS, waiting) for key in keys) > 0
        if freed and (machine.state == READY).all() and (machine.pc == machine.pc[0]).all():
            machine.uniform = int(machine.pc[0])
        return freed

    def _one_for_all(self, waiting: Array) -> bool:
        """Whether all wait at one barrier, each block's for all of its threads, and nothing more goes on there."""
        numbers = self.number[waiting]
        alike = (numbers == numbers[0]).all() and (self.needed[waiting] == EVERYONE).all()
        return bool(alike) and not self.reductions and not self.arrived.any()

    def _complete_blocks(self, waiting: Array) -> bool:
        """Free the blocks whose threads all wait or have ended."""
        machine = self.machine
        here = waiting.reshape(len(machine.groups), -1)
        done = (here | (machine.state == ENDED).reshape(here.shape)).all(axis=1) & here.any(axis=1)
        mine = (here & done[:, None]).reshape(-1)
        self._check_together(mine)
        self.expected.reshape(len(machine.groups), BARRIERS)[done] = 0
        machine.state[mine], self.number[mine] = READY, -1
        if machine.synchronised:
            machine.synchronised(np.flatnonzero(done))
        met(machine, np.flatnonzero(done))
        return bool(done.any())

    def _complete_one(self, group: int, number: int, waiting: Array) -> bool:
        machine = self.machine
        mine = waiting & (machine.group == group) & (self.number == number)
        needed = int(self.needed[mine].max())
        if needed == EVERYONE:
            needed = int(np.count_nonzero((machine.group == group) & (machine.state != ENDED)))
        if np.count_nonzero(mine) + self.arrived[group, number] < needed:
            return False
        alone = needed < machine.per_group or bool(self.arrived[group, number])
        self._check_together(mine)
        self.arrived[group, number] = self.expected[group * BARRIERS + number] = 0
        machine.state[mine] = READY
        if machine.synchronised:
            machine.synchronised(np.array([group]))
        told = self.told.pop((group, number), ())
        met(machine, np.array([group]), np.flatnonzero(mine) if alone else None, told)
        reduction = self.reductions.get(int(self.at[mine][0]))
        if reduction:
            result = reduction.function(self.value[mine])
            machine.acting(np.flatnonzero(mine), lambda: reduction.write(machine, result))
        self.number[mine] = -1
        return True

    def _check_together(self, mine: Array) -> None:
        """Refuse lanes of a warp that wait at different instructions, or at one that others of the warp leave out.

        Raises:
            Fault: some do, where the instruction says that its warps come whole.
        """
        machine = self.machine
        waits = mine.reshape(-1, LANES)
        live = (machine.state != ENDED).reshape(-1, LANES)
        at = np.where(waits, self.at.reshape(-1, LANES), -1)
        apart = waits & (((live & ~waits).any(axis=1)[:, None]) | (at != at.max(axis=1)[:, None]))
        for thread in np.flatnonzero(apart)[:1].tolist():
            item = machine.program.instructions[int(self.at[thread])]
            if item.opcode == "bar" or "aligned" in item.modifiers:
                message = "a barrier that lanes of one warp do not come to together"
                raise Fault(Finding(Kind.UNDEFINED, message, item.site, machine.place(thread)))

    def waits_at(self, thread: int) -> int | None:
        """Index of the barrier instruction that a thread waits at."""
        return int(self.at[thread]) if self.machine.state[thread] == WAITING else None


def _operands(decoder: Decoder, first: int) -> tuple[Read, Read]:
    """Number of the barrier, and of the threads that complete it."""
    given = decoder.operands[first:]
    if not 1 <= len(given) <= 2:
        raise decoder.unsupported(f"{len(decoder.operands)} operands")
    everyone = np.uint32(EVERYONE)
    needed: Read = decoder.read(given[1], Type.U32) if len(given) > 1 else lambda machine: np.asarray(everyone)
    return decoder.read(given[0], Type.U32), needed


def check(machine: Machine, site: Site, numbers: Array, needed: Array) -> None:
    """Refuse what the document gives no meaning.

    Raises:
        Fault: a barrier that there is not, or a count that is not of whole warps.
    """
    if np.max(numbers) >= BARRIERS or np.any(np.asarray(needed) % LANES) or np.max(needed) > machine.per_group:
        message = f"barrier {np.max(numbers)} for {np.max(needed)} threads of {machine.per_group}"
        raise Fault(Finding(Kind.UNDEFINED, message, site, machine.place(int(machine.selected[0]))))


def _sync(decoder: Decoder) -> Step:
    decoder.ignore("aligned", "cta")
    numbers, needed = _operands(decoder, 0)
    return _waiting(decoder, numbers, needed)


def _waiting(decoder: Decoder, numbers: Read, needed: Read) -> Step:
    index, site = decoder.instruction.index, decoder.site

    def action(machine: Machine) -> None:
        number, count = numbers(machine), needed(machine)
        one = np.ndim(number) == np.ndim(count) == 0
        if not (one and count == EVERYONE and number < BARRIERS):  # as mostly
            check(machine, site, number, count)
        machine.go(index + 1)
        if machine.all and one and int(count) in {EVERYONE, machine.per_group}:
            _pass(machine)
        else:
            machine.unit(Barriers).wait(number, count, index)

    return _for_guarded(decoder, action)


def _pass(machine: Machine) -> None:
    """All threads are there."""
    if machine.synchronised:
        machine.synchronised(machine.every_group)
    met(machine, machine.every_group)


def _for_guarded(decoder: Decoder, action: Step) -> Step:
    if decoder.instruction.guard is None:
        return action
    condition, after = decoder.guard(), decoder.instruction.index + 1

    def step(machine: Machine) -> None:
        machine.go(after)
        machine.guarded(condition(machine), action)

    return step


def _arrive(decoder: Decoder) -> Step:
    decoder.ignore("aligned", "cta")
    decoder.need(2)
    numbers, needed = _operands(decoder, 0)
    after, site = decoder.instruction.index + 1, decoder.site

    def action(machine: Machine) -> None:
        check(machine, site, numbers(machine), needed(machine))
        machine.go(after)
        machine.unit(Barriers).arrive(numbers(machine), needed(machine), after - 1)

    return _for_guarded(decoder, action)


_REDUCTIONS: dict[str, tuple[Type, Callable[[Array], Array]]] = {
    "popc": (Type.U32, lambda values: np.asarray(np.count_nonzero(values), np.uint32)),
    "and": (Type.PRED, lambda values: np.asarray(values.all())),
    "or": (Type.PRED, lambda values: np.asarray(values.any())),
}


def _reduce(decoder: Decoder) -> Step:
    """bar.red: the result of a predicate over all threads of the barrier."""
    decoder.ignore("aligned", "cta")
    kind, function = _REDUCTIONS[decoder.required(*_REDUCTIONS)]
    if decoder.kind is not kind:
        raise decoder.unsupported(f"a result of .{decoder.kind.suffix}")
    *_, last = decoder.operands
    write, predicate = decoder.write(decoder.operands[0], kind), decoder.predicate(last)
    given = decoder.operands[1:-1]
    numbers = decoder.read(given[0], Type.U32)
    everyone = np.asarray(EVERYONE, np.uint32)
    needed: Read = decoder.read(given[1], Type.U32) if len(given) > 1 else lambda machine: everyone
    index, site = decoder.instruction.index, decoder.site

    def action(machine: Machine) -> None:
        barriers = machine.unit(Barriers)
        barriers.reductions[index] = _Reduction(predicate, function, write)
        barriers.value[machine.select] = predicate(machine)
        check(machine, site, numbers(machine), needed(machine))
        machine.go(index + 1)
        barriers.wait(numbers(machine), needed(machine), index)

    return _for_guarded(decoder, action)


def _warp_sync(decoder: Decoder) -> Step:
    """The scheduler has brought the lanes together."""
    decoder.need(1)

    def step(machine: Machine) -> None:
        if machine.lanes_synchronised:
            machine.lanes_synchronised(machine.selected // LANES)

    return step


def _entries(build: Callable[[Decoder], Step], section: str, types: str = "") -> tuple[Entry, ...]:
    return (Entry(build, f"{_SYNC}: {section}", types_of(types), ends=True),)


TABLE: dict[str, tuple[Entry, ...]] = {
    "bar.sync": _entries(_sync, "bar, barrier"),
    "bar.cta.sync": _entries(_sync, "bar, barrier"),
    "barrier.sync": _entries(_sync, "bar, barrier"),
    "barrier.cta.sync": _entries(_sync, "bar, barrier"),
    "bar.arrive": _entries(_arrive, "bar, barrier"),
    "bar.cta.arrive": _entries(_arrive, "bar, barrier"),
    "barrier.arrive": _entries(_arrive, "bar, barrier"),
    "barrier.cta.arrive": _entries(_arrive, "bar, barrier"),
    "bar.red": _entries(_reduce, "bar, barrier", "u32 pred"),
    "bar.cta.red": _entries(_reduce, "bar, barrier", "u32 pred"),
    "barrier.red": _entries(_reduce, "bar, barrier", "u32 pred"),
    "barrier.cta.red": _entries(_reduce, "bar, barrier", "u32 pred"),
    "bar.warp.sync": (Entry(_warp_sync, f"{_SYNC}: bar.warp.sync", collective=True, masked=True),),
}
