"""Residual addition and RMS normalisation of rows, as before each layer of a transformer.

    h = x + residual
    y = h / sqrt(mean(h²) + eps) * weight        returns (y, h)

    d = dh + r (w dy - n mean(w dy n)),  n = h r, r = 1 / sqrt(mean(h²) + eps)
    dx = dresidual = d,   dw = sum over rows of dy n

Forward, a program takes as many rows as make ``ELEMENTS_PER_WARP`` elements a warp, at
least one. They stay in registers between the two outputs, in float32: ``y`` is taken from
the unrounded sum, which saves one rounding of the unfused chain in 16-bit dtypes. Hidden
sizes that are no power of two are masked; zeros in the masked lanes add nothing to the sum
of squares. Backward is that of ``rms_norm.py`` at h, with the gradient of h added on.

Work of one forward call, N = rows × hidden, s = bytes per element:
    fused    x, residual and weight read, y and h written: (4 N + hidden) s.
    unfused  add 3 N, square 2 N, mean N + rows, + eps 2 rows, rsqrt 2 rows,
             × rstd 2 N + rows, × weight 2 N + hidden: (10 N + 6 rows + hidden) s.
             Fusion gains at most about 10 / 4 = 2.5.
    flops    per element: add, square, sum, × rstd, × weight = 5; per row: divide,
             + eps, rsqrt = 3.
Backward, what the forward pass leaves of r (4 B a row) not counted:
    fused    dy, dh, h and weight read, d and dw written: (4 N + 2 hidden) s; d is one tensor, the
             gradient of both addends.
    unfused  PyTorch's gradients of the chain: those of ``rms_norm.py`` and one addition more:
             (27 N + 9 rows + 2 hidden) s.
    flops    one addition more than there: 10 an element.

Speed on an H200 beside its goal: the table of ``scripts/suite_goals.py`` in ``reports/``.

Sources:
    1. B. Zhang, R. Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019,
       https://arxiv.org/abs/1910.07467
    2. Triton tutorial 05, layer normalization: one program a row, masked block.
    3. Hidden sizes: 2880 gpt-oss, 4096 Llama 3 8B, 7168 DeepSeek V3, 8192 Llama 3 70B.
"""

import torch
import triton
import triton.language as tl
from arguments import as_rows, check_like, check_most, check_tensor, check_unit_stride, check_vector
from column_sums import BACKWARD_WARPS
from rms_norm import rms_norm_backward

from portkit import Direction, KernelCase, Work
from portkit.baselines import aiter, flag_gems, flashinfer, liger, pytorch
from portkit.model import DTYPE_BYTES

MAX_HIDDEN = 65536  # elements of a row that one block may hold
ELEMENTS_PER_WARP = 512  # 16 a thread on 32 lanes and 8 on 64: whole 16-byte loads in every dtype


@triton.jit
def _add_rms_norm(
    x_ptr,
    residual_ptr,
    weight_ptr,
    y_ptr,
    h_ptr,
    rstd_ptr,
    x_stride,
    residual_stride,
    rows,
    hidden,
    eps,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    first = tl.program_id(0).to(tl.int64) * ROWS
    row = tl.arange(0, ROWS)
    lanes = tl.arange(0, BLOCK)
    there = row < rows - first
    within = lanes < hidden
    mask = there[:, None] & within[None, :]
    row = row.to(tl.int64)
    x = tl.load(x_ptr + first * x_stride + row[:, None] * x_stride + lanes[None, :], mask=mask, other=0.0)
    residual_at = residual_ptr + first * residual_stride + row[:, None] * residual_stride + lanes[None, :]
    residual = tl.load(residual_at, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + lanes, mask=within, other=0.0).to(tl.float32)
    h = x.to(tl.float32) + residual.to(tl.float32)
    at = first * hidden + row[:, None] * hidden + lanes[None, :]
    tl.store(h_ptr + at, h.to(h_ptr.dtype.element_ty), mask=mask)
    rstd = tl.rsqrt(tl.sum(h * h, axis=1) / hidden + eps)
    y = h * rstd[:, None] * weight[None, :]
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=mask)
    if rstd_ptr is not None:
        tl.store(rstd_ptr + first + row, rstd, mask=there)


_add_rms_norm_tuned = triton.autotune(
    configs=[
        triton.Config({"ROWS": rows}, num_warps=warps) for rows, warps in ((1, 4), (1, 8), (2, 8), (1, 16), (2, 16))
    ],
    key=["hidden"],
)(_add_rms_norm)


