"""State of the threads that run at once: registers, program counters, memories.

Registers are rows ``[threads]`` of all threads of a chunk of blocks (workgroups, in the core's terms); the threads of
a warp lie side by side. A step acts on a selection of threads that are at one instruction: all of them in the
common case, when ``select`` is a full slice and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.bytestore import Offsets, Words, low_bits
from portkit.emulate.core.clocks import Clocks
from portkit.emulate.core.findings import Fault, Finding, Kind, Place, Site, Unsupported, keep
from portkit.emulate.core.launch import Grid
from portkit.emulate.core.memory import BASE, Memory
from portkit.emulate.core.schedule import READY
from portkit.emulate.core.shared import SharedMemory
from portkit.emulate.core.watch import Exchange
from portkit.emulate.ptx.program import Program, Space
from portkit.emulate.ptx.types import Type

Array: TypeAlias = NDArray[Any]
Mask: TypeAlias = NDArray[np.bool_]
Threads: TypeAlias = NDArray[np.int64]
Rows: TypeAlias = slice | NDArray[np.int64]
"""Several registers of one width."""

LANES = 32
"""Threads of a warp."""

EVERYWHERE = slice(None)

PARKED, SLEEPING = 3, 4
"""States of a thread beside those of the core: at a warp's instruction that other lanes have not come to yet; until
another thread calls ``wake``."""

SHARED_WINDOW = 0x7F00_0000_0000
"""Generic address of byte 0 of shared memory."""

LOCAL_WINDOW = 0x7F80_0000_0000
"""Generic address of byte 0 of a thread's local memory."""

Unit = TypeVar("Unit")


def bits_of(flags: Array) -> Words:
    """Words of ``[warps, 32]`` flags, lane 0 in bit 0."""
    return np.packbits(flags, axis=1, bitorder="little").view(np.uint32)[:, 0]


class Views(dict[Type, list[Array]]):
    """Registers one by one, by the type that they are read as; made when they are first asked for.

    Attributes:
        files: width → registers ``[registers, threads]``.
    """

    def __init__(self, files: dict[int, Array]) -> None:
        self.files = files
        self._whole: dict[Type, Array] = {}
        super().__init__()

    def __missing__(self, kind: Type) -> list[Array]:
        self[kind] = list(self.whole(kind))
        return self[kind]

    def whole(self, kind: Type) -> Array:
        """All registers of a type's width: ``[registers, threads]``."""
        if kind not in self._whole:
            self._whole[kind] = self.files[kind.bits].view(kind.dtype)
        return self._whole[kind]


