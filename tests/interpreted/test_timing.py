"""Statistics of samples, what a record holds of them, and when sampling stops; no GPU needed."""

from __future__ import annotations

import dataclasses
import json
import math
from types import SimpleNamespace

import pytest

from portkit.errors import HostError
from portkit.model import DeviceState
from portkit.run.timing import rounds, statistics, trace
from portkit.run.timing.asked import parse_modes
from portkit.run.timing.readings import named, throttle_reasons
from portkit.run.timing.rounds import Bounds, until_settled
from portkit.run.timing.samples import Samples
from portkit.run.timing.statistics import clock, median_interval_rank, of_rounds, outliers, relative_half_width
from portkit.run.timing.summary import summarize
from portkit.run.timing.trace import MARKER, Activity, TraceError, portkit_marks_a_traced_call, split

# --------------------------------------------------------------------------
# Medians and intervals


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


def test_half_width_by_hand():
    assert relative_half_width([9.0, 1.0, 3.0, 2.0, 5.0, 4.0, 8.0, 7.0, 6.0, 100.0]) == (9.0 - 2.0) / 2 / 5.5
    assert relative_half_width([1.0] * 5) == math.inf
    assert relative_half_width([0.0] * 50) == 0
    assert relative_half_width([0.0] * 30 + [1.0] * 20) == math.inf


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("fused_ms", [0.0, 0.01])
def test_a_function_that_launches_nothing_has_a_time_of_0_and_no_speedup_on_the_trace(fused_ms):
    samples = Samples(
        {
            "events": {"fused": (0.002,) * 60, "view": (0.004,) * 60},
            "trace": {"fused": (fused_ms,) * 60, "view": (0.0,) * 60},
        },
        flush_bytes=4,
        warmup=1,
    )
    timing, nulls = summarize(samples)
    assert timing.baselines["view"].trace.median_ms == 0
    assert (timing.speedup["view"].value, dict(timing.speedup_kernel)) == (2.0, {})
    assert "no speedup of kernel time is claimed under 5 µs" in nulls["speedup_kernel.view"]


def exact_bootstrap(samples, confidence=0.95):
    """Bounds of the percentile bootstrap of the median of an odd number of unlike samples, without drawing.

    The median of a resample is at most the k-th smallest sample where more than half of its
    draws are: a binomial sum.
    """
    count = len(samples)
    half = count // 2 + 1

    def at_most(k):
        share = k / count
        return sum(math.comb(count, n) * share**n * (1 - share) ** (count - n) for n in range(half, count + 1))

    tail = (1 - confidence) / 2
    low = next(k for k in range(1, count + 1) if at_most(k) >= tail)
    high = next(k for k in range(1, count + 1) if at_most(k) >= 1 - tail)
    return sorted(samples)[low - 1], sorted(samples)[high - 1]


def test_bootstrap_is_that_of_all_resamples():
    samples = [float(each * each % 101) for each in range(51)]
    assert len(set(samples)) == 51
    found = clock(samples)
    low, high = exact_bootstrap(samples)
    near = sorted(samples)
    assert abs(near.index(found.low_ms) - near.index(low)) <= 1
    assert abs(near.index(found.high_ms) - near.index(high)) <= 1
    assert found.median_ms == near[25]


def test_the_same_samples_give_the_same_interval():
    samples = [1.0 + 0.01 * (each % 7) for each in range(40)]
    assert clock(samples) == clock(samples)


def test_ratio_divides_medians_and_keeps_what_a_round_shares():
    drift = [1.0 + 0.2 * (each % 11) / 10 for each in range(60)]  # both functions slow down together
    series = {"fused": drift, "eager": [3.0 * each for each in drift]}
    medians, ratios = of_rounds(series, "fused")
    assert medians["fused"].high_ms / medians["fused"].low_ms > 1.02
    assert ratios["eager"].value == pytest.approx(3.0, rel=1e-12)
    assert ratios["eager"].low == pytest.approx(3.0, rel=1e-12)
    assert ratios["eager"].high == pytest.approx(3.0, rel=1e-12)