class _AddRmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, residual, weight, eps, num_warps, tuned) -> tuple[torch.Tensor, torch.Tensor]:
        rows, residual_rows = as_rows("x", x), as_rows("residual", residual)
        count, hidden = rows.shape
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        h = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        kept = any(ctx.needs_input_grad)
        rstd = torch.empty(count, dtype=torch.float32, device=x.device) if kept else None
        if rows.numel():
            strides = (rows.stride(0), residual_rows.stride(0))
            arguments = (rows, residual_rows, weight, y, h, rstd, *strides, count, hidden, eps)
            block = triton.next_power_of_2(hidden)
            if tuned:
                _add_rms_norm_tuned[lambda meta: (triton.cdiv(count, meta["ROWS"]),)](*arguments, BLOCK=block)
            else:
                taken = max(1, ELEMENTS_PER_WARP * num_warps // block)
                grid = (triton.cdiv(count, taken),)
                _add_rms_norm[grid](*arguments, ROWS=taken, BLOCK=block, num_warps=num_warps)
        if kept:
            ctx.save_for_backward(h, weight, rstd)
            ctx.num_warps = BACKWARD_WARPS if tuned else num_warps
        return y, h

    @staticmethod
    def backward(ctx, dy, dh) -> tuple:
        h, weight, rstd = ctx.saved_tensors
        if not h.numel():
            return torch.zeros_like(h), torch.zeros_like(h), torch.zeros_like(weight), None, None, None
        rows = as_rows("h", h)
        dx, dweight = rms_norm_backward(dy, rows, weight, rstd, dh, num_warps=ctx.num_warps)
        dx = dx.view(h.shape)
        return dx, dx, dweight, None, None, None


def add_rms_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float = 1e-6,
    *,
    num_warps: int = 8,
    tuned: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """RMS norm of ``x + residual``, and that sum; differentiable.

    Args:
        x: (…, hidden), last axis contiguous; float32, float16 or bfloat16.
        residual: of the shape and dtype of ``x``, last axis contiguous.
        weight: (hidden,), of the dtype of ``x``.
        eps: added to the mean square.
        num_warps: warps (wavefronts) of a program.
        tuned: choose warps and rows of a program by trial, forward.

    Returns:
        ``(normed, new_residual)``, contiguous, of the shape and dtype of ``x``.

    Raises:
        TypeError: an argument of another type or dtype.
        ValueError: an argument of another shape or device, with gaps within rows, or rows
            longer than one block may be.
    """
    check_tensor("x", x)
    as_rows("x", x)
    check_like("residual", residual, "x", x)
    check_unit_stride("residual", residual)
    check_vector("weight", weight, "x", x, x.shape[-1])
    check_most("hidden size", x.shape[-1], MAX_HIDDEN, "the most one block holds")
    return _AddRmsNorm.apply(x, residual, weight, eps, num_warps, tuned)


def reference(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """The unfused chain, one kernel an operation, in the dtype of its inputs."""
    h = x + residual
    mean_square = h.square().mean(dim=-1, keepdim=True)
    return h * torch.rsqrt(mean_square + eps) * weight, h


def inputs(make, shape, dtype):
    """Both addends in [-1, 1), weights around 1 as trained norms have them."""
    return {
        "x": make.uniform(shape, dtype),
        "residual": make.uniform(shape, dtype),
        "weight": make.uniform(shape[-1:], dtype, low=0.5, high=1.5),
    }


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    rows, hidden = shape
    n, size = rows * hidden, DTYPE_BYTES[dtype]
    return Work(
        fused_bytes=(4 * n + hidden) * size,
        unfused_bytes=(10 * n + 6 * rows + hidden) * size,
        flops=5 * n + 3 * rows,
    )


def backward_work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations of the gradients, derived in the module's docstring."""
    rows, hidden = shape
    n, size = rows * hidden, DTYPE_BYTES[dtype]
    return Work(
        fused_bytes=(4 * n + 2 * hidden) * size,
        unfused_bytes=(27 * n + 9 * rows + 2 * hidden) * size,
        flops=10 * n,
    )


case = KernelCase(
    name="add_rms_norm",
    fused=add_rms_norm,
    reference=reference,
    inputs=inputs,
    work=work,
    backward_work=backward_work,
    shapes=((4096, 4096), (16384, 4096), (2048, 8192), (4096, 2880), (2048, 7168), (1, 4096)),
    small_shapes=((3, 4096), (4, 2880)),
    dtypes=("float32", "float16", "bfloat16"),
    variants={
        "w4": {"num_warps": 4},
        "w8": {"num_warps": 8},
        "w16": {"num_warps": 16},
        "auto": {"tuned": True},
    },
    directions=(Direction.FORWARD, Direction.BACKWARD),
    deterministic=True,
    row_inputs=("x", "residual"),
    strided_inputs=("x", "residual"),
    baselines={
        "torch": pytorch.add_rms_norm,
        "liger": liger.add_rms_norm,
        "flashinfer": flashinfer.add_rms_norm,
        "flag_gems": flag_gems.add_rms_norm,
        "aiter": aiter.add_rms_norm,
    },
)
