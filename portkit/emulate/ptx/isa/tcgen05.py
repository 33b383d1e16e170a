"""Instructions that work on tensor memory: tcgen05.

When what they issue happens is ``tensor_memory``, and what a product computes is ``tensor_products``. The registers of
a load need no wait: whoever uses them waits for them.

Source: PTX ISA, "TensorCore 5th Generation Family Instructions".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from portkit.emulate.core.findings import Fault, Finding, Kind, Site
from portkit.emulate.ptx.decode import Decoder, Read, ReadOffsets, Step
from portkit.emulate.ptx.isa.control import nothing
from portkit.emulate.ptx.isa.flight import Flights
from portkit.emulate.ptx.isa.mbarriers import Delivery, MemoryBarriers
from portkit.emulate.ptx.isa.mma import words_of, writer_of
from portkit.emulate.ptx.isa.operands_shared import Tile, checked_units, judge_units
from portkit.emulate.ptx.isa.registry import Entry
from portkit.emulate.ptx.isa.telling import follows, tell
from portkit.emulate.ptx.isa.tensor_memory import COLUMNS, TENSOR_LANES, Issued, Range, Stored, TensorMemory
from portkit.emulate.ptx.isa.tensor_products import mma
from portkit.emulate.ptx.machine import LANES, Array, Machine
from portkit.emulate.ptx.matrix.formats import FORMATS
from portkit.emulate.ptx.program import Immediate, Operand, Space
from portkit.emulate.ptx.types import Type, types_of

_SECTION = "TensorCore 5th Generation Family Instructions"

_SIZE = 4
_BARRIER = 8


# -- allocation


def _one_block(decoder: Decoder) -> None:
    """Pairs of blocks are parts of a cluster."""
    if decoder.has("cta_group::2"):
        raise decoder.unsupported("a pair of blocks of a cluster")
    decoder.required("cta_group::1")
    if not decoder.architecture.tensor_memory:
        raise decoder.unsupported(f"{decoder.architecture.name} has no tensor memory")


def _warp_leaders(machine: Machine) -> list[int]:
    return machine.selected[::LANES].tolist()  # type: ignore[no-any-return]


def _allocate(decoder: Decoder) -> Step:
    """The document does not say by which proxy the address is written, so no fence is asked for behind it."""
    _one_block(decoder)
    decoder.ignore("sync", "aligned", "shared::cta")
    decoder.need(2)
    address, columns, site = decoder.address(decoder.operands[0]), _columns(decoder, 1), decoder.site

    def step(machine: Machine) -> None:
        memory = machine.unit(TensorMemory)
        at = machine.spread(address(machine))[::LANES]
        leaders = np.array(_warp_leaders(machine))
        starts = [memory.allocate(site, thread, columns) for thread in leaders.tolist()]
        machine.store(site, Space.SHARED, at, _SIZE, np.array(starts, np.uint32)[:, None], leaders)
        _, places = machine.locate(site, Space.SHARED, at, _SIZE, leaders)
        machine.unit(Flights).fenced(places >> 4)

    return step


def _columns(decoder: Decoder, number: int) -> int:
    operand = decoder.operands[number]
    if not isinstance(operand, Immediate):
        raise decoder.unsupported("a number of columns that is no constant")
    return int(operand.text, 0)


def _free(decoder: Decoder) -> Step:
    _one_block(decoder)
    decoder.ignore("sync", "aligned")
    decoder.need(2)
    start, columns, site = decoder.read(decoder.operands[0], Type.U32), _columns(decoder, 1), decoder.site

    def step(machine: Machine) -> None:
        starts = machine.spread(start(machine))[::LANES]
        for thread, at in zip(_warp_leaders(machine), starts.tolist(), strict=True):
            machine.unit(TensorMemory).free(site, thread, at, columns)

    return step


def _relinquish(decoder: Decoder) -> Step:
    _one_block(decoder)
    decoder.ignore("sync", "aligned")
    decoder.need(0)

    def step(machine: Machine) -> None:
        for thread in _warp_leaders(machine):
            machine.unit(TensorMemory).relinquish(thread)

    return step


# -- loads and stores of threads


@dataclass(frozen=True)
class _Shape:
    """Which lanes and columns the registers of a warp's lanes are."""

    registers: int
    halves: bool  # 16x32bx2: lanes 16 and up have columns further on
    further: int
    packed: bool  # two columns of 16 bits a register

    @property
    def columns(self) -> int:
        """That a lane has."""
        return self.registers * (2 if self.packed else 1)

    def places(self, addresses: Array) -> tuple[Array, Array]:
        """Of each address, one a lane ``[warps, 32]``: the lane of tensor memory, and the first column."""
        lane, base = np.arange(LANES), addresses.astype(np.int64)
        rows = (base >> 16) + (lane % 16 if self.halves else lane)
        return rows, (base & 0xFFFF) + (lane // 16 * self.further if self.halves else 0)

    def pack(self, words: Array) -> Array:
        """Words of columns ``[warps, 32, columns]`` to registers ``[warps, 32, registers]``."""
        if not self.packed:
            return words
        low, high = words[..., ::2] & np.uint32(0xFFFF), words[..., 1::2]
        return low | (high << np.uint32(16))

    def unpack(self, words: Array) -> Array:
        """The inverse; the high halves of columns are zeros."""
        if not self.packed:
            return words
        parts = np.stack([words & np.uint32(0xFFFF), words >> np.uint32(16)], axis=-1)
        return parts.reshape(*words.shape[:-1], -1)


_TIMES = re.compile(r"x(\d+)")
_MOST_TIMES = 128


def _shape(decoder: Decoder, packing: str, registers: int, offset: Operand | None) -> _Shape:
    decoder.ignore("sync", "aligned")
    halves = decoder.required("32x32b", "16x32bx2") == "16x32bx2"
    times = next((int(match[1]) for name in decoder.instruction.modifiers if (match := _TIMES.fullmatch(name))), 0)
    decoder.ignore(f"x{times}")
    if times != registers or times > _MOST_TIMES or halves == (offset is None):
        raise decoder.unsupported(f"{registers} registers, x{times}")
    further = int(offset.text, 0) if isinstance(offset, Immediate) else 0
    return _Shape(registers, halves, further, decoder.has(packing))


def _checked_places(machine: Machine, site: Site, shape: _Shape, address: Read | ReadOffsets) -> tuple[Array, Array]:
    """Lanes of the chunk and first columns of the selected warps, which must be those of the warp's own quarter.

    Raises:
        Fault: they are not, or there are none such.
    """
    at, leaders = machine.spread(address(machine)).reshape(-1, LANES), machine.selected[::LANES]
    lanes, first = shape.places(at)
    own = leaders % machine.per_group // LANES % 4
    wrong = (lanes // LANES != own[:, None]) | (first + shape.columns > COLUMNS)
    if wrong.any():
        warp = int(np.argmax(wrong.any(axis=1)))
        message = "tensor memory outside the quarter of lanes that a warp can reach, or behind the last column"
        raise Fault(Finding(Kind.OUT_OF_BOUNDS, message, site, machine.place(int(leaders[warp]))))
    return lanes + machine.group[leaders][:, None] * TENSOR_LANES, first


def _ranges(machine: Machine, shape: _Shape, first: Array) -> list[tuple[int, Range]]:
    """The first thread of each selected warp, and the columns that it touches, by their first ones."""
    leaders = machine.selected[::LANES]
    bounds = zip(leaders.tolist(), machine.group[leaders].tolist(), first.min(axis=1), first.max(axis=1), strict=True)
    return [(thread, Range(group, int(low), int(high) + shape.columns)) for thread, group, low, high in bounds]


def _load(decoder: Decoder) -> Step:
    """tcgen05.ld: registers, address, and of halves the offset of the second."""
    decoder.need(2, 3)
    items = decoder.items(decoder.operands[0])
    shape = _shape(decoder, "pack::16b", len(items), decoder.operands[2] if len(decoder.operands) > 2 else None)
    write = writer_of(decoder, decoder.operands[0], Type.B32)
    address, site = decoder.address(decoder.operands[1]), decoder.site

    def step(machine: Machine) -> None:
        memory = machine.unit(TensorMemory)
        rows, first = _checked_places(machine, site, shape, address)
        for thread, touched in _ranges(machine, shape, first):
            memory.load(site, thread, touched)
        write(machine, shape.pack(memory.load_rows(rows, first, shape.columns)).transpose(2, 0, 1))

    return step


def _store(decoder: Decoder) -> Step:
    """tcgen05.st: address, of halves the offset of the second, and registers."""
    decoder.need(2, 3)
    items = decoder.items(decoder.operands[-1])
    shape = _shape(decoder, "unpack::16b", len(items), decoder.operands[1] if len(decoder.operands) > 2 else None)
    values = words_of(decoder, decoder.operands[-1])
    address, site = decoder.address(decoder.operands[0]), decoder.site

    def step(machine: Machine) -> None:
        memory = machine.unit(TensorMemory)
        rows, first = _checked_places(machine, site, shape, address)
        words = shape.unpack(np.ascontiguousarray(values(machine).transpose(1, 2, 0)))
        for number, (thread, touched) in enumerate(_ranges(machine, shape, first)):
            memory.store(Stored(site, thread, rows[number], first[number], words[number], touched))

    return step


def _wait_loads(decoder: Decoder) -> Step:
    decoder.need(0)
    decoder.ignore("sync", "aligned")

    def step(machine: Machine) -> None:
        machine.unit(TensorMemory).wait_loads({thread // LANES for thread in _warp_leaders(machine)})

    return step


def _wait_stores(decoder: Decoder) -> Step:
    decoder.need(0)
    decoder.ignore("sync", "aligned")

    def step(machine: Machine) -> None:
        machine.unit(TensorMemory).wait_stores({thread // LANES for thread in _warp_leaders(machine)})

    return step


# -- commits and copies


def _commit(decoder: Decoder) -> Step:
    """The mbarrier is arrived at when all that its thread has issued so far has run."""
    _one_block(decoder)
    decoder.required("mbarrier::arrive::one")
    decoder.ignore("shared::cluster", "shared::cta", "b64")
    decoder.need(1)
    address, site = decoder.address(decoder.operands[0]), decoder.site

    def step(machine: Machine) -> None:
        own, barriers = machine.selected, machine.unit(MemoryBarriers)
        _, places = machine.locate(site, Space.SHARED, machine.spread(address(machine)), _BARRIER, own)
        for place, thread in zip(places.tolist(), own.tolist(), strict=True):
            _owe(machine, barriers, site, place, thread)

    return step


def _owe(machine: Machine, barriers: MemoryBarriers, site: Site, place: int, thread: int) -> None:
    """Let a barrier be arrived at, when it is asked for or a later commit of the thread is."""
    barrier = barriers.named(site, place, thread)

    def arrive() -> None:
        if delivery in barrier.owed:
            barrier.owed.remove(delivery)
        if barriers.known.get(place) is barrier:
            barriers.arrive(site, place, thread, expect=0, told=told)

    told = [tell(machine, thread, later=True)] if follows(machine) else []
    commit = machine.unit(TensorMemory).commit(thread, arrive)
    delivery = Delivery(commit.run, brings=False, work=commit)
    barriers.owe(barrier, delivery)


def _copy(decoder: Decoder) -> Step:
    """tcgen05.cp of 32 rows of 16 bytes to all four quarters of lanes, as scales need it."""
    _one_block(decoder)
    decoder.need(2)
    decoder.required("32x128b")
    decoder.required("warpx4")
    target, descriptor = decoder.address(decoder.operands[0]), decoder.read(decoder.operands[1], Type.B64)
    site, tile = decoder.site, Tile(FORMATS["tf32"], LANES, 4, across=False)

    def step(machine: Machine) -> None:
        memory = machine.unit(TensorMemory)
        targets, sources = (machine.spread(each(machine)).tolist() for each in (target, descriptor))
        for at, source, thread in zip(targets, sources, machine.selected.tolist(), strict=True):
            own, group = np.array([thread]), int(machine.group[thread])
            units = checked_units(machine, site, tile, [source], own)
            judge_units(machine, site, tile, units, own, later=True)
            columns = Range(group, at & 0xFFFF, (at & 0xFFFF) + 4)
            memory.issue(_Copied(site, thread, [units[0]], columns, memory), [])

    return step


@dataclass(eq=False)
class _Copied(Issued):
    """A copy of scales that has not run."""

    memory: TensorMemory

    def run(self, others: Sequence[Sequence[Issued]] = ()) -> None:
        """Bring the same 32 rows to all quarters of lanes."""
        words = self.memory.machine.shared.load(self.units[0] << 4, 16)
        self.memory.words[self.writes.group, :, self.writes.start : self.writes.end] = np.tile(words, (4, 1))


def _mma(decoder: Decoder) -> Step:
    _one_block(decoder)
    return mma(decoder)


def _entry(
    build: Callable[[Decoder], Step], name: str, *, types: str = "", collective: bool = True
) -> tuple[Entry, ...]:
    return (Entry(build, f"{_SECTION}: {name}", types_of(types), since=100, collective=collective),)


TABLE: dict[str, tuple[Entry, ...]] = {
    "tcgen05.alloc": _entry(_allocate, "tcgen05.alloc", types="b32"),
    "tcgen05.dealloc": _entry(_free, "tcgen05.dealloc", types="b32"),
    "tcgen05.relinquish_alloc_permit": _entry(_relinquish, "tcgen05.relinquish_alloc_permit"),
    "tcgen05.ld": _entry(_load, "tcgen05.ld", types="b32"),
    "tcgen05.st": _entry(_store, "tcgen05.st", types="b32"),
    "tcgen05.wait::ld": _entry(_wait_loads, "tcgen05.wait"),
    "tcgen05.wait::st": _entry(_wait_stores, "tcgen05.wait"),
    "tcgen05.mma": _entry(_mma, "tcgen05.mma", collective=False),
    "tcgen05.cp": _entry(_copy, "tcgen05.cp", collective=False),
    "tcgen05.commit": _entry(_commit, "tcgen05.commit", collective=False),
    "tcgen05.fence::before_thread_sync": (Entry(nothing(), f"{_SECTION}: tcgen05.fence", since=100, changes=False),),
    "tcgen05.fence::after_thread_sync": (Entry(nothing(), f"{_SECTION}: tcgen05.fence", since=100, changes=False),),
}
