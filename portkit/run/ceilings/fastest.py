"""The least time of an operation: a ceiling is what was reached, not what is usual."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

BATCH_MS = 4.0
"""Time of a batch of calls at least: the few µs of its two events are then under 0.1 %."""

BATCHES = 5
MOST_CALLS = 200


@dataclass(frozen=True)
class Reached:
    """A ceiling, and what reached it."""

    value: float
    by: str


def best_ms(call: Callable[[], object]) -> float:
    """Milliseconds of one call in the fastest of some batches of calls in a row, between two events.

    The first call is not timed: it may load or choose a kernel.
    """
    call()
    calls = min(MOST_CALLS, max(1, math.ceil(BATCH_MS / max(_batch_ms(call, 1), 1e-3))))
    return min(_batch_ms(call, calls) for _ in range(BATCHES)) / calls


def _batch_ms(call: Callable[[], object], calls: int) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    elapsed: float = start.elapsed_time(end)
    return elapsed
