"""SwiGLU: the gated activation of a transformer's feed-forward layer.

    y = silu(gate) * up,  silu(g) = g / (1 + exp(-g))

Elementwise over the flattened tensors; one program takes a block of
``ELEMENTS_PER_WARP`` × num_warps elements, so that each thread keeps the same number of
bytes in flight whatever the variant. Computed in float32, rounded once.

Work of one call, N elements of s bytes:
    fused    gate and up read, y written: 3 N s.
    unfused  silu reads and writes, the product reads two and writes one: 5 N s.
             Fusion gains at most 5 / 3.
    flops    negate, exp, add, divide, two products = 6 an element, exp counted as one.

Sources:
    1. N. Shazeer, "GLU Variants Improve Transformer", https://arxiv.org/abs/2002.05202
    2. Widths: 11008 Llama 2 7B, 14336 Llama 3 8B, 28672 Llama 3 70B.
"""

import torch
import triton
import triton.language as tl

from portkit import KernelCase, Work
from portkit.baselines import aiter, flag_gems, flashinfer, liger
from portkit.model import DTYPE_BYTES

ELEMENTS_PER_WARP = 512  # 16 a thread on 32 lanes and 8 on 64: whole 16-byte loads in every dtype


@triton.jit
def _swiglu(gate_ptr, up_ptr, y_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * BLOCK
    lanes = tl.arange(0, BLOCK)
    mask = lanes < n - start
    gate = tl.load(gate_ptr + start + lanes, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + start + lanes, mask=mask, other=0.0).to(tl.float32)
    y = gate * tl.sigmoid(gate) * up
    tl.store(y_ptr + start + lanes, y.to(y_ptr.dtype.element_ty), mask=mask)


def swiglu(gate: torch.Tensor, up: torch.Tensor, *, num_warps: int = 8) -> torch.Tensor:
    """silu(gate) * up.

    Args:
        gate: any shape, contiguous.
        up: of the shape and dtype of ``gate``, contiguous.
        num_warps: warps (wavefronts) of a program; a power of two.

    Returns:
        A tensor of the shape and dtype of ``gate``.
    """
    n = gate.numel()
    block = ELEMENTS_PER_WARP * num_warps
    y = torch.empty_like(gate)
    _swiglu[(triton.cdiv(n, block),)](gate, up, y, n, BLOCK=block, num_warps=num_warps)
    return y


def reference(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """The unfused chain, one kernel an operation."""
    return torch.nn.functional.silu(gate) * up


def inputs(make, shape, dtype):
    """Gates wide enough that silu bends; products of either sign."""
    return {"gate": make.uniform(shape, dtype, low=-4.0, high=4.0), "up": make.uniform(shape, dtype)}


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    rows, width = shape
    n = rows * width
    size = n * DTYPE_BYTES[dtype]
    return Work(fused_bytes=3 * size, unfused_bytes=5 * size, flops=6 * n)


case = KernelCase(
    name="swiglu",
    fused=swiglu,
    reference=reference,
    inputs=inputs,
    work=work,
    shapes=((4096, 14336), (4096, 11008), (2048, 28672), (1, 14336)),
    small_shapes=((2, 14336), (2, 11008)),
    dtypes=("float32", "float16", "bfloat16"),
    variants={"w4": {"num_warps": 4}, "w8": {"num_warps": 8}, "w16": {"num_warps": 16}},
    deterministic=True,
    row_inputs=("gate", "up"),
    reduction_length=lambda shape: 1,
    baselines={
        "liger": liger.silu_and_mul,
        "flashinfer": flashinfer.silu_and_mul,
        "flag_gems": flag_gems.silu_and_mul,
        "aiter": aiter.silu_and_mul,
    },
)
