"""Operands: registers, and constants by the type of the operand they stand for.

Source: "Scalar and vector operand" tables of the CDNA3 and RDNA3 ISA documents, and LLVM's "Syntax
of AMDGPU Instruction Operands".
"""

from __future__ import annotations

import enum
import functools
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from portkit.emulate.core.findings import Unsupported


class Type(enum.Enum):
    """How an instruction reads the bits of an operand: NumPy dtype and width in bits.

    ``B16`` takes bfloat16 bits: integers are taken as they are, float constants become bfloat16.
    """

    U16 = ("u2", 16)
    I16 = ("i2", 16)
    F16 = ("f2", 16)
    B16 = ("<u2", 16)
    U32 = ("u4", 32)
    I32 = ("i4", 32)
    F32 = ("f4", 32)
    U64 = ("u8", 64)
    I64 = ("i8", 64)
    F64 = ("f8", 64)

    __hash__ = object.__hash__  # Enum's own hashes a name at every look-up of a register's view

    dtype: np.dtype[Any]  # NumPy's type of the values
    bits: int  # width

    def __init__(self, code: str, bits: int) -> None:
        self.dtype, self.bits = np.dtype(code), bits

    @property
    def floating(self) -> bool:
        """True where negation and absolute value act on a sign bit."""
        return self in {Type.F16, Type.B16, Type.F32, Type.F64}


class File(enum.Enum):
    """Which registers an operand names."""

    VECTOR = "v"  # accumulation registers lie behind the architectural ones
    SCALAR = "s"


TTMP, VCC, EXEC, M0, NULL, SCALARS = 108, 106, 126, 124, -1, 128
"""Places in the emulator's scalar file: trap temporaries, VCC, EXEC, M0; NULL is none; how many there are."""

SPECIAL = {
    "vcc": (VCC, 2),
    "vcc_lo": (VCC, 1),
    "vcc_hi": (VCC + 1, 1),
    "exec": (EXEC, 2),
    "exec_lo": (EXEC, 1),
    "exec_hi": (EXEC + 1, 1),
    "m0": (M0, 1),
    "null": (NULL, 1),
}

_REGISTER = re.compile(r"(v|s|a|ttmp)(?:(\d+)|\[(\d+)(?::(\d+))?\])(?:\.(l|h))?")
_INTEGER = re.compile(r"-?(0x[0-9a-fA-F]+|\d+)")
_FLOAT = re.compile(r"-?\d+\.\d+(e[+-]?\d+)?")


@dataclass(frozen=True)
class Register:
    """Consecutive 32-bit registers, or one half of one."""

    file: File
    index: int  # NULL for the null register
    count: int = 1
    half: int | None = None  # 0 the low, 1 the high 16 bits; None the whole

    @property
    def indices(self) -> range:
        """All of them."""
        return range(self.index, self.index + self.count)


@functools.cache
def parse_register(text: str, accumulators_at: int) -> Register | None:
    """The register that an operand names; None where it is none. AGPRs begin at ``accumulators_at``."""
    if text in SPECIAL:
        return Register(File.SCALAR, *SPECIAL[text])
    match = _REGISTER.fullmatch(text)
    if not match:
        return None
    letter, single, first, last, half = match.groups()
    index = int(single or first)
    count = int(last) - index + 1 if last else 1
    shift = {"a": accumulators_at, "ttmp": TTMP}.get(letter, 0)
    file = File.VECTOR if letter in "va" else File.SCALAR
    return Register(file, index + shift, count, {"l": 0, "h": 1, None: None}[half])


@functools.cache
def is_constant(text: str) -> bool:
    """True for an inline constant or a literal."""
    return bool(_INTEGER.fullmatch(text) or _FLOAT.fullmatch(text))


@functools.cache
def constant(text: str, kind: Type) -> Any:
    """A NumPy scalar of the operand's type.

    Integers are bits of the operand; floats are values of a floating operand, and bits of a float32 for an
    integer one. A 64-bit floating operand takes a literal as its upper half.

    Raises:
        Unsupported: it does not fit.
    """
    if _FLOAT.fullmatch(text):
        return _float_constant(float(text), kind)
    value, widest = int(text, 0), max(kind.bits, 32)
    if not -(1 << widest - 1) <= value < 1 << widest:
        raise Unsupported(f"constant {text} of more than {widest} bits")
    if kind is Type.F64 and text.lower().lstrip("-").startswith("0x"):
        value <<= 32
    elif kind is Type.I64 and text.startswith("0x") and 1 << 31 <= value < 1 << 32:
        value -= 1 << 32
    mask = (1 << kind.bits) - 1
    return np.array(value & mask, f"u{kind.bits // 8}").view(kind.dtype)[()]


def _float_constant(value: float, kind: Type) -> Any:
    if kind is Type.B16:
        return np.uint16(np.array(value, np.float32).view(np.uint32) >> 16)
    if kind.floating:
        return kind.dtype.type(value)
    if kind.bits == 32:
        return np.array(value, np.float32).view(kind.dtype)[()]
    if kind.bits == 16:
        return np.array(value, np.float16).view(kind.dtype)[()]
    raise Unsupported(f"float constant {value} for a 64-bit integer operand")
