"""Vector additions that write a carry mask, and 64-bit multiply-add.

Sources: CDNA3 ISA "VOP2" and "VOP3A & VOP3B Instructions", RDNA3 ISA "VOP2" and "VOP3 & VOP3SD Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from portkit.emulate.amdgcn.architecture import ALL, CDNA, RDNA, Generation
from portkit.emulate.amdgcn.decode import Decoder, Step
from portkit.emulate.amdgcn.isa import sections
from portkit.emulate.amdgcn.isa.arithmetic import permutation
from portkit.emulate.amdgcn.isa.registry import Entry, table_of
from portkit.emulate.amdgcn.lanes import LanePermutation
from portkit.emulate.amdgcn.machine import Array, Machine, Mask
from portkit.emulate.amdgcn.operands import Type

_TOP = 0xFFFF_FFFF
_RDNA4 = frozenset({Generation.RDNA4})


def _sum(sign: int, swap: bool) -> Callable[[Array, Array, Array], Array]:
    """Exact result as int64, outside 0 to 2^32 where a carry is left."""

    def operation(a: Array, b: Array, carry: Array) -> Array:
        left, right = np.asarray(a).astype(np.int64), np.asarray(b).astype(np.int64)
        if swap:
            left, right = right, left
        return np.asarray(left + sign * (right + carry.astype(np.int64)))

    return operation


def _with_carry(sign: int, swap: bool, carry_in: bool) -> Callable[[Decoder], Step]:
    exact = _sum(sign, swap)

    def build(decoder: Decoder) -> Step:
        decoder.need(5 if carry_in else 4)
        texts = decoder.operands
        left = decoder.vector(texts[2], Type.U32, permutation=_whole_permutation(decoder))
        right = decoder.vector(texts[3], Type.U32)
        carry = decoder.mask(texts[4]) if carry_in else None
        write, write_carry = decoder.vector_result(texts[0], Type.U32), decoder.mask_result(texts[1])
        none: Mask = np.zeros((1, 1), np.bool_)

        def step(machine: Machine) -> None:
            result = exact(left(machine), right(machine), carry(machine) if carry else none)
            result = machine.spread(result)
            write(machine, (result & _TOP).astype(np.uint32))
            write_carry(machine, (result < 0) | (result > _TOP))

        return step

    return build


def _whole_permutation(decoder: Decoder) -> LanePermutation | None:
    """DPP that writes every lane; what the carry of another lane would be, no document says."""
    moved = permutation(decoder)
    if moved is not None and not (moved.zero_invalid and moved.enabled.all()):
        raise decoder.unsupported("carries of lanes that a permutation leaves alone")
    return moved


def _sixty_fifth_bit(a: Array, b: Array, total: Array) -> Array:
    """Sign of the exact sum of two int64, which is its bit 64: that of the wrapped one, unless it overflowed."""
    return np.asarray((total < 0) ^ (((a ^ total) & (b ^ total)) < 0))


def _multiply_add(signed: bool) -> Callable[[Decoder], Step]:
    narrow, wide = (Type.I32, Type.I64) if signed else (Type.U32, Type.U64)

    def build(decoder: Decoder) -> Step:
        decoder.need(5)
        texts = decoder.operands
        left, right = (decoder.vector(text, narrow) for text in texts[2:4])
        addend = decoder.vector(texts[4], wide)
        write, write_carry = decoder.vector_result(texts[0], wide), decoder.mask_result(texts[1])

        def step(machine: Machine) -> None:
            product = np.asarray(left(machine)).astype(wide.dtype) * np.asarray(right(machine)).astype(wide.dtype)
            term = addend(machine)
            total = machine.spread(product + term)
            carry = _sixty_fifth_bit(product, term, total) if signed else total < product
            write(machine, total)
            write_carry(machine, machine.spread(carry))

        return step

    return build


TABLE: dict[str, Entry] = {
    **table_of(_with_carry(1, False, False), sections.VOP2_OR_VOP3, "v_add_co_u32"),
    **table_of(_with_carry(-1, False, False), sections.VOP2_OR_VOP3, "v_sub_co_u32"),
    **table_of(_with_carry(-1, True, False), sections.VOP2_OR_VOP3, "v_subrev_co_u32"),
    **table_of(_with_carry(1, False, True), sections.VOP2_OR_VOP3, "v_addc_co_u32", CDNA),
    **table_of(_with_carry(-1, False, True), sections.VOP2_OR_VOP3, "v_subb_co_u32", CDNA),
    **table_of(_with_carry(-1, True, True), sections.VOP2_OR_VOP3, "v_subbrev_co_u32", CDNA),
    **table_of(_with_carry(1, False, True), sections.VOP2_OR_VOP3, "v_add_co_ci_u32", RDNA),
    **table_of(_with_carry(-1, False, True), sections.VOP2_OR_VOP3, "v_sub_co_ci_u32", RDNA),
    **table_of(_with_carry(-1, True, True), sections.VOP2_OR_VOP3, "v_subrev_co_ci_u32", RDNA),
    **table_of(_multiply_add(False), sections.VOP3, "v_mad_u64_u32", ALL - _RDNA4),
    **table_of(_multiply_add(False), sections.VOP3, "v_mad_co_u64_u32", _RDNA4),
    **table_of(_multiply_add(True), sections.VOP3, "v_mad_i64_i32", ALL - _RDNA4),
    **table_of(_multiply_add(True), sections.VOP3, "v_mad_co_i64_i32", _RDNA4),
}
"""Mnemonic → entry."""
