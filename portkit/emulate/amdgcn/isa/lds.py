"""Shared memory (LDS): loads, stores, and the permutes that use its crossbar.

Sources: CDNA3 ISA "LDS & GDS Instructions" and "Data Share"; RDNA3 ISA the same under its own names
(ds_load_b32 for ds_read_b32, ds_store_2addr_b32 for ds_write2_b32).
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from portkit.emulate.amdgcn.architecture import CDNA, RDNA
from portkit.emulate.amdgcn.decode import Decoder, Step
from portkit.emulate.amdgcn.isa import sections
from portkit.emulate.amdgcn.isa.memory import (
    LOADS,
    Format,
    loaded_register,
    put_loaded,
    stored_register,
    stored_words,
)
from portkit.emulate.amdgcn.isa.registry import Build, Entry
from portkit.emulate.amdgcn.machine import Array, Machine
from portkit.emulate.amdgcn.operands import Type
from portkit.emulate.core.bytestore import Offsets

_READS = {
    "u8": Format(1),
    "i8": Format(1, signed=True),
    "u16": Format(2),
    "i16": Format(2, signed=True),
    "u8_d16": LOADS["ubyte_d16"],
    "u8_d16_hi": LOADS["ubyte_d16_hi"],
    "i8_d16": LOADS["sbyte_d16"],
    "i8_d16_hi": LOADS["sbyte_d16_hi"],
    "u16_d16": LOADS["short_d16"],
    "u16_d16_hi": LOADS["short_d16_hi"],
    "b32": Format(4),
    "b64": Format(8),
    "b96": Format(12),
    "b128": Format(16),
}
_WRITES = {
    "b8": Format(1),
    "b16": Format(2),
    "b8_d16_hi": Format(1, half=1),
    "b16_d16_hi": Format(2, half=1),
    **{name: _READS[name] for name in ("b32", "b64", "b96", "b128")},
}


def shared_address(decoder: Decoder, text: str) -> Callable[[Machine, int], Offsets]:
    """A workgroup's own byte addresses ``[selected waves, lanes]``, with a constant offset."""
    read = decoder.vector(text, Type.U32)
    return lambda machine, offset: machine.spread(read(machine)).astype(np.int64) + offset


def _load(layout: Format) -> Build:
    def build(decoder: Decoder) -> Step:
        decoder.need(2)
        index = loaded_register(decoder, decoder.operands[0], layout)
        address, offset = shared_address(decoder, decoder.operands[1]), decoder.number("offset")
        site = decoder.instruction.site

        def step(machine: Machine) -> None:
            words = machine.load_shared(site, address(machine, offset), layout.bytes, machine.active)
            put_loaded(machine, index, layout, words, machine.active)

        return step

    return build


def _store(layout: Format) -> Build:
    def build(decoder: Decoder) -> Step:
        decoder.need(2)
        index, stored = stored_register(decoder, decoder.operands[1], layout)
        address, offset = shared_address(decoder, decoder.operands[0]), decoder.number("offset")
        site = decoder.instruction.site

        def step(machine: Machine) -> None:
            words = stored_words(machine, index, stored, machine.active)
            machine.store_shared(site, address(machine, offset), stored.bytes, words, machine.active)

        return step

    return build


def _two_offsets(decoder: Decoder, size: int, stride: int) -> tuple[int, int]:
    """offset0 and offset1, which count elements, or 64 of them."""
    return decoder.number("offset0") * size * stride, decoder.number("offset1") * size * stride


def _load_two(size: int, stride: int) -> Build:
    words, layout = size // 4, Format(size)

    def build(decoder: Decoder) -> Step:
        decoder.need(2)
        index = decoder.vector_indices(decoder.operands[0], 2 * words, write=True)
        address, offsets = shared_address(decoder, decoder.operands[1]), _two_offsets(decoder, size, stride)
        site = decoder.instruction.site

        def step(machine: Machine) -> None:
            loaded = [machine.load_shared(site, address(machine, o), size, machine.active) for o in offsets]
            for number, part in enumerate(loaded):
                put_loaded(machine, index + number * words, layout, part, machine.active)

        return step

    return build


def _store_two(size: int, stride: int) -> Build:
    layout = Format(size)

    def build(decoder: Decoder) -> Step:
        decoder.need(3)
        indices = [stored_register(decoder, text, layout)[0] for text in decoder.operands[1:3]]
        address, offsets = shared_address(decoder, decoder.operands[0]), _two_offsets(decoder, size, stride)
        site = decoder.instruction.site

        def step(machine: Machine) -> None:
            for index, offset in zip(indices, offsets, strict=True):
                words = stored_words(machine, index, layout, machine.active)
                machine.store_shared(site, address(machine, offset), size, words, machine.active)

        return step

    return build


def _source_lanes(machine: Machine, value: Array) -> Array:
    """The value with disabled lanes read as 0."""
    return np.where(machine.active, value, np.uint32(0))


