"""Interprets gradients of causal float32 attention where rows of values are alike; run as a script.

Then all of dP are one number, and D is that number, so that queries have no gradient; but dP is a sum of which the
first and the last term are large and cancel, so that one of another order is another number. Writes the largest
gradient of the first 16 queries, and the difference of the two orders.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "kernels"))

import flash_attention as own
import torch

HEADS, ROWS, DIM = 2, 40, 128


def main() -> None:
    torch.manual_seed(0)
    query, key, grad = (torch.rand((1, HEADS, ROWS, DIM)) for _ in range(3))
    value = torch.rand(DIM)
    value[0], value[-1], grad[..., 0], grad[..., -1] = 2.0**14, -(2.0**14), 1.0, 1.0
    value = value.expand(1, HEADS, ROWS, DIM).contiguous()
    leaf = query.requires_grad_()
    own.flash_attention(leaf, key, value).backward(grad)
    products = grad[0] @ value[0].mT
    other = (grad * value).flip(-1).sum(-1)
    print(float(leaf.grad[:, :, :16].abs().max()), float((products[..., 0] - other[0]).abs().max()))


if __name__ == "__main__":
    main()
