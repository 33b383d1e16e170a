"""SwiGLU: the gated activation of a transformer's feed-forward layer.

    y = silu(gate) * up,  silu(g) = g / (1 + exp(-g))

Elementwise over the flattened tensors; one program takes a block of
``ELEMENTS_PER_WARP`` × num_warps elements, so that each thread keeps the same number of
bytes in flight whatever the variant. Computed in float32, rounded once. Backward, with
s = 1 / (1 + exp(-g)), one launch again, of ``BACKWARD_PER_LANE`` elements a thread:

    dup = dy silu(g),  dgate = dy up s (1 + g (1 - s))

Work of one call, N elements of s bytes:
    fused    gate and up read, y written: 3 N s.
    unfused  silu reads and writes, the product reads two and writes one: 5 N s.
             Fusion gains at most 5 / 3.
    flops    negate, exp, add, divide, two products = 6 an element, exp counted as one.
Backward:
    fused    dy, gate and up read, both gradients written: 5 N s.
    unfused  two products and the gradient of silu, 3 N each: 9 N s.
    flops    s 4, dy g s 2, dy up s 2, 1 + g (1 - s) 3, product = 12 an element.

Speed on an H200 beside its goal: the table of ``scripts/suite_goals.py`` in ``reports/``.
Reads are faster than writes, so that more than a copy's share is possible. Forward is level with
torch.compile, within half a per cent either way: it makes the same program, and of blocks of 512 to
4096 elements, with and without masks and wide offsets, none was faster.

Sources:
    1. N. Shazeer, "GLU Variants Improve Transformer", https://arxiv.org/abs/2002.05202
    2. Widths: 11008 Llama 2 7B, 14336 Llama 3 8B and Mistral 7B, 18944 Qwen2.5 7B, 28672
       Llama 3 70B; 1 row: decoding; 8191 × 10007 has a tail.
"""

import torch
import triton
import triton.language as tl
from arguments import check_contiguous, check_like, check_tensor
from tiles import warp_size

from portkit import Direction, KernelCase, Work
from portkit.baselines import aiter, flag_gems, flashinfer, liger
from portkit.model import DTYPE_BYTES

ELEMENTS_PER_WARP = 256  # 8 a thread on 32 lanes and 4 on 64
BACKWARD_PER_LANE = 4  # of five tensors: as many bytes in flight as with 8 of three


@triton.jit
def _swiglu(gate_ptr, up_ptr, y_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * BLOCK
    lanes = tl.arange(0, BLOCK)
    mask = lanes < n - start
    gate = tl.load(gate_ptr + start + lanes, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + start + lanes, mask=mask, other=0.0).to(tl.float32)
    y = gate * tl.sigmoid(gate) * up
    tl.store(y_ptr + start + lanes, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _swiglu_backward(dy_ptr, gate_ptr, up_ptr, dgate_ptr, dup_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * BLOCK
    lanes = tl.arange(0, BLOCK)
    mask = lanes < n - start
    dy = tl.load(dy_ptr + start + lanes, mask=mask, other=0.0).to(tl.float32)
    gate = tl.load(gate_ptr + start + lanes, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + start + lanes, mask=mask, other=0.0).to(tl.float32)
    sigmoid = tl.sigmoid(gate)
    dgate = dy * up * sigmoid * (1.0 + gate * (1.0 - sigmoid))
    tl.store(dgate_ptr + start + lanes, dgate.to(dgate_ptr.dtype.element_ty), mask=mask)
    tl.store(dup_ptr + start + lanes, (dy * gate * sigmoid).to(dup_ptr.dtype.element_ty), mask=mask)


_swiglu_tuned = triton.autotune(
    configs=[triton.Config({"BLOCK": block}, num_warps=w) for block, w in ((1024, 4), (2048, 4), (2048, 8), (4096, 8))],
    key=["n"],
)(_swiglu)


class _SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, num_warps, tuned) -> torch.Tensor:
        y = torch.empty_like(gate)
        n = gate.numel()
        if n and tuned:
            _swiglu_tuned[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](gate, up, y, n)
        elif n:
            block = ELEMENTS_PER_WARP * num_warps
            _swiglu[(triton.cdiv(n, block),)](gate, up, y, n, BLOCK=block, num_warps=num_warps)
        ctx.save_for_backward(gate, up)
        ctx.num_warps = num_warps
        return y

    @staticmethod
    def backward(ctx, dy) -> tuple:
        gate, up = ctx.saved_tensors
        dy = dy.contiguous()  # autograd may hand over any layout, such as one value expanded
        dgate, dup = torch.empty_like(gate), torch.empty_like(up)
        n = gate.numel()
        if n:
            block = BACKWARD_PER_LANE * warp_size(gate.device) * ctx.num_warps
            grid = (triton.cdiv(n, block),)
            _swiglu_backward[grid](dy, gate, up, dgate, dup, n, BLOCK=block, num_warps=ctx.num_warps)
        return dgate, dup, None, None


def swiglu(gate: torch.Tensor, up: torch.Tensor, *, num_warps: int = 8, tuned: bool = False) -> torch.Tensor:
    """silu(gate) * up, differentiable.

    Args:
        gate: any shape, contiguous; float32, float16 or bfloat16.
        up: of the shape and dtype of ``gate``, contiguous.
        num_warps: warps (wavefronts) of a program.
        tuned: choose warps and block by trial, forward.

    Returns:
        A tensor of the shape and dtype of ``gate``.

    Raises:
        TypeError: an argument of another type or dtype.
        ValueError: an argument of another shape or device, or not contiguous.
    """
    check_contiguous("gate", check_tensor("gate", gate))
    check_contiguous("up", check_like("up", up, "gate", gate))
    return _SwiGLU.apply(gate, up, num_warps, tuned)


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


def backward_work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations of the gradients, derived in the module's docstring."""
    rows, width = shape
    size = rows * width * DTYPE_BYTES[dtype]
    return Work(fused_bytes=5 * size, unfused_bytes=9 * size, flops=12 * rows * width)


case = KernelCase(
    name="swiglu",
    fused=swiglu,
    reference=reference,
    inputs=inputs,
    work=work,
    backward_work=backward_work,
    shapes=((4096, 14336), (8192, 14336), (4096, 11008), (4096, 18944), (2048, 28672), (1, 14336), (8191, 10007)),
    small_shapes=((2, 14336), (2, 11008)),
    dtypes=("float32", "float16", "bfloat16"),
    variants={
        "w4": {"num_warps": 4},
        "w8": {"num_warps": 8},
        "w16": {"num_warps": 16},
        "auto": {"tuned": True},
    },
    directions=(Direction.FORWARD, Direction.BACKWARD),
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
