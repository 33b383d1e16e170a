"""Integer and bit operations as GPUs define them, on NumPy arrays of uint32 and uint64."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

_SWAPS = ((1, 0x5555_5555), (2, 0x3333_3333), (4, 0x0F0F_0F0F), (8, 0x00FF_00FF))


def reverse_bits(x: Array) -> Array:
    """Bits of uint32 in reverse order."""
    x = np.asarray(x, np.uint32)
    for by, mask in _SWAPS:
        x = ((x >> np.uint32(by)) & np.uint32(mask)) | ((x & np.uint32(mask)) << np.uint32(by))
    return (x >> np.uint32(16)) | (x << np.uint32(16))


def leading_zeros(x: Array) -> Array:
    """Zeros above the highest set bit of uint32; all ones for 0."""
    _, power = np.frexp(np.asarray(x, np.uint32).astype(np.float64))
    return np.where(np.asarray(x) == 0, np.uint32(0xFFFF_FFFF), (32 - power).astype(np.uint32))


def trailing_zeros(x: Array) -> Array:
    """Zeros below the lowest set bit of uint32; all ones for 0."""
    x = np.asarray(x, np.uint32)
    lowest = x & (~x + np.uint32(1))
    _, power = np.frexp(lowest.astype(np.float64))
    return np.where(x == 0, np.uint32(0xFFFF_FFFF), (power - 1).astype(np.uint32))


def leading_zeros64(x: Array) -> Array:
    """Zeros above the highest set bit of uint64, as uint32; all ones for 0."""
    low, high = _halves(x)
    return np.where(high != 0, leading_zeros(high), np.where(low != 0, leading_zeros(low) + np.uint32(32), _NONE))


def trailing_zeros64(x: Array) -> Array:
    """Zeros below the lowest set bit of uint64, as uint32; all ones for 0."""
    low, high = _halves(x)
    return np.where(low != 0, trailing_zeros(low), np.where(high != 0, trailing_zeros(high) + np.uint32(32), _NONE))


def _halves(x: Array) -> tuple[Array, Array]:
    x = np.asarray(x, np.uint64)
    return x.astype(np.uint32), (x >> np.uint64(32)).astype(np.uint32)


_NONE = np.uint32(0xFFFF_FFFF)
"""No bit is set."""


def sign_run64(x: Array) -> Array:
    """As ``sign_run``, of uint64."""
    x = np.asarray(x, np.uint64)
    return leading_zeros64(np.where(x.view(np.int64) < 0, ~x, x))


def sign_run(x: Array) -> Array:
    """Bits below the top that repeat the sign bit, plus one; all ones for 0 and -1."""
    x = np.asarray(x, np.uint32)
    folded = np.where(x.view(np.int32) < 0, ~x, x)
    return leading_zeros(folded)


def extract(x: Array, offset: Array, width: Array) -> Array:
    """``width`` bits of uint32 from ``offset`` on; both taken modulo 32."""
    width = np.asarray(width, np.uint32) & np.uint32(31)
    mask = (np.uint32(1) << width) - np.uint32(1)
    return (np.asarray(x, np.uint32) >> (np.asarray(offset, np.uint32) & np.uint32(31))) & mask


def extract_signed(x: Array, offset: Array, width: Array) -> Array:
    """As ``extract``, the field's highest bit extended; bits past the top repeat the sign."""
    width = np.asarray(width, np.uint32) & np.uint32(31)
    shifted = np.asarray(x, np.uint32).view(np.int32) >> (np.asarray(offset, np.uint32) & np.uint32(31)).astype(
        np.int32
    )
    up = (np.uint32(32) - width) & np.uint32(31)
    signed = (shifted.view(np.uint32) << up).view(np.int32) >> up.astype(np.int32)
    return np.where(width == 0, np.uint32(0), signed.view(np.uint32))


def high_unsigned(a: Array, b: Array) -> Array:
    """Upper 32 bits of the product of two uint32."""
    return ((np.asarray(a).astype(np.uint64) * np.asarray(b).astype(np.uint64)) >> np.uint64(32)).astype(np.uint32)


def high_signed(a: Array, b: Array) -> Array:
    """Upper 32 bits of the product of two int32, as uint32."""
    return ((np.asarray(a).astype(np.int64) * np.asarray(b).astype(np.int64)) >> np.int64(32)).astype(np.uint32)


def low24(x: Array) -> Array:
    """The low 24 bits."""
    return np.asarray(x) & np.uint32(0xFF_FFFF)


