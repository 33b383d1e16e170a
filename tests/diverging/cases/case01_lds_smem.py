"""One pipelined bf16 GEMM tile with the same configuration everywhere: does its shared memory fit?"""

import torch
import triton
import triton.language as tl
from declare import declare

M, N, K = 512, 512, 1024


@triton.jit
def gemm_tile(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, NS: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a = A + rows[:, None] * K + k[None, :]
    b = B + k[:, None] * N + columns[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in tl.range(0, K, BK, num_stages=NS):
        total = tl.dot(tl.load(a), tl.load(b), total)
        a += BK
        b += BK * N
    tl.store(C + rows[:, None] * N + columns[None, :], total.to(tl.bfloat16))


def gemm(a, b, *, tile, stages, warps):
    (m, k), n = a.shape, b.shape[1]
    bm, bn, bk = tile
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    gemm_tile[(m // bm, n // bn)](a, b, c, m, n, k, BM=bm, BN=bn, BK=bk, NS=stages, num_warps=warps, num_stages=stages)
    return c


def gemm_case(name, variants):
    return declare(
        name,
        gemm,
        lambda a, b: a @ b,
        lambda make, shape, dtype: {
            "a": make.uniform((shape[0], shape[2]), dtype),
            "b": make.uniform((shape[2], shape[1]), dtype),
        },
        shape=(M, N, K),
        dtype="bfloat16",
        variants=variants,
        elements=M * K + K * N + M * N,
        flops=2 * M * N * K,
    )


case = gemm_case(
    "case01",
    {
        "128x128x64_s2": {"tile": [128, 128, 64], "stages": 2, "warps": 8},
        "128x128x64_s3": {"tile": [128, 128, 64], "stages": 3, "warps": 8},
        "128x128x64_s4": {"tile": [128, 128, 64], "stages": 4, "warps": 8},
        "128x256x64_s4": {"tile": [128, 256, 64], "stages": 4, "warps": 8},
    },
)
