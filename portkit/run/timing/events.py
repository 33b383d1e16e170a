"""Device events around a call: what a user waits for.

CUDA and HIP events record on the stream (torch.cuda.Event serves both). Before each
sample enough work is queued that the host has enqueued the whole call before the device
comes to it (twice its measured enqueue time). So a sample is what the device needs from
start to end of the call, gaps between its kernels included, and not how fast this host's
Python launches: that cost swings by a factor of two within minutes on a shared host, and
no kernel can help it. A sample whose start the device had reached before the host was
done is counted as late.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch

from portkit.run.timing.flush import Flush

Call = Callable[[], object]
Functions = Mapping[str, Call]

Prepare = Callable[[Call], object]
"""Puts the caches into the state that a mode asks for, and work ahead of the call."""

MAX_FLUSH_READS = 64


@dataclass(frozen=True)
class Sample:
    """One call between two events."""

    milliseconds: float
    late: bool  # the device was there before the host had enqueued all of it


def sample_rounds(functions: Functions, prepare: Prepare, rounds: int) -> list[dict[str, Sample]]:
    """Time every function once a round, in order; a drift of clocks meets all alike."""
    return [_round(functions, prepare) for _ in range(rounds)]


def covering(flush: Flush, functions: Functions) -> Flush:
    """The flush, repeated until it keeps the device busy while the host enqueues any of the calls."""
    flush = replace(flush, reads=_reads_that_cover(functions, flush))
    while flush.reads < MAX_FLUSH_READS and _any_late(functions, flush):
        flush = replace(flush, reads=min(2 * flush.reads, MAX_FLUSH_READS))
    return flush


def enqueue_ms(call: Call, repeats: int = 9) -> float:
    """Median time the host takes to enqueue a call on an idle device."""
    seconds = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds) * 1e3


def _round(functions: Functions, prepare: Prepare) -> dict[str, Sample]:
    pending = {name: _enqueue(call, prepare) for name, call in functions.items()}
    torch.cuda.synchronize()
    return {name: Sample(start.elapsed_time(end), late) for name, (start, end, late) in pending.items()}


def _enqueue(call: Call, prepare: Prepare) -> tuple[torch.cuda.Event, torch.cuda.Event, bool]:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    prepare(call)
    start.record()
    call()
    end.record()
    return start, end, bool(start.query())


def _any_late(functions: Functions, flush: Flush) -> bool:
    rounds = sample_rounds(functions, lambda _: flush(), 3)
    return any(sample.late for one in rounds for sample in one.values())


def _reads_that_cover(functions: Functions, flush: Flush) -> int:
    """Reads of the buffer that keep the device busy for twice the slowest call's enqueueing.

    Enqueueing a read takes the host time too: only the rest is won by it.
    """
    slowest = max(enqueue_ms(call) for call in functions.values())
    won = _round({"read": flush}, lambda _: flush())["read"].milliseconds - enqueue_ms(flush)
    return min(math.ceil(2 * slowest / won), MAX_FLUSH_READS) if won > 0 else MAX_FLUSH_READS
