"""Floating-point formats of 4, 6 and 8 bits, on NumPy arrays.

Sources: OCP "8-bit Floating Point Specification" (E4M3, E5M2) and "Microscaling Formats Specification"
(E2M3, E3M2, E2M1, E8M0); the formats with a single NaN at negative zero are those of Noune et al., "8-bit
Numerical Formats for Deep Neural Networks", 2022 (FNUZ).
"""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]


class Specials(enum.Enum):
    """Which codes stand for infinities and NaNs."""

    IEEE = "highest exponent"
    TOP = "all ones is NaN, no infinity"
    NEGATIVE_ZERO = "the code of negative zero is NaN, no infinity"
    NONE = "every code is a number"


@dataclass(frozen=True)
class SmallFloat:
    """A format with a sign bit, exponent and mantissa."""

    exponent_bits: int
    mantissa_bits: int
    bias: int
    specials: Specials

    @property
    def bits(self) -> int:
        """Width of a code."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @functools.cached_property
    def table(self) -> NDArray[np.float32]:
        """Value of every code; float32 holds them all."""
        return np.array([self._value(code) for code in range(1 << self.bits)], np.float32)

    def _value(self, code: int) -> float:
        sign = -1.0 if code >> (self.bits - 1) else 1.0
        mantissa = code & ((1 << self.mantissa_bits) - 1)
        exponent = (code >> self.mantissa_bits) & ((1 << self.exponent_bits) - 1)
        special = self._special(code, exponent, mantissa)
        if special is not None:
            return sign * special
        scale = 2.0 ** (max(exponent, 1) - self.bias - self.mantissa_bits)
        return sign * scale * (mantissa + (1 << self.mantissa_bits if exponent else 0))

    def _special(self, code: int, exponent: int, mantissa: int) -> float | None:
        """Value of a code that is no number, None for the others."""
        magnitude = code & ((1 << (self.bits - 1)) - 1)
        highest = exponent == (1 << self.exponent_bits) - 1
        if self.specials is Specials.IEEE and highest:
            return np.nan if mantissa else np.inf
        if self.specials is Specials.TOP and magnitude == (1 << (self.bits - 1)) - 1:
            return np.nan
        if self.specials is Specials.NEGATIVE_ZERO and code == 1 << (self.bits - 1):
            return np.nan
        return None

    @functools.cached_property
    def magnitudes(self) -> NDArray[np.float64]:
        """Finite values that are not negative, in the order of their codes, which is ascending."""
        half = self.table[: 1 << (self.bits - 1)].astype(np.float64)
        return half[np.isfinite(half)]

    @property
    def largest(self) -> float:
        """The largest finite value."""
        return float(self.magnitudes[-1])

    def decode(self, codes: Array) -> NDArray[np.float32]:
        """Values of codes."""
        return self.table[codes]

    def encode(self, x: Array, saturate: Array | bool) -> NDArray[np.uint32]:
        """Codes of values, to nearest even.

        Args:
            x: floats of any width.
            saturate: whether values beyond the largest one become it; otherwise they become infinity, or NaN
                where the format has none. Formats without NaN always saturate, and take NaN for the largest.
        """
        x = np.asarray(x)
        code = self._nearest(np.abs(x.astype(np.float64)))
        over = (code >= self.magnitudes.size) | np.isinf(x)
        last = np.uint32(self.magnitudes.size - 1)
        code = np.where(over, np.where(saturate, last, self._overflow), code).astype(np.uint32)
        code = np.where(np.isnan(x), self._nan, code)
        return np.asarray(self._with_sign(code, np.signbit(x) & ~np.isnan(x)), np.uint32)

    def _nearest(self, magnitude: Array) -> Array:
        """Code of the nearest magnitude; one past the last from where the next value would be nearer."""
        known = self.magnitudes
        steps: Array = np.append(known, 2 * known[-1] - known[-2])
        middle = (steps[1:] + steps[:-1]) / 2
        above = np.searchsorted(middle, magnitude, side="left")
        tie = (above < middle.size) & (middle[np.minimum(above, middle.size - 1)] == magnitude)
        return np.asarray(np.where(tie & (above & 1 == 1), above + 1, above))

    @property
    def _overflow(self) -> np.uint32:
        if self.specials is Specials.IEEE:
            return np.uint32(self.magnitudes.size)  # the code behind the largest finite one
        return self._nan if self.specials is not Specials.NONE else np.uint32(self.magnitudes.size - 1)

    @property
    def _nan(self) -> np.uint32:
        if self.specials is Specials.NEGATIVE_ZERO:
            return np.uint32(1 << (self.bits - 1))
        return np.uint32((1 << (self.bits - 1)) - 1)

    def _with_sign(self, code: Array, negative: Array) -> Array:
        """The code with its sign bit; a format whose negative zero is NaN has no negative zero."""
        if self.specials is Specials.NEGATIVE_ZERO:
            negative = negative & (code != 0)
        return code | (np.asarray(negative).astype(np.uint32) << np.uint32(self.bits - 1))


E4M3 = SmallFloat(4, 3, 7, Specials.TOP)
E5M2 = SmallFloat(5, 2, 15, Specials.IEEE)
E4M3_FNUZ = SmallFloat(4, 3, 8, Specials.NEGATIVE_ZERO)
E5M2_FNUZ = SmallFloat(5, 2, 16, Specials.NEGATIVE_ZERO)
E2M3 = SmallFloat(2, 3, 1, Specials.NONE)
E3M2 = SmallFloat(3, 2, 3, Specials.NONE)
E2M1 = SmallFloat(2, 1, 1, Specials.NONE)


def scale_of(code: Array) -> NDArray[np.float64]:
    """Value of E8M0 codes: 2^(code - 127), 255 is NaN."""
    code = np.asarray(code).astype(np.int64)
    return np.where(code == 255, np.nan, np.ldexp(1.0, (code - 127).astype(np.int32)))


def unpack(words: Array, bits: int) -> NDArray[np.uint32]:
    """Codes of ``bits`` bits that lie one behind the other in words: ``[..., words]`` to ``[..., codes]``."""
    octets = np.ascontiguousarray(words, np.uint32).view(np.uint8)
    if bits == 8:
        return octets.astype(np.uint32)
    if bits == 4:
        return np.stack([octets & 15, octets >> 4], axis=-1).reshape(*octets.shape[:-1], -1).astype(np.uint32)
    triples = octets.reshape(*octets.shape[:-1], -1, 3).astype(np.uint32)
    whole = triples[..., 0] | triples[..., 1] << np.uint32(8) | triples[..., 2] << np.uint32(16)
    codes = whole[..., None] >> np.arange(0, 24, 6, dtype=np.uint32) & np.uint32(63)
    return codes.reshape(*octets.shape[:-1], -1)


def pack(codes: Array, bits: int) -> NDArray[np.uint32]:
    """The inverse of ``unpack``; the codes must fill whole words."""
    every: Array = np.arange(bits, dtype=np.uint32)
    flat = (np.asarray(codes)[..., None] >> every & np.uint32(1)).astype(np.uint8)
    octets = np.packbits(flat.reshape(*flat.shape[:-2], -1), axis=-1, bitorder="little")
    return np.ascontiguousarray(octets).view(np.uint32)
