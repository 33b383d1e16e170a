"""Residual addition and RMS normalisation of rows, as before each layer of a transformer.

    h = x + residual
    y = h / sqrt(mean(h²) + eps) * weight        returns (y, h)

One program a row. The row stays in registers between the two outputs, in float32:
``y`` is taken from the unrounded sum, which saves one rounding of the unfused chain
in 16-bit dtypes. Hidden sizes that are no power of two are masked; zeros in the masked
lanes add nothing to the sum of squares.

Work of one call, N = rows × hidden, s = bytes per element:
    fused    x, residual and weight read, y and h written: (4 N + hidden) s.
    unfused  add 3 N, square 2 N, mean N + rows, + eps 2 rows, rsqrt 2 rows,
             × rstd 2 N + rows, × weight 2 N + hidden: (10 N + 6 rows + hidden) s.
             Fusion gains at most about 10 / 4 = 2.5.
    flops    per element: add, square, sum, × rstd, × weight = 5; per row: divide,
             + eps, rsqrt = 3.

Sources:
    1. B. Zhang, R. Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019,
       https://arxiv.org/abs/1910.07467
    2. Triton tutorial 05, layer normalization: one program a row, masked block.
    3. Hidden sizes: 2880 gpt-oss, 4096 Llama 3 8B, 7168 DeepSeek V3, 8192 Llama 3 70B.
"""

import torch
import triton
import triton.language as tl

from portkit import KernelCase, Work
from portkit.baselines import flag_gems, flashinfer, liger, pytorch
from portkit.model import DTYPE_BYTES

MAX_HIDDEN = 65536  # elements of a row that one block may hold


@triton.jit
def _add_rms_norm(
    x_ptr, residual_ptr, weight_ptr, y_ptr, h_ptr, x_stride, residual_stride, hidden, eps, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < hidden
    x = tl.load(x_ptr + row * x_stride + lanes, mask=mask, other=0.0).to(tl.float32)
    residual = tl.load(residual_ptr + row * residual_stride + lanes, mask=mask, other=0.0).to(tl.float32)
    h = x + residual
    tl.store(h_ptr + row * hidden + lanes, h.to(h_ptr.dtype.element_ty), mask=mask)
    rstd = tl.rsqrt(tl.sum(h * h, axis=0) / hidden + eps)
    weight = tl.load(weight_ptr + lanes, mask=mask, other=0.0).to(tl.float32)
    y = h * rstd * weight
    tl.store(y_ptr + row * hidden + lanes, y.to(y_ptr.dtype.element_ty), mask=mask)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6, *, num_warps: int = 8
) -> tuple[torch.Tensor, torch.Tensor]:
    """RMS norm of ``x + residual``, and that sum.

    Args:
        x: (…, hidden), last dimension contiguous.
        residual: of the shape and dtype of ``x``.
        weight: (hidden,).
        eps: added to the mean square.
        num_warps: warps (wavefronts) of a program.

    Returns:
        ``(normed, new_residual)``, contiguous, of the shape and dtype of ``x``.

    Raises:
        ValueError: a row is longer than one block may be.
    """
    hidden = x.shape[-1]
    if hidden > MAX_HIDDEN:
        raise ValueError(f"hidden size {hidden} is over {MAX_HIDDEN}, the most one block holds")
    rows, residual_rows = x.reshape(-1, hidden), residual.reshape(-1, hidden)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    h = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _add_rms_norm[(rows.shape[0],)](
        rows,
        residual_rows,
        weight,
        y,
        h,
        rows.stride(0),
        residual_rows.stride(0),
        hidden,
        eps,
        BLOCK=triton.next_power_of_2(hidden),
        num_warps=num_warps,
    )
    return y, h


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


case = KernelCase(
    name="add_rms_norm",
    fused=add_rms_norm,
    reference=reference,
    inputs=inputs,
    work=work,
    shapes=((4096, 4096), (2048, 8192), (4096, 2880), (2048, 7168), (1, 4096)),
    small_shapes=((4, 4096), (4, 2880)),
    dtypes=("float32", "float16", "bfloat16"),
    variants={"w4": {"num_warps": 4}, "w8": {"num_warps": 8}, "w16": {"num_warps": 16}},
    deterministic=True,
    row_inputs=("x", "residual"),
    strided_inputs=("x", "residual"),
    baselines={
        "torch": pytorch.add_rms_norm,
        "liger": liger.add_rms_norm,
        "flashinfer": flashinfer.add_rms_norm,
        "flag_gems": flag_gems.add_rms_norm,
    },
)
