"""Liger-Kernel's rotary position embedding, forward and backward, from its installed package and unmodified.

    (y1, y2) = (x1 cos - x2 sin, x2 cos + x1 sin)   for the halves x1, x2 of every head

One block a token turns all heads of q and k; the heads come as attention layers have
them, (batch, heads, tokens, size) seen over memory in (batch, tokens, heads, size), which
lets the kernel work in place.

A shape is (batch, tokens, query heads, key heads, head size). Work of one forward call,
N = elements of q and k, C = tokens × head size, s = bytes per element:
    fused    q, k, cos and sin read, q and k written: (2 N + 2 C) s
    unfused  for q and k: × cos 2 N + C, negated half N, put together 2 N, × sin 2 N + C,
             sum 3 N: (10 N + 4 C) s. Fusion gains at most about 5.
    flops    per element: two products and a sum = 3

Sources:
    1. Liger-Kernel, https://github.com/linkedin/Liger-Kernel, ``ops/rope.py`` (0.8.5 read).
    2. J. Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021,
       https://arxiv.org/abs/2104.09864
"""

import torch
from liger_kernel.ops.rope import LigerRopeFunction

from portkit import Direction, KernelCase, Work
from portkit.model import DTYPE_BYTES


def fused(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Liger-Kernel's public function, as its patched attention layers call it."""
    return LigerRopeFunction.apply(q, k, cos, sin)


def reference(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The unfused chain, one kernel an operation, in the dtype of q."""
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + _turned(q) * sin, k * cos + _turned(k) * sin


def _turned(x: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def inputs(make, shape, dtype):
    """Elements in [-1, 1); both halves of cos and sin are alike, as they are in Llama."""
    batch, tokens, q_heads, k_heads, size = shape
    half = (1, tokens, size // 2)
    return {
        "q": make.uniform((batch, tokens, q_heads, size), dtype).transpose(1, 2),
        "k": make.uniform((batch, tokens, k_heads, size), dtype).transpose(1, 2),
        "cos": torch.cat([make.uniform(half, dtype)] * 2, dim=-1),
        "sin": torch.cat([make.uniform(half, dtype)] * 2, dim=-1),
    }


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    batch, tokens, q_heads, k_heads, head = shape
    n, angles, size = batch * tokens * (q_heads + k_heads) * head, tokens * head, DTYPE_BYTES[dtype]
    return Work(
        fused_bytes=(2 * n + 2 * angles) * size,
        unfused_bytes=(10 * n + 4 * angles) * size,
        flops=3 * n,
    )


case = KernelCase(
    name="liger_rope",
    fused=fused,
    reference=reference,
    inputs=inputs,
    work=work,
    shapes=((1, 4096, 32, 8, 128), (1, 4096, 64, 8, 128)),
    small_shapes=((1, 4, 32, 8, 128),),
    dtypes=("float32", "bfloat16"),
    variants={"default": {}},
    directions=(Direction.FORWARD, Direction.BACKWARD),
    reduction_length=lambda shape: 2,
    differentiable=("q", "k"),
    in_place=("q", "k"),
    interpreter_gaps={"bfloat16": "it multiplies in bfloat16, which Triton's interpreter does on raw bits"},
    family_gaps={"tail": "a head has two halves, so its size is even"},
)
