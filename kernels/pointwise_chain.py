"""Chains of N pointwise operations in one kernel: how fusion scales with depth. Linear family.

    y_0 = x,   y_k = f_(k mod 4)(y_(k-1)),   k = 1 … N
    f_1: × 1.5    f_2: + 0.25    f_3: × -0.75    f_0: - 0.125

The factors of four operations make -1.125, so that neither values nor errors run away.

A control: one value lives at a time, so registers stay flat with N, and occupancy with them.
What grows is arithmetic, until it and not memory bounds the kernel. Its sibling
``pointwise_fan_in.py`` reads one more tensor a stage, and its live values grow.

The chain is unrolled when compiled: each N is a binary of its own. A shape is
(operations, elements). Work, E elements of s bytes:
    fused    x read, y written: 2 E s.
    unfused  every operation reads and writes: 2 N E s. Fusion gains at most N.
    flops    N an element.

Speed on an H200 beside its goal: the table of ``scripts/suite_goals.py`` in ``reports/``.
torch.compile makes the same program. Asking the cache to keep what is read, so that results leave it first, is what
puts this one ahead: by 2 % of what its search finds at 32 operations, where the two are level without (65.6, 66.9 and
66.9 µs, times interleaved). A read of twice the cache that follows takes no longer for it: no write is put off.

Sources:
    1. S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009: a chain walks
       along the roof from left to right as it grows.
    2. 2^26 elements are 16384 × 4096, the hidden states of a long prefill; 10^7 + 7 has a tail.
"""

import torch
import triton
import triton.language as tl
from arguments import check_contiguous, check_tensor

from portkit import KernelCase, Work
from portkit.model import DTYPE_BYTES

DEPTHS = (2, 4, 8, 16, 32)
MOST = 256  # operations that a kernel is unrolled to
ELEMENTS_PER_WARP = 512  # 16 a thread on 32 lanes and 8 on 64: whole 16-byte loads in every dtype


@triton.jit
def _chain(x_ptr, y_ptr, n, WHOLE: tl.constexpr, OPERATIONS: tl.constexpr, BLOCK: tl.constexpr):
    """``WHOLE``: n fills its blocks, so that nothing is masked."""
    # One sum of 64 bits an element: adding the start to the pointer first is 1 % slower at 32 operations.
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = None if WHOLE else at < n
    y = tl.load(x_ptr + at, mask=mask, eviction_policy="evict_last").to(tl.float32)
    for k in tl.static_range(1, OPERATIONS + 1):
        if k % 4 == 1:
            y = y * 1.5
        elif k % 4 == 2:
            y = y + 0.25
        elif k % 4 == 3:
            y = y * -0.75
        else:
            y = y - 0.125
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=mask)


_chain_tuned = triton.autotune(
    configs=[triton.Config({"BLOCK": block}, num_warps=w) for block, w in ((1024, 4), (2048, 4), (2048, 8), (4096, 8))],
    key=["n", "OPERATIONS"],
)(triton.heuristics({"WHOLE": lambda given: given["n"] % given["BLOCK"] == 0})(_chain))


def pointwise_chain(x: torch.Tensor, operations: int, *, num_warps: int = 8, tuned: bool = False) -> torch.Tensor:
    """The first ``operations`` of the chain.

    Args:
        x: any shape, contiguous; float32, float16 or bfloat16.
        operations: 0 to 256.
        num_warps: warps (wavefronts) of a program.
        tuned: choose warps and block by trial.

    Returns:
        A tensor of the shape and dtype of ``x``.

    Raises:
        TypeError: ``x`` is no tensor or of another dtype.
        ValueError: it is not contiguous, or the number of operations is out of range.
    """
    check_contiguous("x", check_tensor("x", x))
    if not 0 <= operations <= MOST:
        raise ValueError(f"operations is {operations}; it must be 0 to {MOST}")
    y = torch.empty_like(x)
    n = x.numel()
    if not n:
        return y
    if tuned:
        _chain_tuned[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, OPERATIONS=operations)
    else:
        block = ELEMENTS_PER_WARP * num_warps
        constants = {"WHOLE": n % block == 0, "OPERATIONS": operations, "BLOCK": block}
        _chain[(triton.cdiv(n, block),)](x, y, n, **constants, num_warps=num_warps)
    return y


def reference(x: torch.Tensor, operations: int) -> torch.Tensor:
    """The unfused chain, one kernel an operation."""
    steps = (lambda y: y - 0.125, lambda y: y * 1.5, lambda y: y + 0.25, lambda y: y * -0.75)
    for k in range(1, operations + 1):
        x = steps[k % 4](x)
    return x


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    operations, n = shape
    size = n * DTYPE_BYTES[dtype]
    return Work(fused_bytes=2 * size, unfused_bytes=2 * operations * size, flops=operations * n)


case = KernelCase(
    name="pointwise_chain",
    fused=pointwise_chain,
    reference=reference,
    inputs=lambda make, shape, dtype: {"x": make.uniform(shape[1:], dtype), "operations": shape[0]},
    work=work,
    shapes=(*((depth, 67108864) for depth in DEPTHS), (8, 10000007)),
    small_shapes=(*((depth, 5000) for depth in DEPTHS),),
    dtypes=("float32", "float16", "bfloat16"),
    variants={
        "w8": {"num_warps": 8},
        "w4": {"num_warps": 4},
        "w2": {"num_warps": 2},
        "w16": {"num_warps": 16},
        "auto": {"tuned": True},
    },
    deterministic=True,
    row_inputs=("x",),
    reduction_length=lambda shape: shape[0],
)
