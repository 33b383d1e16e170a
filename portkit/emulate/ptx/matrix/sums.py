"""How tensor cores sum products: aligned to the largest exponent, cut, and rounded at the end.

Of a group of products and the addend, each is shifted to the largest exponent among them and cut towards zero behind a
fixed number of fraction bits; the sum of what is left is exact, and is brought to the result's format. A product's
exponent is the sum of its factors' exponents, and it may be as large as four.

Sources: Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores", 2025 (arXiv 2512.07004); Xie et al., "MMA-Sim:
Bit-Accurate Reference Model of Tensor Cores and Matrix Cores", 2025 (arXiv 2511.10909). For sm_90 the parameters were
found again from results of an H200, every one of which they give.
"""

from __future__ import annotations

import enum
import functools
import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from portkit.emulate.ptx.matrix.formats import NOTHING, Array, Terms, exponents_of

CANONICAL_NAN = np.uint32(0x7FFF_FFFF)
"""The NaN that matrix instructions give."""

_CANONICAL_HALF = np.uint16(0x7FFF)


class Result(enum.Enum):
    """What a sum is brought to."""

    F32 = "float32, cut"
    SHORT = "float32 of 13 fraction bits, cut"
    F16 = "float16, to nearest even"


@dataclass(frozen=True)
class Model:
    """How one matrix instruction sums."""

    group: int  # products that are summed at once; the groups follow one another
    fraction: int  # bits that are kept behind the largest exponent
    result: Result = Result.F32

    @property
    def places(self) -> int:
        """Fraction bits of a result of float32."""
        return 13 if self.result is Result.SHORT else 23

    def into_half(self) -> Model:
        """The same with results of float16."""
        return Model(self.group, self.fraction, Result.F16)


_BLOCK = 1 << 19
"""Products that are worked on at once, so that they stay in the cache."""

_BUFFER = 1024
"""Elements for which NumPy buffers what it broadcasts, which is slower than its loops where these are as long."""

_LONG = 32
"""Columns that are many enough for loops over them, where the batch is smaller."""

_MOST_BESIDE = 8
"""Of A, there are as many copies as columns lie beside each other."""

_NARROW = 60
"""Exponents of products within which float32 holds them and their multiples."""

_BIAS = 127
"""What float32 adds to exponents."""

_LEAST = _BIAS - 90
"""A biased exponent that stands for all that are smaller, beside products of narrow exponents."""

_MANTISSA = np.uint32(23)
_EXPONENT = np.uint32(0xFF << 23)
_LOWEST, _HIGHEST = np.uint32(_LEAST << 23), np.uint32(_BIAS + _NARROW << 23)
"""Where float32 has its exponent, and the bounds of narrow ones there."""

_POWERS = np.ldexp(1.0, np.arange(-1074, 1024))


def power(exponents: Array) -> Array:
    """2 to an integer power, as float64, at most 2^1023."""
    return _POWERS.take(np.minimum(np.asarray(exponents, np.int32), 1023) + 1074, mode="clip")


Parts: TypeAlias = tuple[Sequence[int], Sequence[int]]
"""Of A and of B: numbers of the parts of its batch that lie side by side in the addend's."""


