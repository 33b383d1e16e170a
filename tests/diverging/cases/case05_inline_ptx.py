"""tanh by one vendor's instruction, and by a formula for all."""

import torch
import triton
import triton.language as tl
from declare import declare

N = 1024


@triton.jit
def act(X, Y, B: tl.constexpr, HOW: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(X + o)
    if HOW == "ptx_f":
        y = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    elif HOW == "ptx_r":
        y = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)
    elif HOW == "ptx_v":
        y = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=v,v", [x], dtype=tl.float32, is_pure=True, pack=1)
    elif HOW == "gcn_v":
        y = tl.inline_asm_elementwise("v_exp_f32 $0, $1", "=v,v", [x], dtype=tl.float32, is_pure=True, pack=1)
    else:
        y = 2.0 * tl.sigmoid(2.0 * x) - 1.0
    tl.store(Y + o, y)


def tanh(x, *, how):
    y = torch.empty_like(x)
    act[(1,)](x, y, B=N, HOW=how)
    return y


case = declare(
    "case05",
    tanh,
    torch.tanh,
    lambda make, shape, dtype: {"x": make.uniform(shape, dtype)},
    shape=(N,),
    variants={how: {"how": how} for how in ("ptx_f", "ptx_r", "ptx_v", "gcn_v", "portable")},
    elements=2 * N,
    flops=N,
)
