"""Softmax of rows, short and long, forward and backward.

    y_ij = exp(x_ij - m_i) / sum_k exp(x_ik - m_i),  m_i = max_k x_ik
    dx_ij = y_ij (dy_ij - sum_k y_ik dy_ik)

Three ways, by a row's length:
    resident  of at most ``RESIDENT_PER_WARP`` elements a warp: one program a row, which stays in
              registers. One read, one write.
    streamed  longer, where a block's shared memory holds two rows (32768 16-bit elements on sm_90
              and sm_100): as many programs as the device has units walk over the rows, and
              while one row is computed in registers the next two are on their way. Resident, such
              a row fills a unit, which would load, compute and store by turns.
    walked    else: twice in chunks. The first pass keeps a running maximum and a running sum that
              is rescaled whenever the maximum grows, the second, from the row's end, writes. In
              between part of the row is still in cache.
Backward is resident or walked; a program holds two rows there, of at most 64 KiB each, as they
were read, and of long ones with as many threads as a block may have.

Work of one forward call, N = rows × columns, s = bytes per element:
    fused    x read, y written: 2 N s. The second read of a long row is the
             implementation's: one resident row is 64 to 512 KiB, and where cache
             doesn't hold the rows in flight, its price shows as a lower share of the
             bound.
    unfused  max N + rows, subtract 2 N + rows, exp 2 N, sum N + rows,
             divide 2 N + rows: (8 N + 4 rows) s. Fusion gains at most about 4.
    flops    max, subtract, exp, sum, divide = 5 an element, exp counted as one.
Backward:
    fused    dy and y read, dx written: 3 N s.
    unfused  PyTorch's gradients of the chain: three divisions by a row's number, negate, two
             products, sum and addition: (18 N + 4 rows) s.
    flops    product, sum, subtract, product = 4 an element.

Speed on an H200 beside its goal: the table of ``scripts/suite_goals.py`` in ``reports/``.
Forward, streamed rows of 32768 come near to a copy, where one resident row a program has 76 %, as
Liger-Kernel has. Backward holds a row in one program of 32 warps, as Liger-Kernel does, moves the
same bytes, and asks the cache to keep what it reads, which puts it 1 % ahead. Halves of rows, fewer
warps, and rows walked over as forward were no faster. Rows of 50257 are not aligned, so their loads
are narrow: 44 % of the copy bandwidth at 1024 rows.

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
from arguments import as_rows, check_tensor, gradient_rows
from tiles import roomy, shared_bytes, units, warp_size

from portkit import Direction, KernelCase, Work
from portkit.baselines import flag_gems, liger, pytorch
from portkit.model import DTYPE_BYTES

RESIDENT_PER_WARP = 2048  # most elements of a row that a warp holds: 64 a thread on 32 lanes
STREAM_WARPS = 16  # the most of a workgroup on 64 lanes
STREAM_STAGES = 3  # rows in flight, the one computed with counted in: the others are in shared memory
CHUNK = 8192  # elements of a longer row taken at once
BACKWARD_THREADS = 1024  # of a long row's program: 32 warps of 32 lanes, 16 of 64
BACKWARD_BYTES = 64 * 1024  # of a row of which a program holds two, of the output and its gradient


@triton.jit
def _softmax_resident(x_ptr, y_ptr, x_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < columns
    x = tl.load(x_ptr + row * x_stride + lanes, mask=mask, other=-float("inf")).to(tl.float32)
    exponential = tl.exp(x - tl.max(x, axis=0))
    y = exponential * (1.0 / tl.sum(exponential, axis=0))
    tl.store(y_ptr + row * columns + lanes, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _softmax_streamed(x_ptr, y_ptr, x_stride, rows, columns, HALF: tl.constexpr, STAGES: tl.constexpr):
    """A row by halves of the next power of two, the first of which is whole and needs no mask.

    A row is read once, hence ``evict_first``. Results are not asked to stay: a kernel that leaves them in cache
    is measured faster, but whoever comes next pays for the writes.
    """
    lanes = tl.arange(0, HALF)
    mask = lanes + HALF < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        x_row = x_ptr + tl.cast(row, tl.int64) * x_stride + lanes
        y_row = y_ptr + tl.cast(row, tl.int64) * columns + lanes
        first = tl.load(x_row, eviction_policy="evict_first")
        second = tl.load(x_row + HALF, mask=mask, other=-float("inf"), eviction_policy="evict_first")
        first, second = first.to(tl.float32), second.to(tl.float32)
        top = tl.max(tl.maximum(first, second), axis=0)
        first, second = tl.exp(first - top), tl.exp(second - top)
        scale = 1.0 / tl.sum(first + second, axis=0)
        tl.store(y_row, (first * scale).to(y_ptr.dtype.element_ty))
        tl.store(y_row + HALF, (second * scale).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _finite(maximum):
    # -inf - (-inf) is NaN: until a row has shown a finite element, subtract 0.
    return tl.where(maximum == -float("inf"), 0.0, maximum)


@triton.jit
def _softmax_walked(x_ptr, y_ptr, x_stride, columns, CHUNK: tl.constexpr):
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
    shift, scale = _finite(maximum), 1.0 / total
    # Backwards: the chunks read last are the likeliest to be in cache still.
    last = (tl.cdiv(columns, CHUNK) - 1) * CHUNK
    for done in range(0, columns, CHUNK):
        start = last - done
        mask = lanes < columns - start
        x = tl.load(x_row + start + lanes, mask=mask, other=-float("inf")).to(tl.float32)
        y = tl.exp(x - shift) * scale
        tl.store(y_row + start + lanes, y.to(y_ptr.dtype.element_ty), mask=mask)


def _that_hold_a_row(configs, named_args, **constants):  # noqa: ANN003 - the autotuner's
    return [config for config in configs if RESIDENT_PER_WARP * config.num_warps >= constants["BLOCK"]]


_softmax_resident_tuned = triton.autotune(
    configs=[triton.Config({}, num_warps=warps) for warps in (4, 8, 16)],
    key=["columns"],
    prune_configs_by={"early_config_prune": _that_hold_a_row},
)(_softmax_resident)
_softmax_walked_tuned = triton.autotune(
    configs=[triton.Config({"CHUNK": chunk}, num_warps=w) for chunk, w in ((4096, 4), (8192, 8), (8192, 16))],
    key=["columns"],
)(_softmax_walked)


@triton.jit
def _anew(x):
    """Numbers in float32 once more, by other means: were it the same conversion, both copies would be kept."""
    if x.dtype == tl.bfloat16:
        return (x.to(tl.int16, bitcast=True).to(tl.int32) << 16).to(tl.float32, bitcast=True)
    else:  # noqa: RET505 - Triton takes what follows a constant branch for code of both
        return (x + 0.0).to(tl.float32)


@triton.jit
def _softmax_backward_resident(
    dy_ptr, y_ptr, dx_ptr, dy_stride, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    first = tl.program_id(0).to(tl.int64) * ROWS
    row = tl.arange(0, ROWS)
    lanes = tl.arange(0, BLOCK)
    mask = (row < rows - first)[:, None] & (lanes < columns)[None, :]
    row = row.to(tl.int64)
    at = first * columns + row[:, None] * columns + lanes[None, :]
    # In a trial 1.4 % faster on an H200 than without the wish that the rows stay in cache: so results leave first.
    y = tl.load(y_ptr + at, mask=mask, other=0.0, eviction_policy="evict_last")
    dy_at = first * dy_stride + row[:, None] * dy_stride + lanes[None, :]
    dy = tl.load(dy_ptr + dy_at, mask=mask, other=0.0, eviction_policy="evict_last")
    total = tl.sum(y.to(tl.float32) * dy.to(tl.float32), axis=1)
    dx = _anew(y) * (_anew(dy) - total[:, None])
    tl.store(dx_ptr + at, dx.to(dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _softmax_backward_walked(dy_ptr, y_ptr, dx_ptr, dy_stride, columns, CHUNK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    dy_ptr += row * dy_stride
    y_ptr += row * columns
    dx_ptr += row * columns
    lanes = tl.arange(0, CHUNK)
    products = tl.zeros((CHUNK,), dtype=tl.float32)
    for start in range(0, columns, CHUNK):
        mask = lanes < columns - start
        y = tl.load(y_ptr + start + lanes, mask=mask, other=0.0).to(tl.float32)
        products += y * tl.load(dy_ptr + start + lanes, mask=mask, other=0.0).to(tl.float32)
    total = tl.sum(products, axis=0)
    last = (tl.cdiv(columns, CHUNK) - 1) * CHUNK
    for done in range(0, columns, CHUNK):
        start = last - done
        mask = lanes < columns - start
        y = tl.load(y_ptr + start + lanes, mask=mask, other=0.0).to(tl.float32)
        dx = y * (tl.load(dy_ptr + start + lanes, mask=mask, other=0.0).to(tl.float32) - total)
        tl.store(dx_ptr + start + lanes, dx.to(dx_ptr.dtype.element_ty), mask=mask)


def _forward(rows: torch.Tensor, y: torch.Tensor, num_warps: int, tuned: bool) -> None:
    count, columns = rows.shape
    arguments = (rows, y, rows.stride(0))
    block = triton.next_power_of_2(columns)
    if columns <= RESIDENT_PER_WARP * (8 if tuned else num_warps):
        if tuned:
            _softmax_resident_tuned[(count,)](*arguments, columns, BLOCK=block)
        else:
            _softmax_resident[(count,)](*arguments, columns, BLOCK=block, num_warps=num_warps)
    elif _streamable(rows, block):
        grid = (min(count, units(rows.device)),)
        constants = {"HALF": block // 2, "STAGES": STREAM_STAGES, "num_warps": STREAM_WARPS}
        _softmax_streamed[grid](*arguments, count, columns, **constants)
    elif tuned:
        _softmax_walked_tuned[(count,)](*arguments, columns)
    else:
        _softmax_walked[(count,)](*arguments, columns, CHUNK=CHUNK, num_warps=num_warps)


def _streamable(rows: torch.Tensor, block: int) -> bool:
    """Whether the rows under way fit beside what reductions need, and copies of 16 bytes can bring them."""
    if not roomy(rows.device) or block > RESIDENT_PER_WARP * STREAM_WARPS or rows.stride(0) % 8:
        return False
    return (STREAM_STAGES - 1) * block * rows.element_size() + 4096 <= shared_bytes(rows.device)


def softmax_backward(dy: torch.Tensor, y: torch.Tensor, *, num_warps: int = 8) -> torch.Tensor:
    """Gradient of the input.

    Args:
        dy: gradient of the output.
        y: (rows, columns), the output, contiguous.
        num_warps: warps (wavefronts) of a program; more for long rows.

    Returns:
        (rows, columns).
    """
    dy = gradient_rows(dy)
    rows, columns = y.shape
    dx = torch.empty_like(y)
    block = triton.next_power_of_2(columns)
    arguments = (dy, y, dx, dy.stride(0))
    if columns > RESIDENT_PER_WARP // 2 * num_warps:
        num_warps = BACKWARD_THREADS // warp_size(y.device)
    if columns * y.element_size() <= BACKWARD_BYTES:
        taken = max(1, 512 * num_warps // block)
        grid = (triton.cdiv(rows, taken),)
        _softmax_backward_resident[grid](*arguments, rows, columns, ROWS=taken, BLOCK=block, num_warps=num_warps)
    else:
        _softmax_backward_walked[(rows,)](*arguments, columns, CHUNK=CHUNK, num_warps=16)
    return dx


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, num_warps, tuned) -> torch.Tensor:
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if x.numel():
            _forward(as_rows("x", x), y, num_warps, tuned)
        ctx.save_for_backward(y)
        ctx.num_warps = num_warps
        return y

    @staticmethod
    def backward(ctx, dy) -> tuple:
        (y,) = ctx.saved_tensors
        if not y.numel():
            return torch.zeros_like(y), None, None
        return softmax_backward(dy, as_rows("y", y), num_warps=ctx.num_warps).view(y.shape), None, None


def softmax(x: torch.Tensor, *, num_warps: int = 8, tuned: bool = False) -> torch.Tensor:
    """Softmax over the last axis, differentiable.

    Args:
        x: (…, columns), last axis contiguous; float32, float16 or bfloat16.
        num_warps: warps (wavefronts) of a program; rows that are streamed take 16.
        tuned: choose warps and chunks by trial, forward.

    Returns:
        A contiguous tensor of the shape and dtype of ``x``; a row of -inf alone gives
        NaN, as in PyTorch.

    Raises:
        TypeError: ``x`` is no tensor or of another dtype.
        ValueError: it has no axis, or gaps within rows.
    """
    as_rows("x", check_tensor("x", x))
    return _Softmax.apply(x, num_warps, tuned)


def reference(x: torch.Tensor) -> torch.Tensor:
    """The unfused chain, one kernel an operation, in the dtype of x.

    The maximum has no gradient: that of any shift is zero, but for the roundings of a whole row.
    """
    exponential = torch.exp(x - x.amax(dim=-1, keepdim=True).detach())
    return exponential / exponential.sum(dim=-1, keepdim=True)


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    rows, columns = shape
    n, size = rows * columns, DTYPE_BYTES[dtype]
    return Work(fused_bytes=2 * n * size, unfused_bytes=(8 * n + 4 * rows) * size, flops=5 * n)


def backward_work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations of the gradients, derived in the module's docstring."""
    rows, columns = shape
    n, size = rows * columns, DTYPE_BYTES[dtype]
    return Work(fused_bytes=3 * n * size, unfused_bytes=(18 * n + 4 * rows) * size, flops=4 * n)


case = KernelCase(
    name="softmax",
    fused=softmax,
    reference=reference,
    # Down to exp(-8): a row's sum of 131072 terms stays within float16 in the unfused chain.
    inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype, low=-4.0, high=4.0)},
    work=work,
    backward_work=backward_work,
    shapes=((4096, 4096), (1024, 32768), (8192, 32768), (512, 131072), (1024, 50257)),
    small_shapes=((4, 4096), (2, 32768), (2, 50257), (4, 1000)),
    dtypes=("float32", "float16", "bfloat16"),
    variants={
        "w4": {"num_warps": 4},
        "w8": {"num_warps": 8},
        "w16": {"num_warps": 16},
        "auto": {"tuned": True},
    },
    directions=(Direction.FORWARD, Direction.BACKWARD),
    # Elements of long rows are subnormal there: few digits for their gradient, and fewer yet in the unfused chain,
    # which divides by the square of a sum.
    limits={"float16": 1e-2},
    deterministic=True,
    row_inputs=("x",),
    strided_inputs=("x",),
    baselines={"torch": pytorch.softmax, "liger": liger.softmax, "flag_gems": flag_gems.softmax},
)
