"""Cross entropy over large vocabularies: loss and gradient of the logits in one pass.

    p_ij = exp(x_ij) / sum_k exp(x_ik),   lse_i = log sum_k exp(x_ik)
    l_i = lse_i - (1 - a) x_it - a mean_k(x_ik),        t the target of row i, a the smoothing
    loss = sum_i l_i / n,   g_ij = (p_ij - (1 - a) [j = t] - a / V) / n

n is the number of rows whose target is not the ignore index; the others have neither loss
nor gradient. The gradient is written over the logits, so that a training step never holds
both, and a row's second read and its write meet in cache.

Three launches. The first counts n, the last sums the losses; both are one program and read
4 to 8 B a row. In between, one program walks over a row twice. The first walk sums the
exponentials of the logits as they are: no maximum is taken off, since the sum of most rows is
well within float32. A row whose sum is not is walked over again, with a maximum for each group
of ``GROUP`` neighbouring columns, which one thread holds. The last columns come first and stay in
registers; the second walk writes their gradient first, then the others', which it reads again.
Of a row that is ignored they alone are read.

Work of one call, N = rows × vocabulary, s = bytes per element, w = 4 bytes of float32 (0
for the conversion's own bytes where s = w):
    fused    logits and targets read, gradient and loss written: 2 N s + 8 rows + 4 B.
             The second read is the implementation's: a row is 64 to 512 KiB.
    unfused  in float32, as models do: convert N (s + w) unless s = w; max N w + rows w,
             subtract 2 N w + rows w, exp 2 N w, sum N w + rows w, log 2 rows w,
             subtract the log 2 N w + rows w; gradient: exp 2 N w, the target's element
             lowered 2 N w, × row's weight 2 N w + rows w, convert N (s + w) unless s = w;
             what works on one element a row, the picked ones among them, makes it 134 B a
             row in all. With smoothing mean N w + rows w, - a / V 2 N w, and 20 B a row.
    flops    max, subtract, exp, sum, and subtract, exp, × 1/n = 7 an element, exp counted
             as one; with smoothing sum of x and - a / V, too.

Speed on an H200 beside the goal of 95 % of the copy bandwidth: the table of ``scripts/suite_goals.py`` in
``reports/``. What it lacks to a copy: a unit has room for one program of 32 warps, and while that one begins, sums up
or ends, the unit neither reads nor writes; the first and the last launch, which are short, take 8 µs. What helped, in
trials: without a maximum a walk has 5 instructions a logit instead of 8; 32 warps of a unit at one row of 256 KB,
most of which the second walk finds in the unit's own cache; 32 logits a thread on their way at once; the last
columns, which stay in registers, read first and before the row's target is known (5 %); a first walk that asks the
cache to keep what it reads, which the second and the write over it let go (2 %). Tried, each right and slower:
programs that stay and take row after row, also in turns that they draw, and with the next columns or the next row
loaded ahead; half as many warps, or columns a step; a row's gradient written while the next is read, so that twice as
many rows are in flight and 0.8 GB more come from memory; copies ahead to shared memory, which is taken from that
cache; other hints of eviction; parts of a row in the registers of 4 to 16 programs, which wait for one another's
sums; pieces of rows in turns, summed by one program and written by a later one from L2, which waits for a counter of
its row (81 % of the copy bandwidth at best); the sum of losses in the last program to end (14 % slower: each waits
for its stores before it counts itself). Liger-Kernel waits for the number of targets before it launches, so that its
time on events holds its host's. ``best`` is tuned for the vocabulary of the goal. In one trial it had 73 % of the
copy bandwidth at 256000 columns, 79 % at 151936, where it is 3 % faster without the hints, and 86 % at 32000, where a
row is short and ``w16`` has 91 %. Rows that are not aligned, as at 50257, have 30 %: each logit is loaded alone.

Sources:
    1. Liger-Kernel, https://github.com/linkedin/Liger-Kernel, ``ops/cross_entropy.py``:
       gradient in the forward pass, in place (read, not copied).
    2. M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax",
       https://arxiv.org/abs/1805.02867
    3. C. Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", CVPR
       2016: label smoothing.
    4. Vocabularies: 32000 Llama 2 and Mistral 7B, 50257 GPT-2 (rows are not aligned),
       128256 Llama 3, 151936 Qwen2.5, 256000 Gemma.
"""

