"""a·b − c and its like: contracted to one rounding, or not."""

import torch
import triton
import triton.language as tl
from declare import TORCH_DTYPES, declare

N = 256


@triton.jit
def f(X, Y, Z, Out, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(Out + o, tl.load(X + o) * tl.load(Y + o) - tl.load(Z + o))


@triton.jit
def rope(X, C, S, Out, B: tl.constexpr):
    o = tl.arange(0, B)
    a = tl.load(X + o).to(tl.float32)
    b = tl.load(X + B + o).to(tl.float32)
    c = tl.load(C + o).to(tl.float32)
    s = tl.load(S + o).to(tl.float32)
    tl.store(Out + o, a * c - b * s)
    tl.store(Out + B + o, b * c + a * s)


@triton.jit
def bmul(X, Y, Z, Out, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(Out + o, tl.load(X + o) * tl.load(Y + o) + tl.load(Z + o))


def multiply_subtract(x, y, z, *, fusion):
    out = torch.empty_like(x)
    options = {} if fusion else {"enable_fp_fusion": False}
    f[(1,)](x, y, z, out, B=N, **options)
    return out


def multiply_add(x, y, z, *, dtype):
    kind = TORCH_DTYPES[dtype]
    out = torch.empty_like(x, dtype=kind)
    bmul[(1,)](x.to(kind), y.to(kind), z.to(kind), out, B=N)
    return out


def rotate(x, cos, sin):
    out = torch.empty(2 * N, dtype=torch.float32, device=x.device)
    rope[(1,)](x, cos, sin, out, B=N)
    return out


def rotate_reference(x, cos, sin):
    a, b = x[:N], x[N:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin]).float()


def triples(make, shape, dtype):
    return {name: make.uniform(shape, dtype) for name in "xyz"}


def multiply_add_case(name, variants):
    return declare(
        name,
        multiply_add,
        lambda x, y, z: x * y + z,
        triples,
        shape=(N,),
        variants=variants,
        elements=4 * N,
        flops=2 * N,
    )


subtract_case = declare(
    "case18_fp32",
    multiply_subtract,
    lambda x, y, z: x * y - z,
    triples,
    shape=(N,),
    variants={"fp32": {"fusion": True}, "fp32_nofuse": {"fusion": False}},
    elements=4 * N,
    flops=2 * N,
)
rope_case = declare(
    "case18_rope",
    rotate,
    rotate_reference,
    lambda make, shape, dtype: {
        "x": make.uniform((2 * N,), dtype),
        "cos": make.uniform((N,), dtype),
        "sin": make.uniform((N,), dtype),
    },
    shape=(N,),
    dtype="bfloat16",
    variants={"rope": {}},
    elements=6 * N,
    flops=6 * N,
)
add_case = multiply_add_case("case18_arith", {"bf16_arith": {"dtype": "bf16"}, "fp16_arith": {"dtype": "fp16"}})
