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
_FRACTION = (1 << MANTISSA) - 1
Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Arguments:
    """What the unit makes of its arguments."""

    segment: Integers
    rest: NDArray[np.float64]  # 0 up to 1, within the segment
    power: Integers  # of two, that the sum is scaled by


@dataclass(frozen=True)
class Interpolated:
    """One function of float32.

    Attributes:
        exact: the function, of float64; for arguments that are not regular.
        regular: which arguments go through the tables.
        arguments: what the unit makes of those.
        segments: how many there are.
    """

    exact: Callable[[Array], Array]
    regular: Callable[[Array], Array]
    arguments: Callable[[Array], Arguments]
    segments: int

    @staticmethod
    def sums(table: Array, given: Arguments) -> Array:
        """What the quadratics give, cut off."""
        constant, linear, square = (column.take(given.segment) for column in table.T)
        return np.floor(constant + given.rest * (linear + given.rest * square))

    def of(self, table: Array, x: Array) -> Array:
        """The function's float32 results."""
        x = np.atleast_1d(np.asarray(x, np.float32))
        plain = self.regular(x)
        if plain.all():
            return self._interpolate(table, x)
        result = self.exact(x.astype(np.float64)).astype(np.float32)
        if plain.any():
            result[plain] = self._interpolate(table, x[plain])
        return result

    def _interpolate(self, table: Array, x: Array) -> Array:
        given = self.arguments(x)
        unit = ((np.asarray(given.power, np.int64) + 1023) << 52).view(np.float64)  # what np.ldexp takes longer for
        return (self.sums(table, given) * unit).astype(np.float32)


def _split(fraction: Integers, bits: int, power: Integers, high: Array | int = 0) -> Arguments:
    """Segment by the upper bits of a fraction of 23 bits, and what is above it."""
    below = MANTISSA - bits
    rest = (fraction & ((1 << below) - 1)) * 2.0**-below
    return Arguments(np.asarray((high << bits) | (fraction >> below)), rest, power)


def _fixed(x: Array) -> Arguments:
    """ex2: the argument in fixed point, 23 bits of fraction; a negative one by its complement unless it is whole."""
    whole = np.floor(np.abs(x.astype(np.float64)) * 2.0**MANTISSA).astype(np.int64)
    signed = np.where(np.signbit(x), np.where(x == np.rint(x), -whole, ~whole), whole)
    return _split(signed & _FRACTION, 6, (signed >> MANTISSA) - MANTISSA)


def _bits(x: Array) -> Integers:
    return x.view(np.uint32).astype(np.int64)


def _inverse(x: Array) -> Arguments:
    """rcp: by the mantissa."""
    bits = _bits(x)
    return _split(bits & _FRACTION, 7, 127 - (bits >> MANTISSA & 0xFF) - MANTISSA - 1)


def _by_parity(sign: int) -> Callable[[Array], Arguments]:
    """Roots: by the mantissa, and whether the exponent is odd."""

    def arguments(x: Array) -> Arguments:
        bits = _bits(x)
        exponent = (bits >> MANTISSA & 0xFF) - 127
        odd = exponent & 1
        shift = MANTISSA + (1 if sign < 0 else 0)
        return _split(bits & _FRACTION, 6, sign * ((exponent - odd) >> 1) - shift, odd)

    return arguments


_LARGE, _SMALL = np.float32(2.0**125), np.float32(2.0**-125)


def _within_range(x: Array) -> Array:
    """Whose power of two is a normal number, with room to spare."""
    return np.asarray(np.abs(x) < np.float32(125))


def _above_zero(x: Array) -> Array:
    return np.asarray((x > _SMALL) & (x < _LARGE))


FUNCTIONS: dict[str, Interpolated] = {
    "ex2": Interpolated(np.exp2, _within_range, _fixed, 64),
    "rcp": Interpolated(lambda x: 1.0 / x, _above_zero, _inverse, 128),
    "rsqrt": Interpolated(lambda x: 1.0 / np.sqrt(x), _above_zero, _by_parity(-1), 128),
    "sqrt": Interpolated(np.sqrt, _above_zero, _by_parity(1), 128),
}
"""By name. Of rcp, that of positive arguments."""


@functools.cache
def tables() -> dict[str, Array]:
    """Coefficients ``[segments, 3]`` by function, the constant first, in units of the sum's last place."""
    return {name: np.array(rows, np.float64) for name, rows in json.loads(DATA.read_text()).items()}


def interpolated(name: str) -> Callable[[Array], Array]:
    """A function of float32 as the unit gives it."""
    function = FUNCTIONS[name]

    def operation(x: Array) -> Array:
        shape = np.shape(x)
        if name == "rcp":
            size = function.of(tables()[name], np.abs(x))
            return np.copysign(size, x).reshape(shape)
        return function.of(tables()[name], x).reshape(shape)

    return operation
