"""Cross entropy of logits far from 0, in Triton's interpreter; run as a script.

Their exponentials have no sum in float32 before a maximum is taken off. Writes a line for each
input: its name, the error of the loss and the largest error of the gradient, both relative.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "kernels"))

import cross_entropy as own

TARGET = torch.tensor([0, 1199, -100, 5, 600, 7])


def inputs() -> Iterator[tuple[str, torch.Tensor]]:
    """Rows by kind; where kinds are mixed, each follows another, and one is ignored."""
    usual = torch.empty(6, 1200).uniform_(-8.0, 8.0, generator=torch.Generator().manual_seed(0))
    yield "usual", usual
    yield "large", usual + 1000.0
    yield "small", usual - 1000.0
    yield "wide", usual * 100.0
    yield "mixed", usual + torch.tensor([0.0, 200.0, 0.0, -150.0, 0.0, 0.0])[:, None]
    masked = usual.clone()
    masked[:, 10:500] = -float("inf")
    yield "masked", masked
    yield "least", torch.where(torch.arange(6)[:, None] == 4, torch.finfo(torch.float32).min, usual)
    never = usual.clone()
    never[2] = float("nan")  # of the row that is ignored
    yield "never", never


def error(got: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((got.double() - wanted).abs().max() / wanted.abs().max())


def main() -> None:
    for name, logits in inputs():
        for per_thread in (8, 32):
            wanted = own.reference(logits.double(), TARGET)
            if name == "never":  # what a reference makes of it is no number
                wanted = own.reference(logits.nan_to_num(0.0).double(), TARGET)
            got = own.cross_entropy(logits.clone(), TARGET, num_warps=1, per_thread=per_thread)
            print(f"{name}-{per_thread}", *(error(a, b) for a, b in zip(got, wanted, strict=True)))


if __name__ == "__main__":
    main()
