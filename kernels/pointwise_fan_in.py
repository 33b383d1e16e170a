"""Chains of N pointwise operations with one more input a stage: how fusion scales with depth. Fan-in family.

    y_0 = x_0,   y_k = x_k - |y_(k-1)| / 2,   k = 1 … N
    z = sum_(k = 1 … N) y_k x_(N + 1 - k)

Every stage reads a tensor of its own, and the sum at the end meets the first stage's result
with the last one's input. The kernel adds a term as soon as both of its factors are there, so
what must be kept are y_k and x_k of the first half: values pile up to the middle of the chain,
registers grow with N, and occupancy falls. A stage is two operations, so that memory bounds the
chain at any depth, and what costs time is occupancy and not arithmetic. ``pointwise_chain.py``
is the control in which registers stay flat.

The chain is unrolled when compiled: each N is a binary of its own. The inputs are rows of one
tensor (N + 1, E). A shape is (stages, elements). Work, E elements of s bytes:
    fused    N + 1 inputs read, z written: (N + 2) E s.
    unfused  a stage: | | 2 E, × 0.5 2 E, difference 3 E; the sum: N products 3 E, N - 1
             additions 3 E: (13 N - 3) E s. Fusion gains at most about 13.
    flops    4 N - 1 an element: | | clears a sign bit and is none.

Speed on an H200 beside its goal: the table of ``scripts/suite_goals.py`` in ``reports/``.
torch.compile makes much the same program: the two are level within one per cent, and change places from run to run;
at 32 stages it is 0.1 to 0.5 % ahead there, of blocks of half and a quarter, too, by 1 to 8 warps. Occupancy is not
what is missing: without masks a thread takes 96 registers there instead of 128, and it is 2 % slower; nor do wishes
to the cache help. With 8 or fewer elements a thread nothing spills: on sm_90 8 take 48 registers at N = 8, 96 at 16
and 168 at 32.

Sources:
    1. V. Volkov, "Better performance at lower occupancy", GTC 2010: what occupancy is for.
    2. 2^24 elements are 4096 × 4096; 10^6 + 3 has a tail.
"""

import torch
import triton
import triton.language as tl
from arguments import check_axes, check_tensor, check_unit_stride

from portkit import KernelCase, Work
from portkit.model import DTYPE_BYTES

DEPTHS = (2, 4, 8, 16, 32)
MOST = 64  # stages that a kernel is unrolled to
PER_WARP = 256  # elements: 8 a thread on 32 lanes, 4 on 64: one 16-byte load in 16-bit dtypes


@triton.jit
def _fan_in(x_ptr, z_ptr, stride, n, STAGES: tl.constexpr, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * BLOCK
    lanes = tl.arange(0, BLOCK)
    mask = lanes < n - start
    stride = stride.to(tl.int64)
    x_ptr += start
    y = tl.load(x_ptr + lanes, mask=mask, other=0.0).to(tl.float32)
    z = tl.zeros((BLOCK,), dtype=tl.float32)
    ys = ()
    xs = ()
    for k in tl.static_range(1, STAGES + 1):
        x = tl.load(x_ptr + k * stride + lanes, mask=mask, other=0.0).to(tl.float32)
        y = x - 0.5 * tl.abs(y)
        if 2 * k <= STAGES:
            ys = ys + (y,)  # noqa: RUF005 - Triton unpacks no tuples
            xs = xs + (x,)  # noqa: RUF005
        elif 2 * k == STAGES + 1:  # the middle of an odd chain meets itself
            z += y * x
        else:
            z += y * xs[STAGES - k] + ys[STAGES - k] * x
    tl.store(z_ptr + start + lanes, z.to(z_ptr.dtype.element_ty), mask=mask)


_fan_in_tuned = triton.autotune(
    configs=[triton.Config({"BLOCK": block}, num_warps=w) for block, w in ((256, 4), (512, 4), (1024, 4), (2048, 8))],
    key=["n", "STAGES"],
)(_fan_in)


def pointwise_fan_in(
    x: torch.Tensor, *, num_warps: int = 4, per_warp: int = PER_WARP, tuned: bool = False
) -> torch.Tensor:
    """The chain over the rows of x.

    Args:
        x: (stages + 1, elements), last axis contiguous; float32, float16 or bfloat16.
        num_warps: warps (wavefronts) of a program.
        per_warp: elements of a warp; half of them, and half of the registers, spill later.
        tuned: choose warps and block by trial.

    Returns:
        (elements,), of the dtype of ``x``.

    Raises:
        TypeError: ``x`` is no tensor or of another dtype.
        ValueError: it has other axes, gaps within rows, or too few or too many rows.
    """
    check_unit_stride("x", check_tensor("x", x))
    check_axes("x", x, 2, 2)
    stages, n = x.shape[0] - 1, x.shape[1]
    if not 1 <= stages <= MOST:
        raise ValueError(f"x has {stages + 1} rows; it must have 2 to {MOST + 1}")
    z = torch.empty(n, dtype=x.dtype, device=x.device)
    if not n:
        return z
    if tuned:
        _fan_in_tuned[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, z, x.stride(0), n, STAGES=stages)
    else:
        block = per_warp * num_warps
        _fan_in[(triton.cdiv(n, block),)](x, z, x.stride(0), n, STAGES=stages, BLOCK=block, num_warps=num_warps)
    return z


def reference(x: torch.Tensor) -> torch.Tensor:
    """The unfused chain, one kernel an operation."""
    stages = x.shape[0] - 1
    ys, y = [], x[0]
    for k in range(1, stages + 1):
        y = x[k] - torch.abs(y) * 0.5
        ys.append(y)
    z = ys[0] * x[stages]
    for k in range(1, stages):
        z = z + ys[k] * x[stages - k]
    return z


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    stages, n = shape
    size = n * DTYPE_BYTES[dtype]
    return Work(fused_bytes=(stages + 2) * size, unfused_bytes=(13 * stages - 3) * size, flops=(4 * stages - 1) * n)


case = KernelCase(
    name="pointwise_fan_in",
    fused=pointwise_fan_in,
    reference=reference,
    inputs=lambda make, shape, dtype: {"x": make.uniform((shape[0] + 1, shape[1]), dtype, low=-2.0, high=2.0)},
    work=work,
    shapes=(*((depth, 16777216) for depth in DEPTHS), (8, 1000003)),
    small_shapes=(*((depth, 3000) for depth in DEPTHS),),
    dtypes=("float32", "float16", "bfloat16"),
    variants={
        "w4": {"num_warps": 4},
        "w8": {"num_warps": 8},
        "w4half": {"num_warps": 4, "per_warp": 128},
        "auto": {"tuned": True},
    },
    deterministic=True,
    strided_inputs=("x",),
    reduction_length=lambda shape: shape[0],
)
