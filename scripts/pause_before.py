#!/usr/bin/env python3
"""What a pause before a call does to its time on the device trace, of a case of kernels/, on the GPU of this host.

    python scripts/pause_before.py bias_gelu_dropout --shape 16384x8192 --dtype bfloat16 --variant w8

The call follows the flush's reads at once, as in the timing, or once the host has waited for the device, as under the
profiler; one read of the flush's buffer, or the profiler's four. A line each: median, least and most µs of the traced
calls, on copies of the inputs in turn as in the timing.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from tabulate import tabulate
from told import told

from portkit.errors import HostError
from portkit.model import CaseSource, Cell, Direction
from portkit.plan.matrix_format import parse_shape
from portkit.run.calls import timed_call
from portkit.run.counters.profiled import FLUSHES
from portkit.run.inputs import InputMaker
from portkit.run.load import load_case
from portkit.run.timing.events import Functions
from portkit.run.timing.flush import MIN_FLUSH_BYTES, Flush, make_flush
from portkit.run.timing.places import at_places, results_that_fit, scattered
from portkit.run.timing.samples import FUSED
from portkit.run.timing.trace import trace_rounds

KERNELS = Path(__file__).resolve().parent.parent / "kernels"


def places_of(options: argparse.Namespace) -> list[Functions]:
    """The fused function on copies of its inputs, warmed up.

    Raises:
        PortkitError: there is no such case, or its file can't be imported.
    """
    case = load_case(CaseSource(options.case, path=str(KERNELS / f"{options.case}.py")))
    cell = Cell(options.case, Direction.FORWARD, parse_shape(options.shape), options.dtype, options.variant, "")
    params = case.variants[options.variant]
    inputs = case.inputs(InputMaker(0, "cuda"), cell.shape, cell.dtype)
    places = at_places(
        lambda copies: {FUSED: timed_call(lambda **given: case.fused(**given, **params), case, cell, copies)}, inputs
    )
    places = scattered(places, results_that_fit(places[0]))
    for call in 2 * [place[FUSED] for place in places]:
        call()
    return places


def ways(flush: Flush) -> Iterator[tuple[int, bool, Callable[[], None]]]:
    """Reads of the flush's buffer, whether the device is waited for behind them, and what does so."""
    for reads, waits in itertools.product((1, FLUSHES), (False, True)):

        def cool(reads: int = reads, waits: bool = waits) -> None:
            flush.let_go()
            for _ in range(reads):
                flush.read()
            if waits:
                torch.cuda.synchronize()

        yield reads, waits, cool


def microseconds(places: Sequence[Functions], calls: int, before: Callable[[], None]) -> list[float]:
    """Kernel time of each traced call."""
    rounds = itertools.islice(itertools.cycle(places), calls)
    return [1e3 * traced[FUSED].milliseconds for traced in trace_rounds(list(rounds), before)]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case")
    parser.add_argument("--shape", required=True, help="such as 16384x8192")
    parser.add_argument("--dtype", default="bfloat16", help="(%(default)s)")
    parser.add_argument("--variant", required=True)
    parser.add_argument("--calls", type=int, default=48, help="(%(default)s)")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise HostError("no GPU is here", place="this host", remedy="run on a host with one")
    with torch.no_grad():
        places, rows = places_of(options), []
        for reads, waits, before in ways(make_flush(MIN_FLUSH_BYTES)):
            taken = microseconds(places, options.calls, before)
            rows.append((reads, "waited for" if waits else "at once", statistics.median(taken), min(taken), max(taken)))
    print(tabulate(rows, ["reads", "call", "median, µs", "least", "most"], floatfmt=("", "", ".2f", ".2f", ".2f")))
    return 0


if __name__ == "__main__":
    sys.exit(told(main))
