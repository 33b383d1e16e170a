"""What a launch asks for, what it may cost, and what came of it: the same for every instruction set."""

from __future__ import annotations

import bisect
import itertools
import struct
from collections.abc import Callable, Sequence
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


class Buffers:
    """Pointer arguments in emulated memory.

    Arrays that overlap in host memory share one allocation, so that kernels that alias see it.

    Args:
        arguments: name and value of each argument in order.
        extra: contents that come first, such as a kernarg segment.
    """

    def __init__(self, arguments: Sequence[tuple[str, Value]], extra: Sequence[Contents] = ()) -> None:
        self._pointers = {n: _pointer(name, v) for n, (name, v) in enumerate(arguments) if _is_buffer(v)}
        found, self._extents = _placed(list(self._pointers.values()))
        self._places = dict(zip(self._pointers, found, strict=True))
        self._first = len(extra)
        self.memory = Memory([*extra, *map(self._contents, self._extents)])

    def address(self, argument: int) -> int:
        """Address that the kernel gets for a pointer argument."""
        pointer, place = self._pointers[argument], self._places[argument]
        start = self._extents[place].start
        return self.memory.allocations[self._first + place].address + _start(pointer.buffer) - start + pointer.offset

    def write_back(self) -> None:
        """Copy emulated memory, and which of it is written, into the caller's arrays."""
        for number, pointer in self._pointers.items():
            place = self._places[number]
            at = _start(pointer.buffer) - self._extents[place].start
            target = _bytes(pointer.buffer)
            target[:] = self.memory.view(self._first + place)[at : at + target.size]
            flags = self.memory.written_of(self._first + place)
            if isinstance(pointer.written, np.ndarray) and flags is not None:
                pointer.written[:] = flags[at : at + target.size]

    def _contents(self, extent: _Extent) -> Contents:
        alone = [pointer for pointer in self._pointers.values() if _extent(pointer) == extent]
        if alone and alone[0].written is True:
            return Contents(extent.name, _bytes(alone[0].buffer))
        data: Bytes = np.zeros(extent.end - extent.start, np.uint8)
        written: Flags = np.zeros(data.size, np.bool_)
        for pointer in self._pointers.values():
            at = _start(pointer.buffer) - extent.start
            source = _bytes(pointer.buffer)
            if at >= 0 and at + source.size <= data.size:
                data[at : at + source.size] = source
                written[at : at + source.size] |= pointer.written
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


def _start(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _extent(pointer: Pointer) -> _Extent:
    start = _start(pointer.buffer)
    return _Extent(start, start + pointer.buffer.nbytes, pointer.name or "buffer")


def places(pointers: Sequence[Pointer]) -> list[tuple[int, int]]:
    """Of each buffer: the allocation that it gets, and the byte of it where the buffer begins."""
    found, extents = _placed(pointers)
    starts = [_start(pointer.buffer) for pointer in pointers]
    return [(place, start - extents[place].start) for place, start in zip(found, starts, strict=True)]


def _placed(pointers: Sequence[Pointer]) -> tuple[list[int], list[_Extent]]:
    """Number of the extent of each buffer, and extents in the order of their first buffers.

    So where the host has its memory decides nothing.
    """
    joined = _merge([_extent(pointer) for pointer in pointers])
    starts = [extent.start for extent in joined]
    found = [bisect.bisect_right(starts, _start(pointer.buffer)) - 1 for pointer in pointers]
    order = list(dict.fromkeys(found))
    return [order.index(each) for each in found], [joined[each] for each in order]


def _merge(extents: list[_Extent]) -> list[_Extent]:
    """Extents that overlap, joined; the first one's name stays."""
    merged: list[_Extent] = []
    for item in sorted(extents, key=lambda extent: (extent.start, extent.end)):
        if merged and item.start < merged[-1].end:
            merged[-1].end = max(merged[-1].end, item.end)
        else:
            merged.append(item)
    return merged
