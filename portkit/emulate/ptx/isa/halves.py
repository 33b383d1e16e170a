"""Arithmetic on float16 and bfloat16, and on pairs of them and of float32.

Source: PTX ISA, "Half Precision Floating Point Instructions" and, for pairs of float32, "Floating Point Instructions".
Each result is rounded once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from portkit.emulate.core import floats
from portkit.emulate.core.vectors import Approximation
from portkit.emulate.ptx.decode import Decoder, Read, Step
from portkit.emulate.ptx.isa.floating import FITTED, extreme, finished
from portkit.emulate.ptx.isa.interpolation import interpolated
from portkit.emulate.ptx.isa.registry import Entry
from portkit.emulate.ptx.isa.rounding import NEAREST, bf16_bits, bf16_values
from portkit.emulate.ptx.isa.rows import Function, canonical, computed, relu, saturated
from portkit.emulate.ptx.machine import Array
from portkit.emulate.ptx.types import Type, types_of

_HALF = "Half Precision Floating Point Instructions"
_MIXED = "Mixed Precision Floating Point Instructions"
_FLOAT = "Floating Point Instructions"

SINGLES, PAIRS = "f16 bf16", "f16x2 bf16x2"
HALVES = f"{SINGLES} {PAIRS}"

_LOW, _UP = np.uint32(0xFFFF), np.uint32(16)

CANONICAL_NAN16 = np.uint16(0x7FFF)
"""What every result of 16 bits that is no number is, of both types."""

SMALLEST_NORMAL = 2.0**-14
"""Of float16, which .ftz flushes what is smaller than."""
SMALLEST_NORMAL_BFLOAT16 = 2.0**-126


def decode(bits: Array, kind: Type) -> Array:
    """Float32 of one value: float16, or bits of bfloat16."""
    return (
        bf16_values(bits) if kind in {Type.BF16, Type.BF16X2} else np.asarray(bits).view(np.float16).astype(np.float32)
    )


def encode(wide: Array, kind: Type) -> Array:
    """16 bits of float64 or float32, rounded once; every NaN has one pattern (seen on an H200)."""
    if kind in {Type.BF16, Type.BF16X2}:
        return bf16_bits(wide)
    return np.where(np.isnan(wide), CANONICAL_NAN16, np.asarray(wide).astype(np.float16).view(np.uint16))


def values(read: Read, kind: Type) -> Read:
    """A source as float32."""
    return lambda machine: decode(read(machine), kind)


def unpack(words: Array, kind: Type) -> tuple[Array, Array]:
    """Both halves as float32, the low one first."""
    words = np.asarray(words)
    if kind is Type.BF16X2:
        return (words << _UP).view(np.float32), (words & ~_LOW).view(np.float32)
    return decode((words & _LOW).astype(np.uint16), kind), decode((words >> _UP).astype(np.uint16), kind)


def pack(low: Array, high: Array, kind: Type) -> Array:
    """A word of two results."""
    return encode(low, kind).astype(np.uint32) | (encode(high, kind).astype(np.uint32) << _UP)


def _wide_fma(a: Array, b: Array, c: Array) -> Array:
    """As float64 that rounds right to 16 bits."""
    return floats.fma32_unrounded(a, b, c)


def _wide(function: Function) -> Function:
    return lambda *items: function(*[np.asarray(item, np.float64) for item in items])


_FUNCTIONS: dict[str, Function] = {
    "add": _wide(np.add),
    "sub": _wide(np.subtract),
    "mul": _wide(np.multiply),
    "fma": _wide_fma,
}


def _exact_sum(negate: bool) -> Function:
    """A sum of bfloat16 that float64 does not hold is rounded to odd."""
    sign = np.float32(-1 if negate else 1)
    return lambda a, b: floats.fma32_unrounded(b, sign, a)


_FUNCTIONS["add"], _FUNCTIONS["sub"] = _exact_sum(False), _exact_sum(True)


def _finish(decoder: Decoder, function: Function) -> Function:
    """With .ftz, .sat and .relu."""
    if decoder.has("ftz"):
        if decoder.kind not in {Type.F16, Type.F16X2}:
            raise decoder.unsupported("modifier .ftz of bfloat16")
        function = _flushing(function)
    if decoder.has("sat"):
        return _then(saturated, function)
    return _then(relu, function) if decoder.has("relu") else function


def _then(last: Function, first: Function) -> Function:
    return lambda *items: last(first(*items))


def flush16(x: Array) -> Array:
    """Denormals of float16 as zeros of their sign."""
    return np.where(np.abs(x) < SMALLEST_NORMAL, np.copysign(np.zeros((), np.asarray(x).dtype), x), x)


_ROUNDED_UP = SMALLEST_NORMAL - 2.0**-26
"""From here on 11 bits of any exponent round to the smallest normal number."""


def _flushing(function: Function) -> Function:
    """As of float32: what 11 bits of any exponent leave below normal numbers is flushed, though it rounds to one."""

    def operation(*items: Array) -> Array:
        result = np.asarray(function(*[flush16(item) for item in items]))
        small = np.abs(result) < _ROUNDED_UP
        return np.where(small, np.copysign(0.0, result), result)

    return operation


def _apply(decoder: Decoder, function: Function, sources: int) -> Step:
    """Of single values, and of pairs half by half."""
    kind = decoder.kind
    decoder.need(sources + 1)
    if kind.bits == Type.F16.bits:
        raw: Function = lambda *items: encode(function(*[decode(item, kind) for item in items]), kind)  # noqa: E731
        return computed(decoder, raw, Type.B16, [Type.B16] * sources)

    def both(*words: Array) -> Array:
        halves = [unpack(word, kind) for word in words]
        low, high = (function(*[half[side] for half in halves]) for side in (0, 1))
        return pack(low, high, kind)

    return computed(decoder, both, Type.B32, [Type.B32] * sources)


def _arithmetic(sources: int) -> Callable[[Decoder], Step]:
    def build(decoder: Decoder) -> Step:
        decoder.ignore(NEAREST)
        function = _FUNCTIONS[decoder.instruction.opcode]
        return _apply(decoder, _finish(decoder, function), sources)

    return build


def _extreme(function: Function) -> Callable[[Decoder], Step]:
    def build(decoder: Decoder) -> Step:
        two = extreme(function, quiet=not decoder.has("NaN"))
        if decoder.has("xorsign"):
            raise decoder.unsupported("modifier .xorsign of halves")
        return _apply(decoder, _finish(decoder, two), 2)

    return build


def _nans(bits: Array, kind: Type) -> Array:
    """All bits of the halves that are no numbers, as words of the width of ``bits``."""
    ones, infinity = bits.dtype.type(0xFFFF), 0x7F80 if kind in {Type.BF16, Type.BF16X2} else 0x7C00
    found = np.where((bits & bits.dtype.type(0x7FFF)) > infinity, ones, bits.dtype.type(0))
    if bits.dtype.itemsize > 2:
        high = (bits >> _UP) & np.uint32(0x7FFF)
        found = found | np.where(high > infinity, ones << _UP, bits.dtype.type(0))
    return np.asarray(found)


def _on_bits(of: Callable[[Array, Array], Array]) -> Callable[[Decoder], Step]:
    """Neg and abs: on the sign bits, but for what is no number (seen on an H200)."""

    def build(decoder: Decoder) -> Step:
        decoder.need(2)
        kind = decoder.kind
        if decoder.has("ftz"):
            raise decoder.unsupported("modifier .ftz of signs")
        raw = Type.B16 if kind.bits == Type.B16.bits else Type.B32
        signs = raw.dtype.type(0x8000 if raw is Type.B16 else 0x8000_8000)

        def function(x: Array) -> Array:
            bits = np.asarray(x)
            none = _nans(bits, kind)
            return np.asarray((of(bits, signs) & ~none) | (none & ~signs))

        return computed(decoder, function, raw, [raw])

    return build


def _flushed(x: Array) -> Array:
    """Zero for what is no normal bfloat16. Arguments need none of it: their powers of two are 1."""
    return np.where(np.abs(x) < SMALLEST_NORMAL_BFLOAT16, np.float32(0), x)


_CUT_OFF = {Type.BF16: np.uint32(16), Type.BF16X2: np.uint32(16), Type.F16: np.uint32(13), Type.F16X2: np.uint32(13)}
"""Bits of float32's mantissa that a type has not."""

