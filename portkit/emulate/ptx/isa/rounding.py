"""Rounding modes of PTX.

Source: PTX ISA, "Floating-Point Rounding Modifiers".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from portkit.emulate.core.floats import bf16_to_f32, fma32, fma32_unrounded, fma64
from portkit.emulate.ptx.machine import Array

Function: TypeAlias = Callable[..., Any]

NEAREST = "rn"
FLOAT_MODES = ("rn", "rz", "rm", "rp")
"""To nearest even, toward zero, down, up."""

INTEGER_MODES: dict[str, Callable[[Array], Array]] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
"""Likewise, to an integer."""


def rounded(wide: Array, dtype: Any, mode: str) -> Array:
    """Float64 rounded to a narrower type once; float64 that was rounded to odd counts as exact."""
    wide = np.asarray(wide, np.float64)
    near = wide.astype(dtype)
    if mode == NEAREST:
        return near
    back = near.astype(np.float64)
    above, below = back > wide, back < wide
    wrong = {"rz": np.where(wide > 0, above, below), "rm": above, "rp": below}[mode]
    toward = {"rz": np.zeros((), dtype), "rm": np.array(-np.inf, dtype), "rp": np.array(np.inf, dtype)}[mode]
    return np.where(wrong, np.nextafter(near, toward), near)


def add32(mode: str, negate: bool = False) -> Function:
    """Sum or difference of float32."""
    if mode == NEAREST:
        plain: Function = np.subtract if negate else np.add
        return plain
    sign = np.float32(-1 if negate else 1)

    def function(a: Array, b: Array) -> Array:
        result = rounded(fma32_unrounded(b, sign, a), np.float32, mode)
        return _zeros_down(result, a, b * sign) if mode == "rm" else result

    return function


def _zeros_down(result: Array, one: Array, other: Array) -> Array:
    """Rounding down, what adds up to zero is -0, but of two that are positive."""
    negative = np.signbit(one) | np.signbit(other)
    return np.where((result == 0) & negative, np.float32(-0.0), result)


def multiply32(mode: str) -> Function:
    """Product of float32, which float64 holds."""
    if mode == NEAREST:
        product: Function = np.multiply
        return product
    return lambda a, b: rounded(np.multiply(a, b, dtype=np.float64), np.float32, mode)


def fused32(mode: str) -> Function:
    """a·b + c of float32."""
    if mode == NEAREST:
        return fma32

    def function(a: Array, b: Array, c: Array) -> Array:
        exact = fma32_unrounded(a, b, c)
        result = rounded(exact, np.float32, mode)
        negative = np.signbit(a) != np.signbit(b)
        down = _zeros_down(result, np.where(negative, np.float32(-1), np.float32(1)), c)
        return np.where(exact == 0, down, result) if mode == "rm" else result

    return function


fused64 = fma64


def bf16_bits(wide: Array, mode: str = NEAREST) -> Array:
    """Bits of bfloat16 of float64 or float32, rounded once; NaN becomes 0x7fff."""
    x = np.asarray(wide)
    if x.dtype == np.float64:
        x = _to_odd32(x)
    bits = x.astype(np.float32, copy=False).view(np.uint32)
    if mode == NEAREST:
        bits = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    elif mode != "rz":  # the size grows by what is behind its 8 bits, on the side that the mode rounds away from zero
        outward = np.signbit(x) == (mode == "rm")
        bits = np.where(outward & np.isfinite(x), bits + np.uint32(0xFFFF), bits)
    return np.where(np.isnan(x), np.uint16(0x7FFF), (bits >> np.uint32(16)).astype(np.uint16))


def _to_odd32(x: Array) -> Array:
    """Float64 to float32, rounded to odd, so that rounding to 8 bits afterwards is exact."""
    near = x.astype(np.float32)
    back = near.astype(np.float64)
    bits = near.view(np.int32)
    inexact = (back != x) & np.isfinite(near) & ((bits & 1) == 0)
    outward = np.abs(x) > np.abs(back)
    overflow = np.isinf(near) & np.isfinite(x)
    moved = np.where(inexact, np.where(outward, bits + 1, bits - 1), bits)
    return np.where(overflow, np.copysign(np.float32(3.4028235e38), near), moved.view(np.float32))


def bf16_values(bits: Array) -> Array:
    """Float32 of bfloat16 bits."""
    return bf16_to_f32(bits)
