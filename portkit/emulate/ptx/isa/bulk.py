"""Bulk copies between global and shared memory, of tensors and of plain bytes: cp.async.bulk and its groups.

A copy into shared memory reads when it is issued and writes when its mbarrier is waited for. A copy out of shared
memory reads and writes when its group is waited for: what is there by then is what arrives.

Source: PTX ISA, "Data Movement and Conversion Instructions": cp.async.bulk, cp.async.bulk.tensor,
cp.reduce.async.bulk.tensor, cp.async.bulk.commit_group, cp.async.bulk.wait_group; "Tensors".
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.bytestore import Bytes, Offsets
from portkit.emulate.core.findings import Fault, Finding, Kind, Site
from portkit.emulate.core.floats import bf16_to_f32, f32_to_bf16
from portkit.emulate.ptx.decode import Decoder, Read, ReadOffsets, Step
from portkit.emulate.ptx.isa.control import nothing
from portkit.emulate.ptx.isa.copies import groups_left
from portkit.emulate.ptx.isa.flight import Flights, Operation
from portkit.emulate.ptx.isa.mbarriers import Delivery, MemoryBarriers
from portkit.emulate.ptx.isa.proxies import WrittenMaps
from portkit.emulate.ptx.isa.reductions import INTEGER
from portkit.emulate.ptx.isa.registry import Entry
from portkit.emulate.ptx.isa.telling import Told
from portkit.emulate.ptx.machine import Access, Array, Machine
from portkit.emulate.ptx.matrix.layouts import swizzled
from portkit.emulate.ptx.program import Address, Operand, Space
from portkit.emulate.ptx.tensormap import SIZE, SWIZZLES, Element, TensorMap
from portkit.emulate.ptx.types import Type

_SECTION = "Data Movement and Conversion Instructions"
_UNIT = 16
_BARRIER = 8

_SIDE = 256
"""Elements of a box in a dimension, at most (CUDA driver API, cuTensorMapEncodeTiled: boxDim)."""

_FURTHEST = 1 << 40
"""Bytes from one index to the next, less than that (globalStrides)."""

_PLACE = 128
"""Alignment of a box in shared memory (CUDA C++ programming guide, "Multi-dimensional TMA")."""

_BOX = 227 << 10
"""Bytes of shared memory that a block can have, at most (CUDA C++ programming guide, "Compute Capabilities")."""


# -- pieces of a copy


@dataclass(frozen=True)
class Pieces:
    """Where the bytes of a box lie: pieces of one size that are inside the tensor or outside it as a whole."""

    size: int
    addresses: Offsets  # in global memory
    inside: NDArray[np.bool_]
    places: Offsets  # in the block's shared memory


def pieces_of(tensor: TensorMap, corners: Sequence[Sequence[int]], shared: int) -> Pieces:
    """Pieces of a box, or of several that lie one behind the other in shared memory.

    Args:
        tensor: whose elements they are.
        corners: coordinates of the first element of each box.
        shared: address of the first one.
    """
    size = _piece(tensor, [corner[0] for corner in corners])
    parts = [_box(tensor, corner, size) for corner in corners]
    addresses, inside = (np.concatenate([part[each] for part in parts]) for each in (0, 1))
    return Pieces(size, addresses, inside, _places(shared, addresses.size, size, tensor.swizzle))


@functools.lru_cache(maxsize=1024)
def _places(shared: int, count: int, size: int, swizzle: int) -> Offsets:
    """Of pieces that lie side by side in shared memory but for the swizzle."""
    return swizzled(shared + np.arange(count) * size, SWIZZLES[swizzle])


def _piece(tensor: TensorMap, starts: Sequence[int]) -> int:
    """The most bytes that leave no piece half inside, and every piece aligned."""
    size = tensor.element.bytes
    marks = [tensor.address, tensor.shape[0] * size, tensor.box[0] * size, *tensor.strides, *(x * size for x in starts)]
    return math.gcd(_UNIT, *marks)


def _box(tensor: TensorMap, corner: Sequence[int], size: int) -> tuple[Offsets, NDArray[np.bool_]]:
    """Addresses of a box's pieces, the first dimension fastest, and whether they are inside."""
    steps = (tensor.element.bytes, *tensor.strides)
    start = tensor.address + sum(at * step for at, step in zip(corner, steps, strict=True))
    addresses = start + _offsets(tensor.box, steps, size)
    sides = zip(corner, tensor.box, tensor.shape, strict=True)
    if all(0 <= at <= limit - count for at, count, limit in sides):
        return addresses, np.ones(addresses.size, np.bool_)
    return addresses, _inside(tensor, corner, size)


