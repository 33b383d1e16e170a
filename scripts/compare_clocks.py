#!/usr/bin/env python3
"""The device trace beside the profiler's own clock, for every function of a report that has both.

    .venv/bin/python scripts/compare_clocks.py REPORT... [--function fused]

Both are the sum over the kernels of one call: the trace's is the median of the samples, the
profiler's that of its counters, taken under the same flush. They must agree within 2 %, or
within 1.5 µs a kernel, whichever is more: the profiler's clock starts earlier and ends later
than each kernel (by about 1 µs on an H200), and a call of seven kernels has that seven times.
How much of its time that is, its counters say: ``idle`` is the time in which no multiprocessor
had work, the trace has a part of it. So how many agree is also told for a call that is allowed
1.5 µs in all, and for such a call without that time.
The profiler sees kernels alone. So what the trace has of copies and fills, which the driver makes
without one, is taken off it (``copied``), and numbers of kernels stand side by side: they must be the same.
A report of before these were told apart has both in its trace; then the profiler's number must not be
the larger. The exit code is 1 where they do not agree, and 2
where nothing can be compared.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from given import reports
from tabulate import tabulate
from told import told

from portkit.model import Counters, Record, Timed
from portkit.store.journal import Report, read_report

SHARE = 0.02
LEAST_US = 1.5
"""Difference that is allowed: this share of the profiler's time, but at least this many µs a kernel."""

_FORMATS = ("", "", "", ".2f", ".2f", ".2f", ".2f", "+.2f", "+.1f", "+.2f", "")


@dataclass(frozen=True)
class Pair:
    """One function of one cell on both clocks."""

    cell: str
    function: str
    trace_us: float  # of its kernels
    profiler_us: float
    kernels: int | None  # by the trace
    copied_us: float | None  # of its copies and fills, which is not in ``trace_us``; None: an older report, where it is
    counted: int  # by the profiler
    idle_us: float | None  # of its time, without work on any multiprocessor; None: an older report

    @property
    def agrees(self) -> bool:
        """Whether times agree, and no kernel was counted that was not traced."""
        return self._within(self.counted)

    @property
    def agrees_as_one(self) -> bool:
        """The same, had the call one kernel."""
        return self._within(1)

    @property
    def agrees_at_work(self) -> bool:
        """The same, of the time in which the device had work by the profiler."""
        return self.idle_us is not None and self._within(1, self.idle_us)

    def _within(self, kernels: int, idle_us: float = 0.0) -> bool:
        """Whether all is within what a call of so many kernels may differ by."""
        allowed_us = max(SHARE * self.profiler_us, LEAST_US * kernels)
        return self._same_kernels and abs(self.trace_us - (self.profiler_us - idle_us)) <= allowed_us

    @property
    def _same_kernels(self) -> bool:
        if self.kernels is None:
            return True
        return self.counted <= self.kernels if self.copied_us is None else self.counted == self.kernels


def pairs(report: Report) -> Iterator[Pair]:
    """Every function that was both traced and counted."""
    for record in report.records:
        counters = report.counters.get((record.keys.cell_key, record.evidence))
        if record.timing and counters:
            yield from _of_cell(record, counters)


def _of_cell(record: Record, counters: Counters) -> Iterator[Pair]:
    label = record.cell.label(record.evidence)
    for name, timed in _functions(record).items():
        counted = counters.functions.get(name)
        if timed.trace and counted and counted.duration_ms is not None:
            copied_us = _us(timed.copied_ms)
            trace_us = 1e3 * timed.trace.median_ms - (copied_us or 0.0)
            kernels = timed.kernels if timed.kernels is None else timed.kernels - (timed.copies or 0)
            idle_us = _us(counted.idle_ms)
            profiler_us = 1e3 * counted.duration_ms
            yield Pair(label, name, trace_us, profiler_us, kernels, copied_us, counted.kernels, idle_us)


def _us(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else 1e3 * milliseconds


def _functions(record: Record) -> dict[str, Timed]:
    assert record.timing is not None
    return {"fused": record.timing.fused, **record.timing.baselines}


def _row(pair: Pair) -> tuple[object, ...]:
    difference = pair.trace_us - pair.profiler_us
    kernels = "?" if pair.kernels is None else pair.kernels
    return (
        pair.cell,
        pair.function,
        f"{kernels}/{pair.counted}",
        pair.trace_us,
        pair.copied_us,
        pair.profiler_us,
        pair.idle_us,
        difference,
        100 * difference / pair.profiler_us,
        difference / pair.counted,
        "yes" if pair.agrees else "no",
    )


def main() -> int:
    """Print the table and how many agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", type=Path, help="reports, folders or archives of them")
    parser.add_argument("--function", help="this one alone, such as fused")
    options = parser.parse_args()
    every = [pair for path in reports(options.reports) for pair in pairs(read_report(path))]
    found = [pair for pair in every if options.function in (None, pair.function)]
    if not found:
        print("no function was both traced and counted", file=sys.stderr)
        return 2
    headers = [
        "cell",
        "function",
        "kernels",
        "trace, µs",
        "copied, µs",
        "profiler, µs",
        "idle, µs",
        "difference, µs",
        "%",
        "a kernel, µs",
        "agrees",
    ]
    print(tabulate(map(_row, found), headers, floatfmt=_FORMATS, missingval="?"))
    agreeing = sum(pair.agrees for pair in found)
    print(f"{agreeing} of {len(found)} within {SHARE:.0%} or {LEAST_US} µs a kernel")
    print(f"{sum(pair.agrees_as_one for pair in found)} of {len(found)} within {SHARE:.0%} or {LEAST_US} µs a call")
    if at_work := [pair for pair in found if pair.idle_us is not None]:
        many = sum(pair.agrees_at_work for pair in at_work)
        print(f"{many} of {len(at_work)} within {SHARE:.0%} or {LEAST_US} µs a call, without idle")
    return 0 if agreeing == len(found) else 1


if __name__ == "__main__":
    sys.exit(told(main))
