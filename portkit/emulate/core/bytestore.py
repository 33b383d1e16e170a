"""An array of bytes that many lanes read and write at once."""

from __future__ import annotations

import functools
import mmap
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Words: TypeAlias = NDArray[np.uint32]
Offsets: TypeAlias = NDArray[np.int64]


_LARGEST_LEARNT = 31 << 20
"""Below the size up to which glibc learns."""


def untouched_zeros(size: int) -> Bytes:
    """Zeros of which few are touched, as in an arena with gaps: NumPy's would take huge pages, each zeroed whole."""
    pages = mmap.mmap(-1, max(1, size))
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, np.uint8)[:size]


@functools.cache
def keep_heap() -> None:
    """Let the C library keep memory that arrays of a run give back, up to some 60 MB, once for the process.

    glibc maps large arrays one by one, and returns the top of its heap to the system as soon as a little of it is free;
    every array of some 100 kB then begins with page faults, which cost more than what is computed. It learns from the
    first large one that is freed that such come and go (malloc_trim and mallopt(3), "dynamic mmap threshold").
    """
    np.empty(_LARGEST_LEARNT, np.uint8)


def low_bits(at: Offsets) -> int:
    """The low four bits that any offset has: 0 where all are aligned to 16 bytes."""
    return int(np.bitwise_or.reduce(at)) & 15 if at.size else 0


class ByteStore:
    """Bytes with views of every width.

    Args:
        data: a multiple of 16 bytes.
    """

    def __init__(self, data: Bytes) -> None:
        self.bytes = data
        self._u16: NDArray[np.uint16] = data.view(np.uint16)
        self._u32: Words = data.view(np.uint32)
        self._u64: NDArray[np.uint64] = data.view(np.uint64)
        self._rows = self._u32.reshape(-1, 4)

    def load(self, at: Offsets, size: int, aligned: bool = False) -> Words:
        """Words of accesses of 1, 2, 4, 8, 12 or 16 bytes: ``[accesses, words]``, short ones zero-extended.

        Args:
            at: offset of each.
            size: bytes of each.
            aligned: whether all offsets are known to be multiples of the size.
        """
        if size == 1:
            return self.bytes[at].astype(np.uint32)[:, None]
        bits = 0 if aligned else low_bits(at)
        if bits & min(size - 1, 3):
            return self._load_bytes(at, size)
        if size == 2:
            return self._u16[at >> 1].astype(np.uint32)[:, None]
        return self._load_words(at, size // 4, bits)

    def _load_bytes(self, at: Offsets, size: int) -> Words:
        raw = self.bytes[at[:, None] + np.arange(size)]
        return raw.view(np.uint32) if size >= 4 else raw.view(np.uint16).astype(np.uint32)

    def _load_words(self, at: Offsets, words: int, bits: int) -> Words:
        """Gathers are the faster, the wider the element."""
        if words == 1:
            return self._u32[at >> 2][:, None]
        if words == 4 and not bits:
            return self._rows.take(at >> 4, axis=0)
        if words == 2 and not bits & 7:
            return self._u64[at >> 3].view(np.uint32).reshape(-1, 2)
        return self._u32[(at >> 2)[:, None] + np.arange(words)]

    def store(self, at: Offsets, size: int, words: Words, aligned: bool = False) -> None:
        """Write accesses from ``[accesses, words]``; the last one to a byte stays. Arguments as of ``load``."""
        bits = 0 if aligned else low_bits(at)
        if size == 1:
            self.bytes[at] = words[:, 0].astype(np.uint8)
        elif bits & min(size - 1, 3):
            self.bytes[at[:, None] + np.arange(size)] = np.ascontiguousarray(words).view(np.uint8)[:, :size]
        elif size == 2:
            self._u16[at >> 1] = words[:, 0].astype(np.uint16)
        elif size == 16 and not bits:
            self._rows[at >> 4] = words
        elif size == 8 and not bits & 7:
            self._u64[at >> 3] = np.ascontiguousarray(words).view(np.uint64)[:, 0]
        else:
            for word in range(size // 4):
                self._u32[(at >> 2) + word] = words[:, word]

    def elements(self, dtype: str) -> NDArray[np.generic]:
        """All bytes as values of a type, for atomics; a view."""
        return self.bytes.view(dtype)