@functools.lru_cache(maxsize=256)
def _offsets(box: tuple[int, ...], steps: tuple[int, ...], size: int) -> Offsets:
    """Of a box's pieces from its first element."""
    offsets: Offsets = np.arange(0, box[0] * steps[0], size)
    for count, step in zip(box[1:], steps[1:], strict=True):
        offsets = ((np.arange(count) * step)[:, None] + offsets).reshape(-1)
    return offsets


def _inside(tensor: TensorMap, corner: Sequence[int], size: int) -> NDArray[np.bool_]:
    width = tensor.element.bytes
    first: Offsets = corner[0] * width + np.arange(0, tensor.box[0] * width, size)
    inside: NDArray[np.bool_] = (first >= 0) & (first < tensor.shape[0] * width)
    for at, count, limit in zip(corner[1:], tensor.box[1:], tensor.shape[1:], strict=True):
        place: Offsets = at + np.arange(count)
        inside = (((place >= 0) & (place < limit))[:, None] & inside).reshape(-1)
    return inside


def check_map(tensor: TensorMap, rank: int) -> str | None:
    """Why a copy can't use a tensor map; None: it can."""
    if tensor.rank != rank:
        return f"a tensor map of {tensor.rank} dimensions where {rank} are needed"
    if tensor.interleave or any(each != 1 for each in tensor.element_strides):
        return "a tensor map that interleaves, or leaves out elements"
    if tensor.swizzle not in SWIZZLES or tensor.fill not in {0, 1}:
        return f"swizzle mode {tensor.swizzle}, fill mode {tensor.fill} of a tensor map"
    if tensor.swizzle and tensor.box[0] * tensor.element.bytes > SWIZZLES[tensor.swizzle]:
        return "a box whose rows are wider than their swizzle"
    if tensor.address % _UNIT or any(each % _UNIT or each >= _FURTHEST for each in tensor.strides):
        return "a tensor whose address or strides are no multiples of 16 bytes, or strides of 2^40 bytes or more"
    return _check_box(tensor)


def _check_box(tensor: TensorMap) -> str | None:
    """Why nothing can be computed of a box."""
    if max(tensor.box) > _SIDE:
        return f"a box of {' × '.join(map(str, tensor.box))} elements: {_SIDE} at most are possible in a dimension"
    if tensor.box[0] * tensor.element.bytes % _UNIT:
        return f"a box whose rows have {tensor.box[0] * tensor.element.bytes} bytes, no multiple of {_UNIT}"
    if tensor.box_bytes > _BOX:
        return f"a box of {tensor.box_bytes} bytes, where shared memory has {_BOX} at most"
    return None


_NAN = {1: 0x7F, 2: 0x7FFF, 4: 0x7FFF_FFFF, 8: 0x7FFF_FFFF_FFFF_FFFF}


