"""Wall clock around a call: what a caller waits for, the host's own time included.

Unlike samples between device events it holds nothing back, so a model whose device waits for
the host's next launch shows it. Functions are called warm, once a round in an order drawn anew.
A sample may come from another process.
"""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable, Mapping, Sequence

from portkit.garbage import uncollected
from portkit.run.timing.order import drawn
from portkit.run.timing.rounds import Bounds, Rounds, until_settled

WARMUP = 3
"""Rounds before the first sample: CUDA graphs are recorded in the second call."""

Sample = Callable[[], float]
"""Calls something once; milliseconds."""


def wall_rounds(samples: Mapping[str, Sample], bounds: Bounds) -> Rounds[float]:
    """Time functions, interleaved; milliseconds.

    Args:
        samples: name → its sample; called before, so that nothing is left to compile.
        bounds: how long.
    """
    turns = drawn([samples])

    def sample(rounds: int) -> Sequence[dict[str, float]]:
        return [{name: samples[name]() for name in each} for each in itertools.islice(turns, rounds)]

    sample(WARMUP)
    gc.collect()
    with uncollected():  # within a sample a search for garbage would stop the host
        return until_settled(sample, float, bounds)


def sample_of(call: Callable[[], object], finish: Callable[[], object], *, calls_before: int = 0) -> Sample:
    """The sample of a call in this process.

    Args:
        call: what is timed.
        finish: waits until the device has done what was enqueued; nothing on a CPU.
        calls_before: how often it is called untimed before, where another process has had the device.
    """

    def sample() -> float:
        for _ in range(calls_before):
            call()
        finish()
        start = time.perf_counter()
        call()
        finish()
        return (time.perf_counter() - start) * 1e3

    return sample
