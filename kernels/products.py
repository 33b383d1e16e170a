"""What the cases with matrix products share: order of tiles, a tile's product, a linear layer, checks.

A product is ``x wᵀ``, both operands with contiguous rows, as ``nn.Linear`` has them. It is
taken one of two ways from the same source:

pointers     blocks of addresses; rows beyond the end are clamped to the last one, columns
             beyond K are masked in the last step alone.
descriptors  ``tl.make_tensor_descriptor``: on sm_90 and later the tensor memory accelerator
             copies whole tiles and fills with zeros beyond the end; Triton rewrites the same
             loads to masked pointers on every other target. Rows must begin on 16 bytes;
             float32 takes pointers, see ``tiles.describable``.

Products of float32 ask for ``ieee``: tf32 and xf32 don't exist on every target, and a case
that allowed them could not tell their error from a fault.

Sources:
    1. Triton tutorial 03, matrix multiplication: groups of tiles that share rows in cache.
    2. Triton tutorial 09, persistent matmul: tiles in a loop, stores in parts.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from arguments import (
    FLOATS,
    check_axes,
    check_beside,
    check_most,
    check_shape,
    check_tensor,
    check_unit_stride,
    check_vector,
)
from tiles import NARROW, PORTABLE, Tiles, autotuned, best

BFLOAT16_GAP = {"bfloat16": "Triton's interpreter multiplies the raw bits of bfloat16"}

MAX_STRIDE = 2**22  # elements between rows: 256 of them lie within 32-bit offsets


@triton.jit
def tile_position(tile, tiles_m, tiles_n, GROUP: tl.constexpr):
    """Row and column of a tile: GROUP rows of tiles are walked column by column."""
    per_group = GROUP * tiles_n
    first = tile // per_group * GROUP
    rows = tl.minimum(tiles_m - first, GROUP)
    within = tile % per_group
    return first + within % rows, within // rows


@triton.jit
def operand(ptr, rows, columns, stride, BLOCK: tl.constexpr, COLUMNS: tl.constexpr, DESCRIPTORS: tl.constexpr):
    """What tiles of a matrix are loaded from and stored to: a descriptor of such tiles, or the pointer."""
    if DESCRIPTORS:
        return tl.make_tensor_descriptor(ptr, [rows, columns], [stride.to(tl.int64), 1], [BLOCK, COLUMNS])
    else:  # noqa: RET505 - Triton takes what follows a constant branch for code of both
        return ptr


@triton.jit
def load_tile(
    source, m, n, rows, columns, stride, BLOCK: tl.constexpr, COLUMNS: tl.constexpr, DESCRIPTORS: tl.constexpr
):
    """The tile at row m and column n in float32, zeros beyond the end."""
    if DESCRIPTORS:
        return source.load([m, n]).to(tl.float32)
    else:  # noqa: RET505
        i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, COLUMNS)[None, :]
        mask = (i < rows - m) & (j < columns - n)
        return tl.load(source + m.to(tl.int64) * stride + n + (i * stride + j), mask=mask, other=0.0).to(tl.float32)


@triton.jit
def store_tile(
    target, tile, m, n, rows, columns, stride, BLOCK: tl.constexpr, COLUMNS: tl.constexpr, DESCRIPTORS: tl.constexpr
):
    """Write a tile at row m and column n, rounded once; what is beyond the end is left out."""
    if DESCRIPTORS:
        target.store([m, n], tile.to(target.dtype))
    else:
        i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, COLUMNS)[None, :]
        mask = (i < rows - m) & (j < columns - n)
        pointers = target + m.to(tl.int64) * stride + n + (i * stride + j)
        tl.store(pointers, tile.to(target.dtype.element_ty), mask=mask)


@triton.jit
def tile_product(
    x,
    w,
    m,
    n,
    M,
    N,
    K,
    x_stride,
    w_stride,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
    EVEN_K: tl.constexpr,
):
    """Rows m… of x times rows n… of w, transposed: (BLOCK_M, BLOCK_N) in float32."""
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    if DESCRIPTORS:
        for k in range(0, K, BLOCK_K):
            a = x.load([m, k])
            b = w.load([n, k])
            total = tl.dot(a, b.T, total, input_precision="ieee")
    else:
        # A tile's own offsets fit 32 bits, where its first row may not.
        lanes = tl.arange(0, BLOCK_K)
        a_rows = tl.minimum(tl.arange(0, BLOCK_M), M - 1 - m)
        b_rows = tl.minimum(tl.arange(0, BLOCK_N), N - 1 - n)
        a_ptrs = x + m.to(tl.int64) * x_stride + (a_rows[:, None] * x_stride + lanes[None, :])
        b_ptrs = w + n.to(tl.int64) * w_stride + (b_rows[None, :] * w_stride + lanes[:, None])
        for k in range(0, K, BLOCK_K):
            if EVEN_K:
                a = tl.load(a_ptrs)
                b = tl.load(b_ptrs)
            else:
                a = tl.load(a_ptrs, mask=lanes[None, :] < K - k, other=0.0)
                b = tl.load(b_ptrs, mask=lanes[:, None] < K - k, other=0.0)
            total = tl.dot(a, b, total, input_precision="ieee")
            a_ptrs += BLOCK_K
            b_ptrs += BLOCK_K
    return total


@triton.jit
def halves(total, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Left and right half of a tile: half the registers and shared memory at a time for what follows."""
    return total.reshape((BLOCK_M, 2, BLOCK_N // 2)).permute((0, 2, 1)).split()


@triton.jit
def activated(z, ACTIVATION: tl.constexpr):
    """GELU in its tanh form, SiLU, or z itself.

    (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)); factors of u and log2(e) are folded into one polynomial.
    """
    if ACTIVATION == "gelu":
        return z / (1.0 + tl.exp2(z * (-2.3022081987 - 0.1029432396 * (z * z))))
    elif ACTIVATION == "silu":  # noqa: RET505
        return z / (1.0 + tl.exp2(-1.4426950408889634 * z))
    else:
        return z


@triton.jit
def _finish(
    total, y, residual, scale_ptr, bias_ptr, m, n, M, N, residual_stride, BLOCK: tl.constexpr, COLUMNS: tl.constexpr,
    DESCRIPTORS: tl.constexpr, SCALE: tl.constexpr, BIAS: tl.constexpr, ACTIVATION: tl.constexpr,
    RESIDUAL: tl.constexpr,
):  # fmt: skip
    columns = n + tl.arange(0, COLUMNS)
    if SCALE:
        total *= tl.load(scale_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)[None, :]
    if BIAS:
        total += tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)[None, :]
    total = activated(total, ACTIVATION)
    if RESIDUAL:
        total += load_tile(residual, m, n, M, N, residual_stride, BLOCK, COLUMNS, DESCRIPTORS)
    store_tile(y, total, m, n, M, N, N, BLOCK, COLUMNS, DESCRIPTORS)


@triton.jit
def _finish_halves(
    total, y, residual, scale_ptr, bias_ptr, m, n, M, N, residual_stride, BLOCK: tl.constexpr, COLUMNS: tl.constexpr,
    DESCRIPTORS: tl.constexpr, SCALE: tl.constexpr, BIAS: tl.constexpr, ACTIVATION: tl.constexpr,
    RESIDUAL: tl.constexpr,
):  # fmt: skip
    left, right = halves(total, BLOCK, 2 * COLUMNS)
    _finish(
        left, y, residual, scale_ptr, bias_ptr, m, n, M, N, residual_stride, BLOCK, COLUMNS, DESCRIPTORS, SCALE, BIAS,
        ACTIVATION, RESIDUAL,
    )  # fmt: skip
    _finish(
        right, y, residual, scale_ptr, bias_ptr, m, n + COLUMNS, M, N, residual_stride, BLOCK, COLUMNS, DESCRIPTORS,
        SCALE, BIAS, ACTIVATION, RESIDUAL,
    )  # fmt: skip


@triton.jit
def linear_kernel(
    x_ptr, w_ptr, y_ptr, residual_ptr, scale_ptr, bias_ptr, M, N, K, x_stride, w_stride, residual_stride,
    EVEN_K: tl.constexpr, SCALE: tl.constexpr, BIAS: tl.constexpr, ACTIVATION: tl.constexpr, RESIDUAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
    DESCRIPTORS: tl.constexpr, PARTS: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    """The layer: activation(scale * (x wᵀ) + bias) + residual, with what of it is asked for."""
    COLUMNS: tl.constexpr = BLOCK_N // PARTS
    x = operand(x_ptr, M, K, x_stride, BLOCK_M, BLOCK_K, DESCRIPTORS)
    w = operand(w_ptr, N, K, w_stride, BLOCK_N, BLOCK_K, DESCRIPTORS)
    y = operand(y_ptr, M, N, N, BLOCK_M, COLUMNS, DESCRIPTORS)
    residual = operand(residual_ptr, M, N, residual_stride, BLOCK_M, COLUMNS, DESCRIPTORS and RESIDUAL)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=FLATTEN):
        row, column = tile_position(tile, tiles_m, tiles_n, GROUP)
        m, n = row * BLOCK_M, column * BLOCK_N
        total = tile_product(
            x, w, m, n, M, N, K, x_stride, w_stride, BLOCK_M, BLOCK_N, BLOCK_K, DESCRIPTORS, EVEN_K
        )  # fmt: skip
        if PARTS == 1:
            _finish(
                total, y, residual, scale_ptr, bias_ptr, m, n, M, N, residual_stride, BLOCK_M, COLUMNS, DESCRIPTORS,
                SCALE, BIAS, ACTIVATION, RESIDUAL,
            )  # fmt: skip
        elif PARTS == 2:
            _finish_halves(
                total, y, residual, scale_ptr, bias_ptr, m, n, M, N, residual_stride, BLOCK_M, COLUMNS, DESCRIPTORS,
                SCALE, BIAS, ACTIVATION, RESIDUAL,
            )  # fmt: skip
        else:
            left, right = halves(total, BLOCK_M, BLOCK_N)
            _finish_halves(
                left, y, residual, scale_ptr, bias_ptr, m, n, M, N, residual_stride, BLOCK_M, COLUMNS, DESCRIPTORS,
                SCALE, BIAS, ACTIVATION, RESIDUAL,
            )  # fmt: skip
            _finish_halves(
                right, y, residual, scale_ptr, bias_ptr, m, n + 2 * COLUMNS, M, N, residual_stride, BLOCK_M, COLUMNS,
                DESCRIPTORS, SCALE, BIAS, ACTIVATION, RESIDUAL,
            )  # fmt: skip


tuned_linear_kernel = autotuned(
    linear_kernel, "GROUP", "PARTS", "FLATTEN", matrices=("x_ptr", "w_ptr", "y_ptr", "residual_ptr")
)


def linear(
    x: torch.Tensor,
    w: torch.Tensor,
    *,
    scale: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    activation: str = "none",
    residual: torch.Tensor | None = None,
    **tunables: Any,
) -> torch.Tensor:
    """activation(scale * (x wᵀ) + bias) + residual in one kernel.

    Args:
        x: (M, K), rows contiguous.
        w: (N, K), rows contiguous.
        scale: (N,) or none.
        bias: (N,) or none.
        activation: ``none``, ``gelu`` (tanh form) or ``silu``.
        residual: (M, N), rows contiguous, or none.
        tunables: fields of ``tiles.Tiles``.

    Returns:
        (M, N), contiguous, in the dtype of ``x``.

    Raises:
        TypeError: an operand is no tensor of a dtype served, or of another than ``x``.
        ValueError: a shape, device or stride that is not served.
    """
    check_operands(x, w, scale=scale, bias=bias, residual=residual)
    (M, K), N = x.shape, w.shape[0]
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    extra = x if residual is None else residual
    tiles = Tiles.settled(tunables, M, x, w, y, extra)
    tiles = tiles.fitted(x, M, finished=x.element_size() * (1 if residual is None else 2))
    grid = tiles.programs(x.device, lambda block_m, block_n: triton.cdiv(M, block_m) * triton.cdiv(N, block_n))
    kernel = tuned_linear_kernel if tiles.tuned else linear_kernel
    kernel[grid](
        *(x, w, y, extra, w if scale is None else scale, w if bias is None else bias, M, N, K),
        *(x.stride(0), w.stride(0), extra.stride(0)),
        EVEN_K=tiles.even(K),
        SCALE=scale is not None,
        BIAS=bias is not None,
        ACTIVATION=activation,
        RESIDUAL=residual is not None,
        **tiles.launch("GROUP", "PARTS", "FLATTEN"),
    )
    return y


WIDE = {
    "block_m": 128,
    "block_n": 256,
    "block_k": 64,
    "group": 16,
    "descriptors": True,
    "parts": 2,
    "flatten": True,
    "num_warps": 8,
    "num_stages": 4,
}

LINEAR_VARIANTS = {
    "p64x64": PORTABLE,
    "p128x128": {"block_m": 128, "block_n": 128, "block_k": 32, "num_warps": 8, "num_stages": 3},
    "d128x128": {"block_m": 128, "block_n": 128, "block_k": 64, "descriptors": True, "num_warps": 4, "num_stages": 4},
    "d128x256": WIDE,
    "best": best(PORTABLE, sm_90={**WIDE, "few_rows": NARROW}),
    "auto": {"tuned": True},
}
"""Variants of the cases that are one call of :func:`linear`."""


def check_operands(
    x: torch.Tensor,
    w: torch.Tensor,
    *,
    scale: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
) -> None:
    """Refuse operands that :func:`linear` does not serve.

    Raises:
        TypeError: an operand is no tensor of a dtype served, or of another than ``x``.
        ValueError: a shape, device or stride that is not served.
    """
    check_matrix("x", x)
    (M, K), N = x.shape, check_matrix("w", w, x).shape[0]
    check_shape("w", w, (N, K))
    for name, vector in (("scale", scale), ("bias", bias)):
        if vector is not None:
            check_vector(name, vector, "x", x, N)
    if residual is not None:
        check_shape("residual", check_matrix("residual", residual, x), (M, N))


def check_matrix(name: str, value: object, like: torch.Tensor | None = None, like_name: str = "x") -> torch.Tensor:
    """The tensor itself: two axes, rows contiguous and not so far apart that a tile's offsets pass 32 bits.

    Args:
        name: of the argument.
        value: what was given for it.
        like: the operand whose dtype and device it must have.
        like_name: of that operand.
    """
    tensor = check_tensor(name, value, FLOATS if like is None else (like.dtype,))
    check_axes(name, tensor, 2, 2)
    check_unit_stride(name, tensor)
    if like is not None:
        check_beside(name, tensor, like_name, like)
    if tensor.numel():
        check_most(f"row stride of {name}", tensor.stride(0), MAX_STRIDE, "the most that a tile's offsets take")
    return tensor
