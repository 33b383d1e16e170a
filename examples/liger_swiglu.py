"""Liger-Kernel's SwiGLU, forward and backward, from its installed package and unmodified.

    y = silu(a) * b,  silu(a) = a * sigmoid(a)

Its host code chooses block size and warps from the width as for RMSNorm
(``liger_rms_norm.py``); on Blackwell, rows of more than 8192 are split into tiles of 1024
over a two-dimensional grid. The gradient overwrites a and b.

Work of one forward call, N = elements, s = bytes per element:
    fused    a and b read, y written: 3 N s
    unfused  silu 2 N, product 3 N: 5 N s. Fusion gains at most 5/3.
    flops    per element: negate, exp, + 1, divide, two products = 6

Sources:
    1. Liger-Kernel, https://github.com/linkedin/Liger-Kernel, ``ops/swiglu.py`` (0.8.5 read).
    2. N. Shazeer, "GLU Variants Improve Transformer", 2020, https://arxiv.org/abs/2002.05202
"""

import math

import torch
from liger_kernel.ops.swiglu import LigerSiLUMulFunction

from portkit import Direction, KernelCase, Work
from portkit.model import DTYPE_BYTES

_GAP = "Liger-Kernel 0.8.5 calls `.to(...)` on a scalar, which Triton's interpreter passes as a plain float"


def fused(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Liger-Kernel's public function, as its SwiGLU module calls it."""
    return LigerSiLUMulFunction.apply(a, b)


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The unfused chain, one kernel an operation, in the dtype of a."""
    return torch.nn.functional.silu(a) * b


def inputs(make, shape, dtype):
    """Gates in [-4, 4), where silu bends; values in [-1, 1)."""
    return {"a": make.uniform(shape, dtype, low=-4.0, high=4.0), "b": make.uniform(shape, dtype)}


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    n, size = math.prod(shape), DTYPE_BYTES[dtype]
    return Work(fused_bytes=3 * n * size, unfused_bytes=5 * n * size, flops=6 * n)


case = KernelCase(
    name="liger_swiglu",
    fused=fused,
    reference=reference,
    inputs=inputs,
    work=work,
    shapes=((4096, 14336), (4096, 11008)),
    small_shapes=((4, 14336),),
    dtypes=("float32", "float16", "bfloat16"),
    variants={"default": {}},
    directions=(Direction.FORWARD, Direction.BACKWARD),
    reduction_length=lambda shape: 1,
    interpreter_gaps=dict.fromkeys(("float32", "float16", "bfloat16"), _GAP),
    in_place=("a", "b"),
)
