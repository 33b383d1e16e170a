"""A linear layer with bias, activation and residual: the element-wise chain in the product's epilogue.

    y = gelu(x wᵀ + bias) + residual           gemm_epilogue, tanh form of GELU
    y = silu(x wᵀ + bias) + residual           gemm_epilogue_silu
    gelu(z) = z/2 (1 + tanh(sqrt(2/π) (z + 0.044715 z³))) = z σ(2 sqrt(2/π) (z + 0.044715 z³))
    silu(z) = z σ(z)

The product's tile is in registers in float32 when bias, activation and residual are applied, and
is rounded once. Kernel, tiles and stages are those of ``products.py``, as in ``gemm.py``. A large
tile is finished in halves, so that half of it has shared memory and registers at a time.

Speed on an H200 beside its goal: the table of ``scripts/suite_goals.py`` in ``reports/``. What it takes longer
than the product alone is the epilogue itself, during which the tensor cores wait. Producers and consumers
do not help: see ``producer_consumer_gemm.py``.

Work of one call, s = bytes per element:
    fused    x, w, bias and residual read, y written: (M K + N K + N + 2 M N) s.
    unfused  product M K + N K + M N, + bias 2 M N + N, activation 2 M N, + residual 3 M N:
             (M K + N K + N + 8 M N) s.
    flops    2 M N K of the product; an element: + bias, + residual = 2, and tanh-GELU: five
             products, sum, tanh, sum = 8; silu: negate, exp, add, divide = 4.
    Compute bound from M of about 300 on (H200, 16 bits): at 8192 × 14336 × 4096 the product takes
    1.0 ms of tensor cores at their peak, and the bytes of the fused kernel 0.13 ms of memory. So
    fusion saves at most the chain's own 6 M N s bytes, 0.29 ms there: about a fifth, whatever the
    ratio of bytes says.

Products of float32 are not allowed tf32: ``ieee``, see ``products.py``.

Sources:
    1. D. Hendrycks, K. Gimpel, "Gaussian Error Linear Units", https://arxiv.org/abs/1606.08415
    2. S. Elfwing, E. Uchibe, K. Doya, "Sigmoid-weighted linear units", https://arxiv.org/abs/1702.03118
    3. A. Kerr et al., "CUTLASS: fast linear algebra in CUDA C++", NVIDIA, 2017: epilogues.
    4. Shapes: feed-forward of Llama 3 8B (4096, 14336), Mistral 7B the same, Qwen 2.5 7B
       (3584, 18944); 4100 rows leave a last tile of 4.
"""

import functools
from typing import Any

import torch
from products import BFLOAT16_GAP, LINEAR_VARIANTS, linear

from portkit import KernelCase, Work
from portkit.baselines import pytorch
from portkit.baselines.library import TORCH
from portkit.model import DTYPE_BYTES

ACTIVATION_FLOPS = {"gelu": 8, "silu": 4}


def gemm_epilogue(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor,
    residual: torch.Tensor,
    *,
    activation: str = "gelu",
    **tunables: Any,
) -> torch.Tensor:
    """activation(x wᵀ + bias) + residual.

    Args:
        x: (M, K), rows contiguous.
        w: (N, K), rows contiguous.
        bias: (N,).
        residual: (M, N), rows contiguous.
        activation: ``gelu`` (tanh form) or ``silu``.
        tunables: fields of ``tiles.Tiles``.

    Returns:
        (M, N), contiguous, in the dtype of ``x``.

    Raises:
        TypeError: an operand is no tensor of a dtype served, or of another than ``x``.
        ValueError: a shape, device or stride that is not served, or another activation.
    """
    if activation not in ACTIVATION_FLOPS:
        raise ValueError(f"activation is {activation!r}, not one of {', '.join(ACTIVATION_FLOPS)}")
    return linear(x, w, bias=bias, activation=activation, residual=residual, **tunables)


def reference(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """The unfused chain with GELU, one kernel an operation."""
    return torch.nn.functional.gelu(x @ w.t() + bias, approximate="tanh") + residual


def reference_silu(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """The unfused chain with SiLU, one kernel an operation."""
    return torch.nn.functional.silu(x @ w.t() + bias) + residual


def inputs(make, shape, dtype):
    """Rows of x in [-1, 1); weights as small as trained ones, so that the activation bends."""
    m, n, k = shape
    return {
        "x": make.uniform((m, k), dtype),
        "w": make.uniform((n, k), dtype, low=-0.0625, high=0.0625),
        "bias": make.uniform((n,), dtype),
        "residual": make.uniform((m, n), dtype),
    }


def work(shape: tuple[int, ...], dtype: str, activation: str = "gelu") -> Work:
    """Bytes and operations, derived in the module's docstring."""
    m, n, k = shape
    size, operands = DTYPE_BYTES[dtype], m * k + n * k + n
    return Work(
        fused_bytes=(operands + 2 * m * n) * size,
        unfused_bytes=(operands + 8 * m * n) * size,
        flops=2 * m * n * k + (2 + ACTIVATION_FLOPS[activation]) * m * n,
    )


@TORCH.call()
def cublaslt(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """gelu(x wᵀ + bias) in cuBLASLt's epilogue, then an addition: two kernels. Arguments as :func:`gemm_epilogue`."""
    y: torch.Tensor = pytorch.linear_gelu(x=x, weight=w, bias=bias) + residual
    return y


SHARED = {
    "inputs": inputs,
    "shapes": ((8192, 14336, 4096), (4096, 4096, 14336), (4100, 18944, 3584), (16, 14336, 4096)),
    "small_shapes": ((130, 136, 128), (5, 264, 200)),
    "dtypes": ("float32", "float16", "bfloat16"),
    "variants": LINEAR_VARIANTS,
    "interpreter_gaps": BFLOAT16_GAP,
    "reduction_length": lambda shape: shape[-1],
    "deterministic": True,
    "row_inputs": ("x", "residual"),
    "strided_inputs": ("x", "w", "residual"),
}

gelu_case = KernelCase(
    name="gemm_epilogue",
    fused=gemm_epilogue,
    reference=reference,
    work=work,
    baselines={"cublaslt": cublaslt},
    **SHARED,
)

silu_case = KernelCase(
    name="gemm_epilogue_silu",
    fused=functools.partial(gemm_epilogue, activation="silu"),
    reference=reference_silu,
    work=functools.partial(work, activation="silu"),
    **SHARED,
)
