"""Attention in one kernel, forward and backward: the scores never reach memory.

    S = scale · Q Kᵀ,  P = softmax(S),  O = P V          scale = 1 / sqrt(dim)
    query (batch, heads, length, dim), key and value (batch, kv_heads, length, dim);
    heads / kv_heads query heads share one head of keys and values
    flash_attention: a query sees keys up to its own position; flash_attention_full: all keys

Forward: a program holds BLOCK_M queries of one head and walks the keys in blocks with a running
maximum m and a running sum l, which rescale what is gathered so far; exponentials are powers of
two, log2(e) goes into the scale. Blocks of keys that are seen wholly need no mask and come first,
those on the diagonal or at the end last. Longest rows start first. L = m + log2(l) is kept for
the backward pass.

Backward, with D_i = Σ_d dO_id O_id:
    P = 2^(S - L),  dP = dO Vᵀ,  dS = P (dP - D),  dQ = scale · dS K,  dK = scale · dSᵀ Q,  dV = Pᵀ dO
Three launches: D; dK and dV, where a program holds a block of keys and walks the queries of all
heads that share it; dQ, where a program holds a block of queries and walks the keys. P is made
twice, which is the price for no atomics: runs agree bit by bit. Causal float32 has one more, of
the first 16 queries: their D is made again as Σ_j P_ij dP_ij / Σ_j P_ij, of the sums that it is taken from.

Speed on an H200 beside its goal: the table of ``scripts/suite_goals.py`` in ``reports/``. Blocks of 64
queries by 4 warps leave room for two programs a unit, one of which multiplies while the other is at its softmax;
queries that come by a descriptor stay in shared memory, which the products read, and leave the registers free.
Triton 3.6's builds with ``warp_specialize`` left NaN in some heads, and gave wrong results where a mask counts
rows, so that nothing here asks for it.
On sm_90 one launch of ``best`` spills in 16-bit elements, 8 bytes a thread with Triton 3.6: the forward pass of causal
heads of 256 that keeps L for the gradients. That of dK and dV did where heads share keys, up to 336 bytes, as long as
its addresses were held in registers: tiles that come by descriptors, and nothing hoisted out of its loops, leave room
for two sums of 64 keys by 4 warps. Gradients of heads of 256 are faster with blocks that spill: those of ``m128d``.
On gfx1100 the gradients' launches of heads of 64 spill with Triton 3.6, up to 496 bytes, and not with 3.7.

Early causal queries see few keys and have large gradients; late ones are averages of many, and make the scale by which
all are judged. There dP - D is what cancellation leaves of two sums of ``dim`` terms: with D from O, a sum of another
order, the gradient of the second of 4096 float32 queries was 3.3e-5 of that scale off on an H200, where the limit is
2.3e-5 and the unfused chain 1.0e-5. D as the mean of dP cancels as dP does. It costs one block a head.
In bfloat16 P and dS have 8 bits, which leave the unfused chain 0.06 to 0.30 of the scale off there, and this 0.05 to
0.21: no limit above such errors sees an element 1/16 off, and the verdict takes the scale of each position. By that
all of these cells pass.

P and dS are rounded to the inputs' dtype before they enter a product, as the unfused chain
rounds them. Products of float32 are not allowed tf32: ``ieee``.

Work of one call, q = batch · heads · length · dim, k the same with kv_heads, p = batch · heads ·
length², half of p is looked at where it is causal; s = bytes per element:
    fused    q, k, v read, o written: (2 q + 2 k) s. L, 4 bytes a row, is the implementation's.
    unfused  Q Kᵀ q + k + p, × scale 2 p, causal: mask 2 p s + length² and p written (of a bool),
             softmax 2 p, P V p + k + q: (2 q + 2 k + 6 p) s, causal (2 q + 2 k + 8 p) s + length².
    flops    two products of 2 p dim each, and 5 an element of S (scale, max, subtract, exp, sum);
             causal: over length (length + 1) / 2 pairs a head.
Work of the gradients, without what the forward pass leaves for them:
    fused    q, k, v, dO read, the gradients of q, k, v written: (3 q + 4 k) s.
    unfused  dP = dO Vᵀ and dV = Pᵀ dO 2 q + 2 k + 2 p, softmax 3 p, causal: mask 2 p s + length² of a
             bool, × scale 2 p, dQ and dK 2 q + 2 k + 2 p: (4 q + 4 k + 9 p) s, causal
             (4 q + 4 k + 11 p) s + length².
    flops    five products of 2 p dim each, since S is made again; 5 an element of S (scale, subtract,
             exp, subtract, multiply); 2 an element of O for D, 1 of dQ and dK for their scale.
Both are compute bound from a few hundred queries on: a key is used by all queries, so that
flops / bytes grows with length; the unfused chain is bound by the memory of S.

Sources:
    1. T. Dao, D. Fu, S. Ermon, A. Rudra, C. Ré, "FlashAttention", https://arxiv.org/abs/2205.14135
    2. T. Dao, "FlashAttention-2", https://arxiv.org/abs/2307.08691: the order of loops, L alone
       kept for the backward pass.
    3. M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax",
       https://arxiv.org/abs/1805.02867
    4. Triton tutorial 06, fused attention: masked and unmasked blocks in loops of their own.
    5. J. Ainslie et al., "GQA", https://arxiv.org/abs/2305.13245
    6. Heads: Llama 3 8B (32, 8, 128), Llama 3 70B (64, 8, 128), Gemma 2 9B (16, 8, 256),
       TinyLlama (32, 4, 64); 4000 positions are no whole block.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Self

import torch
import triton
import triton.language as tl
from arguments import check_beside, check_named_axes, check_shape, check_tensor, check_unit_stride
from products import BFLOAT16_GAP
from tiles import allow_descriptors, best, describable, fitting_loop, for_architecture, roomy

from portkit import Direction, KernelCase, Work
from portkit.baselines import pytorch
from portkit.model import DTYPE_BYTES

DIMS = (16, 32, 64, 128, 256)
LOG2E = 1.4426950408889634


@triton.jit
def block_of(
    source, start, rows, stride, ROWS: tl.constexpr, DIM: tl.constexpr, WHOLE: tl.constexpr, DESCRIPTORS: tl.constexpr
):
    """Rows start… of one head: (ROWS, DIM), zeros beyond the end."""
    if DESCRIPTORS:
        return source.load([start, 0])
    else:  # noqa: RET505 - Triton takes what follows a constant branch for code of both
        i, d = tl.arange(0, ROWS)[:, None], tl.arange(0, DIM)[None, :]
        first = tl.zeros((), tl.int64) + start  # a plain number where the interpreter counts the loop
        pointers = source + first * stride + (i * stride + d)
        if WHOLE:
            return tl.load(pointers)
        else:  # noqa: RET505
            return tl.load(pointers, mask=i < rows - start, other=0.0)


@triton.jit
def forward_blocks(
    total, maximum, mass, q, key, value, first, last, m, rows, k_stride, v_stride, scale2,
    CAUSAL: tl.constexpr, MASKED: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """Take keys first to last (a multiple of BLOCK_N apart, or the end) into the running softmax."""
    for start in tl.range(first, last, BLOCK_N):
        k = block_of(key, start, rows, k_stride, BLOCK_N, DIM, not MASKED, DESCRIPTORS)
        scores = tl.dot(q, k.T, input_precision="ieee")
        if MASKED:
            columns = start + tl.arange(0, BLOCK_N)
            seen = (columns < rows)[None, :]
            if CAUSAL:
                seen = seen & (columns[None, :] <= (m + tl.arange(0, BLOCK_M))[:, None])
            scores = tl.where(seen, scores, -float("inf"))
        grown = tl.maximum(maximum, tl.max(scores, axis=1) * scale2)
        p = tl.exp2(scores * scale2 - grown[:, None])
        shrink = tl.exp2(maximum - grown)
        mass = mass * shrink + tl.sum(p, axis=1)
        total = total * shrink[:, None]
        v = block_of(value, start, rows, v_stride, BLOCK_N, DIM, not MASKED, DESCRIPTORS)
        total = tl.dot(p.to(v.dtype), v, total, input_precision="ieee")
        maximum = grown
    return total, maximum, mass


@triton.jit
def _head(ptr, pair, heads, batch_stride, head_stride):
    """Pointer to one head of one batch."""
    batch, head = pair // heads, pair % heads
    return ptr + batch.to(tl.int64) * batch_stride + head.to(tl.int64) * head_stride


@triton.jit
def _forward(
    query_ptr, key_ptr, value_ptr, out_ptr, lse_ptr, heads, group, rows, scale2,
    q_batch, q_head, q_stride, k_batch, k_head, k_stride, v_batch, v_head, v_stride,
    CAUSAL: tl.constexpr, KEEP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    m = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK_M  # the longest rows first
    pair = tl.program_id(1)
    shared = pair // heads * (heads // group) + pair % heads // group
    query = _head(query_ptr, pair, heads, q_batch, q_head)
    key = _head(key_ptr, shared, heads // group, k_batch, k_head)
    value = _head(value_ptr, shared, heads // group, v_batch, v_head)
    out = out_ptr + pair.to(tl.int64) * rows * DIM
    if DESCRIPTORS:
        query = tl.make_tensor_descriptor(query, [rows, DIM], [q_stride.to(tl.int64), 1], [BLOCK_M, DIM])
        key = tl.make_tensor_descriptor(key, [rows, DIM], [k_stride.to(tl.int64), 1], [BLOCK_N, DIM])
        value = tl.make_tensor_descriptor(value, [rows, DIM], [v_stride.to(tl.int64), 1], [BLOCK_N, DIM])
    total = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
    maximum = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    mass = tl.zeros((BLOCK_M,), dtype=tl.float32)
    q = block_of(query, m, rows, q_stride, BLOCK_M, DIM, False, DESCRIPTORS)
    if CAUSAL:
        end = tl.minimum(m + BLOCK_M, rows)
        whole = m // BLOCK_N * BLOCK_N
    else:
        end = rows
        whole = rows // BLOCK_N * BLOCK_N
    total, maximum, mass = forward_blocks(
        total, maximum, mass, q, key, value, 0, whole, m, rows, k_stride, v_stride, scale2, CAUSAL, False,
        BLOCK_M, BLOCK_N, DIM, DESCRIPTORS,
    )  # fmt: skip
    total, maximum, mass = forward_blocks(
        total, maximum, mass, q, key, value, whole, end, m, rows, k_stride, v_stride, scale2, CAUSAL, True,
        BLOCK_M, BLOCK_N, DIM, DESCRIPTORS,
    )  # fmt: skip
    i, d = tl.arange(0, BLOCK_M), tl.arange(0, DIM)
    if KEEP:
        tl.store(lse_ptr + pair.to(tl.int64) * rows + m + i, maximum + tl.log2(mass), mask=i < rows - m)
    total = total / mass[:, None]
    tl.store(
        out + m.to(tl.int64) * DIM + (i[:, None] * DIM + d[None, :]),
        total.to(out_ptr.dtype.element_ty),
        mask=(i < rows - m)[:, None],
    )


def _config(block_m: int, block_n: int, warps: int, stages: int, descriptors: bool = False) -> triton.Config:
    blocks = {"BLOCK_M": block_m, "BLOCK_N": block_n, "DESCRIPTORS": descriptors}
    return triton.Config(blocks, num_warps=warps, num_stages=stages)


def bearable(configs: list[triton.Config], named: dict[str, Any], **meta: Any) -> list[triton.Config]:
    """Those worth trying.

    Of wide heads four warps could not hold the output. Descriptors must be allowed. A product of float32 goes
    element by element, for which large tiles have too few registers and take the compiler minutes.
    """
    query = named["query_ptr"]
    allowed = describable(query, named["key_ptr"], named["value_ptr"])
    return [
        c
        for c in configs
        if (c.num_warps > 4 or meta["DIM"] <= 128)
        and (allowed or not c.kwargs.get("DESCRIPTORS", False))
        and (query.element_size() == 2 or c.kwargs["BLOCK_M"] * c.kwargs["BLOCK_N"] <= 512 * c.num_warps)
    ]


_tuned_forward = triton.autotune(
    configs=[
        _config(64, 16, 8, 2),
        _config(64, 64, 4, 3),
        _config(128, 32, 8, 2),
        _config(128, 64, 8, 3),
        _config(128, 128, 8, 2),
        _config(64, 64, 4, 3, True),
        _config(128, 128, 8, 3, True),
    ],
    key=["rows", "CAUSAL", "DIM"],
    prune_configs_by={"early_config_prune": bearable},
)(_forward)


@triton.jit
def _row_dots(
    out_ptr, grad_ptr, dots_ptr, rows, heads, g_batch, g_head, g_stride, BLOCK: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    """D: the dot products of the rows of O and dO."""
    m, pair = tl.program_id(0) * BLOCK, tl.program_id(1)
    out = block_of(out_ptr + pair.to(tl.int64) * rows * DIM, m, rows, DIM, BLOCK, DIM, False, False)
    grad = block_of(_head(grad_ptr, pair, heads, g_batch, g_head), m, rows, g_stride, BLOCK, DIM, False, False)
    i = tl.arange(0, BLOCK)
    dots = tl.sum(out.to(tl.float32) * grad.to(tl.float32), axis=1)
    tl.store(dots_ptr + pair.to(tl.int64) * rows + m + i, dots, mask=i < rows - m)


@triton.jit
def _first_dots(
    query_ptr, key_ptr, value_ptr, grad_ptr, lse_ptr, dots_ptr, heads, group, rows, scale2,
    q_batch, q_head, q_stride, k_batch, k_head, k_stride, v_batch, v_head, v_stride, g_batch, g_head, g_stride,
    ROWS: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    """D of the first causal queries, as the mean of dP by the weights P.

    Made of the same sums that it is taken from, so that roundings of dP cancel as its values do. Few keys share the
    weight of these queries: two ways to round would differ by more than a late query's gradient.
    """
    pair = tl.program_id(0)
    shared = pair // heads * (heads // group) + pair % heads // group
    q = block_of(_head(query_ptr, pair, heads, q_batch, q_head), 0, rows, q_stride, ROWS, DIM, False, False)
    k = block_of(_head(key_ptr, shared, heads // group, k_batch, k_head), 0, rows, k_stride, ROWS, DIM, False, False)
    v = block_of(_head(value_ptr, shared, heads // group, v_batch, v_head), 0, rows, v_stride, ROWS, DIM, False, False)
    g = block_of(_head(grad_ptr, pair, heads, g_batch, g_head), 0, rows, g_stride, ROWS, DIM, False, False)
    i, offset = tl.arange(0, ROWS), pair.to(tl.int64) * rows
    level = tl.load(lse_ptr + offset + i, mask=i < rows, other=0.0)
    scores = tl.dot(q, k.T, input_precision="ieee") * scale2 - level[:, None]
    p = tl.exp2(tl.where(i[None, :] <= i[:, None], scores, -float("inf")))
    dp = tl.dot(g, v.T, input_precision="ieee")
    tl.store(dots_ptr + offset + i, tl.sum(p * dp, axis=1) / tl.sum(p, axis=1), mask=i < rows)


@triton.jit
def _keys_blocks(
    dk, dv, k, v, query, grad, lse, dots, first, last, n, rows, q_stride, g_stride, scale2, CAUSAL: tl.constexpr,
    MASKED: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """Gather what queries first to last give to a block of keys. Scores are transposed: (keys, queries)."""
    i = tl.arange(0, BLOCK_M)
    # What is hoisted out of the loop would take registers that tiles from descriptors leave free.
    for start in tl.range(first, last, BLOCK_M, disable_licm=DESCRIPTORS):
        q = block_of(query, start, rows, q_stride, BLOCK_M, DIM, not MASKED, DESCRIPTORS)
        g = block_of(grad, start, rows, g_stride, BLOCK_M, DIM, not MASKED, DESCRIPTORS)
        if MASKED:
            # A row beyond the end has no weight: its L is +inf.
            level = tl.load(lse + start + i, mask=i < rows - start, other=float("inf"))
            dot = tl.load(dots + start + i, mask=i < rows - start, other=0.0)
        else:
            level = tl.load(lse + start + i)
            dot = tl.load(dots + start + i)
        scores = tl.dot(k, q.T, input_precision="ieee") * scale2 - level[None, :]
        # Before the power: with Triton 3.7.1 what selects weights lands behind the fence of the product they enter.
        if MASKED and CAUSAL:
            scores = tl.where((n + tl.arange(0, BLOCK_N))[:, None] <= (start + i)[None, :], scores, -float("inf"))
        p = tl.exp2(scores)
        dv = tl.dot(p.to(g.dtype), g, dv, input_precision="ieee")
        dp = tl.dot(v, g.T, input_precision="ieee")
        ds = p * (dp - dot[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk, input_precision="ieee")
    return dk, dv


@triton.jit
def _backward_keys(
    query_ptr, key_ptr, value_ptr, grad_ptr, lse_ptr, dots_ptr, dk_ptr, dv_ptr, heads, group, rows, scale, scale2,
    q_batch, q_head, q_stride, k_batch, k_head, k_stride, v_batch, v_head, v_stride, g_batch, g_head, g_stride,
    CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * BLOCK_N
    shared = tl.program_id(1)
    kv_heads = heads // group
    key = _head(key_ptr, shared, kv_heads, k_batch, k_head)
    value = _head(value_ptr, shared, kv_heads, v_batch, v_head)
    k = block_of(key, n, rows, k_stride, BLOCK_N, DIM, False, False)
    v = block_of(value, n, rows, v_stride, BLOCK_N, DIM, False, False)
    dk = tl.zeros((BLOCK_N, DIM), dtype=tl.float32)
    dv = tl.zeros((BLOCK_N, DIM), dtype=tl.float32)
    whole = rows // BLOCK_M * BLOCK_M
    first, clear = 0, 0
    if CAUSAL:
        first = n // BLOCK_M * BLOCK_M
        clear = tl.minimum(tl.cdiv(n + BLOCK_N, BLOCK_M) * BLOCK_M, rows)
    for member in range(0, group):
        pair = shared // kv_heads * heads + shared % kv_heads * group + member
        query = _head(query_ptr, pair, heads, q_batch, q_head)
        grad = _head(grad_ptr, pair, heads, g_batch, g_head)
        if DESCRIPTORS:
            query = tl.make_tensor_descriptor(query, [rows, DIM], [q_stride.to(tl.int64), 1], [BLOCK_M, DIM])
            grad = tl.make_tensor_descriptor(grad, [rows, DIM], [g_stride.to(tl.int64), 1], [BLOCK_M, DIM])
        lse, dots = lse_ptr + pair.to(tl.int64) * rows, dots_ptr + pair.to(tl.int64) * rows
        if CAUSAL:
            dk, dv = _keys_blocks(
                dk, dv, k, v, query, grad, lse, dots, first, clear, n, rows, q_stride, g_stride, scale2, True, True,
                BLOCK_M, BLOCK_N, DIM, DESCRIPTORS,
            )  # fmt: skip
        dk, dv = _keys_blocks(
            dk, dv, k, v, query, grad, lse, dots, clear, whole, n, rows, q_stride, g_stride, scale2, False, False,
            BLOCK_M, BLOCK_N, DIM, DESCRIPTORS,
        )  # fmt: skip
        dk, dv = _keys_blocks(
            dk, dv, k, v, query, grad, lse, dots, tl.maximum(clear, whole), rows, n, rows, q_stride, g_stride, scale2,
            False, True, BLOCK_M, BLOCK_N, DIM, DESCRIPTORS,
        )  # fmt: skip
    j, d = tl.arange(0, BLOCK_N), tl.arange(0, DIM)
    offsets = shared.to(tl.int64) * rows * DIM + n.to(tl.int64) * DIM + (j[:, None] * DIM + d[None, :])
    tl.store(dk_ptr + offsets, (dk * scale).to(dk_ptr.dtype.element_ty), mask=(j < rows - n)[:, None])
    tl.store(dv_ptr + offsets, dv.to(dv_ptr.dtype.element_ty), mask=(j < rows - n)[:, None])


@triton.jit
def _queries_blocks(
    dq, q, g, level, dot, key, value, first, last, m, rows, k_stride, v_stride, scale2, CAUSAL: tl.constexpr,
    MASKED: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """Gather what keys first to last give to a block of queries."""
    for start in tl.range(first, last, BLOCK_N):
        k = block_of(key, start, rows, k_stride, BLOCK_N, DIM, not MASKED, DESCRIPTORS)
        v = block_of(value, start, rows, v_stride, BLOCK_N, DIM, not MASKED, DESCRIPTORS)
        scores = tl.dot(q, k.T, input_precision="ieee") * scale2 - level[:, None]
        if MASKED:
            columns = start + tl.arange(0, BLOCK_N)
            seen = (columns < rows)[None, :]
            if CAUSAL:
                seen = seen & (columns[None, :] <= (m + tl.arange(0, BLOCK_M))[:, None])
            scores = tl.where(seen, scores, -float("inf"))
        p = tl.exp2(scores)
        dp = tl.dot(g, v.T, input_precision="ieee")
        ds = p * (dp - dot[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")
    return dq


@triton.jit
def _backward_queries(
    query_ptr, key_ptr, value_ptr, grad_ptr, lse_ptr, dots_ptr, dq_ptr, heads, group, rows, scale, scale2,
    q_batch, q_head, q_stride, k_batch, k_head, k_stride, v_batch, v_head, v_stride, g_batch, g_head, g_stride,
    CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    m = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK_M
    pair = tl.program_id(1)
    shared = pair // heads * (heads // group) + pair % heads // group
    key = _head(key_ptr, shared, heads // group, k_batch, k_head)
    value = _head(value_ptr, shared, heads // group, v_batch, v_head)
    q = block_of(_head(query_ptr, pair, heads, q_batch, q_head), m, rows, q_stride, BLOCK_M, DIM, False, False)
    g = block_of(_head(grad_ptr, pair, heads, g_batch, g_head), m, rows, g_stride, BLOCK_M, DIM, False, False)
    if DESCRIPTORS:
        key = tl.make_tensor_descriptor(key, [rows, DIM], [k_stride.to(tl.int64), 1], [BLOCK_N, DIM])
        value = tl.make_tensor_descriptor(value, [rows, DIM], [v_stride.to(tl.int64), 1], [BLOCK_N, DIM])
    i, d = tl.arange(0, BLOCK_M), tl.arange(0, DIM)
    offset = pair.to(tl.int64) * rows + m
    level = tl.load(lse_ptr + offset + i, mask=i < rows - m, other=float("inf"))
    dot = tl.load(dots_ptr + offset + i, mask=i < rows - m, other=0.0)
    if CAUSAL:
        end = tl.minimum(m + BLOCK_M, rows)
        whole = m // BLOCK_N * BLOCK_N
    else:
        end = rows
        whole = rows // BLOCK_N * BLOCK_N
    dq = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
    dq = _queries_blocks(
        dq, q, g, level, dot, key, value, 0, whole, m, rows, k_stride, v_stride, scale2, CAUSAL, False,
        BLOCK_M, BLOCK_N, DIM, DESCRIPTORS,
    )  # fmt: skip
    dq = _queries_blocks(
        dq, q, g, level, dot, key, value, whole, end, m, rows, k_stride, v_stride, scale2, CAUSAL, True,
        BLOCK_M, BLOCK_N, DIM, DESCRIPTORS,
    )  # fmt: skip
    tl.store(
        dq_ptr + offset * DIM + (i[:, None] * DIM + d[None, :]),
        (dq * scale).to(dq_ptr.dtype.element_ty),
        mask=(i < rows - m)[:, None],
    )


@dataclasses.dataclass(frozen=True)
class Blocks:
    """Tunables of attention; with Triton 3.7 the defaults spill no 16-bit elements on any target of the suite."""

    block_m: int = 64  # queries of a program, of 16-bit elements; half as many of float32
    block_n: int = 16  # keys taken at once; fewer where shared memory is small
    descriptors: bool = False  # load through tensor descriptors where rows begin on 16 bytes
    num_warps: int = 8  # warps (wavefronts) of a program
    num_stages: int = 2  # most stages of the loop over keys; fewer where shared memory is small
    back_held: int = 32  # rows that a program of the backward pass holds, of 16-bit elements; a quarter of float32
    back_walked: int = 16  # rows that it takes at once; a quarter of float32
    back_warps: int = 8  # its warps
    back_stages: int = 2  # most stages of its loop
    back_descriptors: bool = False  # load what it walks through tensor descriptors where rows begin on 16 bytes
    back_queries: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # what differs in the launch of dQ
    tuned: bool = False  # let the autotuner choose what the forward pass takes

    @classmethod
    def settled(cls, tunables: Mapping[str, Any], *operands: torch.Tensor) -> Self:
        """Tunables for these operands: those of the architecture, descriptors only where they can be had.

        Args:
            tunables: of a variant; those under ``wide_heads`` go before the others for heads of over 128 elements.
            operands: the query first.
        """
        own = for_architecture(tunables, operands[0].device)
        wide = own.pop("wide_heads", {})
        blocks = cls(**own | (wide if operands[0].shape[-1] > 128 else {}))
        if blocks.descriptors or blocks.tuned:
            allow_descriptors()
        return dataclasses.replace(blocks, descriptors=blocks.descriptors and describable(*operands))

    def forward(self, query: torch.Tensor) -> dict[str, Any]:
        """Keywords of a forward launch, its loop fitted to shared memory; none where it is tuned."""
        return {} if self.tuned else self.pointers(query) | {"DESCRIPTORS": self.descriptors}

    def pointers(self, query: torch.Tensor) -> dict[str, Any]:
        """As :meth:`forward`, of a kernel that takes pointers alone."""
        if self.tuned:
            return {}
        size, dim = query.element_size(), query.shape[-1]
        block_m, wanted = (max(16, block * 2 // size) for block in (self.block_m, self.block_n))
        weights = 0 if roomy(query.device) else self.block_n
        beside = block_m * (dim + weights) * size
        block_n, stages = fitting_loop(query.device, wanted, self.num_stages, 2 * dim * size, beside)
        return {"BLOCK_M": block_m, "BLOCK_N": block_n, "num_warps": self.num_warps, "num_stages": stages}

    def backward_keys(self, query: torch.Tensor, grad: torch.Tensor) -> tuple[int, dict[str, Any]]:
        """Rows held by a program of dK and dV, and keywords of its launch."""
        held, walked, options = self._backward(query, query, grad)
        return held, {"BLOCK_M": walked, "BLOCK_N": held, **options}

    def backward_queries(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> tuple[int, dict[str, Any]]:
        """Rows held by a program of dQ, and keywords of its launch."""
        held, walked, options = dataclasses.replace(self, **self.back_queries)._backward(query, key, value)
        return held, {"BLOCK_M": held, "BLOCK_N": walked, **options}

    def _backward(self, query: torch.Tensor, *walked: torch.Tensor) -> tuple[int, int, dict[str, Any]]:
        size, dim = query.element_size(), query.shape[-1]
        held, wanted = (max(16, rows * 4 // size**2) for rows in (self.back_held, self.back_walked))
        descriptors = self.back_descriptors and describable(*walked)
        beside = 2 * held * (dim + self.back_walked) * size
        step, stages = fitting_loop(query.device, wanted, self.back_stages, 2 * dim * size, beside, ahead=descriptors)
        return held, step, {"DESCRIPTORS": descriptors, "num_warps": self.back_warps, "num_stages": stages}


class _FlashAttention(torch.autograd.Function):
    """The operation with its gradient."""

    @staticmethod
    def forward(ctx, query, key, value, causal, scale, blocks) -> torch.Tensor:
        out, lse = _run_forward(query, key, value, causal, scale, any(ctx.needs_input_grad), blocks)
        ctx.save_for_backward(query, key, value, out, lse)
        ctx.causal, ctx.scale, ctx.blocks = causal, scale, blocks
        return out

    @staticmethod
    def backward(ctx, grad) -> tuple[torch.Tensor | None, ...]:
        gradients = _run_backward(grad, *ctx.saved_tensors, ctx.causal, ctx.scale, ctx.blocks)
        return *gradients, None, None, None


def _strides(*tensors: torch.Tensor) -> tuple[int, ...]:
    return tuple(stride for t in tensors for stride in t.stride()[:3])


def _run_forward(query, key, value, causal, scale, keep, blocks):
    batch, heads, rows, dim = query.shape
    out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    lse = torch.empty((batch, heads, rows) if keep else (1,), dtype=torch.float32, device=query.device)
    if out.numel() == 0:
        return out, lse
    kernel = _tuned_forward if blocks.tuned else _forward
    kernel[lambda meta: (triton.cdiv(rows, meta["BLOCK_M"]), batch * heads)](
        *(query, key, value, out, lse, heads, heads // key.shape[1], rows, scale * LOG2E),
        *_strides(query, key, value),
        CAUSAL=causal,
        KEEP=keep,
        DIM=dim,
        **blocks.forward(query),
    )
    return out, lse


def _run_backward(grad, query, key, value, out, lse, causal, scale, blocks):
    batch, heads, rows, dim = query.shape
    kv_heads = key.shape[1]
    if grad.stride(-1) != 1:
        grad = grad.contiguous()
    dq, dk, dv = (torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (query, key, value))
    if out.numel() == 0:
        return dq, dk, dv
    dots = torch.empty_like(lse)
    shared = (query, key, value, grad, lse, dots)
    sizes, strides = (heads, heads // kv_heads, rows), _strides(query, key, value, grad)
    exact = query.dtype is torch.float32
    block = 16 if exact else 64
    _row_dots[(triton.cdiv(rows, block), batch * heads)](
        *(out, grad, dots, rows, heads), *_strides(grad), BLOCK=block, DIM=dim, num_warps=4
    )
    if causal and exact:
        _first_dots[(batch * heads,)](*shared, *sizes, scale * LOG2E, *strides, ROWS=16, DIM=dim, num_warps=8)
    held_keys, keys = blocks.backward_keys(query, grad)
    held_queries, queries = blocks.backward_queries(query, key, value)
    if keys["DESCRIPTORS"] or queries["DESCRIPTORS"]:
        allow_descriptors()  # here too: autograd calls this in a thread of its own
    numbers = (*sizes, scale, scale * LOG2E, *strides)
    _backward_keys[(triton.cdiv(rows, held_keys), batch * kv_heads)](
        *shared, dk, dv, *numbers, CAUSAL=causal, DIM=dim, **keys
    )
    _backward_queries[(triton.cdiv(rows, held_queries), batch * heads)](
        *shared, dq, *numbers, CAUSAL=causal, DIM=dim, **queries
    )
    return dq, dk, dv


def flash_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    causal: bool = True,
    scale: float | None = None,
    **tunables: Any,
) -> torch.Tensor:
    """softmax(scale · query keyᵀ) value; differentiable in all three.

    Args:
        query: (batch, heads, length, dim); dim 16, 32, 64, 128 or 256, contiguous along it.
        key: (batch, kv_heads, length, dim), kv_heads a divisor of heads.
        value: of the shape of ``key``.
        causal: whether a query sees keys up to its own position only.
        scale: of the scores; 1 / sqrt(dim) if left out.
        tunables: fields of :class:`Blocks`.

    Returns:
        A contiguous tensor of the shape and dtype of ``query``.

    Raises:
        TypeError: an operand is no tensor of a dtype served, or of another than ``query``.
        ValueError: a shape, device or stride that is not served.
    """
    check_heads(query, key, value)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    return _FlashAttention.apply(query, key, value, causal, scale, Blocks.settled(tunables, query, key, value))


def check_heads(query: object, key: object, value: object) -> None:
    """Refuse operands that attention does not serve.

    Raises:
        TypeError: an operand is no tensor of a dtype served, or of another than ``query``.
        ValueError: a shape, device or stride that is not served.
    """
    query = check_tensor("query", query)
    check_named_axes("query", query, "batch", "heads", "length", "dim")
    batch, heads, rows, dim = query.shape
    check_dim(dim)
    if batch * heads > 65535:
        raise ValueError(f"query has {batch * heads} heads in all; a grid takes 65535")
    for name, given in (("key", key), ("value", value)):
        tensor = check_tensor(name, given, (query.dtype,))
        check_named_axes(name, tensor, "batch", "kv_heads", "length", "dim")
        check_group(name, tensor.shape[1], heads)
        check_shape(name, tensor, (batch, tensor.shape[1], rows, dim))
        check_beside(name, tensor, "query", query)
    check_shape("value", value, key.shape)
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        check_unit_stride(name, tensor)
        if tensor.numel() and tensor.stride(2) >= 2**22:
            raise ValueError(f"{name} has rows {tensor.stride(2)} elements apart; fewer than {2**22} are served")


def check_dim(dim: int) -> None:
    """Heads of so many elements are served."""
    if dim not in DIMS:
        raise ValueError(f"query has heads of {dim} elements; served are {', '.join(map(str, DIMS))}")


def check_group(name: str, kv_heads: int, heads: int) -> None:
    """So many heads of keys or values are shared evenly by those of queries."""
    if kv_heads == 0 or heads % kv_heads:
        raise ValueError(f"{name} has {kv_heads} heads, no divisor of the {heads} of query")


def _chain(query, key, value, causal):
    """The unfused chain: queries of a group are rows beside one another, so that nothing is copied."""
    batch, heads, rows, dim = query.shape
    pairs, group = batch * key.shape[1], heads // key.shape[1]
    scores = torch.bmm(query.reshape(pairs, group * rows, dim), key.reshape(pairs, rows, dim).transpose(1, 2))
    scores = (scores * dim**-0.5).view(batch * heads, rows, rows)
    if causal:
        later = torch.ones((rows, rows), dtype=torch.bool, device=query.device).triu_(1)
        scores = scores.masked_fill(later, -float("inf"))
    weights = torch.softmax(scores, dim=-1).view(pairs, group * rows, rows)
    return torch.bmm(weights, value.reshape(pairs, rows, dim)).view(batch, heads, rows, dim)


def reference(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """The unfused chain, causal."""
    return _chain(query, key, value, causal=True)


def reference_full(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """The unfused chain over all keys."""
    return _chain(query, key, value, causal=False)


def inputs(make, shape, dtype):
    """Queries and keys that bend the softmax, values in [-0.75, 1.25).

    The unfused chain in bfloat16 rounds scores and weights; over the many elements of a model's shape its largest
    error must stay so small that a check by it is not weak. So scores are narrower there, and values have a mean:
    without, late rows, which are averages of many, would be near zero, and first ones, of few, large and their
    roundings with them.
    """
    batch, heads, kv_heads, rows, dim = shape
    wide = 1.5 if rows < 1024 else 1.0
    value = make.uniform((batch, kv_heads, rows, dim), dtype, low=-0.75, high=1.25)
    key = make.uniform((batch, kv_heads, rows, dim), dtype, low=-wide, high=wide)
    query = make.uniform((batch, heads, rows, dim), dtype, low=-wide, high=wide)
    return {"query": query, "key": key, "value": value}


def work(shape: tuple[int, ...], dtype: str, *, causal: bool = True) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    batch, heads, kv_heads, rows, dim = shape
    size, q, k = DTYPE_BYTES[dtype], batch * heads * rows * dim, batch * kv_heads * rows * dim
    p = batch * heads * rows * rows
    pairs = batch * heads * rows * (rows + 1) // 2 if causal else p
    mask = 2 * p * size + 3 * rows * rows if causal else 0
    return Work(
        fused_bytes=(2 * q + 2 * k) * size,
        unfused_bytes=(2 * q + 2 * k + 6 * p) * size + mask,
        flops=pairs * (4 * dim + 5),
    )


def backward_work(shape: tuple[int, ...], dtype: str, *, causal: bool = True) -> Work:
    """Bytes and operations of the gradients, derived in the module's docstring."""
    batch, heads, kv_heads, rows, dim = shape
    size, q, k = DTYPE_BYTES[dtype], batch * heads * rows * dim, batch * kv_heads * rows * dim
    p = batch * heads * rows * rows
    pairs = batch * heads * rows * (rows + 1) // 2 if causal else p
    mask = 2 * p * size + rows * rows if causal else 0
    return Work(
        fused_bytes=(3 * q + 4 * k) * size,
        unfused_bytes=(4 * q + 4 * k + 9 * p) * size + mask,
        flops=pairs * (10 * dim + 5) + 3 * q + k,
    )


