"""Attention, forward and backward, against float64: two chained matrix products, masks, running maxima."""

import numpy as np
import pytest
import triton
import triton.language as tl
from compiled import build, from_bf16, to_bf16


@triton.jit
def forward(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    lse_ptr,
    S,
    scale,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    block, head = tl.program_id(0), tl.program_id(1)
    row, depth = block * BM + tl.arange(0, BM), tl.arange(0, D)
    base = head * S * D
    q = tl.load(q_ptr + base + row[:, None] * D + depth[None, :], mask=row[:, None] < S, other=0.0)
    top = tl.full((BM,), -1e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    out = tl.zeros((BM, D), tl.float32)
    end = S
    if CAUSAL:
        end = tl.minimum(S, (block + 1) * BM)
    for start in range(0, end, BN):
        column = start + tl.arange(0, BN)
        k = tl.load(k_ptr + base + column[None, :] * D + depth[:, None], mask=column[None, :] < S, other=0.0)
        score = tl.dot(q, k) * scale
        seen = column[None, :] < S
        if CAUSAL:
            seen = seen & (column[None, :] <= row[:, None])
        score = tl.where(seen, score, -1e30)
        higher = tl.maximum(top, tl.max(score, 1))
        weight = tl.exp(score - higher[:, None])
        shrink = tl.exp(top - higher)
        total = total * shrink + tl.sum(weight, 1)
        v = tl.load(v_ptr + base + column[:, None] * D + depth[None, :], mask=column[:, None] < S, other=0.0)
        out = out * shrink[:, None] + tl.dot(weight.to(v.dtype), v)
        top = higher
    tl.store(
        o_ptr + base + row[:, None] * D + depth[None, :], (out / total[:, None]).to(q.dtype), mask=row[:, None] < S
    )
    tl.store(lse_ptr + head * S + row, top + tl.log(total), mask=row < S)


@triton.jit
def backward_keys(
    q_ptr,
    k_ptr,
    v_ptr,
    do_ptr,
    lse_ptr,
    delta_ptr,
    dk_ptr,
    dv_ptr,
    S,
    scale,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    """Gradients of keys and values of one block of columns."""
    column, depth = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, D)
    k = tl.load(k_ptr + column[:, None] * D + depth[None, :], mask=column[:, None] < S, other=0.0)
    v = tl.load(v_ptr + column[:, None] * D + depth[None, :], mask=column[:, None] < S, other=0.0)
    dk = tl.zeros((BN, D), tl.float32)
    dv = tl.zeros((BN, D), tl.float32)
    for start in range(0, S, BM):
        row = start + tl.arange(0, BM)
        inside = row[:, None] < S
        q = tl.load(q_ptr + row[:, None] * D + depth[None, :], mask=inside, other=0.0)
        do = tl.load(do_ptr + row[:, None] * D + depth[None, :], mask=inside, other=0.0)
        lse = tl.load(lse_ptr + row, mask=row < S, other=0.0)
        delta = tl.load(delta_ptr + row, mask=row < S, other=0.0)
        weight = tl.exp(tl.dot(q, tl.trans(k)) * scale - lse[:, None])
        weight = tl.where(inside & (column[None, :] < S), weight, 0.0)
        dv += tl.dot(tl.trans(weight.to(do.dtype)), do)
        slope = weight * (tl.dot(do, tl.trans(v)) - delta[:, None]) * scale
        dk += tl.dot(tl.trans(slope.to(q.dtype)), q)
    tl.store(dk_ptr + column[:, None] * D + depth[None, :], dk, mask=column[:, None] < S)
    tl.store(dv_ptr + column[:, None] * D + depth[None, :], dv, mask=column[:, None] < S)


def tensor(rng, kind, *shape):
    """Values as the kernel takes them, and as float64."""
    x = rng.standard_normal(shape)
    if kind == "bf16":
        return to_bf16(x), from_bf16(to_bf16(x))
    return x.astype(np.float16), x.astype(np.float16).astype(np.float64)


def reference(q, k, v, scale, causal):
    """Output, logarithm of the sums, and weights; float64."""
    score = q @ k.swapaxes(-1, -2) * scale
    if causal:
        score = np.where(np.tril(np.ones(score.shape[-2:], bool)), score, -np.inf)
    top = score.max(-1, keepdims=True)
    weight = np.exp(score - top)
    total = weight.sum(-1, keepdims=True)
    return weight / total @ v, (top + np.log(total))[..., 0], weight / total


EPSILON = {"bf16": 2**-8, "fp16": 2**-11}


@pytest.mark.parametrize(
    ("kind", "length", "causal", "stages"),
    [("bf16", 128, True, 1), ("bf16", 128, False, 2), ("bf16", 100, True, 2), ("fp16", 100, True, 2)],
)
def test_forward(architecture, kind, length, causal, stages):
    rng, heads, depth = np.random.default_rng(3), 2, 64
    (q, exact_q), (k, exact_k), (v, exact_v) = (tensor(rng, kind, heads, length, depth) for _ in range(3))
    out, lse = np.zeros_like(q), np.zeros((heads, length), np.float32)
    pointers = {f"{name}_ptr": f"*{kind}" for name in "qkvo"} | {"lse_ptr": "*fp32"}
    constants = {"D": depth, "BM": 64, "BN": 64 if causal else 32, "CAUSAL": causal}
    signature = {**pointers, "S": "i32", "scale": "fp32"}
    built = build(forward, architecture, signature, constants, aligned=length % 16 == 0, num_stages=stages)
    scale = depth**-0.5
    built.passes((-(-length // 64), heads), q, k, v, out, lse, length, scale)
    want, want_lse, _ = reference(exact_q, exact_k, exact_v, scale, causal)
    got = from_bf16(out) if kind == "bf16" else out.astype(np.float64)
    assert np.abs(got - want).max() < 2 * EPSILON[kind] * np.abs(want).max()
    assert np.abs(lse - want_lse).max() < 1e-5


@pytest.mark.parametrize(("kind", "length"), [("bf16", 72), ("fp16", 64)])
def test_backward(architecture, kind, length):
    rng, depth, scale = np.random.default_rng(4), 32, 32**-0.5
    (q, exact_q), (k, exact_k), (v, exact_v), (do, exact_do) = (tensor(rng, kind, length, depth) for _ in range(4))
    out, lse, weight = reference(exact_q, exact_k, exact_v, scale, causal=False)
    delta = (out * exact_do).sum(-1)
    dk, dv = np.zeros((2, length, depth), np.float32)
    pointers = {f"{name}_ptr": f"*{kind}" for name in ("q", "k", "v", "do")}
    pointers |= {f"{name}_ptr": "*fp32" for name in ("lse", "delta", "dk", "dv")}
    signature = {**pointers, "S": "i32", "scale": "fp32"}
    built = build(backward_keys, architecture, signature, {"D": depth, "BM": 32, "BN": 32}, aligned=length % 16 == 0)
    buffers = (q, k, v, do, lse.astype(np.float32), delta.astype(np.float32), dk, dv)
    built.passes((-(-length // 32),), *buffers, length, scale)
    slope = weight * (exact_do @ exact_v.T - delta[:, None]) * scale
    for got, want in ((dk, slope.T @ exact_q), (dv, weight.T @ exact_do)):
        assert np.abs(got - want).max() < 4 * EPSILON[kind] * np.abs(want).max()
