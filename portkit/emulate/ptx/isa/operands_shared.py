"""Matrix operands that the async proxy reads from shared memory, by their descriptors.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout", "Matrix Descriptor Format"; "Tcgen05 Shared
Memory Descriptor".
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from portkit.emulate.core.bytestore import Offsets
from portkit.emulate.core.findings import Fault, Finding, Kind, Site, Unsupported
from portkit.emulate.ptx.isa.flight import UNIT, Flights
from portkit.emulate.ptx.machine import Access, Array, Machine
from portkit.emulate.ptx.matrix.formats import Format
from portkit.emulate.ptx.matrix.layouts import Layout


@dataclass(frozen=True)
class Tile:
    """An operand of one instruction: its size, and which way its elements run."""

    kind: Format
    rows: int
    depth: int
    across: bool  # rows lie side by side ("MN-major")

    @property
    def depth_bytes(self) -> int:
        """Of one row."""
        return self.depth * self.kind.bits // 8

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - tiles are few and live as long as their programs
    def units(self, layout: Layout) -> Array:
        """Addresses of units of 16 bytes, in the order in which ``codes`` takes them."""
        if self.across:
            return layout.units_across(self.depth, self.rows * self.kind.bits // 8)
        return layout.units(self.rows, self.depth_bytes)

    def codes(self, words: Array) -> Array:
        """Codes ``[rows, depth]`` of the units' words."""
        if self.across:
            return self.kind.codes(words.reshape(self.depth, -1)).T
        return self.kind.codes(words.reshape(self.rows, -1))


Decode = Callable[[int], Layout | str]
"""A descriptor's layout, or why there is none."""


def _field(descriptor: int, first: int, bits: int = 14) -> int:
    return descriptor >> first & ((1 << bits) - 1)


@functools.lru_cache(maxsize=4096)
def layout_of(descriptor: int, across: bool, sm100: bool) -> Layout | str:
    """The layout that a descriptor of ``wgmma`` or of ``tcgen05`` says, or what is not modelled of it."""
    if _field(descriptor, 49, 3):
        return "a matrix descriptor with a base offset"
    if sm100:
        widths, mode = {0: 16, 2: 128, 4: 64, 6: 32}, _field(descriptor, 61, 3)
        if _field(descriptor, 52, 1):
            return "a matrix descriptor with an absolute leading dimension"
    else:
        widths, mode = {0: 16, 1: 128, 2: 64, 3: 32}, _field(descriptor, 62, 2)
    if mode not in widths:
        return f"swizzle mode {mode} of a matrix descriptor"
    start, leading, stride = (_field(descriptor, first) * UNIT for first in (0, 16, 32))
    return Layout(start, leading, stride, widths[mode], not across)


def read_tile(machine: Machine, site: Site, tile: Tile, descriptor: int, thread: int) -> tuple[Array, Offsets]:
    """Codes ``[rows, depth]`` of an operand, and the units that it reads, as offsets of the chunk's units.

    Raises:
        Fault: it leaves shared memory, or reads what the async proxy does not see or another operation writes.
        Unsupported: the descriptor.
    """
    layout = layout_of(descriptor, tile.across, machine.program.architecture.tensor_memory)
    if isinstance(layout, str):
        raise Unsupported(layout, site)
    at = tile.units(layout).reshape(-1)
    if (first := machine.shared.first_outside(at, UNIT)) is not None:
        message = f"a matrix operand at {at[first]} of {machine.shared.size} bytes of shared memory"
        raise Fault(Finding(Kind.SHARED_OUT_OF_BOUNDS, message, site, machine.place(thread), int(at[first]), "shared"))
    places = at + machine.shared_base[thread]
    flights, units = machine.unit(Flights), places >> 4
    flights.check_seen(site, units)
    flights.check_free(site, units, thread, write=False)
    for start, size in tile.kind.pieces:
        flights.judge(Access(site, places + start, size, machine, np.full(places.size, thread), write=False))
    return tile.codes(machine.shared.load(places, UNIT)), units
