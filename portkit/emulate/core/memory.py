"""Global memory of an emulated device: allocations between guard zones, in one array of bytes.

Addresses that the kernel sees are ``BASE`` plus the offset into that array; the functions here take
offsets. Reads and writes outside an allocation are found by address alone, and the guard zones are so wide
that an index that runs off a buffer meets no other one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from portkit.emulate.core.bytestore import Bytes, Offsets, untouched_zeros
from portkit.emulate.core.written import Flags, FollowedStore, WrittenBytes

BASE = 0x7E00_0000_0000
"""Address of the first byte: within the 47 bits that user space has on both vendors' hosts."""

GUARD = 1 << 20
"""Bytes between two allocations."""

ALIGNMENT = 256
"""Of an allocation, as device allocators give at least."""


_SPARSE = 4
"""An arena is mostly gaps where it has more than so many bytes for each that is used."""


@dataclass(frozen=True)
class Allocation:
    """A range of memory that the kernel may touch."""

    name: str  # argument name
    start: int  # offset into the arena, bytes
    size: int  # bytes

    @property
    def address(self) -> int:
        """Where the kernel sees it."""
        return BASE + self.start

    @property
    def end(self) -> int:
        """Offset behind its last byte."""
        return self.start + self.size


@dataclass(frozen=True)
class Contents:
    """What an allocation begins with."""

    name: str
    data: Bytes  # one dimension; copied
    written: bool | Flags = True  # by byte; reading one that is not, and that the kernel has not written, is a finding


def lay_out(contents: list[Contents]) -> tuple[list[Allocation], int]:
    """Allocations in order, and the size of the arena in bytes."""
    placed: list[Allocation] = []
    offset = GUARD
    for item in contents:
        placed.append(Allocation(item.name, offset, item.data.size))
        offset += -(-(item.data.size + GUARD) // ALIGNMENT) * ALIGNMENT
    return placed, -(-(offset + GUARD) // 16) * 16


_KEPT, _KEPT_BYTES = 4, 1 << 26
"""The last arenas are kept for launches to come, but for huge ones: the first touch of a page costs more than what most
launches write to it."""

_arenas: list[Bytes] = []


def _arena(size: int, used: int) -> Bytes:
    """An arena, of which some bytes are used. What lies outside the allocations is never read: it may be anything."""
    for place, arena in enumerate(_arenas):
        if size <= arena.size:
            return _arenas.pop(place)
    return untouched_zeros(size) if _SPARSE * used < size else np.zeros(size, np.uint8)


class Memory(FollowedStore):
    """Allocations in one arena.

    Args:
        contents: what each allocation holds at the start, in the order of its offsets.

    Attributes:
        written: which bytes, or None where every allocation was written by the host.
    """

    def __init__(self, contents: list[Contents]) -> None:
        self.allocations, size = lay_out(contents)
        self._arena = _arena(size, sum(item.data.size for item in contents))
        super().__init__(self._arena[:size])
        self._starts = np.array([item.start for item in self.allocations], np.int64)
        self._ends = np.array([item.end for item in self.allocations], np.int64)
        self._last = (0, 0)  # start and size of the allocation that was met last
        self._where: Allocation | None = None  # that one
        self._met: Offsets | None = None  # accesses that lie in it
        self._fill(contents)

    def _fill(self, contents: list[Contents]) -> None:
        if not all(item.written is True for item in contents):
            self.written = WrittenBytes(self.bytes.size)
        for place, item in zip(self.allocations, contents, strict=True):
            self.bytes[place.start : place.end] = item.data
            if self.written is not None:
                self.written.flags[place.start : place.end] = item.written

    def release(self) -> None:
        """Give the arena to a launch to come; the memory is gone then, and whoever has a view of it sees that one's."""
        arena, self._arena = self._arena, np.zeros(0, np.uint8)
        super().__init__(self._arena)
        if 0 < arena.size <= _KEPT_BYTES:
            _arenas.append(arena)
            del _arenas[:-_KEPT]

    def view(self, index: int) -> Bytes:
        """Bytes of one allocation, not a copy."""
        place = self.allocations[index]
        return self.bytes[place.start : place.end]

    def contents(self) -> list[Bytes]:
        """Copies of all allocations."""
        return [self.view(index).copy() for index in range(len(self.allocations))]

    def restore(self, contents: Sequence[Bytes]) -> None:
        """Write all allocations as ``contents`` gave them."""
        for index, data in enumerate(contents):
            self.view(index)[:] = data

    def written_of(self, index: int) -> Flags | None:
        """Which bytes of one allocation are written, not a copy; None: all."""
        place = self.allocations[index]
        return None if self.written is None else self.written.flags[place.start : place.end]

    def first_outside(self, at: Offsets, size: int) -> int | None:
        """Index of the first access of ``size`` bytes that is not wholly in one allocation."""
        start, room = self._last
        furthest = np.maximum.reduce((at - start).view(np.uint64), axis=None)  # what lies before it is huge
        if int(furthest) + size <= room:
            self._met = at
            return None
        self._met = None
        low, high = int(at.min()), int(at.max())
        place = int(np.searchsorted(self._starts, low, "right")) - 1
        if place >= 0 and high + size <= self._ends[place]:
            where = self.allocations[place]
            self._last, self._where, self._met = (where.start, where.size), where, at
            return None
        places = np.searchsorted(self._starts, at, "right") - 1
        bad = (places < 0) | (at + size > self._ends[np.maximum(places, 0)])
        return int(np.argmax(bad)) if bad.any() else None

    def holding(self, at: Offsets) -> Allocation | None:
        """The allocation in which all accesses begin; None: there are several, or none."""
        if at is self._met:  # as mostly: nobody asked for the bounds of others since
            return self._where
        where = self.containing(int(at.min()))
        return where if where and int(at.max()) < where.end else None

    def nearest(self, at: int) -> Allocation | None:
        """The allocation whose bounds are nearest to an offset."""
        distance = np.where(at < self._starts, self._starts - at, at - self._ends)
        return self.allocations[int(np.argmin(distance))] if self.allocations else None

    def containing(self, at: int) -> Allocation | None:
        """The allocation that holds an offset."""
        place = int(np.searchsorted(self._starts, at, "right")) - 1
        return self.allocations[place] if place >= 0 and at < self._ends[place] else None
