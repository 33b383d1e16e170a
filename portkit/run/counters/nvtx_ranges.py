"""Ranges as Nsight Compute sees them: NVTX, whose names it writes beside each kernel."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from portkit.run.counters import RANGE


@contextlib.contextmanager
def counted(name: str) -> Iterator[None]:
    """A range in which kernels are counted, of the call with that name."""
    with _range(RANGE), _range(name):
        yield


@contextlib.contextmanager
def discarded() -> Iterator[None]:
    """A range in which kernels are counted and belong to no call."""
    with _range(RANGE):
        yield


@contextlib.contextmanager
def _range(name: str) -> Iterator[None]:
    torch.cuda.nvtx.range_push(name)
    try:
        yield
    finally:
        torch.cuda.nvtx.range_pop()