_DENORMAL = np.float32(2.0**-24)
"""Of float16."""


def cut_off(x: Array, kind: Type) -> Array:
    """Float32 towards zero to a number of 16 bits; beyond the largest it stays what it is."""
    lost = _CUT_OFF[kind]
    cut = np.asarray((x.view(np.uint32) >> lost) << lost).view(np.float32)
    if kind in {Type.BF16, Type.BF16X2}:
        return cut
    return np.where(np.abs(x) < SMALLEST_NORMAL, np.trunc(x / _DENORMAL) * _DENORMAL, cut)


def _approximate(name: str) -> Callable[[Decoder], Step]:
    """The special-function unit's result of float32, cut off (seen on an H200)."""
    unit = interpolated(name)

    def build(decoder: Decoder) -> Step:
        decoder.required("approx")
        kind, last = decoder.kind, _flushed if decoder.has("ftz") else np.asarray
        return _apply(decoder, lambda x: last(cut_off(unit(x), kind)), 1)

    return build


# -- pairs of float32


def _pairs32(choose: Function, sources: int) -> Callable[[Decoder], Step]:
    def build(decoder: Decoder) -> Step:
        decoder.need(sources + 1)
        decoder.ignore(NEAREST)
        function = finished(decoder, choose)

        def both(*words: Array) -> Array:
            lanes = [
                np.ascontiguousarray(np.broadcast_to(word, np.shape(word) or (1,))).view(np.float32) for word in words
            ]
            return np.asarray(canonical(function(*lanes)), np.float32).view(np.uint64)

        return computed(decoder, both, Type.B64, [Type.B64] * sources)

    return build


