"""Device-event time of the fused function and its baselines, interleaved.

One round times every function once, in order; rounds follow until the budget is
spent, so that a drift of clocks or temperature meets all functions alike. Before each
sample a buffer of at least twice the last-level cache is *read*: that evicts the
inputs and leaves no dirty lines, whose write-back a flush by writing would put into
the sample. The buffer is read as often as it takes for the host to enqueue the whole
call meanwhile (twice its measured enqueue time). So a sample is what the device needs
from start to end of the call, gaps between its kernels included, and not how fast this
host's Python launches: that cost swings by a factor of two within minutes on a shared
host, and no kernel can help it.

Sources: CUDA and HIP events record on the stream (torch.cuda.Event serves both);
interval of the median by order statistics: H. A. David, H. N. Nagaraja, "Order
Statistics", 3rd edition, section 7.1.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from portkit.model import Clock, Ratio, Target, Timed, Timing

FUSED = "fused"

MIN_FLUSH_BYTES = 256 << 20
"""Smallest flush: a smaller read is over before the host has launched the next one."""

DEFAULT_FLUSH_BYTES = 512 << 20
"""Flush where neither device nor catalogue knows a cache: twice the largest there is, MI300X's 256 MiB."""

BUDGET_S = 1.0
"""Seconds of wall clock a cell may take for warm-up and samples together."""

MIN_SAMPLES = 10
MAX_SAMPLES = 1000
WARMUP_SHARE = 0.2  # of the budget
MIN_WARMUP = 3  # rounds
MAX_FLUSH_READS = 64


@dataclass(frozen=True)
class Samples:
    """All samples of one cell, in the order of their rounds."""

    milliseconds: Mapping[str, tuple[float, ...]]  # function → one time a round
    flush_bytes: int
    warmup: int  # rounds before the first sample
    flush_reads: int = 1  # of the whole buffer, before each sample

    def to_json(self) -> bytes:
        """The samples as they go into the side folder."""
        return json.dumps(
            {
                "clock": "events",
                "unit": "ms",
                "order": "one sample of each function a round",
                "flush_bytes": self.flush_bytes,
                "flush_reads": self.flush_reads,
                "warmup": self.warmup,
                "samples": {name: [round(ms, 6) for ms in times] for name, times in self.milliseconds.items()},
            }
        ).encode()


def sample(
    functions: Mapping[str, Callable[[], Any]],
    *,
    flush_bytes: int,
    budget_s: float | None = None,
    max_samples: int = MAX_SAMPLES,
) -> Samples:
    """Time functions on the current device, round by round.

    Args:
        functions: name → call; compiled already, or the warm-up does it.
        flush_bytes: size of the buffer read before each sample.
        budget_s: seconds of wall clock, ``BUDGET_S`` unless given; ``MIN_WARMUP`` and
            ``MIN_SAMPLES`` rounds are made all the same.
        max_samples: most rounds sampled.
    """
    flush = _Flush(torch.ones(flush_bytes // 4, dtype=torch.float32, device="cuda"))
    budget_s = BUDGET_S if budget_s is None else budget_s
    start = time.perf_counter()
    warmup = 0
    while warmup < MIN_WARMUP or time.perf_counter() - start < WARMUP_SHARE * budget_s:
        _round(functions, flush)
        warmup += 1
    flush = _Flush(flush.buffer, _reads_that_cover(functions, flush))
    rounds: list[dict[str, float]] = []
    while len(rounds) < MIN_SAMPLES or (len(rounds) < max_samples and time.perf_counter() - start < budget_s):
        rounds.append(_round(functions, flush))
    times = {name: tuple(r[name] for r in rounds) for name in functions}
    return Samples(times, flush.buffer.nbytes, warmup, flush.reads)


def summarize(samples: Samples) -> Timing:
    """Medians with intervals, and the fused function's speedup over each baseline."""
    clocks = {name: Timed(clock(times)) for name, times in samples.milliseconds.items()}
    fused = clocks.pop(FUSED)
    return Timing(
        flush_bytes=samples.flush_bytes,
        warmup=samples.warmup,
        fused=fused,
        baselines=clocks,
        speedup={name: _ratio(other.events, fused.events) for name, other in clocks.items()},
    )


def _ratio(baseline: Clock, fused: Clock) -> Ratio:
    return Ratio(baseline.median_ms / fused.median_ms, None, None)


def clock(samples: Sequence[float]) -> Clock:
    """Median of samples in ms with a 95 % interval.

    Raises:
        ValueError: fewer than six samples, from which no such interval follows.
    """
    ordered = sorted(samples)
    rank = median_interval_rank(len(ordered))
    return Clock(statistics.median(ordered), ordered[rank - 1], ordered[-rank], len(ordered))


def median_interval_rank(count: int, confidence: float = 0.95) -> int:
    """Rank *k*, from 1, such that the k-th smallest and k-th largest enclose the median.

    The largest *k* with ``2 P(Binomial(count, 1/2) < k) <= 1 - confidence``: holds for
    any distribution of independent samples.

    Raises:
        ValueError: no such rank, since the samples are too few.
    """
    tail, term, rank = 0.0, math.ldexp(1.0, -count), 0
    while 2 * (tail + term) <= 1 - confidence:
        tail += term
        rank += 1
        term *= (count - rank + 1) / rank
    if rank == 0:
        raise ValueError(f"{count} samples give no {confidence:.0%} interval of the median; 6 are the fewest for 95%")
    return rank


def flush_size(target: Target) -> int:
    """Bytes that evict the last-level cache: twice the largest cache known, 256 MiB at least.

    The device's own L2 size and the catalogue's caches count; the device doesn't
    tell of AMD's Infinity Cache.
    """
    mib = [size for size in (target.l2_mib, target.last_level_cache_mib) if size]
    l2 = int(getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "L2_cache_size", 0))
    largest = max([l2, *(int(size * (1 << 20)) for size in mib)])
    return max(2 * largest, MIN_FLUSH_BYTES) if largest else DEFAULT_FLUSH_BYTES


@dataclass(frozen=True)
class _Flush:
    """Reads a buffer larger than the caches, some times over."""

    buffer: torch.Tensor
    reads: int = 1

    def __call__(self) -> None:
        for _ in range(self.reads):
            torch.amax(self.buffer)


def _reads_that_cover(functions: Mapping[str, Callable[[], Any]], flush: _Flush) -> int:
    """Reads of the buffer that keep the device busy for twice the slowest call's enqueueing.

    Enqueueing a read takes the host time too: only the rest is won by it.
    """
    enqueue_ms = max(_enqueue_ms(call) for call in functions.values())
    won_ms = _round({"read": flush}, flush)["read"] - _enqueue_ms(flush)
    return min(math.ceil(2 * enqueue_ms / won_ms), MAX_FLUSH_READS) if won_ms > 0 else MAX_FLUSH_READS


def _enqueue_ms(call: Callable[[], Any], repeats: int = 9) -> float:
    """Median time the host takes to enqueue a call on an idle device."""
    seconds = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds) * 1e3


def _round(functions: Mapping[str, Callable[[], Any]], flush: _Flush) -> dict[str, float]:
    events = {name: _timed(call, flush) for name, call in functions.items()}
    torch.cuda.synchronize()
    return {name: start.elapsed_time(end) for name, (start, end) in events.items()}


def _timed(call: Callable[[], Any], flush: _Flush) -> tuple[Any, Any]:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    flush()
    start.record()
    call()
    end.record()
    return start, end