def _filled(tensor: TensorMap, pieces: Pieces) -> Bytes:
    """Bytes ``[pieces, size]`` of what is outside: zeros, or NaN."""
    count, width = pieces.addresses.size, tensor.element.bytes
    if not tensor.fill:
        return np.zeros((count, pieces.size), np.uint8)
    one = np.frombuffer(_NAN[width].to_bytes(width, "little"), np.uint8)
    return np.tile(one, (count, pieces.size // width))


def _octets(words: Array, size: int) -> Bytes:
    return np.ascontiguousarray(words).view(np.uint8).reshape(words.shape[0], -1)[:, :size]


def _words(octets: Bytes) -> Array:
    """``[pieces, size]`` bytes as words, short ones zero-extended."""
    if octets.shape[1] >= 4:
        return np.ascontiguousarray(octets).view(np.uint32)
    wide = np.zeros((octets.shape[0], 4), np.uint8)
    wide[:, : octets.shape[1]] = octets
    return wide.view(np.uint32)


# -- into shared memory


def load(machine: Machine, site: Site, tensor: TensorMap, pieces: Pieces, thread: int, barrier: int) -> None:
    """Issue a copy into shared memory; ``barrier`` is the offset of its mbarrier in the chunk."""
    inside = np.flatnonzero(pieces.inside)
    if 0 < inside.size == pieces.inside.size:
        words = machine.load(site, Space.GLOBAL, pieces.addresses, pieces.size, np.full(inside.size, thread))
        octets = _octets(words, pieces.size)
    else:
        octets = _filled(tensor, pieces)
        if inside.size:
            own = np.full(inside.size, thread)
            words = machine.load(site, Space.GLOBAL, pieces.addresses[inside], pieces.size, own)
            octets[inside] = _octets(words, pieces.size)
    bring(machine, site, pieces.places, octets, thread, barrier)


def bring(machine: Machine, site: Site, at: Offsets, octets: Bytes, thread: int, barrier: int) -> None:
    """Let bytes arrive at addresses of the block's shared memory when a barrier is waited for."""
    size = octets.shape[1]
    _, places = machine.locate(site, Space.SHARED, at, size, np.full(at.size, thread))
    flights, barriers = machine.unit(Flights), machine.unit(MemoryBarriers)
    units = places >> 4
    if not flights.quiet(units, write=True):
        units = np.unique(units)
        flights.check_free(site, units, thread, write=True)
        flights.check_seen(site, units, "overwrites")
    words = _words(octets)
    if flights.followed:
        flights.judge(Access(site, places, size, machine, np.full(places.size, thread), write=True, words=words))
    number = flights.writes(Operation(site, "cp.async.bulk"), places, size)
    state = barriers.named(site, barrier, thread)

    def arrive() -> None:
        flights.wrote(number, places, size)
        flights.ended(number)
        machine.shared.store(places, size, words)
        flights.fenced(units)
        flights.settle(units)
        state.told.append(Told(flights.landed(site, units), None))
        barriers.transferred(state, octets.size, thread)

    barriers.owe(state, Delivery(arrive, brings=True))


# -- out of shared memory


@dataclass(frozen=True)
class _Store:
    """A copy out of shared memory that waits for its group."""

    thread: int
    group: int
    units: Offsets
    target: Target
    perform: Callable[[], None]
    site: Site


@dataclass(frozen=True)
class Target:
    """Pieces of global memory that a copy writes, or adds to."""

    addresses: Offsets
    size: int
    adds: bool

    @functools.cached_property
    def ends(self) -> tuple[int, int]:
        """The first byte, and that behind the last one."""
        return (int(self.addresses.min()), int(self.addresses.max()) + self.size) if self.addresses.size else (0, 0)

    def meets(self, other: Target) -> bool:
        """Whether both write a byte, and not both add to it."""
        if (self.adds and other.adds) or self.ends[0] >= other.ends[1] or other.ends[0] >= self.ends[1]:
            return False
        step = math.gcd(self.size, other.size)
        return bool(np.isin(self._parts(step), other._parts(step)).any())

    def _parts(self, step: int) -> Offsets:
        return (self.addresses[:, None] + np.arange(0, self.size, step)).reshape(-1)


class BulkGroups:
    """Copies out of shared memory, by thread and group."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.flights = machine.unit(Flights)
        self.committed: NDArray[np.int64] = np.zeros(machine.threads, np.int64)
        self.out: list[_Store] = []

    def issue(self, site: Site, places: Offsets, thread: int, target: Target, perform: Callable[[], None]) -> None:
        """Begin to read units of shared memory.

        Raises:
            Fault: a thread wrote them without a proxy fence, another operation writes them, or another copy that is
                out goes to the same place.
        """
        self._check_target(site, thread, target)
        units = np.unique(places >> 4)
        self.flights.check_seen(site, units)
        self.flights.check_free(site, units, thread, write=False)
        self.flights.judge(Access(site, units << 4, 16, self.machine, np.full(units.size, thread), write=False))
        self.flights.reads(Operation(site, "cp.async.bulk"), units)
        self.out.append(_Store(thread, int(self.committed[thread]), units, target, perform, site))

    def _check_target(self, site: Site, thread: int, target: Target) -> None:
        group = self.machine.group
        for store in self.out:
            if group[store.thread] == group[thread] and store.target.meets(target):
                line = store.site.source or f"line {store.site.line}"
                message = f"global memory written that cp.async.bulk of {line} still writes: nothing waits for it"
                raise Fault(Finding(Kind.MISSING_WAIT, message, site, self.machine.place(thread)))

    def commit(self) -> None:
        """Close the open group of the selected threads."""
        self.committed[self.machine.select] += 1

    def wait(self, but: int) -> None:
        """End all groups of the selected threads but the last."""
        if not self.out:
            return
        chosen = set(self.machine.selected.tolist())
        left = []
        for store in self.out:
            if store.thread in chosen and store.group < self.committed[store.thread] - but:
                self._end(store)
            else:
                left.append(store)
        self.out = left

    def _end(self, store: _Store) -> None:
        self.flights.has_read(store.units)
        own = np.full(store.units.size, store.thread)
        self.flights.judge(Access(store.site, store.units << 4, _UNIT, self.machine, own, write=False))
        store.perform()

    def finish(self) -> None:
        """At the end of the blocks: shared memory is gone before these have read it."""
        for store in self.out:
            message = "a block ends while a bulk copy may still read its shared memory: nothing waits for its group"
            self.machine.note(Finding(Kind.MISSING_WAIT, message, store.site, self.machine.place(store.thread)))
            self._end(store)
        self.out = []


def store(machine: Machine, site: Site, pieces: Pieces, thread: int, reduce: Callable[..., None] | None) -> None:
    """Issue a copy out of shared memory, or a reduction of what is there with it."""
    own = np.full(pieces.places.size, thread)
    _, places = machine.locate(site, Space.SHARED, pieces.places, pieces.size, own)
    inside = np.flatnonzero(pieces.inside)
    at, own = pieces.addresses[inside], own[inside]

    def perform() -> None:
        if not inside.size:
            return
        words = machine.shared.load(places[inside], pieces.size)
        if reduce is None:
            machine.store(site, Space.GLOBAL, at, pieces.size, words, own)
        else:
            reduce(machine, site, at, _octets(words, pieces.size), own)

    machine.unit(BulkGroups).issue(site, places, thread, Target(at, pieces.size, reduce is not None), perform)


# -- reductions


def _sum_of_bf16(old: Array, new: Array) -> Array:
    return f32_to_bf16(bf16_to_f32(old) + bf16_to_f32(new)).astype(np.uint16)


_KINDS = {
    Element.U8: "u1",
    Element.U16: "u2",
    Element.U32: "u4",
    Element.S32: "i4",
    Element.U64: "u8",
    Element.S64: "i8",
    Element.F16: "f2",
    Element.F32: "f4",
    Element.F32_FTZ: "f4",
    Element.F64: "f8",
    Element.BF16: "u2",
}


def reduction(name: str, element: Element) -> Callable[..., None] | None:
    """Combines elements with those in global memory; None: there is no such reduction of the type."""
    if element not in _KINDS:
        return None
    kind = np.dtype(_KINDS[element])
    function: Callable[[Array, Array], Array] = INTEGER[name]
    if element is Element.BF16:
        if name != "add":
            return None
        function = _sum_of_bf16

    def perform(machine: Machine, site: Site, at: Offsets, octets: Bytes, own: Array) -> None:
        count = octets.shape[1] // kind.itemsize
        places = (at[:, None] + np.arange(count) * kind.itemsize).reshape(-1)
        threads: Offsets = np.repeat(own, count)
        _, offsets = machine.locate(site, Space.GLOBAL, places, kind.itemsize, threads)
        if machine.observer:
            machine.observer(Access(site, offsets, kind.itemsize, machine, threads, write=True, atomic=True))
        values = machine.memory.elements(kind.str)
        index = offsets // kind.itemsize
        values[index] = function(values[index], np.ascontiguousarray(octets).view(kind).reshape(-1))

    return perform


# -- instructions


@dataclass(frozen=True)
class _Tensor:
    """The tensor operand: its map and coordinates."""

    address: ReadOffsets
    coordinates: list[Read]
    rank: int
    rows: bool  # gather4, scatter4: the last four coordinates are rows

    def given(self, machine: Machine) -> list[list[int]]:
        """Of each selected thread, the address of its map and its coordinates."""
        reads = (self.address, *self.coordinates)
        return np.array([machine.spread(read(machine)) for read in reads], np.int64).T.tolist()  # type: ignore[no-any-return]

    def of(self, machine: Machine, site: Site, given: list[int], thread: int) -> tuple[TensorMap, list[list[int]]]:
        """The map and the corners of boxes of a thread."""
        at, *values = given
        machine.unit(WrittenMaps).check(site, thread, at)
        try:
            tensor = TensorMap.decode(_raw(machine, site, at, thread))
        except ValueError as error:
            raise Fault(Finding(Kind.UNDEFINED, str(error), site, machine.place(thread))) from None
        problem = check_map(tensor, self.rank)
        if problem:
            raise Fault(Finding(Kind.UNDEFINED, problem, site, machine.place(thread)))
        corners = [[values[0], row] for row in values[1:]] if self.rows else [values]
        return tensor, corners


def _raw(machine: Machine, site: Site, at: int, thread: int) -> bytes:
    """The bytes of a map."""
    units: Offsets = at + np.arange(0, SIZE, _UNIT)
    raw: bytes = machine.load(site, Space.GLOBAL, units, _UNIT, np.full(units.size, thread)).tobytes()
    return raw


_DIMENSIONS = {"1d": 1, "2d": 2, "3d": 3, "4d": 4, "5d": 5}


def _tensor(decoder: Decoder, operand: Operand) -> _Tensor:
    rank = _DIMENSIONS[decoder.required(*_DIMENSIONS)]
    rows = decoder.has("tile::gather4", "tile::scatter4")
    decoder.ignore("tile")
    if not isinstance(operand, Address) or len(operand.more) != 1:
        raise decoder.unsupported("a tensor map with its coordinates is needed")
    coordinates = [decoder.read(item, Type.S32) for item in decoder.items(operand.more[0])]
    if len(coordinates) != (5 if rows else rank):
        raise decoder.unsupported(f"{len(coordinates)} coordinates of {rank} dimensions")
    return _Tensor(decoder.address(operand), coordinates, rank, rows)


def _hints(decoder: Decoder) -> int:
    """Modifiers that change nothing here; gives how many operands belong to them."""
    if decoder.has("multicast::cluster", "im2col", "cta_group::1", "cta_group::2"):
        raise decoder.unsupported("copies to several blocks of a cluster, or of windows")
    return int(decoder.has("L2::cache_hint"))


def _into_shared(decoder: Decoder) -> None:
    """A block is a cluster of its own, so its shared memory has two names."""
    decoder.required("shared::cta", "shared::cluster")
    decoder.required("mbarrier::complete_tx::bytes")
    decoder.ignore("global")


def _tensor_copy(decoder: Decoder) -> Step:
    """cp.async.bulk.tensor, by whether it has an mbarrier or a group."""
    hints = _hints(decoder)
    operands = decoder.operands[: len(decoder.operands) - hints]
    if "bulk_group" in decoder.instruction.modifiers:
        return _tensor_store(decoder, operands, None)
    if len(operands) != 3:
        raise decoder.unsupported(f"{len(operands)} operands")
    _into_shared(decoder)
    target, barrier = decoder.address(operands[0]), decoder.address(operands[2])
    tensor, site = _tensor(decoder, operands[1]), decoder.site

    def step(machine: Machine) -> None:
        own = machine.selected
        _, at_barrier = machine.locate(site, Space.SHARED, machine.spread(barrier(machine)), _BARRIER, own)
        shared, given = machine.spread(target(machine)), tensor.given(machine)
        for which, thread in enumerate(own.tolist()):
            known, corners = tensor.of(machine, site, given[which], thread)
            machine.check_aligned(site, shared[which : which + 1], _PLACE, own[which : which + 1])
            pieces = pieces_of(known, corners, int(shared[which]))
            load(machine, site, known, pieces, thread, int(at_barrier[which]))

    return step


def _tensor_store(decoder: Decoder, operands: Sequence[Operand], reduce: str | None) -> Step:
    decoder.required("bulk_group")
    decoder.required("shared::cta")
    decoder.ignore("global")
    if len(operands) != 2:
        raise decoder.unsupported(f"{len(operands)} operands")
    tensor, source, site = _tensor(decoder, operands[0]), decoder.address(operands[1]), decoder.site

    def step(machine: Machine) -> None:
        shared, given = machine.spread(source(machine)), tensor.given(machine)
        for which, thread in enumerate(machine.selected.tolist()):
            known, corners = tensor.of(machine, site, given[which], thread)
            combine = reduction(reduce, known.element) if reduce else None
            if reduce and combine is None:
                raise decoder.unsupported(f"reduction {reduce} of elements {known.element.name}")
            machine.check_aligned(site, shared[which : which + 1], _PLACE, np.array([thread]))
            store(machine, site, pieces_of(known, corners, int(shared[which])), thread, combine)

    return step


def _tensor_reduce(decoder: Decoder) -> Step:
    hints = _hints(decoder)
    name = decoder.required(*INTEGER)
    return _tensor_store(decoder, decoder.operands[: len(decoder.operands) - hints], name)


def _plain_copy(decoder: Decoder) -> Step:
    """cp.async.bulk of bytes that lie side by side."""
    hints = _hints(decoder)
    operands = decoder.operands[: len(decoder.operands) - hints]
    size = decoder.read(operands[2], Type.U32)
    target, source, site = decoder.address(operands[0]), decoder.address(operands[1]), decoder.site
    if decoder.has("bulk_group"):
        decoder.ignore("global", "shared::cta")
        return _plain_store(site, target, source, size)
    _into_shared(decoder)
    barrier = decoder.address(operands[3])

    def step(machine: Machine) -> None:
        own = machine.selected
        _, at_barrier = machine.locate(site, Space.SHARED, machine.spread(barrier(machine)), _BARRIER, own)
        for which, thread in enumerate(own.tolist()):
            to, at, count = (int(machine.spread(read(machine))[which]) for read in (target, source, size))
            every = _units(machine, site, count, thread)
            words = machine.load(site, Space.GLOBAL, at + every, _UNIT, np.full(every.size, thread))
            bring(machine, site, to + every, _octets(words, _UNIT), thread, int(at_barrier[which]))

    return step


def _units(machine: Machine, site: Site, count: int, thread: int) -> Offsets:
    """Where the units of a plain copy begin.

    Raises:
        Fault: it has no whole units, none, or more than shared memory can.
    """
    if count % _UNIT or not 0 < count <= _BOX:
        message = f"a bulk copy of {count} bytes: a multiple of {_UNIT} up to {_BOX} is needed"
        raise Fault(Finding(Kind.UNDEFINED, message, site, machine.place(thread)))
    return np.arange(0, count, _UNIT)


def _plain_store(site: Site, target: ReadOffsets, source: ReadOffsets, size: Read) -> Step:
    def step(machine: Machine) -> None:
        for which, thread in enumerate(machine.selected.tolist()):
            to, at, count = (int(machine.spread(read(machine))[which]) for read in (target, source, size))
            every = _units(machine, site, count, thread)
            store(machine, site, Pieces(_UNIT, to + every, np.ones(every.size, np.bool_), at + every), thread, None)

    return step


def _commit(decoder: Decoder) -> Step:
    decoder.need(0)
    return lambda machine: machine.unit(BulkGroups).commit()


def _wait(decoder: Decoder) -> Step:
    """With ``.read`` or without: a copy reads and writes at once here."""
    decoder.ignore("read")
    but = groups_left(decoder)
    return lambda machine: machine.unit(BulkGroups).wait(but)


_PREFETCH = nothing("L2", "global", "tensor", *(f"{rank}d" for rank in range(1, 6)), "tile", "L2::cache_hint")


TABLE: dict[str, tuple[Entry, ...]] = {
    "cp.async.bulk": (Entry(_plain_copy, f"{_SECTION}: cp.async.bulk", since=90),),
    "cp.async.bulk.tensor": (Entry(_tensor_copy, f"{_SECTION}: cp.async.bulk.tensor", since=90),),
    "cp.reduce.async.bulk.tensor": (Entry(_tensor_reduce, f"{_SECTION}: cp.reduce.async.bulk.tensor", since=90),),
    "cp.async.bulk.prefetch": (
        Entry(_PREFETCH, f"{_SECTION}: cp.async.bulk.prefetch, cp.async.bulk.prefetch.tensor", since=90, changes=False),
    ),
    "cp.async.bulk.commit_group": (Entry(_commit, f"{_SECTION}: cp.async.bulk.commit_group", since=90),),
    "cp.async.bulk.wait_group": (Entry(_wait, f"{_SECTION}: cp.async.bulk.wait_group", since=90),),
}

__all__ = ["TABLE", "BulkGroups", "Pieces", "check_map", "pieces_of", "reduction"]