def libraries(*, causal: bool) -> dict[str, Any]:
    """PyTorch's ``scaled_dot_product_attention``, held to each of its fused backends."""
    backends = {"cudnn": "CUDNN_ATTENTION", "flash": "FLASH_ATTENTION"}
    return {name: pytorch.attention(backend, causal=causal) for name, backend in backends.items()}


BACK = {"back_held": 128, "back_walked": 64, "back_warps": 8, "back_stages": 3}
M64 = {"block_m": 64, "block_n": 16, "num_warps": 8, "num_stages": 2, "back_held": 32, "back_walked": 16}
M64W4 = {**BACK, "block_m": 64, "block_n": 64, "num_warps": 4, "num_stages": 3}
M64D = {**M64W4, "descriptors": True}
M128 = {**BACK, "block_m": 128, "block_n": 64, "num_warps": 8, "num_stages": 3}
M128D = {**BACK, "block_m": 128, "block_n": 128, "descriptors": True, "num_warps": 8, "num_stages": 3}
WIDE_BACK = {"back_held": 32, "back_walked": 16, "back_stages": 2}
WIDE = {**WIDE_BACK, "block_m": 128, "block_n": 64, "num_warps": 8, "num_stages": 2}
# Triton has no matrix instructions for sm_75: a product takes float32 copies of its operands in 64 KiB.
SM_75 = {"wide_heads": {"block_m": 32, "back_held": 16}}
# The fastest gradients of wide heads on sm_90, which spill; those of ``best`` take half as long again.
WIDE_SPILLING = {
    "back_held": 64,
    "back_walked": 64,
    "back_stages": 2,
    "back_descriptors": True,
    "back_queries": {"back_held": 128, "back_walked": 32},
}
# Gradients of 128 rows of 256 would take 151 KiB of shared memory, of 99, and 608 columns of tensor memory, of 512;
# 64 rows of float32 would take 100 KiB.
FITTING = {
    **{name: {"wide_heads": {**WIDE_BACK, "block_m": 64}} for name in ("sm_86", "sm_89", "sm_120")},
    **{name: {"wide_heads": WIDE_BACK} for name in ("sm_100", "sm_103")},
}
VARIANTS = {
    "m64": best(M64, sm_75=SM_75),
    "m64w4": best(M64W4, **FITTING),
    "m128": best(M128, **FITTING),
    "m128d": best(M128D, **FITTING, sm_90={"wide_heads": WIDE_SPILLING}),
    "auto": {"tuned": True},
}


