"""Tokens of sampling.py against float64 where its way of search changes, in Triton's interpreter; run as a script.

Prints a line per setting: its name, and how many rows that are not near a border differ.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "kernels"))

ROWS, COLUMNS = 2, 1203
NEAR = 1e-5  # of a border, as a share of the mass: rounding decides there


def logits(kind: str) -> torch.Tensor:
    spread = torch.rand(ROWS, COLUMNS, generator=torch.Generator().manual_seed(1)) * 16 - 8
    if kind == "ties":
        return spread.round()
    if kind == "one group":  # the largest lie side by side
        spread[:, 64:90] += 20
    if kind == "infinite":
        spread[:, ::2] = -float("inf")
    return spread


def differing(kind: str, dtype: torch.dtype, top_k: int, top_p: float) -> int:
    import sampling as own

    x = logits(kind).to(dtype)
    uniform = torch.tensor([0.3, 0.99])
    got = own.sampling(x, uniform, 0.7, top_k, top_p, num_warps=1)  # chunks of 512
    settings = (uniform.double(), 0.7, top_k or COLUMNS, top_p)
    wanted, margin = own.reference(x.double(), *settings), own.margin(x.double(), *settings)
    return int(((got != wanted) & (margin > NEAR)).sum())


if __name__ == "__main__":
    for kind in ("plain", "ties", "one group", "infinite"):
        for dtype in (torch.float32, torch.bfloat16):
            for top_k, top_p in ((0, 0.9), (50, 0.5), (6, 0.8)):
                name = f"{kind}-{dtype}-{top_k}-{top_p}".replace(" ", "-")
                print(name, differing(kind, dtype, top_k, top_p))
