"""Memory that the waves of one workgroup share (AMD's LDS, NVIDIA's shared memory), for a chunk of workgroups.

Each workgroup has its own range of one array; functions take offsets into that array, which
``SharedMemory.locate`` makes from a workgroup's own byte addresses.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.memory import Bytes, Offsets, Words


class SharedMemory:
    """Shared memory of ``groups`` workgroups.

    Args:
        groups: workgroups that run at once.
        size: bytes a workgroup may touch.
        poison: word that memory holds before anything is written.

    Attributes:
        stride: bytes from one workgroup's range to the next.
        written: one bool a byte.
    """

    def __init__(self, groups: int, size: int, poison: int) -> None:
        self.size = size
        self.stride = -(-size // 16) * 16 + 16
        words: Words = np.full(groups * self.stride // 4, poison, np.uint32)
        self.bytes: Bytes = words.view(np.uint8)
        self.written: NDArray[np.bool_] = np.zeros(self.bytes.size, np.bool_)
        self.words = words
        self._u16: NDArray[np.uint16] = self.bytes.view(np.uint16)
        self._u64: NDArray[np.uint64] = self.bytes.view(np.uint64)
        self._rows = words.reshape(-1, 4)

    def first_outside(self, at: Offsets, size: int) -> int | None:
        """Index of the first access, by a workgroup's own addresses, that leaves its range."""
        if not at.size or int(at.view(np.uint64).max()) + size <= self.size:  # a negative one is huge
            return None
        return int(np.argmax((at < 0) | (at + size > self.size)))

    def first_unwritten(self, at: Offsets, size: int) -> int | None:
        """Index of the first access that reads a byte nothing wrote."""
        known = self.written[at[:, None] + np.arange(size)].all(axis=1)
        return None if known.all() else int(np.argmin(known))

    def load(self, at: Offsets, size: int) -> Words:
        """Words of accesses of 1, 2, 4, 8, 12 or 16 bytes: ``[accesses, words]``, short ones zero-extended."""
        if size == 1:
            return self.bytes[at].astype(np.uint32)[:, None]
        low_bits = int(np.bitwise_or.reduce(at)) & 15 if at.size else 0
        if low_bits & (size - 1 if size < 4 else 3):
            return self._load_bytes(at, size)
        if size == 2:
            return self._u16[at >> 1].astype(np.uint32)[:, None]
        if size == 4:
            return self.words[at >> 2][:, None]
        return self._load_wide(at, size, low_bits)

    def _load_bytes(self, at: Offsets, size: int) -> Words:
        raw = self.bytes[at[:, None] + np.arange(size)]
        return raw.view(np.uint32) if size >= 4 else raw.view(np.uint16).astype(np.uint32)

    def _load_wide(self, at: Offsets, size: int, low_bits: int) -> Words:
        if size == 16 and not low_bits:
            return self._rows.take(at >> 4, axis=0)
        if size == 8 and not low_bits & 7:
            return self._u64[at >> 3].view(np.uint32).reshape(-1, 2)
        return self.words[(at >> 2)[:, None] + np.arange(size // 4)]

    def store(self, at: Offsets, size: int, words: Words) -> None:
        """Write accesses of 1, 2, 4, 8, 12 or 16 bytes from ``[accesses, words]``; the last one to a byte stays."""
        low_bits = int(np.bitwise_or.reduce(at)) & 15 if at.size else 0
        self._mark(at, size, low_bits)
        if size == 1:
            self.bytes[at] = words[:, 0].astype(np.uint8)
        elif low_bits & (1 if size == 2 else 3):
            self.bytes[at[:, None] + np.arange(size)] = np.ascontiguousarray(words).view(np.uint8)[:, :size]
        elif size == 2:
            self._u16[at >> 1] = words[:, 0].astype(np.uint16)
        else:
            for word in range(size // 4):
                self.words[(at >> 2) + word] = words[:, word]

    def _mark(self, at: Offsets, size: int, low_bits: int) -> None:
        if size >= 4 and not low_bits & 3:
            flags = self.written.view(np.uint32)
            for word in range(size // 4):
                flags[(at >> 2) + word] = 0x01010101
        else:
            self.written[at[:, None] + np.arange(size)] = True
