"""bf16 arithmetic on architectures without it: RDNA1, RDNA2 and gfx906."""

import torch
import triton
import triton.language as tl
from case13_small_dot import dot_case
from case18_fma_contract import multiply_add_case
from declare import declare

N = 256


@triton.jit
def scale(X, Out, s, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(Out + o, tl.load(X + o) * s.to(tl.bfloat16))


def scaled(x):
    out = torch.empty_like(x)
    scale[(1,)](x, out, 0.75, B=N)
    return out


add_case = multiply_add_case("case21_mul_add", {"bf16_mul_add": {"dtype": "bf16"}})
scale_case = declare(
    "case21_scale",
    scaled,
    lambda x: x * 0.75,
    lambda make, shape, dtype: {"x": make.uniform(shape, dtype)},
    shape=(N,),
    dtype="bfloat16",
    variants={"bf16_scale": {}},
    elements=2 * N,
    flops=N,
)
dot = dot_case("case21_dot", (32, 32, 32), {"bf16_dot": {"dtype": "bf16"}, "fp16_dot": {"dtype": "fp16"}})
