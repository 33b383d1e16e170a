"""Integer arithmetic.

Source: PTX ISA, "Integer Arithmetic Instructions" and "Extended-Precision Integer Arithmetic Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from portkit.emulate.core import integers
from portkit.emulate.ptx.decode import Decoder, Step
from portkit.emulate.ptx.isa.registry import Entry
from portkit.emulate.ptx.isa.rows import Function, computed, plain, row
from portkit.emulate.ptx.machine import Array, Machine
from portkit.emulate.ptx.types import TYPES, Type, types_of

_ARITHMETIC = "Integer Arithmetic Instructions"
_EXTENDED = "Extended-Precision Integer Arithmetic Instructions"

SIXTEEN_UP = "u16 u32 u64 s16 s32 s64"
THIRTY_TWO_UP = "u32 u64 s32 s64"
BITS = "b32 b64"

_WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


def _saturable(exact: Callable[[Array, Array], Array], wrapping: Function) -> Callable[[Decoder], Function]:
    """Of s32, with .sat held within the type."""

    def saturated(a: Array, b: Array) -> Array:
        wide = exact(np.asarray(a).astype(np.int64), np.asarray(b).astype(np.int64))
        return np.clip(wide, -(1 << 31), (1 << 31) - 1).astype(np.int32)

    def choose(decoder: Decoder) -> Function:
        return saturated if decoder.kind is Type.S32 and decoder.has("sat") else wrapping

    return choose


# -- products


def high_product(a: Array, b: Array, kind: Type) -> Array:
    """Upper half of the product of two integers."""
    if kind.bits < 64:
        wide = np.dtype(f"{kind.dtype.kind}{kind.bytes * 2}")
        product = np.asarray(a).astype(wide) * np.asarray(b).astype(wide)
        return np.asarray(product >> wide.type(kind.bits)).astype(kind.dtype)
    high = _high64(np.asarray(a).view(np.uint64), np.asarray(b).view(np.uint64))
    if kind.signed:
        high = high - np.where(np.asarray(a) < 0, np.asarray(b).view(np.uint64), np.uint64(0))
        high = high - np.where(np.asarray(b) < 0, np.asarray(a).view(np.uint64), np.uint64(0))
    return np.asarray(high).view(kind.dtype)


def _high64(a: Array, b: Array) -> Array:
    """Of two uint64, by halves."""
    low, up = np.uint64(0xFFFF_FFFF), np.uint64(32)
    a_low, a_high, b_low, b_high = a & low, a >> up, b & low, b >> up
    first = a_high * b_low + ((a_low * b_low) >> up)
    second = a_low * b_high + (first & low)
    return np.asarray(a_high * b_high + (first >> up) + (second >> up))


def _product(decoder: Decoder) -> tuple[Function, Type]:
    """The function of two factors, and the type of its result."""
    kind = decoder.kind
    part = decoder.required("lo", "hi", "wide")
    if part == "lo":
        return np.multiply, kind
    if part == "hi":
        return lambda a, b: high_product(a, b, kind), kind
    if kind.suffix not in _WIDER:
        raise decoder.unsupported(f"a product wider than .{kind.suffix}")
    wide = TYPES[_WIDER[kind.suffix]]
    return lambda a, b: np.multiply(a, b, dtype=wide.dtype), wide


def _multiply(decoder: Decoder) -> Step:
    decoder.need(3)
    function, result = _product(decoder)
    return computed(decoder, function, result, [decoder.kind] * 2)


def _multiply_add(decoder: Decoder) -> Step:
    decoder.need(4)
    function, result = _product(decoder)
    if decoder.kind is Type.S32 and decoder.has("sat"):
        raise decoder.unsupported("modifier .sat of mad")
    return computed(decoder, lambda a, b, c: function(a, b) + c, result, [decoder.kind, decoder.kind, result])


def _low24(x: Array) -> Array:
    """The low 24 bits, by the sign of the type, as int64."""
    bits = np.asarray(x).astype(np.int64)
    return bits & 0xFF_FFFF if np.asarray(x).dtype.kind == "u" else ((bits & 0xFF_FFFF) ^ 0x80_0000) - 0x80_0000


def _product24(decoder: Decoder) -> Function:
    shift = 16 if decoder.required("lo", "hi") == "hi" else 0
    dtype = decoder.kind.dtype
    return lambda a, b: np.asarray(_low24(a) * _low24(b) >> shift).astype(dtype)


def _multiply_add24(decoder: Decoder) -> Function:
    product = _product24(decoder)
    return lambda a, b, c: product(a, b) + c


# -- quotients


def divide(a: Array, b: Array) -> Array:
    """Quotient toward zero; by zero, all bits set, as devices give (the document leaves it open)."""
    a, b = np.asarray(a), np.asarray(b)
    zero = b == 0
    divisor = np.where(zero, b.dtype.type(1), b)
    quotient = a // divisor
    if a.dtype.kind == "i":
        quotient = quotient + ((a - quotient * divisor != 0) & ((a < 0) != (divisor < 0)))
    return np.where(zero, a.dtype.type(-1) if a.dtype.kind == "i" else ~a.dtype.type(0), quotient)


def remainder(a: Array, b: Array) -> Array:
    """Of division toward zero; by zero all ones, as an H200 gives it."""
    a, b = np.asarray(a), np.asarray(b)
    zero = b == 0
    return np.where(zero, ~b.dtype.type(0), np.fmod(a, np.where(zero, b.dtype.type(1), b)))


# -- bits


def leading_zeros(x: Array) -> Array:
    """Zeros above the highest set bit; the width for 0."""
    x = np.asarray(x)
    if x.dtype.itemsize == 4:
        return np.where(x == 0, np.uint32(32), integers.leading_zeros(x)).astype(np.uint32)
    high = (x >> np.uint64(32)).astype(np.uint32)
    low = leading_zeros(x.astype(np.uint32)) + np.uint32(32)
    return np.where(high != 0, leading_zeros(high), low).astype(np.uint32)


def find_highest(kind: Type, shift: bool) -> Function:
    """bfind: place of the highest bit that is not the sign; all ones where there is none."""

    def function(x: Array) -> Array:
        bits = np.asarray(x)
        folded = np.where(bits < 0, ~bits, bits) if kind.signed else bits
        zeros = leading_zeros(np.asarray(folded).view(f"u{kind.bytes}"))
        found = zeros if shift else np.uint32(kind.bits - 1) - zeros
        return np.where(zeros == kind.bits, np.uint32(0xFFFF_FFFF), found)

    return function


def reverse(x: Array) -> Array:
    """Bits in reverse order."""
    x = np.asarray(x)
    if x.dtype.itemsize == 4:
        return integers.reverse_bits(x)
    low = integers.reverse_bits(x.astype(np.uint32)).astype(np.uint64)
    return (low << np.uint64(32)) | integers.reverse_bits((x >> np.uint64(32)).astype(np.uint32)).astype(np.uint64)


def _place_and_length(kind: Type, place: Array, length: Array) -> tuple[Array, Array]:
    """Of 32 bits, the low 8 bits of both count, of 64 all of them, as on an H200; the document stops at 255."""
    both = (np.asarray(each).astype(np.int64) for each in (place, length))
    first, second = (each & 255 if kind.bits < Type.B64.bits else np.minimum(each, 255) for each in both)
    return first, second


def extract(kind: Type) -> Function:
    """bfe: a field of some bits from a place on; beyond the top, zeros, or the sign."""

    def function(x: Array, place: Array, length: Array) -> Array:
        place, length = _place_and_length(kind, place, length)
        x = np.asarray(x)
        if not kind.signed and not place.ndim and not length.ndim and place < kind.bits > length:  # as mostly
            return np.asarray((x >> kind.dtype.type(place)) & kind.dtype.type((1 << int(length)) - 1))
        start, size = np.minimum(place, kind.bits - 1), np.minimum(length, kind.bits)
        if not kind.signed:
            shifted = np.where(place >= kind.bits, kind.dtype.type(0), x >> start.astype(kind.dtype))
            return np.where(size >= kind.bits, shifted, shifted & _ones(size, kind))
        last = np.minimum(start + size, kind.bits) - np.where(place >= kind.bits, 0, start)
        up = np.clip(kind.bits - last - start, 0, kind.bits - 1)
        moved = (x << up.astype(kind.dtype)) >> np.clip(kind.bits - last, 0, kind.bits - 1).astype(kind.dtype)
        sign = x >> kind.dtype.type(kind.bits - 1)
        return np.where(length == 0, kind.dtype.type(0), np.where(place >= kind.bits, sign, moved))

    return function


def _ones(count: Array, kind: Type) -> Array:
    """Words with that many low bits set; fewer than all."""
    one = kind.dtype.type(1)
    return np.asarray((one << np.minimum(count, kind.bits - 1).astype(kind.dtype)) - one)


def insert(kind: Type) -> Function:
    """bfi: put the low bits of one value into another."""

    def function(a: Array, b: Array, place: Array, length: Array) -> Array:
        place, length = _place_and_length(kind, place, length)
        size = np.clip(np.minimum(length, kind.bits - place), 0, kind.bits)
        ones = np.where(size >= kind.bits, ~kind.dtype.type(0), _ones(size, kind))
        at = np.minimum(place, kind.bits - 1).astype(kind.dtype)
        return (np.asarray(b) & ~(ones << at)) | ((np.asarray(a) & ones) << at)

    return function


def _bit_field(of: Callable[[Type], Function], sources: int) -> Callable[[Decoder], Step]:
    """Instructions whose last two sources are a place and a length."""

    def build(decoder: Decoder) -> Step:
        decoder.need(sources + 1)
        kinds = [decoder.kind] * (sources - 2) + [Type.U32] * 2
        return computed(decoder, of(decoder.kind), decoder.kind, kinds)

    return build


def _counted(function: Function) -> Callable[[Decoder], Step]:
    """Instructions whose result is a u32."""

    def build(decoder: Decoder) -> Step:
        decoder.need(2)
        return computed(decoder, function, Type.U32, [decoder.kind])

    return build


def _find(decoder: Decoder) -> Step:
    decoder.need(2)
    return computed(decoder, find_highest(decoder.kind, decoder.has("shiftamt")), Type.U32, [decoder.kind])


def _bit_mask(decoder: Decoder) -> Step:
    """bmsk: ones of a length from a place on."""
    decoder.need(3)
    wraps = decoder.required("clamp", "wrap") == "wrap"

    def function(place: Array, length: Array) -> Array:
        start, size = np.asarray(place).astype(np.int64), np.asarray(length).astype(np.int64)
        start, size = (start & 31, size & 31) if wraps else (np.minimum(start, 32), np.minimum(size, 32))
        return np.asarray(((1 << size) - 1) << start).astype(np.uint32)

    return computed(decoder, function, Type.B32, [Type.U32] * 2)


def _extend(decoder: Decoder) -> Step:
    """szext: the low bits, extended."""
    decoder.need(3)
    wraps = decoder.required("clamp", "wrap") == "wrap"
    kind = decoder.kind

    def function(x: Array, size: Array) -> Array:
        width = np.asarray(size).astype(np.int64)
        width = width & 31 if wraps else np.minimum(width, 32)
        low = np.asarray(x).astype(np.int64) & ((1 << width) - 1)
        if kind.signed:
            half = np.where(width > 0, np.int64(1) << np.maximum(width - 1, 0), 0)
            low = (low ^ half) - half
        return np.asarray(low).astype(np.uint32).view(kind.dtype)

    return computed(decoder, function, kind, [kind, Type.U32])


def _absolute_difference(a: Array, b: Array, c: Array) -> Array:
    """Sad."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    return np.asarray(c + (high - low))


