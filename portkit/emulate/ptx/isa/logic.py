"""Logic, shifts, moves and selections.

Source: PTX ISA, "Logic and Shift Instructions", "Data Movement and Conversion Instructions", "Comparison and
Selection Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from portkit.emulate.core import integers
from portkit.emulate.ptx.decode import Decoder, Step
from portkit.emulate.ptx.isa.registry import Entry
from portkit.emulate.ptx.isa.rows import Function, computed, plain, result_step, row
from portkit.emulate.ptx.machine import Array, Machine
from portkit.emulate.ptx.program import Immediate
from portkit.emulate.ptx.types import RAW, Type, types_of

_LOGIC = "Logic and Shift Instructions"
_MOVES = "Data Movement and Conversion Instructions"
_SELECTION = "Comparison and Selection Instructions"

WORDS = "b16 b32 b64"
EVERY = "pred b16 u16 s16 f16 bf16 b32 u32 s32 f32 f16x2 bf16x2 b64 u64 s64 f64 b128"


def shifted(kind: Type, left: bool) -> Function:
    """Shl and shr: by the width or more, all bits go, or the sign fills."""

    def function(x: Array, by: Array) -> Array:
        amount = np.asarray(by)
        if not amount.ndim and amount < kind.bits:  # a constant, mostly
            by = kind.dtype.type(amount)
            return np.asarray(x << by if left else x >> by)
        within = np.minimum(amount, np.uint32(kind.bits - 1)).astype(kind.dtype)
        x = np.asarray(x)
        moved = x << within if left else x >> within
        over = amount >= kind.bits
        if not over.any() or (kind.signed and not left):
            return np.asarray(moved)
        return np.where(over, kind.dtype.type(0), moved)

    return function


def _shift(left: bool) -> Callable[[Decoder], Step]:
    def build(decoder: Decoder) -> Step:
        decoder.need(3)
        return computed(decoder, shifted(decoder.kind, left), decoder.kind, [decoder.kind, Type.U32])

    return build


def _funnel(decoder: Decoder) -> Step:
    """shf: 32 bits of a pair, shifted."""
    decoder.need(4)
    left, wraps = decoder.required("l", "r") == "l", decoder.required("clamp", "wrap") == "wrap"

    def function(low: Array, high: Array, by: Array) -> Array:
        amount = np.asarray(by) & np.uint32(31) if wraps else np.minimum(by, np.uint32(32))
        pair = (np.asarray(high).astype(np.uint64) << np.uint64(32)) | np.asarray(low).astype(np.uint64)
        wide = amount.astype(np.uint64)
        return ((pair << wide) >> np.uint64(32) if left else pair >> wide).astype(np.uint32)

    return computed(decoder, function, Type.B32, [Type.B32, Type.B32, Type.U32])


_BOOLEAN = {"and": np.logical_and, "or": np.logical_or}


def _lop3(decoder: Decoder) -> Step:
    """Any function of three bits. The form with a predicate combines that with whether the result is not 0."""
    boolean = decoder.one_of("and", "or")
    target, condition = decoder.both(decoder.operands[0])
    decoder.need(5 if boolean is None else 6)
    table = decoder.operands[4]
    if not isinstance(table, Immediate):
        raise decoder.unsupported("a look-up table that is no constant")
    code = int(table.text, 0)

    def function(a: Array, b: Array, c: Array) -> Array:
        return integers.truth_table(np.asarray(a), np.asarray(b), np.asarray(c), code)

    reads = [decoder.read(operand, Type.B32) for operand in decoder.operands[1:4]]
    plain_step = result_step(decoder, target, function, Type.B32, reads)
    if boolean is None:
        return plain_step
    write, given = decoder.write(condition, Type.PRED), decoder.predicate(decoder.operands[5])
    combine = _BOOLEAN[boolean]
    plain_write = decoder.write(target, Type.B32)

    def step(machine: Machine) -> None:
        result = function(*[read(machine) for read in reads])
        write(machine, combine(result != 0, given(machine)))
        plain_write(machine, result)

    return step


def permute(mode: str | None) -> Function:
    """prmt: four bytes chosen from a pair of words, or by a mode."""

    def function(low: Array, high: Array, selector: Array) -> Array:
        codes = _MODES[mode](np.asarray(selector)) if mode else np.asarray(selector)
        return _chosen_bytes(np.asarray(low), np.asarray(high), codes)

    return function


def _chosen_bytes(low: Array, high: Array, codes: Array) -> Array:
    pair = (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
    result: Array = np.zeros((), np.uint32)
    for place in range(4):
        code = (codes >> np.uint32(4 * place)) & np.uint32(15)
        byte = ((pair >> ((code & np.uint32(7)).astype(np.uint64) << np.uint64(3))) & np.uint64(255)).astype(np.uint32)
        if np.any(code > 7):
            sign = np.where(byte >> np.uint32(7) != 0, np.uint32(255), np.uint32(0))
            byte = np.where(code > 7, sign, byte)
        result = np.asarray(result | (byte << np.uint32(8 * place)))
    return result


def _mode_table(*rows: tuple[int, int, int, int]) -> Callable[[Array], Array]:
    """Selectors by the low two bits of c; rows give bytes from the lowest."""
    table = np.array([sum(code << 4 * place for place, code in enumerate(each)) for each in rows], np.uint32)
    return lambda selector: table[selector & np.uint32(3)]


_MODES = {
    "f4e": _mode_table((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": _mode_table((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": _mode_table((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": _mode_table((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": _mode_table((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": _mode_table((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}


def _permute(decoder: Decoder) -> Step:
    decoder.need(4)
    return computed(decoder, permute(decoder.one_of(*_MODES)), Type.B32, [Type.B32] * 3)


def _move(decoder: Decoder) -> Step:
    decoder.need(2)
    kind = decoder.kind
    read, write = decoder.read(decoder.operands[1], kind), decoder.write(decoder.operands[0], kind)
    return lambda machine: write(machine, read(machine))


def _select(decoder: Decoder) -> Step:
    """Selp."""
    decoder.need(4)
    kind = RAW[decoder.kind.bits] if not decoder.kind.floating else decoder.kind
    yes, no = (decoder.read(operand, kind) for operand in decoder.operands[1:3])
    condition, write = decoder.predicate(decoder.operands[3]), decoder.write(decoder.operands[0], kind)
    return lambda machine: write(machine, np.where(condition(machine), yes(machine), no(machine)))


def _select_by_sign(decoder: Decoder) -> Step:
    """slct: by whether a number is at least 0; NaN is not."""
    decoder.need(4)
    decoder.ignore("ftz")  # a denormal becomes a zero of its sign, and -0 is at least 0
    kind, by = decoder.kinds
    ftz = "ftz" in decoder.instruction.modifiers

    def function(a: Array, b: Array, c: Array) -> Array:
        least = np.asarray(c) >= 0
        if ftz:
            least = least | (np.abs(c) < np.float32(2.0**-126))
        return np.where(least, a, b)

    return computed(decoder, function, kind, [kind, kind, by])


def _is_zero(x: Array) -> Array:
    """Cnot."""
    return np.asarray(np.asarray(x) == 0).astype(np.asarray(x).dtype)


def _logic(name: str, function: Function, sources: int, types: str = f"pred {WORDS}") -> Entry:
    return row(plain(function), types, f"{_LOGIC}: {name}", sources=sources)


TABLE: dict[str, tuple[Entry, ...]] = {
    "and": (_logic("and", np.bitwise_and, 2),),
    "or": (_logic("or", np.bitwise_or, 2),),
    "xor": (_logic("xor", np.bitwise_xor, 2),),
    "not": (_logic("not", np.invert, 1),),
    "cnot": (_logic("cnot", _is_zero, 1, WORDS),),
    "lop3": (Entry(_lop3, f"{_LOGIC}: lop3", types_of("b32")),),
    "shf": (Entry(_funnel, f"{_LOGIC}: shf", types_of("b32")),),
    "shl": (Entry(_shift(True), f"{_LOGIC}: shl", types_of(WORDS)),),
    "shr": (Entry(_shift(False), f"{_LOGIC}: shr", types_of(f"{WORDS} u16 u32 u64 s16 s32 s64")),),
    "prmt": (Entry(_permute, f"{_MOVES}: prmt", types_of("b32")),),
    "mov": (Entry(_move, f"{_MOVES}: mov", types_of(EVERY)),),
    "selp": (Entry(_select, f"{_SELECTION}: selp", types_of(EVERY)),),
    "slct": (Entry(_select_by_sign, f"{_SELECTION}: slct", types_of("s32 f32")),),
}
