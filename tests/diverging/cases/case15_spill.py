"""One attention tile at growing head size: registers, spills, scratch."""

import torch
import triton
import triton.language as tl
from declare import declare, known

L, BM, BN = 256, 128, 64


@triton.jit
def attn(Q, K, V, Out, n, sc, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    q = tl.load(Q + r[:, None] * D + d[None, :])
    m = tl.full((BM,), -1e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for s in range(0, n, BN):
        j = s + tl.arange(0, BN)
        k = tl.load(K + j[:, None] * D + d[None, :])
        x = tl.dot(q, tl.trans(k)) * sc
        mn = tl.maximum(m, tl.max(x, 1))
        p = tl.exp2(x - mn[:, None])
        c = tl.exp2(m - mn)
        total = total * c + tl.sum(p, 1)
        v = tl.load(V + j[:, None] * D + d[None, :])
        acc = acc * c[:, None] + tl.dot(p.to(v.dtype), v)
        m = mn
    tl.store(Out + r[:, None] * D + d[None, :], (acc / total[:, None]).to(tl.bfloat16))


def attention(q, k, v, *, warps, stages, waves=None):
    length, head = q.shape
    out = torch.empty_like(q)
    scale = 1.4426950408889634 / head**0.5  # the kernel's exponentials are of base 2
    options = known(waves_per_eu=waves) if waves else {}
    attn[(length // BM,)](
        q, k, v, out, length, scale, D=head, BM=BM, BN=BN, num_warps=warps, num_stages=stages, **options
    )
    return out


def reference(q, k, v):
    return torch.softmax(q @ k.T / q.shape[1] ** 0.5, -1) @ v


def head_case(head, variants):
    return declare(
        f"case15_d{head}",
        attention,
        reference,
        lambda make, shape, dtype: {name: make.uniform(shape, dtype) for name in "qkv"},
        shape=(L, head),
        dtype="bfloat16",
        variants=variants,
        elements=4 * L * head,
        flops=4 * L * L * head,
        steps=4,
    )


d64 = head_case(64, {"d64_w4s1": {"warps": 4, "stages": 1}})
d128 = head_case(
    128,
    {
        "d128_w4s1": {"warps": 4, "stages": 1},
        "d128_w4s3": {"warps": 4, "stages": 3},
        "d128_w8s3": {"warps": 8, "stages": 3},
        "d128_w4s1_wpe1": {"warps": 4, "stages": 1, "waves": 1},
        "d128_w4s1_wpe2": {"warps": 4, "stages": 1, "waves": 2},
        "d128_w4s1_wpe4": {"warps": 4, "stages": 1, "waves": 4},
    },
)
d256 = head_case(256, {"d256_w4s1": {"warps": 4, "stages": 1}, "d256_w8s2": {"warps": 8, "stages": 2}})