def _pull(decoder: Decoder) -> Step:
    """ds_bpermute_b32: each lane names the lane it reads, in bytes."""
    decoder.need(3)
    address, offset = decoder.vector(decoder.operands[1], Type.U32), decoder.number("offset")
    data, write = decoder.vector(decoder.operands[2], Type.U32), decoder.vector_result(decoder.operands[0], Type.U32)

    def step(machine: Machine) -> None:
        lane = ((machine.spread(address(machine)).astype(np.int64) + offset) >> 2) & (machine.lanes - 1)
        write(machine, np.take_along_axis(_source_lanes(machine, data(machine)), lane, axis=1))

    return step


def _push(decoder: Decoder) -> Step:
    """ds_permute_b32: each lane names the lane it writes, in bytes; the highest lane wins, others read 0."""
    decoder.need(3)
    address, offset = decoder.vector(decoder.operands[1], Type.U32), decoder.number("offset")
    data, write = decoder.vector(decoder.operands[2], Type.U32), decoder.vector_result(decoder.operands[0], Type.U32)

    def step(machine: Machine) -> None:
        lane = ((machine.spread(address(machine)).astype(np.int64) + offset) >> 2) & (machine.lanes - 1)
        result: Array = np.zeros((machine.count, machine.lanes), np.uint32)
        value = machine.spread(data(machine))
        wave, source = np.nonzero(machine.active)
        result[wave, lane[wave, source]] = value[wave, source]
        write(machine, result)

    return step


def _bit_pattern(lane: Array, code: str) -> Array:
    """Five letters from the highest bit down: 0, 1, p keeps the bit, i inverts it."""
    result = np.zeros_like(lane)
    for place, letter in enumerate(reversed(code)):
        bit = (lane >> place) & 1
        result |= {"0": 0 * bit, "1": 0 * bit + 1, "p": bit, "i": 1 - bit}[letter] << place
    return (lane & ~31) + result


def _raw_pattern(lane: Array, code: int) -> Array:
    """The 16 bits of a swizzle: quads where bit 15 is set, else and-, or- and xor-masks of five bits."""
    if code & 0x8000:
        quad = np.array([code >> 2 * n & 3 for n in range(4)])
        return (lane & ~3) + quad[lane & 3]
    inner = (((lane & 31) & (code & 31)) | (code >> 5 & 31)) ^ (code >> 10 & 31)
    return (lane & ~31) + inner


def swizzle_lanes(text: str, lanes: int) -> Array | None:
    """Lane that each lane reads under ``offset:`` of a swizzle; None where its form is not known."""
    lane = np.arange(lanes)
    match = re.fullmatch(r"swizzle\((\w+)\s*,\s*(.*)\)", text)
    if not match:
        return _raw_pattern(lane, int(text, 0)) if re.fullmatch(r"0x[0-9a-fA-F]+|\d+", text) else None
    name, rest = match[1], [item.strip().strip('"') for item in match[2].split(",")]
    if name == "BITMASK_PERM":
        return _bit_pattern(lane, rest[0])
    numbers = [int(item, 0) for item in rest]
    patterns: dict[str, Callable[[], Array]] = {
        "QUAD_PERM": lambda: (lane & ~3) + np.array(numbers)[lane & 3],
        "SWAP": lambda: lane ^ numbers[0],
        "REVERSE": lambda: lane ^ (numbers[0] - 1),
        "BROADCAST": lambda: lane // numbers[0] * numbers[0] + numbers[1],
    }
    return patterns[name]() if name in patterns else None


def _swizzle(decoder: Decoder) -> Step:
    """ds_swizzle_b32."""
    decoder.need(2)
    lane = swizzle_lanes(decoder.modifier("offset", "0"), decoder.lanes)
    if lane is None:
        raise decoder.unsupported(f"swizzle {decoder.modifier('offset')}")
    data, write = decoder.vector(decoder.operands[1], Type.U32), decoder.vector_result(decoder.operands[0], Type.U32)
    return lambda machine: write(machine, _source_lanes(machine, data(machine))[:, lane])


def _tables() -> dict[str, Entry]:
    table = {}
    for name, layout in _READS.items():
        table[f"ds_read_{name}"] = Entry(_load(layout), sections.LDS, CDNA)
        table[f"ds_load_{name}"] = Entry(_load(layout), sections.LDS, RDNA)
    for name, layout in _WRITES.items():
        table[f"ds_write_{name}"] = Entry(_store(layout), sections.LDS, CDNA)
        table[f"ds_store_{name}"] = Entry(_store(layout), sections.LDS, RDNA)
    for size in (4, 8):
        for old, new, stride in (("", "", 1), ("st64", "_stride64", 64)):
            bits = 8 * size
            table[f"ds_read2{old}_b{bits}"] = Entry(_load_two(size, stride), sections.LDS, CDNA)
            table[f"ds_load_2addr{new}_b{bits}"] = Entry(_load_two(size, stride), sections.LDS, RDNA)
            table[f"ds_write2{old}_b{bits}"] = Entry(_store_two(size, stride), sections.LDS, CDNA)
            table[f"ds_store_2addr{new}_b{bits}"] = Entry(_store_two(size, stride), sections.LDS, RDNA)
    return table


TABLE: dict[str, Entry] = {
    **_tables(),
    "ds_bpermute_b32": Entry(_pull, sections.LDS),
    "ds_permute_b32": Entry(_push, sections.LDS),
    "ds_swizzle_b32": Entry(_swizzle, sections.LDS),
}
"""Mnemonic → entry."""
