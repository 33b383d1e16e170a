#!/usr/bin/env python3
"""How well two runs on one host repeat each other: medians of the same functions side by side.

    .venv/bin/python scripts/compare_runs.py REPORT REPORT [--from-us 20] [--within 1]

A line a function and clock of every measured cell that both reports have, and at the end
the share of medians of at least ``--from-us`` µs that lie within ``--within`` percent.
The exit code is 1 where that share is below 95 %, and 2 where nothing can be compared.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from given import report
from tabulate import tabulate
from told import told

from portkit.model import Evidence, Record, Timed
from portkit.store.journal import read_report

SHARE = 0.95
"""Least share of medians that must repeat."""


@dataclass(frozen=True)
class Pair:
    """One median of two runs, ms."""

    cell: str
    function: str
    clock: str
    first: float
    second: float

    @property
    def percent(self) -> float:
        """Difference in percent of the first."""
        return 100 * (self.second / self.first - 1)


def pairs(first: Path, second: Path) -> Iterator[Pair]:
    """Every median that both reports have."""
    others = _timed(second)
    for key, record in _timed(first).items():
        if other := others.get(key):
            yield from _of_cell(record, other)


def _timed(path: Path) -> dict[str, Record]:
    records = read_report(path).records
    return {x.keys.cell_key: x for x in records if x.evidence is Evidence.MEASURED and x.timing}


def _of_cell(first: Record, second: Record) -> Iterator[Pair]:
    label = first.cell.label(first.evidence)
    others = _functions(second)
    for name, timed in _functions(first).items():
        for clock in ("events", "trace"):
            one, two = getattr(timed, clock), getattr(others.get(name), clock, None)
            if one and two:
                yield Pair(label, name, clock, one.median_ms, two.median_ms)


def _functions(record: Record) -> dict[str, Timed]:
    assert record.timing is not None
    return {"fused": record.timing.fused, **record.timing.baselines}


def main() -> int:
    """Print the table and whether enough medians repeat."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs=2, type=Path, help="each a report, or a folder or archive of one")
    parser.add_argument("--from-us", type=float, default=20.0, help="shorter medians are shown but not counted")
    parser.add_argument("--within", type=float, default=1.0, help="percent")
    options = parser.parse_args()
    found = list(pairs(*map(report, options.reports)))
    rows = [(x.cell, x.function, x.clock, 1e3 * x.first, 1e3 * x.second, x.percent) for x in found]
    print(
        tabulate(
            rows, ["cell", "function", "clock", "µs", "µs again", "%"], floatfmt=("", "", "", ".2f", ".2f", "+.2f")
        )
    )
    counted = [x for x in found if 1e3 * x.first >= options.from_us]
    if not counted:
        print("no median of both reports is long enough to compare", file=sys.stderr)
        return 2
    within = sum(abs(x.percent) <= options.within for x in counted)
    print(f"{within} of {len(counted)} medians of {options.from_us:g} µs or more within {options.within:g} %")
    return 0 if within >= SHARE * len(counted) else 1


if __name__ == "__main__":
    sys.exit(told(main))
