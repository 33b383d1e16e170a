"""Medians, their intervals, ratios and outliers; no torch.

Two intervals of a median, both at 95 %: by order statistics, cheap, for the decision when
to stop (H. A. David, H. N. Nagaraja, "Order Statistics", 3rd edition, section 7.1); and by
the percentile bootstrap over whole rounds, for the record (B. Efron, R. J. Tibshirani, "An
Introduction to the Bootstrap", chapter 13). A round holds one sample of each function, so
drawing rounds keeps what its samples share, such as a slow clock, in both halves of a ratio.
"""

from __future__ import annotations

import itertools
import math
import statistics
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from portkit.model import Clock, Ratio

CONFIDENCE = 0.95

RESAMPLES = 999
"""Bootstrap samples; the bounds then move by less than a tenth of the interval from seed to seed."""

OUTLIER_SPREADS = 5.0
"""Spreads from the median beyond which a sample is counted as an outlier."""

DIGITS = 6
"""Decimals that are kept: nanoseconds of times in ms, millionths of ratios."""

_MAD_SCALE = 1.4826  # the median absolute deviation of normal samples times this is their standard deviation
_SEED = 0  # the same samples give the same interval
_BATCH = 100  # bootstrap samples at a time: bounds the memory


def of_rounds(series: Mapping[str, Sequence[float]], fused: str) -> tuple[dict[str, Clock], dict[str, Ratio]]:
    """Each function's median, and how many times slower than ``fused`` each other is.

    Args:
        series: function → one sample a round in ms, in the order of the rounds.
        fused: the function whose median divides the others'.

    Returns:
        Function → median with interval; other function → ratio of medians with interval.

    Raises:
        ValueError: fewer than six rounds, from which no 95 % interval follows.
    """
    names = [fused, *(name for name in series if name != fused)]
    table = np.array([series[name] for name in names])
    median_interval_rank(table.shape[1])
    values, (low, high) = _medians_and_ratios(table), _interval(table)
    bounds = [(_kept(a), _kept(b), _kept(c)) for a, b, c in zip(values, low, high, strict=True)]
    clocks = {n: Clock(*bounds[i], len(series[n]), outliers(series[n])) for i, n in enumerate(names)}
    return clocks, {n: Ratio(*bounds[len(names) + i]) for i, n in enumerate(names) if n != fused}


def clock(samples: Sequence[float]) -> Clock:
    """Median of one function's samples in ms, with its 95 % interval and outliers.

    Raises:
        ValueError: fewer than six samples.
    """
    return of_rounds({"": samples}, "")[0][""]


def relative_half_width(samples: Sequence[float]) -> float:
    """Half the 95 % interval of the median by order statistics, as a share of the median.

    Infinite where the samples are too few for an interval; 0 where they are: a call that
    launches nothing takes no time on the trace.
    """
    if len(samples) < FEWEST:
        return math.inf
    ordered = sorted(samples)
    rank = median_interval_rank(len(ordered))
    width, median = ordered[-rank] - ordered[rank - 1], statistics.median(ordered)
    if median == 0:
        return math.inf if width else 0.0
    return width / 2 / median


def outliers(samples: Sequence[float]) -> int:
    """Samples more than five spreads from the median; they are counted and stay.

    The spread is the scaled median absolute deviation, or one step of the timer where more
    than half of the samples are equal.
    """
    middle = statistics.median(samples)
    spread = max(_MAD_SCALE * statistics.median(abs(each - middle) for each in samples), _step(samples))
    return sum(abs(each - middle) > OUTLIER_SPREADS * spread for each in samples)


def median_interval_rank(count: int, confidence: float = CONFIDENCE) -> int:
    """Rank *k*, from 1, such that the k-th smallest and k-th largest enclose the median.

    The largest *k* with ``2 P(Binomial(count, 1/2) < k) <= 1 - confidence``: holds for
    any distribution of independent samples.

    Raises:
        ValueError: no such rank, since the samples are too few.
    """
    tail, term, rank = 0.0, math.ldexp(1.0, -count), 0
    while 2 * (tail + term) <= 1 - confidence:
        tail += term
        rank += 1
        term *= (count - rank + 1) / rank
    if rank == 0:
        raise ValueError(f"{count} samples give no {confidence:.0%} interval of the median; 6 are the fewest for 95%")
    return rank


FEWEST = 6
"""Samples from which a 95 % interval of the median follows."""


def _medians_and_ratios(table: Any) -> Any:
    """Medians over the last axis, then each ÷ the first; no ratio to a time of 0 is used."""
    medians = np.median(table, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.concatenate([medians, medians / medians[0]])


def _interval(table: Any) -> tuple[Any, Any]:
    """Bootstrap bounds of :func:`_medians_and_ratios`; ``table`` is functions × rounds."""
    # Most of a second, which only measured cells need.
    from scipy.stats import DegenerateDataWarning, bootstrap  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)  # of a ratio to times of 0, which is not used
        found = bootstrap(
            (np.arange(table.shape[1]),),
            lambda rounds, axis: _medians_and_ratios(table[:, rounds]),
            vectorized=True,
            n_resamples=RESAMPLES,
            batch=_BATCH,
            confidence_level=CONFIDENCE,
            method="percentile",
            rng=np.random.default_rng(_SEED),
        )
    return found.confidence_interval.low, found.confidence_interval.high


def _kept(value: Any) -> float:
    return round(float(value), DIGITS)


def _step(samples: Sequence[float]) -> float:
    """Smallest difference between two unlike samples, to a nanosecond; 0 where all are equal."""
    distinct = sorted({round(each, 6) for each in samples})
    return min((b - a for a, b in itertools.pairwise(distinct)), default=0.0)
