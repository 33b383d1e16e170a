"""Wall clock around a call: what a caller waits for, the host's own time included.

Unlike samples between device events it holds nothing back, so a model whose device waits for
the host's next launch shows it. Functions are called warm, once a round in an order drawn anew.
"""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable, Sequence

from portkit.run.timing.order import Functions, drawn
from portkit.run.timing.rounds import Bounds, Rounds, until_settled

WARMUP = 3
"""Rounds before the first sample: CUDA graphs are recorded in the second call."""


def wall_rounds(functions: Functions, bounds: Bounds, finish: Callable[[], object]) -> Rounds[float]:
    """Time functions, interleaved; milliseconds.

    Args:
        functions: name → call; called before, so that nothing is left to compile.
        bounds: how long.
        finish: waits until the device has done what was enqueued; nothing on a CPU.
    """
    turns = drawn([functions])

    def sample(rounds: int) -> Sequence[dict[str, float]]:
        return [_round(each, finish) for each in itertools.islice(turns, rounds)]

    sample(WARMUP)
    gc.collect()  # within a sample it would stop the host
    enabled = gc.isenabled()
    gc.disable()
    try:
        return until_settled(sample, float, bounds)
    finally:
        if enabled:
            gc.enable()


def _round(functions: Functions, finish: Callable[[], object]) -> dict[str, float]:
    return {name: _milliseconds(call, finish) for name, call in functions.items()}


def _milliseconds(call: Callable[[], object], finish: Callable[[], object]) -> float:
    finish()
    start = time.perf_counter()
    call()
    finish()
    return (time.perf_counter() - start) * 1e3
