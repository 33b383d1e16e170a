"""What asynchronous operations still do with shared memory, and by which proxy its bytes were written.

An asynchronous operation reads or writes shared memory until something waits for it. Between, nobody may write what it
reads or touch what it writes. The async proxy (``wgmma``, ``tcgen05``, bulk copies) sees what threads wrote only behind
their ``fence.proxy.async``.

Source: PTX ISA, "Asynchronous Operations", "Async proxy", "Memory Consistency Model: Proxies".
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.bytestore import Offsets, low_bits
from portkit.emulate.core.findings import Fault, Finding, Kind, Site
from portkit.emulate.ptx.isa.landings import Landings
from portkit.emulate.ptx.isa.registry import Compiled
from portkit.emulate.ptx.machine import Access, Machine, Mask, Threads
from portkit.emulate.ptx.program import Program

UNIT = 16
"""Bytes that share a state."""

_SHIFT = 4

_WORD = 4
"""Bytes of the smallest copy: neighbours may belong to other stages of a pipeline."""


_BARRIERS, _THREAD = 32, (1 << 32) - 1
"""A tag of a write is its thread + 1, and above that how many barriers its block had passed."""


class Operation(NamedTuple):
    """One that has not ended."""

    site: Site
    what: str  # such as ``wgmma``


class Flights:
    """State of the bytes of shared memory of all blocks of a chunk.

    Args:
        machine: whose accesses to shared memory are followed from here on.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        units = machine.shared.bytes.size // UNIT
        self._unseen: NDArray[np.int64] = np.zeros(units, np.int64)  # tag of a write that awaits a proxy fence
        self._passed: NDArray[np.int64] = np.zeros(len(machine.groups), np.int64)  # barriers, by block
        self._tags: NDArray[np.int64] | None = None  # of each thread's writes; None: a barrier has changed them
        self._reads: dict[int, Offsets] = {}  # units that operations read, by the identity of their array
        self._read: Mask | None = None  # those units, as far as somebody has asked since they changed
        self._writers: NDArray[np.int32] = np.zeros(units, np.int32)  # by unit: the operation that writes it
        self._by_word = False  # whether they are by word instead, since an operation has written less than a unit
        self._operations: dict[int, Operation] = {}
        self._count = 0
        self._last_reader: Operation | None = None
        self._landings = machine.unit(Landings)
        self._others, machine.shared_observer = machine.shared_observer, self.observe
        self._ordered, machine.synchronised = machine.synchronised, self.synchronised

    # -- accesses of threads

    def observe(self, access: Access) -> None:
        """Judge an access of threads, and note what it writes."""
        units = access.at >> _SHIFT
        if self._operations:
            self._refuse_unwritten(access)
        if self._landings.open:
            self._landings.observe(access, units)
        if access.write:
            self.check_unread(access)
            self.wrote_generic(units, access.threads)
        if self._others:
            self._others(access)

    def _refuse_unwritten(self, access: Access) -> None:
        if not access.at.size:  # such as a box that lies outside its tensor
            return
        met = self._writers_of(access.at, access.size)
        if np.count_nonzero(met):
            number = met.reshape(access.at.size, -1).max(axis=1)
            first = int(np.argmax(number != 0))
            raise _missing(self._operations[int(number[first])], "still writes", access, first)

    def _writers_of(self, at: Offsets, size: int) -> NDArray[np.int32]:
        """Who writes the units or words of accesses, one row an access where there are several."""
        writers, cells = self._cells(at, size)
        return writers[cells]

    def _cells(self, at: Offsets, size: int) -> tuple[NDArray[np.int32], Offsets]:
        """Writers as an array, and the places of accesses in it."""
        if not self._by_word:
            return self._writers, at >> _SHIFT
        if size == UNIT and not low_bits(at.reshape(-1)):
            return self._writers.reshape(-1, UNIT // _WORD), at >> _SHIFT
        first = at >> 2
        return self._writers, first if size <= _WORD else first[..., None] + np.arange(size // _WORD)

    def _read_units(self) -> Mask:
        """By unit, whether an operation may still read it."""
        if self._read is None:
            self._read = np.zeros(self._unseen.size, np.bool_)
            for each in self._reads.values():
                self._read[each] = True
        return self._read

    def _refuse_read(self, units: Offsets, access: Access) -> None:
        met = self._read_units()[units]
        if met.any() and self._last_reader:
            raise _missing(self._last_reader, "may still read", access, int(np.argmax(met)))

    def judge(self, access: Access) -> None:
        """Let the others who follow accesses see one that an operation makes for a thread."""
        if self._others:
            self._others(access)

    def judge_later(self, access: Access) -> None:
        """The same of one that its thread does not come behind before it has waited."""
        if self.machine.later_observer:
            self.machine.later_observer(access)

    @property
    def followed(self) -> bool:
        """Whether somebody else follows accesses."""
        return self._others is not None

    @property
    def busy(self) -> bool:
        """Whether an operation that writes may meet one that has not ended."""
        return bool(self._reads or self._operations or self._landings.open)

    def quiet(self, units: Offsets, *, write: bool = False) -> bool:
        """Whether the async proxy may read units, or write them: ``check_seen`` and ``check_free`` pass them."""
        if write and self._reads and np.count_nonzero(self._read_units()[units]):
            return False
        if self._operations and np.count_nonzero(self._writers_of(units << _SHIFT, UNIT)):
            return False
        if self._landings.open and self._landings.unaware(units):
            return False
        return not np.count_nonzero(self._unseen[units])

    # -- operations

    def writes(self, operation: Operation, places: Offsets, size: int) -> int:
        """Begin to write ``size`` bytes at each of some offsets; gives the number by which it ends."""
        self._count += 1
        self._operations[self._count] = operation
        if not self._by_word and (size != UNIT or low_bits(places)):
            self._writers, self._by_word = np.repeat(self._writers, UNIT // _WORD), True
        writers, cells = self._cells(places, size)
        writers[cells] = self._count
        return self._count

    def wrote(self, number: int | np.int32 | NDArray[np.int32], places: Offsets, size: int) -> None:
        """An operation has written these of its bytes, or each place's operation has; others may still be out."""
        writers, cells = self._cells(places, size)
        before = writers[cells]
        numbers = np.reshape(number, (-1, *(1,) * (before.ndim - 1)))
        writers[cells] = np.where(before == numbers, np.int32(0), before)

    def ended(self, number: int) -> None:
        """Nothing of an operation is out."""
        self._operations.pop(number, None)

    def landed(self, site: Site, units: Offsets) -> Offsets:
        """A bulk copy has brought units, which are given back: who reads them must know that."""
        self._landings.land(site, units)
        return units

    def reads(self, operation: Operation, units: Offsets) -> None:
        """Begin to read units."""
        self._reads[id(units)], self._read = units, None
        self._last_reader = operation

    def has_read(self, units: Offsets) -> None:
        """End to read units, by the array that they began with."""
        del self._reads[id(units)]
        self._read = None

    def settle(self, units: Offsets) -> None:
        """An operation on units has ended: who waits for it comes behind it."""
        if self.machine.settled and units.size:
            self.machine.settled(int(units.min()) << _SHIFT, int(units.max()) + 1 << _SHIFT)

    # -- proxies

    def fence(self) -> None:
        """Let the async proxy see what the selected threads wrote, and what others did before a barrier."""
        machine = self.machine
        if machine.all:
            self._unseen[:] = 0
            return
        mine: Mask = np.zeros(machine.threads + 1, np.bool_)
        mine[machine.selected + 1] = True
        for group in np.unique(machine.group[machine.select]):
            part = slice(group * machine.shared.stride >> _SHIFT, (group + 1) * machine.shared.stride >> _SHIFT)
            unseen = self._unseen[part]
            unseen[mine[unseen & _THREAD] | (unseen >> _BARRIERS < self._passed[group])] = 0

    def synchronised(self, groups: NDArray[np.int64]) -> None:
        """Blocks have passed a barrier."""
        self._passed[groups] += 1
        self._tags = None
        if self._ordered:
            self._ordered(groups)

    def wrote_generic(self, units: Offsets, threads: Threads) -> None:
        """Threads have written units, which the async proxy sees behind a fence."""
        if self._tags is None:
            self._tags = (self._passed << _BARRIERS)[self.machine.group] | (self.machine.every + 1)
        self._unseen[units] = self._tags if threads is self.machine.every else self._tags[threads]

    def fenced(self, units: Offsets) -> None:
        """Count units as written by the async proxy itself."""
        self._unseen[units] = 0

    def check_seen(self, site: Site, units: Offsets, does: str = "reads") -> None:
        """Refuse that the async proxy reads or overwrites what a thread wrote without a fence.

        Raises:
            Fault: it does.
        """
        if not np.count_nonzero(self._unseen[units]):
            return
        thread = int((self._unseen[units] & _THREAD).max()) - 1
        place = self.machine.place(thread)
        message = f"the async proxy {does} shared memory that a thread wrote without fence.proxy.async"
        raise Fault(Finding(Kind.MISSING_WAIT, message, site, place, buffer="shared"))

    def check_free(self, site: Site, units: Offsets, threads: int | Threads, *, write: bool) -> None:
        """Refuse asynchronous accesses to what another operation writes, or reads where these write.

        Raises:
            Fault: one meets another.
        """
        if not self._operations and not write and not self._landings.open:
            return
        own = np.broadcast_to(threads, units.shape)
        access = Access(site, units << _SHIFT, UNIT, self.machine, own, write=write)
        if self._landings.open:
            self._landings.observe(access, units)
        if self._operations:
            self._refuse_unwritten(access)
        if write:
            self.check_unread(access)

    def check_write(self, access: Access) -> None:
        """Refuse an asynchronous write to what another operation has yet to write, or may still read.

        Raises:
            Fault: it meets one.
        """
        if self._operations:
            self._refuse_unwritten(access)
        if self._landings.open:
            self._landings.observe(access, access.at >> _SHIFT)
        self.check_unread(access)

    def check_unread(self, access: Access) -> None:
        """Refuse a write to what an operation may still read.

        Raises:
            Fault: it meets one.
        """
        if self._reads:
            self._refuse_read(access.at >> _SHIFT, access)


def _missing(operation: Operation, does: str, access: Access, which: int) -> Fault:
    line = operation.site.source or f"line {operation.site.line}"
    verb = "written" if access.write else "read"
    message = f"shared memory {verb} that {operation.what} of {line} {does}: nothing waits for it"
    at = int(access.at[which])
    return Fault(Finding(Kind.MISSING_WAIT, message, access.site, access.place(which), at, "shared"))


_ASYNCHRONOUS = ("cp.async", "cp.reduce.async", "wgmma", "tcgen05")


def followed(program: Program, compiled: tuple[Compiled, ...]) -> tuple[Compiled, ...]:
    """Follow accesses to shared memory from the first instruction on, where a program has asynchronous operations."""
    names = (".".join((item.instruction.opcode, *item.instruction.modifiers)) for item in compiled)
    if not any(name.startswith(_ASYNCHRONOUS) for name in names):
        return compiled
    entry = program.functions[program.name].entry
    first = next(number for number in range(entry, len(compiled)) if compiled[number].entry.changes)
    inner = compiled[first].step

    def step(machine: Machine) -> None:
        machine.unit(Flights)
        inner(machine)

    return (*compiled[:first], replace(compiled[first], step=step), *compiled[first + 1 :])
