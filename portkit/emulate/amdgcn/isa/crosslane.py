"""Vector instructions that move values between lanes, or between lanes and scalar registers.

Sources: CDNA3 ISA "VOP1/VOP3A Instructions", CDNA4 ISA "VOP1" (v_permlane16_swap, v_permlane32_swap), RDNA3
ISA "VOP1/VOP3 Instructions" (v_permlane16, v_permlanex16).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from portkit.emulate.amdgcn.architecture import RDNA, Generation
from portkit.emulate.amdgcn.decode import Decoder, Step
from portkit.emulate.amdgcn.isa import sections
from portkit.emulate.amdgcn.isa.registry import Entry
from portkit.emulate.amdgcn.machine import Array, Machine
from portkit.emulate.amdgcn.operands import File, Type
from portkit.emulate.core.findings import Unsupported

CDNA4_ONLY = frozenset({Generation.CDNA4})


def _first_lane(decoder: Decoder) -> Step:
    """v_readfirstlane_b32: the lowest enabled lane, lane 0 where none is."""
    decoder.need(2)
    register = decoder.register(decoder.operands[1])
    if register.file is not File.VECTOR:
        source = decoder.scalar(decoder.operands[1], Type.U32)
        write_same = decoder.scalar_result(decoder.operands[0], Type.U32)
        return lambda machine: write_same(machine, source(machine))
    decoder.reading(register)
    write, index = decoder.scalar_result(decoder.operands[0], Type.U32), register.index

    def step(machine: Machine) -> None:
        lane = machine.active.argmax(axis=1)[:, None]
        write(machine, np.take_along_axis(machine.read_vector(index), lane, axis=1))

    return step


def _lane_number(machine: Machine, value: Array) -> Array:
    """A scalar operand as lane numbers ``[selected waves, 1]``."""
    lanes = np.asarray(value, np.uint32) & np.uint32(machine.lanes - 1)
    return np.broadcast_to(lanes, (machine.count, 1)).astype(np.int64)


def _read_lane(decoder: Decoder) -> Step:
    decoder.need(3)
    register = decoder.vector_register(decoder.operands[1])
    decoder.reading(register)
    lane, write = decoder.scalar(decoder.operands[2], Type.U32), decoder.scalar_result(decoder.operands[0], Type.U32)
    index = register.index

    def step(machine: Machine) -> None:
        write(machine, np.take_along_axis(machine.read_vector(index), _lane_number(machine, lane(machine)), axis=1))

    return step


def _write_lane(decoder: Decoder) -> Step:
    """v_writelane_b32: one lane, whatever EXEC says."""
    decoder.need(3)
    register = decoder.vector_register(decoder.operands[0])
    decoder.reading(register)
    decoder.writing(register)
    value, lane = (decoder.scalar(text, Type.U32) for text in decoder.operands[1:3])
    index = register.index

    def step(machine: Machine) -> None:
        lanes = _lane_number(machine, lane(machine))[:, 0]
        filled = np.broadcast_to(value(machine), (machine.count, 1))[:, 0]
        machine.vector[Type.U32][index][machine.selected(), lanes] = filled

    return step


def _permute_rows(other_row: bool) -> Callable[[Decoder], Step]:
    """v_permlane16_b32 and v_permlanex16_b32: four bits of two scalars choose the lane of a row of 16."""

    def build(decoder: Decoder) -> Step:
        decoder.need(4)
        texts = decoder.operands
        source = decoder.vector(texts[1], Type.U32)
        low, high = (decoder.scalar(text, Type.U32) for text in texts[2:4])
        register = decoder.vector_register(texts[0])
        decoder.writing(register)
        read_disabled, zero = (bool(flag) for flag in decoder.flags("op_sel", 2))
        lane = np.arange(decoder.lanes)
        row, index = (lane & ~15) ^ (16 if other_row else 0), register.index
        shift = ((lane & 15) * 4).astype(np.uint64)

        def step(machine: Machine) -> None:
            codes = np.asarray(low(machine)).astype(np.uint64) | np.asarray(high(machine)).astype(
                np.uint64
            ) << np.uint64(32)
            chosen = machine.spread(row + ((codes >> shift) & np.uint64(15)).astype(np.int64))
            value = np.take_along_axis(machine.spread(source(machine)), chosen, axis=1)
            if read_disabled:
                machine.write_vector(index, value)
                return
            valid = np.take_along_axis(machine.active, chosen, axis=1)
            enabled = None if zero else valid
            machine.write_vector(index, np.where(valid, value, np.uint32(0)), Type.U32, enabled)

        return step

    return build


def _swap_rows(width: int) -> Callable[[Decoder], Step]:
    """v_permlane16_swap_b32, v_permlane32_swap_b32: odd rows of the first register against even ones of the second."""

    def build(decoder: Decoder) -> Step:
        decoder.need(2)
        decoder.ignore("bound_ctrl", "fi")
        registers = [decoder.vector_register(text) for text in decoder.operands]
        for register in registers:
            decoder.reading(register)
            decoder.writing(register)
        first, second = (register.index for register in registers)
        lane = np.arange(decoder.lanes)
        odd, partner = (lane & width) != 0, lane ^ width

        def step(machine: Machine) -> None:
            if not machine.full:
                raise Unsupported("row swap with lanes disabled", decoder.instruction.site)
            left, right = machine.read_vector(first).copy(), machine.read_vector(second).copy()
            machine.write_every_lane(first, np.where(odd, right[:, partner], left))
            machine.write_every_lane(second, np.where(odd, right, left[:, partner]))

        return step

    return build


def _swap(decoder: Decoder) -> Step:
    """v_swap_b32: two registers exchanged."""
    decoder.need(2)
    registers = [decoder.vector_register(text) for text in decoder.operands]
    for register in registers:
        decoder.reading(register)
        decoder.writing(register)
    first, second = (register.index for register in registers)

    def step(machine: Machine) -> None:
        left, right = machine.read_vector(first).copy(), machine.read_vector(second).copy()
        machine.write_vector(first, right)
        machine.write_vector(second, left)

    return step


def _count_below(low: bool) -> Callable[[Decoder], Step]:
    """v_mbcnt_lo and _hi: set bits of a mask below this lane, plus a number."""

    def build(decoder: Decoder) -> Step:
        decoder.need(3)
        mask, base = (decoder.vector(text, Type.U32) for text in decoder.operands[1:3])
        write = decoder.vector_result(decoder.operands[0], Type.U32)
        lanes = [min(lane, 32) if low else max(lane - 32, 0) for lane in range(decoder.lanes)]
        below = np.array([[(1 << lane) - 1 for lane in lanes]], np.uint32)
        return lambda machine: write(
            machine, np.bitwise_count(np.asarray(mask(machine)) & below).astype(np.uint32) + base(machine)
        )

    return build


TABLE: dict[str, Entry] = {
    "v_readfirstlane_b32": Entry(_first_lane, sections.VOP1),
    "v_readlane_b32": Entry(_read_lane, sections.VOP3),
    "v_writelane_b32": Entry(_write_lane, sections.VOP3),
    "v_permlane16_b32": Entry(_permute_rows(other_row=False), sections.VOP3, RDNA),
    "v_permlanex16_b32": Entry(_permute_rows(other_row=True), sections.VOP3, RDNA),
    "v_permlane16_swap_b32": Entry(_swap_rows(16), sections.CDNA4_VOP1, CDNA4_ONLY),
    "v_permlane32_swap_b32": Entry(_swap_rows(32), sections.CDNA4_VOP1, CDNA4_ONLY),
    "v_swap_b32": Entry(_swap, sections.VOP1),
    "v_mbcnt_lo_u32_b32": Entry(_count_below(low=True), sections.VOP3),
    "v_mbcnt_hi_u32_b32": Entry(_count_below(low=False), sections.VOP3),
}
"""Mnemonic → entry."""
