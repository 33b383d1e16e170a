"""Comparisons.

Source: PTX ISA, "Comparison and Selection Instructions", "Half Precision Comparison Instructions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from portkit.emulate.core.floats import flush
from portkit.emulate.ptx.decode import Decoder, Read, Step
from portkit.emulate.ptx.isa.halves import unpack, values
from portkit.emulate.ptx.isa.registry import Entry
from portkit.emulate.ptx.machine import Array, Machine, Mask
from portkit.emulate.ptx.types import Type, types_of

_SELECTION = "Comparison and Selection Instructions"

Test: TypeAlias = Callable[[Array, Array], Mask]


def _ordered(test: Test) -> Test:
    """False of a NaN, as NumPy's are but for ne."""
    return test


def _unordered(test: Test) -> Test:
    """True of a NaN."""
    return lambda a, b: test(a, b) | np.isnan(a) | np.isnan(b)


def _differs(a: Array, b: Array) -> Mask:
    """Ordered: false of a NaN."""
    return np.asarray((a < b) | (a > b))


INTEGER_TESTS: dict[str, Test] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}

FLOAT_TESTS: dict[str, Test] = {
    "eq": np.equal,
    "ne": _differs,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "equ": _unordered(np.equal),
    "neu": np.not_equal,
    "ltu": _unordered(np.less),
    "leu": _unordered(np.less_equal),
    "gtu": _unordered(np.greater),
    "geu": _unordered(np.greater_equal),
    "num": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "nan": lambda a, b: np.isnan(a) | np.isnan(b),
}

_COMBINE: dict[str, Callable[[Mask, Mask], Mask]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}

_HALVES = {Type.F16, Type.BF16}
_PAIRS = {Type.F16X2, Type.BF16X2}


def _test_of(decoder: Decoder, kind: Type) -> Test:
    """The comparison, with float32's flushing."""
    floating = kind.floating or kind in _HALVES | _PAIRS
    known = FLOAT_TESTS if floating else INTEGER_TESTS
    test = known[decoder.required(*known)]
    if not decoder.has("ftz"):
        return test
    if kind is not Type.F32:
        raise decoder.unsupported(f"modifier .ftz of a comparison of .{kind.suffix}")
    return lambda a, b: test(flush(a), flush(b))


def _reads(decoder: Decoder, kind: Type) -> list[Read]:
    reads = [decoder.read(operand, kind) for operand in decoder.operands[1:3]]
    return [values(read, kind) for read in reads] if kind in _HALVES else reads


def _set_predicate(decoder: Decoder) -> Step:
    kind = decoder.kind
    combine = decoder.one_of(*_COMBINE)
    decoder.need(4 if combine else 3)
    test = _test_of(decoder, kind)
    if kind in _PAIRS:
        return _of_pairs(decoder, kind, test, combine)
    left, right = _reads(decoder, kind)
    first, second = decoder.both(decoder.operands[0])
    write, write_other = decoder.write(first, Type.PRED), decoder.write(second, Type.PRED)
    if combine is None:

        def plain(machine: Machine) -> None:
            found = test(left(machine), right(machine))
            write(machine, found)
            write_other(machine, ~found)

        return plain
    given, join = decoder.predicate(decoder.operands[3]), _COMBINE[combine]

    def combined(machine: Machine) -> None:
        found, other = test(left(machine), right(machine)), given(machine)
        both, neither = join(found, other), join(~found, other)
        write(machine, both)
        write_other(machine, neither)

    return combined


def _of_pairs(decoder: Decoder, kind: Type, test: Test, combine: str | None) -> Step:
    """One predicate for each half."""
    left, right = (decoder.read(operand, kind) for operand in decoder.operands[1:3])
    writes = [decoder.write(operand, Type.PRED) for operand in decoder.both(decoder.operands[0])]
    given = decoder.predicate(decoder.operands[3]) if combine else None

    def step(machine: Machine) -> None:
        pairs = zip(unpack(left(machine), kind), unpack(right(machine), kind), strict=True)
        found = [test(a, b) for a, b in pairs]
        if given and combine:
            found = [_COMBINE[combine](each, given(machine)) for each in found]
        for write, each in zip(writes, found, strict=True):
            write(machine, each)

    return step


def _set(decoder: Decoder) -> Step:
    """A word of ones, or 1.0, where the comparison holds."""
    result, kind = decoder.kinds
    if kind in _HALVES | _PAIRS or result.bits != Type.U32.bits:
        raise decoder.unsupported(f"set.{result.suffix}.{kind.suffix}")
    combine = decoder.one_of(*_COMBINE)
    decoder.need(4 if combine else 3)
    test = _test_of(decoder, kind)
    left, right = _reads(decoder, kind)
    given = decoder.predicate(decoder.operands[3]) if combine else None
    write = decoder.write(decoder.operands[0], result)
    one = np.float32(1) if result is Type.F32 else result.dtype.type(-1 if result.signed else 0xFFFF_FFFF)

    def step(machine: Machine) -> None:
        found = test(left(machine), right(machine))
        if given and combine:
            found = _COMBINE[combine](found, given(machine))
        write(machine, np.where(found, one, result.dtype.type(0)))

    return step


_TYPES = types_of("b16 b32 b64 u16 u32 u64 s16 s32 s64 f16 bf16 f16x2 bf16x2 f32 f64")

TABLE: dict[str, tuple[Entry, ...]] = {
    "setp": (Entry(_set_predicate, f"{_SELECTION}: setp", _TYPES),),
    "set": (Entry(_set, f"{_SELECTION}: set", _TYPES),),
}
