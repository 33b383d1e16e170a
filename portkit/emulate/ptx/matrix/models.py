"""Which sum each matrix instruction of each architecture makes.

Source of the parameters: the papers that ``sums`` names, which found them on silicon of every generation. Those of
sm_90 were held against results of an H200 here. Generations that the papers did not measure take those of the one
that they are built like: sm_87 of sm_86, sm_103 of sm_100.
"""

from __future__ import annotations

from portkit.emulate.ptx.architecture import Architecture
from portkit.emulate.ptx.matrix.formats import Format
from portkit.emulate.ptx.matrix.sums import Model, Result

_EIGHT = frozenset({"e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "padded e2m1"})


def warp_model(architecture: Architecture, left: Format, depth: int = 32) -> Model:
    """Of ``mma.sync`` with results of float32; only of 8-bit floats the depth counts.

    Up to sm_89 an instruction is two of half the depth. On sm_90 and sm_100 one of 8-bit floats is made of those of
    float16, so it keeps more bits than ``wgmma``: see ``through_halves``.
    """
    if architecture.number < 80:
        return Model(8, 24)
    if architecture.number < 90:
        return Model(16, 13, Result.SHORT) if left.name in _EIGHT else Model(4 if left.name == "tf32" else 8, 24)
    if left.name in _EIGHT:
        return Model(depth // 2 if through_halves(architecture, left) else 32 if architecture.number >= 120 else 16, 25)
    return Model(8 if left.name == "tf32" else 16, 25)


def through_halves(architecture: Architecture, left: Format) -> bool:
    """Whether ``mma.sync`` of 8-bit floats is two products of float16, and a sum with the addend behind them."""
    return 90 <= architecture.number < 120 and left.name in {"e4m3", "e5m2"}


def group_model(left: Format) -> Model:
    """Of ``wgmma`` with results of float32."""
    if left.name in _EIGHT:
        return Model(32, 13, Result.SHORT)
    return Model(8 if left.name == "tf32" else 16, 25)


def tensor_model(left: Format) -> Model:
    """Of ``tcgen05.mma`` with results of float32: all products of an instruction at once."""
    if left.name in _EIGHT:
        return Model(32, 25)
    return Model(8 if left.name == "tf32" else 16, 25)


FOUR_BITS = 35
"""Fraction bits of block-scaled products of 4 bits, whose blocks of 16 are summed exactly first."""
