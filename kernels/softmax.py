"""Softmax of rows, short and long.

    y_ij = exp(x_ij - m_i) / sum_k exp(x_ik - m_i),  m_i = max_k x_ik

One program a row. A row of at most ``MAX_BLOCK`` elements stays in registers: one read,
one write. A longer row is walked twice in chunks: the first pass keeps a running
maximum and a running sum that is rescaled whenever the maximum grows, the second, from
the row's end, writes. In between much of the row is still in cache.

Work of one call, N = rows × columns, s = bytes per element:
    fused    x read, y written: 2 N s. The second read of a long row is the
             implementation's: one resident row is 64 to 512 KiB, and where cache
             doesn't hold the rows in flight, its price shows as a lower share of the
             bound.
    unfused  max N + rows, subtract 2 N + rows, exp 2 N, sum N + rows,
             divide 2 N + rows: (8 N + 4 rows) s. Fusion gains at most about 4.
    flops    max, subtract, exp, sum, divide = 5 an element, exp counted as one.

Sources:
    1. M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax",
       https://arxiv.org/abs/1805.02867
    2. Triton tutorial 02, fused softmax: a row a program, -inf in masked lanes.
    3. Rows: 4096 attention scores, 32768 and 131072 long context or vocabulary
       (Llama 2: 32000, Llama 3: 128256), 50257 GPT-2's vocabulary.
"""

import torch
import triton
import triton.language as tl

from portkit import KernelCase, Work
from portkit.baselines import flag_gems, liger, pytorch
from portkit.model import DTYPE_BYTES

MAX_BLOCK = 16384  # longest row held in registers: 64 KiB in float32
CHUNK = 8192  # elements of a longer row taken at once


@triton.jit
def _softmax_short(x_ptr, y_ptr, x_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < columns
    x = tl.load(x_ptr + row * x_stride + lanes, mask=mask, other=-float("inf")).to(tl.float32)
    exponential = tl.exp(x - tl.max(x, axis=0))
    y = exponential / tl.sum(exponential, axis=0)
    tl.store(y_ptr + row * columns + lanes, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _finite(maximum):
    # -inf - (-inf) is NaN: until a row has shown a finite element, subtract 0.
    return tl.where(maximum == -float("inf"), 0.0, maximum)


@triton.jit
def _softmax_long(x_ptr, y_ptr, x_stride, columns, CHUNK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row, y_row = x_ptr + row * x_stride, y_ptr + row * columns
    lanes = tl.arange(0, CHUNK)
    maximum = tl.full((), -float("inf"), dtype=tl.float32)
    total = tl.full((), 0.0, dtype=tl.float32)
    for start in range(0, columns, CHUNK):
        x = tl.load(x_row + start + lanes, mask=lanes < columns - start, other=-float("inf")).to(tl.float32)
        grown = tl.maximum(maximum, tl.max(x, axis=0))
        total = total * tl.exp(maximum - _finite(grown)) + tl.sum(tl.exp(x - _finite(grown)), axis=0)
        maximum = grown
    shift = _finite(maximum)
    # Backwards: the chunks read last are the likeliest to be in cache still.
    last = (tl.cdiv(columns, CHUNK) - 1) * CHUNK
    for done in range(0, columns, CHUNK):
        start = last - done
        mask = lanes < columns - start
        x = tl.load(x_row + start + lanes, mask=mask, other=-float("inf")).to(tl.float32)
        y = tl.exp(x - shift) / total
        tl.store(y_row + start + lanes, y.to(y_ptr.dtype.element_ty), mask=mask)


def softmax(x: torch.Tensor, *, num_warps: int = 8) -> torch.Tensor:
    """Softmax over the last dimension.

    Args:
        x: (…, columns), last dimension contiguous.
        num_warps: warps (wavefronts) of a program.

    Returns:
        A contiguous tensor of the shape and dtype of ``x``; a row of -inf alone gives
        NaN, as in PyTorch.
    """
    columns = x.shape[-1]
    rows = x.reshape(-1, columns)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    grid = (rows.shape[0],)
    if columns <= MAX_BLOCK:
        block = triton.next_power_of_2(columns)
        _softmax_short[grid](rows, y, rows.stride(0), columns, BLOCK=block, num_warps=num_warps)
    else:
        _softmax_long[grid](rows, y, rows.stride(0), columns, CHUNK=CHUNK, num_warps=num_warps)
    return y


def reference(x: torch.Tensor) -> torch.Tensor:
    """The unfused chain, one kernel an operation, in the dtype of x."""
    exponential = torch.exp(x - x.amax(dim=-1, keepdim=True))
    return exponential / exponential.sum(dim=-1, keepdim=True)


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    rows, columns = shape
    n, size = rows * columns, DTYPE_BYTES[dtype]
    return Work(fused_bytes=2 * n * size, unfused_bytes=(8 * n + 4 * rows) * size, flops=5 * n)


case = KernelCase(
    name="softmax",
    fused=softmax,
    reference=reference,
    # Down to exp(-8): a row's sum of 131072 terms stays within float16 in the unfused chain.
    inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype, low=-4.0, high=4.0)},
    work=work,
    shapes=((4096, 4096), (1024, 32768), (512, 131072), (1024, 50257)),
    small_shapes=((4, 4096), (2, 32768), (2, 50257), (4, 1000)),
    dtypes=("float32", "float16", "bfloat16"),
    variants={"w4": {"num_warps": 4}, "w8": {"num_warps": 8}, "w16": {"num_warps": 16}},
    deterministic=True,
    row_inputs=("x",),
    strided_inputs=("x",),
    baselines={"torch": pytorch.softmax, "liger": liger.softmax, "flag_gems": flag_gems.softmax},
)
