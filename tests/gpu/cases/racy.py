"""Warps that use one word of shared memory without a barrier between them (NVIDIA alone)."""

import torch
import triton
import triton.language as tl

from portkit import KernelCase, Work

RACE = """{
    .shared .align 4 .b32 racy_word;
    st.shared.b32 [racy_word], $1;
    ld.shared.b32 $0, [racy_word];
}"""


@triton.jit
def _racy(x_ptr, y_ptr, ASM: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    y = tl.inline_asm_elementwise(ASM, "=r,r", [x], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(y_ptr + lanes, y)


def racy(x):
    y = torch.empty_like(x)
    _racy[(1,)](x, y, ASM=RACE, BLOCK=256, num_warps=8)
    return y


case = KernelCase(
    name="racy",
    fused=racy,
    reference=torch.clone,
    inputs=lambda make, shape, dtype: {"x": make.integers(shape, dtype, 0, 1000)},
    work=lambda shape, dtype: Work(1, 1, 1),
    shapes=((256,),),
    small_shapes=((256,),),
    dtypes=("int32",),
    variants={"default": {}},
)
