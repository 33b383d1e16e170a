"""Operands of probes: edges of their kinds, in all combinations as far as there is room, and any bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from portkit.emulate.core.bytestore import Words
from portkit.emulate.core.smallfloats import pack, unpack
from portkit.emulate.core.vectors import Array, Kind, elements, kind_of

ROWS = 1024
"""Rows of operands of one probe."""

_PAIR = 2
"""Values of a packed operand; more floats are elements of a matrix."""

_WORD = 32

_EDGES: dict[str, tuple[int, ...]] = {
    "F16": (
        0,
        0x8000,
        1,
        0x83FF,
        0x0400,
        0x3C00,
        0xBC00,
        0x3BFF,
        0x3800,
        0x7BFF,
        0xFBFF,
        0x7C00,
        0xFC00,
        0x7E00,
        0x4248,
    ),
    "B16": (
        0,
        0x8000,
        1,
        0x807F,
        0x0080,
        0x3F80,
        0xBF80,
        0x3F7F,
        0x3F00,
        0x7F7F,
        0xFF7F,
        0x7F80,
        0xFF80,
        0x7FC0,
        0x4049,
    ),
    "E8": (0, 0x70, 0x7E, 0x7F, 0x80, 0x8F, 0xFF),
    "F32": (
        *(0, 0x8000_0000, 1, 0x8000_0001, 0x007F_FFFF, 0x0080_0000, 0x3F80_0000, 0xBF80_0000, 0x3F7F_FFFF),
        *(0x3F00_0000, 0x3EFF_FFFF, 0x3FC0_0000, 0x4B00_0001, 0x4F00_0000, 0xCF00_0000, 0x4F7F_FFFF),
        *(0x7F7F_FFFF, 0xFF7F_FFFF, 0x7F80_0000, 0xFF80_0000, 0x7FC0_0000, 0x40490FDB),
    ),
    "F64": (
        *(0, 1 << 63, 1, 0x800F_FFFF_FFFF_FFFF, 0x0010_0000_0000_0000, 0x3FF0_0000_0000_0000, 0xBFF0_0000_0000_0000),
        *(0x3FEF_FFFF_FFFF_FFFF, 0x3FE0_0000_0000_0000, 0x4340_0000_0000_0001, 0x41E0_0000_0000_0000),
        *(0x7FEF_FFFF_FFFF_FFFF, 0xFFEF_FFFF_FFFF_FFFF, 0x7FF0_0000_0000_0000, 0xFFF0_0000_0000_0000),
        *(0x7FF8_0000_0000_0000, 0x4009_21FB_5444_2D18, 0x47EF_FFFF_F000_0000, 0x3690_0000_0000_0000),
    ),
}


def _edges(kind: str) -> tuple[int, ...]:
    """Values at the ends of a type, and shift counts around the width of words."""
    name = kind.partition("x")[0]
    if name in _EDGES:
        return _EDGES[name]
    bits = kind_of(name).bits
    top, mask = 1 << (bits - 1), (1 << bits) - 1
    counts = [n for n in (2, 7, 8, 15, 16, 31, 32, 33, 63, 64) if n <= mask]
    return (0, 1, *counts, top - 1, top, top + 1, mask - 1, mask, 0x5555_5555_5555_5555 & mask)


def operands_for(sources: Sequence[str], rows: int = ROWS, seed: int = 0) -> Words:
    """Operands of probes: edges of the first operands in all combinations that there is room for, else among any bits.

    The same on every machine.

    Args:
        sources: kinds.
        rows: how many.
        seed: of chance; other seeds leave the edges that come in all combinations.

    Returns:
        ``[rows, words]``.
    """
    random = np.random.Generator(
        np.random.PCG64([len(sources), *map(ord, "".join(sources)), *([seed] if seed else [])])
    )
    make = _column_of_matrix if _of_matrices(sources) else _column
    columns = [make(kind, place, len(sources), rows, random) for place, kind in enumerate(sources)]
    return np.ascontiguousarray(np.concatenate(columns, axis=1))


def _of_matrices(sources: Sequence[str]) -> bool:
    """Whether the operands are those of a product of matrices of floats: one of them is more than a pair, or is ``x1``.

    A lane's only element of a matrix has ``x1`` in the name of its kind.
    """
    kinds = map(kind_of, sources)
    wide = any(kind.count > _PAIR and kind.mantissa is not None for kind in kinds)
    return wide or any(name.endswith("x1") for name in sources)


def _column_of_matrix(kind: str, place: int, count: int, rows: int, random: np.random.Generator) -> Words:
    """Floats of moderate size; all else as where nothing is a matrix."""
    shape = kind_of(kind)
    values = random.integers(0, 2**64, (rows, shape.count), dtype=np.uint64) & np.uint64((1 << shape.bits) - 1)
    if kind.startswith("E8"):
        return _words(_scales(values, np.array(_edges(kind), np.uint64), random), shape.bits)
    if kind.startswith("FP8"):
        return _words(_moderate_bytes(values), shape.bits)
    if shape.mantissa is not None:
        return _words(_moderate(values, shape, random), shape.bits)
    return _column(kind, place, count, rows, random)


def _column(kind: str, place: int, count: int, rows: int, random: np.random.Generator) -> Words:
    shape = kind_of(kind)
    edges = np.array(_edges(kind), np.uint64)
    mask = np.uint64((1 << shape.bits) - 1)
    values = random.integers(0, 2**64, (rows, shape.count), dtype=np.uint64) & mask
    chosen = random.random((rows, shape.count)) < (0.5 if count > 1 else 0.0)
    values = np.where(chosen, random.choice(edges, (rows, shape.count)), values)
    combined = sum(edges.size ** (n + 1) <= rows for n in range(count))  # operands whose combinations fit
    if place < combined:
        whole = edges.size**combined
        values[:whole] = edges[np.arange(whole) // edges.size**place % edges.size][:, None]
    return _words(values, shape.bits)


def _scales(values: Array, edges: Array, random: np.random.Generator) -> Array:
    """Exponents of scales, E8M0: 2^-8 to 2^7, and here and there an edge, of which 255 is NaN."""
    moderate = np.uint64(0x77) + values % np.uint64(16)
    scales: Array = np.where(random.random(values.shape) < 1 / _WORD, random.choice(edges, values.shape), moderate)
    return scales


def _moderate_bytes(values: Array) -> Array:
    """8-bit floats of either sign up to 7.5 (E4M3) or 28 (E5M2) in size, and no code that means NaN in any format."""
    moderate: Array = values & np.uint64(0x80) | (values & np.uint64(0x7F)) % np.uint64(0x4F) + np.uint64(1)
    return moderate


def _moderate(values: Array, shape: Kind, random: np.random.Generator) -> Array:
    """Elements of matrices: numbers of 1/16 to 16 in size, so that sums stay numbers."""
    width = shape.bits - 1 - shape.mantissa if shape.mantissa else 0
    bias = (1 << (width - 1)) - 1
    exponents = random.integers(bias - 4, bias + 4, values.shape).astype(np.uint64) << np.uint64(shape.mantissa or 0)
    kept = np.uint64((1 << (shape.bits - 1)) | ((1 << (shape.mantissa or 0)) - 1))
    moderate: Array = values & kept | exponents
    return moderate


def _words(values: Array, bits: int) -> Words:
    """``[rows, values]`` side by side in 32-bit words."""
    if bits == 64:
        return np.ascontiguousarray(values).view(np.uint32)
    if _crosses_words(bits):
        return pack(values, bits)
    per = max(1, min(values.shape[1], 32 // bits))
    parts = values.reshape(len(values), -1, per) << (np.arange(per, dtype=np.uint64) * np.uint64(bits))
    return np.asarray(np.bitwise_or.reduce(parts, axis=2)).astype(np.uint32)


def _crosses_words(bits: int) -> bool:
    """Whether values of so many bits lie across the ends of words."""
    return bits < _WORD and _WORD % bits != 0


def without_signs(operands: Words, sources: Sequence[str]) -> Words:
    """Operands whose floats are all positive, so that sums of products become those of their sizes."""
    columns, place = operands.copy(), 0
    for name in sources:
        kind = kind_of(name)
        if kind.mantissa is not None or name.startswith("FP"):
            words = columns[:, place : place + kind.words]
            part = unpack(words, kind.bits).astype(np.uint64) if _crosses_words(kind.bits) else elements(words, kind)
            clear = part & np.uint64((1 << (kind.bits - 1)) - 1)
            columns[:, place : place + kind.words] = _words(clear, kind.bits)
        place += kind.words
    return columns
