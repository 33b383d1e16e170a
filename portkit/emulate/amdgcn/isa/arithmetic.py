"""Vector instructions that compute one result a lane from its operands: builder and table rows.

The modifiers of all of them are handled here: sign marks, DPP, SDWA, op_sel of 16-bit operands, output
scaling and clamping.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from portkit.emulate.amdgcn.architecture import ALL, Generation
from portkit.emulate.amdgcn.decode import Decoder, Read, Step, Write
from portkit.emulate.amdgcn.isa.registry import Entry, Operands
from portkit.emulate.amdgcn.lanes import CONTROLS, LanePermutation, permutation_of
from portkit.emulate.amdgcn.machine import Array, Machine
from portkit.emulate.amdgcn.operands import File, Type
from portkit.emulate.core.floats import flush
from portkit.emulate.core.vectors import Approximation

Function: TypeAlias = Callable[..., Any]

_EXACT: dict[str, Function] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "subrev": lambda a, b: b - a,
}
"""Integer operations that ``clamp`` makes saturate, on wide integers."""


def saturated(operation: str, kind: Type) -> Function | None:
    """An integer operation held within its type; None where ``clamp`` has no such form."""
    exact = _EXACT.get(operation)
    if exact is None or kind.floating or kind.bits > 32:
        return None
    limits = np.iinfo(kind.dtype)

    def function(a: Array, b: Array) -> Array:
        wide = exact(np.asarray(a).astype(np.int64), np.asarray(b).astype(np.int64))
        return np.clip(wide, limits.min, limits.max).astype(kind.dtype)

    return function


@dataclass(frozen=True)
class Arithmetic:
    """Types of result and sources, and the function from one to the other."""

    result: Type
    sources: tuple[Type, ...]
    function: Function
    accumulate: bool = False  # the destination is the last source

    @property
    def operands(self) -> Operands:
        """The types alone."""
        return Operands(self.result, self.sources, self.accumulate)


def arithmetic(
    signature: str,
    function: Function,
    section: str,
    *,
    accumulate: bool = False,
    generations: frozenset[Generation] = ALL,
    approximation: Approximation | None = None,
) -> Entry:
    """Table row for a signature such as ``"F32 = F32 F32"``."""
    row = row_of(signature, function, accumulate=accumulate)
    return Entry(lambda decoder: build(decoder, row), section, generations, row.operands, approximation)


def row_of(signature: str, function: Function, *, accumulate: bool = False) -> Arithmetic:
    """What a signature such as ``"F32 = F32 F32"`` says."""
    result, _, sources = signature.partition("=")
    kinds = tuple(Type[name] for name in sources.split())
    return Arithmetic(Type[result.strip()], kinds, function, accumulate)


def permutation(decoder: Decoder) -> LanePermutation | None:
    """DPP of this instruction, None where it has none."""
    given = dict(decoder.instruction.modifiers)
    if not any(name in CONTROLS for name in given):
        return None
    decoder.ignore(*CONTROLS, "row_mask", "bank_mask", "bound_ctrl", "fi")
    return permutation_of(given, decoder.lanes)


def build(decoder: Decoder, row: Arithmetic) -> Step:
    """The step of one arithmetic instruction."""
    moved = permutation(decoder)
    reads = source_reads(decoder, row, moved)
    function = _modified(decoder, row)
    if moved is None and not decoder.has("dst_sel") and _plain(decoder, row, function):
        return _ufunc_step(decoder, row, function, reads)
    return _written(_value(function, reads), result_write(decoder, row.result, moved))


def source_texts(decoder: Decoder, row: Arithmetic) -> tuple[str, ...]:
    """Operands that are read, the destination last where the instruction accumulates."""
    texts = decoder.operands[1:]
    if row.accumulate:
        texts = (*texts, decoder.operands[0])
    if len(texts) != len(row.sources):
        raise decoder.unsupported(f"{len(decoder.operands)} operands")
    return texts


def source_reads(decoder: Decoder, row: Arithmetic, moved: LanePermutation | None) -> list[Read]:
    """Functions that read the sources."""
    halves = decoder.flags("op_sel", len(row.sources) + 1) if _sixteen(row) else (0,) * 4
    selects = [decoder.modifier(name) for name in ("src0_sel", "src1_sel")] + [""]
    texts = source_texts(decoder, row)
    return [
        decoder.vector(
            _high(text) if halves[number] else text,
            kind,
            permutation=moved if number == 0 else None,
            select=selects[min(number, 2)],
        )
        for number, (text, kind) in enumerate(zip(texts, row.sources, strict=True))
    ]


def _sixteen(row: Arithmetic) -> bool:
    return any(kind.bits == 16 for kind in (row.result, *row.sources))


def _high(text: str) -> str:
    """The operand with its upper half named, sign marks kept."""
    for mark in ("|", ")"):
        if text.endswith(mark):
            return f"{text[:-1]}.h{mark}"
    return f"{text}.h"


def _modified(decoder: Decoder, row: Arithmetic) -> Function:
    """The function with output scaling, clamping and flushing."""
    scale = _output_scale(decoder)
    clamp = decoder.has("clamp")
    function = row.function
    if clamp and not row.result.floating:
        function, clamp = _saturating(decoder, row), False
    if scale == 1.0 and not clamp and not _flushed(decoder, row):
        return function
    return _finished(function, scale, clamp, _flushed(decoder, row))


def _flushed(decoder: Decoder, row: Arithmetic) -> bool:
    return row.result is Type.F32 and decoder.flushes32


def _output_scale(decoder: Decoder) -> float:
    """``mul:2``, ``mul:4`` or ``div:2``; ignored by the device where denormals are kept."""
    scale = decoder.number("mul", 1) / decoder.number("div", 1)
    if scale != 1.0 and not decoder.flushes32:
        raise decoder.unsupported("output scaling with denormals on")
    return scale


def _saturating(decoder: Decoder, row: Arithmetic) -> Function:
    function = saturated(decoder.instruction.mnemonic.split("_")[1], row.result)
    if function is None:
        raise decoder.unsupported("clamp of an integer result")
    return function


def _finished(function: Function, scale: float, clamp: bool, flushing: bool) -> Function:
    def operation(*values: Array) -> Array:
        result = np.asarray(function(*values))
        kind = result.dtype.type
        if scale != 1.0:
            result = result * kind(scale)
        if flushing:
            result = flush(result)
        if clamp:
            result = np.where(np.isnan(result), kind(0), np.clip(result, kind(0), kind(1)))
        return result

    return operation


def _plain(decoder: Decoder, row: Arithmetic, function: Function) -> bool:
    register = decoder.vector_register(decoder.operands[0])
    return isinstance(function, np.ufunc) and row.result.bits == 32 and register.file is File.VECTOR


def _ufunc_step(decoder: Decoder, row: Arithmetic, function: Function, reads: list[Read]) -> Step:
    """NumPy writes the register itself, lanes that EXEC disables left alone."""
    register = decoder.vector_register(decoder.operands[0])
    decoder.writing(register)
    index, kind = register.index, row.result

    def step(machine: Machine) -> None:
        values = [read(machine) for read in reads]
        if not machine.all:
            machine.write_vector(index, function(*values), kind)
        elif machine.full:
            function(*values, out=machine.vector[kind][index])
        else:
            function(*values, out=machine.vector[kind][index], where=machine.active)

    return step


def _value(function: Function, reads: list[Read]) -> Read:
    if len(reads) == 1:
        (first,) = reads
        return lambda machine: function(first(machine))
    if len(reads) == 2:
        left, right = reads
        return lambda machine: function(left(machine), right(machine))
    return lambda machine: function(*[read(machine) for read in reads])


def _written(value: Read, write: Write) -> Step:
    return lambda machine: write(machine, value(machine))


def result_write(decoder: Decoder, kind: Type, moved: LanePermutation | None) -> Write:
    """Destination with DPP's and SDWA's masks."""
    select = decoder.modifier("dst_sel", "DWORD")
    unused = decoder.modifier("dst_unused", "UNUSED_PAD")
    if select != "DWORD":
        return _sdwa_result(decoder, select, unused)
    text = decoder.operands[0]
    high = bool(decoder.flags("op_sel", 4)[len(decoder.operands) - 1]) if kind.bits == 16 else False
    if moved is None:
        return decoder.vector_result(text, kind, high)
    return _masked_result(decoder, kind, moved)


def _masked_result(decoder: Decoder, kind: Type, moved: LanePermutation) -> Write:
    register = decoder.vector_register(decoder.operands[0])
    if kind.bits != 32:
        raise decoder.unsupported(f"lane permutation of a {kind.bits}-bit result")
    decoder.writing(register)
    index = register.index
    return lambda machine, value: machine.write_vector(index, value, kind, moved.written(machine))


def _sdwa_result(decoder: Decoder, select: str, unused: str) -> Write:
    """One byte or word of the destination; the rest 0, or kept."""
    if unused not in {"UNUSED_PAD", "UNUSED_PRESERVE"}:
        raise decoder.unsupported(f"dst_unused:{unused}")
    bits = 16 if select.startswith("WORD") else 8
    up, mask = np.uint32(int(select[-1]) * bits), np.uint32((1 << bits) - 1)
    register = decoder.vector_register(decoder.operands[0])
    decoder.writing(register)
    keep = np.uint32(~(int(mask) << int(up)) & 0xFFFF_FFFF) if unused == "UNUSED_PRESERVE" else None
    if keep is not None:
        decoder.reading(register)
    index = register.index

    def write(machine: Machine, value: Array) -> None:
        raw = np.asarray(value)
        part = (raw.view(f"u{raw.dtype.itemsize}").astype(np.uint32) & mask) << up
        if keep is not None:
            part = part | (machine.read_vector(index) & keep)
        machine.write_vector(index, part)

    return write
