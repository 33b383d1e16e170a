"""RMS normalisation of rows and their quantisation to 8-bit floats, one scale a row.

    y_ij = x_ij w_j / sqrt(mean_k(x_ik²) + eps)
    scale_i = max(max_j |y_ij|, tiny) / M,   q_ij = fp8(y_ij / scale_i)

M is the largest number of the device's own format: 448 of e4m3fn, 240 of e4m3fnuz, which
gfx942 computes with. ``fp8_of`` tells which, by what PyTorch says of the device; the
reference asks the same function. So the two formats are one source, and one case.

At most ``PROGRAMS`` programs walk over the rows; while one is computed the next two are on their
way, where shared memory has room. y never leaves the registers: x w is made, searched for its
largest and rounded there. It is multiplied once, by 1 / (rms × scale), since a division takes six
instructions more: a quotient that lies within a rounding of the border between two codes may take
either.

Work of one call, N = rows × hidden, s = bytes per element:
    fused    x and weight read, q (1 B) and scales (4 B a row) written: (N + hidden) s + N
             + 4 rows.
    unfused  square 2 N, mean N + rows, + eps 2 rows, rsqrt 2 rows, × r 2 N + rows, × weight
             2 N + hidden, all times s; |y| 2 N s, max N s + rows s, and in float32 what
             follows: convert rows (s + 4) unless s = 4, clamp 8 rows, / M 8 rows; y / scale
             N (s + 4) + 4 rows, convert 5 N.
    flops    per element: square, sum, × r, × weight, |y|, max, divide = 7 (conversion: none).

Triton has e4m3fn on NVIDIA from sm_89 on, and converts in software on AMD where the hardware
does not. Its interpreter loses the carry where rounding reaches the next power of two.

Speed on an H200 beside its goal: the table of ``scripts/suite_goals.py`` in ``reports/``. Codes go through
shared memory to fill 16-byte stores.

Sources:
    1. P. Micikevicius et al., "FP8 Formats for Deep Learning", 2022,
       https://arxiv.org/abs/2209.05433: e4m3 with 448 as its largest number.
    2. AMD, "Instinct MI300 Instruction Set Architecture": e4m3 there is the fnuz form, with
       a bias one higher and 240 as its largest number.
    3. Hidden sizes: 2880 gpt-oss, 4096 Llama 3 8B, 7168 DeepSeek V3, 8192 Llama 3 70B.
"""

import torch
import triton
import triton.language as tl
from arguments import as_rows, check_most, check_tensor, check_vector
from tiles import shared_bytes

from portkit import Discrete, KernelCase, Work
from portkit.model import DTYPE_BYTES

MAX_HIDDEN = 65536  # elements of a row that one block may hold
PROGRAMS = 528  # four for each unit of an H200
TINY = 2.0**-100  # least largest element: a row of zeros has a scale, too
EPS = 1e-6
_GAP = "Triton's interpreter loses the carry where rounding to fp8 reaches the next power of two: -64 for -128"


def fp8_of(device: torch.device) -> torch.dtype:
    """The 8-bit format with three bits of mantissa that a device computes with."""
    amd = torch.version.hip and device.type == "cuda"
    if amd and torch.cuda.get_device_properties(device).gcnArchName.startswith("gfx942"):
        return torch.float8_e4m3fnuz
    return torch.float8_e4m3fn