import dataclasses
import math
from typing import Any

import torch
import triton
import triton.language as tl
from arguments import check_axes, check_beside, check_contiguous, check_shape, check_tensor, check_unit_stride
from tiles import for_architecture, warp_size
from torch.nn import functional

from portkit import KernelCase, Work
from portkit.baselines.library import TORCH
from portkit.baselines.liger import LIGER
from portkit.model import DTYPE_BYTES

IGNORE = -100
LLAMA = (32000, 128256)  # vocabularies of Llama 2 and 3
SMOOTHING = 0.1  # of the case at other vocabularies
LOG2_E = tl.constexpr(math.log2(math.e))
LEAST, MOST = tl.constexpr(2.0**-60), tl.constexpr(2.0**100)  # of a sum of exponentials that needs no maximum
GROUP = 8  # neighbouring columns that one thread holds: 16 bytes in 16-bit dtypes


@dataclasses.dataclass(frozen=True)
class Walk:
    """Tunables of the launch that reads and writes rows."""

    num_warps: int = 16  # warps (wavefronts) of a program
    per_thread: int = 16  # 16-bit logits of a step, whole groups; of float32 half as many
    held: str = ""  # what is asked of the cache where the last columns are read, which stay in registers
    first: str = ""  # where the others are read by the first walk
    second: str = ""  # and by the second
    written: str = "evict_first"  # where gradients are written
    tuned: bool = False  # choose the warps by trial

    def asked(self) -> dict[str, str]:
        """What is asked of the cache, as the launch takes it."""
        return {"HELD": self.held, "FIRST": self.first, "SECOND": self.second, "WRITTEN": self.written}

    def groups(self, logits: torch.Tensor) -> int:
        """Groups of a step, of no more columns than a row has."""
        per_thread = max(GROUP, self.per_thread * 2 // logits.element_size())
        if any(number % 16 for number in (logits.data_ptr(), logits.stride(0), logits.shape[1])):
            per_thread = GROUP  # Triton loads each logit alone, and each has an address of its own
        step = per_thread * self.num_warps * warp_size(logits.device)
        return max(1, min(step, triton.next_power_of_2(logits.shape[1])) // GROUP)


@triton.jit
def _count(target_ptr, valid_ptr, rows, ignore, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.int32)
    for start in range(0, rows, BLOCK):
        there = lanes < rows - start
        target = tl.load(target_ptr + start + lanes, mask=there, other=0)
        total += (there & (target != ignore)).to(tl.int32)
    tl.store(valid_ptr, tl.sum(total, axis=0))


@triton.jit
def _exp(x):
    """By way of ``exp2``: on NVIDIA ``tl.exp`` keeps results below 1e-38, at three more instructions each."""
    return tl.exp2(x * LOG2_E)


@triton.jit
def _sums(row_ptr, rest, columns, at, SMOOTH: tl.constexpr, FIRST: tl.constexpr):
    """The first walk: a row's sums of exponentials and of logits. Its last columns are in registers."""
    CHUNK: tl.constexpr = at.shape[0] * at.shape[1]
    whole = columns // CHUNK * CHUNK  # steps up to there need no mask
    total = tl.zeros((at.shape[0],), dtype=tl.float32)
    plain = tl.zeros((at.shape[0],), dtype=tl.float32)
    for start in tl.range(0, whole, CHUNK, num_stages=1):
        x = tl.load(row_ptr + start + at, eviction_policy=FIRST).to(tl.float32)
        total += tl.sum(_exp(x), axis=1)
        if SMOOTH:
            plain += tl.sum(x, axis=1)
    x = rest.to(tl.float32)
    total += tl.sum(_exp(x), axis=1)
    if SMOOTH:
        plain += tl.sum(tl.where(at < columns - whole, x, 0.0), axis=1)
    return tl.sum(total, axis=0), tl.sum(plain, axis=0)


@triton.jit
def _put(row_ptr, at, within, x, top, factor, even, WRITTEN: tl.constexpr):
    """Write the gradient in the place of logits."""
    gradient = (_exp(x.to(tl.float32) - top) * factor - even).to(x.dtype)
    tl.store(row_ptr + at, gradient, mask=within, eviction_policy=WRITTEN)


@triton.jit
def _write(row_ptr, rest, columns, at, factor, even, SECOND: tl.constexpr, WRITTEN: tl.constexpr):
    """The second walk: a row's gradient, that of the last columns first."""
    CHUNK: tl.constexpr = at.shape[0] * at.shape[1]
    whole = columns // CHUNK * CHUNK
    _put(row_ptr + whole, at, at < columns - whole, rest, 0.0, factor, even, WRITTEN)
    for start in tl.range(0, whole, CHUNK, num_stages=1):
        x = tl.load(row_ptr + start + at, eviction_policy=SECOND)
        _put(row_ptr + start, at, None, x, 0.0, factor, even, WRITTEN)


@triton.jit
def _sum_with_maximum(row_ptr, columns, at):
    """A row's maximum, and the sum of its exponentials over that of the maximum."""
    # The least finite float32: the difference of two infinities would be no number.
    largest = tl.full((at.shape[0],), -3.4028234663852886e38, dtype=tl.float32)
    total = tl.zeros((at.shape[0],), dtype=tl.float32)
    for start in tl.range(0, columns, at.shape[0] * at.shape[1], num_stages=1):
        x = tl.load(row_ptr + start + at, mask=at < columns - start, other=-float("inf")).to(tl.float32)
        grown = tl.maximum(largest, tl.max(x, axis=1))
        total = total * _exp(largest - grown) + tl.sum(_exp(x - grown[:, None]), axis=1)
        largest = grown
    top = tl.max(largest, axis=0)
    return top, tl.sum(total * _exp(largest - top), axis=0)


@triton.jit
def _write_with_maximum(row_ptr, columns, at, top, factor, even, WRITTEN: tl.constexpr):
    for start in tl.range(0, columns, at.shape[0] * at.shape[1], num_stages=1):
        within = at < columns - start
        x = tl.load(row_ptr + start + at, mask=within)
        _put(row_ptr + start, at, within, x, top, factor, even, WRITTEN)


@triton.jit
def _clear(row_ptr, columns, at):
    zero = tl.zeros(at.shape, dtype=row_ptr.dtype.element_ty)
    for start in range(0, columns, at.shape[0] * at.shape[1]):
        tl.store(row_ptr + start + at, zero, mask=at < columns - start)


@triton.jit
def _cross_entropy(
    x_ptr, target_ptr, valid_ptr, loss_ptr, stride, columns, ignore, smoothing,
    SMOOTH: tl.constexpr, GROUPS: tl.constexpr, GROUP: tl.constexpr,
    HELD: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr, WRITTEN: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    row_ptr = x_ptr + tl.cast(row, tl.int64) * stride
    at = tl.arange(0, GROUPS)[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    # The last columns are on their way before it is known whether the row counts.
    whole = columns // (GROUPS * GROUP) * (GROUPS * GROUP)
    rest = tl.load(row_ptr + whole + at, mask=at < columns - whole, other=-float("inf"), eviction_policy=HELD)
    target = tl.load(target_ptr + row)
    if target == ignore:
        tl.store(loss_ptr + row, 0.0)
        _clear(row_ptr, columns, at)
    else:
        # A target that is no column gives NaN, and nothing is read there.
        column = tl.where((target >= 0) & (target < columns), target, -1).to(tl.int32)
        own = tl.load(row_ptr + column, mask=column >= 0, other=float("nan")).to(tl.float32)
        scale = 1.0 / tl.load(valid_ptr).to(tl.float32)
        total, plain = _sums(row_ptr, rest, columns, at, SMOOTH, FIRST)
        even = smoothing / columns * scale if SMOOTH else 0.0
        tl.debug_barrier()  # the target's logit is read before it is overwritten
        if (total > LEAST) & (total < MOST):
            top = 0.0
            _write(row_ptr, rest, columns, at, scale / total, even, SECOND, WRITTEN)
        else:
            top, total = _sum_with_maximum(row_ptr, columns, at)
            _write_with_maximum(row_ptr, columns, at, top, scale / total, even, WRITTEN)
        loss = top - own
        if SMOOTH:
            loss = (1.0 - smoothing) * loss + smoothing * (top - plain / columns)
        # The logarithm comes last: beside a large maximum it would be lost.
        tl.store(loss_ptr + row, loss + tl.log(total))
        tl.debug_barrier()  # the target's gradient is written after the others
        lowered = _exp(own - top) * scale / total - even - (1.0 - smoothing) * scale
        tl.store(row_ptr + column, lowered.to(x_ptr.dtype.element_ty), mask=column >= 0)


# The trials write in place: what they read is put back after each.
_cross_entropy_tuned = triton.autotune(
    configs=[
        triton.Config({"GROUPS": warps * 32 * steps}, num_warps=warps)
        for warps, steps in ((8, 1), (8, 2), (16, 1), (16, 2))
    ],
    key=["columns"],
    restore_value=["x_ptr"],
)(_cross_entropy)


@triton.jit
def _mean(loss_ptr, valid_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, rows, BLOCK):
        total += tl.load(loss_ptr + start + lanes, mask=lanes < rows - start, other=0.0)
    tl.store(out_ptr, tl.sum(total, axis=0) / tl.load(valid_ptr).to(tl.float32))


def cross_entropy(
    logits: torch.Tensor,
    target: torch.Tensor,
    label_smoothing: float = 0.0,
    ignore_index: int = IGNORE,
    **tunables: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean loss, and its gradient in the logits' place.

    Args:
        logits: (rows, vocabulary), last axis contiguous; float32, float16 or bfloat16.
            Overwritten.
        target: (rows,), int64 or int32, contiguous.
        label_smoothing: share of the target that goes to all columns alike, 0 to 1.
        ignore_index: target of rows that do not count.
        tunables: fields of :class:`Walk`, by architecture where they differ.

    Returns:
        ``(loss, gradient)``: one float32, NaN where every row is ignored or a target is no
        column, and the logits' memory.

    Raises:
        TypeError: an argument of another type or dtype, or an unknown tunable.
        ValueError: an argument of another shape or device, or with gaps; a smoothing outside
            of 0 to 1.
    """
    check_tensor("logits", logits)
    check_axes("logits", logits, 2, 2)
    check_unit_stride("logits", logits)
    rows, columns = logits.shape
    if rows > 1 and logits.stride(0) < columns:
        raise ValueError("logits has rows that share memory, and its gradient is written in place")
    check_tensor("target", target, (torch.int64, torch.int32))
    check_shape("target", target, (rows,))
    check_beside("target", target, "logits", logits)
    check_contiguous("target", target)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"label_smoothing is {label_smoothing}; it must be 0 to 1")
    out = torch.empty((), dtype=torch.float32, device=logits.device)
    if not logits.numel():
        return out.fill_(float("nan")), logits
    loss = torch.empty(rows, dtype=torch.float32, device=logits.device)
    valid = torch.empty((), dtype=torch.int32, device=logits.device)
    _count[(1,)](target, valid, rows, ignore_index, BLOCK=4096, num_warps=8)
    walk = Walk(**for_architecture(tunables, logits.device))
    arguments = (logits, target, valid, loss, logits.stride(0), columns, ignore_index, float(label_smoothing))
    constants = {"SMOOTH": label_smoothing > 0, "GROUP": GROUP, **walk.asked()}
    if walk.tuned:
        _cross_entropy_tuned[(rows,)](*arguments, **constants)
    else:
        constants |= {"GROUPS": walk.groups(logits), "num_warps": walk.num_warps}
        _cross_entropy[(rows,)](*arguments, **constants)
    _mean[(1,)](loss, valid, out, rows, BLOCK=4096, num_warps=8)
    return out, logits


def reference(
    logits: torch.Tensor, target: torch.Tensor, label_smoothing: float = 0.0, ignore_index: int = IGNORE
) -> tuple[torch.Tensor, torch.Tensor]:
    """The unfused chain, one kernel an operation, in float32 or wider."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    shifted = wide - wide.amax(dim=-1, keepdim=True)
    logs = shifted - shifted.exp().sum(dim=-1, keepdim=True).log()
    counts = (target != ignore_index).to(wide.dtype)
    column = target.clamp(min=0).unsqueeze(1)
    hit = 1 - label_smoothing
    losses, gradient = logs.gather(1, column).squeeze(1) * -hit, logs.exp()
    weights = counts / counts.sum()
    if label_smoothing:
        losses = losses - logs.mean(dim=-1) * label_smoothing
        gradient = gradient - label_smoothing / logits.shape[-1]
    gradient = gradient.scatter_add(1, column, torch.full_like(column, -hit, dtype=wide.dtype))
    return (losses * weights).sum(), (gradient * weights.unsqueeze(1)).to(logits.dtype)


def inputs(make, shape, dtype):
    """Logits of a spread that trained models show. The last of several rows is ignored.

    It is one alone, since no kernel need read such a row, and the work model counts it.
    Vocabularies of Llama are as its training has them, without smoothing; the others have it.
    """
    rows, columns = shape
    target = make.integers((rows,), "int64", 0, columns)
    last = torch.arange(rows, device=target.device) == max(rows - 1, 1)
    return {
        "logits": make.uniform(shape, dtype, low=-8.0, high=8.0),
        "target": target.masked_fill(last, IGNORE),
        "label_smoothing": _smoothing(columns),
    }


def _smoothing(columns: int) -> float:
    return 0.0 if columns in LLAMA else SMOOTHING


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    rows, columns = shape
    n, size = rows * columns, DTYPE_BYTES[dtype]
    converted = 0 if dtype == "float32" else 2 * (size + 4) * n
    smoothed = 4 * (3 * n + 6 * rows) if _smoothing(columns) else 0
    return Work(
        fused_bytes=2 * n * size + 8 * rows + 4,
        unfused_bytes=converted + 4 * 14 * n + 134 * rows + 12 + smoothed,
        flops=(9 if _smoothing(columns) else 7) * n,
    )


@TORCH.call()
def torch_cross_entropy(logits: torch.Tensor, target: torch.Tensor, label_smoothing: float = 0.0) -> tuple:
    """PyTorch's own operator and its backward, in the logits' dtype."""
    with torch.enable_grad():
        leaf = logits.detach().requires_grad_()
        loss = functional.cross_entropy(leaf, target, ignore_index=IGNORE, label_smoothing=label_smoothing)
        (gradient,) = torch.autograd.grad(loss, leaf)
    return loss.detach(), gradient


@LIGER.call()
def liger_cross_entropy(logits: torch.Tensor, target: torch.Tensor, label_smoothing: float = 0.0) -> tuple:
    """Liger-Kernel's forward pass, which leaves the gradient in the logits' place."""
    from liger_kernel.ops.cross_entropy import cross_entropy_forward  # noqa: PLC0415 - where it is installed

    leaf = logits.detach().requires_grad_()  # else it leaves no gradient
    loss, *_, gradient = cross_entropy_forward(
        leaf, target, None, IGNORE, 0.0, label_smoothing, "mean", None, False, False, False
    )
    return loss, gradient.detach()


case = KernelCase(
    name="cross_entropy",
    fused=cross_entropy,
    reference=reference,
    inputs=inputs,
    work=work,
    shapes=((4096, 128256), (8192, 32000), (4096, 151936), (2048, 256000), (4096, 50257), (1, 128256)),
    small_shapes=((5, 32000), (4, 50257), (3, 1000)),
    dtypes=("float32", "float16", "bfloat16"),
    variants={
        # 32 warps are the most of a block of 32 lanes a warp; wavefronts of 64 lanes may be 16.
        "best": {
            "by_architecture": {
                "sm_90": {"num_warps": 32, "per_thread": 32, "first": "evict_last", "second": "evict_first"},
            },
        },
        "w8": {"num_warps": 8},
        "w16": {"num_warps": 16},
        "auto": {"tuned": True},
    },
    reduction_length=lambda shape: shape[0] * shape[1],
    deterministic=True,
    in_place=("logits",),
    strided_inputs=("logits",),
    baselines={"torch": torch_cross_entropy, "liger": liger_cross_entropy},
)
