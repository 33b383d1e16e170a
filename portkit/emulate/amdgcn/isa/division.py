"""The sequence that makes an exact float32 quotient: v_div_scale, v_div_fmas, v_div_fixup.

Sources: CDNA3 ISA and RDNA3 ISA, v_div_scale_f32, v_div_fmas_f32, v_div_fixup_f32 under VOP3. As published
the sequence gives wrong quotients. Three repairs make it exact over the whole exponent range:

- v_div_scale scales the denominator *down* by 2^-64 where both the reciprocal and the quotient are
  denormal; the text scales up, which overflows.
- v_div_fmas undoes by 2^64 or 2^-64, as v_div_scale did, with the sign of the exponent of the addend; the
  text says 2^32. It rounds once, after scaling.
- v_div_fixup gives infinity where the quotient estimate itself overflowed; the text tests the exponent of
  the denominator, which can't be 255 at that point.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from portkit.emulate.amdgcn.decode import Decoder, Step
from portkit.emulate.amdgcn.isa import sections
from portkit.emulate.amdgcn.isa.arithmetic import arithmetic
from portkit.emulate.amdgcn.isa.registry import Build, Entry
from portkit.emulate.amdgcn.machine import Array, Machine
from portkit.emulate.amdgcn.operands import Type
from portkit.emulate.core.floats import exponent, fma32, fma32_unrounded

_UP, _DOWN = 2.0**64, 2.0**-64


def _alike(*values: Array) -> list[Array]:
    """Float32 of one shape."""
    arrays = [np.asarray(value, np.float32) for value in values]
    shape = arrays[0].shape
    return arrays if all(x.shape == shape for x in arrays) else list(np.broadcast_arrays(*arrays))


def _scaled(x: Array, by: float) -> Array:
    return (x.astype(np.float64) * by).astype(np.float32)


_LEAST, _SPAN, _SIZE = np.uint32(64 << 23), np.uint32(95 << 23), np.uint32(0x7FFF_FFFF)


def _immoderate(denominator: Array, numerator: Array) -> Array:
    """Lanes that may need scaling or fixing: exponents beyond -63 to 31, in which quotients stay normal."""
    beyond = [(np.asarray(x.view(np.uint32) & _SIZE) - _LEAST) >= _SPAN for x in (denominator, numerator)]
    return np.asarray(beyond[0] | beyond[1])


def divide_scale(value: Array, denominator: Array, numerator: Array) -> tuple[Array, Array]:
    """v_div_scale_f32: ``value`` (one of the other two) scaled, and whether v_div_fmas must undo it."""
    value, denominator, numerator = _alike(value, denominator, numerator)
    lanes = _immoderate(denominator, numerator)
    if not lanes.any():
        return value, np.zeros((1, 1), np.bool_)
    zero = (numerator == 0) | (denominator == 0)  # of which masked lanes consist mostly
    scaled, undone = np.where(zero, np.float32(np.nan), value), np.zeros(value.shape, np.bool_)
    lanes &= ~zero
    if lanes.any():
        scaled[lanes], undone[lanes] = _divide_scale(value[lanes], denominator[lanes], numerator[lanes])
    return scaled, undone


def _divide_scale(value: Array, denominator: Array, numerator: Array) -> tuple[Array, Array]:
    """Of operands of any size but zeros."""
    up, down = _scaled(value, _UP), _scaled(value, _DOWN)
    below, above = exponent(denominator), exponent(numerator)
    size = np.abs(denominator).astype(np.float64)
    reciprocal_denormal = 1 / size < 2.0**-126
    quotient_denormal = np.abs(numerator).astype(np.float64) / size < 2.0**-126
    is_denominator, is_numerator = value == denominator, value == numerator
    cases = [
        (above - below >= 96, np.where(is_denominator, up, value), True),
        (below == 0, up, False),
        (reciprocal_denormal & quotient_denormal, np.where(is_denominator, down, value), True),
        (reciprocal_denormal, down, False),
        (quotient_denormal, np.where(is_numerator, up, value), True),
        (above <= 23, up, False),
    ]
    scaled, undone = value.copy(), np.zeros(value.shape, np.bool_)
    for condition, result, undo in reversed(cases):  # the first that applies counts
        np.copyto(scaled, result, where=condition)
        np.copyto(undone, undo, where=condition)
    return scaled, undone


def divide_fmas(a: Array, b: Array, c: Array, scaled: Array) -> Array:
    """v_div_fmas_f32: a·b + c, scaled back where v_div_scale says so, rounded once."""
    if not np.any(scaled):
        return fma32(a, b, c)
    power = np.where(exponent(c) > 127, _UP, _DOWN)
    exact = fma32_unrounded(a, b, c)
    return np.where(scaled, exact * power, exact).astype(np.float32)


def divide_fixup(quotient: Array, denominator: Array, numerator: Array) -> Array:
    """v_div_fixup_f32: special operands and the sign, around a quotient that is right elsewhere."""
    quotient, denominator, numerator = _alike(quotient, denominator, numerator)
    fixed = np.copysign(quotient, numerator * np.sign(denominator))
    lanes = _immoderate(denominator, numerator) | ~np.isfinite(quotient)
    nothing = lanes & (numerator == 0) & (denominator != 0) & np.isfinite(denominator)
    if nothing.any():  # mostly masked lanes
        np.copyto(fixed, np.copysign(np.float32(0), fixed), where=nothing)
        lanes &= ~nothing
    if lanes.any():
        fixed[lanes] = _divide_fixup(quotient[lanes], denominator[lanes], numerator[lanes])
    return fixed


def _divide_fixup(quotient: Array, denominator: Array, numerator: Array) -> Array:
    """Of operands of any size."""
    tiny = exponent(numerator) - exponent(denominator) < -150
    return fixed_up(quotient, denominator, numerator, tiny, exponent(quotient) == 255)


def fixed_up(quotient: Array, denominator: Array, numerator: Array, tiny: Array, overflowed: Array) -> Array:
    """What v_div_fixup makes of special operands, in any width; elsewhere the quotient with the right sign.

    Args:
        quotient: the estimate.
        denominator: of the same type and shape.
        numerator: likewise.
        tiny: where the quotient is below every denormal.
        overflowed: where the estimate has the exponent of infinity.
    """
    one = quotient.dtype.type(1)
    sign = np.where(np.signbit(denominator) ^ np.signbit(numerator), -one, one)
    infinite, both = np.isinf(denominator), np.isinf(numerator)
    zero, none = denominator == 0, numerator == 0
    infinity, nothing = sign * quotient.dtype.type(np.inf), np.copysign(quotient.dtype.type(0), sign)
    cases = [
        (np.isnan(numerator), numerator),
        (np.isnan(denominator), denominator),
        ((infinite & both) | (zero & none), quotient.dtype.type(np.nan)),
        (zero | both, infinity),
        (infinite | none, nothing),
        (tiny, nothing),
        (overflowed, infinity),
    ]
    fixed = np.copysign(quotient, sign)
    for condition, result in reversed(cases):  # the first that applies counts
        np.copyto(fixed, result, where=condition)
    return fixed


def scale_builder(kind: Type, divide_scale: Callable[..., tuple[Array, Array]], *, whole: bool = False) -> Build:
    """Builder of a v_div_scale; ``whole``: of a type whose results must be written for every lane."""

    def build(decoder: Decoder) -> Step:
        decoder.need(5)
        texts = decoder.operands
        value, denominator, numerator = (decoder.vector(text, kind) for text in texts[2:5])
        write, write_mask = decoder.vector_result(texts[0], kind), decoder.mask_result(texts[1])

        def step(machine: Machine) -> None:
            result, undone = divide_scale(value(machine), denominator(machine), numerator(machine))
            write(machine, np.ascontiguousarray(machine.spread(result)) if whole else result)
            write_mask(machine, machine.spread(undone))

        return step

    return build


def fmas_builder(kind: Type, divide_fmas: Callable[..., Array]) -> Build:
    """Builder of a v_div_fmas."""

    def build(decoder: Decoder) -> Step:
        decoder.need(4)
        a, b, c = (decoder.vector(text, kind) for text in decoder.operands[1:4])
        scaled, write = decoder.mask(decoder.vcc), decoder.vector_result(decoder.operands[0], kind)
        return lambda machine: write(machine, divide_fmas(a(machine), b(machine), c(machine), scaled(machine)))

    return build


TABLE: dict[str, Entry] = {
    "v_div_scale_f32": Entry(scale_builder(Type.F32, divide_scale), sections.VOP3),
    "v_div_fmas_f32": Entry(fmas_builder(Type.F32, divide_fmas), sections.VOP3),
    "v_div_fixup_f32": arithmetic("F32 = F32 F32 F32", divide_fixup, sections.VOP3),
}
"""Mnemonic → entry."""
