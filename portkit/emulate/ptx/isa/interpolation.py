"""Functions that the special-function unit approximates by quadratics, segment by segment.

The form is that of Oberman and Siu, "A High-Performance Area-Efficient Multifunction Interpolator" (2005): upper bits
of the argument name a segment, the rest goes into a quadratic, and the sum is cut off. NVIDIA publishes no
coefficients, and not how the unit squares: ``scripts/fit_interpolation.py`` found both from results of an H200, to the
bit. The square is a sum of products of two bits each, without those below 2^-15.
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
_BIAS = 127
_SIGN = np.uint32(1 << 31)
_UNIT = np.float32(2.0**-MANTISSA)
Integers: TypeAlias = NDArray[np.int32]
Segments: TypeAlias = NDArray[np.int64]

_AT_ONCE = 8192
"""Arguments that go through all operations before the next: what they leave in between stays in a cache."""

SQUARED = 15
"""Upper bits of an offset that its square has, and bits behind the point that it is cut off at."""


def _squares() -> NDArray[np.float64]:
    """Of all numbers of so many bits behind the point: products of bits a and b, of a size of 2^-SQUARED or more."""
    places = range(1, SQUARED + 1)
    bits = {place: np.arange(1 << SQUARED) >> (SQUARED - place) & 1 for place in places}
    total: NDArray[np.float64] = np.zeros(1 << SQUARED)
    for a in places:
        if 2 * a <= SQUARED:
            total += bits[a] * 2.0 ** (-2 * a)
        for b in range(a + 1, SQUARED + 2 - a):
            total += (bits[a] & bits[b]) * 2.0 ** (1 - a - b)
    return total


SQUARES = _squares()


@dataclass(frozen=True)
class Arguments:
    """What the unit makes of its arguments."""

    segment: Segments
    offset: Integers  # within the segment, in units of 2^-width of it
    width: int
    scale: Integers | None = None  # power of two for the sum, where float32 has its exponent; None: 2^-23
    added: NDArray[np.float64] | None = None  # to the sum
    signs: NDArray[np.uint32] | None = None  # of the results
    fine: bool = False  # whether sums have all their bits; else they are multiples of CUT before anything is added

    @property
    def terms(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What linear and square coefficients are multiplied with: 0 up to 1."""
        return self.offset * 2.0**-self.width, SQUARES[self.offset >> (self.width - SQUARED)]

    def finished(self, total: Array) -> Array:
        """Float32 results of sums, which are used up: 24 bits of them, by the power of two."""
        if self.added is not None:
            if not self.fine:
                total *= 1 / CUT
                np.floor(total, out=total)
                total *= CUT
            total += self.added
        bits = total.view(np.int64)
        bits &= _KEPT
        result = total.astype(np.float32)
        if self.scale is None:
            result *= _UNIT
        else:
            whole = result.view(np.int32)
            whole += self.scale
        if self.signs is not None:
            pattern = result.view(np.uint32)
            pattern |= self.signs
        return result


CUT = 2.0**-13
"""What sums are cut off to multiples of before an exponent is added."""

_KEPT = ~np.int64((1 << (52 - MANTISSA)) - 1)
"""Bits of a float64 that float32 has, too."""

Columns: TypeAlias = tuple[Array, Array, Array]


def columns_of(table: Array, width: int) -> Columns:
    """Coefficients ``[segments, 3]`` by degree, the linear ones for offsets of so many bits."""
    constant, linear, square = np.ascontiguousarray(table.T)
    return constant, linear * 2.0**-width, square