def test_drawing_functions_apart_would_widen_that_ratio():
    drift = [1.0 + 0.2 * (each % 11) / 10 for each in range(60)]
    shuffled = drift[7:] + drift[:7]
    ratio = of_rounds({"fused": drift, "eager": shuffled}, "fused")[1]["eager"]
    assert ratio.value == 1.0
    assert ratio.high - ratio.low > 0.01


def test_outliers_are_counted_and_stay():
    samples = [10.0, 10.1, 9.9, 10.05, 9.95, 10.1, 9.9, 10.0, 25.0]
    assert outliers(samples) == 1
    found = clock(samples)
    assert (found.samples, found.outliers) == (9, 1)


def test_a_step_of_the_timer_is_no_outlier():
    assert outliers([0.005376] * 20 + [0.005408, 0.005344]) == 0
    assert outliers([0.005376] * 20 + [0.005408, 0.0057]) == 1
    assert outliers([0.005376] * 20) == 0


# --------------------------------------------------------------------------
# When to stop


def sampled(values):
    """A sampler that hands out values, and how many rounds were asked for."""
    asked = []

    def sample(rounds):
        asked.append(rounds)
        return [{"fused": next(values)} for _ in range(rounds)]

    return sample, asked


def test_steady_samples_end_it_as_soon_as_there_are_enough():
    sample, asked = sampled(iter([1.0] * 1000))
    done = until_settled(sample, float, Bounds(seconds=60, fewest=10, least=30, step=15))
    assert (len(done.rounds), done.settled, asked) == (40, True, [10, 15, 15])


def test_it_goes_on_until_the_median_is_known_to_half_a_per_cent():
    values = [1.0 + 0.1 * (each * each % 101) / 101 for each in range(1000)]
    sample, _ = sampled(iter(values))
    done = until_settled(sample, float, Bounds(seconds=60, least=20, step=10))
    count = len(done.rounds)
    assert 20 < count < 1000
    assert relative_half_width(values[:count]) <= 0.005 < relative_half_width(values[: count - 10])
    assert done.settled


def test_a_time_limit_ends_it_after_ten_rounds_and_is_said():
    sample, _ = sampled(iter([1.0] * 1000))
    done = until_settled(sample, float, Bounds(seconds=0))
    assert (len(done.rounds), done.settled) == (10, False)  # too few to say that they are known


def test_long_rounds_do_not_go_far_past_the_time_limit(monkeypatch):
    now = iter(range(1000))  # a second goes by between two looks at the clock
    monkeypatch.setattr(rounds.time, "perf_counter", lambda: next(now))
    sample, asked = sampled(iter([1.0, 2.0] * 1000))
    until_settled(sample, float, Bounds(seconds=4, fewest=10, step=25))
    # After 10 rounds in a second 3 s are left, after 35 in two 2 s, after 60 in three one.
    assert asked == [10, 25, 25, 20]


def test_the_most_rounds_end_it():
    sample, asked = sampled(iter([1.0, 2.0] * 1000))
    done = until_settled(sample, float, Bounds(seconds=60, least=20, most=45, step=10))
    assert (len(done.rounds), done.settled, asked[-1]) == (45, False, 5)


def test_every_function_must_be_known():
    rounds = iter({"fused": 1.0, "eager": 1.0 + each % 2} for each in range(1000))
    done = until_settled(lambda n: [next(rounds) for _ in range(n)], float, Bounds(seconds=60, most=100))
    assert not done.settled


# --------------------------------------------------------------------------
# The trace


def activities(*names):
    return [Activity(name, launch, 0, 1000) for launch, name in enumerate(names)]


def test_a_call_is_what_lies_between_its_markers():
    found = split(activities("flush", MARKER, "a", "b", MARKER, "flush", MARKER, "c", MARKER), 2)
    assert [[each.name for each in call] for call in found] == [["a", "b"], ["c"]]


