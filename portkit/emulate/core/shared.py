"""Memory that the waves of one workgroup share (AMD's LDS, NVIDIA's shared memory), for a chunk of workgroups.

Each workgroup has its own range of one array; functions take offsets into that array.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.bytestore import ByteStore, Offsets, Words, low_bits

_FOUR_TRUE = 0x0101_0101


class SharedMemory(ByteStore):
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
        super().__init__(words.view(np.uint8))
        self.written: NDArray[np.bool_] = np.zeros(self.bytes.size, np.bool_)

    def first_outside(self, at: Offsets, size: int) -> int | None:
        """Index of the first access, by a workgroup's own addresses, that leaves its range."""
        if not at.size or int(at.view(np.uint64).max()) + size <= self.size:  # a negative one is huge
            return None
        return int(np.argmax((at < 0) | (at + size > self.size)))

    def first_unwritten(self, at: Offsets, size: int) -> int | None:
        """Index of the first access that reads a byte nothing wrote."""
        known = self._known(at, size)
        return None if known.all() else int(np.argmin(known.reshape(at.size, -1).all(axis=1)))

    def _known(self, at: Offsets, size: int) -> NDArray[np.bool_]:
        """Whether bytes, or the words of accesses that consist of whole ones, are written."""
        if (size | low_bits(at)) & 3:
            return self.written[at[:, None] + np.arange(size)]
        flags, word = self.written.view(np.uint32), at >> 2
        place = word if size == 4 else word[:, None] + np.arange(size // 4)
        return np.asarray(flags[place] == _FOUR_TRUE)

    def store(self, at: Offsets, size: int, words: Words) -> None:
        """As ``ByteStore.store``; the bytes count as written."""
        self.mark(at, size)
        super().store(at, size, words)

    def mark(self, at: Offsets, size: int) -> None:
        """Count bytes as written."""
        if size < 4 or low_bits(at) & 3:
            self.written[at[:, None] + np.arange(size)] = True
            return
        flags = self.written.view(np.uint32)
        for word in range(size // 4):
            flags[(at >> 2) + word] = _FOUR_TRUE