@dataclass(frozen=True)
class Interpolated:
    """One function of float32.

    Attributes:
        exact: the function, of float64; for arguments that are not regular.
        regular: which arguments go through the tables; their results are normal numbers or zeros.
        arguments: what the unit makes of those.
        table: name of its table.
    """

    exact: Callable[[Array], Array]
    regular: Callable[[Array], Array]
    arguments: Callable[[Array], Arguments]
    table: str

    @staticmethod
    def sums(columns: Columns, given: Arguments) -> Array:
        """What the quadratics give, exactly."""
        constant, linear, square = columns
        total = square.take(given.segment)
        total *= SQUARES.take(given.offset >> (given.width - SQUARED))
        product = linear.take(given.segment)
        product *= given.offset
        total += product
        total += constant.take(given.segment)
        return total

    def of(self, columns: Columns, x: Array) -> Array:
        """The function's float32 results, of one dimension."""
        plain = self.regular(x)
        if plain.all():
            return self._interpolate(columns, x)
        result = self.exact(x.astype(np.float64)).astype(np.float32)
        if plain.any():
            result[plain] = self._interpolate(columns, x[plain])
        return result

    def _interpolate(self, columns: Columns, x: Array) -> Array:
        given = self.arguments(x)
        return given.finished(self.sums(columns, given))


# -- what the unit makes of arguments


def _split(fraction: Integers, width: int) -> tuple[Segments, Integers]:
    """Segment by the upper bits of a fraction, and what is below them."""
    return (fraction >> width).astype(np.int64), fraction & ((1 << width) - 1)


def _fixed(x: Array) -> Arguments:
    """ex2: the argument in fixed point, 23 bits of fraction; a negative one by its complement where that is not 0."""
    fixed = (x * np.float32(2.0**MANTISSA)).astype(np.int32)
    fixed -= ((x < 0) & (fixed & _ONES != 0)).view(np.int8)
    return Arguments(*_split(fixed & _ONES, 17), 17, (fixed & ~_ONES) - (MANTISSA << MANTISSA))


def _inverse(x: Array) -> Arguments:
    """rcp: by the mantissa."""
    bits = x.view(np.int32)
    scale = ((2 * _BIAS - MANTISSA - 1 - _BIAS) << MANTISSA) - (bits & _EXPONENT)
    return Arguments(*_split(bits & _ONES, 16), 16, scale, None, x.view(np.uint32) & _SIGN)


def _whole(fraction: Integers) -> NDArray[np.float64] | None:
    """rsqrt: what lets the sum of a power of four reach a power of two, as the unit's result does."""
    found = fraction == 0
    return found * 0.5 if found.any() else None


def _by_parity(sign: int) -> Callable[[Array], Arguments]:
    """Roots: by the mantissa, and whether the exponent is odd."""

    def arguments(x: Array) -> Arguments:
        bits = x.view(np.int32)
        exponent = (bits >> MANTISSA) - _BIAS
        odd = exponent & 1
        shift = MANTISSA + (1 if sign < 0 else 0)
        scale = sign * ((exponent - odd) >> 1) - shift
        fraction = (odd << MANTISSA) | (bits & _ONES)
        return Arguments(
            *_split(fraction, 17), 17, scale << MANTISSA, _whole(fraction) if sign < 0 else None, fine=True
        )

    return arguments


def _logarithm(x: Array) -> Arguments:
    """lg2: by the mantissa; the exponent is added to the sum, a negative one to its complement."""
    bits = x.view(np.int32)
    exponent = (bits >> MANTISSA) - _BIAS
    return Arguments(*_split(bits & _ONES, 17), 17, None, exponent * 2.0**MANTISSA + (exponent < 0) * CUT)


_TURN = np.float64(np.float32(1 / (2 * np.pi)))


def _turns(x: Array) -> NDArray[np.float64]:
    """A size in units of 2π, a float32 that is cut off: the assembler puts a product before the unit's function."""
    turns: NDArray[np.float64] = np.abs(x).astype(np.float64)
    turns *= _TURN
    bits = turns.view(np.int64)
    bits &= _KEPT
    return turns


def _quarters(of_cosine: bool) -> Callable[[Array], Arguments]:
    """Sines: 23 bits of a quarter turn, by their complement in every other one; signs by the half."""

    def arguments(x: Array) -> Arguments:
        turns = _turns(x)
        turns -= np.floor(turns)
        fixed = (turns * 2.0 ** (MANTISSA + 2)).astype(np.int32)
        quarter = (fixed >> MANTISSA) + int(of_cosine)
        fraction = (fixed ^ -(quarter & 1)) & _ONES
        signs = (quarter & 2).astype(np.uint32) << np.uint32(30)
        if not of_cosine:
            signs ^= x.view(np.uint32) & _SIGN
        return Arguments(*_split(fraction, 17), 17, None, None, signs)

    return arguments


