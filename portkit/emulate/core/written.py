"""Which bytes of a memory somebody wrote, for many accesses at once."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.bytestore import ByteStore, Offsets, Words, low_bits

Flags: TypeAlias = NDArray[np.bool_]

_FOUR_TRUE = 0x0101_0101
_EIGHT_TRUE = np.uint64(0x0101_0101_0101_0101)

_DENSE = 16
"""A range is looked at as a whole where it has at most this many bytes for each that is asked for."""


class WrittenBytes:
    """One flag a byte.

    Args:
        size: bytes of the memory, a multiple of 4.

    Attributes:
        flags: whether each byte was written.
    """

    def __init__(self, size: int) -> None:
        self.flags: Flags = np.zeros(size, np.bool_)
        self._fours: NDArray[np.uint32] = self.flags.view(np.uint32)
        self._eights: NDArray[np.uint64] = self.flags[: size // 8 * 8].view(np.uint64)
        self._whole = range(0)  # bytes that are all known to be written; nothing is ever unwritten

    def mark(self, at: Offsets, size: int) -> None:
        """Count the bytes of accesses as written."""
        bits = size | low_bits(at)
        if bits & 3:
            self.flags[at[:, None] + np.arange(size)] = True
            return
        if not bits & 7:
            for word in range(size // 8):
                self._eights[(at >> 3) + word] = _EIGHT_TRUE
            return
        for word in range(size // 4):
            self._fours[(at >> 2) + word] = _FOUR_TRUE

    def first_missing(self, at: Offsets, size: int) -> int | None:
        """Index of the first access that has a byte nothing wrote."""
        if self._all_written(range(int(at.min()), int(at.max()) + size), at.size * size):
            return None
        known = self._known(at, size)
        return None if known.all() else int(np.argmin(known.reshape(at.size, -1).all(axis=1)))

    def _all_written(self, asked: range, count: int) -> bool:
        """Whether a range that holds ``count`` accessed bytes is written, gaps included; False if that costs much."""
        known = self._whole
        if known.start <= asked.start and asked.stop <= known.stop:
            return True
        if len(asked) > _DENSE * count or not self.flags[asked.start : asked.stop].all():
            return False
        meets = asked.start <= known.stop and known.start <= asked.stop
        both = range(min(asked.start, known.start), max(asked.stop, known.stop))
        self._whole = both if meets and known else asked
        return True

    def _known(self, at: Offsets, size: int) -> Flags:
        """Whether bytes, or the words of accesses that consist of whole ones, are written."""
        if (size | low_bits(at)) & 3:
            return self.flags[at[:, None] + np.arange(size)]
        word = at >> 2
        place = word if size == 4 else word[:, None] + np.arange(size // 4)
        return np.asarray(self._fours[place] == _FOUR_TRUE)


class FollowedStore(ByteStore):
    """Bytes of which it may be followed which are written.

    Attributes:
        written: which bytes; None as long as nobody follows that, or where all are.
    """

    written: WrittenBytes | None = None

    def first_unwritten(self, at: Offsets, size: int) -> int | None:
        """Index of the first access that reads a byte nothing wrote."""
        return None if self.written is None else self.written.first_missing(at, size)

    def store(self, at: Offsets, size: int, words: Words, aligned: bool = False) -> None:
        """As ``ByteStore.store``; the bytes count as written."""
        self.mark(at, size)
        super().store(at, size, words, aligned)

    def mark(self, at: Offsets, size: int) -> None:
        """Count bytes as written."""
        if self.written is not None:
            self.written.mark(at, size)
