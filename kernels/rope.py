"""Rotary position embedding of queries and keys, in place, forward and backward.

    (y1, y2) = (x1 c1 - x2 s1, x2 c2 + x1 s2)       for the halves x1, x2 of every head
    (dx1, dx2) = (dy1 c1 + dy2 s2, dy2 c2 - dy1 s1)

c1, c2 and s1, s2 are the halves of a token's row of cos and sin. One launch for queries and
keys: a program turns all heads of one token, and reads the token's angles once. Heads of
queries and keys may differ in number (grouped heads). Forward overwrites the inputs;
backward leaves the gradients that come in as they are, for they may be someone else's.

A shape is (batch, tokens, query heads, key heads, head size). Work of one forward call,
N = elements of q and k, C = tokens × head size, s = bytes per element:
    fused    q, k, cos and sin read, q and k written: (2 N + 2 C) s
    unfused  for q and k: × cos 2 N + C, one half negated N, put together 2 N,
             × sin 2 N + C, sum 3 N: (10 N + 4 C) s. Fusion gains at most about 5.
    flops    per element two products and a sum = 3
Backward has the same figures: it turns the other way.

Speed on an H200 beside its goal: the table of ``scripts/suite_goals.py`` in ``reports/``. What is read is asked to stay
in cache, so that results leave it first: that saves 5 µs of 88, and as much where a read of twice the cache follows, so
no write is put off.

Sources:
    1. J. Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021,
       https://arxiv.org/abs/2104.09864; halves instead of pairs as in GPT-NeoX and Llama.
    2. Heads: 32/8 of 128 Llama 3 8B and Mistral 7B, 64/8 of 128 Llama 3 70B, 28/4 of 128
       Qwen2.5 7B, 32/32 of 96 Phi-3 mini (no power of two); 64 sequences of one token:
       decoding.
"""

import torch
import triton
import triton.language as tl
from arguments import check_axes, check_beside, check_most, check_shape, check_tensor, check_unit_stride

from portkit import Direction, KernelCase, Work
from portkit.baselines.liger import LIGER
from portkit.model import DTYPE_BYTES

MAX_BATCH = 65535  # programs on a grid's second axis
MAX_HALF_ELEMENTS = 32768  # of a token's heads: what one program holds of the larger tensor, half of it


@triton.jit
def _places(head_stride, FAR: tl.constexpr, HEADS: tl.constexpr, HALF: tl.constexpr):
    """Offsets of the first halves of a token's heads."""
    head = tl.arange(0, HEADS)[:, None]
    if FAR:
        head = head.to(tl.int64)
    return head * head_stride + tl.arange(0, HALF)[None, :]


@triton.jit
def _there(heads, half, HEADS: tl.constexpr, HALF: tl.constexpr):
    return (tl.arange(0, HEADS) < heads)[:, None] & (tl.arange(0, HALF) < half)[None, :]


@triton.jit
def _read(ptr, mask, KEEP: tl.constexpr):
    """``KEEP``: with the wish that it stays in cache, where in place it is written at once."""
    POLICY: tl.constexpr = "evict_last" if KEEP else ""
    if mask is None:
        return tl.load(ptr, eviction_policy=POLICY).to(tl.float32)
    else:  # noqa: RET505 - Triton takes what follows a constant branch for code of both
        return tl.load(ptr, mask=mask, other=0.0, eviction_policy=POLICY).to(tl.float32)