# -- dot products of bytes


def _parts(words: Array, bits: int, signed: bool) -> Array:
    """``[..., parts]`` of words, as int64."""
    code = f"{'i' if signed else 'u'}{bits // 8}"
    raw = np.ascontiguousarray(words).view(np.uint32).reshape(-1)
    return raw.view(code).reshape(-1, 32 // bits).astype(np.int64)


def _dot(decoder: Decoder) -> Step:
    """dp4a and dp2a: the two types are those of a and b."""
    decoder.need(4)
    four = decoder.instruction.opcode == "dp4a"
    high = not four and decoder.required("lo", "hi") == "hi"
    if len(decoder.kinds) != 2:
        raise decoder.unsupported(f"{len(decoder.kinds)} types")
    left, right = (kind.signed for kind in decoder.kinds)
    kind = Type.S32 if left or right else Type.U32

    def function(a: Array, b: Array, c: Array) -> Array:
        one = _parts(np.atleast_1d(a), 8 if four else 16, left)
        other = _parts(np.atleast_1d(b), 8, right)
        if not four:
            other = other[:, 2:] if high else other[:, :2]
        total = (one * other).sum(axis=-1) + np.asarray(c).astype(np.int64)
        return np.asarray(total).astype(np.uint32).view(kind.dtype)

    return computed(decoder, function, kind, [Type.B32, Type.B32, kind])


# -- with carry


class _Carry:
    """The condition code of each thread."""

    def __init__(self, machine: Machine) -> None:
        self.bit: Array = np.zeros(machine.threads, np.uint64)


def _carrying(subtract: bool, product: bool) -> Callable[[Decoder], Step]:
    """add.cc, addc, sub.cc, subc, mad.cc, madc, of 32 bits, and of 64 by halves."""

    def build(decoder: Decoder) -> Step:
        kind = decoder.kind
        takes, sets = decoder.instruction.opcode.endswith("c"), decoder.has("cc")
        part = decoder.required("lo", "hi") if product else "lo"
        decoder.need(4 if product else 3)
        raw = TYPES[f"u{kind.bits}"]

        def total(machine: Machine, *values: Array) -> Array:
            words = [machine.spread(np.asarray(value)) for value in values]
            if product:
                first = high_product(words[0], words[1], kind) if part == "hi" else words[0] * words[1]
                words = [first, words[2]]
            a, b = (np.asarray(word).view(raw.dtype) for word in words)
            return _with_carry(machine, a, b, takes, sets, subtract)

        reads = [decoder.read(operand, kind) for operand in decoder.operands[1:]]
        write = decoder.write(decoder.operands[0], raw)
        return lambda machine: write(machine, total(machine, *[read(machine) for read in reads]))

    return build


def _with_carry(machine: Machine, a: Array, b: Array, takes: bool, sets: bool, subtract: bool) -> Array:
    """Sum or difference of unsigned words with the carry that comes in; keeps the one that goes out."""
    carries = machine.unit(_Carry).bit
    coming = carries[machine.select].astype(a.dtype) if takes else a.dtype.type(0)
    if subtract:
        result = a - b - coming
        out = (a < b) | ((a == b) & (coming != 0))
    else:
        result = a + b + coming
        out = (result < a) | ((result == a) & (coming != 0))
    if sets:
        carries[machine.select] = out
    return np.asarray(result)


def _either(plain_row: Callable[[Decoder], Step], carrying: Callable[[Decoder], Step]) -> Callable[[Decoder], Step]:
    """By whether the instruction sets the condition code."""

    def build(decoder: Decoder) -> Step:
        return carrying(decoder) if "cc" in decoder.instruction.modifiers else plain_row(decoder)

    return build


def _with_cc(entry: Entry, *, subtract: bool = False, product: bool = False) -> Entry:
    build = _either(entry.build, _carrying(subtract, product))
    return Entry(build, entry.section, entry.types, entry.since)


def _arithmetic(name: str, function: Function, sources: int, types: str = SIXTEEN_UP) -> Entry:
    return row(plain(function), types, f"{_ARITHMETIC}: {name}", sources=sources)


def _built(
    name: str, build: Callable[[Decoder], Step], types: str, section: str = _ARITHMETIC, since: int = 0
) -> Entry:
    return Entry(build, f"{section}: {name}", types_of(types), since)


def _negated(x: Array) -> Array:
    return np.negative(x)


_ADD = row(_saturable(np.add, np.add), SIXTEEN_UP, f"{_ARITHMETIC}: add", sources=2)
_SUB = row(_saturable(np.subtract, np.subtract), SIXTEEN_UP, f"{_ARITHMETIC}: sub", sources=2)

TABLE: dict[str, tuple[Entry, ...]] = {
    "add": (_with_cc(_ADD),),
    "sub": (_with_cc(_SUB, subtract=True),),
    "addc": (_built("addc", _carrying(False, False), THIRTY_TWO_UP, _EXTENDED),),
    "subc": (_built("subc", _carrying(True, False), THIRTY_TWO_UP, _EXTENDED),),
    "madc": (_built("madc", _carrying(False, True), THIRTY_TWO_UP, _EXTENDED),),
    "mul": (_built("mul", _multiply, SIXTEEN_UP),),
    "mad": (_with_cc(_built("mad", _multiply_add, SIXTEEN_UP), product=True),),
    "mul24": (row(_product24, "u32 s32", f"{_ARITHMETIC}: mul24", sources=2),),
    "mad24": (row(_multiply_add24, "u32 s32", f"{_ARITHMETIC}: mad24", sources=3),),
    "sad": (_arithmetic("sad", _absolute_difference, 3),),
    "div": (_arithmetic("div", divide, 2),),
    "rem": (_arithmetic("rem", remainder, 2),),
    "abs": (_arithmetic("abs", np.abs, 1, "s16 s32 s64"),),
    "neg": (_arithmetic("neg", _negated, 1, "s16 s32 s64"),),
    "min": (_arithmetic("min", np.minimum, 2),),
    "max": (_arithmetic("max", np.maximum, 2),),
    "popc": (_built("popc", _counted(np.bitwise_count), BITS),),
    "clz": (_built("clz", _counted(leading_zeros), BITS),),
    "bfind": (_built("bfind", _find, THIRTY_TWO_UP),),
    "brev": (_arithmetic("brev", reverse, 1, BITS),),
    "bfe": (_built("bfe", _bit_field(extract, 3), THIRTY_TWO_UP),),
    "bfi": (_built("bfi", _bit_field(insert, 4), BITS),),
    "bmsk": (_built("bmsk", _bit_mask, "b32"),),
    "szext": (_built("szext", _extend, "u32 s32"),),
    "dp4a": (_built("dp4a", _dot, "u32 s32"),),
    "dp2a": (_built("dp2a", _dot, "u32 s32"),),
}