@triton.jit
def _rms_norm_fp8(
    x_ptr, weight_ptr, q_ptr, scale_ptr, x_stride, rows, hidden, eps, largest, tiny,
    PROGRAMS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    lanes = tl.arange(0, BLOCK)
    mask = lanes < hidden
    weight = tl.load(weight_ptr + lanes, mask=mask, other=0.0)
    for row in tl.range(tl.program_id(0), rows, PROGRAMS, num_stages=STAGES):
        at = tl.cast(row, tl.int64)
        x = tl.load(x_ptr + at * x_stride + lanes, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
        rstd = tl.rsqrt(tl.sum(x * x, axis=0) / hidden + eps)
        y = x * weight.to(tl.float32)  # what a row's elements share waits for the row's scale
        top = tl.max(tl.abs(y), axis=0) * rstd
        scale = tl.where(top < tiny, tiny, top) / largest
        # The largest element may come out a rounding over the format's largest number, which it then rounds to.
        q = y * (rstd / scale)
        tl.store(q_ptr + at * hidden + lanes, q.to(q_ptr.dtype.element_ty), mask=mask)
        tl.store(scale_ptr + at, scale)


_rms_norm_fp8_tuned = triton.autotune(
    configs=[
        triton.Config({"PROGRAMS": programs, "STAGES": stages}, num_warps=warps)
        for programs, stages, warps in ((528, 3, 2), (528, 3, 4), (2112, 1, 4), (528, 1, 8), (264, 1, 16))
    ],
    key=["hidden"],
)(_rms_norm_fp8)


def rms_norm_fp8(
    x: torch.Tensor, weight: torch.Tensor, eps: float = EPS, *, num_warps: int = 4, tuned: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """RMS norm over the last axis in 8 bits, with a scale for each row.

    Args:
        x: (…, hidden), last axis contiguous; float32, float16 or bfloat16.
        weight: (hidden,), of the dtype of ``x``.
        eps: added to the mean square.
        num_warps: warps (wavefronts) of a program.
        tuned: choose warps and rows of a program by trial.

    Returns:
        ``(q, scale)``: the shape of ``x`` in the device's fp8 format, and (…, 1) float32, so
        that ``q × scale`` is the normalised row.

    Raises:
        TypeError: an argument of another type or dtype.
        ValueError: an argument of another shape or device, with gaps within rows, or rows
            longer than one block may be.
    """
    rows = as_rows("x", check_tensor("x", x))
    count, hidden = rows.shape
    check_vector("weight", weight, "x", x, hidden)
    check_most("hidden size", hidden, MAX_HIDDEN, "the most one block holds")
    kind = fp8_of(x.device)
    q = torch.empty(x.shape, dtype=kind, device=x.device)
    scale = torch.empty((*x.shape[:-1], 1), dtype=torch.float32, device=x.device)
    if not x.numel():
        return q, scale
    arguments = (rows, weight, q, scale, rows.stride(0), count, hidden, eps, torch.finfo(kind).max, TINY)
    block = triton.next_power_of_2(hidden)
    if tuned:
        _rms_norm_fp8_tuned[lambda meta: (min(count, meta["PROGRAMS"]),)](*arguments, BLOCK=block)
    else:
        constants = {"PROGRAMS": min(count, PROGRAMS), "BLOCK": block, "STAGES": _stages(rows, block)}
        _rms_norm_fp8[(constants["PROGRAMS"],)](*arguments, **constants, num_warps=num_warps)
    return q, scale


def _stages(rows: torch.Tensor, block: int) -> int:
    """Rows in flight, the one computed with counted in: 3 where four programs' others fit in shared memory, else 1."""
    if rows.device.type != "cuda":
        return 1
    return 3 if 4 * (2 * block * rows.element_size() + 1024) <= shared_bytes(rows.device) else 1


def reference(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The unfused chain, one kernel an operation; scales and quotients in float32 or wider."""
    y, scale = _normed(x, weight)
    return (y / scale).to(fp8_of(x.device)), scale


def _normed(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    mean_square = x.square().mean(dim=-1, keepdim=True)
    y = x * torch.rsqrt(mean_square + EPS) * weight
    largest = y.abs().amax(dim=-1, keepdim=True).to(torch.promote_types(x.dtype, torch.float32))
    return y, largest.clamp(min=TINY) / torch.finfo(fp8_of(x.device)).max


def margin(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Distance of each quotient from the border between two codes, relative to the quotient.

    Codes of one binade are 2^-3 of it apart, those below the smallest normal number as far as
    there.
    """
    y, scale = _normed(x, weight)
    q = (y / scale).abs()
    smallest = torch.finfo(fp8_of(x.device)).smallest_normal
    step = torch.exp2(torch.floor(torch.log2(q.clamp(min=smallest)))) / 8
    return ((q / step).frac() - 0.5).abs() * step / q.clamp(min=smallest / 16)


def inputs(make, shape, dtype):
    """Elements of x in [-1, 1) and one outlier a row, which its scale follows; weights around 1."""
    x = make.uniform(shape, dtype)
    x[:, 1:2] = make.uniform((shape[0], 1), dtype, low=2.0, high=16.0)
    return {"x": x, "weight": make.uniform(shape[-1:], dtype, low=0.5, high=1.5)}


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    rows, hidden = shape
    n, size = rows * hidden, DTYPE_BYTES[dtype]
    converted = 0 if dtype == "float32" else rows * (size + 4)
    return Work(
        fused_bytes=(n + hidden) * size + n + 4 * rows,
        unfused_bytes=(10 * n + 7 * rows + hidden) * size + converted + 20 * rows + n * (size + 4) + 5 * n,
        flops=7 * n,
    )


case = KernelCase(
    name="rms_norm_fp8",
    fused=rms_norm_fp8,
    reference=reference,
    inputs=inputs,
    work=work,
    shapes=((16384, 4096), (4096, 8192), (4096, 2880), (2048, 7168), (1, 4096)),
    small_shapes=((3, 4096), (4, 2880)),
    dtypes=("float32", "float16", "bfloat16"),
    variants={
        "w4": {"num_warps": 4},
        "w8": {"num_warps": 8},
        "w16": {"num_warps": 16},
        "auto": {"tuned": True},
    },
    deterministic=True,
    row_inputs=("x",),
    strided_inputs=("x",),
    discrete={0: Discrete(margin)},
    family_gaps={"nan": "codes are compared by their bits, and NaN has one of either sign"},
    interpreter_gaps=dict.fromkeys(("float32", "float16", "bfloat16"), _GAP),
)