def low24_signed(x: Array) -> Array:
    """The low 24 bits, sign-extended to int32."""
    return (np.asarray(x, np.uint32) << np.uint32(8)).view(np.int32) >> np.int32(8)


def align_bits(high: Array, low: Array, by: Array) -> Array:
    """The low word of the 64-bit ``high:low`` shifted right by 0 to 31."""
    pair = (np.asarray(high).astype(np.uint64) << np.uint64(32)) | np.asarray(low).astype(np.uint64)
    return (pair >> (np.asarray(by, np.uint32) & np.uint32(31)).astype(np.uint64)).astype(np.uint32)


_PLACES = (0, 8, 16, 24)
_ZERO = 12
"""Code of a permute for a byte of zeros; those above are for 0xff."""


def _selected_byte(pair: Array, code: Array) -> Array:
    """The byte that one selector code of a permute names."""
    byte = (pair >> ((code & np.uint64(7)) * np.uint64(8))) & np.uint64(255)
    sign_at = (code & np.uint64(3)) * np.uint64(16) + np.uint64(15)
    sign = np.where((pair >> sign_at) & np.uint64(1) != 0, np.uint64(255), np.uint64(0))
    constant = np.where(code >= 13, np.uint64(255), np.uint64(0))
    return np.where(code < 8, byte, np.where(code < 12, sign, constant))


def _permute_alike(high: Array, low: Array, selector: int) -> Array:
    """The permutation where all lanes choose the same bytes."""
    fixed = sum(0xFF << place for place in _PLACES if selector >> place & 0xFF > _ZERO)
    result: Array = np.full(np.broadcast_shapes(np.shape(high), np.shape(low)), fixed, np.uint32)
    for place in _PLACES:
        code = selector >> place & 0xFF
        if code >= _ZERO:
            continue
        word = high if code & 7 >= 4 or code >= 10 else low
        byte = _sign_byte(word, code & 1) if code >= 8 else (word >> np.uint32(8 * (code & 3))) & np.uint32(255)
        result |= byte << np.uint32(place)
    return result


def _sign_byte(word: Array, half: int) -> Array:
    """0xff where the upper or lower half of a word is negative, else 0."""
    return np.asarray((word >> np.uint32(31 if half else 15)) & np.uint32(1)) * np.uint32(255)


def _permute_plain(high: Array, low: Array, selector: Array) -> Array:
    """The permutation where no lane asks for a sign or a constant."""
    octets = np.stack([low, high], axis=-1).view(np.uint8).reshape(-1)
    codes = np.ascontiguousarray(selector).view(np.uint8).reshape(-1, 4)
    place = codes + np.arange(0, octets.size, 8)[:, None]
    return octets[place].view(np.uint32).reshape(low.shape)


def permute_bytes(high: Array, low: Array, selector: Array) -> Array:
    """Four bytes chosen from ``high:low``: codes 0 to 7 a byte, 8 to 11 a sign, 12 zero, from 13 on 0xff."""
    chosen = np.asarray(selector).reshape(-1)
    if (chosen == chosen[0]).all():
        return _permute_alike(np.asarray(high, np.uint32), np.asarray(low, np.uint32), int(chosen[0]))
    if not np.any(chosen & np.uint32(0xF8F8_F8F8)):
        return _permute_plain(*np.broadcast_arrays(high, low, selector))
    pair = (np.asarray(high).astype(np.uint64) << np.uint64(32)) | np.asarray(low).astype(np.uint64)
    codes = np.asarray(selector).astype(np.uint64)
    result = np.uint64(0)
    for place in _PLACES:
        byte = _selected_byte(pair, (codes >> np.uint64(place)) & np.uint64(255))
        result = result | (byte << np.uint64(place))
    return np.asarray(result).astype(np.uint32)


def sign_extend(x: Array, bits: int) -> Array:
    """The low ``bits`` of uint32, sign-extended, as uint32."""
    up = 32 - bits
    return ((np.asarray(x, np.uint32) << np.uint32(up)).view(np.int32) >> np.int32(up)).view(np.uint32)


def truth_table(a: Array, b: Array, c: Array, table: int) -> Array:
    """Any function of three bits: bit ``a·4 + b·2 + c`` of ``table``, for each bit of the words."""
    result: Array = np.zeros((), np.uint32)
    for row in range(8):
        if table >> row & 1:
            term = (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
            result = np.asarray(result | term)
    return result
