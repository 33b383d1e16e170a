"""Whether a cell became slower: a moderated t-test on the log medians of runs, and a size.

A run is the unit that repeats: samples of one process share what it drew, so a test on them
alone finds a difference between any two processes. The variance of a run's log median is that
of the cell's own repetitions, moderated by a prior of :data:`PRIOR_DEGREES` degrees of freedom
(G. K. Smyth, "Linear models and empirical Bayes methods", 2004, section 4): the floor of
:mod:`portkit.analysis.gate.noise` times its factor, and the interval that each record carries.
So one run a side is enough to test, and each further one makes the test sharper.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from portkit.analysis.gate.noise import (
    NODE,
    Nodes,
    Times,
    difference,
    every_run,
    floor_variance,
    mean_log,
    repetition,
)
from portkit.analysis.gate.thresholds import Thresholds

PRIOR_DEGREES: Final = 10
"""Repetitions that the prior is worth."""


class Level(enum.StrEnum):
    """How bad a change is; in order."""

    SAME = "same"
    BETTER = "better"
    NOTE = "note"  # to be known, no worse
    WARN = "warn"
    FAIL = "fail"


def worst(levels: Iterable[Level]) -> Level:
    """The last of them in the order of :class:`Level`; ``same`` where there are none."""
    return max(levels, key=list(Level).index, default=Level.SAME)


@dataclass(frozen=True)
class TimeChange:
    """Current against baseline time of a cell."""

    clock: str
    baseline_ms: float  # geometric mean of the runs' medians
    current_ms: float
    ratio: float  # above 1: slower
    low: float  # interval of the ratio at the gate's level, two-sided at twice it
    high: float
    p_slower: float  # chance of such a ratio or a greater one though nothing changed
    runs: tuple[int, int]  # baseline, current
    same_node: bool  # both sides ran on the same boards; where not, the spread of boards is in the interval
    level: Level


def time_change(times: Times, factor: float, thresholds: Thresholds) -> TimeChange:
    """The change of one cell's time.

    Args:
        times: runs of both sides; at least one each.
        factor: of the target's noise, from :func:`portkit.analysis.gate.noise.factor`.
        thresholds: of the gate.
    """
    from scipy.stats import t as student  # noqa: PLC0415 (it takes most of a second to load)

    nodes = times.shared
    change = difference(times, nodes) if nodes else _mean_of_nodes(times.current) - _mean_of_nodes(times.baseline)
    error, degrees = _standard_error(times, factor)
    half = float(student.ppf(1 - thresholds.level, degrees)) * error
    baseline_ms = math.exp(_mean_of_nodes({node: times.baseline[node] for node in nodes or times.baseline}))
    ratio = math.exp(change)
    return TimeChange(
        clock=times.clock,
        baseline_ms=baseline_ms,
        current_ms=baseline_ms * ratio,
        ratio=ratio,
        low=math.exp(change - half),
        high=math.exp(change + half),
        p_slower=float(student.sf(change / error, degrees)),
        runs=(_count(times.baseline, nodes), _count(times.current, nodes)),
        same_node=bool(nodes),
        level=_level(baseline_ms, ratio, math.exp(abs(change) - half), thresholds),
    )


def _level(baseline_ms: float, ratio: float, surest: float, thresholds: Thresholds) -> Level:
    """By size where chance is ruled out: the end of the interval nearer to 1 is above it."""
    if surest <= 1:
        return Level.SAME
    grown = baseline_ms * (ratio - 1)
    if grown > thresholds.least_change_ms(baseline_ms, thresholds.fail_ratio):
        return Level.FAIL
    if grown > thresholds.least_change_ms(baseline_ms, thresholds.warn_ratio):
        return Level.WARN
    shrunk = baseline_ms * (1 - ratio)
    return Level.BETTER if shrunk > thresholds.least_change_ms(baseline_ms, thresholds.warn_ratio) else Level.SAME


def _standard_error(times: Times, factor: float) -> tuple[float, float]:
    """Of the difference, and its degrees of freedom."""
    between, within = floor_variance(every_run(times), times.clock)
    squares, degrees = repetition(times)
    variance = (PRIOR_DEGREES * factor**2 * (between + within) + squares) / (PRIOR_DEGREES + degrees)
    nodes = times.shared
    if nodes:
        shares = sum(1 / len(times.baseline[node]) + 1 / len(times.current[node]) for node in nodes)
        return math.sqrt(variance * shares / len(nodes) ** 2), PRIOR_DEGREES + degrees
    return math.sqrt(variance * _shares(times) + _node_variance(times)), PRIOR_DEGREES + degrees


def _shares(times: Times) -> float:
    """Variance of the difference of means of node means, of one run's variance."""
    sides = (times.baseline, times.current)
    return sum(sum(1 / len(runs) for runs in side.values()) / len(side) ** 2 for side in sides)


def _node_variance(times: Times) -> float:
    """What boards of one SKU add to the difference: by those at hand, moderated by a prior."""
    squares, degrees = 0.0, 0
    for side in (times.baseline, times.current):
        means = [mean_log(runs) for runs in side.values()]
        squares += sum((each - statistics.fmean(means)) ** 2 for each in means)
        degrees += len(means) - 1
    variance = (PRIOR_DEGREES * NODE**2 + squares) / (PRIOR_DEGREES + degrees)
    return variance * (1 / len(times.baseline) + 1 / len(times.current))


def _mean_of_nodes(nodes: Nodes) -> float:
    return statistics.fmean(mean_log(runs) for runs in nodes.values())


def _count(side: Nodes, nodes: Sequence[str]) -> int:
    return sum(len(side[node]) for node in nodes or side)
