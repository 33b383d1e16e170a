"""Which instructions run with float32 denormals flushed, where the code changes that mode as it goes.

LLVM does so around a division in a kernel that flushes: the mode is turned on, and off again, in one block. That is
what is modelled; a mode that outlasts a block is refused.

Sources: CDNA3 ISA 3.3.2 MODE; RDNA3 ISA 16.5 SOPP, S_DENORM_MODE.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Sequence

from portkit.emulate.amdgcn.isa.control import ends_block
from portkit.emulate.amdgcn.program import Instruction
from portkit.emulate.core.findings import Unsupported

_FIELD = re.compile(r"hwreg\(HW_REG_(?:WAVE_)?MODE,\s*4,\s*2\),\s*(\w+)")


def flushes_after(item: Instruction) -> bool | None:
    """Whether float32 denormals are flushed behind an instruction; None where it leaves the mode alone."""
    if item.mnemonic == "s_denorm_mode":
        return int(item.operands[0], 0) & 3 == 0
    match = _FIELD.fullmatch(item.operands[0]) if item.mnemonic == "s_setreg_imm32_b32" else None
    return int(match[1], 0) & 3 == 0 if match else None


def with_modes(
    instructions: Sequence[Instruction], targets: Collection[int], flushes32: bool
) -> tuple[Instruction, ...]:
    """Instructions that know their mode.

    Args:
        instructions: of the program.
        targets: indices that other instructions jump to.
        flushes32: the mode that waves begin with.

    Raises:
        Unsupported: the mode is another at the end of a block than at its start.
    """
    now, marked = flushes32, []
    for index, item in enumerate(instructions):
        if now != flushes32 and (index in targets or ends_block(item)):
            raise Unsupported("a float mode that outlasts its block", item.site)
        marked.append(dataclasses.replace(item, flushes32=now) if now else item)
        after = flushes_after(item)
        now = now if after is None else after
    return tuple(marked)
