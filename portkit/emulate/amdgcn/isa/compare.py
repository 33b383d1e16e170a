"""Comparisons that write a mask, and selection by one.

Sources: CDNA3 ISA "VOPC Instructions", RDNA3 ISA "VOPC Instructions"; v_cndmask_b32 under VOP2. A v_cmpx
writes EXEC: on CDNA the named destination too, on RDNA EXEC alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from portkit.emulate.amdgcn.architecture import RDNA
from portkit.emulate.amdgcn.decode import Decoder, Read, Step, take_apart
from portkit.emulate.amdgcn.isa import sections
from portkit.emulate.amdgcn.isa.arithmetic import Arithmetic, permutation, result_write
from portkit.emulate.amdgcn.isa.registry import Entry
from portkit.emulate.amdgcn.machine import Array, Machine, Mask
from portkit.emulate.amdgcn.operands import Type

Relation = Callable[[Any, Any], Any]

RELATIONS: dict[str, Relation] = {
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "ne": np.not_equal,
    "lg": lambda a, b: (a < b) | (a > b),
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "u": lambda a, b: np.isnan(a) | np.isnan(b),
    "nlt": lambda a, b: ~(a < b),
    "nle": lambda a, b: ~(a <= b),
    "ngt": lambda a, b: ~(a > b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "neq": np.not_equal,
}
"""Condition → function; the negated forms are true for NaN."""

_FLOAT_ONLY = {"lg", "o", "u", "nlt", "nle", "ngt", "nge", "nlg", "neq"}
_INTEGER_ONLY = {"ne"}
_KINDS = {
    "f16": Type.F16,
    "f32": Type.F32,
    "f64": Type.F64,
    "u16": Type.U16,
    "i16": Type.I16,
    "u32": Type.U32,
    "i32": Type.I32,
    "u64": Type.U64,
    "i64": Type.I64,
}


def _sources(decoder: Decoder, kinds: tuple[Type, Type]) -> tuple[Read, Read]:
    """The last two operands, with DPP or SDWA on the first."""
    decoder.need(2, 3)
    moved = permutation(decoder)
    if moved is not None:
        raise decoder.unsupported("lane permutation of a comparison")
    selects = (decoder.modifier("src0_sel"), decoder.modifier("src1_sel"))
    texts = [text + ".h" * half for text, half in zip(decoder.operands[-2:], _halves(decoder, kinds), strict=True)]
    left, right = (decoder.vector(t, k, select=s) for t, k, s in zip(texts, kinds, selects, strict=True))
    return left, right


def _halves(decoder: Decoder, kinds: tuple[Type, Type]) -> tuple[int, ...]:
    return decoder.flags("op_sel", 3)[:2] if kinds[0].bits == 16 else (0, 0)


def _comparison(relation: Relation, kinds: tuple[Type, Type], to_exec: bool) -> Callable[[Decoder], Step]:
    def build(decoder: Decoder) -> Step:
        left, right = _sources(decoder, kinds)
        value = lambda machine: machine.spread(relation(left(machine), right(machine)))  # noqa: E731
        return _to_exec(decoder, value) if to_exec else _to_mask(decoder, value)

    return build


def _to_mask(decoder: Decoder, value: Callable[[Machine], Mask]) -> Step:
    decoder.need(3)
    write = decoder.mask_result(decoder.operands[0])
    return lambda machine: write(machine, value(machine))


def _to_exec(decoder: Decoder, value: Callable[[Machine], Mask]) -> Step:
    """EXEC, and the destination where one is written that is not EXEC."""
    name = "exec" if decoder.lanes == 64 else "exec_lo"
    also = decoder.operands[0] if len(decoder.operands) == 3 else name
    write = decoder.mask_result(name)
    write_also = decoder.mask_result(also) if also != name else None

    def step(machine: Machine) -> None:
        result = value(machine) & machine.active
        if write_also:
            write_also(machine, result)
        write(machine, result)

    return step


def classify(x: Array, classes: Array) -> Array:
    """Whether a float32 is of one of the classes whose bits are set (v_cmp_class_f32's table)."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    exponent, fraction = (bits >> np.uint32(23)) & np.uint32(255), bits & np.uint32(0x7F_FFFF)
    negative, quiet = bits >> np.uint32(31) != 0, fraction >> np.uint32(22) != 0
    positive_class = np.select(
        [(exponent == 255) & (fraction == 0), exponent == 255, exponent != 0, fraction != 0], [9, 1, 8, 7], 6
    )
    number = np.where(negative & (positive_class > 1), 11 - positive_class, positive_class)
    number = np.where((number == 1) & ~quiet, 0, number)
    return ((np.asarray(classes, np.uint32) >> number.astype(np.uint32)) & np.uint32(1)) != 0


def _comparisons() -> dict[str, Entry]:
    table = {}
    for condition, relation in RELATIONS.items():
        for suffix, kind in _KINDS.items():
            if condition in (_INTEGER_ONLY if kind.floating else _FLOAT_ONLY):
                continue
            for prefix in ("cmp", "cmpx"):
                build = _comparison(relation, (kind, kind), prefix == "cmpx")
                table[f"v_{prefix}_{condition}_{suffix}"] = Entry(build, sections.VOPC)
    for prefix in ("cmp", "cmpx"):
        build = _comparison(classify, (Type.F32, Type.U32), prefix == "cmpx")
        table[f"v_{prefix}_class_f32"] = Entry(build, sections.VOPC)
    return table


def _select(decoder: Decoder) -> Step:
    """v_cndmask_b32: the second source where the mask is set; sign marks act on float32 bits."""
    decoder.need(3, 4)
    first, second = decoder.operands[1:3]
    signed = any(part.negate or part.absolute for part in map(take_apart, (first, second)))
    kind = Type.F32 if signed else Type.U32
    moved = permutation(decoder)
    selects = (decoder.modifier("src0_sel"), decoder.modifier("src1_sel"))
    left = decoder.vector(first, kind, permutation=moved, select=selects[0])
    right = decoder.vector(second, kind, select=selects[1])
    mask = decoder.mask(decoder.operands[3] if len(decoder.operands) == 4 else decoder.vcc)
    write = result_write(decoder, kind, moved)
    return lambda machine: write(machine, np.where(mask(machine), right(machine), left(machine)))


def _select16(decoder: Decoder) -> Step:
    """v_cndmask_b16: as v_cndmask_b32, on halves."""
    decoder.need(4)
    row = Arithmetic(Type.U16, (Type.U16, Type.U16), np.where)
    halves = decoder.flags("op_sel", 4)
    texts = [text + ".h" * half for text, half in zip(decoder.operands[1:3], halves, strict=False)]
    left, right = (decoder.vector(text, Type.U16) for text in texts)
    mask = decoder.mask(decoder.operands[3])
    write = decoder.vector_result(decoder.operands[0], row.result, bool(halves[3]))
    return lambda machine: write(machine, np.where(mask(machine), right(machine), left(machine)))


TABLE: dict[str, Entry] = {
    **_comparisons(),
    "v_cndmask_b32": Entry(_select, sections.VOP2),
    "v_cndmask_b16": Entry(_select16, sections.RDNA3_VOP3, RDNA),
}
"""Mnemonic → entry."""
