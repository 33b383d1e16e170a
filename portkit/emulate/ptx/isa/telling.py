"""What a thread that arrives somewhere tells those who wait there.

Source: PTX ISA, "Memory Consistency Model": causality order; mbarrier.arrive, whose default is ``.release``, and
mbarrier.try_wait, whose default is ``.acquire``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from portkit.emulate.core.bytestore import Offsets
from portkit.emulate.core.clocks import Knowledge
from portkit.emulate.ptx.isa.landings import Landings
from portkit.emulate.ptx.machine import LANES, Machine, Threads

_NOTHING: Offsets = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Told:
    """What who waits comes behind."""

    landed: Offsets  # units that bulk copies have brought
    moments: Knowledge | None  # of warps; None: nobody wants to know


def follows(machine: Machine) -> bool:
    """Whether there is anything to tell."""
    return machine.clocks is not None or machine.unit(Landings).open


def tell(machine: Machine, thread: int, *, later: bool = False) -> Told:
    """What a thread knows now; with ``later`` what its asynchronous operations have done, too."""
    landings = machine.unit(Landings)
    landed = landings.known(thread) if landings.open else _NOTHING
    return Told(landed, machine.clocks.tell(thread // LANES, later=later) if machine.clocks else None)


def tell_all(machine: Machine, threads: Threads) -> list[Told]:
    """The same of the warps of threads."""
    if not follows(machine):
        return []
    firsts = threads[np.unique(threads // LANES, return_index=True)[1]]
    return [tell(machine, thread) for thread in firsts.tolist()]


def learn(machine: Machine, told: Sequence[Told], threads: Threads) -> None:
    """Let threads come behind what was told."""
    landings, clocks = machine.unit(Landings), machine.clocks
    if landings.open:
        landings.tell([each.landed for each in told], threads)
    for each in told:
        if clocks and each.moments is not None:
            clocks.learn(np.unique(threads // LANES), each.moments)
