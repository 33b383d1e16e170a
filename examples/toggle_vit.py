"""A small vision transformer, for ``portkit toggle``: patches, four encoder layers, a classifier.

Random weights, float32, nothing is downloaded::

    portkit toggle examples/toggle_vit.py:build --input 'f32[8,3,64,64]'

Source: A. Dosovitskiy et al., "An Image is Worth 16x16 Words: Transformers for Image Recognition
at Scale", ICLR 2021, https://arxiv.org/abs/2010.11929.
"""

import torch
from torch import nn
from torch.nn import functional

SIZE, PATCH, HIDDEN, HEADS, LAYERS, CLASSES = 64, 8, 192, 3, 4, 100


class Layer(nn.Module):
    """Attention over all patches and a two-layer perceptron, a norm before each."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first_norm, self.second_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` is images × patches × hidden."""
        x = x + self._attention(self.first_norm(x))
        return x + self.down(functional.gelu(self.up(self.second_norm(x))))

    def _attention(self, x: torch.Tensor) -> torch.Tensor:
        images, patches, hidden = x.shape
        q, k, v = self.qkv(x).view(images, patches, 3, self.heads, hidden // self.heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).reshape(images, patches, hidden))


class VisionTransformer(nn.Module):
    """Class scores of images; patches are averaged, there is no class token."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, HIDDEN, PATCH, stride=PATCH)
        self.positions = nn.Parameter(0.02 * torch.randn((SIZE // PATCH) ** 2, HIDDEN))
        self.layers = nn.ModuleList(Layer(HIDDEN, HEADS) for _ in range(LAYERS))
        self.norm, self.classes = nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images are images × 3 × 64 × 64."""
        x = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.classes(self.norm(x).mean(dim=1))


def build() -> nn.Module:
    """The model, 1.8 million weights."""
    return VisionTransformer().eval()
