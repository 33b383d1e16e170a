"""Types of registers and operands.

Source: PTX ISA, "Fundamental Types", "Packed Data Types" and "Alternate Floating-Point Data Formats".
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np


class Type(enum.Enum):
    """A type by its suffix, with the NumPy type that its values are read as, and its width in bits.

    Formats that NumPy lacks, and packed ones, are read as their bits.
    """

    PRED = ("pred", "?", 1)
    B8 = ("b8", "u1", 8)
    U8 = ("u8", "u1", 8)
    S8 = ("s8", "i1", 8)
    B16 = ("b16", "u2", 16)
    U16 = ("u16", "u2", 16)
    S16 = ("s16", "i2", 16)
    F16 = ("f16", "f2", 16)
    BF16 = ("bf16", "u2", 16)
    E4M3X2 = ("e4m3x2", "u2", 16)
    E5M2X2 = ("e5m2x2", "u2", 16)
    E2M1X2 = ("e2m1x2", "u1", 8)
    E2M3X2 = ("e2m3x2", "u2", 16)
    E3M2X2 = ("e3m2x2", "u2", 16)
    UE8M0X2 = ("ue8m0x2", "u2", 16)
    U16X2 = ("u16x2", "u4", 32)
    S16X2 = ("s16x2", "u4", 32)
    F16X2 = ("f16x2", "u4", 32)
    BF16X2 = ("bf16x2", "u4", 32)
    E4M3X4 = ("e4m3x4", "u4", 32)
    E5M2X4 = ("e5m2x4", "u4", 32)
    TF32 = ("tf32", "u4", 32)
    B32 = ("b32", "u4", 32)
    U32 = ("u32", "u4", 32)
    S32 = ("s32", "i4", 32)
    F32 = ("f32", "f4", 32)
    F32X2 = ("f32x2", "u8", 64)
    B64 = ("b64", "u8", 64)
    U64 = ("u64", "u8", 64)
    S64 = ("s64", "i8", 64)
    F64 = ("f64", "f8", 64)
    B128 = ("b128", "V16", 128)

    __hash__ = object.__hash__  # Enum's own hashes a name at every look-up of a register's view

    suffix: str
    dtype: np.dtype[Any]
    bits: int
    bytes: int  # in memory

    def __init__(self, suffix: str, code: str, bits: int) -> None:
        self.suffix, self.dtype, self.bits = suffix, np.dtype(code), bits
        self.bytes = max(1, bits // 8)

    @property
    def signed(self) -> bool:
        """Whether it widens by its sign."""
        return self.dtype.kind == "i"

    @property
    def floating(self) -> bool:
        """Whether NumPy computes in it."""
        return self.dtype.kind == "f"


TYPES = {each.suffix: each for each in Type}
"""Suffix → type."""

RAW = {8: Type.B8, 16: Type.B16, 32: Type.B32, 64: Type.B64, 128: Type.B128, 1: Type.PRED}
"""Width → its type of plain bits."""


def types_of(suffixes: str) -> frozenset[Type]:
    """Types named in one string."""
    return frozenset(TYPES[suffix] for suffix in suffixes.split())
