"""How far the medians of two runs lie apart though nothing changed.

A record carries the median of each clock with its 95 % interval; the interval tells how well
one process knew its median. Two processes differ by more, and two boards by more still:

- A floor says what a quiet H200 showed, per clock: a share of the time, and some time of
  its own (the cost of events differs from process to process).
- Where the runs at hand are noisier than that, the floor of all cells of the target is raised
  by one factor. It comes from repetitions on one board where there are enough, since they
  owe nothing to a change; else from the two sides themselves, by the calmer of their two
  tails: a change that slows half of the cells widens one tail and not the other.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from portkit.model import Record
from portkit.store.alike import fused_clock

FLOOR: Final[Mapping[str, tuple[float, float]]] = {"trace": (0.005, 0.03), "events": (0.005, 0.2)}
"""Clock → standard deviation of a run's median: share of it, and µs.

More than twice what the two recorded processes of reports/h200-2026-11-29/compare_runs.txt showed (0.2 % on both
clocks); the µs on events are what their cost differed by from process to process (scripts/clock_figures.py).
"""

NODE: Final = 0.02
"""Standard deviation between boards of one SKU, as a share, before any was seen."""

ENOUGH: Final = 20
"""Degrees of freedom, or cells, from which a factor is estimated."""

_Z95 = 1.959964  # half a 95 % interval of a normal, in standard deviations
_MAD = 1.4826  # median absolute deviation × this: standard deviation of a normal


@dataclass(frozen=True, slots=True)
class RunTime:
    """The fused function's median of one run."""

    log_ms: float
    variance: float  # of log_ms within the run, from its interval


Nodes = Mapping[str, Sequence[RunTime]]
"""Node (device_id, else host_id) → its runs."""


@dataclass(frozen=True, slots=True)
class Times:
    """A cell's runs on both sides, on one clock."""

    clock: str
    baseline: Nodes
    current: Nodes

    @property
    def shared(self) -> tuple[str, ...]:
        """Nodes that ran it on both sides; there boards make no difference."""
        return tuple(node for node in self.current if node in self.baseline)


LEAST_SAMPLES: Final = 6
"""Fewest samples whose range holds their median with 95 %: 1 - 2 · 2^-6 = 97 %; of five it is 94 %."""


def run_time(record: Record, clock: str) -> RunTime | None:
    """A record's median on a clock; None where it has none, a time of 0, or no interval above 0."""
    found = fused_clock(record, clock)
    if found is None or found.samples < LEAST_SAMPLES or min(found.low_ms, found.high_ms, found.median_ms) <= 0:
        return None
    width = math.log(found.high_ms / found.low_ms)
    return RunTime(math.log(found.median_ms), (width / 2 / _Z95) ** 2)


def floor_variance(runs: Iterable[RunTime], clock: str) -> tuple[float, float]:
    """Variance of a run's log median: between processes by the floor, and within them by their intervals."""
    every = list(runs)
    share, microseconds = FLOOR[clock]
    median_us = 1e3 * math.exp(statistics.fmean(run.log_ms for run in every))
    return share**2 + (microseconds / median_us) ** 2, statistics.fmean(run.variance for run in every)


def every_run(times: Times) -> list[RunTime]:
    """All runs of both sides."""
    return [run for side in (times.baseline, times.current) for runs in side.values() for run in runs]


def repetition(times: Times) -> tuple[float, int]:
    """Sum of squares and degrees of freedom of the runs that one node made on one side."""
    groups = [runs for side in (times.baseline, times.current) for runs in side.values() if len(runs) > 1]
    squares = 0.0
    for runs in groups:
        middle = statistics.fmean(run.log_ms for run in runs)
        squares += sum((run.log_ms - middle) ** 2 for run in runs)
    return squares, sum(len(runs) - 1 for runs in groups)


def factor(cells: Iterable[Times]) -> float:
    """By how much the runs of a target are noisier than the floor, as a factor of its deviation; at least 1."""
    every = list(cells)
    repeated = [(times, *repetition(times)) for times in every]
    if sum(degrees for _, _, degrees in repeated) >= ENOUGH:
        found = statistics.median(_excess(*each) for each in repeated if each[2])
        return max(1.0, math.sqrt(found))
    return max(1.0, _calmer_tail([_standardized(times) for times in every if times.shared]))


def _excess(times: Times, squares: float, degrees: int) -> float:
    """Variance of the repetitions ÷ the floor's; the median of it is 1 where the floor holds."""
    from scipy.stats import chi2  # noqa: PLC0415 (it takes most of a second to load)

    between, within = floor_variance(every_run(times), times.clock)
    return squares / (between + within) / float(chi2.median(degrees))


def _standardized(times: Times) -> float:
    """Difference of the sides on the shared nodes, in standard deviations by the floor."""
    between, within = floor_variance(every_run(times), times.clock)
    counts = [(len(times.baseline[node]), len(times.current[node])) for node in times.shared]
    variance = (between + within) * sum(1 / a + 1 / b for a, b in counts) / len(counts) ** 2
    return difference(times, times.shared) / math.sqrt(variance)


def difference(times: Times, nodes: Sequence[str]) -> float:
    """Mean over nodes of the difference of the sides' mean log times."""
    return statistics.fmean(mean_log(times.current[node]) - mean_log(times.baseline[node]) for node in nodes)


def mean_log(runs: Sequence[RunTime]) -> float:
    """Mean of the log medians of a node's runs."""
    return statistics.fmean(run.log_ms for run in runs)


def _calmer_tail(differences: Sequence[float]) -> float:
    if len(differences) < ENOUGH:
        return 1.0
    tails = [[abs(x) for x in differences if (x > 0) is slower] for slower in (True, False)]
    return min(_MAD * statistics.median(tail) if tail else 0.0 for tail in tails)
