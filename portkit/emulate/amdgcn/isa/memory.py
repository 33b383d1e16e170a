"""Loads and stores: scalar, global, flat, buffer and scratch.

Sources: CDNA3 ISA "SMEM", "MUBUF" and "FLAT, Scratch and Global Instructions"; RDNA3 ISA the same; buffer
addressing and range checking from "Memory Buffer Instructions" (CDNA3 ISA, chapter 9).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from portkit.emulate.amdgcn.architecture import CDNA, RDNA, Generation
from portkit.emulate.amdgcn.decode import Decoder, Step
from portkit.emulate.amdgcn.isa import sections
from portkit.emulate.amdgcn.isa.registry import Build, Entry
from portkit.emulate.amdgcn.machine import Array, Machine, Mask
from portkit.emulate.amdgcn.operands import File, Type, is_constant
from portkit.emulate.core.bytestore import Offsets, Words
from portkit.emulate.core.findings import Finding, Kind, Site, Unsupported
from portkit.emulate.core.integers import sign_extend
from portkit.emulate.core.memory import BASE

CACHE_HINTS = ("sc0", "sc1", "nt", "glc", "slc", "dlc", "scope", "th", "nv")
"""Modifiers of loads and stores that say where data is cached: no result depends on them in this memory."""

MASKED = np.uint32(0x8000_0000)
"""Offset that Triton gives to a masked lane of a buffer access, so that it is beyond num_records."""

Addresses: TypeAlias = Callable[[Machine], tuple[Offsets, Mask]]
"""Offsets into the arena ``[selected waves, lanes]``, and the lanes that access memory."""


@dataclass(frozen=True)
class Format:
    """How a datum lies in memory and in registers."""

    bytes: int
    signed: bool = False  # sign-extended to 32 bits
    half: int | None = None  # 16-bit register half that is written, the other one kept

    @property
    def words(self) -> int:
        """Registers."""
        return max(1, self.bytes // 4)


LOADS = {
    "ubyte": Format(1),
    "u8": Format(1),
    "sbyte": Format(1, signed=True),
    "i8": Format(1, signed=True),
    "ushort": Format(2),
    "u16": Format(2),
    "sshort": Format(2, signed=True),
    "i16": Format(2, signed=True),
    "short_d16": Format(2, half=0),
    "d16_b16": Format(2, half=0),
    "short_d16_hi": Format(2, half=1),
    "d16_hi_b16": Format(2, half=1),
    "ubyte_d16": Format(1, half=0),
    "d16_u8": Format(1, half=0),
    "ubyte_d16_hi": Format(1, half=1),
    "d16_hi_u8": Format(1, half=1),
    "sbyte_d16": Format(1, signed=True, half=0),
    "d16_i8": Format(1, signed=True, half=0),
    "sbyte_d16_hi": Format(1, signed=True, half=1),
    "d16_hi_i8": Format(1, signed=True, half=1),
    "dword": Format(4),
    "b32": Format(4),
    "dwordx2": Format(8),
    "b64": Format(8),
    "dwordx3": Format(12),
    "b96": Format(12),
    "dwordx4": Format(16),
    "b128": Format(16),
}
"""Suffix of a load → format."""

STORES = {
    "byte": Format(1),
    "b8": Format(1),
    "short": Format(2),
    "b16": Format(2),
    "byte_d16_hi": Format(1, half=1),
    "d16_hi_b8": Format(1, half=1),
    "short_d16_hi": Format(2, half=1),
    "d16_hi_b16": Format(2, half=1),
    **{name: LOADS[name] for name in ("dword", "b32", "dwordx2", "b64", "dwordx3", "b96", "dwordx4", "b128")},
}
"""Suffix of a store → format."""


def put_loaded(machine: Machine, index: int, layout: Format, words: Words, live: Mask) -> None:
    """Write loaded words ``[live lanes, words]`` to registers from ``index`` on."""
    if layout.bytes >= 4:
        for word in range(layout.words):
            machine.put_lanes(index + word, words[:, word], live)
        return
    value = sign_extend(words[:, 0], 8 * layout.bytes) if layout.signed else words[:, 0]
    if layout.half is not None:
        old = machine.lanes_of(machine.read_vector(index), live)
        value = _into_half(old, value, layout.half)
    machine.put_lanes(index, value, live)


def _into_half(old: Array, value: Array, half: int) -> Array:
    if half:
        return np.asarray((old & np.uint32(0xFFFF)) | (value << np.uint32(16)))
    return np.asarray((old & np.uint32(0xFFFF_0000)) | (value & np.uint32(0xFFFF)))


def stored_words(machine: Machine, index: int, layout: Format, live: Mask) -> Words:
    """Words to store of the live lanes: ``[live lanes, words]``."""
    columns = [machine.lanes_of(machine.read_vector(index + n), live) for n in range(layout.words)]
    words = np.stack(columns, axis=1) if layout.words > 1 else columns[0][:, None]
    return words >> np.uint32(16) if layout.half else words


def loaded_register(decoder: Decoder, text: str, layout: Format) -> int:
    """First register that a load writes."""
    register = decoder.vector_register(text)
    if register.half is not None:
        raise decoder.unsupported(f"operand {text}")
    if layout.half is not None:
        decoder.reading(register)
    return decoder.vector_indices(text, layout.words, write=True)


def stored_register(decoder: Decoder, text: str, layout: Format) -> tuple[int, Format]:
    """First register that a store reads, and the format with the half that the operand names."""
    register = decoder.vector_register(text)
    if register.half is not None and layout.bytes < 4:
        decoder.reading(register)
        return register.index, Format(layout.bytes, half=register.half or None)
    return decoder.vector_indices(text, layout.words, write=False), layout


# -- global and flat


def global_addresses(decoder: Decoder, address: str, base: str) -> Addresses:
    """A 64-bit address a lane, or a scalar base with a 32-bit offset a lane."""
    offset = decoder.number("offset") - BASE
    if base == "off":
        wide = decoder.vector(address, Type.I64)
        return lambda machine: (machine.spread(wide(machine)) + offset, machine.active)
    start, narrow = decoder.scalar(base, Type.I64), decoder.vector(address, Type.U32)

    def addresses(machine: Machine) -> tuple[Offsets, Mask]:
        lanes = machine.spread(narrow(machine)).astype(np.int64)
        return lanes + (np.asarray(start(machine)) + offset), machine.active

    return addresses


def flat_addresses(decoder: Decoder, address: str) -> Addresses:
    """A 64-bit address a lane, which must lie in global memory: the apertures are not mapped."""
    wide, offset = decoder.vector(address, Type.I64), decoder.number("offset") - BASE
    return lambda machine: (machine.spread(wide(machine)) + offset, machine.active)


# -- buffers


def buffer_addresses(decoder: Decoder, address: str, resource: str, base: str, size: int) -> Addresses:
    """A raw buffer (stride 0): lanes whose offset is beyond num_records do not access memory.

    A lane beyond num_records that does not carry Triton's mask offset is noted: the device drops it.
    """
    if decoder.has("idxen"):
        raise decoder.unsupported("buffer index")
    register = decoder.register(resource)
    if register.file is not File.SCALAR or register.count != RESOURCE:
        raise decoder.unsupported(f"operand {resource} where a buffer resource of {RESOURCE} scalars is needed")
    decoder.reading(register)
    first, constant, site = register.index, decoder.number("offset"), decoder.instruction.site
    lane_offset = decoder.vector(address, Type.U32) if decoder.has("offen") else None
    scalar = decoder.scalar(base, Type.U32)

    def addresses(machine: Machine) -> tuple[Offsets, Mask]:
        start, records = _resource(machine, first)
        own = lane_offset(machine) if lane_offset else np.uint32(0)
        reach = machine.spread(np.asarray(own).astype(np.int64) + constant)
        inside = reach + size <= records
        start = start + np.asarray(scalar(machine)).astype(np.int64) - BASE
        if inside.all():
            return reach + start, machine.active
        _note_dropped(machine, decoder, np.asarray(own), inside, reach, records, start)
        return reach + start, machine.active & inside

    def checked(machine: Machine) -> tuple[Offsets, Mask]:
        try:
            return addresses(machine)
        except Unsupported as error:
            raise Unsupported(error.cause, site) from None

    return checked


RESOURCE = 4
"""Scalar registers of a buffer resource."""

_STRIDE_OR_SWIZZLE = np.uint32(0xBFFF_0000)
"""Of the second word of a buffer resource."""


def _resource(machine: Machine, first: int) -> tuple[Array, Array]:
    """Base address and num_records of a buffer resource, ``[selected waves, 1]``."""
    low, high, records = (machine.read_scalar(first + n) for n in range(3))
    if (high & _STRIDE_OR_SWIZZLE).any():
        raise Unsupported("buffer with a stride or swizzling")
    start = low.astype(np.int64) | ((high & np.uint32(0xFFFF)).astype(np.int64) << 32)
    return start, records.astype(np.int64)


def _note_dropped(
    machine: Machine, decoder: Decoder, own: Array, inside: Mask, reach: Array, records: Array, start: Array
) -> None:
    dropped = ~inside & machine.active & (machine.spread(own) != MASKED)
    if not dropped.any():
        return
    wave, lane = (int(item[0]) for item in np.nonzero(dropped))
    limit = int(np.broadcast_to(records, reach.shape)[wave, lane])
    message = f"offset {int(reach[wave, lane])} of a lane that is not masked is beyond num_records {limit}"
    flat = int(np.flatnonzero(machine.active).searchsorted(wave * machine.lanes + lane))
    place = machine.place(flat, machine.active)
    site, count = decoder.instruction.site, int(np.count_nonzero(dropped))
    buffer = machine.memory.nearest(int(np.broadcast_to(start, reach.shape)[wave, lane]))
    name = buffer.name if buffer else None
    machine.note(Finding(Kind.BEYOND_RECORDS, message, site, place, int(reach[wave, lane]), name, count))


# -- vector loads and stores


def _vector_load(addresses_of: Callable[[Decoder, Format], Addresses], layout: Format) -> Build:
    def build(decoder: Decoder) -> Step:
        _no_direct_to_lds(decoder)
        decoder.ignore(*CACHE_HINTS)
        index = loaded_register(decoder, decoder.operands[0], layout)
        addresses, site = addresses_of(decoder, layout), decoder.instruction.site

        def step(machine: Machine) -> None:
            at, live = addresses(machine)
            words: Words = np.zeros((0, layout.words), np.uint32)
            if machine.some(live):
                words = machine.load(site, machine.lanes_of(at, live), layout.bytes, live)
            if live is machine.active or np.count_nonzero(live) == np.count_nonzero(machine.active):
                put_loaded(machine, index, layout, words, live)
            else:
                put_loaded(machine, index, layout, _with_zeros(words, live, machine.active), machine.active)

        return step

    return build


def _with_zeros(words: Words, live: Mask, active: Mask) -> Words:
    """Words of all active lanes: those that did not access memory read 0."""
    filled: Words = np.zeros((np.count_nonzero(active), words.shape[1]), np.uint32)
    filled[live[active]] = words
    return filled


def _vector_store(addresses_of: Callable[[Decoder, Format], Addresses], layout: Format, data: int) -> Build:
    def build(decoder: Decoder) -> Step:
        _no_direct_to_lds(decoder)
        decoder.ignore(*CACHE_HINTS)
        index, stored = stored_register(decoder, decoder.operands[data], layout)
        addresses, site = addresses_of(decoder, layout), decoder.instruction.site

        def step(machine: Machine) -> None:
            at, live = addresses(machine)
            if machine.some(live):
                words = stored_words(machine, index, stored, live)
                machine.store(site, machine.lanes_of(at, live), stored.bytes, words, live)

        return step

    return build


def _no_direct_to_lds(decoder: Decoder) -> None:
    if "lds" in decoder.instruction.modifiers:
        raise decoder.unsupported("load that goes to LDS")


def _of_global(address: int, base: int) -> Callable[[Decoder, Format], Addresses]:
    def addresses(decoder: Decoder, layout: Format) -> Addresses:
        decoder.need(3)
        return global_addresses(decoder, decoder.operands[address], decoder.operands[base])

    return addresses


def _of_flat(address: int) -> Callable[[Decoder, Format], Addresses]:
    def addresses(decoder: Decoder, layout: Format) -> Addresses:
        decoder.need(2)
        return flat_addresses(decoder, decoder.operands[address])

    return addresses


def _of_buffer(decoder: Decoder, layout: Format) -> Addresses:
    decoder.need(4)
    _, address, resource, base = decoder.operands
    return buffer_addresses(decoder, address, resource, base, layout.bytes)


# -- scratch


def _scratch_offset(decoder: Decoder, address: str, base: str) -> Callable[[Machine], Array]:
    """Byte offset into a lane's scratch: ``[selected waves, lanes]``."""
    constant = decoder.number("offset")
    lane = decoder.vector(address, Type.U32) if address != "off" else None
    wave = decoder.scalar(base, Type.U32) if base != "off" else None

    def offset(machine: Machine) -> Array:
        total: Array = np.full((1, 1), constant, np.int64)
        for part in (lane, wave):
            if part is not None:
                total = total + np.asarray(part(machine)).astype(np.int64)
        return machine.spread(total)

    return offset


