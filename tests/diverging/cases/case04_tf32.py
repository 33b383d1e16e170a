"""float32 products: the default precision and each that can be asked for."""

import torch
import triton
import triton.language as tl
from declare import declare

S = 64


@triton.jit
def dot32(A, B, C, P: tl.constexpr, S: tl.constexpr):
    i = tl.arange(0, S)
    a = tl.load(A + i[:, None] * S + i[None, :])
    b = tl.load(B + i[:, None] * S + i[None, :])
    if P == "default":
        d = tl.dot(a, b)
    elif P == "allow_false":
        d = tl.dot(a, b, allow_tf32=False)
    else:
        d = tl.dot(a, b, input_precision=P)
    tl.store(C + i[:, None] * S + i[None, :], d)


def multiply(a, b, *, precision):
    c = torch.empty_like(a)
    dot32[(1,)](a, b, c, P=precision, S=S)
    return c


case = declare(
    "case04",
    multiply,
    lambda a, b: a @ b,
    lambda make, shape, dtype: {"a": make.uniform(shape, dtype), "b": make.uniform(shape, dtype)},
    shape=(S, S),
    variants={p: {"precision": p} for p in ("default", "allow_false", "ieee", "tf32", "tf32x3", "bf16x3")},
    elements=3 * S * S,
    flops=2 * S**3,
)
