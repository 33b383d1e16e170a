"""State of the waves that run at once: registers, masks, program counters and memories.

Arrays are ``[waves, lanes]`` for vector registers and ``[waves]`` for scalar ones. A step of the emulator
acts on a selection of waves that are at one instruction: all of them in the common case, when ``select``
is a full slice and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.amdgcn.hostcalls import HostCalls
from portkit.emulate.amdgcn.operands import EXEC, SCALARS, VCC, Type
from portkit.emulate.amdgcn.program import Program
from portkit.emulate.core.bytestore import Offsets, Words, low_bits
from portkit.emulate.core.findings import Fault, Finding, Kind, Place, Site, Unsupported, keep
from portkit.emulate.core.launch import Grid
from portkit.emulate.core.memory import BASE, Memory
from portkit.emulate.core.schedule import READY
from portkit.emulate.core.shared import SharedMemory
from portkit.emulate.core.watch import Exchange

Array: TypeAlias = NDArray[Any]
Mask: TypeAlias = NDArray[np.bool_]

EVERYWHERE = slice(None)


class Views(dict[Type, list[Array]]):
    """Registers one by one, by the 32-bit type that they are read as; made when they are first asked for."""

    def __init__(self, words: Words) -> None:
        self._words = words
        super().__init__()

    def __missing__(self, kind: Type) -> list[Array]:
        self[kind] = list(self._words.view(kind.dtype))
        return self[kind]


@dataclass(frozen=True)
class Access:
    """Bytes that one instruction touches, as a checker sees them.

    ``at`` has one offset an active lane: into the arena for global memory, into the chunk's array for
    shared memory. ``waves`` are numbers within the chunk, ``lanes`` -1 for the scalar unit.
    """

    site: Site
    at: Offsets
    size: int
    machine: Machine
    active: Mask | None  # of the selected waves; None: one access a wave, by the scalar unit
    write: bool
    atomic: bool = False
    words: Words | None = None  # of a write that is not atomic, one row an access

    @property
    def waves(self) -> NDArray[np.int64]:
        """Wave of each access."""
        return self.spread(np.arange(self.machine.waves))

    def spread(self, of_wave: NDArray[Any]) -> NDArray[Any]:
        """From one value for each wave of the chunk to one for each access."""
        selected = of_wave[self.machine.select]
        if self.active is None:
            return selected
        if self.at.size == self.active.size:
            return np.repeat(selected, self.machine.lanes)
        return selected[np.nonzero(self.active)[0]]

    def place(self, which: int) -> Place:
        """Who makes access number ``which``."""
        return self.machine.place(which, self.active)

    lasts = everyone = False
    """It is asked at once: other waves are selected later."""

    def spreading(self, of_wave: NDArray[Any]) -> Callable[[], NDArray[Any]]:
        """As ``spread``."""
        return lambda: self.spread(of_wave)

    def placing(self) -> Callable[[int], Place]:
        """As ``place``."""
        return self.place

    @property
    def lanes(self) -> NDArray[np.int64]:
        """Lane of each access."""
        if self.active is None:
            return np.full(self.at.size, -1)
        return np.nonzero(self.active)[1]


@dataclass(frozen=True)
class Service:
    """A kernel argument that stands for a service of the host; not to be read, since there is none."""

    kind: str  # .value_kind
    start: int  # offset into the arena
    end: int


class Machine:
    """Waves of a chunk of workgroups.

    Args:
        program: the kernel.
        vectors: vector registers, accumulation registers included.
        groups: ids of the workgroups.
        waves_per_group: waves of each.
        memory: global memory.
        poison: word of registers and memory that nothing wrote.
        shared_bytes: shared memory of each workgroup.

    Attributes:
        select: the waves that the current step acts on.
        all: True where these are all waves.
        active: lanes of the selected waves that EXEC enables.
        full: True where all are enabled.
    """

    def __init__(
        self,
        program: Program,
        vectors: int,
        groups: list[Grid],
        waves_per_group: int,
        memory: Memory,
        poison: int,
        shared_bytes: int,
    ) -> None:
        self.program, self.memory = program, memory
        self.groups, self.waves_per_group = groups, waves_per_group
        self.lanes, self.waves = program.wave_size, len(groups) * waves_per_group
        self._registers(vectors, poison)
        self.scc: Mask = np.zeros(self.waves, np.bool_)
        self.group: NDArray[np.int64] = np.repeat(np.arange(len(groups)), waves_per_group)
        self.scratch: Words = np.full((-(-program.scratch_bytes // 4), self.waves, self.lanes), poison, np.uint32)
        self.shared = SharedMemory(len(groups), shared_bytes, poison)
        self.shared_base: Offsets = self.group * self.shared.stride
        self.pc: NDArray[np.int64] = np.zeros(self.waves, np.int64)
        self.state: NDArray[np.int8] = np.full(self.waves, READY, np.int8)
        self.signals: NDArray[np.int64] = np.zeros(self.waves, np.int64)  # barriers that a wave has signalled
        self.waits: NDArray[np.int64] = np.zeros(self.waves, np.int64)  # barriers that it has waited for
        self.passed: NDArray[np.int64] = np.zeros(len(groups), np.int64)  # barriers that a workgroup has completed
        self.fp16_overflow: Mask = np.full(self.waves, bool(program.directive("fp16_overflow")), np.bool_)
        self.findings: dict[tuple[Kind, int], Finding] = {}
        self.services: list[Service] = []
        self.host: HostCalls | None = None
        self.observer: Callable[[Access], None] | None = None
        self.exchanged: Callable[[Exchange], None] | None = None  # atomics on global memory
        self.shared_observer: Callable[[Access], None] | None = None
        self._exec_mask()

    def _registers(self, vectors: int, poison: int) -> None:
        vector: Words = np.full((vectors, self.waves, self.lanes), poison, np.uint32)
        scalar: Words = np.full((SCALARS, self.waves, 1), poison, np.uint32)
        scalar[EXEC], scalar[EXEC + 1] = 0xFFFF_FFFF, 0xFFFF_FFFF if self.lanes == 64 else 0
        self.vector, self.scalar = Views(vector), Views(scalar)
        self.masks: dict[int, Mask] = {}  # scalar register → the unpacked mask it holds, of all waves

    def _exec_mask(self) -> None:
        self.exec: Mask = np.ones((self.waves, self.lanes), np.bool_)
        self.all = False
        self.choose(np.ones(self.waves, np.bool_))

    # -- selection

    def choose(self, waves: Mask) -> None:
        """Make these waves the ones that the next steps act on."""
        before, self.all = self.all, bool(waves.all())
        if before and self.all:
            return
        self.select: slice | NDArray[np.int64] = EVERYWHERE if self.all else np.nonzero(waves)[0]
        self.count = self.waves if self.all else int(np.count_nonzero(waves))
        self._refresh()

    def _refresh(self) -> None:
        self.active: Mask = self.exec if self.all else self.exec[self.select]
        self.full = bool(self.active.all())

    def selected(self) -> NDArray[np.int64]:
        """Numbers of the selected waves within the chunk."""
        return np.arange(self.waves)[self.select]

    # -- registers

    def read_vector(self, index: int, kind: Type = Type.U32) -> Array:
        """``[selected waves, lanes]``; a view where all waves are selected."""
        register = self.vector[kind][index]
        return register if self.all else register[self.select]

    def read_scalar(self, index: int, kind: Type = Type.U32) -> Array:
        """``[selected waves, 1]``; a view where all waves are selected."""
        register = self.scalar[kind][index]
        return register if self.all else register[self.select]

    def write_vector(self, index: int, value: Array, kind: Type = Type.U32, enabled: Mask | None = None) -> None:
        """Write the lanes that EXEC enables, and ``enabled`` where given (``[selected waves, lanes]``)."""
        register = self.vector[kind][index]
        where = self.active if enabled is None else self.active & enabled
        whole = self.full and enabled is None
        if not self.all:
            selected = register[self.select]
            np.copyto(selected, value, where=True if whole else where)
            register[self.select] = selected
        elif whole:
            register[...] = value
        else:
            np.copyto(register, value, where=where)

    def write_every_lane(self, index: int, value: Array, kind: Type = Type.U32) -> None:
        """Write a vector register whatever EXEC says."""
        self.vector[kind][index][self.select] = value

    def write_scalar(self, index: int, value: Array, kind: Type = Type.U32) -> None:
        """Write ``[selected waves, 1]``, or one value for all."""
        self.scalar[kind][index][self.select] = value
        self.masks.pop(index, None)
        self.masks.pop(index - 1, None)
        if index in (EXEC, EXEC + 1):
            self._load_exec()

    def _load_exec(self) -> None:
        self.exec[self.select] = self._unpack(EXEC)
        self._refresh()

    def _unpack(self, index: int) -> Mask:
        words = self.read_scalar(index)
        if self.lanes == 64:
            words = np.concatenate([words, self.read_scalar(index + 1)], axis=1)
        raw = np.ascontiguousarray(words).view(np.uint8)
        return np.unpackbits(raw, axis=1, bitorder="little").view(np.bool_)

    def read_mask(self, index: int) -> Mask:
        """A scalar register or pair as ``[selected waves, lanes]``."""
        if self.all and index in self.masks:
            return self.masks[index]
        mask = self._unpack(index)
        if self.all:
            self.masks[index] = mask
        return mask

    def write_mask(self, index: int, mask: Mask) -> None:
        """Write ``[selected waves, lanes]`` to a scalar register or pair; inactive lanes are the caller's to clear."""
        words = np.packbits(mask, axis=1, bitorder="little").view(np.uint32)
        self.scalar[Type.U32][index][self.select] = words[:, :1]
        if self.lanes == 64:
            self.scalar[Type.U32][index + 1][self.select] = words[:, 1:]
        for stale in (index - 1, index, index + 1):
            self.masks.pop(stale, None)
        if index == EXEC:
            self.exec[self.select] = mask
            self._refresh()
        elif self.all:
            self.masks[index] = mask

    def read_scc(self) -> Mask:
        """``[selected waves, 1]``."""
        return self.scc[self.select][:, None]

    def write_scc(self, value: Array) -> None:
        """From ``[selected waves, 1]``."""
        self.scc[self.select] = np.asarray(value).reshape(-1)

    def vcc_is_zero(self) -> Mask:
        """``[selected waves]``."""
        low = self.read_scalar(VCC)[:, 0]
        return np.asarray(low | self.read_scalar(VCC + 1)[:, 0] if self.lanes == 64 else low) == 0

    # -- lanes of memory instructions

    def spread(self, value: Array) -> Array:
        """A value as ``[selected waves, lanes]``."""
        shape = (self.count, self.lanes)
        return value if value.shape == shape else np.broadcast_to(value, shape)

    def lanes_of(self, value: Array, live: Mask) -> Array:
        """Values of the live lanes, one dimension."""
        spread = self.spread(value)
        return spread.reshape(-1) if self.every(live) else spread[live]

    def every(self, live: Mask) -> bool:
        """Whether a mask enables all lanes of the selected waves."""
        return self.full if live is self.active else bool(live.all())

    def some(self, live: Mask) -> bool:
        """Whether a mask enables any lane of the selected waves."""
        return (self.full and live is self.active) or bool(live.any())

    def put_lanes(self, index: int, values: Array, live: Mask) -> None:
        """Write one value a live lane to a vector register; the others keep theirs."""
        register = self.vector[Type.U32][index]
        if self.all and values.size == live.size:
            register[...] = values.reshape(live.shape)
        elif self.all:
            register[live] = values
        else:
            selected = register[self.select]
            selected[live] = values
            register[self.select] = selected

    # -- memory

    def load(self, site: Site, at: Offsets, size: int, active: Mask | None) -> Words:
        """Checked read of global memory: ``[accesses, words]``."""
        self._check_global(site, at, size, active)
        if self.services:
            self._refuse_services(site, at, size)
        if self.observer:
            self.observer(Access(site, at, size, self, active, write=False))
        return self.memory.load(at, size)

    def store(self, site: Site, at: Offsets, size: int, words: Words, active: Mask | None) -> None:
        """Checked write of global memory."""
        self._check_global(site, at, size, active)
        if self.observer:
            self.observer(Access(site, at, size, self, active, write=True, words=words))
        self.memory.store(at, size, words)

    def touch_atomically(self, site: Site, at: Offsets, size: int, active: Mask | None) -> Access:
        """Check of an atomic on global memory, which must be aligned."""
        self._check_global(site, at, size, active)
        if low_bits(at) & (size - 1):
            first = int(np.argmax(at & (size - 1) != 0))
            raise Fault(self._finding(Kind.MISALIGNED, f"atomic of {size} bytes", site, at, first, active))
        access = Access(site, at, size, self, active, write=True, atomic=True)
        if self.observer:
            self.observer(access)
        return access

    def exchange(self, access: Access, wrote: Mask | None) -> None:
        """Tell of an atomic on global memory that was made; no instruction says what it acquires and releases."""
        if self.exchanged:
            self.exchanged(Exchange(access.at, access.waves, wrote=wrote))

    def _refuse_services(self, site: Site, at: Offsets, size: int) -> None:
        for service in self.services:
            if ((at < service.end) & (at + size > service.start)).any():
                raise Unsupported(f"kernel argument {service.kind}: services of the host are not there", site)

    def _check_global(self, site: Site, at: Offsets, size: int, active: Mask | None) -> None:
        if at.size and (first := self.memory.first_outside(at, size)) is not None:
            message = f"{size} bytes outside every buffer"
            raise Fault(self._finding(Kind.OUT_OF_BOUNDS, message, site, at, first, active))

    def _finding(self, kind: Kind, message: str, site: Site, at: Offsets, which: int, active: Mask | None) -> Finding:
        near = self.memory.nearest(int(at[which]))
        offset = int(at[which]) - near.start if near else int(at[which]) + BASE
        where = f", {near.name}[{offset}] of {near.size}" if near else f", address {offset:#x}"
        return Finding(kind, message + where, site, self.place(which, active), offset, near.name if near else None)

    def locate_shared(self, site: Site, at: Offsets, size: int, active: Mask) -> Offsets:
        """Offsets into shared memory of the chunk, from a workgroup's own addresses ``[selected waves, lanes]``."""
        whole = self.every(active)
        own = at.reshape(-1) if whole else at[active]
        if (first := self.shared.first_outside(own, size)) is not None:
            message = f"{size} bytes at {own[first]} of {self.shared.size} bytes of shared memory"
            place = self.place(first, active)
            raise Fault(Finding(Kind.SHARED_OUT_OF_BOUNDS, message, site, place, int(own[first]), "shared"))
        base = self.shared_base[self.select][:, None]
        return (at + base).reshape(-1) if whole else own + np.broadcast_to(base, at.shape)[active]

    def load_shared(self, site: Site, at: Offsets, size: int, active: Mask) -> Words:
        """Checked read of shared memory: ``[accesses, words]``. ``at`` is ``[selected waves, lanes]``."""
        place = self.locate_shared(site, at, size, active)
        if self.shared_observer:
            self.shared_observer(Access(site, place, size, self, active, write=False))
        return self.shared.load(place, size)

    def store_shared(self, site: Site, at: Offsets, size: int, words: Words, active: Mask) -> None:
        """Checked write of shared memory. ``at`` is ``[selected waves, lanes]``, ``words`` one row an active lane."""
        place = self.locate_shared(site, at, size, active)
        if self.shared_observer:
            self.shared_observer(Access(site, place, size, self, active, write=True, words=words))
        self.shared.store(place, size, words)

    def touch_shared_atomically(self, site: Site, at: Offsets, size: int, active: Mask) -> Offsets:
        """Offsets of an atomic on shared memory, which must be aligned. ``at`` is ``[selected waves, lanes]``."""
        place = self.locate_shared(site, at, size, active)
        if low_bits(place) & (size - 1):
            first = int(np.argmax((place & (size - 1)) != 0))
            message = f"atomic of {size} bytes on shared memory"
            raise Fault(Finding(Kind.MISALIGNED, message, site, self.place(first, active), int(place[first]), "shared"))
        if self.shared_observer:
            self.shared_observer(Access(site, place, size, self, active, write=True, atomic=True))
        return place

    def _check_scratch(self, site: Site, at: Offsets, size: int, active: Mask) -> None:
        limit = self.scratch.shape[0] * 4
        if at.size and (int(at.min()) < 0 or int(at.max()) + size > limit):
            first = int(np.argmax((at < 0) | (at + size > limit)))
            message = f"{size} bytes at {at[first]} of {limit} bytes of scratch"
            place = self.place(first, active)
            raise Fault(Finding(Kind.OUT_OF_BOUNDS, message, site, place, int(at[first]), "scratch"))
        if size >= 4 and (at & 3).any():
            raise Unsupported("scratch access that is not aligned to 4 bytes", site)

    def _one_slot(self, at: Offsets, active: Mask) -> bool:
        """Whether all lanes of all waves use the same offset, as spilled registers do."""
        return self.all and self.every(active) and bool((at == at[0]).all())

    def load_scratch(self, site: Site, at: Offsets, size: int, active: Mask) -> Words:
        """Read each lane's own scratch at its byte offset: ``[active lanes, words]``."""
        self._check_scratch(site, at, size, active)
        if size >= 4 and self._one_slot(at, active):
            slots = range(int(at[0]) // 4, (int(at[0]) + size) // 4)
            return np.stack([self.scratch[slot].reshape(-1) for slot in slots], axis=1)
        wave, lane = np.nonzero(active)
        wave = self.selected()[wave]
        words = [self.scratch[(at >> 2) + n, wave, lane] for n in range(max(1, size // 4))]
        if size < 4:
            words = [(words[0] >> ((at & 3) * 8).astype(np.uint32)) & np.uint32((1 << 8 * size) - 1)]
        return np.stack(words, axis=1)

    def store_scratch(self, site: Site, at: Offsets, size: int, words: Words, active: Mask) -> None:
        """Write each lane's own scratch at its byte offset."""
        self._check_scratch(site, at, size, active)
        if size >= 4 and self._one_slot(at, active):
            for word in range(size // 4):
                self.scratch[int(at[0]) // 4 + word] = words[:, word].reshape(active.shape)
            return
        wave, lane = np.nonzero(active)
        wave = self.selected()[wave]
        if size >= 4:
            for word in range(size // 4):
                self.scratch[(at >> 2) + word, wave, lane] = words[:, word]
            return
        shift, mask = ((at & 3) * 8).astype(np.uint32), np.uint32((1 << 8 * size) - 1)
        old = self.scratch[at >> 2, wave, lane]
        self.scratch[at >> 2, wave, lane] = (old & ~(mask << shift)) | ((words[:, 0] & mask) << shift)

    # -- findings

    def place(self, which: int, active: Mask | None) -> Place:
        """Who made access number ``which``."""
        wave = int(self.selected()[which if active is None else np.nonzero(active)[0][which]])
        lane = None if active is None else int(np.nonzero(active)[1][which])
        return Place(self.groups[self.group[wave]], wave % self.waves_per_group, lane)

    def note(self, finding: Finding) -> None:
        """Keep a finding that lets the kernel go on."""
        keep(self.findings, finding)
