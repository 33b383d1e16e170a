"""32- and 64-bit vector arithmetic.

Sources: CDNA3 ISA "VOP1/VOP2/VOP3A Instructions", RDNA3 ISA "VOP1/VOP2/VOP3 Instructions", RDNA4 ISA the same.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from portkit.emulate.amdgcn.architecture import ALL, CDNA, RDNA, Generation
from portkit.emulate.amdgcn.decode import Decoder, Step
from portkit.emulate.amdgcn.isa import sections
from portkit.emulate.amdgcn.isa.arithmetic import Arithmetic, arithmetic, build
from portkit.emulate.amdgcn.isa.registry import Entry
from portkit.emulate.amdgcn.operands import Type
from portkit.emulate.core import floats, integers
from portkit.emulate.core.vectors import Approximation

_31, _63 = np.uint32(31), np.uint32(63)


def _copy(x: Any) -> Any:
    return np.asarray(x)


def _shift_left(by: Any, x: Any) -> Any:
    return x << (by & _31)


def _shift_right(by: Any, x: Any) -> Any:
    return x >> (by & _31)


def _shift_right_signed(by: Any, x: Any) -> Any:
    return x >> np.asarray(by & _31).astype(np.int32)


def _shift_left64(by: Any, x: Any) -> Any:
    return x << np.asarray(by & _63).astype(np.uint64)


def _shift_right64(by: Any, x: Any) -> Any:
    return x >> np.asarray(by & _63).astype(np.uint64)


def _shift_right_signed64(by: Any, x: Any) -> Any:
    return x >> np.asarray(by & _63).astype(np.int64)


def _byte_to_float(number: int) -> Any:
    shift = np.uint32(8 * number)
    return lambda x: ((np.asarray(x) >> shift) & np.uint32(255)).astype(np.float32)


def _median(a: Any, b: Any, c: Any) -> Any:
    """The middle one; the smallest where one is NaN."""
    nan = np.isnan(a) | np.isnan(b) | np.isnan(c)
    low = floats.minimum(floats.minimum(a, b), c)
    return np.where(nan, low, floats.maximum(floats.minimum(a, b), floats.minimum(floats.maximum(a, b), c)))


def _fraction(x: Any) -> Any:
    """X - floor(x), which rounding must not bring to 1."""
    return np.minimum(x - np.floor(x), np.float32(1 - 2.0**-24))


def _reciprocal(x: Any) -> Any:
    return 1 / x


def _turns(function: Any) -> Any:
    """Sine or cosine of an angle in turns."""
    return floats.approximate(lambda x: function(x * (2 * np.pi)))


def _three(function: Any) -> Any:
    return lambda a, b, c: function(function(a, b), c)


_UNARY32: dict[str, tuple[str, Any]] = {
    "mov_b32": ("U32 = U32", _copy),
    "not_b32": ("U32 = U32", np.invert),
    "bfrev_b32": ("U32 = U32", integers.reverse_bits),
    "ffbh_u32": ("U32 = U32", integers.leading_zeros),
    "clz_i32_u32": ("U32 = U32", integers.leading_zeros),
    "ffbl_b32": ("U32 = U32", integers.trailing_zeros),
    "ctz_i32_b32": ("U32 = U32", integers.trailing_zeros),
    "exp_f32": ("F32 = F32", floats.approximate(np.exp2)),
    "log_f32": ("F32 = F32", floats.approximate(np.log2)),
    "rcp_f32": ("F32 = F32", floats.approximate(_reciprocal)),
    "rcp_iflag_f32": ("F32 = F32", floats.approximate(_reciprocal)),
    "rsq_f32": ("F32 = F32", floats.approximate(lambda x: 1 / np.sqrt(x))),
    "sqrt_f32": ("F32 = F32", floats.approximate(np.sqrt)),
    "sin_f32": ("F32 = F32", _turns(np.sin)),
    "cos_f32": ("F32 = F32", _turns(np.cos)),
    "rndne_f32": ("F32 = F32", np.rint),
    "floor_f32": ("F32 = F32", np.floor),
    "ceil_f32": ("F32 = F32", np.ceil),
    "trunc_f32": ("F32 = F32", np.trunc),
    "fract_f32": ("F32 = F32", _fraction),
    "cvt_f32_i32": ("F32 = I32", lambda x: np.asarray(x).astype(np.float32)),
    "cvt_f32_u32": ("F32 = U32", lambda x: np.asarray(x).astype(np.float32)),
    "cvt_i32_f32": ("U32 = F32", floats.to_integer(-(2**31), 2**31 - 1)),
    "cvt_u32_f32": ("U32 = F32", floats.to_integer(0, 2**32 - 1)),
    "cvt_f32_ubyte0": ("F32 = U32", _byte_to_float(0)),
    "cvt_f32_ubyte1": ("F32 = U32", _byte_to_float(1)),
    "cvt_f32_ubyte2": ("F32 = U32", _byte_to_float(2)),
    "cvt_f32_ubyte3": ("F32 = U32", _byte_to_float(3)),
    "frexp_mant_f32": ("F32 = F32", floats.mantissa),
    "frexp_exp_i32_f32": ("I32 = F32", floats.binary_exponent),
}

_UNARY64: dict[str, tuple[str, Any]] = {
    "mov_b64": ("U64 = U64", _copy),
    "cvt_f64_f32": ("F64 = F32", lambda x: np.asarray(x).astype(np.float64)),
    "cvt_f32_f64": ("F32 = F64", lambda x: np.asarray(x).astype(np.float32)),
    "cvt_f64_i32": ("F64 = I32", lambda x: np.asarray(x).astype(np.float64)),
    "cvt_f64_u32": ("F64 = U32", lambda x: np.asarray(x).astype(np.float64)),
    "cvt_i32_f64": ("U32 = F64", floats.to_integer(-(2**31), 2**31 - 1)),
    "cvt_u32_f64": ("U32 = F64", floats.to_integer(0, 2**32 - 1)),
    "rndne_f64": ("F64 = F64", np.rint),
    "floor_f64": ("F64 = F64", np.floor),
    "ceil_f64": ("F64 = F64", np.ceil),
    "trunc_f64": ("F64 = F64", np.trunc),
    "frexp_mant_f64": ("F64 = F64", floats.mantissa),
    "frexp_exp_i32_f64": ("I32 = F64", floats.binary_exponent),
}

_BINARY32: dict[str, tuple[str, Any]] = {
    "add_f32": ("F32 = F32 F32", np.add),
    "sub_f32": ("F32 = F32 F32", np.subtract),
    "subrev_f32": ("F32 = F32 F32", lambda a, b: b - a),
    "mul_f32": ("F32 = F32 F32", np.multiply),
    "max_f32": ("F32 = F32 F32", floats.maximum),
    "min_f32": ("F32 = F32 F32", floats.minimum),
    "max_num_f32": ("F32 = F32 F32", floats.maximum),
    "min_num_f32": ("F32 = F32 F32", floats.minimum),
    "mul_u32_u24": ("U32 = U32 U32", lambda a, b: integers.low24(a) * integers.low24(b)),
    "mul_i32_i24": ("I32 = U32 U32", lambda a, b: integers.low24_signed(a) * integers.low24_signed(b)),
    "and_b32": ("U32 = U32 U32", np.bitwise_and),
    "or_b32": ("U32 = U32 U32", np.bitwise_or),
    "xor_b32": ("U32 = U32 U32", np.bitwise_xor),
    "xnor_b32": ("U32 = U32 U32", lambda a, b: ~(a ^ b)),
    "lshlrev_b32": ("U32 = U32 U32", _shift_left),
    "lshrrev_b32": ("U32 = U32 U32", _shift_right),
    "ashrrev_i32": ("I32 = U32 I32", _shift_right_signed),
    "min_u32": ("U32 = U32 U32", np.minimum),
    "max_u32": ("U32 = U32 U32", np.maximum),
    "min_i32": ("I32 = I32 I32", np.minimum),
    "max_i32": ("I32 = I32 I32", np.maximum),
}

_ADD32: dict[str, tuple[str, Any]] = {
    "add": ("U32 = U32 U32", np.add),
    "sub": ("U32 = U32 U32", np.subtract),
    "subrev": ("U32 = U32 U32", lambda a, b: b - a),
}

_THREE: dict[str, tuple[str, Any]] = {
    "fma_f32": ("F32 = F32 F32 F32", floats.fma32),
    "fmaak_f32": ("F32 = F32 F32 F32", floats.fma32),
    "fmamk_f32": ("F32 = F32 F32 F32", floats.fma32),
    "fma_f64": ("F64 = F64 F64 F64", floats.fma64),
    "max3_f32": ("F32 = F32 F32 F32", _three(floats.maximum)),
    "min3_f32": ("F32 = F32 F32 F32", _three(floats.minimum)),
    "max3_num_f32": ("F32 = F32 F32 F32", _three(floats.maximum)),
    "min3_num_f32": ("F32 = F32 F32 F32", _three(floats.minimum)),
    "maxmin_f32": ("F32 = F32 F32 F32", lambda a, b, c: floats.minimum(floats.maximum(a, b), c)),
    "minmax_f32": ("F32 = F32 F32 F32", lambda a, b, c: floats.maximum(floats.minimum(a, b), c)),
    "maxmin_num_f32": ("F32 = F32 F32 F32", lambda a, b, c: floats.minimum(floats.maximum(a, b), c)),
    "minmax_num_f32": ("F32 = F32 F32 F32", lambda a, b, c: floats.maximum(floats.minimum(a, b), c)),
    "med3_f32": ("F32 = F32 F32 F32", _median),
    "med3_num_f32": ("F32 = F32 F32 F32", _median),
    "max3_u32": ("U32 = U32 U32 U32", _three(np.maximum)),
    "min3_u32": ("U32 = U32 U32 U32", _three(np.minimum)),
    "max3_i32": ("I32 = I32 I32 I32", _three(np.maximum)),
    "min3_i32": ("I32 = I32 I32 I32", _three(np.minimum)),
    "med3_i32": ("I32 = I32 I32 I32", lambda a, b, c: np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))),
    "med3_u32": ("U32 = U32 U32 U32", lambda a, b, c: np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))),
    **{
        f"{name}_{kind.lower()}": (f"{kind} = {kind} {kind} {kind}", function)
        for kind in ("I32", "U32")
        for name, function in (
            ("maxmin", lambda a, b, c: np.minimum(np.maximum(a, b), c)),
            ("minmax", lambda a, b, c: np.maximum(np.minimum(a, b), c)),
        )
    },
    "add3_u32": ("U32 = U32 U32 U32", lambda a, b, c: a + b + c),
    "lshl_add_u32": ("U32 = U32 U32 U32", lambda a, b, c: (a << (b & _31)) + c),
    "add_lshl_u32": ("U32 = U32 U32 U32", lambda a, b, c: (a + b) << (c & _31)),
    "lshl_or_b32": ("U32 = U32 U32 U32", lambda a, b, c: (a << (b & _31)) | c),
    "and_or_b32": ("U32 = U32 U32 U32", lambda a, b, c: (a & b) | c),
    "or3_b32": ("U32 = U32 U32 U32", lambda a, b, c: a | b | c),
    "xad_u32": ("U32 = U32 U32 U32", lambda a, b, c: (a ^ b) + c),
    "xor3_b32": ("U32 = U32 U32 U32", lambda a, b, c: a ^ b ^ c),
    "bfi_b32": ("U32 = U32 U32 U32", lambda a, b, c: (a & b) | (~a & c)),
    "bfe_u32": ("U32 = U32 U32 U32", integers.extract),
    "bfe_i32": ("U32 = U32 U32 U32", integers.extract_signed),
    "perm_b32": ("U32 = U32 U32 U32", integers.permute_bytes),
    "alignbit_b32": ("U32 = U32 U32 U32", integers.align_bits),
    "alignbyte_b32": (
        "U32 = U32 U32 U32",
        lambda a, b, c: integers.align_bits(a, b, (c & np.uint32(3)) * np.uint32(8)),
    ),
    "mad_u32_u24": ("U32 = U32 U32 U32", lambda a, b, c: integers.low24(a) * integers.low24(b) + c),
    "mad_i32_i24": ("I32 = U32 U32 I32", lambda a, b, c: integers.low24_signed(a) * integers.low24_signed(b) + c),
    "lshl_add_u64": ("U64 = U64 U32 U64", lambda a, b, c: (a << np.asarray(b & np.uint32(7)).astype(np.uint64)) + c),
    "sad_u32": ("U32 = U32 U32 U32", lambda a, b, c: np.maximum(a, b) - np.minimum(a, b) + c),
}

_TWO: dict[str, tuple[str, Any]] = {
    "ldexp_f32": ("F32 = F32 I32", floats.scale_by_power),
    "mul_lo_u32": ("U32 = U32 U32", np.multiply),
    "mul_hi_u32": ("U32 = U32 U32", integers.high_unsigned),
    "mul_hi_i32": ("U32 = I32 I32", integers.high_signed),
    "bfm_b32": ("U32 = U32 U32", lambda a, b: ((np.uint32(1) << (a & _31)) - np.uint32(1)) << (b & _31)),
    "bcnt_u32_b32": ("U32 = U32 U32", lambda a, b: np.bitwise_count(np.asarray(a)).astype(np.uint32) + b),
    "lshlrev_b64": ("U64 = U32 U64", _shift_left64),
    "lshrrev_b64": ("U64 = U32 U64", _shift_right64),
    "ashrrev_i64": ("I64 = U32 I64", _shift_right_signed64),
    "add_f64": ("F64 = F64 F64", np.add),
    "mul_f64": ("F64 = F64 F64", np.multiply),
    "max_f64": ("F64 = F64 F64", floats.maximum),
    "min_f64": ("F64 = F64 F64", floats.minimum),
    "max_num_f64": ("F64 = F64 F64", floats.maximum),
    "min_num_f64": ("F64 = F64 F64", floats.minimum),
    "ldexp_f64": ("F64 = F64 I32", lambda x, power: np.ldexp(x, np.clip(power, -4200, 4200))),
}


_UNFUSED: dict[str, tuple[str, Any]] = {
    "mad_f32": ("F32 = F32 F32 F32", floats.multiply_add32),
    "madak_f32": ("F32 = F32 F32 F32", floats.multiply_add32),
    "madmk_f32": ("F32 = F32 F32 F32", floats.multiply_add32),
}
"""Multiply and add with two roundings and denormals flushed whatever the mode; gone with CDNA3."""


def _unfused() -> dict[str, Entry]:
    old, section = frozenset({Generation.CDNA2}), sections.CDNA2_VOP
    table = {f"v_{name}": arithmetic(s, f, section, generations=old) for name, (s, f) in _UNFUSED.items()}
    signature, function = _UNFUSED["mad_f32"]
    return table | {"v_mac_f32": arithmetic(signature, function, section, accumulate=True, generations=old)}


_RDNA3, _RDNA4 = frozenset({Generation.RDNA3}), frozenset({Generation.RDNA4})
_SINCE_CDNA3 = frozenset({Generation.CDNA3, Generation.CDNA4})

_ONLY: dict[str, frozenset[Generation]] = {
    **dict.fromkeys(("ffbh_u32", "ffbl_b32"), CDNA),
    **dict.fromkeys(("clz_i32_u32", "ctz_i32_b32", "xor3_b32"), RDNA),
    **dict.fromkeys(("maxmin_i32", "minmax_i32", "maxmin_u32", "minmax_u32"), RDNA),
    **dict.fromkeys(("mov_b64", "lshl_add_u64"), _SINCE_CDNA3),
    **dict.fromkeys(("fmaak_f32", "fmamk_f32"), _SINCE_CDNA3 | RDNA),
    **dict.fromkeys(("maxmin_f32", "minmax_f32"), _RDNA3),
    **dict.fromkeys(("max_f32", "min_f32", "max3_f32", "min3_f32", "med3_f32", "max_f64", "min_f64"), ALL - _RDNA4),
}
"""Generations of the entries that not all have; names with ``_num`` are RDNA4's."""

