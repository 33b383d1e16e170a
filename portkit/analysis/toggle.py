"""Where the time of a way goes: to the device's memory, its arithmetic, or the host's launches.

Pure. Of a way on a GPU:

- idle = 1 − kernel time on the trace ÷ wall clock: the share in which the device has no work,
  since the host launches too slowly. From one half on the way is launch-bound.
- else the roofline decides: bytes ÷ measured bandwidth against floating-point operations ÷ measured
  rate of matrix products, both of the eager model's operations but for the bytes of generated
  kernels; the longer of both bounds, and its share of the kernel time says how near the way is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from portkit.store.toggled import Toggled, Way

LAUNCH: Final = "launch"
MEMORY: Final = "memory"
COMPUTE: Final = "compute"

LAUNCH_BOUND_FROM: Final = 0.5
"""Idle share from which launches bound."""


@dataclass(frozen=True)
class Spent:
    """Where the time of one way goes. What is None has its reason in ``why``."""

    bound: str | None  # launch, memory or compute
    idle: float | None  # share of the wall clock in which the device has no work
    attained: float | None  # least time by the ceiling that bounds ÷ kernel time
    why: str = ""


def spent(way: Way, found: Toggled) -> Spent:
    """Judge one way."""
    if way.failed is not None:
        return Spent(None, None, None, "it does not run")
    if not found.on_gpu:
        return Spent(None, None, None, "not known: no ceilings are measured on a CPU")
    if way.kernel_ms is None or way.wall is None:
        return Spent(None, None, None, way.nulls.get("kernel_ms", "no kernel time was taken"))
    idle = max(0.0, 1 - way.kernel_ms / way.wall.median_ms)
    if idle >= LAUNCH_BOUND_FROM:
        return Spent(LAUNCH, idle, None)
    return _by_roofline(way, found, way.kernel_ms, idle)


def _by_roofline(way: Way, found: Toggled, kernel_ms: float, idle: float) -> Spent:
    if found.roofs is None:
        return Spent(None, idle, None, found.nulls.get("roofs", "no ceilings were measured"))
    moved = way.dram_bytes if way.moved_bytes is None else way.moved_bytes
    if moved is None or found.flops is None:
        whole = found.nulls.get("counts") or found.nulls.get("flops") or "bytes are unknown"
        return Spent(None, idle, None, way.nulls.get("moved_bytes") or whole)
    least = {
        MEMORY: moved / found.roofs.memory_gbs / 1e6,
        COMPUTE: found.flops / found.roofs.tflops / 1e9,
    }
    bound = max(least, key=lambda each: least[each])
    return Spent(bound, idle, least[bound] / kernel_ms if kernel_ms else None)
