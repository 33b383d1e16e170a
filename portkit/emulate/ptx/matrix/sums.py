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
from dataclasses import dataclass

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

    def into_half(self) -> Model:
        """The same with results of float16."""
        return Model(self.group, self.fraction, Result.F16)


_BLOCK = 1 << 16
"""Products that are worked on at once, so that they stay in the cache."""

_NARROW = 60
"""Exponents of products within which float32 holds them and their multiples."""

_POWERS = np.ldexp(1.0, np.arange(-1074, 1024))


def power(exponents: Array) -> Array:
    """2 to an integer power, as float64, at most 2^1023."""
    return _POWERS.take(np.minimum(np.asarray(exponents, np.int32), 1023) + 1074, mode="clip")


def multiply(a: Terms, b: Terms, addend: Array, model: Model) -> Array:
    """A·Bᵀ + C as a tensor core computes it.

    Args:
        a: ``[batch, rows, depth]``.
        b: ``[batch, columns, depth]``.
        addend: float32, or float16 where the results are: ``[batch, rows, columns]``.
        model: of the instruction.

    Returns:
        Of the addend's type and shape.
    """
    total = addend
    for start in range(0, a.values.shape[-1], model.group):
        end = start + model.group
        total = _group(a.part(start, end), b.part(start, end), total, model)
    return total


def multiply_through_halves(a: Terms, b: Terms, addend: Array, model: Model) -> Array:
    """A·Bᵀ + C where 8-bit factors become float16: the even pairs of the depth, the odd ones, and the addend, rounded.

    Found from results of an H200: ``mma.sync`` of 8-bit floats is three instructions there. Arguments as of
    ``multiply``.
    """
    depth = np.arange(a.values.shape[-1])
    order = np.concatenate([depth[depth % 4 < 2], depth[depth % 4 >= 2]])
    x, y = (Terms(each.values[..., order], each.exponents[..., order]) for each in (a, b))
    products = multiply(x, y, np.zeros(addend.shape, addend.dtype), model)
    with np.errstate(invalid="ignore", over="ignore"):
        total = products + addend
    total[np.isnan(total)] = canonical_nan(addend.dtype)
    return total


def _group(a: Terms, b: Terms, addend: Array, model: Model) -> Array:
    batch, rows, depth = a.values.shape
    result = np.empty(addend.shape, addend.dtype)
    step = max(1, _BLOCK // max(1, rows * addend.shape[-1] * depth))
    for start in range(0, batch, step):
        part = slice(start, start + step)
        left, right = Terms(a.values[part], a.exponents[part]), Terms(b.values[part], b.exponents[part])
        with np.errstate(invalid="ignore", over="ignore"):  # of what is not finite, and judged below
            result[part] = _rounded(*_aligned(left, right, addend[part], model), model)
    special = ~np.isfinite(addend)
    special |= ~np.isfinite(a.values).all(axis=-1)[:, :, None] | ~np.isfinite(b.values).all(axis=-1)[:, None, :]
    if special.any():
        result[special] = _not_finite(a, b, addend)[special]
    return result


def _aligned(a: Terms, b: Terms, addend: Array, model: Model) -> tuple[Array, Array]:
    """Sums as whole numbers of units of the last place kept, and the exponents that they are aligned to."""
    left, right = (np.ascontiguousarray(np.moveaxis(each, -1, 0)) for each in (a.exponents, b.exponents))
    exponents = left[:, :, :, None] + right[:, :, None, :]
    own = exponents_of(addend, -14 if addend.dtype == np.float16 else -126)
    top = np.maximum(exponents.max(axis=0), own)
    top = np.where(top <= NOTHING, np.int16(0), top)
    wide = _too_wide(a, b)
    kind = np.float64 if wide else np.float32
    scale = power(np.minimum(model.fraction - top, 1000 if wide else 100)).astype(kind)
    x, y = (np.ascontiguousarray(np.moveaxis(each, -1, 0), kind) for each in (a.values, b.values))
    products = x[:, :, :, None] * y[:, :, None, :]
    products *= scale
    return _total(products, model) + _whole(addend, model.fraction - top), top


def _too_wide(a: Terms, b: Terms) -> bool:
    """Whether products, or what they are scaled by, may leave the range of float32."""
    ranges = [(each[each > NOTHING].min(initial=0), each.max(initial=0)) for each in (a.exponents, b.exponents)]
    return bool(ranges[0][0] + ranges[1][0] < -_NARROW or ranges[0][1] + ranges[1][1] > _NARROW)


def _total(scaled: Array, model: Model) -> Array:
    """Sum over the first axis of products cut to whole numbers, each below 2^(fraction + 2)."""
    cut = scaled.astype(np.int32)
    if scaled.shape[0] << (model.fraction + 2) <= 1 << 31:
        return np.add.reduce(cut, axis=0, dtype=np.int32).astype(np.int64)
    return np.add.reduce(cut, axis=0, dtype=np.int64)


def _whole(addend: Array, shift: Array) -> Array:
    scaled = np.where(np.isfinite(addend), addend, 0).astype(np.float64) * power(shift)
    return scaled.astype(np.int64)


def _rounded(total: Array, top: Array, model: Model) -> Array:
    """The sums in the result's format."""
    exact = total.astype(np.float64) * power(top.astype(np.int32) - model.fraction)
    if model.result is Result.F16:
        return exact.astype(np.float16)
    return cut_to_float32(exact, 13 if model.result is Result.SHORT else 23)


def cut_to_float32(exact: Array, fraction: int = 23) -> Array:
    """Float64 to float32 towards zero, with some of its fraction bits."""
    bits = exact.view(np.uint64) & ~np.uint64((1 << (52 - fraction)) - 1)
    cut = bits.view(np.float64)
    small = np.abs(cut) < 2.0**-126
    if small.any():
        cut = np.where(small, np.trunc(exact * 2.0 ** (126 + fraction)) * 2.0 ** -(126 + fraction), cut)
    with np.errstate(over="ignore"):
        return cut.astype(np.float32)


def _not_finite(a: Terms, b: Terms, addend: Array) -> Array:
    """Sums with infinities or NaN among their terms."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = np.matmul(a.values.astype(np.float64), b.values.astype(np.float64).swapaxes(-1, -2)) + addend
        result = total.astype(addend.dtype)
    result[np.isnan(total)] = canonical_nan(addend.dtype)
    return result


def canonical_nan(kind: np.dtype[np.floating]) -> Array:
    """The NaN of matrix instructions, as float32 or float16."""
    return _CANONICAL_HALF.view(np.float16) if kind == np.float16 else CANONICAL_NAN.view(np.float32)


def multiply_integers(a: Array, b: Array, addend: Array, saturate: bool = False) -> Array:
    """A·Bᵀ + C of integers.

    Args:
        a: float32 of whole numbers of at most 8 bits, ``[batch, rows, depth]``; the sum of 64 products is exact.
        b: likewise ``[batch, columns, depth]``.
        addend: ``int32[batch, rows, columns]``.
        saturate: stop at the largest and the smallest result, where others wrap around.
    """
    products: Array = np.matmul(a, b.swapaxes(-1, -2)).astype(np.int64)
    total = products + addend
    return np.clip(total, -(1 << 31), (1 << 31) - 1).astype(np.int32) if saturate else total.astype(np.int32)
