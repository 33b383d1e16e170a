#!/usr/bin/env python3
"""What its place in a round costs a function, from the samples of a report's measured cells.

    .venv/bin/python scripts/first_in_round.py REPORT... [--from-us 0]

A line a function and clock: the median of the samples in which it came first, that of the
others, and their difference in percent; then the neighbour after which it took longest, and how
much longer than after the others, in percent. Each round has an order of its own, so what comes out
is shared by all functions of a cell; with an order that stayed the same, as in samples that
keep no seed, it could not be told from a difference between functions, and these are left
out. The exit code is 2 where nothing can be compared.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from given import reports
from tabulate import tabulate
from told import told

from portkit.run.timing.order import orders
from portkit.run.timing.samples import Samples
from portkit.store.journal import read_blob, read_report


@dataclass(frozen=True)
class Line:
    """One function on one clock."""

    cell: str
    function: str
    clock: str
    rounds: int  # in which it came first
    first_us: float
    others_us: float
    dearest: str  # what ran just before it where it took longest
    dearest_percent: float  # more than after all else

    @property
    def percent(self) -> float:
        """What coming first costs."""
        return 100 * (self.first_us / self.others_us - 1)


def lines(path: Path) -> Iterator[Line]:
    """Every function of the measured cells of a report."""
    for record in read_report(path).records:
        if address := record.blobs.get("samples"):
            yield from of_samples(record.cell.label(record.evidence), Samples.from_json(read_blob(path, address)))


def of_samples(cell: str, samples: Samples) -> Iterator[Line]:
    """Every function of a cell that came first in some rounds, and not in others."""
    if samples.order_seed is None:
        return
    for clock, series in samples.milliseconds.items():
        rounds = orders(series, max(map(len, series.values())), samples.order_seed)
        for name, times in series.items():
            first = [ms for ms, order in zip(times, rounds, strict=True) if order[0] == name]
            others = [ms for ms, order in zip(times, rounds, strict=True) if order[0] != name]
            if first and others:
                yield Line(
                    cell, name, clock, len(first), _median_us(first), _median_us(others), *_dearest(name, times, rounds)
                )


def _dearest(name: str, times: Sequence[float], rounds: Sequence[Sequence[str]]) -> tuple[str, float]:
    """The neighbour after which a function took longest, and how much longer than after all else, in percent."""
    after: dict[str, list[float]] = {}
    for ms, order in zip(times, rounds, strict=True):
        if place := order.index(name):
            after.setdefault(order[place - 1], []).append(ms)
    dearest = max(after, key=lambda each: statistics.median(after[each]))
    others = [ms for each, own in after.items() if each != dearest for ms in own]
    return dearest, 100 * (statistics.median(after[dearest]) / statistics.median(others) - 1) if others else 0.0


def _median_us(milliseconds: Sequence[float]) -> float:
    return 1e3 * statistics.median(milliseconds)


def main() -> int:
    """Print the table and the median difference of each clock."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", type=Path, help="reports, folders or archives of them")
    parser.add_argument("--from-us", type=float, default=0.0, help="functions that take as long at least")
    options = parser.parse_args()
    found = [line for path in reports(options.reports) for line in lines(path) if line.others_us >= options.from_us]
    if not found:
        print("no cell has samples of rounds that each had an order of their own", file=sys.stderr)
        return 2
    rows = [
        (x.cell, x.function, x.clock, x.rounds, x.first_us, x.others_us, x.percent, x.dearest, x.dearest_percent)
        for x in found
    ]
    headers = ["cell", "function", "clock", "rounds first", "first, µs", "else, µs", "%", "dearest after", "%"]
    print(tabulate(rows, headers, floatfmt=("", "", "", "", ".2f", ".2f", "+.1f", "", "+.1f")))
    for clock in dict.fromkeys(x.clock for x in found):
        middle = statistics.median(x.percent for x in found if x.clock == clock)
        print(f"{clock}: coming first costs {middle:+.2f} % in the median")
        worst = max((x for x in found if x.clock == clock), key=lambda x: x.dearest_percent)
        where = f"{worst.function} of {worst.cell} after {worst.dearest}"
        print(f"{clock}: the dearest neighbour costs {worst.dearest_percent:+.1f} % ({where})")
    return 0


if __name__ == "__main__":
    sys.exit(told(main))
