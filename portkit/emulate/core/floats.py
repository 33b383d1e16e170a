"""Floating-point operations as GPUs define them, on NumPy arrays.

Results are rounded to nearest even, once. Where a float64 sum would round a first time, the first rounding
is made to odd, after which the second one is exact (Boldo and Melquiond, Emulation of a FMA and correctly
rounded sums, 2008).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

SMALLEST_NORMAL = np.float32(2.0**-126)

_HALF_OF_FLOAT32, _BEHIND_FLOAT32 = 0x1000_0000, 0x1FFF_FFFF
"""The 29 bits that float64 has more than float32: where they say exactly one half, and all of them."""


def to_odd(total: Array, error: Array, where: Array) -> Array:
    """Float64 sums, rounded to odd where asked: the sum's last bit is set where ``error`` was lost."""
    bits = total.view(np.int64)
    move = where & (error != 0) & ((bits & 1) == 0) & np.isfinite(total)
    if not move.any():
        return total
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.asarray(bits + np.where(move, step, 0)).view(np.float64)


def _lost(product: Array, addend: Array, total: Array) -> Array:
    """What a float64 sum rounded away (Knuth's two-sum)."""
    shadow = total - product
    return np.asarray((product - (total - shadow)) + (addend - shadow))


def fma32(a: Array, b: Array, c: Array) -> Array:
    """a·b + c in float32, rounded once. The product of two float32 is exact in float64."""
    product = np.asarray(np.multiply(a, b, dtype=np.float64))
    addend = np.asarray(c, np.float64)
    total = np.asarray(product + addend)
    risky = (total.view(np.int64) & _BEHIND_FLOAT32) == _HALF_OF_FLOAT32
    risky |= np.abs(total) < SMALLEST_NORMAL
    if np.count_nonzero(risky) and (risky := risky & (total != 0)).any():  # a zero is exact
        total = to_odd(total, _lost(product, addend, total), risky)
    return total.astype(np.float32)


def fma32_normal(a: Array, b: Array, c: Array) -> Array:
    """As ``fma32``, where results below the normal numbers are flushed anyway: they may be a unit off."""
    product = np.asarray(np.multiply(a, b, dtype=np.float64))
    total = np.asarray(product + c)
    risky = (total.view(np.int64) & _BEHIND_FLOAT32) == _HALF_OF_FLOAT32
    if np.count_nonzero(risky):
        total = to_odd(total, _lost(product, np.asarray(c, np.float64), total), risky)
    return total.astype(np.float32)


def fma32_unrounded(a: Array, b: Array, c: Array) -> Array:
    """a·b + c as a float64 that rounds to float32 correctly after scaling by a power of two."""
    product = np.asarray(np.multiply(a, b, dtype=np.float64))
    addend = np.asarray(c, np.float64)
    total = np.asarray(product + addend)
    return to_odd(total, _lost(product, addend, total), np.isfinite(total))


def fma64(a: Array, b: Array, c: Array) -> Array:
    """a·b + c in float64, rounded once (exactly where what is worked with would leave the range)."""
    a, b, c = (np.asarray(each, np.float64) for each in (a, b, c))
    with np.errstate(over="ignore", invalid="ignore"):
        product = np.asarray(a * b)
        plain = np.asarray(product + c)
        if all(_within(each, 400) for each in (a, b)):
            if _short(a, b):
                return plain
            low = _product_error(a, b, product)
            if not np.count_nonzero(low):
                return plain
            result = _fma64_in_range(product, low, c)
            if all(_within(each, 400) for each in (product, c, result)):
                return np.where(result == 0, plain, result)
    return _fma64_anywhere(*np.broadcast_arrays(a, b, c))


