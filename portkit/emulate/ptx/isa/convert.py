"""Conversions.

Source: PTX ISA, "Data Movement and Conversion Instructions": cvt. NaN of a float32 or 16-bit float becomes the integer
0; of a float64, or in 64-bit integers, the highest bit alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from portkit.emulate.core import smallfloats
from portkit.emulate.core.floats import flush, to_odd
from portkit.emulate.core.smallfloats import SmallFloat
from portkit.emulate.ptx.decode import Decoder, Read, Step
from portkit.emulate.ptx.isa.halves import decode, unpack
from portkit.emulate.ptx.isa.registry import Entry
from portkit.emulate.ptx.isa.rounding import FLOAT_MODES, INTEGER_MODES, NEAREST, bf16_bits, rounded
from portkit.emulate.ptx.isa.rows import Function, canonical, relu, saturated
from portkit.emulate.ptx.machine import Array, Machine
from portkit.emulate.ptx.types import Type, types_of

_MOVES = "Data Movement and Conversion Instructions"

FLOATS = types_of("f16 bf16 f32 f64")
INTEGERS = types_of("u8 u16 u32 u64 s8 s16 s32 s64 b8 b16 b32 b64")
HALF_PAIRS = types_of("f16x2 bf16x2")

SMALL: dict[Type, tuple[SmallFloat, int]] = {
    Type.E4M3X2: (smallfloats.E4M3, 8),
    Type.E5M2X2: (smallfloats.E5M2, 8),
    Type.E2M3X2: (smallfloats.E2M3, 8),
    Type.E3M2X2: (smallfloats.E3M2, 8),
    Type.E2M1X2: (smallfloats.E2M1, 4),
}
"""Packed type → its format, and the bits that each of the two codes takes."""


def _convert(decoder: Decoder) -> Step:
    if len(decoder.kinds) != 2:
        raise decoder.unsupported(f"{len(decoder.kinds)} types")
    result, source = decoder.kinds
    build = _builder(result, source)
    if build:
        return build(decoder, result, source)
    raise decoder.unsupported(f"cvt from .{source.suffix} to .{result.suffix}")


_Builder: TypeAlias = Callable[[Decoder, Type, Type], Step]


def _builder(result: Type, source: Type) -> _Builder | None:
    """What builds a conversion; None where there is none."""
    codes = {*SMALL, Type.UE8M0X2}
    choices: list[tuple[bool, _Builder]] = [
        (source in codes, _from_codes),
        (result in codes, _to_codes),
        (result in HALF_PAIRS, _to_pair),
        (result is Type.TF32, _to_tf32),
        ({result, source} <= FLOATS, _float_to_float),
        (result in FLOATS and source in INTEGERS, _integer_to_float),
        (result in INTEGERS and source in FLOATS, _float_to_integer),
        ({result, source} <= INTEGERS, _integer_to_integer),
    ]
    return next((build for fits, build in choices if fits), None)


def _finish(decoder: Decoder, function: Function, result: Type, read: Read) -> Step:
    write = decoder.write(decoder.operands[0], result)
    return lambda machine: write(machine, function(read(machine)))


# -- floats


def _float_source(decoder: Decoder, kind: Type) -> Read:
    """Float32 or float64 of the source, flushed where the instruction says so."""
    decoder.need(2)
    raw = Type.B16 if kind.bits == Type.F16.bits else kind
    read = decoder.read(decoder.operands[1], raw)
    if kind in {Type.F16, Type.BF16}:
        return lambda machine: decode(read(machine), kind)
    if kind is Type.F32 and "ftz" in decoder.instruction.modifiers:
        return lambda machine: flush(read(machine))
    return read


def _clamped(decoder: Decoder, function: Function) -> Function:
    """With .sat or .relu, before the result is rounded."""
    if decoder.has("sat"):
        return lambda x: saturated(function(x))
    return (lambda x: relu(function(x))) if decoder.has("relu") else function


def narrowed(kind: Type, mode: str) -> Function:
    """From float32 or float64 to a float type, as it is kept in registers."""
    if kind is Type.BF16:
        return lambda x: bf16_bits(x, mode)
    if kind is Type.F16:
        return lambda x: _one_nan(x, rounded(np.asarray(x, np.float64), np.float16, mode).view(np.uint16))
    if kind is Type.F32:
        return lambda x: rounded(x, np.float32, mode) if np.asarray(x).dtype == np.float64 else x
    return lambda x: np.asarray(x).astype(np.float64)


def _one_nan(x: Array, bits: Array) -> Array:
    """The NaN that devices make of any, in float16."""
    return np.where(np.isnan(x), np.uint16(0x7FFF), bits)


def _float_to_float(decoder: Decoder, result: Type, source: Type) -> Step:
    read = _float_source(decoder, source)
    flushes = decoder.has("ftz")
    whole = decoder.one_of(*INTEGER_MODES)
    mode = decoder.one_of(*FLOAT_MODES) or NEAREST
    limit: Function = INTEGER_MODES[whole] if whole else lambda x: x
    limit, last = _clamped(decoder, limit), narrowed(result, mode)
    if result in {Type.F16, Type.BF16} and source is Type.F32 and decoder.has("satfinite"):
        return _finish(decoder, lambda x: _finite(last(limit(x)), result), Type.B16, read)
    raw = Type.B16 if result.bits == Type.F16.bits else result
    if flushes and result is Type.F32:
        return _finish(decoder, lambda x: flush(canonical(last(limit(x)))), raw, read)
    if result is Type.F32 and (whole or source is Type.F16):  # a plain move keeps NaN's bits, and so does bfloat16's
        return _finish(decoder, lambda x: canonical(last(limit(x))), raw, read)
    return _finish(decoder, lambda x: last(limit(x)), raw, read)


def _wide_and_lost(x: Array) -> tuple[Array, Array]:
    """Nearest float64 of an integer of 64 bits, and what of the integer that leaves over: its sign is exact."""
    wide = x.astype(np.float64)
    limit = 2.0**63 if x.dtype.kind == "i" else 2.0**64
    top = wide >= limit
    back = np.where(top, 0, wide).astype(x.dtype)
    return wide, np.where(top, -1.0, (x - back).view(np.int64).astype(np.float64))


def wide_of_integer(x: Array) -> Array:
    """Float64 of an integer, rounded to odd where it has more than 53 bits."""
    x = np.asarray(x)
    if x.dtype.itemsize < 8:
        return x.astype(np.float64)
    wide, lost = _wide_and_lost(x)
    return to_odd(wide, lost, np.ones(wide.shape, np.bool_))


def _double_of_integer(mode: str) -> Function:
    """Float64 of an integer, rounded once."""

    def function(x: Array) -> Array:
        x = np.asarray(x)
        if mode == NEAREST or x.dtype.itemsize < 8:
            return x.astype(np.float64)
        wide, lost = _wide_and_lost(x)
        inward = {"rz": np.where(wide > 0, lost < 0, lost > 0), "rm": lost < 0, "rp": lost > 0}[mode]
        return np.where(inward, np.nextafter(wide, wide + np.sign(lost) * np.abs(wide)), wide)

    return function


def _integer_to_float(decoder: Decoder, result: Type, source: Type) -> Step:
    decoder.need(2)
    mode = decoder.one_of(*FLOAT_MODES)
    decoder.ignore("ftz")  # no integer is a denormal
    if mode is None:
        raise decoder.unsupported("no rounding mode")
    read = decoder.read(decoder.operands[1], source)
    raw = Type.B16 if result.bits == Type.F16.bits else result
    if result is Type.F64:
        return _finish(decoder, _clamped(decoder, _double_of_integer(mode)), raw, read)
    if result is Type.F32 and mode == NEAREST:
        return _finish(decoder, _clamped(decoder, lambda x: np.asarray(x).astype(np.float32)), raw, read)
    wide, last = _clamped(decoder, wide_of_integer), narrowed(result, mode)
    return _finish(decoder, lambda x: last(wide(x)), raw, read)


def to_integer(result: Type, source: Type, whole: Callable[[Array], Array]) -> Function:
    """Held within the type; NaN by the types."""
    limits = np.iinfo(result.dtype)
    nothing = 1 << (result.bits - 1) if source is Type.F64 or result.bits == Type.U64.bits else 0
    nan = np.array(nothing, f"u{result.bytes}").view(result.dtype)

    def function(x: Array) -> Array:
        value = whole(np.asarray(x).astype(np.float64))
        bad = np.isnan(value)
        over, under = value >= float(limits.max), value <= float(limits.min)
        inside = np.where(bad | over | under, 0.0, value).astype(result.dtype)
        held = np.where(over, limits.max, np.where(under, limits.min, inside)).astype(result.dtype)
        return np.where(bad, nan, held) if bad.any() else held

    return function


def _float_to_integer(decoder: Decoder, result: Type, source: Type) -> Step:
    read = _float_source(decoder, source)
    decoder.ignore("ftz", "sat")  # the result is held within its type anyway
    whole = INTEGER_MODES[decoder.required(*INTEGER_MODES)]
    return _finish(decoder, to_integer(result, source, whole), result, read)


def _integer_to_integer(decoder: Decoder, result: Type, source: Type) -> Step:
    decoder.need(2)
    saturates = decoder.has("sat")
    read = decoder.read(decoder.operands[1], source)
    limits = np.iinfo(result.dtype)

    def function(x: Array) -> Array:
        x = np.asarray(x)
        if saturates:
            low = max(limits.min, int(np.iinfo(x.dtype).min))
            high = min(limits.max, int(np.iinfo(x.dtype).max))
            x = np.clip(x, x.dtype.type(low), x.dtype.type(high))
        return x.astype(result.dtype)

    return _finish(decoder, function, result, read)


# -- tf32

_TF32_LOST = np.uint32(13)
"""Bits of mantissa that float32 has more."""


def tf32_bits(x: Array, mode: str) -> Array:
    """Float32 with 10 bits of mantissa; the rest of the word is 0.

    Args:
        x: float32.
        mode: rna (halves away from zero), rn or rz.
    """
    x = np.asarray(x, np.float32)
    bits = x.view(np.uint32)
    half = np.uint32(1 << 12)
    if mode == "rna":
        bits = bits + half
    elif mode == "rn":
        bits = bits + (half - np.uint32(1)) + ((bits >> _TF32_LOST) & np.uint32(1))
    kept = (bits >> _TF32_LOST) << _TF32_LOST
    cut = (x.view(np.uint32) >> _TF32_LOST) << _TF32_LOST
    payload = (mode == "rna") & (cut << np.uint32(1) > np.uint32(0xFF00_0000))  # kept, as on an H200
    return np.where(np.isnan(x), np.where(payload, cut, np.uint32(0x7FFF_E000)), kept)


_STEP_TF32 = np.uint32(1 << 13)


def _to_tf32(decoder: Decoder, result: Type, source: Type) -> Step:
    decoder.need(2)
    mode = decoder.required("rna", "rn", "rz")
    positive, finite = decoder.has("relu"), decoder.has("satfinite")
    read = decoder.read(decoder.operands[1], source)

    def function(x: Array) -> Array:
        bits = tf32_bits(relu(x) if positive else x, mode)
        if finite:  # an H200 takes a step off NaN, too
            bits = np.where(bits & np.uint32(0x7F80_0000) == np.uint32(0x7F80_0000), bits - _STEP_TF32, bits)
        return np.asarray(bits)

    return _finish(decoder, function, result, read)


# -- pairs


def _two_floats(decoder: Decoder, source: Type) -> Callable[[Machine], tuple[Array, Array]]:
    """Low and high value as float32: of two float32, the second is the low one; or of a pair."""
    if source is Type.F32:
        decoder.need(3)
        high, low = (decoder.read(operand, Type.F32) for operand in decoder.operands[1:])
        return lambda machine: (low(machine), high(machine))
    if source not in HALF_PAIRS:
        raise decoder.unsupported(f"pairs of .{source.suffix}")
    decoder.need(2)
    read = decoder.read(decoder.operands[1], source)
    return lambda machine: unpack(read(machine), source)


def _to_pair(decoder: Decoder, result: Type, source: Type) -> Step:
    mode = decoder.required("rn", "rz")
    positive, finite = decoder.has("relu"), decoder.has("satfinite")
    values = _two_floats(decoder, source)
    write = decoder.write(decoder.operands[0], Type.B32)
    single = Type.BF16 if result is Type.BF16X2 else Type.F16
    last = narrowed(single, mode)

    def half(x: Array) -> Array:
        bits = last(relu(x) if positive else x)
        return (_finite(bits, single) if finite else bits).astype(np.uint32)

    def step(machine: Machine) -> None:
        low, high = values(machine)
        write(machine, half(low) | half(high) << np.uint32(16))

    return step


def _finite(bits: Array, kind: Type) -> Array:
    """Infinities as the largest number of their sign."""
    infinity = np.uint16(0x7F80 if kind is Type.BF16 else 0x7C00)
    return np.where(bits & np.uint16(0x7FFF) == infinity, bits - np.uint16(1), bits)


def _to_codes(decoder: Decoder, result: Type, source: Type) -> Step:
    """To two codes of 8, 6 or 4 bits."""
    if result is Type.UE8M0X2:
        return _to_scales(decoder, source)
    decoder.since(89 if result in {Type.E4M3X2, Type.E5M2X2} else 100, f"conversion to .{result.suffix}")
    decoder.required("rn")
    decoder.required("satfinite")
    positive = decoder.has("relu")
    values = _two_floats(decoder, source)
    form, bits = SMALL[result]
    write = decoder.write(decoder.operands[0], result)

    def code(x: Array) -> Array:
        return form.encode(relu(x) if positive else x, True)

    def step(machine: Machine) -> None:
        low, high = values(machine)
        write(machine, (code(low) | code(high) << np.uint32(bits)).astype(result.dtype))

    return step


LARGEST_SCALE, NO_SCALE = 254, 255
"""Codes of E8M0: 2^127, and NaN."""


def scale_code(x: Array, mode: str, finite: bool) -> Array:
    """Codes of powers of two, E8M0, of sizes.

    Args:
        x: floats.
        mode: rp (up) or rz (toward zero).
        finite: whether what is too large becomes the largest power; else it becomes NaN.
    """
    size = np.abs(np.asarray(x, np.float64))
    part, power = np.frexp(size)
    code = power - 1 + 127 + ((mode == "rp") & (part != 0.5))
    code = np.where(size == 0, 0, np.maximum(code, 0))
    large = np.isinf(size) | (code > LARGEST_SCALE)
    code = np.where(large, LARGEST_SCALE if finite else NO_SCALE, code)
    return np.where(np.isnan(size), NO_SCALE, code).astype(np.uint32)


def _to_scales(decoder: Decoder, source: Type) -> Step:
    decoder.since(100, "conversion to .ue8m0x2")
    mode, finite = decoder.required("rz", "rp"), decoder.has("satfinite")
    values = _two_floats(decoder, source)
    write = decoder.write(decoder.operands[0], Type.UE8M0X2)

    def step(machine: Machine) -> None:
        low, high = (scale_code(each, mode, finite) for each in values(machine))
        write(machine, (low | high << np.uint32(8)).astype(np.uint16))

    return step


def _from_codes(decoder: Decoder, result: Type, source: Type) -> Step:
    """To a pair of halves, which hold every code."""
    decoder.need(2)
    if result not in HALF_PAIRS or (source is Type.UE8M0X2) != (result is Type.BF16X2):
        raise decoder.unsupported(f"cvt from .{source.suffix} to .{result.suffix}")
    decoder.since(89 if source in {Type.E4M3X2, Type.E5M2X2} else 100, f"conversion from .{source.suffix}")
    decoder.required("rn")
    positive = decoder.has("relu")
    table, bits = _table(source)
    read, write = decoder.read(decoder.operands[1], source), decoder.write(decoder.operands[0], Type.B32)
    mask = np.uint32((1 << bits) - 1)
    last = narrowed(Type.BF16 if result is Type.BF16X2 else Type.F16, NEAREST)
    halves = np.asarray(last(relu(table) if positive else table)).astype(np.uint32)

    def step(machine: Machine) -> None:
        codes = np.asarray(read(machine)).astype(np.uint32)
        low, high = (halves[codes >> np.uint32(shift) & mask] for shift in (0, bits))
        write(machine, low | high << np.uint32(16))

    return step


def _table(source: Type) -> tuple[Array, int]:
    """Float32 of each code, and the bits of one."""
    if source is Type.UE8M0X2:
        return smallfloats.scale_of(np.arange(256)).astype(np.float32), 8
    form, bits = SMALL[source]
    return np.resize(form.table, 1 << bits), bits


# -- packing integers


def _pack_integers(decoder: Decoder) -> Step:
    """cvt.pack.sat: two integers held within a narrower type, above what a third operand holds."""
    decoder.required("sat")
    result, source = decoder.kinds[:2]
    limits = np.iinfo(result.dtype)
    wide = 32 // result.bits
    decoder.need(4 if wide > 2 else 3)
    reads = [decoder.read(operand, source) for operand in decoder.operands[1:3]]
    more = decoder.read(decoder.operands[3], Type.B32) if len(decoder.operands) > 3 else None
    write, bits = decoder.write(decoder.operands[0], Type.B32), np.uint32(result.bits)

    def step(machine: Machine) -> None:
        held = [np.clip(read(machine), limits.min, limits.max).astype(np.int64) for read in reads]
        mask = (1 << result.bits) - 1
        high, low = (np.asarray(each & mask).astype(np.uint32) for each in held)
        word = low | high << bits
        if more:
            word = word | np.asarray(more(machine)) << np.uint32(2 * result.bits)
        write(machine, word)

    return step


TABLE: dict[str, tuple[Entry, ...]] = {
    "cvt": (Entry(_convert, f"{_MOVES}: cvt"),),
    "cvt.pack": (Entry(_pack_integers, f"{_MOVES}: cvt.pack", since=75),),
}
