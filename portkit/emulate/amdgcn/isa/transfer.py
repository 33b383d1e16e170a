"""Loads that transpose on their way out of LDS, and loads that go from global memory straight into it.

Sources: CDNA4 ISA "LDS Transpose Load" and "LDS & GDS Instructions" (DS_READ_B64_TR_B16 and its kin); CDNA3 ISA
"Memory Buffer Load to LDS" and CDNA4 ISA the same, which adds 96 and 128 bits a lane.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from portkit.emulate.amdgcn.architecture import CDNA, Generation
from portkit.emulate.amdgcn.decode import Decoder, Step
from portkit.emulate.amdgcn.isa import memory, sections
from portkit.emulate.amdgcn.isa.lds import shared_address
from portkit.emulate.amdgcn.isa.memory import CACHE_HINTS, Addresses, buffer_addresses, global_addresses
from portkit.emulate.amdgcn.isa.registry import Build, Entry
from portkit.emulate.amdgcn.machine import Array, Machine
from portkit.emulate.amdgcn.operands import M0, File, Register
from portkit.emulate.core.bytestore import Offsets, Words
from portkit.emulate.core.findings import Unsupported
from portkit.emulate.core.smallfloats import pack, unpack

_CDNA4 = frozenset({Generation.CDNA4})
_FROM_CDNA3 = frozenset({Generation.CDNA3, Generation.CDNA4})

_GROUP = 16
"""Lanes that transpose among themselves, and elements of a row of theirs."""


# -- transposed


def transposed(words: Words, bits: int) -> Words:
    """Columns of a matrix whose rows lie one behind the other in the lanes of a group.

    Args:
        words: ``[waves, lanes, words]``; the words of 16 lanes hold rows of 16 elements.
        bits: of an element.

    Returns:
        As ``words``: lane n of a group has element n of every row.
    """
    waves, lanes, count = words.shape
    rows = words.reshape(waves, lanes // _GROUP, _GROUP * count)
    whole = {16: np.uint16, 8: np.uint8}.get(bits)
    elements = rows.view(whole) if whole else unpack(rows, bits)
    columns = elements.reshape(waves, lanes // _GROUP, -1, _GROUP).swapaxes(2, 3)
    joined = np.ascontiguousarray(columns).view(np.uint32) if whole else pack(columns, bits)
    return joined.reshape(waves, lanes, count)


def _read_transposed(size: int, bits: int) -> Build:
    def build(decoder: Decoder) -> Step:
        decoder.need(2)
        first = decoder.vector_indices(decoder.operands[0], size // 4, write=True)
        address, offset = shared_address(decoder, decoder.operands[1]), decoder.number("offset")
        site = decoder.instruction.site

        def step(machine: Machine) -> None:
            if not machine.full:
                raise Unsupported("transposing load with lanes disabled", site)
            words = machine.load_shared(site, address(machine, offset), size, machine.active)
            columns = transposed(words.reshape(machine.count, machine.lanes, -1), bits)
            for number in range(size // 4):
                machine.write_vector(first + number, columns[..., number])

        return step

    return build


# -- global memory to LDS

_AddressesOf: TypeAlias = Callable[[Decoder, int], Addresses]


def _of_buffer(decoder: Decoder, size: int) -> Addresses:
    decoder.need(3)
    address, resource, base = decoder.operands
    return buffer_addresses(decoder, address, resource, base, size)


def _of_global(decoder: Decoder, size: int) -> Addresses:
    decoder.need(2)
    address, base = decoder.operands
    return global_addresses(decoder, address, base)


def _direct(addresses_of: _AddressesOf, size: int) -> Build:
    """Each lane's data lies behind that of the lane before, from M0 plus the instruction's offset on.

    Lanes that EXEC disables leave their place alone; lanes beyond num_records write zeros.
    """

    def build(decoder: Decoder) -> Step:
        decoder.ignore(*CACHE_HINTS)
        _need_width(decoder, size)
        addresses, place = addresses_of(decoder, size), _destination(decoder, size)
        site = decoder.instruction.site

        def step(machine: Machine) -> None:
            at, live = addresses(machine)
            words: Words = np.zeros((int(machine.active.sum()), size // 4), np.uint32)
            if live.any():
                words[live[machine.active]] = machine.load(site, machine.lanes_of(at, live), size, live)
            machine.store_shared(site, place(machine), size, words, machine.active)

        return step

    return build


def _need_width(decoder: Decoder, size: int) -> None:
    if size > 4 and decoder.architecture.generation is not Generation.CDNA4:
        raise decoder.unsupported(f"load of {size} bytes a lane that goes to LDS")


def _destination(decoder: Decoder, size: int) -> Callable[[Machine], Offsets]:
    """Byte addresses in LDS: ``[selected waves, lanes]``."""
    decoder.reading(Register(File.SCALAR, M0))
    lane: Offsets = np.arange(decoder.lanes) * size + decoder.number("offset")

    def place(machine: Machine) -> Offsets:
        start: Array = machine.read_scalar(M0).astype(np.int64) & ~3
        return start + lane

    return place


def _either(in_registers: Build, in_shared: Build) -> Build:
    """By the modifier ``lds``."""
    return lambda decoder: in_shared(decoder) if decoder.has("lds") else in_registers(decoder)


_WIDTHS = {"dword": 4, "dwordx3": 12, "dwordx4": 16}

TABLE: dict[str, Entry] = {
    "ds_read_b64_tr_b16": Entry(_read_transposed(8, 16), sections.CDNA4_TRANSPOSED, _CDNA4),
    "ds_read_b64_tr_b8": Entry(_read_transposed(8, 8), sections.CDNA4_TRANSPOSED, _CDNA4),
    "ds_read_b64_tr_b4": Entry(_read_transposed(8, 4), sections.CDNA4_TRANSPOSED, _CDNA4),
    "ds_read_b96_tr_b6": Entry(_read_transposed(12, 6), sections.CDNA4_TRANSPOSED, _CDNA4),
    "global_load_lds_dword": Entry(_direct(_of_global, 4), sections.LOAD_TO_LDS, _FROM_CDNA3),
    "global_load_lds_dwordx3": Entry(_direct(_of_global, 12), sections.LOAD_TO_LDS, _CDNA4),
    "global_load_lds_dwordx4": Entry(_direct(_of_global, 16), sections.LOAD_TO_LDS, _CDNA4),
}
"""Mnemonic → entry."""

BUFFER_LOADS: dict[str, Entry] = {
    name: Entry(_either(memory.TABLE[name].build, _direct(_of_buffer, size)), memory.TABLE[name].section, CDNA)
    for name, size in ((f"buffer_load_{width}", size) for width, size in _WIDTHS.items())
}
"""Entries that stand for memory's: buffer loads that go to registers, or with ``lds`` to LDS."""
