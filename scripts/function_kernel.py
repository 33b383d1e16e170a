"""A Triton kernel of one approximate instruction, for ``scripts/record_functions.py``."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit  # type: ignore[untyped-decorator]
def _run(arguments, results, count, ASM: tl.constexpr, CONSTRAINTS: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(arguments + at, mask=at < count, other=0)
    y = tl.inline_asm_elementwise(ASM, CONSTRAINTS, [x], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(results + at, y, mask=at < count)


def apply(instruction: str, bits: torch.Tensor) -> torch.Tensor:
    """Bits of results, int32, of bits of arguments: of 16-bit types, those of the lower half."""
    narrow = instruction.endswith("16")
    lines = f"{{ .reg .b16 %x, %y; cvt.u16.u32 %x, $1; {instruction} %y, %x; cvt.u32.u16 $0, %y; }}"
    assembly = lines if narrow else f"{instruction} $0, $1;"
    results = torch.empty_like(bits)
    _run[(triton.cdiv(bits.numel(), BLOCK),)](bits, results, bits.numel(), assembly, "=r,r", BLOCK)
    return results