@dataclass(frozen=True, slots=True)
class Placing:
    """Where the threads of a chunk stand."""

    groups: Sequence[Grid]  # ids of its blocks
    per_group: int  # threads

    def place(self, thread: int) -> Place:
        """A thread as findings name it."""
        return Place(self.groups[thread // self.per_group], thread % self.per_group // LANES, thread % LANES)


class Strength(NamedTuple):
    """What an access that may meet atomics orders between blocks."""

    acquires: bool
    releases: bool


@dataclass(eq=False, slots=True)
class Access:
    """Bytes that one instruction touches, as a checker sees them; nobody changes it.

    ``at`` has one offset an access: into the arena for global memory, into the chunk's array for shared memory.
    """

    site: Site
    at: Offsets
    size: int
    machine: Machine
    threads: Threads  # of each access
    write: bool
    atomic: bool = False
    words: Words | None = None  # of a write that is not atomic, one row an access

    lasts = True
    """Nobody changes it."""

    @property
    def everyone(self) -> bool:
        """Whether each thread of the chunk makes one."""
        return self.threads is self.machine.every

    @property
    def waves(self) -> NDArray[np.int64]:
        """Warp of each access, within the chunk."""
        return self.threads >> 5

    def spread(self, of_wave: NDArray[Any]) -> NDArray[Any]:
        """From one value for each warp of the chunk to one for each access."""
        return of_wave.repeat(LANES) if self.everyone else of_wave[self.threads >> 5]

    def spreading(self, of_wave: NDArray[Any]) -> Callable[[], NDArray[Any]]:
        """As ``spread``, without the machine."""
        threads = self.threads
        return lambda: of_wave[threads >> 5]

    def placing(self) -> Callable[[int], Place]:
        """As ``place``, without the machine."""
        placing, threads = self.machine.placing, self.threads
        return lambda which: placing.place(int(threads[which]))

    def place(self, which: int) -> Place:
        """Who makes access number ``which``."""
        return self.machine.place(int(self.threads[which]))


Observer: TypeAlias = Callable[[Access], None]


class Machine:
    """Threads of a chunk of blocks.

    Args:
        program: the kernel.
        groups: ids of the blocks.
        per_group: threads of each, a multiple of 32.
        memory: global memory.
        poison: word of registers and memory that nothing wrote.
        shared_bytes: shared memory of each block.
        grid: blocks in x, y, z.

    Attributes:
        select: the threads that the current step acts on, in ascending order.
        all: True where these are all threads.
        count: how many they are.
        uniform: where all threads are ready and at one instruction, that; then ``pc`` is out of date.
        patient: whether barriers are left alone as long as a thread can go on, but for now and then. In a kernel with a
            lock, blocks that spin on it would else run most of the time: so they wait at the barrier of their loop
            until its holder comes to one, too.
    """

    def __init__(
        self,
        program: Program,
        groups: list[Grid],
        per_group: int,
        memory: Memory,
        poison: int,
        shared_bytes: int,
        grid: Grid,
    ) -> None:
        self.program, self.memory, self.groups, self.grid = program, memory, groups, grid
        self.per_group, self.threads, self.poison = per_group, per_group * len(groups), poison
        self.rows = Views(_register_files(program, self.threads, poison))
        self.every: Threads = np.arange(self.threads)
        self.placing = Placing(groups, per_group)
        self.every_group: NDArray[np.int64] = np.arange(len(groups))
        self.group: NDArray[np.int64] = np.repeat(self.every_group, per_group)
        self.shared = SharedMemory(len(groups), shared_bytes, poison)
        self.shared_base: Offsets = self.group * self.shared.stride
        self.local = SharedMemory(self.threads, program.local_bytes, poison)
        self.pc: NDArray[np.int64] = np.zeros(self.threads, np.int64)
        self.state: NDArray[np.int8] = np.full(self.threads, READY, np.int8)
        self.select: slice | Threads = EVERYWHERE
        self.all, self.count = True, self.threads
        self.uniform: int | None = 0
        self.patient = False
        self.findings: dict[tuple[Kind, int], Finding] = {}
        self.observer: Observer | None = None
        self.exchanged: Callable[[Exchange], None] | None = None  # atomics and flags in global memory
        self.fenced: Callable[[Threads], None] | None = None  # by their warps within the chunk
        self.shared_observer: Observer | None = None
        self.mbarrier_observer: Observer | None = None
        self.later_observer: Observer | None = None  # of what asynchronous operations of threads do in shared memory
        self.clocks: Clocks | None = None  # of warps, where somebody wants to know who comes behind whom
        self.synchronised: Callable[[Threads], None] | None = None  # blocks that have passed a barrier
        self.gathered: Callable[[Threads, Threads | None], None] | None = None  # of blocks; threads of one, or all
        self.lanes_synchronised: Callable[[Threads], None] | None = None  # by their warps within the chunk
        self.settled: Callable[[int, int], None] | None = None  # bytes of shared memory, of an operation that ended
        self.addresses: dict[str, int] = {}  # of variables in global memory, and of parameters
        self.parameters = b""
        self.said: list[str] = []
        self.fenced_copies = False  # whether the async proxy sees writes of cp.async behind a fence alone
        self._units: dict[type, Any] = {}

    def unit(self, of: Callable[[Machine], Unit]) -> Unit:
        """State that a family of instructions keeps for itself; made when it is first asked for."""
        key: Any = of
        if key not in self._units:
            self._units[key] = of(self)
        return self._units[key]  # type: ignore[no-any-return]

    @property
    def units(self) -> tuple[Any, ...]:
        """All of them."""
        return tuple(self._units.values())

    # -- selection

    def choose(self, which: Mask) -> None:
        """Make these threads the ones that the next steps act on."""
        self.select_threads(which.nonzero()[0])

    def select_threads(self, which: Threads) -> None:
        """As ``choose``, by their numbers in ascending order."""
        self.count = which.size
        self.all = self.count == self.threads
        self.select = EVERYWHERE if self.all else which

    def choose_all(self) -> None:
        """Act on all threads."""
        self.select, self.all, self.count = EVERYWHERE, True, self.threads

    def acting(self, which: Threads, action: Callable[[], None]) -> None:
        """Run something with other threads selected."""
        saved = self.select, self.all, self.count
        self.select_threads(which)
        try:
            action()
        finally:
            self.select, self.all, self.count = saved

    def guarded(self, mask: Array, step: Callable[[Machine], None]) -> None:
        """Run a step for those of the selected threads for which ``mask`` is true, if any."""
        count = np.count_nonzero(mask)
        if count == mask.size:
            step(self)
        elif count:
            (which,) = mask.nonzero()
            if not isinstance(self.select, slice):
                which = self.select[which]
            self.acting(which, lambda: step(self))

    @property
    def selected(self) -> Threads:
        """Numbers of the selected threads; ``every`` itself where these are all."""
        return self.every if isinstance(self.select, slice) else self.select

    def spread(self, value: Array) -> Array:
        """A value as ``[selected threads]``."""
        return value if np.shape(value) == (self.count,) else np.broadcast_to(value, (self.count,))

    # -- warps

    @property
    def whole(self) -> bool:
        """Whether every warp with a selected thread is selected whole."""
        if self.all:
            return True
        which = self.selected
        return bool(which.size % LANES == 0 and (np.bincount(which >> 5)[which[::LANES] >> 5] == LANES).all())

    @property
    def warps(self) -> NDArray[np.int64]:
        """Warps that have a selected thread."""
        if self.all:
            return np.arange(self.threads // LANES)
        return np.unique(self.selected >> 5)

    @property
    def present(self) -> Mask:
        """``[warps, 32]``: the selected lanes."""
        found: Mask = np.zeros((self.threads // LANES, LANES), np.bool_)
        found.reshape(-1)[self.select] = True
        return found[self.warps]

    def by_warp(self, value: Array) -> Array:
        """``[warps, 32]`` of a value of the selected threads; lanes that are not selected hold 0."""
        spread = self.spread(value)
        if self.whole:
            return spread.reshape(-1, LANES)
        full = np.zeros(self.threads, spread.dtype)
        full[self.select] = spread
        return full.reshape(-1, LANES)[self.warps]

    def by_thread(self, value: Array) -> Array:
        """Of the selected threads, from ``[warps, 32]``, or ``[warps, 1]``."""
        wide = value if value.shape[1] == LANES else np.broadcast_to(value, (value.shape[0], LANES))
        return wide.reshape(-1) if self.whole else wide[self.present]

    # -- control

    def go(self, target: int) -> None:
        """Send the selected threads to one instruction."""
        if self.all:
            self.uniform = target
        self.pc[self.select] = target

    def part(self, targets: Array) -> None:
        """Send each selected thread to an instruction of its own."""
        first = int(targets[0])
        if np.count_nonzero(targets == first) == targets.size:
            self.go(first)
        else:
            self.uniform = None
            self.pc[self.select] = targets

    def halt(self, state: int, which: Threads | None = None) -> None:
        """Put the selected threads, or some, in a state other than ready."""
        self.uniform = None
        self.state[self.select if which is None else which] = state

    def sleep(self, at: int, which: Threads) -> None:
        """Let threads wait at an instruction until another calls ``wake``; they run it anew."""
        self.halt(SLEEPING, which)
        self.pc[which] = at

    def wake(self) -> None:
        """Let sleeping threads look again."""
        if self.uniform is None:
            self.state[self.state == SLEEPING] = READY

    # -- registers

    def read(self, kind: Type, index: int) -> Array:
        """``[selected threads]``; a view where all threads are selected."""
        row = self.rows[kind][index]
        return row if self.all else row[self.select]

    def read_all(self, kind: Type, rows: Rows) -> Array:
        """``[registers, selected threads]``; a view where they lie side by side and all threads are selected."""
        found = self.rows.whole(kind)[rows]
        return found if isinstance(self.select, slice) else found.take(self.select, axis=1)

    def write_all(self, kind: Type, rows: Rows, values: Array) -> None:
        """Write the selected threads, from ``[registers, selected threads]``."""
        file = self.rows.whole(kind)
        if self.all:
            file[rows] = values
            return
        numbers = range(file.shape[0])[rows] if isinstance(rows, slice) else rows.tolist()
        shape = len(numbers), self.count
        whole = values if np.shape(values) == shape else np.broadcast_to(values, shape)
        for number, value in zip(numbers, whole, strict=True):
            file[number][self.select] = value

    def write(self, kind: Type, index: int, value: Array) -> None:
        """Write the selected threads, from ``[selected threads]`` or one value."""
        self.rows[kind][index][self.select] = value

    # -- memory

    def load(
        self,
        site: Site,
        space: Space,
        at: Offsets,
        size: int,
        threads: Threads | None = None,
        strength: Strength | None = None,
    ) -> Words:
        """Checked read: ``[accesses, words]``.

        Args:
            site: the instruction.
            space: that the addresses are of.
            at: address of each access.
            size: bytes of each: 1, 2, 4, 8 or 16.
            threads: that make them; None: the selected ones, one access each.
            strength: of what may meet atomics in global memory.
        """
        own = self.selected if threads is None else threads
        space, place = self.locate(site, space, at, size, own)
        strong = strength is not None and space is Space.GLOBAL
        if observer := self.observer_of(space):
            observer(Access(site, place, size, self, own, write=False, atomic=strong))
        if strength and strong:
            self.exchange(place, own, strength, wrote=np.zeros(place.size, np.bool_))
        return self.store_of(space).load(place, size, aligned=True)

    def store(
        self,
        site: Site,
        space: Space,
        at: Offsets,
        size: int,
        words: Words,
        threads: Threads | None = None,
        strength: Strength | None = None,
    ) -> None:
        """Checked write of ``[accesses, words]``; arguments as of ``load``."""
        own = self.selected if threads is None else threads
        space, place = self.locate(site, space, at, size, own)
        strong = strength is not None and space is Space.GLOBAL
        if observer := self.observer_of(space):
            observer(Access(site, place, size, self, own, write=True, atomic=strong, words=words))
        if strength and strong:
            self.exchange(place, own, strength, replaces=True)
        self.store_of(space).store(place, size, words, aligned=True)

    def exchange(
        self, at: Offsets, threads: Threads, strength: Strength, *, wrote: Mask | None = None, replaces: bool = False
    ) -> None:
        """Tell of accesses to global memory that may order blocks."""
        if self.exchanged:
            order = strength.acquires, strength.releases
            self.exchanged(Exchange(at, threads // LANES, *order, wrote, replaces))

    def touch_atomically(self, site: Site, space: Space, at: Offsets, size: int) -> tuple[Space, Offsets]:
        """Check of an atomic of the selected threads: its space and the offsets into that."""
        own = self.selected
        space, place = self.locate(site, space, at, size, own)
        if observer := self.observer_of(space):
            observer(Access(site, place, size, self, own, write=True, atomic=True))
        self.store_of(space).mark(place, size)
        return space, place

    def observer_of(self, space: Space) -> Observer | None:
        """Who follows the accesses to a space."""
        if space is Space.GLOBAL:
            return self.observer
        return self.shared_observer if space is Space.SHARED else None

    def store_of(self, space: Space) -> Memory | SharedMemory:
        """The bytes of a space."""
        if space is Space.GLOBAL:
            return self.memory
        return self.shared if space is Space.SHARED else self.local

    def locate(self, site: Site, space: Space, at: Offsets, size: int, own: Threads) -> tuple[Space, Offsets]:
        """The space of addresses, and their offsets into its bytes.

        Raises:
            Fault: an address is not aligned, or outside what the thread may touch.
        """
        if size > 1 and low_bits(at) & (size - 1):
            self.check_aligned(site, at, size, own)
        if space is Space.GENERIC:
            space, at = _behind_windows(site, at)
        if space is Space.SHARED:
            return space, self._in_shared(site, at, size, own)
        if space is Space.LOCAL:
            return space, self._in_local(site, at, size, own)
        return Space.GLOBAL, self._in_global(site, at - BASE, size, own)

    def check_aligned(self, site: Site, at: Offsets, size: int, own: Threads) -> None:
        """Refuse addresses that are no multiples of a size, a power of two.

        Raises:
            Fault: one is not.
        """
        bad = at & (size - 1) != 0
        if bad.any():
            message = f"{size} bytes at an address that is not a multiple of {size}"
            raise Fault(Finding(Kind.MISALIGNED, message, site, self.place(int(own[np.argmax(bad)]))))

    def _in_global(self, site: Site, at: Offsets, size: int, own: Threads) -> Offsets:
        if at.size and (first := self.memory.first_outside(at, size)) is not None:
            near = self.memory.nearest(int(at[first]))
            offset = int(at[first]) - near.start if near else int(at[first]) + BASE
            where = f", {near.name}[{offset}] of {near.size}" if near else f", address {offset:#x}"
            message = f"{size} bytes outside every buffer{where}"
            place = self.place(int(own[first]))
            raise Fault(Finding(Kind.OUT_OF_BOUNDS, message, site, place, offset, near.name if near else None))
        return at

    def _in_shared(self, site: Site, at: Offsets, size: int, own: Threads) -> Offsets:
        if (first := self.shared.first_outside(at, size)) is not None:
            message = f"{size} bytes at {at[first]} of {self.shared.size} bytes of shared memory"
            place = self.place(int(own[first]))
            raise Fault(Finding(Kind.SHARED_OUT_OF_BOUNDS, message, site, place, int(at[first]), "shared"))
        return at + (self.shared_base if own is self.every else self.shared_base[own])

    def _in_local(self, site: Site, at: Offsets, size: int, own: Threads) -> Offsets:
        if (first := self.local.first_outside(at, size)) is not None:
            message = f"{size} bytes at {at[first]} of {self.local.size} bytes of local memory"
            place = self.place(int(own[first]))
            raise Fault(Finding(Kind.OUT_OF_BOUNDS, message, site, place, int(at[first]), "local"))
        return at + own * self.local.stride

    # -- findings

    def place(self, thread: int) -> Place:
        """A thread as findings name it."""
        return self.placing.place(thread)

    def note(self, finding: Finding) -> None:
        """Keep a finding that lets the kernel go on."""
        keep(self.findings, finding)


def _register_files(program: Program, threads: int, poison: int) -> dict[int, Array]:
    """Width → registers ``[registers, threads]``, all bits of the poison."""
    files: dict[int, Array] = {}
    for bits, kind in ((1, Type.PRED), (16, Type.B16), (32, Type.B32), (64, Type.B64), (128, Type.B128)):
        count = program.registers.get(bits, 0) + 1
        if bits == 1:
            files[bits] = np.zeros((count, threads), np.bool_)
        elif bits == 16:
            files[bits] = np.full((count, threads), poison & 0xFFFF, np.uint16)
        else:
            files[bits] = np.full((count, threads * bits // 32), poison, np.uint32).view(kind.dtype)
    return files


def _behind_windows(site: Site, at: Offsets) -> tuple[Space, Offsets]:
    """Space and addresses of generic ones, which must be of one space."""
    if not at.size or at.max() < SHARED_WINDOW:
        return Space.GLOBAL, at
    if at.min() >= LOCAL_WINDOW:
        return Space.LOCAL, at - LOCAL_WINDOW
    if at.min() >= SHARED_WINDOW and at.max() < LOCAL_WINDOW:
        return Space.SHARED, at - SHARED_WINDOW
    raise Unsupported("generic addresses of several spaces at once", site)
