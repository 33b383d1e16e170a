"""Liger-Kernel's layer norm, forward and backward, from its installed package and unmodified.

    y = (x - mean) / sqrt(mean((x - mean)²) + eps) * weight + bias

Its host code chooses block size and warps from the hidden size as for RMSNorm
(``liger_rms_norm.py``). The gradient runs on as many blocks as the GPU has units, one
partial sum of the weight's gradient each, so its grid is another on every SKU.

Work of one forward call, N = rows × hidden, s = bytes per element:
    fused    x, weight and bias read, y written: (2 N + 2 hidden) s. Mean and 1/std of
             each row, saved for the gradient, are left out.
    unfused  mean N + rows, x - mean 2 N + rows, square 2 N, mean N + rows, + eps 2 rows,
             rsqrt 2 rows, × rstd 2 N + rows, × weight 2 N + hidden, + bias 2 N + hidden:
             (12 N + 8 rows + 2 hidden) s. Fusion gains at most about 6.
    flops    per element: sum, subtract, square, sum, × rstd, × weight, + bias = 7; per
             row: two divisions, + eps, rsqrt = 4.

Sources:
    1. Liger-Kernel, https://github.com/linkedin/Liger-Kernel, ``ops/layer_norm.py`` and
       ``calculate_settings`` in ``ops/utils.py`` (0.8.5 read).
    2. J. L. Ba, J. R. Kiros, G. E. Hinton, "Layer Normalization", 2016,
       https://arxiv.org/abs/1607.06450
"""

import torch
from liger_kernel.ops.layer_norm import LigerLayerNormFunction

from portkit import Direction, KernelCase, Work
from portkit.baselines import pytorch
from portkit.model import DTYPE_BYTES

EPS = 1e-6
_GAP = "Liger-Kernel 0.8.5 calls `eps.to(...)` on a scalar, which Triton's interpreter passes as a plain float"


def fused(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Liger-Kernel's public function, as its LayerNorm module calls it."""
    return LigerLayerNormFunction.apply(x, weight, bias, EPS)


def reference(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The unfused chain, one kernel an operation, in the dtype of x."""
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    return centred * torch.rsqrt(variance + EPS) * weight + bias


def inputs(make, shape, dtype):
    """Elements of x in [-1, 1), weights around 1 and biases around 0 as trained norms have them."""
    return {
        "x": make.uniform(shape, dtype),
        "weight": make.uniform(shape[-1:], dtype, low=0.5, high=1.5),
        "bias": make.uniform(shape[-1:], dtype, low=-0.5, high=0.5),
    }


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    rows, hidden = shape
    n, size = rows * hidden, DTYPE_BYTES[dtype]
    return Work(
        fused_bytes=(2 * n + 2 * hidden) * size,
        unfused_bytes=(12 * n + 8 * rows + 2 * hidden) * size,
        flops=7 * n + 4 * rows,
    )


case = KernelCase(
    name="liger_layer_norm",
    fused=fused,
    reference=reference,
    inputs=inputs,
    work=work,
    shapes=((4096, 4096), (2048, 8192), (512, 32768)),
    small_shapes=((4, 4096), (4, 32768)),
    dtypes=("float32", "float16", "bfloat16"),
    variants={"default": {}},
    directions=(Direction.FORWARD, Direction.BACKWARD),
    interpreter_gaps=dict.fromkeys(("float32", "float16", "bfloat16"), _GAP),
    baselines={"torch": pytorch.layer_norm},
)