def _scratch_load(layout: Format) -> Build:
    def build(decoder: Decoder) -> Step:
        decoder.need(3)
        decoder.ignore(*CACHE_HINTS)
        index = loaded_register(decoder, decoder.operands[0], layout)
        offset, site = _scratch_offset(decoder, *decoder.operands[1:3]), decoder.instruction.site

        def step(machine: Machine) -> None:
            live = machine.active
            words = machine.load_scratch(site, machine.lanes_of(offset(machine), live), layout.bytes, live)
            put_loaded(machine, index, layout, words, live)

        return step

    return build


def _scratch_store(layout: Format) -> Build:
    def build(decoder: Decoder) -> Step:
        decoder.need(3)
        decoder.ignore(*CACHE_HINTS)
        index, stored = stored_register(decoder, decoder.operands[1], layout)
        offset, site = _scratch_offset(decoder, decoder.operands[0], decoder.operands[2]), decoder.instruction.site

        def step(machine: Machine) -> None:
            live = machine.active
            words = stored_words(machine, index, stored, live)
            machine.store_scratch(site, machine.lanes_of(offset(machine), live), stored.bytes, words, live)

        return step

    return build


# -- scalar loads


def _scalar_load(layout: Format) -> Build:
    """s_load: the low two bits of the address of words are ignored."""

    def build(decoder: Decoder) -> Step:
        decoder.need(3)
        decoder.ignore(*CACHE_HINTS)
        register = decoder.register(decoder.operands[0])
        decoder.writing(register)
        if register.count != layout.words:
            raise decoder.unsupported(f"operand {decoder.operands[0]} where {layout.words} registers are needed")
        addresses, site = _scalar_addresses(decoder), decoder.instruction.site
        first = register.index

        def step(machine: Machine) -> None:
            at = addresses(machine)
            words = _scalar_words(machine, at & ~3 if layout.bytes >= 4 else at, layout, site)
            for word in range(layout.words):
                machine.write_scalar(first + word, words[:, word : word + 1])

        return step

    return build


