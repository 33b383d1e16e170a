"""A Llama-style decoder block, for ``portkit toggle``: RMSNorm, rotary attention, SwiGLU.

Random weights, bfloat16, nothing is downloaded. Written as its formulas are, one operation after
the other, so that what torch.compile fuses shows::

    portkit toggle examples/toggle_llama_block.py:build --input 'bf16[4,2048,2048]'

Sources:
    1. H. Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023,
       https://arxiv.org/abs/2302.13971: norm before each half, SwiGLU, rotary positions.
    2. J. Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021,
       https://arxiv.org/abs/2104.09864.
"""

import torch
from torch import nn
from torch.nn import functional

HIDDEN, HEADS, INTERMEDIATE = 2048, 16, 5632
BASE = 10000.0
"""Of the rotary frequencies."""


class RMSNorm(nn.Module):
    """``x / sqrt(mean(x²) + eps) * weight``, the mean in float32 or wider."""

    def __init__(self, hidden: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of the last axis."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * scaled.to(x.dtype)


def rotary(x: torch.Tensor) -> torch.Tensor:
    """Rotate pairs of features by angles that grow with the position; x is batch × heads × length × head size."""
    half = x.shape[-1] // 2
    frequencies = BASE ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angles = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)[:, None] * frequencies
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    left, right = x[..., :half], x[..., half:]
    return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1)


class Attention(nn.Module):
    """Causal, all heads with keys of their own."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` is batch × length × hidden."""
        batch, length, hidden = x.shape
        split = self.qkv(x).view(batch, length, 3, self.heads, hidden // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(rotary(q), rotary(k), v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, hidden))


class SwiGLU(nn.Module):
    """``down(silu(gate(x)) * up(x))``."""

    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.gate = nn.Linear(hidden, intermediate, bias=False)
        self.up = nn.Linear(hidden, intermediate, bias=False)
        self.down = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of the last axis."""
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """Attention and SwiGLU, a norm before each and its input added after it."""

    def __init__(self, hidden: int = HIDDEN, heads: int = HEADS, intermediate: int = INTERMEDIATE) -> None:
        super().__init__()
        self.attention_norm, self.attention = RMSNorm(hidden), Attention(hidden, heads)
        self.mlp_norm, self.mlp = RMSNorm(hidden), SwiGLU(hidden, intermediate)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` is batch × length × hidden."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


def build() -> nn.Module:
    """A block of TinyLlama's size in bfloat16."""
    return Block().to(torch.bfloat16).eval()


def build_small() -> nn.Module:
    """The same in float32 and small enough for a laptop: input ``f32[1,128,256]``."""
    return Block(256, 8, 688).eval()


def build_fused_norm() -> nn.Module:
    """``build_small`` with PyTorch's own fused norm, as a variant to stand beside it."""
    block = build_small()
    block.attention_norm, block.mlp_norm = nn.RMSNorm(256, 1e-6), nn.RMSNorm(256, 1e-6)
    return block