def best_blocks(forward: Mapping[str, Any], *, keys_by_descriptors: bool) -> dict[str, Any]:
    """The variant ``best``: how the forward pass goes on sm_90, and how dQ reads its keys there."""
    narrow = {"back_held": 64, "back_walked": 32, "back_warps": 4, "back_descriptors": True}
    queries = {"back_held": 128, "back_walked": 64, "back_warps": 8, "back_descriptors": keys_by_descriptors}
    wide = {
        **WIDE,
        "back_walked": 64,
        "back_warps": 8,
        "back_descriptors": True,
        "back_queries": {"back_held": 64},
    }
    return best(M64, sm_75=SM_75, sm_90={**forward, **narrow, "back_queries": queries, "wide_heads": wide})


SHARED = {
    "inputs": inputs,
    "shapes": (
        (4, 32, 32, 4096, 128),
        (4, 32, 32, 4096, 64),
        (4, 32, 32, 8192, 128),
        (2, 32, 8, 4096, 128),
        (1, 64, 8, 4000, 128),
        (2, 16, 8, 4096, 256),
    ),
    "small_shapes": ((1, 2, 1, 70, 64), (1, 2, 2, 33, 128), (1, 1, 1, 20, 256)),
    "dtypes": ("float32", "float16", "bfloat16"),
    "directions": (Direction.FORWARD, Direction.BACKWARD),
    "reduction_length": lambda shape: max(shape[-2:]),
    "interpreter_gaps": BFLOAT16_GAP,
    "deterministic": True,
    "row_inputs": ("query", "key", "value"),
    "strided_inputs": ("query", "key", "value"),
    "family_gaps": {
        "constant": "all terms of a score are alike, so that roundings add up, and differently in the two "
        "products that make it, one in the forward and one in the backward pass",
        "tail": "heads are of 2^n elements",
        "large": "scores of 2^80 keep no digits after the point in float32, so that the backward pass "
        "can't make the same weights again",
    },
}

causal_case = KernelCase(
    name="flash_attention",
    fused=flash_attention,
    reference=reference,
    work=work,
    backward_work=backward_work,
    variants={**VARIANTS, "best": best_blocks(M64W4, keys_by_descriptors=False)},
    baselines=libraries(causal=True),
    **SHARED,
)

full_case = KernelCase(
    name="flash_attention_full",
    fused=functools.partial(flash_attention, causal=False),
    reference=reference_full,
    work=functools.partial(work, causal=False),
    backward_work=functools.partial(backward_work, causal=False),
    variants={**VARIANTS, "best": best_blocks(M64D, keys_by_descriptors=True)},
    baselines=libraries(causal=False),
    **SHARED,
)
