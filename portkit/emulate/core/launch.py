"""What a launch asks for, what it may cost, and what came of it: the same for every instruction set."""

from __future__ import annotations

import bisect
import itertools
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.bytestore import Bytes
from portkit.emulate.core.findings import Finding, Unloadable
from portkit.emulate.core.memory import Contents, Memory
from portkit.emulate.core.schedule import Order
from portkit.emulate.core.written import Flags
from portkit.model import Outcome

POISON = 0x7FC0_DEAD
"""Word that registers and shared memory hold before anything is written: a NaN, and an index far outside."""

Grid: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True)
class Pointer:
    """A pointer argument that does not begin where its array does."""

    buffer: NDArray[Any]  # C-contiguous; written in place
    offset: int = 0  # bytes
    written: bool | Flags = (
        True  # bytes that somebody wrote; reading others is a finding. An array is brought up to date
    )
    name: str | None = None


@dataclass(frozen=True)
class Descriptor:
    """An argument of bytes that name a buffer, such as a tensor map."""

    pointer: Pointer
    encode: Callable[[int], bytes]  # from the buffer's address


Value: TypeAlias = NDArray[Any] | Pointer | Descriptor | int | float | bool | None
"""A kernel argument: a buffer, what describes one, or a number; None is a null pointer."""


@dataclass(frozen=True)
class Options:
    """How to emulate."""

    order: Order = Order.CONVERGED
    seed: int = 0  # of Order.SEEDED
    budget: int = 2_000_000_000  # lane-instructions of a launch
    poison: int = POISON  # word of what nothing wrote
    check: bool = True  # for races, reads of what nothing wrote, and missing waits
    lanes_at_once: int = 4096  # of whole workgroups that run in one chunk
    fenced_copies: bool = False  # by the compiler, from other proxies: that a fence is missing is a finding then


@dataclass(frozen=True)
class Counts:
    """What a launch did."""

    instructions: int = 0  # executed, each counted once for the group of waves that ran it together
    lane_instructions: int = 0  # lanes of all waves times instructions, inactive lanes too
    workgroups: int = 0  # that ran to their end
    seconds: float = 0.0  # of the host


@dataclass(frozen=True)
class Emulation:
    """Outcome of one launch. Buffers were written in place as far as the kernel came."""

    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    counts: Counts = field(default_factory=Counts)
    over_budget: bool = False  # ended, or was refused, by the budget of the options
    said: tuple[str, ...] = ()  # what the kernel printed, message by message


class Declared(Protocol):
    """An argument as the kernel declares it."""

    @property
    def name(self) -> str:
        """As the kernel's text has it."""

    @property
    def pointer(self) -> bool:
        """Whether it is an address."""

    @property
    def size(self) -> int:
        """Bytes."""


def one_each(values: Sequence[Value], declared: Sequence[Declared], word: str) -> list[Value]:
    """One value for every argument; trailing pointers that Triton adds for itself are null.

    Args:
        values: those that the caller gives, in order.
        declared: all that the kernel takes.
        word: what the instruction set calls them.

    Raises:
        Unloadable: there are more values than arguments, or one that is no pointer has none.
    """
    if len(values) > len(declared):
        raise Unloadable(f"{len(values)} values for {len(declared)} {word}")
    missing = declared[len(values) :]
    if any(not item.pointer for item in missing):
        raise Unloadable(f"no value for {missing[0].name}")
    return [*values, *[None] * len(missing)]


def number_bytes(declared: Declared, value: float | bool | None) -> bytes:
    """A number as an argument of some size holds it; None is 0.

    Raises:
        Unloadable: no float has that size.
    """
    if not isinstance(value, float):
        return (int(value or 0) & ((1 << 8 * declared.size) - 1)).to_bytes(declared.size, "little")
    form = {2: "<e", 4: "<f", 8: "<d"}.get(declared.size)
    if form is None:
        raise Unloadable(f"{declared.name} of {declared.size} bytes takes no float")
    return struct.pack(form, value)


def workgroup_ids(grid: Sequence[int]) -> list[Grid]:
    """All workgroups of a grid, x fastest."""
    x, y, z = (*grid, 1, 1)[:3]
    return [(i, j, k) for k, j, i in itertools.product(range(z), range(y), range(x))]


@dataclass
class _Extent:
    """Bytes of host memory that one allocation stands for: arrays that overlap share one."""

    start: int
    end: int
    name: str
    first: int  # number of the first pointer into it


