"""Which warps know that a bulk copy has landed.

A copy's bytes are there for a warp that has itself seen its mbarrier's phase end, and for one that a barrier or another
mbarrier has put behind such a warp. Others may read what was there before, or write before it arrives.

Source: PTX ISA, "Asynchronous Operations"; "Memory Consistency Model"; mbarrier.test_wait, mbarrier.try_wait.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.bytestore import Offsets
from portkit.emulate.core.findings import Fault, Finding, Kind, Site
from portkit.emulate.ptx.machine import LANES, Access, Machine, Threads

_UNIT = 16
"""Bytes that share a state; boxes of bulk copies are made of whole ones."""


class Landings:
    """By unit of the chunk's shared memory, the warps of its block that do not know what has landed there.

    Args:
        machine: of the chunk.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._open: set[int] = set()  # blocks with a unit that somebody may not know
        self._warps = machine.per_group // LANES
        self._everyone = np.uint64((1 << self._warps) - 1)
        self._lacking: NDArray[np.uint64] = np.zeros(machine.shared.bytes.size // _UNIT, np.uint64)  # bit: warp
        self._line: NDArray[np.int32] = np.zeros(self._lacking.size, np.int32)  # of the copy
        self._sites: dict[int, Site] = {}
        machine.gathered = self.gathered

    @property
    def open(self) -> bool:
        """Whether there may be a unit that somebody does not know."""
        return bool(self._open)

    def _bits(self, threads: Threads) -> NDArray[np.uint64]:
        """Each thread's warp."""
        return np.uint64(1) << (threads // LANES % self._warps).astype(np.uint64)

    def _part(self, group: int) -> slice:
        stride = self.machine.shared.stride // _UNIT
        return slice(group * stride, (group + 1) * stride)

    def land(self, site: Site, units: Offsets) -> None:
        """A copy has brought units, and nobody knows it yet."""
        if not units.size:  # a box of no elements
            return
        self._lacking[units], self._line[units] = self._everyone, site.line
        self._sites[site.line] = site
        self._open.update((np.unique(units[[0, -1]]) // (self.machine.shared.stride // _UNIT)).tolist())

    def tell(self, told: Sequence[Offsets], threads: Threads) -> None:
        """Threads learn of units."""
        bits = np.bitwise_or.reduce(self._bits(threads))
        for units in told:
            self._lacking[units] &= ~bits

    def known(self, thread: int) -> Offsets:
        """Units of its block that a thread knows and others do not."""
        part = self._part(int(self.machine.group[thread]))
        lacking, bit = self._lacking[part], self._bits(np.array([thread]))[0]
        return np.flatnonzero((lacking != 0) & (lacking & bit == 0)) + part.start

    def gathered(self, groups: NDArray[np.int64], threads: Threads | None) -> None:
        """Threads of one block, or all of some, have met at a barrier: each knows what one of them knew."""
        for group in self._open.intersection(groups.tolist()) if self._open else ():
            self._met(group, threads)

    def _met(self, group: int, threads: Threads | None) -> None:
        lacking = self._lacking[self._part(group)]
        if threads is None:
            lacking[:] = 0
            self._open.remove(group)
        else:
            bits = np.bitwise_or.reduce(self._bits(threads))
            lacking[(lacking & bits) != bits] &= ~bits

    def unaware(self, units: Offsets) -> bool:
        """Whether some warp does not know one of them."""
        return bool(np.count_nonzero(self._lacking[units]))

    def observe(self, access: Access, units: Offsets) -> None:
        """Judge accesses to units, one each; bytes that are written are no longer those that have landed.

        Raises:
            Fault: a warp reads or writes what it does not know to have landed.
        """
        met = self._lacking[units] & self._bits(access.threads)
        if np.count_nonzero(met):
            self._refuse(access, units, int(np.argmax(met != 0)))
        if access.write:
            self._lacking[units] = 0

    def _refuse(self, access: Access, units: Offsets, which: int) -> None:
        site = self._sites[int(self._line[units[which]])]
        line, verb = site.source or f"line {site.line}", "written" if access.write else "read"
        message = (
            f"shared memory {verb} that cp.async.bulk of {line} has brought: "
            "this warp has not waited for its mbarrier, nor come behind one that has"
        )
        at = int(access.at[which])
        raise Fault(Finding(Kind.MISSING_WAIT, message, access.site, access.place(which), at, "shared"))
