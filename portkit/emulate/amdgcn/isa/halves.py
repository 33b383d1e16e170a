"""16-bit floats: conversions and arithmetic on single halves, and packing two of them.

Sources: CDNA3 ISA "VOP1/VOP2/VOP3A Instructions", CDNA4 ISA (v_cvt_pk_bf16_f32), RDNA3 ISA and RDNA4 ISA the same;
overflow of float16 results from "MODE Register" (FP16_OVFL).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from portkit.emulate.amdgcn.architecture import ALL, CDNA, RDNA, Generation
from portkit.emulate.amdgcn.decode import Decoder, Step
from portkit.emulate.amdgcn.isa import sections
from portkit.emulate.amdgcn.isa.arithmetic import arithmetic, build, row_of
from portkit.emulate.amdgcn.isa.registry import Entry
from portkit.emulate.amdgcn.machine import Machine
from portkit.emulate.core import floats
from portkit.emulate.core.findings import Unsupported
from portkit.emulate.core.vectors import Approximation

_CDNA4 = frozenset({Generation.CDNA4})
_RDNA3 = frozenset({Generation.RDNA3})
_RDNA4 = frozenset({Generation.RDNA4})
_BEFORE_RDNA4 = ALL - _RDNA4
_LARGEST = np.float16(65504)


def pack(low: Any, high: Any) -> Any:
    """Two 16-bit values as one word."""
    return np.asarray(low).astype(np.uint32) | (np.asarray(high).astype(np.uint32) << np.uint32(16))


def _half_bits(x: Any) -> Any:
    return np.asarray(x).astype(np.float16).view(np.uint16)


def _half_bits_toward_zero(x: Any) -> Any:
    """Float16 bits of a float32, cut instead of rounded; what overflows becomes the largest number."""
    x = np.asarray(x, np.float32)
    near = x.astype(np.float16)
    bits = near.view(np.uint16)
    too_far = (np.abs(near.astype(np.float64)) > np.abs(x.astype(np.float64))) & ~np.isnan(x)
    return np.where(too_far, bits - np.uint16(1), bits)


def _approximate(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A float16 transcendental: computed in float64, rounded once."""
    return lambda x: np.asarray(function(np.asarray(x).astype(np.float64))).astype(np.float16)


def _fraction(x: Any) -> Any:
    """X - floor(x), which rounding must not bring to 1."""
    return np.minimum(x - np.floor(x), np.float16(1 - 2.0**-11))


def _scaled(x: Any, power: Any) -> Any:
    bounded = np.clip(np.asarray(power).astype(np.int32), -60, 60)
    return np.ldexp(np.asarray(x).astype(np.float64), bounded).astype(np.float16)


def _to_integer(low: int, high: int, dtype: Any) -> Callable[[Any], Any]:
    """Truncation, saturating; NaN gives 0."""

    def operation(x: Any) -> Any:
        whole = np.trunc(np.asarray(x).astype(np.float64))
        return np.clip(np.where(np.isnan(whole), 0, whole), low, high).astype(dtype)

    return operation


def _median(a: Any, b: Any, c: Any) -> Any:
    """The middle one; the smallest where one is NaN."""
    nan = np.isnan(a) | np.isnan(b) | np.isnan(c)
    low = floats.minimum(floats.minimum(a, b), c)
    return np.where(nan, low, floats.maximum(floats.minimum(a, b), floats.minimum(floats.maximum(a, b), c)))


