"""Loops of four and more loads with dots and an exp, as attention has them, at growing num_stages."""

import torch
import triton
import triton.language as tl
from declare import declare

L, D = 256, 64


@triton.jit
def loop4(Q, K, V, G, L, Out, n, D: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr):
    r = tl.program_id(0) * BK + tl.arange(0, BK)
    d = tl.arange(0, D)
    k = tl.load(K + r[:, None] * D + d[None, :])
    v = tl.load(V + r[:, None] * D + d[None, :])
    dk = tl.zeros((BK, D), tl.float32)
    dv = tl.zeros((BK, D), tl.float32)
    for s in range(0, n, BQ):
        q_i = s + tl.arange(0, BQ)
        q = tl.load(Q + q_i[:, None] * D + d[None, :])
        g = tl.load(G + q_i[:, None] * D + d[None, :])
        lse = tl.load(L + q_i)
        delta = tl.load(L + n + q_i)
        p = tl.exp(tl.dot(k, tl.trans(q)) - lse[None, :])
        dv += tl.dot(p.to(g.dtype), g)
        ds = p * (tl.dot(v, tl.trans(g)) - delta[None, :])
        dk += tl.dot(ds.to(q.dtype), q)
    tl.store(Out + r[:, None] * D + d[None, :], dk)
    tl.store(Out + (r + n)[:, None] * D + d[None, :], dv)


@triton.jit
def fwd_online(Q, K, V, B1, B2, Out, n, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    q = tl.load(Q + r[:, None] * D + d[None, :])
    m = tl.full((BM,), -1e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for s in range(0, n, BN):
        j = s + tl.arange(0, BN)
        k = tl.load(K + j[:, None] * D + d[None, :])
        b1 = tl.load(B1 + r[:, None] * n + j[None, :]).to(tl.float32)
        b2 = tl.load(B2 + r[:, None] * n + j[None, :]).to(tl.float32)
        v = tl.load(V + j[:, None] * D + d[None, :])
        x = tl.dot(q, tl.trans(k)) + b1 + b2
        mn = tl.maximum(m, tl.max(x, 1))
        p = tl.exp(x - mn[:, None])
        c = tl.exp(m - mn)
        total = total * c + tl.sum(p, 1)
        acc = acc * c[:, None] + tl.dot(p.to(v.dtype), v)
        m = mn
    tl.store(Out + r[:, None] * D + d[None, :], acc / total[:, None])


def backward(q, k, v, g, *, stages):
    statistics = torch.zeros(2 * L, dtype=torch.float32, device=q.device)
    out = torch.empty((2 * L, D), dtype=torch.float32, device=q.device)
    loop4[(L // 64,)](q, k, v, g, statistics, out, L, D=D, BQ=32, BK=64, num_warps=4, num_stages=stages)
    return out


def backward_reference(q, k, v, g):
    p = torch.exp(k @ q.T)
    return torch.cat([(p * (v @ g.T)) @ q, p @ g]).float()


def forward(q, k, v, b1, b2, *, stages):
    out = torch.empty((L, D), dtype=torch.float32, device=q.device)
    fwd_online[(L // 64,)](q, k, v, b1, b2, out, L, D=D, BM=64, BN=32, num_warps=4, num_stages=stages)
    return out


def forward_reference(q, k, v, b1, b2):
    return (torch.softmax(q @ k.T + b1 + b2, -1) @ v).float()


STAGES = (1, 2, 3, 4, 5)

backward_case = declare(
    "case09_bwd",
    backward,
    backward_reference,
    lambda make, shape, dtype: {name: make.uniform(shape, dtype, low=-0.1, high=0.1) for name in "qkvg"},
    shape=(L, D),
    dtype="bfloat16",
    variants={f"bwd_s{n}": {"stages": n} for n in STAGES},
    elements=6 * L * D,
    flops=8 * L * L * D,
    steps=4,
)

forward_case = declare(
    "case09_fwd",
    forward,
    forward_reference,
    lambda make, shape, dtype: {
        **{name: make.uniform(shape, dtype) for name in "qkv"},
        **{name: make.uniform((L, L), dtype) for name in ("b1", "b2")},
    },
    shape=(L, D),
    dtype="bfloat16",
    variants={f"fwd_s{n}": {"stages": n} for n in STAGES},
    elements=4 * L * D + 2 * L * L,
    flops=4 * L * L * D,
    steps=4,
)