_BINADES = {-8: 0, -7: 0, -6: 0, -5: 1, -4: 1, -3: 2, -2: 2, -1: 2, 0: 3, 1: 4, 2: 3}
"""tanh: exponent of arguments → how many bits of the mantissa name a segment; 17 go into the quadratic."""


def _hyperbolic(x: Array) -> Arguments:
    bits = np.abs(x).view(np.int32)
    binade = (bits >> MANTISSA) - (_BIAS + min(_BINADES))
    names = _NAMED.take(binade)
    mantissa = bits & _ONES
    segment = _FIRST.take(binade) + (mantissa >> (MANTISSA - names))
    offset = (mantissa >> (MANTISSA - 17 - names)) & ((1 << 17) - 1)
    return Arguments(segment, offset, 17, None, None, x.view(np.uint32) & _SIGN)


_NAMED = np.array(list(_BINADES.values()), np.int32)
_FIRST = np.concatenate([[0], np.cumsum(1 << _NAMED)[:-1]])

# -- which arguments are regular

_SMALLEST = np.float32(2.0**-126)


def _normal(x: Array) -> Array:
    return np.asarray((x >= _SMALLEST) & (x < np.inf))


def _logarithmic(x: Array) -> Array:
    """Of 1 the result is 0, which the sum is not."""
    return np.asarray(_normal(x) & (x != 1))


def _powers(x: Array) -> Array:
    """Whose power of two is a normal number."""
    return np.asarray((x >= np.float32(-126)) & (x < np.float32(128)))


def _invertible(x: Array) -> Array:
    """Whose inverse is a normal number."""
    size = np.abs(x)
    return np.asarray((size >= _SMALLEST) & (size <= np.float32(2.0**126)))


def _bent(x: Array) -> Array:
    """Whose tangent is neither the argument nor 1."""
    size = np.abs(x)
    return np.asarray((size >= np.float32(2.0 ** min(_BINADES))) & (size < np.float32(2.0 ** (max(_BINADES) + 1))))


def _straight(x: Array) -> Array:
    return np.where(np.abs(x) < 1, x, np.sign(x))


FUNCTIONS: dict[str, Interpolated] = {
    "ex2": Interpolated(np.exp2, _powers, _fixed, "ex2"),
    "rcp": Interpolated(lambda x: 1.0 / x, _invertible, _inverse, "rcp"),
    "rsqrt": Interpolated(lambda x: 1.0 / np.sqrt(x), _normal, _by_parity(-1), "rsqrt"),
    "sqrt": Interpolated(np.sqrt, _normal, _by_parity(1), "sqrt"),
    "lg2": Interpolated(np.log2, _logarithmic, _logarithm, "lg2"),
    "sin": Interpolated(np.sin, np.isfinite, _quarters(False), "sin"),
    "cos": Interpolated(np.cos, np.isfinite, _quarters(True), "sin"),
    "tanh": Interpolated(_straight, _bent, _hyperbolic, "tanh"),
}
"""By name."""


@functools.cache
def tables() -> dict[str, Array]:
    """Coefficients ``[segments, 3]`` by function, the constant first, in units of 2^-23."""
    return {name: np.array(rows, np.float64) for name, rows in json.loads(DATA.read_text()).items()}


@functools.cache
def _columns(name: str) -> Columns:
    return columns_of(tables()[name], 16 if name == "rcp" else 17)


def interpolated(name: str) -> Callable[[Array], Array]:
    """A function of float32 as the unit gives it, of arguments that are no denormals."""
    function = FUNCTIONS[name]

    def operation(x: Array) -> Array:
        x = np.asarray(x, np.float32)
        flat = np.ascontiguousarray(x).reshape(-1)
        columns = _columns(function.table)
        if flat.size <= _AT_ONCE:
            return function.of(columns, flat).reshape(x.shape)
        parts = [function.of(columns, flat[start : start + _AT_ONCE]) for start in range(0, flat.size, _AT_ONCE)]
        return np.concatenate(parts).reshape(x.shape)

    return operation