def _scalar_words(machine: Machine, at: Offsets, layout: Format, site: Site) -> Words:
    """Words of one access a wave; wide ones are read 16 bytes at a time."""
    if layout.bytes <= 16:
        words = machine.load(site, at, layout.bytes, None)
        return sign_extend(words, 8 * layout.bytes) if layout.signed else words
    parts = [machine.load(site, at + start, 16, None) for start in range(0, layout.bytes, 16)]
    return np.concatenate(parts, axis=1)


def _scalar_addresses(decoder: Decoder) -> Callable[[Machine], Offsets]:
    """Base, plus an immediate or a scalar register, plus ``offset:``."""
    _, base, offset = decoder.operands
    start, constant = decoder.scalar(base, Type.I64), decoder.number("offset") - BASE
    more = decoder.scalar(offset, Type.I32 if is_constant(offset) else Type.U32)

    def addresses(machine: Machine) -> Offsets:
        total = np.asarray(start(machine)) + np.asarray(more(machine)).astype(np.int64) + constant
        return np.broadcast_to(total, (machine.count, 1))[:, 0]

    return addresses


_SCALAR = {
    "dword": 4,
    "b32": 4,
    "dwordx2": 8,
    "b64": 8,
    "dwordx4": 16,
    "b128": 16,
    "dwordx8": 32,
    "b256": 32,
    "dwordx16": 64,
    "b512": 64,
}


