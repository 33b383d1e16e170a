"""Bandwidth of the device's memory: copy, read and write, each by the best of a few operations.

No single operation reaches the ceiling on every device, so several are tried and the
best is named. Buffers are far larger than the last-level cache, so that what of them
stays in it does not show; a copy counts what it reads and what it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import triton
import triton.language as tl

from portkit.model import Target
from portkit.run.ceilings.fastest import Reached, best_ms
from portkit.run.timing.flush import largest_cache

LEAST_BYTES = 1 << 30
"""Size of a buffer, where memory allows: half a millisecond at 4 TB/s."""

CACHES = 16
"""A buffer is at least so many times the last-level cache."""

FEWEST_CACHES = 4
"""Below this, what stays in the cache would show: such a device has no figure."""

MEMORY_SHARE = 8
"""Of the free memory, a buffer takes at most one part in this many."""

BLOCK = 4096  # elements a program copies or writes at a time
STEPS = 8  # blocks that a reading program adds up


def bandwidths(target: Target) -> dict[str, Callable[[], Reached]]:
    """Figure → how it is measured on the current device, in GB/s.

    Raises:
        MemoryError: when called, where too little memory is free.
    """
    return {f"{access}_gbs": lambda access=access: _best(access, target) for access in _MAKERS}  # type: ignore[misc]


def buffer_bytes(target: Target, free: int) -> int:
    """Size of a buffer: a whole number of blocks.

    Args:
        target: its caches, as far as the catalogue knows them.
        free: bytes of the device's memory.

    Raises:
        MemoryError: that is too few for buffers that no cache holds.
    """
    cache = largest_cache(target)
    size = min(max(LEAST_BYTES, CACHES * cache), free // MEMORY_SHARE)
    if size < FEWEST_CACHES * cache or size < 4 * BLOCK * STEPS:
        raise MemoryError(f"{free >> 20} MiB are free: too few for buffers of {FEWEST_CACHES} times the cache")
    return size // (4 * BLOCK * STEPS) * (4 * BLOCK * STEPS)


def _best(access: str, target: Target) -> Reached:
    size = buffer_bytes(target, torch.cuda.mem_get_info()[0])
    buffer = torch.ones(size // 4, dtype=torch.float32, device="cuda")
    moved = size * (2 if access == "copy" else 1)
    rates = {name: moved / best_ms(call) / 1e6 for name, call in _MAKERS[access](buffer).items()}
    name = max(rates, key=lambda each: rates[each])
    return Reached(rates[name], f"{name}, float32, {size >> 20} MiB")


def _copies(source: torch.Tensor) -> Mapping[str, Callable[[], object]]:
    copy = torch.empty_like(source)
    grid = (source.numel() // BLOCK,)
    return {
        "torch copy_": lambda: copy.copy_(source),
        "torch.neg": lambda: torch.neg(source, out=copy),
        "Triton copy": lambda: _copy[grid](source, copy, BLOCK=BLOCK, num_warps=8),
    }


def _reads(source: torch.Tensor) -> Mapping[str, Callable[[], object]]:
    programs = source.numel() // (BLOCK * STEPS)
    sums = torch.empty(programs, dtype=torch.float32, device="cuda")
    return {
        "torch.amax": lambda: torch.amax(source),
        "torch.sum": lambda: torch.sum(source),
        "Triton sum": lambda: _add_up[(programs,)](source, sums, STEPS=STEPS, BLOCK=BLOCK, num_warps=8),
    }


def _writes(target: torch.Tensor) -> Mapping[str, Callable[[], object]]:
    grid = (target.numel() // BLOCK,)
    return {
        "torch fill_": lambda: target.fill_(1.0),
        "torch zero_": target.zero_,
        "Triton fill": lambda: _fill[grid](target, BLOCK=BLOCK, num_warps=8),
    }


_MAKERS: Mapping[str, Callable[[torch.Tensor], Mapping[str, Callable[[], object]]]] = {
    "copy": _copies,
    "read": _reads,
    "write": _writes,
}


# Kernels take whole blocks only: buffer_bytes sees to it.


@triton.jit  # type: ignore[untyped-decorator]
def _copy(source, copy, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, N803
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(copy + at, tl.load(source + at))


@triton.jit  # type: ignore[untyped-decorator]
def _add_up(source, sums, STEPS: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, N803
    total = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0).to(tl.int64) * STEPS * BLOCK + tl.arange(0, BLOCK)
    for step in range(STEPS):
        total += tl.load(source + first + step * BLOCK)
    tl.store(sums + tl.program_id(0), tl.sum(total))


@triton.jit  # type: ignore[untyped-decorator]
def _fill(target, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, N803
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.full((BLOCK,), 1.0, tl.float32))
