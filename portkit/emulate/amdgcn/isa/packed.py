"""Packed arithmetic on two values of a register or register pair.

Sources: CDNA3 ISA "VOP3P Instructions" (v_pk_add_f32 and the like), RDNA3 ISA "VOP3P Instructions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from portkit.emulate.amdgcn.architecture import CDNA
from portkit.emulate.amdgcn.decode import Decoder, Read, Step
from portkit.emulate.amdgcn.isa.registry import Build, Entry
from portkit.emulate.amdgcn.machine import Machine
from portkit.emulate.amdgcn.operands import Register, Type, constant, is_constant
from portkit.emulate.core.floats import flush, fma32

_SECTION = "CDNA3 ISA, VOP3P Instructions"


def _half_of_pair(decoder: Decoder, text: str, high: int, negate: int) -> Read:
    """The low or high float32 of a register pair; a constant stands for its low half only."""
    if is_constant(text):
        if high:
            raise decoder.unsupported("high half of a constant")
        value = constant(text, Type.F32)
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
        reads = [[_half_of_pair(decoder, *part) for part in parts] for parts in (low, high)]
        first = decoder.vector_indices(decoder.operands[0], 2, write=True)

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
        _half_of_pair(decoder, text, high, 0)
        for text, high in zip(decoder.operands[1:], decoder.flags("op_sel", 2), strict=True)
    ]
    first = decoder.vector_indices(decoder.operands[0], 2, write=True)

    def step(machine: Machine) -> None:
        results = [np.array(read(machine)) for read in reads]
        for number, result in enumerate(results):
            machine.write_vector(first + number, result, Type.F32)

    return step


TABLE: dict[str, Entry] = {
    "v_pk_add_f32": Entry(_pairs(np.add, 2), _SECTION, CDNA),
    "v_pk_mul_f32": Entry(_pairs(np.multiply, 2), _SECTION, CDNA),
    "v_pk_fma_f32": Entry(_pairs(fma32, 3), _SECTION, CDNA),
    "v_pk_mov_b32": Entry(_move, _SECTION, CDNA),
}
"""Mnemonic → entry."""
