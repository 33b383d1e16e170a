"""16-bit integer arithmetic and logic.

Sources: CDNA3 ISA "VOP2 Instructions" and "VOP3A & VOP3B Instructions" (v_add_u16 and its kin), CDNA4 ISA "VOP3A"
(v_bitop3_b16), RDNA3 ISA and RDNA4 ISA "VOP1, VOP3 & VOP3SD Instructions" (v_add_nc_u16, v_and_b16 and their kin).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from portkit.emulate.amdgcn.architecture import ALL, CDNA, RDNA, Generation
from portkit.emulate.amdgcn.decode import Decoder, Step
from portkit.emulate.amdgcn.isa import sections
from portkit.emulate.amdgcn.isa.arithmetic import Arithmetic, arithmetic, build
from portkit.emulate.amdgcn.isa.registry import Entry
from portkit.emulate.amdgcn.operands import Type
from portkit.emulate.core import integers

_15 = np.uint16(15)


def shift_left(by: Any, x: Any) -> Any:
    """By the low four bits."""
    return x << (by & _15)


def shift_right(by: Any, x: Any) -> Any:
    """Zeros come in; by the low four bits."""
    return x >> (by & _15)


def shift_right_signed(by: Any, x: Any) -> Any:
    """The sign comes in; by the low four bits."""
    return x >> np.asarray(by & _15).astype(np.int16)


def _middle(a: Any, b: Any, c: Any) -> Any:
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


def _wide(dtype: Any) -> Any:
    """Product of two 16-bit values plus a 32-bit one, modulo 2^32."""
    return lambda a, b, c: np.asarray(a).astype(dtype) * np.asarray(b).astype(dtype) + c


_BOTH: dict[str, tuple[str, Any]] = {
    "mul_lo_u16": ("U16 = U16 U16", np.multiply),
    "lshlrev_b16": ("U16 = U16 U16", shift_left),
    "lshrrev_b16": ("U16 = U16 U16", shift_right),
    "ashrrev_i16": ("I16 = U16 I16", shift_right_signed),
    "max_u16": ("U16 = U16 U16", np.maximum),
    "min_u16": ("U16 = U16 U16", np.minimum),
    "max_i16": ("I16 = I16 I16", np.maximum),
    "min_i16": ("I16 = I16 I16", np.minimum),
}

_THREE: dict[str, tuple[str, Any]] = {
    "mad_u16": ("U16 = U16 U16 U16", lambda a, b, c: a * b + c),
    "mad_i16": ("I16 = I16 I16 I16", lambda a, b, c: a * b + c),
    "mad_u32_u16": ("U32 = U16 U16 U32", _wide(np.uint32)),
    "mad_i32_i16": ("I32 = I16 I16 I32", _wide(np.int32)),
    "max3_u16": ("U16 = U16 U16 U16", lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    "min3_u16": ("U16 = U16 U16 U16", lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    "med3_u16": ("U16 = U16 U16 U16", _middle),
    "max3_i16": ("I16 = I16 I16 I16", lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    "min3_i16": ("I16 = I16 I16 I16", lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    "med3_i16": ("I16 = I16 I16 I16", _middle),
}

_CDNA: dict[str, tuple[str, Any]] = {
    "add_u16": ("U16 = U16 U16", np.add),
    "sub_u16": ("U16 = U16 U16", np.subtract),
    "subrev_u16": ("U16 = U16 U16", lambda a, b: b - a),
    "add_i16": ("I16 = I16 I16", np.add),
    "sub_i16": ("I16 = I16 I16", np.subtract),
}

_RDNA: dict[str, tuple[str, Any]] = {
    "add_nc_u16": ("U16 = U16 U16", np.add),
    "sub_nc_u16": ("U16 = U16 U16", np.subtract),
    "add_nc_i16": ("I16 = I16 I16", np.add),
    "sub_nc_i16": ("I16 = I16 I16", np.subtract),
    "and_b16": ("U16 = U16 U16", np.bitwise_and),
    "or_b16": ("U16 = U16 U16", np.bitwise_or),
    "xor_b16": ("U16 = U16 U16", np.bitwise_xor),
}

_RDNA_UNARY: dict[str, tuple[str, Any]] = {
    "not_b16": ("U16 = U16", np.invert),
    "cvt_u32_u16": ("U32 = U16", lambda x: np.asarray(x).astype(np.uint32)),
    "cvt_i32_i16": ("I32 = I16", lambda x: np.asarray(x).astype(np.int32)),
}


def _rows(rows: dict[str, tuple[str, Any]], section: str, generations: frozenset[Generation] = ALL) -> dict[str, Entry]:
    return {
        f"v_{name}": arithmetic(signature, function, section, generations=generations)
        for name, (signature, function) in rows.items()
    }


def _truth_table(decoder: Decoder) -> Step:
    """v_bitop3_b16: any function of three bits."""
    table = decoder.number("bitop3")

    def function(a: Any, b: Any, c: Any) -> Any:
        wide = [np.asarray(x).astype(np.uint32) for x in (a, b, c)]
        return integers.truth_table(wide[0], wide[1], wide[2], table).astype(np.uint16)

    return build(decoder, Arithmetic(Type.U16, (Type.U16,) * 3, function))


TABLE: dict[str, Entry] = {
    **_rows(_BOTH, sections.VOP2_OR_VOP3),
    **_rows(_THREE, sections.VOP3),
    **_rows(_CDNA, sections.VOP2_OR_VOP3, CDNA),
    **_rows(_RDNA, sections.RDNA3_VOP3, RDNA),
    **_rows(_RDNA_UNARY, sections.RDNA3_VOP1, RDNA),
    "v_bitop3_b16": Entry(_truth_table, sections.CDNA4_VOP3, frozenset({Generation.CDNA4})),
}
"""Mnemonic → entry."""
