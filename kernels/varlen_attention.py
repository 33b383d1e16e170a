"""Causal attention over sequences of different lengths, laid end to end without padding.

    o_i = softmax(scale · q_i Kᵀ) V over the keys of i's own sequence up to i
    query (tokens, heads, dim), key and value (tokens, kv_heads, dim); sequence b is the rows
    offsets[b] ≤ i < offsets[b + 1]

This is the layout where a compiler's own fusion stops: how many scores there are is data, so the
unfused chain runs sequence by sequence, or pads. Here the grid covers the longest sequence for
each of them, a program reads its sequence's bounds and leaves at once where it has no rows, and
the number of blocks of keys that it walks depends on both. Inside it is the forward pass of
``flash_attention.py``: same blocks, same loops, scores and weights in registers.

torch.compile breaks the chain at the lengths that the host must read.

Products of float32 are not allowed tf32: ``ieee``.

Work of one call, n_b the lengths, T = Σ n_b, q = heads · dim, k = kv_heads · dim, s = bytes per
element:
    fused    T (2 q + 2 k) s + 4 (sequences + 1).
    unfused  keys and values repeated for their heads 2 T (k + q); a sequence: Q Kᵀ 2 n q + heads n²,
             × scale 2 heads n², mask 3 n² bytes made, n² read and 2 heads n², softmax 2 heads n²,
             P V heads n² + 2 n q; all put together 2 T q:
             (T (8 q + 2 k) + 8 heads Σ n²) s + 4 Σ n²; the host reads the offsets.
    flops    heads Σ n (n + 1) / 2 · (4 dim + 5).
    Compute bound in long sequences, as flash_attention is; short ones are bound by memory and
    by the latency of a program.

Sources:
    1. T. Dao, "FlashAttention-2", https://arxiv.org/abs/2307.08691, and ``flash_attn_varlen_func``
       of its library for the layout.
    2. M. Krell et al., "Efficient sequence packing without cross-contamination",
       https://arxiv.org/abs/2107.02027
    3. Heads: Llama 3 8B (32, 8, 128), TinyLlama (32, 4, 64), Gemma 2 9B (16, 8, 256). One
       sequence has half of all tokens, the others share the rest unevenly.
"""

import itertools
from typing import Any

import torch
import triton
import triton.language as tl
from arguments import check_beside, check_contiguous, check_named_axes, check_shape, check_tensor
from flash_attention import LOG2E, Blocks, bearable, block_of, check_dim, check_group, forward_blocks
from products import BFLOAT16_GAP
from tiles import best

from portkit import KernelCase, Work
from portkit.model import DTYPE_BYTES


@triton.jit
def _varlen(
    query_ptr, key_ptr, value_ptr, offsets_ptr, out_ptr, heads, kv_heads, group, scale2,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    head, sequence = tl.program_id(1), tl.program_id(2)
    begin = tl.load(offsets_ptr + sequence).to(tl.int64)
    rows = (tl.load(offsets_ptr + sequence + 1) - begin).to(tl.int32)
    m = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK_M  # the longest rows first
    if m < rows:
        query = query_ptr + (begin * heads + head) * DIM
        key = key_ptr + (begin * kv_heads + head // group) * DIM
        value = value_ptr + (begin * kv_heads + head // group) * DIM
        q = block_of(query, m, rows, heads * DIM, BLOCK_M, DIM, False, False)
        total = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
        maximum = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
        mass = tl.zeros((BLOCK_M,), dtype=tl.float32)
        whole = m // BLOCK_N * BLOCK_N
        stride = kv_heads * DIM
        total, maximum, mass = forward_blocks(
            total, maximum, mass, q, key, value, 0, whole, m, rows, stride, stride, scale2, True, False,
            BLOCK_M, BLOCK_N, DIM, False,
        )  # fmt: skip
        total, maximum, mass = forward_blocks(
            total, maximum, mass, q, key, value, whole, tl.minimum(m + BLOCK_M, rows), m, rows, stride, stride, scale2,
            True, True, BLOCK_M, BLOCK_N, DIM, False,
        )  # fmt: skip
        i, d = tl.arange(0, BLOCK_M), tl.arange(0, DIM)
        offsets = (m + i[:, None]) * (heads * DIM) + d[None, :]
        out = out_ptr + (begin * heads + head) * DIM
        tl.store(out + offsets, (total / mass[:, None]).to(out_ptr.dtype.element_ty), mask=(i < rows - m)[:, None])


_tuned_varlen = triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_warps=warps, num_stages=stages)
        for m, n, warps, stages in ((64, 16, 8, 2), (64, 32, 4, 3), (64, 64, 4, 3), (128, 32, 8, 2), (128, 64, 8, 3))
    ],
    key=["heads", "kv_heads", "DIM"],
    prune_configs_by={"early_config_prune": bearable},
)(_varlen)