def test_a_marker_is_known_by_the_name_of_its_descriptor():
    """As AMD's tools write it."""
    event = SimpleNamespace(
        name=lambda: f"{MARKER}.kd", correlation_id=lambda: 7, start_ns=lambda: 1, duration_ns=lambda: 2
    )
    assert trace._activity(event) == Activity(MARKER, 7, 1, 2)


def test_copies_and_fills_are_told_apart_from_kernels():
    """As CUPTI names them and as roctracer does; a kernel that fills is a kernel."""
    copies = activities("Memcpy DtoD (Device -> Device)", "Memset (Device)", "CopyDeviceToDevice", "FillBuffer")
    kernels = activities(
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>", "Memories"
    )
    found = trace._sum([*copies, *kernels])
    assert (found.kernels, found.milliseconds) == (6, 0.006)
    assert (found.copies, found.copied_ms) == (4, 0.004)


def test_a_call_without_kernels_has_none():
    assert split(activities("flush", MARKER, MARKER), 1) == [[]]


def test_an_empty_trace_says_what_may_be_wrong():
    with pytest.raises(TraceError, match="another profiler may hold the device"):
        split([], 1)


@pytest.mark.parametrize("names", [(MARKER, "a"), (MARKER, "a", MARKER, MARKER)])
def test_a_trace_that_lost_a_marker_is_refused(names):
    with pytest.raises(TraceError, match="markers where 2 were launched"):
        split(activities(*names), 1)


def test_the_marker_has_the_name_that_is_looked_for():
    assert portkit_marks_a_traced_call.__name__ == MARKER


# --------------------------------------------------------------------------
# What a record holds


def samples(**changed):
    times = {"fused": (2.0,) * 7, "eager": (5.0, 6.0, 7.0, 5.0, 6.0, 7.0, 6.0)}
    return Samples(**{"milliseconds": {"events": times}, "flush_bytes": 64, "warmup": 3, **changed})


def test_summary_tells_how_many_copies_a_call_made_and_their_median_time():
    made = samples(copies={"eager": (2,) * 3, "fused": (0, 1, 0)}, copied_ms={"eager": (1.0, 3.0, 2.0)})
    timing, _ = summarize(Samples.from_json(made.to_json()))
    assert (timing.baselines["eager"].copies, timing.baselines["eager"].copied_ms) == (2, 2.0)
    assert (timing.fused.copies, timing.fused.copied_ms) == (None, None)


def test_summary_keeps_samples_apart_and_divides_medians():
    timing, nulls = summarize(samples())
    assert timing.speedup["eager"].value == 3.0
    assert timing.speedup["eager"].low == 2.5
    assert set(timing.baselines) == {"eager"}
    assert timing.fused.trace is None
    assert (timing.settled, timing.flush_bytes, timing.warmup) == (False, 64, 3)
    assert nulls == {}


def test_without_a_right_baseline_there_is_no_speedup():
    timing, _ = summarize(samples(milliseconds={"events": {"fused": (2.0,) * 7}}))
    assert timing.speedup == {}


def test_two_clocks_never_share_a_column():
    trace = {"fused": (1.0,) * 6, "eager": (4.0,) * 6}
    both = {"events": {"fused": (2.0,) * 7, "eager": (6.0,) * 7}, "trace": trace}
    timing, _ = summarize(samples(milliseconds=both, kernels={"fused": (1,) * 6, "eager": (5,) * 6}))
    assert (timing.fused.events.median_ms, timing.fused.trace.median_ms) == (2.0, 1.0)
    assert (timing.speedup["eager"].value, timing.speedup_kernel["eager"].value) == (3.0, 4.0)
    assert (timing.fused.kernels, timing.baselines["eager"].kernels) == (1, 5)


