"""Dot products of the two, four or eight values that lie in one register.

Sources: CDNA3 ISA "VOP3P Instructions" and "VOP2 Instructions" (v_dot2c_f32_f16, v_dot4c_i32_i8), CDNA4 ISA
(v_dot2_f32_bf16), RDNA3 ISA "VOP3P Instructions" and "VOP3 & VOP3SD Instructions" (v_dot2_bf16_bf16,
v_dot4_i32_iu8), RDNA4 ISA "VOP3P Instructions" (v_dot4_f32_fp8_fp8).

Approximation: floating-point sums are made in float64 and rounded once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from portkit.emulate.amdgcn.architecture import ALL, CDNA, RDNA, Generation
from portkit.emulate.amdgcn.decode import Decoder, Read, Step
from portkit.emulate.amdgcn.isa import sections
from portkit.emulate.amdgcn.isa.matrix import eight_bits
from portkit.emulate.amdgcn.isa.packed import packed_sources, packed_word
from portkit.emulate.amdgcn.isa.registry import Build, Entry
from portkit.emulate.amdgcn.machine import Array, Machine
from portkit.emulate.amdgcn.operands import Type
from portkit.emulate.core.floats import bf16_to_f32, f32_to_bf16
from portkit.emulate.core.integers import sign_extend
from portkit.emulate.core.smallfloats import unpack
from portkit.emulate.core.vectors import Approximation

_RDNA4 = frozenset({Generation.RDNA4})
_BFLOAT_PACKED = RDNA | {Generation.CDNA4}
_CDNA4 = frozenset({Generation.CDNA4})


def _wide(kind: Type, bits: Array) -> Array:
    """Float64 of float16 or bfloat16."""
    return (bf16_to_f32(bits) if kind is Type.B16 else bits).astype(np.float64)


# -- pairs of 16-bit floats


def _pair_products(decoder: Decoder, kind: Type, texts: tuple[str, ...]) -> Callable[[Machine], Array]:
    """Sum of the products of low and high halves, float64."""
    low, high = packed_sources(decoder, texts, kind)

    def products(machine: Machine) -> Array:
        values = [[_wide(kind, read(machine)) for read in half] for half in (low, high)]
        return np.asarray(values[0][0] * values[0][1] + values[1][0] * values[1][1])

    return products


def _pair_to_float32(kind: Type) -> Build:
    """v_dot2_f32_f16 and v_dot2_f32_bf16."""

    def build(decoder: Decoder) -> Step:
        decoder.need(4)
        products = _pair_products(decoder, kind, decoder.operands[1:3])
        signs = decoder.flags("neg_lo", 3)[2], decoder.flags("neg_hi", 3)[2]
        if signs[1]:
            raise decoder.unsupported("absolute value of the addend")
        addend, write = (
            decoder.vector(decoder.operands[3], Type.F32),
            decoder.vector_result(decoder.operands[0], Type.F32),
        )

        def step(machine: Machine) -> None:
            more = np.asarray(addend(machine)).astype(np.float64)
            write(machine, (products(machine) + (-more if signs[0] else more)).astype(np.float32))

        return step

    return build


def _pair_to_half(kind: Type) -> Build:
    """v_dot2_f16_f16 and v_dot2_bf16_bf16: the addend and the result are 16 bits wide."""

    def build(decoder: Decoder) -> Step:
        decoder.need(4)
        selected = decoder.flags("op_sel", 4)
        if any(selected[:2]):
            raise decoder.unsupported("op_sel of a packed source")
        words = [packed_word(decoder, text, kind) for text in decoder.operands[1:3]]
        addend = decoder.vector(decoder.operands[3] + (".h" if selected[2] else ""), kind)
        write = decoder.vector_result(decoder.operands[0], kind, bool(selected[3]))
        narrow = _narrowed(kind)

        def step(machine: Machine) -> None:
            total = _wide(kind, np.asarray(addend(machine)))
            write(machine, narrow(_added(kind, total, words, machine)))

        return step

    return build


def _added(kind: Type, total: Array, words: list[Read], machine: Machine) -> Array:
    """The total with both products added."""
    left, right = (np.asarray(word(machine)) for word in words)
    for shift in (np.uint32(0), np.uint32(16)):
        pair = [(side >> shift).astype(np.uint16).view(kind.dtype) for side in (left, right)]
        total = total + _wide(kind, pair[0]) * _wide(kind, pair[1])
    return total


def _narrowed(kind: Type) -> Callable[[Array], Array]:
    if kind is Type.B16:
        return lambda total: f32_to_bf16(total.astype(np.float32)).astype(np.uint16)
    return lambda total: total.astype(np.float16)


def _pair_accumulating(kind: Type) -> Build:
    """v_dot2c_f32_f16: the destination is the addend."""

    def build(decoder: Decoder) -> Step:
        decoder.need(3)
        words = [packed_word(decoder, text, kind) for text in decoder.operands[1:3]]
        old, write = (
            decoder.vector(decoder.operands[0], Type.F32),
            decoder.vector_result(decoder.operands[0], Type.F32),
        )

        def step(machine: Machine) -> None:
            total = np.asarray(old(machine)).astype(np.float64)
            write(machine, _added(kind, total, words, machine).astype(np.float32))

        return step

    return build


# -- integers


def _codes(read: Read, bits: int, signed: bool) -> Callable[[Machine], Array]:
    """The values of a word as int64, ``[..., values]``."""
    places: Array = np.arange(0, 32, bits, dtype=np.uint32)
    mask = np.uint32((1 << bits) - 1)

    def codes(machine: Machine) -> Array:
        parts = (np.asarray(read(machine))[..., None] >> places) & mask
        return (sign_extend(parts, bits).view(np.int32) if signed else parts).astype(np.int64)

    return codes


def _integers(bits: int, signed: bool, accumulate: bool = False) -> Build:
    """Operands of a known sign; ``clamp`` saturates the sum."""
    return lambda decoder: _integer_dot(decoder, bits, (signed, signed), signed, accumulate)


def _either_sign(bits: int) -> Build:
    """v_dot4_i32_iu8 and v_dot8_i32_iu4: neg_lo says which operands are signed."""

    def build(decoder: Decoder) -> Step:
        signs = decoder.flags("neg_lo", 3)
        return _integer_dot(decoder, bits, (bool(signs[0]), bool(signs[1])), True, False)

    return build


def _integer_dot(decoder: Decoder, bits: int, signs: tuple[bool, bool], signed: bool, accumulate: bool) -> Step:
    decoder.need(3 if accumulate else 4)
    sides = [
        _codes(decoder.vector(text, Type.U32), bits, sign)
        for text, sign in zip(decoder.operands[1:3], signs, strict=True)
    ]
    addend = decoder.vector(decoder.operands[0 if accumulate else 3], Type.I32 if signed else Type.U32)
    write, clamp = decoder.vector_result(decoder.operands[0], Type.U32), decoder.has("clamp")
    low, high = (-(2**31), 2**31 - 1) if signed else (0, 2**32 - 1)

    def step(machine: Machine) -> None:
        total = (sides[0](machine) * sides[1](machine)).sum(axis=-1) + np.asarray(addend(machine)).astype(np.int64)
        write(machine, (np.clip(total, low, high) if clamp else total).astype(np.uint32))

    return step


# -- 8-bit floats


def _small_floats(names: tuple[str, str]) -> Build:
    """v_dot4_f32_fp8_fp8 and its kin."""

    def build(decoder: Decoder) -> Step:
        decoder.need(4)
        formats = [eight_bits(name, decoder.architecture) for name in names]
        words = [decoder.vector(text, Type.U32) for text in decoder.operands[1:3]]
        addend = decoder.vector(decoder.operands[3], Type.F32)
        write = decoder.vector_result(decoder.operands[0], Type.F32)

        def step(machine: Machine) -> None:
            sides = [
                small.decode(unpack(np.asarray(word(machine))[..., None], 8)).astype(np.float64)
                for small, word in zip(formats, words, strict=True)
            ]
            total = (sides[0] * sides[1]).sum(axis=-1) + np.asarray(addend(machine)).astype(np.float64)
            write(machine, total.astype(np.float32))

        return step

    return build


_SUMMED = Approximation("products summed in float64 and rounded once, in no documented order", 1, 0.0, 2.0**-20)


def _small_float_table() -> dict[str, Entry]:
    names = [(first, second) for first in ("fp8", "bf8") for second in ("fp8", "bf8")]
    return {
        f"v_dot4_f32_{a}_{b}": Entry(_small_floats((a, b)), sections.RDNA4_VOP3P, _RDNA4, approximation=_SUMMED)
        for a, b in names
    }


_ANY: dict[str, tuple[Build, str, Any]] = {
    "dot2_f32_f16": (_pair_to_float32(Type.F16), sections.VOP3P, ALL),
    "dot2_f32_bf16": (_pair_to_float32(Type.B16), sections.VOP3P, _BFLOAT_PACKED),
    "dot2_f16_f16": (_pair_to_half(Type.F16), sections.RDNA3_VOP3, RDNA),
    "dot2_bf16_bf16": (_pair_to_half(Type.B16), sections.RDNA3_VOP3, RDNA),
    "dot2c_f32_f16": (_pair_accumulating(Type.F16), sections.VOP2, CDNA),
    "dot2acc_f32_f16": (_pair_accumulating(Type.F16), sections.VOP2, RDNA),
    "dot2c_f32_bf16": (_pair_accumulating(Type.B16), sections.CDNA4_VOP2, _CDNA4),
    "dot2_i32_i16": (_integers(16, signed=True), sections.VOP3P, CDNA),
    "dot2_u32_u16": (_integers(16, signed=False), sections.VOP3P, CDNA),
    "dot4_i32_i8": (_integers(8, signed=True), sections.VOP3P, CDNA),
    "dot4_u32_u8": (_integers(8, signed=False), sections.VOP3P, ALL),
    "dot8_i32_i4": (_integers(4, signed=True), sections.VOP3P, CDNA),
    "dot8_u32_u4": (_integers(4, signed=False), sections.VOP3P, ALL),
    "dot4c_i32_i8": (_integers(8, signed=True, accumulate=True), sections.VOP2, CDNA),
    "dot8c_i32_i4": (_integers(4, signed=True, accumulate=True), sections.VOP2, CDNA),
    "dot4_i32_iu8": (_either_sign(8), sections.VOP3P, RDNA),
    "dot8_i32_iu4": (_either_sign(4), sections.VOP3P, RDNA),
}


def _entry(name: str, build: Build, section: str, generations: frozenset[Generation]) -> Entry:
    """Sums of floats are approximations, those of integers are not."""
    return Entry(build, section, generations, approximation=None if re.search("_[iu](32|8)", name) else _SUMMED)


TABLE: dict[str, Entry] = {
    **{f"v_{name}": _entry(name, *row) for name, row in _ANY.items()},
    **_small_float_table(),
}
"""Mnemonic → entry."""
