"""RMS normalisation of rows, forward and backward.

    r_i = 1 / sqrt(mean_j(x_ij²) + eps),   n_ij = x_ij r_i,   y_ij = n_ij w_j
    dx_ij = r_i (w_j dy_ij - n_ij mean_k(w_k dy_ik n_ik)),   dw_j = sum_i dy_ij n_ij

Forward, a program takes as many rows as make ``ELEMENTS_PER_WARP`` elements a warp, at
least one, and holds them in registers, in float32. Where a gradient will be asked for, it
leaves r, 4 B a row.

Backward, at most ``PROGRAMS`` programs walk over the rows. Each keeps its share of dw in
registers and leaves it in a row of a float32 scratch, which a second launch adds up
(``column_sums.py``): no atomics, and the same bits on every run. Rows of more than 8192
elements are right there, but spill.

Work of one forward call, N = rows × hidden, s = bytes per element:
    fused    x and weight read, y written: (2 N + hidden) s.
    unfused  square 2 N, mean N + rows, + eps 2 rows, rsqrt 2 rows, × r 2 N + rows,
             × weight 2 N + hidden: (7 N + 6 rows + hidden) s. Fusion gains at most
             about 3.5.
    flops    per element: square, sum, × r, × weight = 4; per row: divide, + eps,
             rsqrt = 3.
Backward, what the forward pass leaves (r, 4 B a row) and the scratch of 8 B × hidden a program
not counted:
    fused    dy, x and weight read, dx and dw written: (3 N + 2 hidden) s.
    unfused  PyTorch's gradients of the chain: seven products of 3 N or 2 N, a power, two scalings,
             two sums and an addition: (24 N + 9 rows + 2 hidden) s.
    flops    per element: × r, × w, × n, sum, × mean, subtract, × r, dy n, sum = 9.

Speed on an H200 beside its goal: the table of ``scripts/suite_goals.py`` in ``reports/``.

Sources:
    1. B. Zhang, R. Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019,
       https://arxiv.org/abs/1910.07467: formula and its gradient.
    2. Triton tutorial 05, layer normalization: partial sums of the weight's gradient (there
       under locks; here a row a program).
    3. Hidden sizes: 2880 gpt-oss, 3584 Qwen2.5 7B, 4096 Llama 3 8B and Mistral 7B,
       8192 Llama 3 70B; 128 heads of Qwen3 (its query norm). 4095: no power of two, no
       aligned row.
"""

import torch
import triton
import triton.language as tl
from arguments import as_rows, check_most, check_tensor, check_vector, gradient_rows
from column_sums import BACKWARD_WARPS, PROGRAMS, backward_stages, backward_warps, column_sums

from portkit import Direction, KernelCase, Work
from portkit.baselines import aiter, pytorch
from portkit.baselines.liger import LIGER
from portkit.model import DTYPE_BYTES

MAX_HIDDEN = 65536  # elements of a row that one block may hold
ELEMENTS_PER_WARP = 512  # 16 a thread on 32 lanes and 8 on 64: whole 16-byte loads in every dtype


@triton.jit
def _rms_norm(x_ptr, weight_ptr, y_ptr, rstd_ptr, x_stride, rows, hidden, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * ROWS
    row = tl.arange(0, ROWS)
    lanes = tl.arange(0, BLOCK)
    there = row < rows - first
    mask = there[:, None] & (lanes < hidden)[None, :]
    row = row.to(tl.int64)
    # Measured: an H200 is 2 % faster than without the wish that the rows stay in cache.
    x_at = first * x_stride + row[:, None] * x_stride + lanes[None, :]
    x = tl.load(x_ptr + x_at, mask=mask, other=0.0, eviction_policy="evict_last")
    weight = tl.load(weight_ptr + lanes, mask=lanes < hidden, other=0.0).to(tl.float32)
    x = x.to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=1) / hidden + eps)
    y = x * rstd[:, None] * weight[None, :]
    tl.store(y_ptr + first * hidden + row[:, None] * hidden + lanes[None, :], y.to(y_ptr.dtype.element_ty), mask=mask)
    if rstd_ptr is not None:
        tl.store(rstd_ptr + first + row, rstd, mask=there)


