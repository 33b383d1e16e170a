#!/usr/bin/env python3
"""What clocks and flush show on this host's GPU: copies on both clocks, and the walk that proves eviction.

    .venv/bin/python scripts/clock_figures.py [--processes 3]

Everything is done in several processes, one after the other, and told as the median over them with
the least and the most. Copies are of float32 from cold caches: ``events`` less ``trace`` is what
device events cost. The walk reads lines of a small buffer one after the other: right after it was
read (warm), after a flush of so many MiB, and after one of 2 GiB (cold); and of a buffer whose reader asked
the cache to keep it, after the reads of a flush alone and after a flush.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tabulate import tabulate

if TYPE_CHECKING:
    from portkit.run.timing.flush import Flush

COPIES_MIB = (8, 32, 256)
FLUSHES_MIB = (16, 64, 256)
ROUNDS = 100

Figures = dict[str, float]


def figures() -> Figures:
    """All figures of this process, in µs."""
    import torch  # noqa: PLC0415 (the process that sums up needs none)

    from portkit.run.timing.flush import (  # noqa: PLC0415
        COLD_BYTES,
        MIN_FLUSH_BYTES,
        PROBED_BYTES,
        latency_ms,
        make_flush,
        read_to_be_kept,
    )

    found: Figures = {}
    flush = make_flush(MIN_FLUSH_BYTES)
    for mib in COPIES_MIB:
        source = torch.ones(mib << 18, device="cuda")
        target = torch.empty_like(source)
        found |= _clocks(f"copy of {mib} MiB", partial(torch.neg, source, out=target), flush)
    buffer = torch.zeros(PROBED_BYTES // 4, dtype=torch.int32, device="cuda")
    found["walk, warm"] = 1e3 * latency_ms(buffer, lambda: None)
    for mib in FLUSHES_MIB:
        found[f"walk, after a flush of {mib} MiB"] = 1e3 * latency_ms(buffer, make_flush(mib << 20))
    for name, cool in (("reads alone", flush.read), ("a flush", flush)):
        found[f"walk over what was to be kept, after {name}"] = 1e3 * latency_ms(buffer, cool, read_to_be_kept)
    found["walk, cold"] = 1e3 * latency_ms(buffer, make_flush(COLD_BYTES))
    return found


def _clocks(name: str, call: Callable[[], object], flush: Flush) -> Figures:
    from portkit.run.timing.events import held, hold_for, sample_rounds  # noqa: PLC0415
    from portkit.run.timing.trace import trace_rounds  # noqa: PLC0415

    calls = {"copy": call}
    cold = held(hold_for(calls, lambda _: flush.read()), lambda _: flush.read(), flush.let_go)
    events = [each["copy"].milliseconds for each in sample_rounds([calls] * ROUNDS, cold)]
    traced = [each["copy"].milliseconds for each in trace_rounds([calls] * ROUNDS, flush)]
    medians = [1e3 * statistics.median(each) for each in (events, traced)]
    return {f"{name}, events": medians[0], f"{name}, trace": medians[1], f"{name}, difference": medians[0] - medians[1]}


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(figures()))
        return 0
    found: list[Figures] = []
    for _ in range(options.processes):
        done = subprocess.run([sys.executable, __file__, "--one"], capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"no figures: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            return 2
        found.append(json.loads(done.stdout.splitlines()[-1]))
    columns = {name: [each[name] for each in found] for name in found[0]}
    rows = [(name, statistics.median(each), min(each), max(each)) for name, each in columns.items()]
    print(tabulate(rows, ["µs", f"median of {len(found)} processes", "least", "most"], floatfmt=".2f"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
