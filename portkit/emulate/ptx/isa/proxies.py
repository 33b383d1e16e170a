"""Fences between the proxies by which memory is seen.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions": membar, fence; "Memory Consistency Model".
"""

from __future__ import annotations

import numpy as np

from portkit.emulate.core.findings import Fault, Finding, Kind, Site
from portkit.emulate.ptx.decode import Decoder, Step
from portkit.emulate.ptx.isa.control import nothing
from portkit.emulate.ptx.isa.flight import Flights
from portkit.emulate.ptx.isa.registry import Entry
from portkit.emulate.ptx.machine import Machine
from portkit.emulate.ptx.program import Immediate
from portkit.emulate.ptx.types import types_of

_SECTION = "Parallel Synchronization and Communication Instructions: membar, fence"


class WrittenMaps:
    """Tensor maps that a block wrote and has not fenced."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._unseen: set[tuple[int, int]] = set()

    def wrote(self, group: int, address: int) -> None:
        """A block has written a map to global memory."""
        self._unseen.add((group, address))

    def acquired(self, group: int, address: int) -> None:
        """A block has fenced it."""
        self._unseen.discard((group, address))

    def check(self, site: Site, thread: int, address: int) -> None:
        """Refuse the use of a map before its fence.

        Raises:
            Fault: it is used.
        """
        if (int(self.machine.group[thread]), address) in self._unseen:
            message = "a tensor map is used that its block wrote, without fence.proxy.tensormap between"
            raise Fault(Finding(Kind.MISSING_WAIT, message, site, self.machine.place(thread)))


def _async(decoder: Decoder) -> Step:
    """fence.proxy.async: both ways, for the memory that it names or for all."""
    decoder.need(0)
    if decoder.has("global"):
        return lambda machine: None
    decoder.ignore("shared::cta", "shared::cluster")
    return lambda machine: machine.unit(Flights).fence()


def _tensormap(decoder: Decoder) -> Step:
    """fence.proxy.tensormap::generic.acquire of one map; releases are part of what writes it."""
    decoder.ignore("cta", "cluster", "gpu", "sys")
    if decoder.required("acquire", "release") == "release":
        decoder.need(0)
        return lambda machine: None
    decoder.need(2)
    size = decoder.operands[1]
    if not isinstance(size, Immediate) or int(size.text, 0) != 128:
        raise decoder.unsupported("a tensor map of another size than 128 bytes")
    address = decoder.address(decoder.operands[0])

    def step(machine: Machine) -> None:
        pairs = np.stack([machine.group[machine.select], machine.spread(address(machine))])
        for group, at in {(int(group), int(at)) for group, at in pairs.T}:
            machine.unit(WrittenMaps).acquired(group, at)

    return step


TABLE: dict[str, tuple[Entry, ...]] = {
    "fence.proxy.async": (Entry(_async, _SECTION, since=90),),
    "fence.proxy.tensormap::generic": (Entry(_tensormap, _SECTION, since=90),),
    "fence.proxy.alias": (Entry(nothing(), _SECTION, since=70, changes=False),),
    "fence.mbarrier_init": (Entry(nothing("release", "cluster"), _SECTION, since=90, changes=False),),
    "setmaxnreg": (
        Entry(
            nothing("inc", "dec", "sync", "aligned"),
            "Miscellaneous Instructions: setmaxnreg",
            types_of("u32"),
            since=90,
            changes=False,
        ),
    ),
}
