"""Atomic additions by dtype; native on some architectures, a compare-and-swap loop on others."""

import torch
import triton
import triton.language as tl
from declare import TORCH_DTYPES, declare

N = 1024
OVER_2_GIB = 2**30  # elements of two bytes: AMD's buffer operations end at 2 GiB


@triton.jit
def acc(X, Out, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(Out + o, tl.load(X + o), mask=o < n, sem="relaxed")


def accumulate(x, *, dtype, large=False):
    size = OVER_2_GIB if large else x.numel()
    source = torch.empty(size, dtype=TORCH_DTYPES[dtype], device=x.device)[: x.numel()]
    total = torch.zeros(size, dtype=TORCH_DTYPES[dtype], device=x.device)[: x.numel()]
    source.copy_(x)
    acc[(1,)](source, total, x.numel(), B=N)
    return total


case = declare(
    "case07",
    accumulate,
    torch.clone,
    lambda make, shape, dtype: {"x": make.uniform(shape, dtype)},
    shape=(N,),
    variants={dtype: {"dtype": dtype} for dtype in ("fp32", "fp16", "bf16", "fp64")}
    | {"bf16_noptr32": {"dtype": "bf16", "large": True}},
    elements=3 * N,
    flops=N,
)
