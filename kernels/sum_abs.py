"""Sum of absolute values: a map and a reduction in one pass.

    y = sum_i |x_i|,  x of n elements in float32, float16 or bfloat16, y one float32

Two launches. The first walks the input with at most ``PROGRAMS`` programs in a
grid-stride loop, four loads under way, and leaves one float32 partial sum a program; the
second adds the partial sums in one program. No atomics, and neither the number of programs
nor the order of additions depends on the device, so a result is repeatable bit for bit on
one device.

Work of one call, s = bytes per element:
    fused    n s read, 4 B written. The partial sums (at most 16 KiB) are the
             implementation's and stay in cache: not counted.
    unfused  ``abs`` reads and writes n s, ``sum`` reads n s and writes 4 B, so
             fusion gains at most 3 n s / n s = 3.
    flops    n - 1 additions; ``abs`` clears a sign bit and is none.

Speed on an H200 beside its goal: the table of ``scripts/suite_goals.py`` in ``reports/``. It can be
over the copy bandwidth, since reads are faster than a copy's writes.

Sources:
    1. M. Harris, "Optimizing Parallel Reduction in CUDA", NVIDIA: several elements a
       thread before the tree, and a second launch instead of a global barrier.
    2. N. J. Higham, "The accuracy of floating point summation", SIAM J. Sci. Comput.
       14(4), 1993: error of blocked and pairwise sums.
    3. 2^24 elements are 4096 × 4096; 2^28 is a gigabyte of float32, far over any cache;
       525336576 are the embedding of Llama 3 8B, whose norm a clipping of gradients takes;
       10^8 + 7 has a tail in every block size.
"""

import torch
import triton
import triton.language as tl
from arguments import check_contiguous, check_tensor

from portkit import KernelCase, Work
from portkit.baselines import pytorch
from portkit.model import DTYPE_BYTES

BLOCK = 4096  # elements a program takes in one step
PROGRAMS = 2048  # most partial sums; a power of two, one block of the second launch


@triton.jit
def _partial_sums(x_ptr, partial_ptr, n, BLOCK: tl.constexpr):
    program, programs = tl.program_id(0), tl.num_programs(0)
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    full = n // BLOCK
    offset = program.to(tl.int64) * BLOCK  # 64 bits: n may pass 2^31
    step = programs.to(tl.int64) * BLOCK
    # No mask in the loop: with one, loads are 16 bytes wide only where 16 divides n.
    for _ in tl.range(program, full, programs, loop_unroll_factor=4):
        total += tl.abs(tl.load(x_ptr + offset + lanes).to(tl.float32))
        offset += step
    start = full.to(tl.int64) * BLOCK
    rest = tl.where(program == full % programs, n - start, 0)
    total += tl.abs(tl.load(x_ptr + start + lanes, mask=lanes < rest, other=0.0).to(tl.float32))
    tl.store(partial_ptr + program, tl.sum(total, axis=0))


@triton.jit
def _total(partial_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    partial = tl.load(partial_ptr + lanes, mask=lanes < n, other=0.0)
    tl.store(y_ptr, tl.sum(partial, axis=0))


_partial_sums_tuned = triton.autotune(
    configs=[triton.Config({"BLOCK": block}, num_warps=w) for block, w in ((4096, 4), (4096, 8), (2048, 4), (8192, 8))],
    key=["n"],
)(_partial_sums)


def sum_abs(x: torch.Tensor, *, num_warps: int = 8, tuned: bool = False) -> torch.Tensor:
    """Sum of |x| in float32; 0 of an empty tensor.

    Args:
        x: any shape, contiguous; float32, float16 or bfloat16.
        num_warps: warps (wavefronts) of a program of the first launch.
        tuned: choose warps and block of the first launch by trial.

    Returns:
        float32 scalar on the device of ``x``.

    Raises:
        TypeError: ``x`` is no tensor or of another dtype.
        ValueError: it is not contiguous.
    """
    check_contiguous("x", check_tensor("x", x))
    n = x.numel()
    y = torch.empty((), dtype=torch.float32, device=x.device)
    if not n:
        return y.fill_(0.0)
    programs = min(PROGRAMS, triton.cdiv(n, BLOCK))
    partial = torch.empty(programs, dtype=torch.float32, device=x.device)
    if tuned:
        _partial_sums_tuned[(programs,)](x, partial, n)
    else:
        _partial_sums[(programs,)](x, partial, n, BLOCK=BLOCK, num_warps=num_warps)
    _total[(1,)](partial, y, programs, BLOCK=PROGRAMS, num_warps=4)
    return y


def reference(x: torch.Tensor) -> torch.Tensor:
    """The unfused chain: ``abs`` in the dtype of x, then a sum in float32 or wider."""
    return torch.abs(x).sum(dtype=torch.promote_types(x.dtype, torch.float32))


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    (n,) = shape
    size = n * DTYPE_BYTES[dtype]
    return Work(fused_bytes=size + 4, unfused_bytes=3 * size + 4, flops=n - 1)


case = KernelCase(
    name="sum_abs",
    fused=sum_abs,
    reference=reference,
    inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype)},
    work=work,
    shapes=((16777216,), (268435456,), (525336576,), (100000007,)),
    small_shapes=((16384,), (20011,)),
    dtypes=("float32", "float16", "bfloat16"),
    variants={
        "w4": {"num_warps": 4},
        "w8": {"num_warps": 8},
        "w16": {"num_warps": 16},
        "auto": {"tuned": True},
    },
    deterministic=True,
    baselines={"torch": pytorch.sum_abs},
)
