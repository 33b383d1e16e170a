"""Small and double-precision dots, and AMD's option for the shape of the matrix instruction."""

import torch
import triton
import triton.language as tl
from declare import TORCH_DTYPES, declare, known


@triton.jit
def d(A, B, C, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    r = tl.dot(tl.load(A + m[:, None] * K + k[None, :]), tl.load(B + k[:, None] * N + n[None, :]))
    tl.store(C + m[:, None] * N + n[None, :], r.to(tl.float32))


@triton.jit
def di(A, B, C, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    r = tl.dot(
        tl.load(A + m[:, None] * K + k[None, :]), tl.load(B + k[:, None] * N + n[None, :]), input_precision="ieee"
    )
    tl.store(C + m[:, None] * N + n[None, :], r.to(tl.float32))


def multiply(a, b, *, dtype, ieee=False, nonkdim=None):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=torch.float32, device=a.device)
    options = known(matrix_instr_nonkdim=nonkdim) if nonkdim else {}
    kind = TORCH_DTYPES[dtype]
    (di if ieee else d)[(1,)](a.to(kind), b.to(kind), c, M=m, N=n, K=k, **options)
    return c


def dot_case(name, shape, variants):
    m, n, k = shape
    return declare(
        name,
        multiply,
        lambda a, b: a @ b,
        # Whole numbers: every element type here holds them.
        lambda make, shape, dtype: {
            "a": make.integers((m, k), dtype, -2, 3),
            "b": make.integers((k, n), dtype, -2, 3),
        },
        shape=shape,
        variants=variants,
        elements=m * k + k * n + m * n,
        flops=2 * m * n * k,
    )


BY_SHAPE = {
    (1, 32, 32): {"fp16_1x32x32": {"dtype": "fp16"}},
    (4, 32, 32): {"fp16_4x32x32": {"dtype": "fp16"}},
    (16, 16, 8): {
        "fp16_16x16x8": {"dtype": "fp16"},
        "fp32_16x16x8": {"dtype": "fp32"},
        "fp32_16x16x8_ieee": {"dtype": "fp32", "ieee": True},
    },
    (16, 16, 16): {
        "fp16_16x16x16": {"dtype": "fp16"},
        "bf16_16x16x16": {"dtype": "bf16"},
        "i8_16x16x16": {"dtype": "i8"},
        "fp64_16x16x16": {"dtype": "fp64"},
        "fp64_ieee": {"dtype": "fp64", "ieee": True},
        "fp32_16x16x16": {"dtype": "fp32"},
    },
    (16, 32, 16): {"fp8e4nv_16x32x16": {"dtype": "fp8e4nv"}},
    (16, 32, 32): {"fp8e4nv_16x32x32": {"dtype": "fp8e4nv"}},
    (32, 32, 8): {"fp32_32x32x8": {"dtype": "fp32"}},
    (32, 32, 32): {"i8_32x32x32": {"dtype": "i8"}},
    (64, 64, 64): {
        "fp8_nonk16_K64": {"dtype": "fp8e4nv", "nonkdim": 16},
        "fp8e5_nonk16_K64": {"dtype": "fp8e5", "nonkdim": 16},
        "bf16_nonk4": {"dtype": "bf16", "nonkdim": 4},
        "fp64_64x64x64": {"dtype": "fp64"},
    },
    (64, 64, 128): {"fp8_nonk16_K128": {"dtype": "fp8e4nv", "nonkdim": 16}},
}

for _shape, _variants in BY_SHAPE.items():
    _name = "case13_" + "x".join(map(str, _shape))
    globals()[_name] = dot_case(_name, _shape, _variants)