_rms_norm_tuned = triton.autotune(
    configs=[
        triton.Config({"ROWS": rows}, num_warps=warps) for rows, warps in ((1, 4), (1, 8), (2, 8), (4, 8), (1, 16))
    ],
    key=["hidden"],
)(_rms_norm)


@triton.jit
def _rms_norm_backward(
    dy_ptr,
    dh_ptr,
    x_ptr,
    weight_ptr,
    rstd_ptr,
    dx_ptr,
    partial_ptr,
    dy_stride,
    dh_stride,
    x_stride,
    rows,
    hidden,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    program, programs = tl.program_id(0), tl.num_programs(0)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < hidden
    weight = tl.load(weight_ptr + lanes, mask=mask, other=0.0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in tl.range(program, rows, programs, num_stages=STAGES):
        at = tl.cast(row, tl.int64)
        x = tl.load(x_ptr + at * x_stride + lanes, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + at * dy_stride + lanes, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + at)
        normed = x * rstd
        scaled = dy * weight.to(tl.float32)
        dx = (scaled - normed * (tl.sum(scaled * normed, axis=0) / hidden)) * rstd
        if dh_ptr is not None:
            dx += tl.load(dh_ptr + at * dh_stride + lanes, mask=mask, other=0.0).to(tl.float32)
        tl.store(dx_ptr + at * hidden + lanes, dx.to(dx_ptr.dtype.element_ty), mask=mask)
        total += dy * normed
    tl.store(partial_ptr + program.to(tl.int64) * hidden + lanes, total, mask=mask)


def rms_norm_backward(
    dy: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    rstd: torch.Tensor,
    dh: torch.Tensor | None = None,
    *,
    num_warps: int = 8,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of what is normalised and of the weight.

    Args:
        dy: gradient of the normalised rows, of the shape of ``x``.
        x: (rows, hidden), what was normalised.
        weight: (hidden,).
        rstd: (rows,), float32, that the forward pass left.
        dh: another gradient of ``x``, added on; None for none.
        num_warps: warps (wavefronts) of a program; more for long rows.

    Returns:
        ``(dx, dweight)``.
    """
    rows, hidden = x.shape
    dy = gradient_rows(dy)
    dh = None if dh is None else gradient_rows(dh)
    programs = min(rows, PROGRAMS)
    dx = torch.empty((rows, hidden), dtype=x.dtype, device=x.device)
    partial = torch.empty((1, programs, hidden), dtype=torch.float32, device=x.device)
    _rms_norm_backward[(programs,)](
        dy,
        dh,
        x,
        weight,
        rstd,
        dx,
        partial,
        dy.stride(0),
        0 if dh is None else dh.stride(0),
        x.stride(0),
        rows,
        hidden,
        BLOCK=triton.next_power_of_2(hidden),
        STAGES=backward_stages(hidden, 2 if dh is None else 3, x),
        num_warps=backward_warps(hidden, num_warps),
    )
    return dx, column_sums(partial, weight.dtype)[0]


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps, num_warps, tuned) -> torch.Tensor:
        rows = as_rows("x", x)
        count, hidden = rows.shape
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        kept = any(ctx.needs_input_grad)
        rstd = torch.empty(count, dtype=torch.float32, device=x.device) if kept else None
        if rows.numel():
            arguments = (rows, weight, y, rstd, rows.stride(0), count, hidden, eps)
            block = triton.next_power_of_2(hidden)
            if tuned:
                _rms_norm_tuned[lambda meta: (triton.cdiv(count, meta["ROWS"]),)](*arguments, BLOCK=block)
            else:
                taken = max(1, ELEMENTS_PER_WARP * num_warps // block)
                grid = (triton.cdiv(count, taken),)
                _rms_norm[grid](*arguments, ROWS=taken, BLOCK=block, num_warps=num_warps)
        if kept:
            ctx.save_for_backward(rows, weight, rstd)
            ctx.num_warps = BACKWARD_WARPS if tuned else num_warps
        return y

    @staticmethod
    def backward(ctx, dy) -> tuple:
        rows, weight, rstd = ctx.saved_tensors
        if not rows.numel():
            return torch.zeros_like(dy), torch.zeros_like(weight), None, None, None
        dx, dweight = rms_norm_backward(dy, rows, weight, rstd, num_warps=ctx.num_warps)
        return dx.view(dy.shape), dweight, None, None, None


def rms_norm(
    x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6, *, num_warps: int = 8, tuned: bool = False
) -> torch.Tensor:
    """RMS norm over the last axis, differentiable.

    Args:
        x: (…, hidden), last axis contiguous; float32, float16 or bfloat16.
        weight: (hidden,), of the dtype of ``x``.
        eps: added to the mean square.
        num_warps: warps (wavefronts) of a program.
        tuned: choose warps and rows of a program by trial, forward.

    Returns:
        A contiguous tensor of the shape and dtype of ``x``.

    Raises:
        TypeError: an argument of another type or dtype.
        ValueError: an argument of another shape or device, with gaps within rows, or rows
            longer than one block may be.
    """
    check_tensor("x", x)
    as_rows("x", x)
    check_vector("weight", weight, "x", x, x.shape[-1])
    check_most("hidden size", x.shape[-1], MAX_HIDDEN, "the most one block holds")
    return _RmsNorm.apply(x, weight, eps, num_warps, tuned)


def reference(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """The unfused chain, one kernel an operation, in the dtype of its inputs."""
    mean_square = x.square().mean(dim=-1, keepdim=True)
    return x * torch.rsqrt(mean_square + eps) * weight


def inputs(make, shape, dtype):
    """Elements of x in [-1, 1), weights around 1 as trained norms have them."""
    return {"x": make.uniform(shape, dtype), "weight": make.uniform(shape[-1:], dtype, low=0.5, high=1.5)}


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    rows, hidden = shape
    n, size = rows * hidden, DTYPE_BYTES[dtype]
    return Work(
        fused_bytes=(2 * n + hidden) * size,
        unfused_bytes=(7 * n + 6 * rows + hidden) * size,
        flops=4 * n + 3 * rows,
    )


def backward_work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations of the gradients, derived in the module's docstring."""
    rows, hidden = shape
    n, size = rows * hidden, DTYPE_BYTES[dtype]
    return Work(
        fused_bytes=(3 * n + 2 * hidden) * size,
        unfused_bytes=(24 * n + 9 * rows + 2 * hidden) * size,
        flops=9 * n,
    )


@LIGER.call()
def liger_rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Liger-Kernel's; casts as Llama does, not in place of the incoming gradient."""
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction  # noqa: PLC0415 - where it is installed

    return LigerRMSNormFunction.apply(x, weight, eps, 0.0, "llama", False)


case = KernelCase(
    name="rms_norm",
    fused=rms_norm,
    reference=reference,
    inputs=inputs,
    work=work,
    backward_work=backward_work,
    shapes=((16384, 4096), (4096, 8192), (4096, 2880), (8192, 3584), (131072, 128), (1, 4096), (4096, 4095)),
    small_shapes=((3, 4096), (4, 2880), (70, 128), (2, 4095)),
    dtypes=("float32", "float16", "bfloat16"),
    variants={
        "w8": {"num_warps": 8},
        "w4": {"num_warps": 4},
        "w16": {"num_warps": 16},
        "auto": {"tuned": True},
    },
    directions=(Direction.FORWARD, Direction.BACKWARD),
    deterministic=True,
    row_inputs=("x",),
    strided_inputs=("x",),
    baselines={"torch": pytorch.rms_norm, "liger": liger_rms_norm, "aiter": aiter.rms_norm},
)
