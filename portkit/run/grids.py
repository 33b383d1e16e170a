"""The grid of a launch: what launchers take, and what each platform allows."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from portkit.model import Platform
from portkit.run.shim import LaunchRefusedError

Grid = tuple[int, int, int]


@dataclass(frozen=True)
class GridLimits:
    """Largest grid of a platform, the same for all its architectures."""

    blocks: Grid  # on each axis
    threads: int | None  # blocks × threads of a block on the first axis; None: no such limit


LIMITS: Mapping[Platform, GridLimits] = {
    # CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
    Platform.CUDA: GridLimits((2**31 - 1, 65535, 65535), None),
    # HIP, hipModuleLaunchKernel: fewer than 2^32 work items on an axis. Triton's launcher takes signed 32-bit counts.
    Platform.ROCM: GridLimits((2**31 - 1, 2**31 - 1, 2**31 - 1), 2**32 - 1),
}


def whole(kernel: str, *counts: Any) -> Grid:
    """The grid in whole numbers.

    Raises:
        LaunchRefusedError: a count is a fraction or negative, which no launcher takes.
    """
    x, y, z = (_count(kernel, count) for count in counts)
    return x, y, z


def broken_grid(platform: Platform, grid: Grid, threads: int) -> tuple[str, ...]:
    """Limits of the platform that a grid of blocks of ``threads`` breaks, each in words."""
    limits = LIMITS[platform]
    axes = zip("xyz", grid, limits.blocks, strict=True)
    broken = [f"grid {axis} {count} blocks > {most}" for axis, count, most in axes if count > most]
    if limits.threads is not None and grid[0] * threads > limits.threads:
        broken.append(f"grid x {grid[0] * threads} threads > {limits.threads}")
    return tuple(broken)


def _count(kernel: str, count: Any) -> int:
    try:
        number = operator.index(count)
    except TypeError as error:
        if isinstance(count, torch.Tensor):  # without values it has no number to give; that is no fault of the grid
            raise
        raise LaunchRefusedError(f"the grid of {kernel} has {count!r} blocks on an axis: {error}") from None
    if number < 0:
        raise LaunchRefusedError(f"the grid of {kernel} has {number} blocks on an axis")
    return number
