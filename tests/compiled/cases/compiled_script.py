"""A script with a function that torch.compile compiles, and a kernel of its own beside it."""

import sys

import torch
import triton
import triton.language as tl

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cuda"


@triton.jit
def doubled(x, n, BLOCK: tl.constexpr):
    """Twice each, in place."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)


@torch.compile
def normed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Softmax of rows, and a column of theirs."""
    return torch.softmax(x * w + 1, -1).relu()


rows = torch.ones(64, 1000, device=DEVICE)
normed(rows, torch.ones(1000, device=DEVICE))
if DEVICE == "cuda":
    doubled[(63,)](rows, rows.numel(), BLOCK=1024)