def multiply(
    a: Terms, b: Terms, addend: Array, model: Model, parts: Parts | None = None, least: int | None = None
) -> Array:
    """A·Bᵀ + C as a tensor core computes it.

    Args:
        a: ``[depth, rows, batch]``.
        b: ``[depth, columns, batch]``. Without parts, a batch may be shorter by a factor, each for so many neighbours.
        addend: float32, or float16 where the results are: ``[rows, columns, batch]``.
        model: of the instruction. A greater depth is that of instructions that follow one another.
        parts: of the factors' batches that the addend's is for.
        least: exponent of a bit below which no product has any, where that is known.

    Returns:
        Of the addend's type and shape.
    """
    way, (of_a, of_b) = _way(a, b, model), parts or (None, None)
    batch = addend.shape[-1]
    if least is not None and way.uncut(least, model):
        whole = _uncut_sums(a.laid(batch, of_a).values, b.laid(batch, of_b).values, addend, model, least)
        if whole is not None:
            return whole
    left, right = way.factor(a, 0).laid(batch, of_a), way.factor(b, 1).laid(batch, of_b)
    if batch < _LONG <= addend.shape[1]:
        rows, columns = left.turned().whole(), right.turned().whole()
        total = _sums(rows.spread(3), columns.spread(2), np.ascontiguousarray(addend.transpose(2, 0, 1)), model, way)
        return total.transpose(1, 2, 0)
    times = _beside(*addend.shape[1:])
    if times > 1:
        left, right = left.over(times), right.folded(times)
    total = addend.reshape(addend.shape[0], -1, times * batch)
    return _sums(left.spread(2), right.spread(1), total, model, way).reshape(addend.shape)


def _sums(left: Terms, right: Terms, total: Array, model: Model, way: _Way) -> Array:
    """Sums of all groups, one after the other; factors are ``[depth, *total.shape]``, size 1 for the other's axes."""
    before = np.setbufsize(_BUFFER)
    try:
        for start in range(0, left.values.shape[0], model.group):
            end = start + model.group
            total = _group(left.part(start, end), right.part(start, end), total, model, way)
    finally:
        np.setbufsize(before)
    return total


def _beside(columns: int, batch: int) -> int:
    """How many columns lie beside each other in a batch, so that NumPy's inner loops are long."""
    times = 1
    while batch > 1 and times < _MOST_BESIDE and times * batch < _BUFFER and columns % (2 * times) == 0:
        times *= 2
    return times


def _uncut_sums(left: Array, right: Array, addend: Array, model: Model, least: int) -> Array | None:
    """Sums of which nothing is cut but results: a matter of matrix products. None where an addend may be cut.

    Args:
        left: ``[depth, rows, batch]``, of numbers whose products have no bit below that of ``least``.
        right: ``[depth, columns, batch]``.
        addend: as of ``multiply``.
        model: of the instruction.
        least: as of ``multiply``.
    """
    x, y = left.astype(np.float64).transpose(2, 1, 0), right.astype(np.float64).transpose(2, 0, 1)
    total = addend.transpose(2, 0, 1).astype(np.float64)
    if not _multiples(total, least):
        return None
    most = 2.0 ** (least + model.fraction + 1)
    for start in range(0, len(left), model.group):
        if not np.abs(total).max(initial=0.0) < most:
            return None
        part = slice(start, start + model.group)
        total += np.matmul(x[:, :, part], y[:, part])
        total += 0.0  # so that a sum is no negative zero
        bits = total.view(np.uint64)
        bits &= _kept(model)
    return total.astype(np.float32).transpose(1, 2, 0)


def _multiples(numbers: Array, least: int) -> bool:
    """Whether no number has a bit below that of ``least``."""
    with np.errstate(invalid="ignore"):  # of NaN, which is no number's multiple
        scaled = numbers * 2.0**-least
        return bool((scaled == np.trunc(scaled)).all())


def multiply_through_halves(
    a: Terms, b: Terms, addend: Array, model: Model, parts: Parts | None = None, least: int | None = None
) -> Array:
    """A·Bᵀ + C where 8-bit factors become float16: the even pairs of the depth, the odd ones, and the addend, rounded.

    Found from results of an H200: ``mma.sync`` of 8-bit floats is three instructions there. Arguments as of
    ``multiply``.
    """
    depth = np.arange(a.values.shape[0])
    order = np.concatenate([depth[depth % 4 < 2], depth[depth % 4 >= 2]])
    x, y = (Terms(each.values[order], each.exponents[order]) for each in (a, b))
    products = multiply(x, y, np.zeros(addend.shape, addend.dtype), model, parts, least)
    with np.errstate(invalid="ignore", over="ignore"):
        total = products + addend
    total[np.isnan(total)] = canonical_nan(addend.dtype)
    return total


