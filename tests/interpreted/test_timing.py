"""Statistics of samples; no GPU needed."""

from __future__ import annotations

import json
import math

import pytest

from portkit.run.timing import Samples, clock, median_interval_rank, summarize


def coverage(count, rank):
    """Probability that the rank-th smallest and largest of ``count`` enclose the median."""
    return 1 - 2 * sum(math.comb(count, k) for k in range(rank)) / 2**count


@pytest.mark.parametrize(("count", "rank"), [(6, 1), (9, 2), (10, 2), (20, 6), (50, 18), (100, 40)])
def test_ranks_are_those_of_published_tables(count, rank):
    assert median_interval_rank(count) == rank


@pytest.mark.parametrize("count", [6, 7, 25, 64, 333, 1000])
def test_rank_is_the_largest_that_covers(count):
    rank = median_interval_rank(count)
    assert coverage(count, rank) >= 0.95 > coverage(count, rank + 1)


def test_too_few_samples_are_refused():
    with pytest.raises(ValueError, match="5 samples give no 95% interval"):
        clock([1.0] * 5)


def test_clock_by_hand():
    found = clock([9.0, 1.0, 3.0, 2.0, 5.0, 4.0, 8.0, 7.0, 6.0, 100.0])
    assert (found.median_ms, found.low_ms, found.high_ms, found.samples) == (5.5, 2.0, 9.0, 10)


def test_summary_keeps_samples_apart_and_divides_medians():
    samples = Samples({"fused": (2.0,) * 7, "eager": (5.0, 6.0, 7.0, 5.0, 6.0, 7.0, 6.0)}, flush_bytes=64, warmup=3)
    timing = summarize(samples)
    assert timing.speedup["eager"].value == 3.0
    assert set(timing.baselines) == {"eager"}
    assert set(samples.milliseconds) == {"fused", "eager"}  # unchanged
    stored = json.loads(samples.to_json())
    assert stored["samples"]["eager"] == [5.0, 6.0, 7.0, 5.0, 6.0, 7.0, 6.0]
    assert (stored["unit"], stored["flush_bytes"], stored["warmup"]) == ("ms", 64, 3)


def test_without_a_right_baseline_there_is_no_speedup():
    assert summarize(Samples({"fused": (2.0,) * 7}, 64, 3)).speedup == {}
