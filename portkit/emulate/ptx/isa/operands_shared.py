"""Matrix operands that the async proxy reads from shared memory, by their descriptors.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout", "Matrix Descriptor Format"; "Tcgen05 Shared
Memory Descriptor".
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from portkit.emulate.core.bytestore import Offsets
from portkit.emulate.core.findings import Fault, Finding, Kind, Site, Unsupported
from portkit.emulate.ptx.isa.flight import UNIT, Flights
from portkit.emulate.ptx.machine import Access, Array, Machine, Threads
from portkit.emulate.ptx.matrix.formats import Format
from portkit.emulate.ptx.matrix.layouts import Layout


@dataclass(frozen=True, eq=False)
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
    def units(self, descriptor: int, sm100: bool) -> Offsets | str:
        """Addresses of units of 16 bytes, in the order in which ``codes`` takes them, or why there are none."""
        layout = layout_of(descriptor, self.across, sm100)
        if isinstance(layout, str):
            return layout
        if self.across:
            return layout.units_across(self.depth, self.rows * self.kind.bits // 8).reshape(-1)
        return layout.units(self.rows, self.depth_bytes).reshape(-1)

    def codes(self, words: Array) -> Array:
        """Codes ``[..., rows, depth]`` of the units' words ``[..., units, 4]``."""
        if self.across:
            return self.kind.codes(words.reshape(*words.shape[:-2], self.depth, -1)).swapaxes(-1, -2)
        return self.kind.codes(words.reshape(*words.shape[:-2], self.rows, -1))


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
    at = _addresses(machine, tile, descriptors)
    if isinstance(at, str) or machine.shared.first_outside(at, UNIT) is not None:
        return None
    units = (at + machine.shared_base[threads][:, None]) >> 4
    return units if machine.unit(Flights).quiet(units) else None


def checked_units(machine: Machine, site: Site, tile: Tile, descriptors: Sequence[int], threads: Threads) -> Offsets:
    """The units ``[operands, units]`` that operands read. Arguments and errors as of ``read_tiles``."""
    at = _addresses(machine, tile, descriptors)
    if isinstance(at, str):
        raise Unsupported(at, site)
    readers: Threads = np.repeat(threads, at.shape[1])
    if (first := machine.shared.first_outside(at.reshape(-1), UNIT)) is not None:
        byte, place = int(at.reshape(-1)[first]), machine.place(int(readers[first]))
        message = f"a matrix operand at {byte} of {machine.shared.size} bytes of shared memory"
        raise Fault(Finding(Kind.SHARED_OUT_OF_BOUNDS, message, site, place, byte, "shared"))
    units, flights = (at + machine.shared_base[threads][:, None]) >> 4, machine.unit(Flights)
    flights.check_seen(site, units.reshape(-1))
    flights.check_free(site, units.reshape(-1), readers, write=False)
    return units


def judge_units(
    machine: Machine, site: Site, tile: Tile, units: Offsets, threads: Threads, *, later: bool = False
) -> None:
    """Let those who follow accesses see that threads read operands' units, one row a thread; ``later``: some time."""
    flights = machine.unit(Flights)
    if not flights.followed:
        return
    readers: Threads = np.repeat(threads, units.shape[1])
    at = units.reshape(-1) << 4
    for start, size in tile.kind.pieces:
        access = Access(site, at + start, size, machine, readers, write=False)
        flights.judge_later(access) if later else flights.judge(access)


def codes_of(machine: Machine, tile: Tile, units: Offsets) -> Array:
    """Codes ``[operands, rows, depth]`` that units ``[operands, units]`` hold now."""
    return tile.codes(machine.shared.load(units.reshape(-1) << 4, UNIT, aligned=True).reshape(*units.shape, 4))


def _addresses(machine: Machine, tile: Tile, descriptors: Sequence[int]) -> Offsets | str:
    """Of the units of each operand in its block's shared memory, one row for all where they are alike; or why not."""
    sm100, first = machine.program.architecture.tensor_memory, descriptors[0]
    if descriptors.count(first) == len(descriptors):
        found = tile.units(first, sm100)
        return found if isinstance(found, str) else found[None]
    units = {each: tile.units(each, sm100) for each in dict.fromkeys(descriptors)}
    for found in units.values():
        if isinstance(found, str):
            return found
    return np.stack([each for each in map(units.__getitem__, descriptors) if not isinstance(each, str)])
