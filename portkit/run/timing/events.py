"""Device events around a call: what a user waits for.

CUDA and HIP events record on the stream (torch.cuda.Event serves both). Before each
sample enough work is queued that the host has enqueued the whole call before the device
comes to it. So a sample is what the device needs from start to end of the call, gaps
between its kernels included, and not how fast this host's Python launches: that cost
swings by a factor of two within minutes on a shared host, and no kernel can help it. A
sample whose start the device had reached before the host was done is known as late.
"""

from __future__ import annotations

import itertools
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

LEAST_FLUSH_READS = 2
MOST_FLUSH_READS = 64

_COVER = 2  # times what the host was seen to need at most
_TRIES = 10  # rounds that show whether the host is fast enough
_MOST_LATE = 1  # samples of a function that may be late in them: the host is not alone


@dataclass(frozen=True)
class Sample:
    """One call between two events."""

    milliseconds: float
    late: bool  # the device was there before the host had enqueued all of it


def sample_rounds(functions: Functions, prepare: Prepare, rounds: int) -> list[dict[str, Sample]]:
    """Time every function once a round, in order; a drift of clocks meets all alike."""
    return [_round(functions, prepare) for _ in range(rounds)]


def covering(flush: Flush, functions: Functions) -> Flush:
    """The flush, repeated until it keeps the device busy while the host enqueues any of the calls.

    Calls that wait for the device are late however long it is; the most reads end it then.
    """
    flush = replace(flush, reads=_reads_that_cover(functions, flush))
    while flush.reads < MOST_FLUSH_READS and _too_late(functions, flush):
        flush = replace(flush, reads=min(2 * flush.reads, MOST_FLUSH_READS))
    return flush


def enqueue_ms(functions: Functions, before: Callable[[], object]) -> float:
    """Time that the host takes to enqueue the slowest of the calls, in some rounds of all of them.

    Of each call the second longest time counts: one pause of the host is an accident.
    """
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _, (name, call) in itertools.product(range(_TRIES), functions.items()):
        torch.cuda.synchronize()
        before()
        start = time.perf_counter()
        call()
        seconds[name].append(time.perf_counter() - start)
    return max(sorted(each)[-2] for each in seconds.values()) * 1e3


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


def _too_late(functions: Functions, flush: Flush) -> bool:
    rounds = sample_rounds(functions, lambda _: flush(), _TRIES)
    return any(sum(each[name].late for each in rounds) > _MOST_LATE for name in functions)


def _reads_that_cover(functions: Functions, flush: Flush) -> int:
    """Reads of the buffer that keep the device busy for twice the slowest call's enqueueing.

    Enqueueing a read takes the host time too: only the rest is won by it.
    """
    once = {"read": replace(flush, reads=1)}
    device = statistics.median(each["read"].milliseconds for each in sample_rounds(once, _at_once, _TRIES))
    won = device - enqueue_ms(once, _nothing)
    needed = math.ceil(_COVER * enqueue_ms(functions, flush) / won) if won > 0 else MOST_FLUSH_READS
    return max(LEAST_FLUSH_READS, min(needed, MOST_FLUSH_READS))


def _at_once(call: Call) -> None:
    """Nothing ahead of the sample."""


def _nothing() -> None:
    """No work."""
