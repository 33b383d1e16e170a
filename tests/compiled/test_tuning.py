"""Autotuned kernels on GPUs that are absent: every configuration, and a range instead of a guess."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import triton.testing
from triton.runtime.autotuner import Autotuner
from workshop import cell_of

from portkit.model import Stage, Status
from portkit.run.capture import Recorder
from portkit.run.tuning import follow_absent
from portkit.targets.catalog import load_catalog

ON_BOTH = ("some_over_a_limit", "all_over_a_limit", "pruned_by_the_target")
ON_H200 = (
    *("all_four", "tuned_and_plain", "tuned_twice", "skips_assertions", "refused_by_the_front_end", "hooks"),
    *("pruned_by_a_model", "heuristics", "times_itself", "prints_a_time", "decides_by_a_time"),
)


@pytest.fixture(scope="module")
def built(workshop):
    cells = [cell_of(name, target, (8192,)) for name in ON_BOTH for target in ("h200", "mi300x")]
    cells += [cell_of(name, "h200", (8192,)) for name in ON_H200]
    results = workshop.build_cases("tuned.py", *cells)
    return {(result.cell.case, result.cell.target): result for result in results}


def blocks(result):
    return [int(launch.constants["BLOCK"]) for launch in result.build.launches if launch.trial]


def registers(result):
    return [launch.resources.registers_per_thread for launch in result.build.launches if launch.trial]


def test_every_configuration_is_built_and_the_choice_is_left_out(built):
    result = built["all_four", "h200"]
    assert result.outcome.status is Status.BUILT
    assert blocks(result) == [256, 1024, 4096, 8192]
    assert [launch.grid for launch in result.build.launches] == [(32, 1, 1), (8, 1, 1), (2, 1, 1), (1, 1, 1)]
    assert all(launch.trial for launch in result.build.launches)
    tuning = result.build.tuning
    assert (tuning.calls, tuning.configurations, tuning.usable, tuning.failed) == (1, 4, 4, {})
    low, high = tuning.ranges["registers_per_thread"]
    assert (low, high) == (min(registers(result)), max(registers(result)))
    assert high > 4 * low
    assert result.build.registers_per_thread == high  # the worst counts
    assert tuning.ranges["occupancy_pct"][0] == result.build.worst_occupancy.percent
    assert result.build.launch_count == 1


def test_a_launch_beside_it_bounds_the_range_from_below(built):
    result = built["tuned_and_plain", "h200"]
    (certain,) = result.build.counted
    assert certain.constants["BLOCK"] == "2048"
    own = certain.resources.registers_per_thread
    assert min(registers(result)) < own  # the best configuration does not make the call better than this
    assert result.build.tuning.ranges["registers_per_thread"] == (own, max(registers(result)))
    assert result.build.launch_count == 2


def test_a_kernel_tuned_in_two_calls_is_tuned_twice(built):
    build = built["tuned_twice", "h200"].build
    assert (build.tuning.calls, build.tuning.configurations, build.launch_count) == (2, 8, 2)


def test_a_configuration_over_a_limit_costs_only_itself(built):
    cuda, rocm = built["some_over_a_limit", "h200"], built["some_over_a_limit", "mi300x"]
    assert cuda.outcome.status is rocm.outcome.status is Status.BUILT
    assert (cuda.build.tuning.usable, cuda.build.tuning.failed) == (2, {})
    assert rocm.build.tuning.usable == 1
    assert rocm.build.tuning.failed == {"BLOCK=4096 num_warps=32 num_stages=3": "threads 2048 > 1024"}
    assert rocm.build.threads_per_block == 256  # what can't run is in no figure
    assert rocm.build.limits_broken == ()


def test_where_none_is_left_the_limit_decides_and_later_launches_are_seen(built):
    result = built["all_over_a_limit", "mi300x"]
    assert (result.outcome.status, result.outcome.stage) == (Status.OUT_OF_RESOURCES, Stage.LIMITS)
    assert result.outcome.message == "threads 2048 > 1024"
    assert [launch.constants["BLOCK"] for launch in result.build.counted] == ["256"]
    assert built["all_over_a_limit", "h200"].outcome.status is Status.BUILT


def test_what_the_autotuner_skips_costs_only_itself(built):
    result = built["skips_assertions", "h200"]
    assert result.outcome.status is Status.BUILT
    assert blocks(result) == [1024, 512]
    (failed,) = result.build.tuning.failed.items()
    assert failed == (
        "BLOCK=4096 num_warps=4 num_stages=3",
        "CompileTimeAssertionFailure: tl.static_assert(BLOCK <= 1024)",
    )


def test_what_it_does_not_skip_ends_the_call_there_too(built):
    result = built["refused_by_the_front_end", "h200"]
    assert result.outcome.status is Status.UNSUPPORTED
    assert result.outcome.message.startswith("configuration BLOCK=4096 num_warps=4 num_stages=3: ValueError: arange's")
    assert "does not skip" in result.outcome.message
    assert blocks(result) == [1024, 512]  # built and in the record all the same


def test_hooks_of_configurations_run(built):
    result = built["hooks", "h200"]
    assert result.outcome.status is Status.BUILT
    assert blocks(result) == [256, 1024]


def test_pruning_asks_the_target(built):
    cuda, rocm = built["pruned_by_the_target", "h200"], built["pruned_by_the_target", "mi300x"]
    assert [launch.num_warps for launch in cuda.build.launches] == [8, 16, 32]
    assert [launch.num_warps for launch in rocm.build.launches] == [8, 16]
    assert (cuda.asked, rocm.asked) == ({"warp_size": 32}, {"warp_size": 64})
    assert blocks(built["pruned_by_a_model", "h200"]) == [4096, 2048]


def test_heuristics_leave_nothing_open(built):
    build = built["heuristics", "h200"].build
    assert (build.tuning, build.launches[0].trial, build.launches[0].constants["BLOCK"]) == (None, False, "8192")


def test_a_benchmark_of_the_users_own_changes_nothing(built):
    assert blocks(built["times_itself", "h200"]) == [256, 1024]


def test_times_can_be_printed_but_decide_nothing(built):
    printed, decided = built["prints_a_time", "h200"], built["decides_by_a_time", "h200"]
    assert [launch.constants["BLOCK"] for launch in printed.build.launches] == ["512"]
    assert decided.outcome.status is Status.CAPTURE_FAILED
    assert "decides by a measured time" in decided.outcome.message
    assert "cases/tuned.py:" in decided.outcome.message


@pytest.mark.parametrize(("chosen_only", "tried"), [(False, ["A=1", "A=2", "A=3"]), (True, ["A=1", "A=2"])])
def test_where_one_configuration_is_asked_for_none_behind_the_first_usable_one_is_built(
    monkeypatch, chosen_only, tried
):
    recorder, seen = Recorder(load_catalog().get("h200")), []
    recorder.chosen_only = chosen_only

    def bench(tuner, *, config):
        seen.append(recorder.configuration.split()[0])
        launch = SimpleNamespace(limits_broken=("too much",) if len(seen) == 1 else ())
        recorder.call.launches.append(launch)
        return [1.0]

    def run(tuner):
        return [Autotuner._bench(tuner, config=each) for each in tuner.configs]

    for name, value in {"run": run, "_bench": bench, "do_bench": None}.items():  # whatever is set is undone
        monkeypatch.setattr(Autotuner, name, value, raising=False)
    for name in [each for each in vars(triton.testing) if each.startswith("do_bench")]:
        monkeypatch.setattr(triton.testing, name, None)
    follow_absent(recorder)
    tuner = SimpleNamespace(configs=[triton.Config({"A": n}) for n in (1, 2, 3)], cache={})
    times = Autotuner.run(tuner)
    assert seen == tried
    assert times[0] == [float("inf")] * 3  # over a limit
    assert times[1][0] < float("inf")