@triton.jit
def _turn(y_ptr, at, mask, x1, x2, half, c1, c2, s1, s2, BACKWARD: tl.constexpr):
    if BACKWARD:
        y1 = x1 * c1 + x2 * s2
        y2 = x2 * c2 - x1 * s1
    else:
        y1 = x1 * c1 - x2 * s1
        y2 = x2 * c2 + x1 * s2
    tl.store(y_ptr + at, y1.to(y_ptr.dtype.element_ty), mask=mask)
    tl.store(y_ptr + half + at, y2.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _rope(
    q_ptr, k_ptr, q_out_ptr, k_out_ptr, cos_ptr, sin_ptr,
    q_batch, q_token, q_head, k_batch, k_token, k_head,
    qo_batch, qo_token, qo_head, ko_batch, ko_token, ko_head,
    cos_batch, cos_token, sin_batch, sin_token,
    q_heads, k_heads, half,
    BACKWARD: tl.constexpr, WHOLE: tl.constexpr, FAR: tl.constexpr,
    Q_HEADS: tl.constexpr, K_HEADS: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    # A grid of two axes, since a division would stand between a program's start and its first load.
    token, batch = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    lane = tl.arange(0, HALF)[None, :]
    within = None if WHOLE else lane < half
    cos_ptr += batch * cos_batch + token * cos_token
    sin_ptr += batch * sin_batch + token * sin_token
    c1, c2 = _read(cos_ptr + lane, within, False), _read(cos_ptr + half + lane, within, False)
    s1, s2 = _read(sin_ptr + lane, within, False), _read(sin_ptr + half + lane, within, False)
    q_ptr += batch * q_batch + token * q_token
    q_out_ptr += batch * qo_batch + token * qo_token
    k_ptr += batch * k_batch + token * k_token
    k_out_ptr += batch * ko_batch + token * ko_token
    # All that is read comes before the first store, so that it is on its way together.
    q_at, k_at = _places(q_head, FAR, Q_HEADS, HALF), _places(k_head, FAR, K_HEADS, HALF)
    q_mask = None if WHOLE else _there(q_heads, half, Q_HEADS, HALF)
    k_mask = None if WHOLE else _there(k_heads, half, K_HEADS, HALF)
    q1, q2 = _read(q_ptr + q_at, q_mask, True), _read(q_ptr + half + q_at, q_mask, True)
    k1, k2 = _read(k_ptr + k_at, k_mask, True), _read(k_ptr + half + k_at, k_mask, True)
    q_at, k_at = _places(qo_head, FAR, Q_HEADS, HALF), _places(ko_head, FAR, K_HEADS, HALF)
    _turn(q_out_ptr, q_at, q_mask, q1, q2, half, c1, c2, s1, s2, BACKWARD)
    _turn(k_out_ptr, k_at, k_mask, k1, k2, half, c1, c2, s1, s2, BACKWARD)


# The trials turn in place again and again: what they read is put back after each.
_rope_tuned = triton.autotune(
    configs=[triton.Config({}, num_warps=warps) for warps in (2, 4, 8)],
    key=["q_heads", "k_heads", "half"],
    restore_value=["q_ptr", "k_ptr"],
)(_rope)


def _launch(q, k, q_out, k_out, cos, sin, backward, num_warps, tuned) -> None:
    batch, tokens, q_heads, size = q.shape
    k_heads = k.shape[2]
    if not (batch * tokens and size):
        return
    angles = (cos.stride(0) if cos.shape[0] > 1 else 0, cos.stride(1), sin.stride(0) if sin.shape[0] > 1 else 0)
    strides = [stride for tensor in (q, k, q_out, k_out) for stride in tensor.stride()[:3]]
    arguments = (q, k, q_out, k_out, cos, sin, *strides, *angles, sin.stride(1), q_heads, k_heads, size // 2)
    axes = {"Q_HEADS": q_heads, "K_HEADS": k_heads, "HALF": size // 2}
    blocks = {name: triton.next_power_of_2(max(extent, 1)) for name, extent in axes.items()}
    farthest = max(tensor.shape[2] * tensor.stride(2) for tensor in (q, k, q_out, k_out))
    constants = {"BACKWARD": backward, "WHOLE": blocks == axes, "FAR": farthest + size >= 2**31, **blocks}
    if tuned:
        _rope_tuned[(tokens, batch)](*arguments, **constants)
    else:
        _rope[(tokens, batch)](*arguments, **constants, num_warps=num_warps)


class _Rope(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, cos, sin, num_warps, tuned) -> tuple[torch.Tensor, torch.Tensor]:
        _launch(q, k, q, k, cos, sin, False, num_warps, tuned)
        ctx.save_for_backward(cos, sin)
        ctx.num_warps = num_warps
        return q, k

    @staticmethod
    def backward(ctx, dq, dk) -> tuple:
        cos, sin = ctx.saved_tensors
        dq = dq if dq.stride(-1) == 1 else dq.contiguous()
        dk = dk if dk.stride(-1) == 1 else dk.contiguous()
        dq_out = torch.empty(dq.shape, dtype=dq.dtype, device=dq.device)
        dk_out = torch.empty(dk.shape, dtype=dk.dtype, device=dk.device)
        _launch(dq, dk, dq_out, dk_out, cos, sin, True, ctx.num_warps, False)
        return dq_out, dk_out, None, None, None, None


def rope(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *,
    num_warps: int = 4,
    tuned: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Turn queries and keys by their positions' angles, in place; differentiable in both.

    Args:
        q: (batch, tokens, query heads, size), last axis contiguous, any strides beside;
            float32, float16 or bfloat16. Overwritten.
        k: (batch, tokens, key heads, size), likewise, of the dtype of ``q``. Overwritten.
        cos: (batch or 1, tokens, size), last axis contiguous, of the dtype of ``q`` or float32.
        sin: likewise. Angles have no gradient.
        num_warps: warps (wavefronts) of a program.
        tuned: choose them by trial, forward.

    Returns:
        ``(q, k)``, the same memory.

    Raises:
        TypeError: an argument of another type or dtype.
        ValueError: an argument of another shape or device, with gaps within rows, elements
            that share memory, an odd head size, or more heads than one program holds.
    """
    check_tensor("q", q)
    check_axes("q", q, 4, 4)
    check_tensor("k", k, (q.dtype,))
    check_axes("k", k, 4, 4)
    batch, tokens, _, size = q.shape
    check_most("batch", batch, MAX_BATCH, "the most sequences of a grid")
    check_shape("k", k, (batch, tokens, k.shape[2], size))
    if size % 2:
        raise ValueError(f"q has heads of size {size}; a head has two halves, so it must be even")
    for name, tensor in (("q", q), ("k", k)):
        check_unit_stride(name, tensor)
        check_beside(name, tensor, "q", q)
        if any(stride == 0 and extent > 1 for stride, extent in zip(tensor.stride(), tensor.shape, strict=True)):
            raise ValueError(f"{name} has an expanded axis, whose elements share memory: pass {name}.contiguous()")
        held = triton.next_power_of_2(max(tensor.shape[2], 1)) * triton.next_power_of_2(max(size // 2, 1))
        if held > MAX_HALF_ELEMENTS:
            raise ValueError(f"{name} has {tensor.shape[2]} heads of {size}, more than one program holds")
    for name, tensor in (("cos", cos), ("sin", sin)):
        check_tensor(name, tensor, (q.dtype, torch.float32))
        check_axes(name, tensor, 3, 3)
        check_shape(name, tensor, (batch if tensor.shape[0] != 1 else 1, tokens, size))
        check_unit_stride(name, tensor)
        check_beside(name, tensor, "q", q)
    return _Rope.apply(q, k, cos, sin, num_warps, tuned)


def reference(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The unfused chain, one kernel an operation, in the dtype of q."""
    cos, sin = cos.unsqueeze(2), sin.unsqueeze(2)
    return q * cos + _turned(q) * sin, k * cos + _turned(k) * sin


def _turned(x: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def inputs(make, shape, dtype):
    """Elements in [-1, 1), and true angles, so that lengths stay: cos and sin are rational in a uniform number.

    Both halves of a row of cos are alike, and of sin, as they are in Llama.
    """
    batch, tokens, q_heads, k_heads, size = shape
    q = make.uniform((batch, tokens, q_heads, size), dtype)
    k = make.uniform((batch, tokens, k_heads, size), dtype)
    tangent = make.uniform((1, tokens, size // 2), "float64")  # of half the angle
    square = tangent * tangent
    cos, sin = (1 - square) / (1 + square), 2 * tangent / (1 + square)
    return {"q": q, "k": k, "cos": torch.cat([cos, cos], -1).to(q.dtype), "sin": torch.cat([sin, sin], -1).to(q.dtype)}


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    batch, tokens, q_heads, k_heads, head = shape
    n, angles, size = batch * tokens * (q_heads + k_heads) * head, tokens * head, DTYPE_BYTES[dtype]
    return Work(
        fused_bytes=(2 * n + 2 * angles) * size,
        unfused_bytes=(10 * n + 4 * angles) * size,
        flops=3 * n,
    )


def backward_work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations of the gradients, derived in the module's docstring."""
    return work(shape, dtype)


def _for_liger(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> dict:
    return {"q": q.transpose(1, 2), "k": k.transpose(1, 2), "cos": cos, "sin": sin}


@LIGER.call(prepare=_for_liger)
def liger_rope(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Liger-Kernel's, in place; it sees the same memory as (batch, heads, tokens, size)."""
    from liger_kernel.ops.rope import LigerRopeFunction  # noqa: PLC0415 - where it is installed

    q, k = LigerRopeFunction.apply(q, k, cos, sin)
    return q.transpose(1, 2), k.transpose(1, 2)


case = KernelCase(
    name="rope",
    fused=rope,
    reference=reference,
    inputs=inputs,
    work=work,
    backward_work=backward_work,
    shapes=(
        (4, 4096, 32, 8, 128),
        (1, 8192, 64, 8, 128),
        (1, 4096, 28, 4, 128),
        (1, 4096, 32, 32, 96),
        (64, 1, 32, 8, 128),
    ),
    small_shapes=((2, 3, 32, 8, 128), (1, 4, 28, 4, 128), (1, 3, 32, 32, 96), (5, 1, 32, 8, 128)),
    dtypes=("float32", "float16", "bfloat16"),
    variants={
        "w4": {"num_warps": 4},
        "w2": {"num_warps": 2},
        "w8": {"num_warps": 8},
        "auto": {"tuned": True},
    },
    directions=(Direction.FORWARD, Direction.BACKWARD),
    reduction_length=lambda shape: 2,
    differentiable=("q", "k"),
    deterministic=True,
    in_place=("q", "k"),
    strided_inputs=("q", "k", "cos", "sin"),
    family_gaps={"tail": "a head has two halves, so its size is even"},
    baselines={"liger": liger_rope},
)