def varlen_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, offsets: torch.Tensor, longest: int, **tunables: Any
) -> torch.Tensor:
    """Causal attention within each sequence.

    Args:
        query: (tokens, heads, dim), contiguous; dim 16, 32, 64, 128 or 256.
        key: (tokens, kv_heads, dim), contiguous, kv_heads a divisor of heads.
        value: of the shape of ``key``.
        offsets: (sequences + 1,), int32, contiguous: where each begins, ascending from 0 to tokens.
        longest: length of the longest sequence at least; rows beyond it are not written.
        tunables: fields of ``flash_attention.Blocks``; tiles are loaded by pointers.

    Returns:
        A contiguous tensor of the shape and dtype of ``query``.

    Raises:
        TypeError: an operand is no tensor of a dtype served, or of another than ``query``.
        ValueError: a shape, device or stride that is not served.
    """
    _check(query, key, value, offsets, longest)
    (_, heads, dim), kv_heads, sequences = query.shape, key.shape[1], offsets.numel() - 1
    out = torch.empty_like(query)
    if out.numel() == 0 or longest == 0:
        return out
    blocks = Blocks.settled(tunables, query)
    kernel = _tuned_varlen if blocks.tuned else _varlen
    kernel[lambda meta: (triton.cdiv(longest, meta["BLOCK_M"]), heads, sequences)](
        *(query, key, value, offsets, out, heads, kv_heads, heads // kv_heads, dim**-0.5 * LOG2E),
        DIM=dim,
        **blocks.pointers(query),
    )
    return out


def _check(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, offsets: torch.Tensor, longest: int) -> None:
    check_named_axes("query", check_tensor("query", query), "tokens", "heads", "dim")
    tokens, heads, dim = query.shape
    check_dim(dim)
    check_named_axes("key", check_tensor("key", key, (query.dtype,)), "tokens", "kv_heads", "dim")
    check_group("key", key.shape[1], heads)
    check_shape("key", key, (tokens, key.shape[1], dim))
    check_shape("value", check_tensor("value", value, (query.dtype,)), key.shape)
    if check_tensor("offsets", offsets, (torch.int32,)).dim() != 1 or offsets.numel() == 0:
        raise ValueError(f"offsets has the shape {tuple(offsets.shape)}, not (sequences + 1,)")
    for name, tensor in {"query": query, "key": key, "value": value, "offsets": offsets}.items():
        check_contiguous(name, tensor)
        check_beside(name, tensor, "query", query)
    sequences = offsets.numel() - 1
    if max(heads, sequences) > 65535:
        raise ValueError(f"query has {heads} heads in {sequences} sequences; a grid takes 65535 of each")
    if longest < 0 or longest * heads * dim >= 2**31:
        raise ValueError(f"longest is {longest}; from 0 on, rows of a sequence must lie within 2^31 elements")


def reference(query, key, value, offsets, longest):
    """The unfused chain, sequence by sequence; the host waits for the lengths once."""
    group = query.shape[1] // key.shape[1]
    repeated = (x[:, :, None].expand(-1, -1, group, -1) for x in (key, value))
    keys, values = (x.clone(memory_format=torch.contiguous_format).view(query.shape) for x in repeated)
    outs = []
    for begin, end in itertools.pairwise(offsets.tolist()):
        q, k, v = (x[begin:end].transpose(0, 1) for x in (query, keys, values))
        scores = torch.bmm(q, k.transpose(1, 2)) * query.shape[-1] ** -0.5
        later = torch.ones((end - begin, end - begin), dtype=torch.bool, device=q.device).triu(1)
        weights = torch.softmax(scores.masked_fill(later, -float("inf")), dim=-1)
        outs.append(torch.bmm(weights, v).transpose(0, 1))
    return torch.cat(outs)


def lengths(tokens: int, sequences: int) -> list[int]:
    """One sequence with half of all tokens, the others uneven, none of them empty."""
    shares = [1 + 7 * i % 11 for i in range(sequences - 1)]
    found = [max(1, (tokens - tokens // 2) * share // sum(shares)) for share in shares]
    return [*found, tokens - sum(found)]


def inputs(make, shape, dtype):
    """Scores that bend the softmax; values with a mean, as ``flash_attention.py`` has them; lengths of the shape."""
    tokens, sequences, heads, kv_heads, dim = shape
    query = make.uniform((tokens, heads, dim), dtype)
    held = lengths(tokens, sequences)
    return {
        "query": query,
        "key": make.uniform((tokens, kv_heads, dim), dtype),
        "value": make.uniform((tokens, kv_heads, dim), dtype, low=-0.75, high=1.25),
        "offsets": torch.tensor([0, *held]).cumsum(0).to(torch.int32).to(query.device),
        "longest": max(held),
    }


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    tokens, sequences, heads, kv_heads, dim = shape
    size, q, k = DTYPE_BYTES[dtype], heads * dim, kv_heads * dim
    held = lengths(tokens, sequences)
    squares = sum(n * n for n in held)
    return Work(
        fused_bytes=tokens * (2 * q + 2 * k) * size + 4 * (sequences + 1),
        unfused_bytes=(tokens * (8 * q + 2 * k) + 8 * heads * squares) * size + 4 * squares + 4 * (sequences + 1),
        flops=heads * sum(n * (n + 1) // 2 for n in held) * (4 * dim + 5),
    )


M64W4 = {"block_m": 64, "block_n": 64, "num_warps": 4, "num_stages": 3}
WIDE = {"block_m": 128, "block_n": 64, "num_warps": 8, "num_stages": 2}

case = KernelCase(
    name="varlen_attention",
    fused=varlen_attention,
    reference=reference,
    inputs=inputs,
    work=work,
    # tokens, sequences, heads, heads of keys, dim
    shapes=((8192, 16, 32, 8, 128), (8192, 64, 32, 8, 128), (8192, 16, 32, 4, 64), (4096, 9, 16, 8, 256)),
    small_shapes=((70, 3, 2, 1, 64), (40, 4, 2, 2, 128)),
    dtypes=("float32", "float16", "bfloat16"),
    variants={
        "m64": {"block_m": 64, "block_n": 16, "num_warps": 8, "num_stages": 2},
        "m64w4": M64W4,
        "m128": {"block_m": 128, "block_n": 64, "num_warps": 8, "num_stages": 3},
        "best": best(
            {"block_m": 64, "block_n": 16, "num_warps": 8, "num_stages": 2}, sm_90={**M64W4, "wide_heads": WIDE}
        ),
        "auto": {"tuned": True},
    },
    reduction_length=lambda shape: max(shape[0], shape[-1]),
    interpreter_gaps=BFLOAT16_GAP,
    deterministic=True,
    family_gaps={
        "tail": "heads are of 2^n elements",
        "large": "a score times its scale less the row's maximum is one rounding, which at 2^80 is far from 0",
    },
)