# -- in which numbers


@dataclass(frozen=True)
class _Way:
    """The numbers that hold the products of one instruction, by the range of its factors.

    Attributes:
        finite: whether all factors are.
        narrow: whether float32 holds all products, scaled.
        largest: exponents of A and of B from which theirs are counted in 8 bits; None where that does not hold them.
        zeros: whether a factor may be zero.
        highest: exponent of the largest product, or a higher one.
    """

    finite: bool
    narrow: bool
    largest: tuple[int, int] | None
    zeros: bool
    highest: int

    def uncut(self, least: int, model: Model) -> bool:
        """Whether products are summed as they are, none having a bit below that of ``least``."""
        return self.finite and model.result is Result.F32 and self.highest - model.fraction <= least

    def factor(self, terms: Terms, which: int) -> Terms:
        """A (0) or B (1) with exponents as ``tops`` takes them."""
        if self.largest is None:
            return terms
        base = self.largest[which]
        near: Array = np.maximum(terms.exponents, np.int16(base - _ABSENT)) - np.int16(base)
        return Terms(terms.values, near.astype(np.int8))

    def tops(self, sums: Array) -> Array:
        """Largest exponents of products, of the sums of factors' exponents; int32, ``_FAR_BELOW`` of zeros."""
        top = np.maximum.reduce(sums, axis=0)
        if self.largest is None:
            return np.where(top < -_FAR, _FAR_BELOW, top.astype(np.int32))
        return _near_tops(sum(self.largest)).take(top.view(np.uint8))

    def narrow_tops(self, sums: Array) -> Array:
        """As ``tops``, where float32 has its exponent: uint32, 0 of zeros."""
        top = np.maximum.reduce(sums, axis=0)
        if self.largest is None:
            biased = np.where(top < -_FAR, 0, top.astype(np.int32) + _BIAS)
            return biased.astype(np.uint32) << _MANTISSA
        found: Array = top.astype(np.uint32)
        found += np.uint32(sum(self.largest) + _BIAS)
        found <<= _MANTISSA
        if self.zeros:
            np.copyto(found, np.uint32(0), where=top < -2 * _SPAN)
        return found


_SPAN, _ABSENT = 31, 64
"""Exponents within such a span are counted in 8 bits, and zeros lie so far below the largest."""

_FAR, _FAR_BELOW = 2000, -(1 << 14)
"""Sums of exponents with a zero among them are below that, and become this."""


@functools.lru_cache(maxsize=1024)
def _near_tops(base: int) -> Array:
    """By the bits of an ``int8`` counted from ``base``; a sum with a zero in it is below all others."""
    near: Array = np.arange(256).astype(np.uint8).view(np.int8).astype(np.int32)
    return np.where(near < -2 * _SPAN, np.int32(_FAR_BELOW), near + np.int32(base))


def _way(a: Terms, b: Terms, model: Model) -> _Way:
    finite = bool(np.isfinite(a.values).all() and np.isfinite(b.values).all())
    ranges = _range(a.exponents), _range(b.exponents)
    low, high = (sum(each) for each in zip(*ranges, strict=True))
    narrow = finite and model.result is not Result.F16 and low >= -_NARROW and high <= _NARROW
    close = all(top - bottom <= _SPAN for bottom, top in ranges)
    zeros = any(each.exponents.min(initial=0) == NOTHING for each in (a, b))
    return _Way(finite, narrow, (ranges[0][1], ranges[1][1]) if close else None, zeros, high)


def _range(exponents: Array) -> tuple[int, int]:
    """The smallest and the largest exponent of numbers that are not zero."""
    high = int(exponents.max(initial=NOTHING))
    if high == NOTHING:
        return 0, 0
    above = (exponents - (NOTHING + np.int16(1))).view(np.uint16)  # of zero, the largest of all
    return int(above.min()) + int(NOTHING) + 1, high


# -- sums


