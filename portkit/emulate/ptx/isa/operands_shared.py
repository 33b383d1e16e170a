"""Matrix operands that the async proxy reads from shared memory, by their descriptors.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout", "Matrix Descriptor Format"; "Tcgen05 Shared
Memory Descriptor".
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from portkit.emulate.core.bytestore import Offsets
from portkit.emulate.core.findings import Fault, Finding, Kind, Site, Unsupported
from portkit.emulate.ptx.isa.flight import UNIT, Flights
from portkit.emulate.ptx.machine import Access, Array, Machine, Threads
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
        """Codes ``[..., rows, depth]`` of the units' words ``[..., units, 4]``."""
        if self.across:
            return self.kind.codes(words.reshape(*words.shape[:-2], self.depth, -1)).swapaxes(-1, -2)
        return self.kind.codes(words.reshape(*words.shape[:-2], self.rows, -1))


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


def read_tiles(
    machine: Machine, site: Site, tile: Tile, descriptors: Sequence[int], threads: Threads
) -> tuple[Array, Offsets]:
    """Codes ``[operands, rows, depth]``, and the units ``[operands, units]`` that they read, of the chunk's units.

    Args:
        machine: whose shared memory holds them.
        site: the instruction.
        tile: what each operand is.
        descriptors: one each.
        threads: that read them, one each.

    Raises:
        Fault: one leaves shared memory, or reads what the async proxy does not see or another operation writes.
        Unsupported: a descriptor.
    """
    units = free_units(machine, tile, descriptors, threads)
    if units is None:
        units = checked_units(machine, site, tile, descriptors, threads)
    judge_units(machine, site, tile, units, threads)
    return codes_of(machine, tile, units), units


def free_units(machine: Machine, tile: Tile, descriptors: Sequence[int], threads: Threads) -> Offsets | None:
    """As ``checked_units``; None where that has something to refuse, or may have."""
    layouts = _layouts(machine, tile, descriptors)
    if any(isinstance(each, str) for each in layouts.values()):
        return None
    at, flights = _addresses(tile, descriptors, layouts), machine.unit(Flights)
    if at.min() < 0 or at.max() > machine.shared.size - UNIT:
        return None
    units = (at + machine.shared_base[threads][:, None]) >> 4
    return units if flights.quiet(units) else None


def checked_units(machine: Machine, site: Site, tile: Tile, descriptors: Sequence[int], threads: Threads) -> Offsets:
    """The units ``[operands, units]`` that operands read. Arguments and errors as of ``read_tiles``."""
    layouts = _layouts(machine, tile, descriptors)
    for layout in layouts.values():
        if isinstance(layout, str):
            raise Unsupported(layout, site)
    at = _addresses(tile, descriptors, layouts)
    readers: Threads = np.repeat(threads, at.shape[1])
    if (first := machine.shared.first_outside(at.reshape(-1), UNIT)) is not None:
        byte, place = int(at.reshape(-1)[first]), machine.place(int(readers[first]))
        message = f"a matrix operand at {byte} of {machine.shared.size} bytes of shared memory"
        raise Fault(Finding(Kind.SHARED_OUT_OF_BOUNDS, message, site, place, byte, "shared"))
    units, flights = (at + machine.shared_base[threads][:, None]) >> 4, machine.unit(Flights)
    flights.check_seen(site, units.reshape(-1))
    flights.check_free(site, units.reshape(-1), readers, write=False)
    return units


def judge_units(machine: Machine, site: Site, tile: Tile, units: Offsets, threads: Threads) -> None:
    """Let those who follow accesses see that threads read operands' units, one row a thread."""
    flights = machine.unit(Flights)
    if not flights.followed:
        return
    readers: Threads = np.repeat(threads, units.shape[1])
    at = units.reshape(-1) << 4
    for start, size in tile.kind.pieces:
        flights.judge(Access(site, at + start, size, machine, readers, write=False))


def codes_of(machine: Machine, tile: Tile, units: Offsets) -> Array:
    """Codes ``[operands, rows, depth]`` that units ``[operands, units]`` hold now."""
    return tile.codes(machine.shared.load(units.reshape(-1) << 4, UNIT, aligned=True).reshape(*units.shape, 4))


def _layouts(machine: Machine, tile: Tile, descriptors: Sequence[int]) -> dict[int, Layout | str]:
    sm100 = machine.program.architecture.tensor_memory
    return {descriptor: layout_of(descriptor, tile.across, sm100) for descriptor in set(descriptors)}


def _addresses(tile: Tile, descriptors: Sequence[int], layouts: dict[int, Layout | str]) -> Offsets:
    """Of the units of each operand in its block's shared memory; one row for all where they are alike."""
    units = {each: tile.units(layout).reshape(-1) for each, layout in layouts.items() if isinstance(layout, Layout)}
    return np.stack([units[each] for each in descriptors] if len(units) > 1 else list(units.values()))
