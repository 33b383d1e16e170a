"""16-bit floats: conversions and arithmetic on single halves, and packing two of them.

Sources: CDNA3 ISA "VOP1/VOP2/VOP3A Instructions", CDNA4 ISA (v_cvt_pk_bf16_f32), RDNA3 ISA the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from portkit.emulate.amdgcn.isa.arithmetic import arithmetic
from portkit.emulate.amdgcn.isa.registry import Entry
from portkit.emulate.core import floats

_VOP1 = "CDNA3 ISA, VOP1 Instructions; RDNA3 ISA, VOP1 Instructions"
_VOP3 = "CDNA3 ISA, VOP3A & VOP3B Instructions; RDNA3 ISA, VOP3 & VOP3SD Instructions"


def pack(low: Any, high: Any) -> Any:
    """Two 16-bit values as one word."""
    return np.asarray(low).astype(np.uint32) | (np.asarray(high).astype(np.uint32) << np.uint32(16))


def _half_bits(x: Any) -> Any:
    return np.asarray(x).astype(np.float16).view(np.uint16)


_CONVERSIONS: dict[str, tuple[str, Any]] = {
    "cvt_f32_f16": ("F32 = F16", lambda x: np.asarray(x).astype(np.float32)),
    "cvt_f16_f32": ("F16 = F32", lambda x: np.asarray(x).astype(np.float16)),
    "mov_b16": ("U16 = U16", np.asarray),
}

_PACKING: dict[str, tuple[str, Any]] = {
    "cvt_pk_bf16_f32": ("U32 = F32 F32", lambda a, b: pack(floats.f32_to_bf16(a), floats.f32_to_bf16(b))),
    "cvt_pk_f16_f32": ("U32 = F32 F32", lambda a, b: pack(_half_bits(a), _half_bits(b))),
    "pack_b32_f16": ("U32 = U16 U16", pack),
}

TABLE: dict[str, Entry] = {
    **{f"v_{name}": arithmetic(signature, function, _VOP1) for name, (signature, function) in _CONVERSIONS.items()},
    **{f"v_{name}": arithmetic(signature, function, _VOP3) for name, (signature, function) in _PACKING.items()},
}
"""Mnemonic → entry."""
