"""fp8 by flavour: quantise, dequantise and multiply."""

import torch
import triton
import triton.language as tl
from declare import TORCH_DTYPES, declare

FLAVOURS = ("fp8e4nv", "fp8e5", "fp8e4b8", "fp8e5b16", "fp8e4b15")
N, S = 1024, 64


@triton.jit
def quant(X, Q, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(Q + o, tl.load(X + o).to(tl.float32).to(Q.dtype.element_ty))


@triton.jit
def deq(Q, X, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(X + o, tl.load(Q + o).to(tl.bfloat16))


@triton.jit
def dot8(A, B, C, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    d = tl.dot(tl.load(A + m[:, None] * K + k[None, :]), tl.load(B + k[:, None] * N + n[None, :]))
    tl.store(C + m[:, None] * N + n[None, :], d)


def as_fp8(x, flavour):
    """x in a flavour of fp8; fp8e4b15 has no PyTorch dtype, so there it is the bytes of x as uint8."""
    if flavour == "fp8e4b15":
        return triton.reinterpret(x.to(torch.uint8), tl.float8e4b15)
    return x.to(TORCH_DTYPES[flavour])


def quantise(x, *, flavour):
    q = as_fp8(torch.empty_like(x), flavour)
    quant[(1,)](x, q, B=N)
    return getattr(q, "base", q)  # fp8e4b15: the bytes


def dequantise(x, *, flavour):
    y = torch.empty_like(x)
    deq[(1,)](as_fp8(x, flavour), y, B=N)
    return y


def multiply(a, b, *, flavour, warps=4):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=torch.float32, device=a.device)
    dot8[(1,)](as_fp8(a, flavour), as_fp8(b, flavour), c, M=m, N=n, K=k, num_warps=warps)
    return c


def _elementwise(name, fused, variants):
    inputs = lambda make, shape, dtype: {"x": make.uniform(shape, dtype)}  # noqa: E731
    return declare(
        name, fused, torch.clone, inputs, shape=(N,), dtype="bfloat16", variants=variants, elements=2 * N, flops=0
    )


def dot_case(name, m, n, k, variants):
    return declare(
        name,
        multiply,
        lambda a, b: (a @ b).float(),
        lambda make, shape, dtype: {"a": make.uniform((m, k), dtype), "b": make.uniform((k, n), dtype)},
        shape=(m, n, k),
        dtype="bfloat16",
        variants=variants,
        elements=m * k + k * n + m * n,
        flops=2 * m * n * k,
    )


quantise_case = _elementwise("case03_quant", quantise, {f"quant_{f}": {"flavour": f} for f in FLAVOURS})
dequantise_case = _elementwise("case03_deq", dequantise, {"deq_fp8e4nv": {"flavour": "fp8e4nv"}})
multiply_case = dot_case("case03_dot", S, S, S, {f"dot_{f}": {"flavour": f} for f in FLAVOURS})
