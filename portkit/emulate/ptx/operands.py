"""Operands as written, and what they name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from portkit.emulate.core.findings import Site, Unsupported
from portkit.emulate.core.text import split_operands
from portkit.emulate.ptx.program import Address, Immediate, Negated, Operand, Pair, Register, Sink, Symbol, Vector
from portkit.emulate.ptx.types import Type

_NUMBER = re.compile(r"-?(0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|\d+\.\d*([eE][+-]?\d+)?|\d+U?)")
_NAME = re.compile(r"[%A-Za-z_$][\w$.]*")
_WITH_OFFSET = re.compile(r"([%A-Za-z_$][\w$.]*)\s*([+-])\s*(-?(?:0x[0-9a-fA-F]+|\d+))")


@dataclass
class Scope:
    """A block in braces: registers and labels of its own."""

    mark: str  # that tells its labels from those of other blocks
    registers: dict[str, Register] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)  # name → that by which the program knows it

    def label(self, name: str) -> str:
        """The name of a label that stands in this block."""
        return f"{name}{self.mark}"


def operands_of(text: str) -> list[str]:
    """Operands at commas outside brackets."""
    return split_operands(text, "[({", "])}")


def parse_operand(text: str, scopes: Sequence[Scope], site: Site) -> Operand:
    """One operand.

    Raises:
        Unsupported: it has a form that is not known, or names a register that is not declared.
    """
    return _register(text, scopes) or _other(text, scopes, site)


def _register(text: str, scopes: Sequence[Scope]) -> Register | None:
    """As most operands are: looked for first, since that is fast."""
    return next((scope.registers[text] for scope in reversed(scopes) if text in scope.registers), None)


def _other(text: str, scopes: Sequence[Scope], site: Site) -> Operand:
    if text[:1] in "{(" and text[-1:] in "})":
        return Vector(tuple(parse_operand(part, scopes, site) for part in operands_of(text[1:-1])))
    if text[:1] == "[":
        return _address(text, scopes, site)
    if "|" in text:
        first, _, second = text.partition("|")
        return Pair(parse_operand(first.strip(), scopes, site), parse_operand(second.strip(), scopes, site))
    if text == "_" or _NUMBER.fullmatch(text):
        return Sink() if text == "_" else Immediate(text)
    if text[:1] in "!-":
        inner = parse_operand(text[1:].strip(), scopes, site)
        if isinstance(inner, Register | Immediate):
            return Negated(inner)
    return _named(text, scopes, site)


def _named(text: str, scopes: Sequence[Scope], site: Site) -> Operand:
    if _NAME.fullmatch(text):
        return Symbol(_variable(text, scopes))
    if match := _WITH_OFFSET.fullmatch(text):
        return Symbol(_variable(match[1], scopes), int(match[3], 0) * (-1 if match[2] == "-" else 1))
    raise Unsupported(f"operand {text}", site)


def _variable(name: str, scopes: Sequence[Scope]) -> str:
    return next((scope.variables[name] for scope in reversed(scopes) if name in scope.variables), name)


def _address(text: str, scopes: Sequence[Scope], site: Site) -> Address:
    first, *more = operands_of(text[1:-1])
    match = _WITH_OFFSET.fullmatch(first)
    offset = int(match[3], 0) * (-1 if match and match[2] == "-" else 1) if match else 0
    base = parse_operand(match[1] if match else first, scopes, site)
    return Address(base, offset, tuple(parse_operand(part, scopes, site) for part in more))


def constant(text: str, kind: Type) -> Any:
    """A NumPy scalar of a type, from a constant as written.

    Integers are bits of the operand unless the type is a float and they have no prefix; ``0f`` and ``0d`` are bits of a
    float32 and a float64.

    Raises:
        Unsupported: the type takes no such constant.
    """
    if kind is Type.PRED:
        return np.bool_(int(text.rstrip("U"), 0) != 0)
    if text[:2] in {"0f", "0F"}:
        return _float(np.array(int(text[2:], 16), np.uint32).view(np.float32)[()], kind, text)
    if text[:2] in {"0d", "0D"}:
        return _float(np.array(int(text[2:], 16), np.uint64).view(np.float64)[()], kind, text)
    if "." in text:
        return _float(np.float64(text), kind, text)
    value = int(text.rstrip("U"), 0)
    if not -(1 << 63) <= value < 1 << 64:
        raise Unsupported(f"constant {text} of more than 64 bits")
    if kind.floating and not text.lower().startswith("0x"):
        return kind.dtype.type(value)
    return np.array(value % (1 << kind.bits), f"u{kind.bytes}").view(kind.dtype)[()]


def _float(value: Any, kind: Type, text: str) -> Any:
    if kind.floating:
        return kind.dtype.type(value)
    if kind.bits == 8 * value.nbytes:
        return value.view(kind.dtype)
    raise Unsupported(f"constant {text} for an operand of type .{kind.suffix}")