_ROUNDED_ONCE = Approximation("computed in float64 and rounded once, where devices are within 1 ulp", ulps=1)
_OF_AN_ANGLE = Approximation(
    "computed in float64 and rounded once; how near devices come is not documented", 0, 2.0**-20
)
_APPROXIMATE: dict[str, Approximation] = {
    **dict.fromkeys(("exp_f32", "log_f32", "rcp_f32", "rcp_iflag_f32", "rsq_f32", "sqrt_f32"), _ROUNDED_ONCE),
    **dict.fromkeys(("sin_f32", "cos_f32"), _OF_AN_ANGLE),
}


def _generations(name: str) -> frozenset[Generation]:
    return _RDNA4 if "_num_" in name else _ONLY.get(name, ALL)


def _rows(rows: dict[str, tuple[str, Any]], section: str) -> dict[str, Entry]:
    return {
        f"v_{name}": arithmetic(
            signature, function, section, generations=_generations(name), approximation=_APPROXIMATE.get(name)
        )
        for name, (signature, function) in rows.items()
    }


def _truth_table(decoder: Decoder) -> Step:
    """v_bitop3_b32: any function of three bits."""
    table = decoder.number("bitop3")
    row = Arithmetic(Type.U32, (Type.U32,) * 3, functools.partial(integers.truth_table, table=table))
    return build(decoder, row)


