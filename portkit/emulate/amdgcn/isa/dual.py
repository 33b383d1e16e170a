"""Dual issue (VOPD): two vector instructions whose operands are all read before either result is written.

Source: RDNA3 ISA "VOPD Instructions" and "Dual Issue VALU".
"""

from __future__ import annotations

from portkit.emulate.amdgcn.decode import Step
from portkit.emulate.amdgcn.machine import Machine
from portkit.emulate.amdgcn.operands import File, Type
from portkit.emulate.amdgcn.program import Instruction

OPERATIONS = frozenset(
    [
        "add_f32",
        "add_nc_u32",
        "and_b32",
        "cndmask_b32",
        "dot2acc_f32_f16",
        "fmaak_f32",
        "fmac_f32",
        "fmamk_f32",
        "lshlrev_b32",
        "max_f32",
        "max_num_f32",
        "min_f32",
        "min_num_f32",
        "mov_b32",
        "mul_f32",
        "sub_f32",
        "subrev_f32",
    ]
)
"""Operations that have a dual-issue form."""


def single(half: Instruction) -> Instruction | None:
    """The instruction that one half stands for; None where it has no dual-issue form."""
    name = half.mnemonic.removeprefix("v_dual_")
    if name == half.mnemonic or name not in OPERATIONS:
        return None
    return Instruction(f"v_{name}", half.operands, half.modifiers, half.site)


def together(first: Step, second: Step, written: int, reads: set[tuple[File, int]]) -> Step:
    """Both halves; ``written`` is the first one's register, ``reads`` what the second one reads."""
    if (File.VECTOR, written) not in reads:

        def in_turn(machine: Machine) -> None:
            first(machine)
            second(machine)

        return in_turn

    def step(machine: Machine) -> None:
        register = machine.vector[Type.U32][written]
        before = register.copy()
        first(machine)
        result = register.copy()
        register[...] = before
        second(machine)
        register[...] = result

    return step
