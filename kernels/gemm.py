"""A plain large matrix product: the control that fusion can't speed up, alone and amid other traffic.

    gemm            y = x wᵀ,                            x (M, K), w (N, K), y (M, N)
    gemm_traffic    y = scale * (x wᵀ) + residual,       scale (N), residual (M, N)

Sums in float32, rounded once. A chain of one product has nothing to fuse: its fusion bound is 1,
and a gain shown here is that of a better product and not of fusion. ``gemm_traffic`` takes the
element-wise passes around it into the same kernel; they are memory bound and the product is not,
so fusion gains no more than the few per cent that they took.

Tiles are walked in groups of rows, so that what runs at one time shares rows of x and w in the
L2 cache. Two ways to load a tile, see ``products.py``; with descriptors the programs are
persistent, as many as there are units, and the loop over tiles and that over K are one loop, so
that the next tile's loads run during the stores. Blocks shrink with M, down to the 16 rows of a
decode step.

Speed on an H200 beside its goal: the table of ``scripts/suite_goals.py`` in ``reports/``.

Work of one call, s = bytes per element:
    gemm           fused = unfused: x, w read, y written: (M K + N K + M N) s; 2 M N K flops.
    gemm_traffic   fused adds the residual and the scales: (M K + N K + 2 M N + N) s.
                   unfused: the product as above, × scale 2 M N + N, + residual 3 M N:
                   (M K + N K + 6 M N + N) s. flops 2 M N K + 2 M N.
    Compute bound where flops / bytes is over the device's ratio (H200, 16 bits: 989 TFLOP/s over
    4.8 TB/s = 206): all shapes but that with M = 16, whose ratio is 16 and which is bound by
    reading w.

Products of float32 are not allowed tf32: ``ieee``, see ``products.py``.

Sources:
    1. Triton tutorials 03 and 09, see products.py.
    2. K. Goto, R. van de Geijn, "Anatomy of high-performance matrix multiplication", ACM
       TOMS 34(3), 2008.
    3. Shapes: feed-forward of Llama 3 8B (4096, 14336) and 70B (8192, 28672), Qwen 2.5 7B
       (3584, 18944); 4100 rows leave a last tile of 4.
"""

from typing import Any

import torch
from products import BFLOAT16_GAP, LINEAR_VARIANTS, linear

from portkit import KernelCase, Work
from portkit.model import DTYPE_BYTES


def gemm(x: torch.Tensor, w: torch.Tensor, **tunables: Any) -> torch.Tensor:
    """X wᵀ.

    Args:
        x: (M, K), rows contiguous.
        w: (N, K), rows contiguous, of the dtype of ``x``.
        tunables: fields of ``tiles.Tiles``.

    Returns:
        (M, N), contiguous, in the dtype of ``x``.

    Raises:
        TypeError: an operand is no tensor of a dtype served, or of another than ``x``.
        ValueError: a shape, device or stride that is not served.
    """
    return linear(x, w, **tunables)


def gemm_traffic(
    x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor, residual: torch.Tensor, **tunables: Any
) -> torch.Tensor:
    """Scale * (x wᵀ) + residual; see :func:`gemm`.

    Args:
        x: (M, K), rows contiguous.
        w: (N, K), rows contiguous.
        scale: (N,).
        residual: (M, N), rows contiguous.
        tunables: fields of ``tiles.Tiles``.

    Returns:
        (M, N), contiguous, in the dtype of ``x``.

    Raises:
        TypeError: an operand is no tensor of a dtype served, or of another than ``x``.
        ValueError: a shape, device or stride that is not served.
    """
    return linear(x, w, scale=scale, residual=residual, **tunables)


def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The product alone; on a GPU that of the vendor's library."""
    return x @ w.t()


def reference_traffic(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """The unfused chain, one kernel an operation."""
    return (x @ w.t()) * scale + residual


def inputs(make, shape, dtype):
    """Rows of x in [-1, 1); weights as small as trained ones, so that products stay near 1."""
    m, n, k = shape
    return {"x": make.uniform((m, k), dtype), "w": make.uniform((n, k), dtype, low=-0.0625, high=0.0625)}


def inputs_traffic(make, shape, dtype):
    """As for the product, with scales around 1."""
    m, n, _ = shape
    return {
        **inputs(make, shape, dtype),
        "scale": make.uniform((n,), dtype, low=0.5, high=1.5),
        "residual": make.uniform((m, n), dtype),
    }


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    m, n, k = shape
    moved = (m * k + n * k + m * n) * DTYPE_BYTES[dtype]
    return Work(fused_bytes=moved, unfused_bytes=moved, flops=2 * m * n * k)


def work_traffic(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    m, n, k = shape
    size, operands = DTYPE_BYTES[dtype], m * k + n * k + n
    return Work(
        fused_bytes=(operands + 2 * m * n) * size,
        unfused_bytes=(operands + 6 * m * n) * size,
        flops=2 * m * n * k + 2 * m * n,
    )


SHAPES = ((8192, 14336, 4096), (4096, 4096, 14336), (4096, 8192, 28672), (4100, 18944, 3584), (16, 14336, 4096))


gemm_case = KernelCase(
    name="gemm",
    fused=gemm,
    reference=reference,
    inputs=inputs,
    work=work,
    shapes=SHAPES,
    small_shapes=((130, 136, 128), (5, 264, 200)),
    dtypes=("float32", "float16", "bfloat16"),
    variants=LINEAR_VARIANTS,
    interpreter_gaps=BFLOAT16_GAP,
    deterministic=True,
    row_inputs=("x",),
    strided_inputs=("x", "w"),
)

traffic_case = KernelCase(
    name="gemm_traffic",
    fused=gemm_traffic,
    reference=reference_traffic,
    inputs=inputs_traffic,
    work=work_traffic,
    shapes=SHAPES,
    small_shapes=((130, 136, 128), (5, 264, 200)),
    dtypes=("float32", "float16", "bfloat16"),
    variants=LINEAR_VARIANTS,
    interpreter_gaps=BFLOAT16_GAP,
    deterministic=True,
    row_inputs=("x", "residual"),
    strided_inputs=("x", "w", "residual"),
)
