"""Element formats of matrix operands: from codes to values and exponents.

Sources: PTX ISA, "Alternate Floating-Point Data Formats", "Fundamental Types"; core/smallfloats.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.floats import bf16_to_f32
from portkit.emulate.core.smallfloats import E2M1, E2M3, E3M2, E4M3, E5M2, SmallFloat, unpack

Array: TypeAlias = NDArray[Any]

NOTHING = np.int16(-9000)
"""Exponent of a zero: below that of every product, also when two are added."""

_FRACTIONS = {"f16": 10, "bf16": 7}
"""Fraction bits of formats of 16 bits."""

_TOP_NINETEEN = np.uint32(0xFFFF_E000)


@dataclass(frozen=True)
class Terms:
    """Factors of products: values as float32, and the exponents that they are aligned by, of integers all 0."""

    values: Array  # float32[depth, rows, batch]
    exponents: Array  # int16, likewise

    def part(self, start: int, end: int) -> Terms:
        """Of the depth."""
        return Terms(self.values[start:end], self.exponents[start:end])

    def within(self, part: tuple[slice, slice]) -> Terms:
        """Some of the first two axes behind the depth; all where there is one."""
        sizes = self.values.shape[1:3]
        first, second = (which if size > 1 else slice(None) for which, size in zip(part, sizes, strict=True))
        return Terms(self.values[:, first, second], self.exponents[:, first, second])

    def turned(self) -> Terms:
        """``[depth, batch, rows]``, or back."""
        return Terms(self.values.swapaxes(1, 2), self.exponents.swapaxes(1, 2))

    def whole(self) -> Terms:
        """In memory as they are counted."""
        return Terms(np.ascontiguousarray(self.values), np.ascontiguousarray(self.exponents))

    def spread(self, axis: int) -> Terms:
        """With one more axis, of size 1: there lies the other factor's."""
        index = (slice(None),) * axis + (None,)
        return Terms(self.values[index], self.exponents[index])

    def laid(self, batch: int, parts: Sequence[int] | None = None) -> Terms:
        """A batch of another size.

        Args:
            batch: its size.
            parts: numbers of the parts that it consists of; None: each element, as often as there is room.
        """
        return Terms(_laid(self.values, batch, parts), _laid(self.exponents, batch, parts))

    def over(self, times: int) -> Terms:
        """The whole batch so often, one behind the other."""
        return Terms(_over(self.values, times), _over(self.exponents, times))

    def folded(self, times: int) -> Terms:
        """So many rows beside each other in the batch."""
        depth, rows, batch = self.values.shape
        shape = (depth, rows // times, times * batch)
        return Terms(self.values.reshape(shape), self.exponents.reshape(shape))


def _over(values: Array, times: int) -> Array:
    """As ``np.tile``, which is slower."""
    depth, rows, batch = values.shape
    return np.broadcast_to(values[:, :, None], (depth, rows, times, batch)).reshape(depth, rows, -1)


def _laid(values: Array, batch: int, parts: Sequence[int] | None) -> Array:
    depth, rows, size = values.shape
    if parts is None:
        return values if size == batch else np.repeat(values, batch // size, axis=-1)
    return values.reshape(depth, rows, -1, batch // len(parts)).take(parts, axis=2).reshape(depth, rows, batch)


@dataclass(frozen=True, eq=False)
class Format:
    """A format of matrix elements; there is one of each name."""

    name: str
    bits: int  # that an element fills in registers and memory
    smallest: int = 0  # exponent of the smallest normal number
    integer: bool = False
    unit: int = 0  # bits of a code where 16 of them lie side by side in a unit of 16 bytes, and nothing behind them

    @property
    def per_word(self) -> int:
        """Elements of a 32-bit word; 1 for those that are wider."""
        return max(1, 32 // self.bits)

    @property
    def pieces(self) -> tuple[tuple[int, int], ...]:
        """Of a unit of 16 bytes in memory, the parts that hold elements: first byte and size."""
        return {0: ((0, 16),), 4: ((0, 8),), 6: ((0, 8), (8, 4))}[self.unit]

    @property
    def least(self) -> int | None:
        """Exponent of a bit below which no number has any, of floats of up to 8 bits; those of others lie far down."""
        return _least(self.name)

    def codes(self, words: Array) -> Array:
        """Codes of whole words: ``uint32[..., words]`` to ``[..., words * per_word]``."""
        words = np.ascontiguousarray(words)
        if self.unit:
            return _codes_of_units(words, self.unit)
        if self.bits == 4:
            octets = words.view(np.uint8)
            return np.stack([octets & 15, octets >> 4], axis=-1).reshape(*octets.shape[:-1], -1)
        return words.view(f"u{self.bits // 8}")

    def values(self, codes: Array) -> Array:
        """Numbers: float32 for floats up to 32 bits, float64 for wider ones, and float32 for integers, exactly."""
        return _VALUES[self.name](codes)

    def terms(self, codes: Array) -> Terms:
        """Values and exponents."""
        table = _table(self.name)
        if table is not None:
            return Terms(table[0].take(codes), table[1].take(codes))
        values = self.values(codes)
        if self.integer:
            return Terms(values, np.zeros(values.shape, np.int16))
        if self.bits == 16:
            return Terms(values, self._exponents(codes))
        return Terms(values, exponents_of(values, self.smallest))

    def _exponents(self, codes: Array) -> Array:
        """As ``exponents_of``, from codes of 16 bits."""
        size = codes & np.uint16(0x7FFF)
        field = (size >> np.uint16(_FRACTIONS[self.name])).view(np.int16)
        found: Array = np.maximum(field, np.int16(1)) + np.int16(self.smallest - 1)
        np.copyto(found, NOTHING, where=size == 0)
        return found


def least_of(left: Format, right: Format) -> int | None:
    """Exponent of a bit below which no product of two formats has any; None where that is far down."""
    return None if left.least is None or right.least is None else left.least + right.least


def _codes_of_units(words: Array, bits: int) -> Array:
    """Codes of 4 or 6 bits of units of 16 bytes, 16 codes each."""
    units = words.reshape(*words.shape[:-1], -1, 4)[..., : bits // 2]
    octets = np.ascontiguousarray(units[..., : bits * 16 // 32])
    return unpack(octets, bits).astype(np.uint8).reshape(*words.shape[:-1], -1)


def exponents_of(values: Array, smallest: int) -> Array:
    """Exponents of float32 or float16, not below that of the format's smallest normal number; int16."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    field = ((bits >> np.uint32(23)) & np.uint32(255)).astype(np.int16) - np.int16(127)
    return np.where(values == 0, NOTHING, np.maximum(field, np.int16(smallest)))


def _small(kind: SmallFloat, low: int = 0) -> Callable[[Array], Array]:
    table, mask = kind.table, (1 << kind.bits) - 1
    return lambda codes: table.take((codes >> low) & mask)


def _signed_nibbles(codes: Array) -> Array:
    return ((codes.astype(np.int8) ^ np.int8(8)) - np.int8(8)).astype(np.float32)


def _halves(codes: Array) -> Array:
    """Float16 to float32: a shift and an exact product where all are finite, for NumPy's own conversion is slow."""
    size = codes & np.uint16(0x7FFF)
    if size.size and size.max() >= 0x7C00:
        return codes.view(np.float16).astype(np.float32)
    values: Array = (size.astype(np.uint32) << np.uint32(13)).view(np.float32)
    values *= np.float32(2.0**112)
    bits = values.view(np.uint32)
    bits |= (codes & np.uint16(0x8000)).astype(np.uint32) << np.uint32(16)
    return values


_VALUES: dict[str, Callable[[Array], Array]] = {
    "f16": _halves,
    "bf16": bf16_to_f32,
    "tf32": lambda codes: (codes & _TOP_NINETEEN).view(np.float32),
    "f64": lambda codes: codes.view(np.float64),
    "e4m3": _small(E4M3),
    "e5m2": _small(E5M2),
    "e2m3": _small(E2M3),
    "e3m2": _small(E3M2),
    "e2m1": _small(E2M1),
    "padded e2m1": _small(E2M1, low=2),
    "e2m3 in units": _small(E2M3),
    "e3m2 in units": _small(E3M2),
    "e2m1 in units": _small(E2M1),
    "s8": lambda codes: codes.view(np.int8).astype(np.float32),
    "u8": lambda codes: codes.astype(np.float32),
    "s4": _signed_nibbles,
    "u4": lambda codes: codes.astype(np.float32),
}

FORMATS = {
    each.name: each
    for each in (
        Format("f16", 16, -14),
        Format("bf16", 16, -126),
        Format("tf32", 32, -126),
        Format("f64", 64, -1022),
        Format("e4m3", 8, -6),
        Format("e5m2", 8, -14),
        Format("e2m3", 8, 0),
        Format("e3m2", 8, -2),
        Format("e2m1", 4, 0),
        Format("padded e2m1", 8, 0),
        Format("e2m3 in units", 8, 0, unit=6),
        Format("e3m2 in units", 8, -2, unit=6),
        Format("e2m1 in units", 8, 0, unit=4),
        Format("s8", 8, integer=True),
        Format("u8", 8, integer=True),
        Format("s4", 4, integer=True),
        Format("u4", 4, integer=True),
    )
}
"""Name → format. e2m3 and e3m2 lie in the low six bits of a byte, a padded e2m1 in the four in its middle."""


@functools.cache
def _table(name: str) -> tuple[Array, Array] | None:
    """Values and exponents of all codes, of formats that have few."""
    kind = FORMATS[name]
    if kind.bits > 8 or kind.integer:
        return None
    codes: Array = np.arange(1 << kind.bits, dtype=f"u{max(1, kind.bits // 8)}")
    values = kind.values(codes)
    finite = np.where(np.isfinite(values), values, 0)
    return values, exponents_of(finite, kind.smallest)


@functools.cache
def _least(name: str) -> int | None:
    table = _table(name)
    if table is None:
        return None
    sizes = np.abs(table[0])
    return int(np.log2(sizes[sizes > 0].min()))