def test_no_speedup_of_kernel_time_under_five_microseconds():
    times = {"fused": (0.0049,) * 7, "eager": (0.0151,) * 7}
    timing, nulls = summarize(samples(milliseconds={"events": times, "trace": times}))
    assert timing.speedup_kernel == {}
    assert timing.speedup["eager"].value == pytest.approx(0.0151 / 0.0049)
    assert nulls == {
        "speedup_kernel.eager": "fused takes 4.90 µs: no speedup of kernel time is claimed under 5 µs",
    }


def test_five_microseconds_are_enough():
    times = {"fused": (0.005,) * 7, "eager": (0.01,) * 7}
    timing, nulls = summarize(samples(milliseconds={"events": times, "trace": times}))
    assert timing.speedup_kernel["eager"].value == 2.0
    assert nulls == {}


def test_a_changing_number_of_kernels_is_unknown():
    timing, nulls = summarize(samples(kernels={"fused": (3, 4, 3), "eager": (5, 5, 5)}))
    assert (timing.fused.kernels, timing.baselines["eager"].kernels) == (None, 5)
    assert nulls == {"timing.fused.kernels": "3 to 4 from call to call"}


def test_a_mode_that_not_all_could_be_taken_in():
    graph = {"eager": (5.0,) * 7}
    timing, nulls = summarize(
        samples(milliseconds={**samples().milliseconds, "graph": graph}, nulls={"timing.fused.graph": "it waits"})
    )
    assert timing.fused.graph is None
    assert timing.baselines["eager"].graph.median_ms == 5.0
    assert nulls == {"timing.fused.graph": "it waits"}


def test_samples_come_back_from_the_side_folder():
    whole = samples(
        places=8,
        results=12,
        order_seed=0,
        hold_ms={"events": 0.25},
        settled=True,
        late={"fused": 1},
        kernels={"fused": (1, 1)},
        states=(DeviceState(1980.0, 2619.0, 350.5, 41.0, ("SwPowerCap",)), DeviceState()),
        nulls={"timing.trace": "none"},
    )
    assert Samples.from_json(whole.to_json()) == whole
    stored = json.loads(whole.to_json())
    assert (stored["unit"], stored["samples"]["events"]["eager"][1]) == ("ns", 6_000_000)
    del stored["order_seed"]  # as in reports of rounds that all had one order
    assert Samples.from_json(json.dumps(stored).encode()) == dataclasses.replace(whole, order_seed=None)


def test_states_before_during_and_after():
    states = [DeviceState(sm_clock_mhz=mhz, throttle=why) for mhz, why in CLOCKS]
    assert [state.sm_clock_mhz for state in named(states).values()] == [345.0, 1700.0, 1980.0]
    assert list(named(states)) == ["before", "during", "after"]
    assert throttle_reasons(states) == ("SwPowerCap", "HwSlowdown")
    assert list(named(states[:2])) == ["before", "after"]
    assert named(()) == {}


CLOCKS = [(345.0, ()), (1980.0, ("SwPowerCap",)), (1700.0, ("SwPowerCap", "HwSlowdown")), (1980.0, ())]


# --------------------------------------------------------------------------
# Modes


def test_modes_come_in_one_order_and_once():
    assert parse_modes(["graph", " warm,graph"]) == ("warm", "graph")
    assert parse_modes([]) == ()


def test_an_unknown_mode_is_refused_by_name():
    with pytest.raises(HostError) as refused:
        parse_modes(["warm,hot"])
    assert refused.value.render() == ("--portkit-modes: not a mode of timing: 'hot'\n  remedy: choose of warm, graph")


def test_more_resamples_hardly_move_the_interval(monkeypatch):
    samples = [1.0 + 0.1 * math.sin(each * each) for each in range(200)]
    few = clock(samples)
    monkeypatch.setattr(statistics, "RESAMPLES", 9999)
    many = clock(samples)
    width = many.high_ms - many.low_ms
    assert abs(few.low_ms - many.low_ms) < 0.15 * width
    assert abs(few.high_ms - many.high_ms) < 0.15 * width
