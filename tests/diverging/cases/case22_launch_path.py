"""Launch options that one vendor does not know."""

import torch
import triton
import triton.language as tl
from declare import declare

N = 4096

OPTIONS = {
    "none": {},
    "maxnreg": {"maxnreg": 64},
    "waves_per_eu": {"waves_per_eu": 2},
    "kpack": {"kpack": 2},
    "matrix_instr_nonkdim": {"matrix_instr_nonkdim": 16},
    "num_ctas2": {"num_ctas": 2},
    "launch_pdl": {"launch_pdl": True},
    "schedule_hint": {"schedule_hint": "attention"},
}


@triton.jit
def cp(X, Y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(Y + o, tl.load(X + o, mask=o < n), mask=o < n)


def copy(x, **options):
    y = torch.empty_like(x)
    cp[(N // 256,)](x, y, N, B=256, **options)
    return y


case = declare(
    "case22",
    copy,
    torch.clone,
    lambda make, shape, dtype: {"x": make.uniform(shape, dtype)},
    shape=(N,),
    dtype="bfloat16",
    variants=OPTIONS,
    elements=2 * N,
    flops=0,
)