def _group(left: Terms, right: Terms, addend: Array, model: Model, way: _Way) -> Array:
    """Of one group of products."""
    if left.values.shape[0] * addend.size <= _BLOCK:
        return _part(left, right, addend, model, way)
    result = np.empty(addend.shape, addend.dtype)
    for part in _parts(left.values.shape[0], addend.shape):
        result[part] = _part(left.within(part), right.within(part), addend[part], model, way)
    return result


def _part(left: Terms, right: Terms, addend: Array, model: Model, way: _Way) -> Array:
    narrow = _narrow(left, right, addend, model, way) if way.narrow else None
    return _any(left, right, addend, model, way) if narrow is None else narrow


def _parts(depth: int, shape: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """Parts along the first two axes, of so many products that they stay in the cache."""
    first, second, third = shape
    wide = max(1, min(second, _BLOCK // max(1, depth * third)))
    high = max(1, _BLOCK // max(1, depth * third * wide)) if wide == second else 1
    for row in range(0, first, high):
        for column in range(0, second, wide):
            yield slice(row, row + high), slice(column, column + wide)


class _Scratch(threading.local):
    """Arrays that one part after the other is worked out in: they stay in the cache, which new ones would not."""

    def __init__(self) -> None:
        self._kept: dict[type[np.generic], Array] = {}

    def of(self, kind: type[np.generic], shape: tuple[int, ...]) -> Array:
        """An array of a type, of which there is one at a time; it holds anything."""
        size = math.prod(shape)
        if kind not in self._kept or self._kept[kind].size < size:
            self._kept[kind] = np.empty(size, kind)
        return self._kept[kind][:size].reshape(shape)


_SCRATCH = _Scratch()


def _exponent_sums(left: Terms, right: Terms, shape: tuple[int, ...]) -> Array:
    kind = left.exponents.dtype.type
    return np.add(left.exponents, right.exponents, out=_SCRATCH.of(kind, (left.values.shape[0], *shape)))


def _narrow(left: Terms, right: Terms, addend: Array, model: Model, way: _Way) -> Array | None:
    """In float32 and 32-bit integers; None where an addend is too large for that, or too small beside nothing.

    Exponents stay where float32 has them.
    """
    top = addend.view(np.uint32) & _EXPONENT
    np.maximum(top, way.narrow_tops(_exponent_sums(left, right, addend.shape)), out=top)
    if top.max(initial=0) > _HIGHEST:
        return None
    if top.min(initial=_HIGHEST) < _LOWEST:
        if addend[top < _LOWEST].any():
            return None
        np.maximum(top, _LOWEST, out=top)
    scale = (np.uint32(2 * _BIAS + model.fraction << 23) - top).view(np.float32)
    products = _products(left.values, right.values, addend.shape)
    products *= scale
    exact = _total(products, model).astype(np.float64)
    exact += np.trunc(np.multiply(addend, scale, out=scale), out=scale)
    bits = exact.view(np.uint64)
    bits &= _kept(model)
    result = exact.astype(np.float32)
    top -= np.uint32(model.fraction << 23)
    result *= top.view(np.float32)
    return result


def _products(left: Array, right: Array, shape: tuple[int, ...]) -> Array:
    """Products as float32; the sign of a zero is lost."""
    out = _SCRATCH.of(np.float32, (left.shape[0], *shape))
    if left.shape[-1] == 1 and left.dtype == right.dtype == np.float32:  # one number times many: einsum is faster
        return np.einsum("dabc,dabc->dabc", left, right, out=out)
    return np.multiply(left, right, out=out)


def _any(left: Terms, right: Terms, addend: Array, model: Model, way: _Way) -> Array:
    """In float64, of any numbers."""
    with np.errstate(invalid="ignore", over="ignore"):  # of what is not finite, and judged below
        own = exponents_of(addend, -14 if addend.dtype == np.float16 else -126).astype(np.int32)
        top = np.maximum(way.tops(_exponent_sums(left, right, addend.shape)), own)
        top = np.where(top <= -_FAR, 0, top)
        products = left.values.astype(np.float64) * right.values
        products *= power(np.minimum(model.fraction - top, 1000))
        result = _rounded(_total(products, model) + _whole(addend, model.fraction - top), top, model)
        special = ~np.isfinite(addend)
        if not way.finite:
            special |= ~np.isfinite(left.values).all(axis=0) | ~np.isfinite(right.values).all(axis=0)
        if special.any():
            result[special] = _not_finite(left, right, addend)[special]
    return result


def _total(scaled: Array, model: Model) -> Array:
    """Sum over the first axis of products cut to whole numbers, each below 2^(fraction + 2)."""
    cut = _SCRATCH.of(np.int32, scaled.shape)
    np.copyto(cut, scaled, casting="unsafe")
    most = (1 << 31) >> (model.fraction + 2)  # of which 32 bits hold the sum
    sums = [np.add.reduce(cut[start : start + most], axis=0, dtype=np.int32) for start in range(0, len(cut), most)]
    return functools.reduce(lambda one, other: np.add(one, other, dtype=np.int64), sums)


def _whole(addend: Array, shift: Array) -> Array:
    scaled = np.where(np.isfinite(addend), addend, 0).astype(np.float64) * power(shift)
    return scaled.astype(np.int64)


def _rounded(total: Array, top: Array, model: Model) -> Array:
    """The sums in the result's format."""
    exact = total.astype(np.float64) * power(top - model.fraction)
    if model.result is Result.F16:
        return exact.astype(np.float16)
    return cut_to_float32(exact, model.places)


def _kept(model: Model) -> np.uint64:
    """Bits of a float64 that a result keeps."""
    return ~np.uint64((1 << (52 - model.places)) - 1)


def cut_to_float32(exact: Array, fraction: int = 23) -> Array:
    """Float64 to float32 towards zero, with some of its fraction bits."""
    bits = exact.view(np.uint64) & ~np.uint64((1 << (52 - fraction)) - 1)
    cut = bits.view(np.float64)
    small = np.abs(cut) < 2.0**-126
    if small.any():
        cut = np.where(small, np.trunc(exact * 2.0 ** (126 + fraction)) * 2.0 ** -(126 + fraction), cut)
    with np.errstate(over="ignore"):
        return cut.astype(np.float32)


def _not_finite(left: Terms, right: Terms, addend: Array) -> Array:
    """Sums with infinities or NaN among their terms."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = (left.values.astype(np.float64) * right.values).sum(axis=0) + addend
        result = total.astype(addend.dtype)
    result[np.isnan(total)] = canonical_nan(addend.dtype)
    return result


def canonical_nan(kind: np.dtype[np.floating]) -> Array:
    """The NaN of matrix instructions, as float32 or float16."""
    return _CANONICAL_HALF.view(np.float16) if kind == np.float16 else CANONICAL_NAN.view(np.float32)


def multiply_integers(a: Terms, b: Terms, addend: Array, saturate: bool = False, parts: Parts | None = None) -> Array:
    """A·Bᵀ + C of integers of at most 8 bits, of which float32 holds the sum of 64 products exactly.

    Args:
        a: ``[depth, rows, batch]``.
        b: ``[depth, columns, batch]``.
        addend: ``int32[rows, columns, batch]``.
        saturate: stop at the largest and the smallest result, where others wrap around.
        parts: of the factors' batches, as in ``multiply``.
    """
    of_a, of_b = parts or (None, None)
    x, y = a.laid(addend.shape[-1], of_a).values, b.laid(addend.shape[-1], of_b).values
    products: Array = np.matmul(x.transpose(2, 1, 0), y.transpose(2, 0, 1)).astype(np.int64)
    total = products.transpose(1, 2, 0) + addend
    return np.clip(total, -(1 << 31), (1 << 31) - 1).astype(np.int32) if saturate else total.astype(np.int32)
