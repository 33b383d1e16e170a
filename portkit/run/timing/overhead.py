"""What device events add to the time of a kernel."""

from __future__ import annotations

import statistics

import torch

from portkit.run.timing.events import held, hold_for, sample_rounds
from portkit.run.timing.flush import Flush
from portkit.run.timing.trace import trace_rounds

_ROUNDS = 50
_BYTES = 8 << 20


def event_overhead_us(flush: Flush) -> float:
    """Median of events around one kernel less the median of its trace, in µs.

    The kernel copies 8 MiB from cold caches: short, and as real as a case's.

    Raises:
        TraceError: the device gives no trace.
    """
    source = torch.ones(_BYTES // 4, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    call = {"copy": lambda: torch.neg(source, out=target)}
    cold = held(hold_for(call, lambda _: flush.read()), lambda _: flush.read(), flush.let_go)
    events = [each["copy"].milliseconds for each in sample_rounds([call] * _ROUNDS, cold)]
    traced = [each["copy"].milliseconds for each in trace_rounds([call] * _ROUNDS, flush)]
    return (statistics.median(events) - statistics.median(traced)) * 1e3
