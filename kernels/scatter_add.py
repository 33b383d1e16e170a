"""Embedding gradient by atomic additions: a control, in which fusion loses.

    out_vj = sum of dy_ij over the tokens i with index_i = v

The unfused way sorts the indices and sums each segment, with no two writers of one row. Here
each program adds its token's row to ``out`` by atomics, in one launch after a fill with
zeros. Where few tokens share a row that saves the sort; where many do, additions to one row
follow each other in the cache, and the fused kernel must lose. How many do is an axis: the
indices are spread over ``distinct`` rows, so tokens / distinct meet in each. The suite has
this case to show that its figures do not flatter fusion. Order of additions is left to the
device, so the last bits of a result are not repeatable.

A shape is (tokens, vocabulary, hidden, distinct). Work of one call, N = tokens × hidden, O =
vocabulary × hidden, s = bytes per element:
    fused    dy and indices read, out (float32) written: N s + 8 tokens + 4 O. That the
             atomics read out again is the implementation's.
    unfused  convert N (s + 4) unless s = 4; PyTorch's operator reads 4 N + 8 tokens and writes
             4 O; its sort of the indices is left out, to its favour.
    flops    N

Speed on an H200 beside its goal: the table of ``scripts/suite_goals.py`` in ``reports/``. The fewer rows
the tokens share, the more contention: with one row for all, fusion loses.

Sources:
    1. PyTorch, ``aten/src/ATen/native/cuda/Embedding.cu``: sort and segments.
    2. 128256 × 4096: Llama 3 8B; 16384 tokens over 16384, 256 and 1 distinct rows: no contention,
       64 and 16384 writers of a row. 2048 × 4096: positions of OPT 6.7B, a result so small that
       contention alone is left to see. 32000 × 2880 has rows that fill no block.
"""

import math

import torch
import triton
import triton.language as tl
from arguments import as_rows, check_beside, check_contiguous, check_shape, check_tensor

from portkit import KernelCase, Work
from portkit.model import DTYPE_BYTES

ELEMENTS_PER_WARP = 256  # 8 a thread on 32 lanes, 4 on 64


@triton.jit
def _scatter_add(dy_ptr, index_ptr, out_ptr, dy_stride, vocabulary, hidden, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    index = tl.load(index_ptr + token).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    # An index that is no row adds to none.
    mask = (column < hidden) & (index >= 0) & (index < vocabulary)
    dy = tl.load(dy_ptr + token * dy_stride + column, mask=mask, other=0.0).to(tl.float32)
    tl.atomic_add(out_ptr + index * hidden + column, dy, mask=mask, sem="relaxed")


_scatter_add_tuned = triton.autotune(
    configs=[triton.Config({"BLOCK": block}, num_warps=w) for block, w in ((512, 4), (1024, 4), (2048, 8))],
    key=["hidden"],
    reset_to_zero=["out_ptr"],
)(_scatter_add)


def scatter_add(
    dy: torch.Tensor, index: torch.Tensor, vocabulary: int, *, num_warps: int = 4, tuned: bool = False
) -> torch.Tensor:
    """Sum of the rows of ``dy`` by their index.

    Args:
        dy: (tokens, hidden), last axis contiguous; float32, float16 or bfloat16.
        index: (tokens,), int64 or int32, contiguous. One that is no row of the result adds
            nothing.
        vocabulary: rows of the result.
        num_warps: warps (wavefronts) of a program.
        tuned: choose warps and block by trial.

    Returns:
        (vocabulary, hidden), float32.

    Raises:
        TypeError: an argument of another type or dtype.
        ValueError: an argument of another shape or device, or with gaps.
    """
    rows = as_rows("dy", check_tensor("dy", dy))
    tokens, hidden = rows.shape
    check_tensor("index", index, (torch.int64, torch.int32))
    check_shape("index", index, (tokens,))
    check_beside("index", index, "dy", dy)
    check_contiguous("index", index)
    if vocabulary < 0:
        raise ValueError(f"vocabulary is {vocabulary}; it must be at least 0")
    out = torch.zeros((vocabulary, hidden), dtype=torch.float32, device=dy.device)
    if not (rows.numel() and vocabulary):
        return out
    arguments = (rows, index, out, rows.stride(0), vocabulary, hidden)
    if tuned:
        _scatter_add_tuned[lambda meta: (tokens, triton.cdiv(hidden, meta["BLOCK"]))](*arguments)
    else:
        block = ELEMENTS_PER_WARP * num_warps
        _scatter_add[(tokens, triton.cdiv(hidden, block))](*arguments, BLOCK=block, num_warps=num_warps)
    return out


def reference(dy: torch.Tensor, index: torch.Tensor, vocabulary: int) -> torch.Tensor:
    """PyTorch's embedding gradient, which sorts the indices, in float32 or wider."""
    wide = dy.to(torch.promote_types(dy.dtype, torch.float32))
    return torch.ops.aten.embedding_dense_backward(wide, index, vocabulary, -1, False)


def inputs(make, shape, dtype):
    """Indices spread over ``distinct`` rows of the vocabulary, evenly spaced."""
    tokens, vocabulary, hidden, distinct = shape
    index = make.integers((tokens,), "int64", 0, distinct) * (vocabulary // distinct)
    return {"dy": make.uniform((tokens, hidden), dtype), "index": index, "vocabulary": vocabulary}


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    tokens, vocabulary, hidden, _ = shape
    n, out, size = tokens * hidden, vocabulary * hidden, DTYPE_BYTES[dtype]
    converted = 0 if dtype == "float32" else n * (size + 4)
    return Work(
        fused_bytes=n * size + 8 * tokens + 4 * out,
        unfused_bytes=converted + 4 * n + 8 * tokens + 4 * out,
        flops=n,
    )


def limit(shape: tuple[int, ...]) -> float | None:
    """Of the error, relative to the root mean square of all elements, where many tokens share a row.

    The rule speaks of sums by halves; atomics add one term after the other, in float32. The n-th sum of terms of
    deviation d has about the size d sqrt(n), and a rounding of 0.42 u of it, u = 2^-24: n of them make 0.3 u n d,
    which is 0.3 u sqrt(n) of the result's d sqrt(n). The largest of thousands of results is 6.5 times as far off.
    Rows without a token count in the mean: a result is sqrt(vocabulary / distinct) times that.
    """
    tokens, vocabulary, _, distinct = shape
    writers = tokens / distinct
    if writers <= 16:
        return None
    return 2.0**-24 * (16 + 2 * math.sqrt(writers)) * math.sqrt(vocabulary / distinct)


case = KernelCase(
    name="scatter_add",
    fused=scatter_add,
    reference=reference,
    inputs=inputs,
    work=work,
    shapes=(
        (16384, 128256, 4096, 16384),
        (16384, 128256, 4096, 256),
        (16384, 128256, 4096, 1),
        (16384, 2048, 4096, 2048),
        (16384, 2048, 4096, 16),
        (16384, 2048, 4096, 1),
        (8192, 32000, 2880, 8192),
    ),
    small_shapes=((8, 20, 4096, 8), (12, 20, 2880, 3), (9, 20, 1024, 1)),
    dtypes=("float32", "float16", "bfloat16"),
    variants={"w4": {"num_warps": 4}, "w8": {"num_warps": 8}, "auto": {"tuned": True}},
    strided_inputs=("dy",),
    reduction_length=lambda shape: max(1, shape[0] // shape[3]),
    limits=dict.fromkeys(("float32", "float16", "bfloat16"), limit),
)
