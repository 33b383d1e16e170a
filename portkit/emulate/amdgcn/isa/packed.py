"""Packed arithmetic on two values of a register or register pair, and multiply-adds of mixed precision.

Sources: CDNA3 ISA "VOP3P Instructions", CDNA4 ISA the same (v_pk_minimum3_f16), RDNA3 and RDNA4 ISA the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from portkit.emulate.amdgcn.architecture import ALL, CDNA, Generation
from portkit.emulate.amdgcn.decode import Decoder, Read, Step, take_apart
from portkit.emulate.amdgcn.isa import integers16, sections
from portkit.emulate.amdgcn.isa.arithmetic import saturated
from portkit.emulate.amdgcn.isa.extremes import maximum3, minimum3
from portkit.emulate.amdgcn.isa.halves import by_overflow_mode, pack
from portkit.emulate.amdgcn.isa.registry import Build, Entry
from portkit.emulate.amdgcn.machine import Machine
from portkit.emulate.amdgcn.operands import File, Register, Type, constant, is_constant
from portkit.emulate.core import floats
from portkit.emulate.core.floats import flush, fma32


def _half_of_pair(decoder: Decoder, text: str, high: int, negate: int) -> Read:
    """The low or high float32 of a register pair; of constants only zero has a high half that is known."""
    if is_constant(text):
        value = constant(text, Type.F32)
        if high and value.view(np.uint32):
            raise decoder.unsupported("high half of a constant")
        return lambda machine: -value if negate else value
    register = decoder.register(text)
    if register.count != 2:
        raise decoder.unsupported(f"operand {text} where a pair is needed")
    read = decoder.read_register(Register(register.file, register.index + high), Type.F32)
    flushing = decoder.flushes32

    def half(machine: Machine) -> Any:
        value = flush(read(machine)) if flushing else read(machine)
        return -value if negate else value

    return half


def _half(decoder: Decoder, parts: Sequence[tuple[str, int, int]]) -> list[Read]:
    """Sources of one of the two results."""
    with decoder.half():
        return [_half_of_pair(decoder, *part) for part in parts]


def _written_by_halves(decoder: Decoder) -> int:
    """First register of the two results."""
    first = decoder.vector_indices(decoder.operands[0], 2, write=True)
    for number, half in enumerate(decoder.uses.halves):
        half.writes.add((File.VECTOR, first + number))
    return first


def _pairs(function: Callable[..., Any], sources: int) -> Build:
    def build(decoder: Decoder) -> Step:
        decoder.need(sources + 1)
        low = list(
            zip(decoder.operands[1:], decoder.flags("op_sel", sources), decoder.flags("neg_lo", sources), strict=True)
        )
        high = list(
            zip(
                decoder.operands[1:],
                decoder.flags("op_sel_hi", sources, 1),
                decoder.flags("neg_hi", sources),
                strict=True,
            )
        )
        reads = [_half(decoder, parts) for parts in (low, high)]
        first = _written_by_halves(decoder)

        def step(machine: Machine) -> None:
            results = [np.asarray(function(*[read(machine) for read in half])) for half in reads]
            for number, result in enumerate(results):
                machine.write_vector(first + number, flush(result) if decoder.flushes32 else result, Type.F32)

        return step

    return build


def _move(decoder: Decoder) -> Step:
    """v_pk_mov_b32: the low result from the first source, the high one from the second, by op_sel."""
    decoder.need(3)
    decoder.ignore("op_sel_hi")
    reads = [
        _half(decoder, [(text, high, 0)])[0]
        for text, high in zip(decoder.operands[1:], decoder.flags("op_sel", 2), strict=True)
    ]
    first = _written_by_halves(decoder)

    def step(machine: Machine) -> None:
        results = [np.array(read(machine)) for read in reads]
        for number, result in enumerate(results):
            machine.write_vector(first + number, result, Type.F32)

    return step


# -- two halves of one register


def packed_word(decoder: Decoder, text: str, kind: Type) -> Read:
    """A source as a word: a constant of a floating type fills the low half only, an integer is sign-extended."""
    if not is_constant(text):
        return decoder.read_register(decoder.register(text), Type.U32)
    value = constant(text, kind if "." in text and kind.floating else Type.U32)
    word = np.uint32(np.asarray(value).view(f"u{value.dtype.itemsize}"))
    return lambda machine: word


def half_of(read: Read, kind: Type, high: int, negate: int) -> Read:
    """One half of a packed source, as its type."""

    def half(machine: Machine) -> Any:
        word = np.asarray(read(machine))
        bits = (word >> np.uint32(16) if high else word).astype(np.uint16)
        if negate:
            bits = bits ^ np.uint16(0x8000)
        return bits.view(kind.dtype)

    return half


def packed_sources(decoder: Decoder, texts: tuple[str, ...], kind: Type) -> tuple[list[Read], list[Read]]:
    """What the low and what the high result are made of, by op_sel, op_sel_hi, neg_lo and neg_hi."""
    count = len(decoder.operands) - 1
    words = [packed_word(decoder, text, kind) for text in texts]
    low, high = decoder.flags("op_sel", count), decoder.flags("op_sel_hi", count, 1)
    signs = [decoder.flags(name, count) if kind.floating else (0,) * count for name in ("neg_lo", "neg_hi")]
    return (
        [half_of(word, kind, low[n], signs[0][n]) for n, word in enumerate(words)],
        [half_of(word, kind, high[n], signs[1][n]) for n, word in enumerate(words)],
    )


def _halves(function: Callable[..., Any], sources: int, kind: Type) -> Build:
    def build(decoder: Decoder) -> Step:
        decoder.need(sources + 1)
        steps = partial(_words_step if _as_they_lie(decoder, kind) else _halves_step, decoder, kind)
        if kind is not Type.F16:
            return steps(_maybe_saturated(decoder, kind, function))
        finish = _unit_clamp if decoder.has("clamp") else np.asarray
        return by_overflow_mode(decoder, lambda operation: steps(lambda *values: finish(operation(*values))), function)

    return build


def _maybe_saturated(decoder: Decoder, kind: Type, function: Callable[..., Any]) -> Callable[..., Any]:
    """The integer function, with ``clamp`` held within its type."""
    if not decoder.has("clamp"):
        return function
    held = saturated(decoder.instruction.mnemonic.split("_")[2], kind)
    if held is None:
        raise decoder.unsupported("clamp of an integer result")
    return held


def _as_they_lie(decoder: Decoder, kind: Type) -> bool:
    """Whether all sources are vector registers whose halves are taken as they lie."""
    count = len(decoder.operands) - 1
    plain = not any(decoder.flags("op_sel", count)) and all(decoder.flags("op_sel_hi", count, 1))
    signs = [*decoder.flags("neg_lo", count), *decoder.flags("neg_hi", count)] if kind.floating else []
    sources = decoder.operands[1:]
    vectors = not any(map(is_constant, sources)) and all(decoder.register(each).file is File.VECTOR for each in sources)
    return plain and not any(signs) and vectors


def _words_step(decoder: Decoder, kind: Type, function: Callable[..., Any]) -> Step:
    """Both halves in one go: half as many operations of NumPy."""
    words = [decoder.read_register(decoder.register(text), Type.U32) for text in decoder.operands[1:]]
    write = decoder.vector_result(decoder.operands[0], Type.U32)

    def step(machine: Machine) -> None:
        values = [np.ascontiguousarray(read(machine)).view(kind.dtype) for read in words]
        write(machine, np.ascontiguousarray(function(*values)).view(np.uint32))

    return step


def _halves_step(decoder: Decoder, kind: Type, function: Callable[..., Any]) -> Step:
    pairs = packed_sources(decoder, decoder.operands[1:], kind)
    write = decoder.vector_result(decoder.operands[0], Type.U32)

    def step(machine: Machine) -> None:
        results = [np.asarray(function(*[read(machine) for read in half])) for half in pairs]
        write(machine, pack(*[result.view(np.uint16) for result in results]))

    return step


def _unit_clamp(x: Any) -> Any:
    """To 0 … 1; NaN becomes 0."""
    return np.where(np.isnan(x), np.float16(0), np.clip(x, np.float16(0), np.float16(1)))


def _multiply_add(a: Any, b: Any, c: Any) -> Any:
    return a * b + c


_PACKED: dict[str, tuple[Type, int, Callable[..., Any]]] = {
    "add_f16": (Type.F16, 2, np.add),
    "mul_f16": (Type.F16, 2, np.multiply),
    "fma_f16": (Type.F16, 3, floats.fma16),
    "add_u16": (Type.U16, 2, np.add),
    "add_i16": (Type.I16, 2, np.add),
    "sub_u16": (Type.U16, 2, np.subtract),
    "sub_i16": (Type.I16, 2, np.subtract),
    "mul_lo_u16": (Type.U16, 2, np.multiply),
    "mad_u16": (Type.U16, 3, _multiply_add),
    "mad_i16": (Type.I16, 3, _multiply_add),
    "max_u16": (Type.U16, 2, np.maximum),
    "min_u16": (Type.U16, 2, np.minimum),
    "max_i16": (Type.I16, 2, np.maximum),
    "min_i16": (Type.I16, 2, np.minimum),
    "lshlrev_b16": (Type.U16, 2, integers16.shift_left),
    "lshrrev_b16": (Type.U16, 2, integers16.shift_right),
}


def _shift_signed(by: Any, x: Any) -> Any:
    return integers16.shift_right_signed(np.asarray(by).view(np.uint16), x)


# -- mixed precision


def _mixed_source(decoder: Decoder, text: str, half: int, high: int) -> Read:
    """A float32, or where ``half`` is set a float16 in one half of a register, widened."""
    if not half:
        return decoder.vector(text, Type.F32)
    source = take_apart(text)
    narrow = half_of(packed_word(decoder, source.text, Type.F16), Type.F16, high, 0)

    def wide(machine: Machine) -> Any:
        value = np.asarray(narrow(machine)).astype(np.float32)
        value = np.abs(value) if source.absolute else value
        return -value if source.negate else value

    return wide


def _mixed(result: int | None) -> Build:
    """v_fma_mix_f32, and the forms that round to float16 and write one half of the destination."""

    def build(decoder: Decoder) -> Step:
        decoder.need(4)
        halves, highs = decoder.flags("op_sel_hi", 3), decoder.flags("op_sel", 3)
        reads = [
            _mixed_source(decoder, text, half, high)
            for text, half, high in zip(decoder.operands[1:], halves, highs, strict=True)
        ]
        if result is None:
            write = decoder.vector_result(decoder.operands[0], Type.F32)
            return lambda machine: write(machine, fma32(*[read(machine) for read in reads]))
        return _mixed_half(decoder, reads, result)

    return build


def _mixed_half(decoder: Decoder, reads: list[Read], half: int) -> Step:
    register = decoder.vector_register(decoder.operands[0])
    decoder.reading(register)
    write, old = decoder.vector_result(decoder.operands[0], Type.U32), register.index
    shift, kept = np.uint32(16 * half), np.uint32(0x0000_FFFF if half else 0xFFFF_0000)

    def step(machine: Machine) -> None:
        value = floats.fma32_unrounded(*[read(machine) for read in reads])
        bits = np.asarray(value).astype(np.float16).view(np.uint16).astype(np.uint32)
        write(machine, (machine.read_vector(old) & kept) | bits << shift)

    return step


_CDNA4 = frozenset({Generation.CDNA4})
_RDNA4 = frozenset({Generation.RDNA4})
_BEFORE_RDNA4 = ALL - _RDNA4


def _extremes() -> dict[str, Entry]:
    """Packed minimum and maximum of float16, named apart by generation."""
    table = {}
    for name, function in (("max", floats.maximum), ("min", floats.minimum)):
        build = _halves(function, 2, Type.F16)
        table[f"v_pk_{name}_f16"] = Entry(build, sections.VOP3P, _BEFORE_RDNA4)
        table[f"v_pk_{name}_num_f16"] = Entry(build, sections.RDNA4_VOP3P, _RDNA4)
    for name, triple in (("minimum3", minimum3), ("maximum3", maximum3)):
        table[f"v_pk_{name}_f16"] = Entry(_halves(triple, 3, Type.F16), sections.CDNA4_VOP3P, _CDNA4)
    return table


TABLE: dict[str, Entry] = {
    "v_pk_add_f32": Entry(_pairs(np.add, 2), sections.CDNA3_PACKED, CDNA),
    "v_pk_mul_f32": Entry(_pairs(np.multiply, 2), sections.CDNA3_PACKED, CDNA),
    "v_pk_fma_f32": Entry(_pairs(fma32, 3), sections.CDNA3_PACKED, CDNA),
    "v_pk_mov_b32": Entry(_move, sections.CDNA3_PACKED, CDNA),
    **{f"v_pk_{name}": Entry(_halves(f, count, kind), sections.VOP3P) for name, (kind, count, f) in _PACKED.items()},
    "v_pk_ashrrev_i16": Entry(_halves(_shift_signed, 2, Type.I16), sections.VOP3P),
    **_extremes(),
    "v_fma_mix_f32": Entry(_mixed(None), sections.VOP3P),
    "v_fma_mixlo_f16": Entry(_mixed(0), sections.VOP3P),
    "v_fma_mixhi_f16": Entry(_mixed(1), sections.VOP3P),
}
"""Mnemonic → entry."""
