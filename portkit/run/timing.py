"""Device-event time of the fused function and its baselines, interleaved.

One round times every function once, in order; rounds follow until the budget is
spent, so that a drift of clocks or temperature meets all functions alike. Before each
sample a buffer of at least twice the last-level cache is *read*: that evicts the
inputs and leaves no dirty lines, whose write-back a flush by writing would put into
the sample. The flush also gives the host time to enqueue, so a sample holds the
launch gaps between kernels of a chain but not the first launch's own cost, as long as
the host is not slower than the flush.

Sources: CUDA and HIP events record on the stream (torch.cuda.Event serves both);
interval of the median by order statistics: H. A. David, H. N. Nagaraja, "Order
Statistics", 3rd edition, section 7.1.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from portkit.model import Clock, Target, Timing

FUSED = "fused"

DEFAULT_FLUSH_BYTES = 512 << 20
"""Flush where neither device nor catalogue knows a cache: twice the largest there is, MI300X's 256 MiB."""

BUDGET_S = 1.0
"""Seconds of wall clock a cell may take for warm-up and samples together."""

MIN_SAMPLES = 10
MAX_SAMPLES = 1000
WARMUP_SHARE = 0.2  # of the budget
MIN_WARMUP = 3  # rounds


@dataclass(frozen=True)
class Samples:
    """All samples of one cell, in the order of their rounds."""

    milliseconds: Mapping[str, tuple[float, ...]]  # function → one time a round
    flush_bytes: int
    warmup: int  # rounds before the first sample

    def to_json(self) -> bytes:
        """The samples as they go into the side folder."""
        return json.dumps(
            {
                "clock": "events",
                "unit": "ms",
                "order": "one sample of each function a round",
                "flush_bytes": self.flush_bytes,
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
    flush = torch.ones(flush_bytes // 4, dtype=torch.float32, device="cuda")
    budget_s = BUDGET_S if budget_s is None else budget_s
    start = time.perf_counter()
    warmup = 0
    while warmup < MIN_WARMUP or time.perf_counter() - start < WARMUP_SHARE * budget_s:
        _round(functions, flush)
        warmup += 1
    rounds: list[dict[str, float]] = []
    while len(rounds) < MIN_SAMPLES or (len(rounds) < max_samples and time.perf_counter() - start < budget_s):
        rounds.append(_round(functions, flush))
    return Samples({name: tuple(r[name] for r in rounds) for name in functions}, flush.nbytes, warmup)


def summarize(samples: Samples) -> Timing:
    """Medians with intervals, and the fused function's speedup over each baseline."""
    clocks = {name: clock(times) for name, times in samples.milliseconds.items()}
    fused = clocks.pop(FUSED)
    return Timing(
        clock="events",
        cache="flushed",
        flush_bytes=samples.flush_bytes,
        warmup=samples.warmup,
        fused=fused,
        baselines=clocks,
        speedup={name: other.median_ms / fused.median_ms for name, other in clocks.items()},
    )


def clock(samples: Sequence[float]) -> Clock:
    """Median of samples in ms with a 95 % interval.

    Raises:
        ValueError: fewer than six samples, from which no such interval follows.
    """
    ordered = sorted(samples)
    rank = median_interval_rank(len(ordered))
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    return Clock(median, ordered[rank - 1], ordered[-rank], len(ordered))


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
    """Bytes that evict the last-level cache: twice the largest cache known.

    The device's own L2 size and the catalogue's caches count; the device doesn't
    tell of AMD's Infinity Cache.
    """
    mib = [size for size in (target.l2_mib, target.last_level_cache_mib) if size]
    l2 = int(getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "L2_cache_size", 0))
    return 2 * max([l2, *(int(size * (1 << 20)) for size in mib)]) or DEFAULT_FLUSH_BYTES


def _round(functions: Mapping[str, Callable[[], Any]], flush: torch.Tensor) -> dict[str, float]:
    events = {name: _timed(call, flush) for name, call in functions.items()}
    torch.cuda.synchronize()
    return {name: start.elapsed_time(end) for name, (start, end) in events.items()}


def _timed(call: Callable[[], Any], flush: torch.Tensor) -> tuple[Any, Any]:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.amax(flush)
    start.record()
    call()
    end.record()
    return start, end
