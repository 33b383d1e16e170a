"""Liger-Kernel's RMSNorm forward, from its installed package and unmodified.

    y = x / sqrt(mean(x²) + eps) * weight

Its host code chooses block size and warps from the hidden size: 4 below 2048, 8 from
2048, 16 from 8192, and from 32768 on 32 on CUDA but 16 on ROCm, where 32 wavefronts of
64 lanes would be more than a workgroup may have. So there is one variant, ``default``.

Work of one call, N = rows × hidden, s = bytes per element:
    fused    x and weight read, y written: (2 N + hidden) s. The 4 B a row of saved
             1/rms serve the gradient; left out.
    unfused  square 2 N, mean N + rows, + eps 2 rows, rsqrt 2 rows, × rstd 2 N + rows,
             × weight 2 N + hidden: (7 N + 6 rows + hidden) s. Fusion gains at most
             about 3.5.
    flops    per element: square, sum, × rstd, × weight = 4; per row: divide, + eps,
             rsqrt = 3.

Sources:
    1. Liger-Kernel, https://github.com/linkedin/Liger-Kernel, ``ops/rms_norm.py`` and
       ``calculate_settings`` in ``ops/utils.py`` (0.8.5 read).
    2. B. Zhang, R. Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019,
       https://arxiv.org/abs/1910.07467
"""

import torch
from liger_kernel.ops.rms_norm import LigerRMSNormFunction

from portkit import KernelCase, Work
from portkit.baselines import pytorch
from portkit.model import DTYPE_BYTES

EPS = 1e-6
_GAP = "Liger-Kernel 0.8.5 calls `eps.to(...)` on a scalar, which Triton's interpreter passes as a plain float"


def fused(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Liger-Kernel's public function, as its RMSNorm module calls it."""
    return LigerRMSNormFunction.apply(x, weight, EPS, 0.0, "llama", False)


def reference(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The unfused chain, one kernel an operation, in the dtype of x."""
    mean_square = x.square().mean(dim=-1, keepdim=True)
    return x * torch.rsqrt(mean_square + EPS) * weight


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


case = KernelCase(
    name="liger_rms_norm",
    fused=fused,
    reference=reference,
    inputs=inputs,
    work=work,
    shapes=((4096, 4096), (2048, 8192), (512, 32768)),
    small_shapes=((4, 4096), (4, 32768)),
    dtypes=("float32", "float16", "bfloat16"),
    variants={"default": {}},
    deterministic=True,
    row_inputs=("x",),
    strided_inputs=("x",),
    interpreter_gaps=dict.fromkeys(("float32", "float16", "bfloat16"), _GAP),
    baselines={"torch": pytorch.rms_norm},
)