@dataclass(frozen=True)
class _Placed:
    """A pointer, and where the host has its array."""

    pointer: Pointer
    bytes: Bytes  # of the whole array
    start: int
    extent: int  # number of the extent that holds it

    def within(self, extent: _Extent) -> slice:
        """Its bytes of the extent."""
        return slice(self.start - extent.start, self.start - extent.start + self.bytes.size)


class Buffers:
    """Pointer arguments in emulated memory.

    Arrays that overlap in host memory share one allocation, so that kernels that alias see it.

    Args:
        arguments: name and value of each argument in order.
        extra: contents that come first, such as a kernarg segment.
    """

    def __init__(self, arguments: Sequence[tuple[str, Value]], extra: Sequence[Contents] = ()) -> None:
        pointers = {n: _pointer(name, v) for n, (name, v) in enumerate(arguments) if _is_buffer(v)}
        placed, self._extents = _place(list(pointers.values()))
        self._placed = dict(zip(pointers, placed, strict=True))
        self._first = len(extra)
        self.memory = Memory([*extra, *map(self._contents, range(len(self._extents)))])

    def address(self, argument: int) -> int:
        """Address that the kernel gets for a pointer argument."""
        placed = self._placed[argument]
        within = placed.start - self._extents[placed.extent].start
        return self.memory.allocations[self._first + placed.extent].address + within + placed.pointer.offset

    def write_back(self) -> None:
        """Copy emulated memory, and which of it is written, into the caller's arrays."""
        for placed in self._placed.values():
            part, place = placed.within(self._extents[placed.extent]), self._first + placed.extent
            placed.bytes[:] = self.memory.view(place)[part]
            flags = self.memory.written_of(place)
            if isinstance(placed.pointer.written, np.ndarray) and flags is not None:
                placed.pointer.written[:] = flags[part]

    def _contents(self, number: int) -> Contents:
        extent = self._extents[number]
        own = [placed for placed in self._placed.values() if placed.extent == number]
        whole = [placed for placed in own if placed.bytes.size == extent.end - extent.start]
        if whole and whole[0].pointer.written is True:
            return Contents(extent.name, whole[0].bytes)
        data: Bytes = np.zeros(extent.end - extent.start, np.uint8)
        written: Flags = np.zeros(data.size, np.bool_)
        for placed in own:
            data[placed.within(extent)] = placed.bytes
            written[placed.within(extent)] |= placed.pointer.written
        return Contents(extent.name, data, True if written.all() else written)


def _is_buffer(value: Value) -> bool:
    return isinstance(value, np.ndarray | Pointer | Descriptor)


def _pointer(name: str, value: Value) -> Pointer:
    if isinstance(value, Descriptor):
        value = value.pointer
    if isinstance(value, Pointer):
        return Pointer(value.buffer, value.offset, value.written, value.name or name)
    assert isinstance(value, np.ndarray)
    return Pointer(value, name=name)


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    if not array.flags.c_contiguous:
        raise ValueError("buffers must be C-contiguous")
    return array.reshape(-1).view(np.uint8)


def places(pointers: Sequence[Pointer]) -> list[tuple[int, int]]:
    """Of each buffer: the allocation that it gets, and the byte of it where the buffer begins."""
    placed, extents = _place(pointers)
    return [(each.extent, each.start - extents[each.extent].start) for each in placed]


def _place(pointers: Sequence[Pointer]) -> tuple[list[_Placed], list[_Extent]]:
    """Where each buffer lies, and extents in the order of their first buffers.

    So where the host has its memory decides nothing.
    """
    arrays = [_bytes(pointer.buffer) for pointer in pointers]
    starts = [int(array.__array_interface__["data"][0]) for array in arrays]
    joined = _merge(
        _Extent(start, start + array.size, pointer.name or "buffer", number)
        for number, (pointer, array, start) in enumerate(zip(pointers, arrays, starts, strict=True))
    )
    extents = sorted(joined, key=lambda extent: extent.first)
    order = {id(extent): number for number, extent in enumerate(extents)}
    bounds = [extent.start for extent in joined]
    found = [order[id(joined[bisect.bisect_right(bounds, start) - 1])] for start in starts]
    return [_Placed(*each) for each in zip(pointers, arrays, starts, found, strict=True)], extents


def _merge(extents: Iterable[_Extent]) -> list[_Extent]:
    """Extents that overlap, joined; the first one's name stays."""
    merged: list[_Extent] = []
    for item in sorted(extents, key=lambda extent: (extent.start, extent.end)):
        last = merged[-1] if merged else None
        if last and item.start < last.end:
            last.end, last.first = max(last.end, item.end), min(last.first, item.first)
        else:
            merged.append(item)
    return merged