# -- mixed precision


def _mixed(function: Function, sources: int) -> Callable[[Decoder], Step]:
    """The result and the last source are float32, the others halves."""

    def build(decoder: Decoder) -> Step:
        decoder.need(sources + 1)
        result, kind = decoder.kinds
        if result is not Type.F32:
            raise decoder.unsupported(f"a result of .{result.suffix}")
        decoder.ignore(NEAREST)
        chosen = finished(decoder, function)
        *narrow, last = decoder.operands[1:]
        if sources == 2:
            narrow, last = [decoder.operands[1]], decoder.operands[2]
        reads = [values(decoder.read(each, kind), kind) for each in narrow] + [decoder.read(last, Type.F32)]
        write = decoder.write(decoder.operands[0], Type.F32)
        return lambda machine: write(machine, canonical(chosen(*[read(machine) for read in reads])))

    return build


def _by_types(half: Callable[[Decoder], Step], mixed: Callable[[Decoder], Step]) -> Callable[[Decoder], Step]:
    """Two types make an instruction of mixed precision."""

    def build(decoder: Decoder) -> Step:
        if len(decoder.kinds) == 1:
            return half(decoder)
        decoder.since(100, "arithmetic of mixed precision")
        return mixed(decoder)

    return build


def _entry(name: str, build: Callable[[Decoder], Step], types: str = HALVES, since: int = 0, ulps: int = 0) -> Entry:
    bound = Approximation(FITTED, ulps) if ulps else None
    section = _FLOAT if types == "f32x2" else _HALF
    return Entry(build, f"{section}: {name}", types_of(types), since, bound)


def _row(name: str, function: Function, sources: int) -> tuple[Entry, ...]:
    half, pair = _arithmetic(sources), _pairs32(function, sources)
    build = _by_types(half, _mixed(function, sources)) if name != "mul" else half
    return (_entry(name, build), _entry(name, pair, "f32x2", since=100))


TABLE: dict[str, tuple[Entry, ...]] = {
    "add": _row("add", np.add, 2),
    "sub": _row("sub", np.subtract, 2),
    "mul": _row("mul", np.multiply, 2),
    "fma": _row("fma", floats.fma32, 3),
    "min": (_entry("min", _extreme(floats.minimum), since=80),),
    "max": (_entry("max", _extreme(floats.maximum), since=80),),
    "neg": (_entry("neg", _on_bits(np.bitwise_xor)),),
    "abs": (_entry("abs", _on_bits(lambda x, signs: np.bitwise_and(x, ~signs))),),
    "ex2": (_entry("ex2", _approximate("ex2"), since=75, ulps=1),),
    "tanh": (_entry("tanh", _approximate("tanh"), since=75, ulps=1),),
}