def _adds() -> dict[str, Entry]:
    """Addition without carry: one operation, named apart by generation."""
    table = {}
    for name, (signature, function) in _ADD32.items():
        table[f"v_{name}_u32"] = arithmetic(signature, function, sections.VOP2, generations=CDNA)
        table[f"v_{name}_nc_u32"] = arithmetic(signature, function, sections.VOP2, generations=RDNA)
    return table


TABLE: dict[str, Entry] = {
    **_rows(_UNARY32, sections.VOP1),
    **_rows(_UNARY64, sections.VOP1),
    **_rows(_BINARY32, sections.VOP2),
    **_rows(_THREE, sections.VOP3),
    **_rows(_TWO, sections.VOP3),
    **_adds(),
    **_unfused(),
    **{
        f"v_accvgpr_{name}_b32": arithmetic("U32 = U32", _copy, sections.CDNA3_PACKED, generations=CDNA)
        for name in ("read", "write", "mov")
    },
    "v_bitop3_b32": Entry(_truth_table, sections.CDNA4_VOP3, frozenset({Generation.CDNA4})),
    "v_fmac_f32": arithmetic("F32 = F32 F32 F32", floats.fma32, sections.VOP2, accumulate=True),
    "v_fmac_f64": arithmetic("F64 = F64 F64 F64", floats.fma64, sections.VOP2, accumulate=True, generations=CDNA),
    "v_add_nc_i32": arithmetic("I32 = I32 I32", np.add, sections.VOP3, generations=RDNA),
    "v_sub_nc_i32": arithmetic("I32 = I32 I32", np.subtract, sections.VOP3, generations=RDNA),
}
"""Mnemonic → entry."""
