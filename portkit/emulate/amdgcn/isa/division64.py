"""The sequence that makes an exact float64 quotient, and the approximate functions that float64 code begins with.

Sources: CDNA3 ISA and RDNA3 ISA, v_div_scale_f64, v_div_fmas_f64, v_div_fixup_f64 under VOP3; v_rcp_f64, v_rsq_f64
and v_sqrt_f64 under VOP1. The same repairs as in ``division`` make the published text exact.

Approximation: reciprocals and roots are rounded to float64 once, where devices give fewer bits, which the
instructions that follow refine.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from portkit.emulate.amdgcn.isa import sections
from portkit.emulate.amdgcn.isa.arithmetic import arithmetic
from portkit.emulate.amdgcn.isa.division import fixed_up, fmas_builder, scale_builder
from portkit.emulate.amdgcn.isa.registry import Entry
from portkit.emulate.amdgcn.machine import Array
from portkit.emulate.amdgcn.operands import Type
from portkit.emulate.core.floats import fma64
from portkit.emulate.core.vectors import Approximation

_UP, _DOWN = 2.0**128, 2.0**-128
_SMALLEST_NORMAL = 2.0**-1022


def _float64s(*values: Array) -> list[Array]:
    return list(np.broadcast_arrays(*(np.asarray(value, np.float64) for value in values)))


def _exponent(x: Array) -> Array:
    """Biased exponent, as int64."""
    bits = np.ascontiguousarray(x, np.float64).view(np.uint64)
    return ((bits >> np.uint64(52)) & np.uint64(2047)).astype(np.int64)


def divide_scale(value: Array, denominator: Array, numerator: Array) -> tuple[Array, Array]:
    """v_div_scale_f64: ``value`` (one of the other two) scaled, and whether v_div_fmas must undo it."""
    value, denominator, numerator = _float64s(value, denominator, numerator)
    below, above = _exponent(denominator), _exponent(numerator)
    reciprocal_denormal = 1 / np.abs(denominator) < _SMALLEST_NORMAL
    quotient_denormal = np.abs(numerator) / np.abs(denominator) < _SMALLEST_NORMAL
    is_denominator, is_numerator = value == denominator, value == numerator
    conditions = [
        (numerator == 0) | (denominator == 0),
        above - below >= 768,
        (below == 0) & (denominator != 0),
        reciprocal_denormal & quotient_denormal,
        reciprocal_denormal,
        quotient_denormal,
        above <= 53,
    ]
    results = [
        np.float64(np.nan),
        np.where(is_denominator, value * _UP, value),
        value * _UP,
        np.where(is_denominator, value * _DOWN, value),
        value * _DOWN,
        np.where(is_numerator, value * _UP, value),
        value * _UP,
    ]
    undone = np.select(conditions, [False, True, False, True, False, True, False], False)
    return np.select(conditions, results, value), undone


def divide_fmas(a: Array, b: Array, c: Array, scaled: Array) -> Array:
    """v_div_fmas_f64: a·b + c, scaled back where v_div_scale says so, rounded once."""
    a, b, c = _float64s(a, b, c)
    result = fma64(a, b, c)
    for place in zip(*np.nonzero(np.broadcast_to(scaled, result.shape)), strict=True):
        power = 128 if _exponent(c[place]) > 1023 else -128
        result[place] = _scaled_fma(float(a[place]), float(b[place]), float(c[place]), power)
    return result


def _scaled_fma(a: float, b: float, c: float, power: int) -> float:
    if not all(map(np.isfinite, (a, b, c))):
        return a * b + c
    exact = (Fraction(a) * Fraction(b) + Fraction(c)) * Fraction(2) ** power
    try:
        return float(exact)
    except OverflowError:
        return float(np.copysign(np.inf, 1.0 if exact > 0 else -1.0))


def divide_fixup(quotient: Array, denominator: Array, numerator: Array) -> Array:
    """v_div_fixup_f64: special operands and the sign, around a quotient that is right elsewhere."""
    quotient, denominator, numerator = _float64s(quotient, denominator, numerator)
    tiny = _exponent(numerator) - _exponent(denominator) < -1075
    return fixed_up(quotient, denominator, numerator, tiny, _exponent(quotient) == 2047)


_REFINED = Approximation("rounded once, where devices give some 24 bits that code refines", ulps=1 << 29)

TABLE: dict[str, Entry] = {
    "v_div_scale_f64": Entry(scale_builder(Type.F64, divide_scale, whole=True), sections.VOP3),
    "v_div_fmas_f64": Entry(fmas_builder(Type.F64, divide_fmas), sections.VOP3),
    "v_div_fixup_f64": arithmetic("F64 = F64 F64 F64", divide_fixup, sections.VOP3),
    "v_rcp_f64": arithmetic("F64 = F64", lambda x: 1 / np.asarray(x), sections.VOP1, approximation=_REFINED),
    "v_rsq_f64": arithmetic("F64 = F64", lambda x: 1 / np.sqrt(x), sections.VOP1, approximation=_REFINED),
    "v_sqrt_f64": arithmetic("F64 = F64", np.sqrt, sections.VOP1, approximation=_REFINED),
}
"""Mnemonic → entry."""
