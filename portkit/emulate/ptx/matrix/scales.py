"""Products of block-scaled elements: a run of the depth shares a scale.

Source: PTX ISA, "Block Scaling for mma.sync" and "Block Scaling for tcgen05.mma.sync"; how they are summed: ``sums``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from portkit.emulate.core.smallfloats import E4M3, scale_of
from portkit.emulate.ptx.matrix.formats import NOTHING, Array, Format, Terms, exponents_of
from portkit.emulate.ptx.matrix.models import FOUR_BITS
from portkit.emulate.ptx.matrix.sums import CANONICAL_NAN, Model, cut_to_float32, multiply, power

_EXACT_RUN = 16
"""Products of 4-bit elements that are summed exactly before they meet others."""


def scale_values(codes: Array, kind: str) -> Array:
    """Scales as float64: ``ue8m0`` are powers of two, ``ue4m3`` are E4M3 without sign."""
    if kind == "ue8m0":
        return scale_of(codes)
    return np.abs(E4M3.decode(codes & 0xFF)).astype(np.float64)


@dataclass(frozen=True)
class BlockScales:
    """How the scales of one instruction are shared out.

    Attributes:
        count: scales of a row.
        run: elements of the depth that share one.
        fours: whether the elements have 4 bits, and the sums keep more for it.
    """

    count: int
    run: int
    fours: bool

    @staticmethod
    def of(vector: str | None, kind: Format, depth: int) -> BlockScales:
        """By the modifier ``scale_vec``; without one, an instruction of 4 bits has two scales, others have one."""
        count = int(vector[-2]) if vector else (2 if kind.bits == 4 else 1)
        return BlockScales(count, depth // count, kind.bits == 4)

    def multiply(self, a: Array, b: Array, of_rows: Array, of_columns: Array, kind: str, addend: Array) -> Array:
        """D of whole matrices.

        Args:
            a: values ``[batch, rows, depth]``.
            b: values ``[batch, columns, depth]``.
            of_rows: codes ``[batch, rows, count]``.
            of_columns: codes ``[batch, columns, count]``.
            kind: of the scales.
            addend: float32 ``[batch, rows, columns]``.
        """
        left, right = scale_values(of_rows, kind), scale_values(of_columns, kind)
        with np.errstate(over="ignore", invalid="ignore"):
            result = self._fours(a, b, left, right, addend) if self.fours else self._bytes(a, b, left, right, addend)
        missing = np.isnan(left).any(axis=-1)[:, :, None] | np.isnan(right).any(axis=-1)[:, None, :]
        return np.where(missing, CANONICAL_NAN.view(np.float32), result)

    def _bytes(self, a: Array, b: Array, left: Array, right: Array, addend: Array) -> Array:
        """One scale a row: exponents move, and nothing else."""
        x, y = _scaled(a, left, self.run), _scaled(b, right, self.run)
        return multiply(x, y, addend.transpose(1, 2, 0), Model(a.shape[-1], 25)).transpose(2, 0, 1)

    def _fours(self, a: Array, b: Array, left: Array, right: Array, addend: Array) -> Array:
        """Runs are summed exactly, scaled by the significands, and aligned by the scales' exponents alone."""
        runs = a.shape[-1] // _EXACT_RUN
        x, y = (each.reshape(*each.shape[:2], runs, _EXACT_RUN).transpose(2, 0, 1, 3) for each in (a, b))
        sums = np.matmul(x.astype(np.float64), y.astype(np.float64).swapaxes(-1, -2))
        repeat = self.run // _EXACT_RUN
        (p, i), (q, j) = (_split(np.repeat(each, repeat, axis=-1).transpose(2, 0, 1)) for each in (left, right))
        terms = sums * p[:, :, :, None] * q[:, :, None, :]
        exponents = np.where(terms == 0, int(NOTHING), i[:, :, :, None] + j[:, :, None, :])
        finite = np.where(np.isfinite(addend), addend, 0)
        top = np.maximum(exponents.max(axis=0), exponents_of(finite, -126).astype(np.int32))
        top = np.where(top <= NOTHING, 0, top)
        cut = np.trunc(terms * power(FOUR_BITS + exponents - top)).sum(axis=0)
        total = cut + np.trunc(finite.astype(np.float64) * power(FOUR_BITS - top))
        return np.where(np.isfinite(addend), cut_to_float32(total * power(top - FOUR_BITS)), addend)


def _split(scales: Array) -> tuple[Array, Array]:
    """Significands from 1 to below 2, and exponents; of zero, 0."""
    fractions, exponents = np.frexp(np.where(np.isfinite(scales), scales, 0))
    return fractions * 2, exponents.astype(np.int32) - 1


def _scaled(values: Array, scales: Array, run: int) -> Terms:
    """Elements whose exponents are moved by powers of two; what leaves float32 is kept by the exponents alone."""
    own = exponents_of(values, -126)
    shift = np.repeat(_split(scales)[1], run, axis=-1)
    moved = values.astype(np.float64) * np.repeat(scales, run, axis=-1)
    exponents = np.where(own == NOTHING, int(NOTHING), own + shift).astype(np.int16)
    return Terms(moved.transpose(2, 1, 0), exponents.transpose(2, 1, 0))