def _then(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, b, c: second(first(a, b), c)


def _saturating(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with overflow held at the largest number; an infinite operand still gives infinity."""

    def operation(*values: Any) -> Any:
        result = np.asarray(function(*values))
        finite = np.all([np.isfinite(value) for value in np.broadcast_arrays(*values)], axis=0)
        return np.where(finite & np.isinf(result), np.copysign(_LARGEST, result), result)

    return operation


def by_overflow_mode(
    decoder: Decoder, build: Callable[[Callable[..., Any]], Step], function: Callable[..., Any]
) -> Step:
    """The step for the function, and where MODE.FP16_OVFL is set for the function held at the largest number."""
    plain, held = build(function), build(_saturating(function))

    def step(machine: Machine) -> None:
        modes = machine.fp16_overflow[machine.select]
        some = modes.any()
        if some and not modes.all():
            raise Unsupported("waves of different overflow modes", decoder.instruction.site)
        (held if some else plain)(machine)

    return step


def _overflowing(
    signature: str,
    function: Callable[..., Any],
    section: str,
    generations: frozenset[Generation] = ALL,
    *,
    accumulate: bool = False,
) -> Entry:
    """A table row whose float16 result may overflow."""
    row = row_of(signature, function, accumulate=accumulate)
    return Entry(
        lambda decoder: by_overflow_mode(
            decoder, lambda operation: build(decoder, replace(row, function=operation)), function
        ),
        section,
        generations,
        row.operands,
    )


Rows: TypeAlias = dict[str, tuple[str, Any]]

_UNARY: Rows = {
    "cvt_f32_f16": ("F32 = F16", lambda x: np.asarray(x).astype(np.float32)),
    "cvt_f16_u16": ("F16 = U16", lambda x: np.asarray(x).astype(np.float16)),
    "cvt_f16_i16": ("F16 = I16", lambda x: np.asarray(x).astype(np.float16)),
    "cvt_u16_f16": ("U16 = F16", _to_integer(0, 65535, np.uint16)),
    "cvt_i16_f16": ("I16 = F16", _to_integer(-32768, 32767, np.int16)),
    "rcp_f16": ("F16 = F16", _approximate(lambda x: 1 / x)),
    "rsq_f16": ("F16 = F16", _approximate(lambda x: 1 / np.sqrt(x))),
    "sqrt_f16": ("F16 = F16", _approximate(np.sqrt)),
    "exp_f16": ("F16 = F16", _approximate(np.exp2)),
    "log_f16": ("F16 = F16", _approximate(np.log2)),
    "sin_f16": ("F16 = F16", _approximate(lambda x: np.sin(x * (2 * np.pi)))),
    "cos_f16": ("F16 = F16", _approximate(lambda x: np.cos(x * (2 * np.pi)))),
    "floor_f16": ("F16 = F16", np.floor),
    "ceil_f16": ("F16 = F16", np.ceil),
    "trunc_f16": ("F16 = F16", np.trunc),
    "rndne_f16": ("F16 = F16", np.rint),
    "fract_f16": ("F16 = F16", _fraction),
}

_OVERFLOWING: Rows = {
    "cvt_f16_f32": ("F16 = F32", lambda x: np.asarray(x).astype(np.float16)),
    "add_f16": ("F16 = F16 F16", np.add),
    "sub_f16": ("F16 = F16 F16", np.subtract),
    "subrev_f16": ("F16 = F16 F16", lambda a, b: b - a),
    "mul_f16": ("F16 = F16 F16", np.multiply),
    "ldexp_f16": ("F16 = F16 I16", _scaled),
    "fma_f16": ("F16 = F16 F16 F16", floats.fma16),
}

_FUSED = "F16 = F16 F16 F16"

_EXTREMES: Rows = {
    "max": ("F16 = F16 F16", floats.maximum),
    "min": ("F16 = F16 F16", floats.minimum),
    "max3": ("F16 = F16 F16 F16", _then(floats.maximum, floats.maximum)),
    "min3": ("F16 = F16 F16 F16", _then(floats.minimum, floats.minimum)),
    "med3": ("F16 = F16 F16 F16", _median),
    "maxmin": ("F16 = F16 F16 F16", _then(floats.maximum, floats.minimum)),
    "minmax": ("F16 = F16 F16 F16", _then(floats.minimum, floats.maximum)),
}
"""Named ``v_max_f16`` and the like, on RDNA4 ``v_max_num_f16``."""


def _pack_bf16(a: Any, b: Any) -> Any:
    return pack(floats.f32_to_bf16(a), floats.f32_to_bf16(b))


def _pack_half(a: Any, b: Any) -> Any:
    return pack(_half_bits(a), _half_bits(b))


def _pack_cut(a: Any, b: Any) -> Any:
    return pack(_half_bits_toward_zero(a), _half_bits_toward_zero(b))


_ROUNDED_ONCE = Approximation("computed in float64 and rounded once, where devices are within 1 ulp", ulps=1)
_OF_AN_ANGLE = Approximation(
    "computed in float64 and rounded once; how near devices come is not documented", 1, 2.0**-10
)
_APPROXIMATE: dict[str, Approximation] = {
    **dict.fromkeys(("rcp_f16", "rsq_f16", "sqrt_f16", "exp_f16", "log_f16"), _ROUNDED_ONCE),
    **dict.fromkeys(("sin_f16", "cos_f16"), _OF_AN_ANGLE),
}


def _rows(rows: Rows, section: str, generations: frozenset[Generation] = ALL) -> dict[str, Entry]:
    return {
        f"v_{name}": arithmetic(
            signature, function, section, generations=generations, approximation=_APPROXIMATE.get(name)
        )
        for name, (signature, function) in rows.items()
    }


def _extremes() -> dict[str, Entry]:
    """One operation by two names; of two steps since RDNA3."""
    table: dict[str, Entry] = {}
    for name, row in _EXTREMES.items():
        old = _RDNA3 if len(name) > 4 else _BEFORE_RDNA4
        table |= _rows({f"{name}_f16": row}, sections.VOP3, old)
        table |= _rows({f"{name}_num_f16": row}, sections.RDNA4_VOP3, _RDNA4)
    return table


TABLE: dict[str, Entry] = {
    **_rows(_UNARY, sections.VOP1),
    **{
        f"v_{name}": _overflowing(signature, function, sections.VOP3)
        for name, (signature, function) in _OVERFLOWING.items()
    },
    **_extremes(),
    "v_mov_b16": arithmetic("U16 = U16", np.asarray, sections.RDNA3_VOP1, generations=RDNA),
    "v_fmac_f16": _overflowing(_FUSED, floats.fma16, sections.VOP2, RDNA, accumulate=True),
    "v_fmaak_f16": _overflowing(_FUSED, floats.fma16, sections.VOP2, RDNA),
    "v_fmamk_f16": _overflowing(_FUSED, floats.fma16, sections.VOP2, RDNA),
    "v_cvt_pk_bf16_f32": arithmetic("U32 = F32 F32", _pack_bf16, sections.CDNA4_VOP3, generations=_CDNA4),
    "v_cvt_pk_f16_f32": arithmetic("U32 = F32 F32", _pack_half, sections.CDNA4_VOP3, generations=_CDNA4),
    "v_cvt_pkrtz_f16_f32": arithmetic("U32 = F32 F32", _pack_cut, sections.VOP3, generations=CDNA),
    "v_cvt_pk_rtz_f16_f32": arithmetic("U32 = F32 F32", _pack_cut, sections.VOP3, generations=RDNA),
    "v_pack_b32_f16": arithmetic("U32 = U16 U16", pack, sections.VOP3),
}
"""Mnemonic → entry."""