_NARROW_SCALAR = ("u8", "i8", "u16", "i16")
_RDNA4 = frozenset({Generation.RDNA4})


def _generations(name: str) -> frozenset[Generation]:
    """Those that call a width so: CDNA by words, RDNA by bits."""
    return CDNA if re.search("byte|short|dword", name) else RDNA


def _scalar_table() -> dict[str, Entry]:
    table = {
        f"s_load_{name}": Entry(_scalar_load(Format(size)), sections.SMEM, _generations(name))
        for name, size in _SCALAR.items()
    }
    for name in _NARROW_SCALAR:
        table[f"s_load_{name}"] = Entry(_scalar_load(LOADS[name]), sections.RDNA4_SMEM, _RDNA4)
    return table | {"s_load_b96": Entry(_scalar_load(Format(12)), sections.RDNA4_SMEM, _RDNA4)}


def _tables() -> dict[str, Entry]:
    table = _scalar_table()
    for name, layout in LOADS.items():
        table[f"global_load_{name}"] = Entry(_vector_load(_of_global(1, 2), layout), sections.FLAT, _generations(name))
        table[f"flat_load_{name}"] = Entry(_vector_load(_of_flat(1), layout), sections.FLAT, _generations(name))
        table[f"buffer_load_{name}"] = Entry(_vector_load(_of_buffer, layout), sections.BUFFER, _generations(name))
        table[f"scratch_load_{name}"] = Entry(_scratch_load(layout), sections.FLAT, _generations(name))
    for name, layout in STORES.items():
        table[f"global_store_{name}"] = Entry(
            _vector_store(_of_global(0, 2), layout, 1), sections.FLAT, _generations(name)
        )
        table[f"flat_store_{name}"] = Entry(_vector_store(_of_flat(0), layout, 1), sections.FLAT, _generations(name))
        table[f"buffer_store_{name}"] = Entry(_vector_store(_of_buffer, layout, 0), sections.BUFFER, _generations(name))
        table[f"scratch_store_{name}"] = Entry(_scratch_store(layout), sections.FLAT, _generations(name))
    return table


TABLE: dict[str, Entry] = _tables()
"""Mnemonic → entry."""
