"""Functions that the special-function unit approximates by quadratics, segment by segment.

The form is that of Oberman and Siu, "A High-Performance Area-Efficient Multifunction Interpolator" (2005): the upper
bits of the argument's fraction name a segment, the rest goes into a quadratic, and the sum is cut off. NVIDIA
publishes no coefficients; ``scripts/fit_interpolation.py`` found these from results of an H200. They
give its bits but for one result in some dozens, which is one unit in the last place off (a square that the unit cuts
off is not modelled).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.ptx.machine import Array

DATA = Path(__file__).parents[1] / "data" / "interpolation.json"

MANTISSA = 23
_ONES = (1 << MANTISSA) - 1
_EXPONENT = 0xFF << MANTISSA
Integers: TypeAlias = NDArray[np.int32]

_AT_ONCE = 8192
"""Arguments that go through all operations before the next: what they leave in between stays in a cache."""


@dataclass(frozen=True)
class Arguments:
    """What the unit makes of its arguments."""

    segment: NDArray[np.int64]
    offset: Integers  # within the segment, in units of 2^-width of it
    width: int
    scale: Integers  # power of two that the sum is scaled by, where float32 has its exponent

    @property
    def rest(self) -> NDArray[np.float64]:
        """The offset, 0 up to 1."""
        return np.asarray(self.offset * 2.0**-self.width)

    @property
    def power(self) -> Integers:
        """The power of two as a number."""
        return self.scale >> MANTISSA


def columns_of(table: Array, width: int) -> tuple[Array, ...]:
    """Coefficients ``[segments, 3]`` by degree, for offsets of so many bits: powers of two change no rounding."""
    return tuple(np.ascontiguousarray(column * 2.0 ** (-width * degree)) for degree, column in enumerate(table.T))


@dataclass(frozen=True)
class Interpolated:
    """One function of float32.

    Attributes:
        exact: the function, of float64; for arguments that are not regular.
        regular: which arguments go through the tables; their results are normal numbers.
        arguments: what the unit makes of those.
        segments: how many there are.
        width: bits of an argument's place in its segment.
    """

    exact: Callable[[Array], Array]
    regular: Callable[[Array], Array]
    arguments: Callable[[Array], Arguments]
    segments: int
    width: int

    @staticmethod
    def sums(columns: tuple[Array, ...], given: Arguments) -> Array:
        """What the quadratics give, cut off."""
        constant, linear, square = columns
        offset = given.offset.astype(np.float64)
        total = square.take(given.segment)
        total *= offset
        total += linear.take(given.segment)
        total *= offset
        total += constant.take(given.segment)
        return np.floor(total, out=total)

    def of(self, columns: tuple[Array, ...], x: Array) -> Array:
        """The function's float32 results, of one dimension."""
        plain = self.regular(x)
        if plain.all():
            return self._interpolate(columns, x)
        result = self.exact(x.astype(np.float64)).astype(np.float32)
        if plain.any():
            result[plain] = self._interpolate(columns, x[plain])
        return result

    def _interpolate(self, columns: tuple[Array, ...], x: Array) -> Array:
        """Sums have 24 bits, so a power of two is added to their exponent."""
        given = self.arguments(x)
        bits = self.sums(columns, given).astype(np.float32).view(np.int32)
        bits += given.scale
        return bits.view(np.float32)


def _split(fraction: Integers, width: int, scale: Integers) -> Arguments:
    """Segment by the upper bits of a fraction, and what is below them."""
    return Arguments((fraction >> width).astype(np.int64), fraction & ((1 << width) - 1), width, scale)


def _fixed(x: Array) -> Arguments:
    """ex2: the argument in fixed point, 23 bits of fraction; a negative one by its complement unless it is whole."""
    fixed = (x * np.float32(2.0**MANTISSA)).astype(np.int32)
    fixed -= ((x < 0) & (x != np.rint(x))).view(np.int8)
    return _split(fixed & _ONES, 17, (fixed & ~_ONES) - (MANTISSA << MANTISSA))


def _inverse(x: Array) -> Arguments:
    """rcp: by the mantissa."""
    bits = x.view(np.int32)
    return _split(bits & _ONES, 16, ((127 - MANTISSA - 1) << MANTISSA) - (bits & _EXPONENT))


def _by_parity(sign: int) -> Callable[[Array], Arguments]:
    """Roots: by the mantissa, and whether the exponent is odd."""

    def arguments(x: Array) -> Arguments:
        bits = x.view(np.int32)
        exponent = (bits >> MANTISSA) - 127
        odd = exponent & 1
        shift = MANTISSA + (1 if sign < 0 else 0)
        scale = sign * ((exponent - odd) >> 1) - shift
        return _split((odd << MANTISSA) | (bits & _ONES), 17, scale << MANTISSA)

    return arguments


_LARGE, _SMALL = np.float32(2.0**125), np.float32(2.0**-125)


def _within_range(x: Array) -> Array:
    """Whose power of two is a normal number, with room to spare."""
    return np.asarray(np.abs(x) < np.float32(125))


def _above_zero(x: Array) -> Array:
    return np.asarray((x > _SMALL) & (x < _LARGE))


FUNCTIONS: dict[str, Interpolated] = {
    "ex2": Interpolated(np.exp2, _within_range, _fixed, 64, 17),
    "rcp": Interpolated(lambda x: 1.0 / x, _above_zero, _inverse, 128, 16),
    "rsqrt": Interpolated(lambda x: 1.0 / np.sqrt(x), _above_zero, _by_parity(-1), 128, 17),
    "sqrt": Interpolated(np.sqrt, _above_zero, _by_parity(1), 128, 17),
}
"""By name. Of rcp, that of positive arguments."""


@functools.cache
def tables() -> dict[str, Array]:
    """Coefficients ``[segments, 3]`` by function, the constant first, in units of the sum's last place."""
    return {name: np.array(rows, np.float64) for name, rows in json.loads(DATA.read_text()).items()}


@functools.cache
def _columns(name: str) -> tuple[Array, ...]:
    return columns_of(tables()[name], FUNCTIONS[name].width)


def interpolated(name: str) -> Callable[[Array], Array]:
    """A function of float32 as the unit gives it."""
    function = _odd_reciprocal if name == "rcp" else functools.partial(_plain, name)

    def operation(x: Array) -> Array:
        x = np.asarray(x, np.float32)
        flat = np.ascontiguousarray(x).reshape(-1)
        if flat.size <= _AT_ONCE:
            return function(flat).reshape(x.shape)
        parts = [function(flat[start : start + _AT_ONCE]) for start in range(0, flat.size, _AT_ONCE)]
        return np.concatenate(parts).reshape(x.shape)

    return operation


def _plain(name: str, x: Array) -> Array:
    return FUNCTIONS[name].of(_columns(name), x)


def _odd_reciprocal(x: Array) -> Array:
    size = _plain("rcp", np.abs(x)).view(np.uint32)
    size |= x.view(np.uint32) & np.uint32(1 << 31)
    return size.view(np.float32)
