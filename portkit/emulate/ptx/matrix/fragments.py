"""How the elements of matrices lie in the registers of a warp's lanes.

Lane ``4·g + t`` has row ``g`` and, of each run of elements, those of place ``t``. All functions take or give one array
``[registers, warps, 32]`` of 32-bit words (64-bit ones for f64).

Source: PTX ISA, "Matrix Fragments for mma.m16n8k16" and its neighbours, "Register Fragments for wgmma.mma_async".
"""

from __future__ import annotations

import numpy as np

from portkit.emulate.ptx.matrix.formats import Array, Format

_GROUPS, _PLACES = 8, 4


def rows_of_left(words: Array, kind: Format, rows: int) -> Array:
    """Codes ``[depth, rows, warps]`` of A, which has 8 or 16 rows."""
    halves = rows // 8
    count, warps = words.shape[:2]
    codes = kind.codes(words.reshape(*words.shape, 1))
    runs = codes.reshape(count // halves, halves, warps, _GROUPS, _PLACES, -1)
    return runs.transpose(0, 4, 5, 1, 3, 2).reshape(-1, rows, warps)


def columns_of_right(words: Array, kind: Format) -> Array:
    """Codes ``[depth, 8, warps]`` of B."""
    count, warps = words.shape[:2]
    codes = kind.codes(words.reshape(*words.shape, 1))
    runs = codes.reshape(count, warps, _GROUPS, _PLACES, -1)
    return runs.transpose(0, 3, 4, 2, 1).reshape(-1, _GROUPS, warps)


def tile(values: Array, rows: int) -> Array:
    """C or D of one value a register: ``[registers, warps, 32]`` to ``[rows, columns, warps]``.

    Registers are pairs of neighbouring columns, of row ``g`` and then of row ``g + 8``, eight columns after the others.
    """
    halves = rows // 8
    count, warps = values.shape[:2]
    runs = values.reshape(count // (2 * halves), halves, 2, warps, _GROUPS, _PLACES)
    return runs.transpose(1, 4, 0, 5, 2, 3).reshape(rows, -1, warps)


def registers(matrix: Array) -> Array:
    """The inverse of ``tile``."""
    rows, columns, warps = matrix.shape
    runs = matrix.reshape(rows // 8, _GROUPS, columns // 8, _PLACES, 2, warps)
    return runs.transpose(2, 0, 4, 5, 1, 3).reshape(-1, warps, _GROUPS * _PLACES)


def tiles_of_warps(values: Array, rows: int) -> Array:
    """As ``tile``, in memory warp by warp: ``[warps, rows, columns]``."""
    halves = rows // 8
    count, warps = values.shape[:2]
    runs = values.reshape(count // (2 * halves), halves, 2, warps, _GROUPS, _PLACES)
    return runs.transpose(3, 1, 4, 0, 5, 2).reshape(warps, rows, -1)


def registers_of_warps(matrix: Array) -> Array:
    """The inverse of ``tiles_of_warps``."""
    warps, rows, columns = matrix.shape
    runs = matrix.reshape(warps, rows // 8, _GROUPS, columns // 8, _PLACES, 2)
    return runs.transpose(3, 1, 5, 0, 2, 4).reshape(-1, warps, _GROUPS * _PLACES)


def tile_of_halves(words: Array, rows: int) -> Array:
    """C or D of two float16 a register, as float16."""
    return tile(halves_of(words), rows)


def registers_of_halves(matrix: Array) -> Array:
    """The inverse of ``tile_of_halves``, as words."""
    return words_of_halves(registers(matrix))


def halves_of(words: Array) -> Array:
    """Registers of two float16 as twice as many of one, which ``tile`` and ``tiles_of_warps`` take."""
    halves: Array = np.ascontiguousarray(words).view(np.float16)
    count, warps = words.shape[:2]
    return halves.reshape(count, warps, 32, 2).transpose(0, 3, 1, 2).reshape(2 * count, warps, 32)


def words_of_halves(values: Array) -> Array:
    """The inverse of ``halves_of``."""
    count, warps, lanes = values.shape
    pairs = values.reshape(count // 2, 2, warps, lanes).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(pairs).view(np.uint32).reshape(count // 2, warps, lanes)