def _fma64_anywhere(a: Array, b: Array, c: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        product = a * b
        plain = np.asarray(product + c)
        result = _fma64_in_range(product, _product_error(a, b, product), c)
    sizes = np.abs(np.stack([a, b, product, c]))
    safe = ((sizes == 0) | ((sizes > 2.0**-400) & (sizes < 2.0**400))).all(axis=0)
    result = np.where(safe & (result != 0), result, plain)
    finite = np.isfinite(a) & np.isfinite(b)
    result = np.where(finite & np.isinf(c), c, result)
    for place in np.argwhere(~safe & finite & np.isfinite(c)):
        index = tuple(place)
        result[index] = _exact_fma(float(a[index]), float(b[index]), float(c[index]))
    return result


def _within(x: Array, exponent: int) -> bool:
    """Whether the sizes of all numbers but zeros lie between powers of two; none is NaN then."""
    sizes = np.abs(x)
    if not np.minimum.reduce(sizes, axis=None, initial=1.0) > 2.0**-exponent:
        sizes = sizes[sizes != 0]
    least, most = (each.reduce(sizes, axis=None, initial=1.0) for each in (np.minimum, np.maximum))
    return bool(least > 2.0**-exponent and most < 2.0**exponent)


def _short(a: Array, b: Array) -> bool:
    """Whether all factors have the significands of float32, so that float64 holds their products."""
    return not np.count_nonzero((a.view(np.int64) | b.view(np.int64)) & _BEHIND_FLOAT32)


def _fma64_in_range(high: Array, low: Array, c: Array) -> Array:
    """The sum of a product in two parts and an addend (Boldo and Melquiond's algorithm)."""
    middle, rest = _two_sum(c, low)
    total, error = _two_sum(high, middle)
    tail = np.asarray(rest + error)
    margin = tail * 2.0**-50  # more than what the tail was rounded by
    near = np.asarray(total + (tail + margin))
    if not np.count_nonzero(near != total + (tail - margin)):
        return near
    return np.asarray(total + to_odd(tail, _lost(rest, error, tail), np.isfinite(tail)))


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    total = np.asarray(a + b)
    return total, _lost(a, b, total)


def _product_error(a: Array, b: Array, product: Array) -> Array:
    """What a float64 product rounded away (Dekker's product of halves)."""
    (p, q), (r, s) = _halves(a), _halves(b)
    return np.asarray(((p * r - product) + p * s + q * r) + q * s)


def _halves(x: Array) -> tuple[Array, Array]:
    """A float64 as a sum of two of 26 bits (Veltkamp)."""
    wide = x * 134217729.0
    high = np.asarray(wide - (wide - x))
    return high, np.asarray(x - high)


def _exact_fma(a: float, b: float, c: float) -> float:
    """a·b + c by exact rational arithmetic."""
    from fractions import Fraction  # noqa: PLC0415 - only f64 kernels need it

    if not all(map(np.isfinite, (a, b, c))):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    try:
        return float(exact)
    except OverflowError:
        return float(np.copysign(np.inf, 1.0 if exact > 0 else -1.0))


def fma16(a: Array, b: Array, c: Array) -> Array:
    """a·b + c in float16, rounded once: 53 bits hold a product of float16 and round a sum harmlessly."""
    product = np.asarray(np.multiply(a, b, dtype=np.float64))
    addend = np.asarray(c, np.float64)
    total = np.asarray(product + addend)
    return to_odd(total, _lost(product, addend, total), np.isfinite(total)).astype(np.float16)


def flush(x: Array) -> Array:
    """Float32 with denormals replaced by zeros of the same sign."""
    x = np.asarray(x, np.float32)
    if not x.ndim and not abs(float(x)) < SMALLEST_NORMAL:  # a constant, mostly
        return x
    size = np.abs(x)
    small = size < SMALLEST_NORMAL
    if not np.count_nonzero(small):
        return x
    small = small & (size > 0)
    if not np.count_nonzero(small):
        return x
    return np.where(small, np.copysign(np.float32(0), x), x)


def all_above_tiny(x: Array) -> bool:
    """Whether all float32 are numbers larger than the smallest normal one."""
    return bool(np.minimum.reduce(np.abs(x), axis=None, initial=np.inf) > SMALLEST_NORMAL)


def approximate(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A float32 transcendental: computed in float64, rounded once, denormal operands and results flushed."""

    def operation(x: Array) -> Array:
        return flush(function(flush(x).astype(np.float64)).astype(np.float32))

    return operation


def exponent(x: Array) -> Array:
    """Biased exponent of float32, as int32."""
    return ((np.asarray(x, np.float32).view(np.uint32) >> np.uint32(23)) & np.uint32(255)).astype(np.int32)


def _zeros_by_sign(result: Array, a: Array, b: Array, both_negative: bool) -> Array:
    """Result with the sign of zero settled where both operands are zeros: their sum is -0 where both are."""
    zeros = (a == 0) & (b == 0)
    if not np.count_nonzero(zeros):
        return result
    result = np.asarray(result)
    if both_negative:
        return np.asarray(np.add(a, b, out=result, where=zeros))
    return np.asarray(
        np.negative(np.add(np.negative(a), np.negative(b), out=result, where=zeros), out=result, where=zeros)
    )


def _number_of(a: Array, b: Array, chosen: Array) -> Array:
    """The other operand where one is NaN, ``b`` where both are.

    NumPy's own fmax and fmin take a signalling NaN for a number in some lanes, by how many there are.
    """
    if not np.any(np.isnan(chosen)):  # the larger or smaller one is NaN where either is
        return chosen
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, chosen))


def maximum(a: Array, b: Array) -> Array:
    """The larger one; the other one where one is NaN; +0 above -0."""
    return _settled(a, b, np.maximum(a, b), both_negative=True)


def minimum(a: Array, b: Array) -> Array:
    """The smaller one; the other one where one is NaN; -0 below +0."""
    return _settled(a, b, np.minimum(a, b), both_negative=False)


def _settled(a: Array, b: Array, chosen: Array, *, both_negative: bool) -> Array:
    """NumPy's choice, but where it is NaN or a zero."""
    if np.minimum.reduce(np.abs(chosen), axis=None, initial=np.inf) > 0:
        return np.asarray(chosen)
    return _zeros_by_sign(_number_of(a, b, chosen), a, b, both_negative)


def bf16_to_f32(bits: Array) -> Array:
    """Float32 of bfloat16 bits (any unsigned dtype, low 16 bits)."""
    return (np.asarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(x: Array) -> Array:
    """Bits of bfloat16 as uint32, to nearest even; NaN stays NaN, quieted."""
    x = np.asarray(x, np.float32)
    bits = x.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(x), (bits >> np.uint32(16)) | np.uint32(64), rounded)


def to_integer(low: int, high: int) -> Callable[[Array], Array]:
    """Conversion of floats by truncation to bits of uint32: saturating, NaN gives 0."""

    def operation(x: Array) -> Array:
        whole = np.trunc(np.asarray(x, np.float64))
        return np.clip(np.where(np.isnan(whole), 0, whole), low, high).astype(np.int64).astype(np.uint32)

    return operation


def multiply_add32(a: Array, b: Array, c: Array) -> Array:
    """a·b + c in float32 with two roundings; denormal operands and results are flushed."""
    a, b, c = (flush(x) for x in (a, b, c))
    return flush(flush(a * b) + c)


def mantissa(x: Array) -> Array:
    """The value scaled to 0.5 up to 1 in size; zeros, infinities and NaN as they are."""
    return np.asarray(np.where(np.isfinite(x), np.frexp(x)[0], x))


def binary_exponent(x: Array) -> Array:
    """The power of two that ``mantissa`` takes out, as int32; 0 for zeros, infinities and NaN."""
    return np.where(np.isfinite(x), np.frexp(x)[1], 0).astype(np.int32)


def scale_by_power(x: Array, power: Array) -> Array:
    """x·2^power in float32, rounded once."""
    bounded = np.clip(np.asarray(power, np.int32), -600, 600)
    return np.ldexp(np.asarray(x, np.float32).astype(np.float64), bounded).astype(np.float32)
