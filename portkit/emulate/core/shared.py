"""Memory that the waves of one workgroup share (AMD's LDS, NVIDIA's shared memory), for a chunk of workgroups.

Each workgroup has its own range of one array; functions take offsets into that array.
"""

from __future__ import annotations

import numpy as np

from portkit.emulate.core.bytestore import Offsets, Words
from portkit.emulate.core.written import FollowedStore, WrittenBytes


class SharedMemory(FollowedStore):
    """Shared memory of ``groups`` workgroups.

    Args:
        groups: workgroups that run at once.
        size: bytes a workgroup may touch.
        poison: word that memory holds before anything is written.

    Attributes:
        stride: bytes from one workgroup's range to the next.
        written: which bytes; None as long as nobody follows that.
    """

    def __init__(self, groups: int, size: int, poison: int) -> None:
        self.size = size
        self.stride = -(-size // 16) * 16 + 16
        words: Words = np.full(groups * self.stride // 4, poison, np.uint32)
        super().__init__(words.view(np.uint8))
        self.groups = groups

    def follow_writes(self) -> None:
        """From here on, note which bytes are written."""
        self.written = WrittenBytes(self.bytes.size)
        self.written.flags.reshape(self.groups, -1)[:, self.size :] = True  # between ranges, so that it makes no gap

    def first_outside(self, at: Offsets, size: int) -> int | None:
        """Index of the first access, by a workgroup's own addresses, that leaves its range."""
        furthest = np.maximum.reduce(at.view(np.uint64), axis=None, initial=0)  # a negative one is huge
        if not at.size or int(furthest) + size <= self.size:
            return None
        return int(np.argmax((at < 0) | (at + size > self.size)))
