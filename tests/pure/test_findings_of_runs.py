"""Rules on numerics, performance and measurement: each where it must fire, and where it must not."""

import dataclasses

import factories
import pytest
from found import built, clock, counted, failed, family, found, judged, places, ratio, timed

from portkit.analysis.distance import Distance, OutputDistance
from portkit.analysis.spread import Spread
from portkit.model import Baseline, DeviceProbe, Direction, Evidence, Outcome, Ratio, Stage, Status, Timed, Work
from portkit.store.merge import Row

EMULATED, MEASURED = Evidence.EMULATED, Evidence.MEASURED
WRONG = Status.WRONG_RESULT


@pytest.mark.parametrize("name", ["nan", "inf"])
def test_nan_on_one_target(name):
    rows = [
        judged("mi300x", EMULATED, families={name: family(agree=False)}, signals={"max_number": 1}),
        judged("h200", families={name: family()}),
    ]
    (one,) = found("PK301", *rows)
    assert (one.targets, one.against, one.evidence) == (("mi300x",), ("h200",), (MEASURED, EMULATED))
    assert f"With {name} in the input" in one.explanation
    assert "maxima and minima give the number" in one.explanation


def test_of_each_target_it_is_told_whether_it_ran():
    rows = [
        judged("h200", signals={"dot.f32": 1}),
        judged("rx7900xtx", EMULATED, signals={"dot.f32": 1}),
        built("mi300x", {"dot.f32": 1}),
        built("a100", {"dot.f32": 1, "matrix.tf32": 1}),
    ]
    (one,) = found("PK201", *rows)
    assert set(one.targets) == {"h200", "rx7900xtx", "mi300x"}
    assert "Never run on mi300x (only built) and rx7900xtx (only emulated), so" in one.explanation
    assert one.evidence == (MEASURED, EMULATED, Evidence.COMPILED)


@pytest.mark.parametrize("agree", [True, False, None])
def test_nan_alike(agree):
    rows = [judged(target, families={"nan": family(agree=agree)}) for target in ("mi300x", "h200")]
    assert found("PK301", *rows) == []
    assert found("PK301", judged("mi300x"), judged("h200", families={"nan": family(agree=False)})) == []


@pytest.mark.parametrize(("rule", "name"), [("PK301", "nan"), ("PK301", "inf"), ("PK302", "denormal")])
@pytest.mark.parametrize("shapes", [((5, 3072), (3, 8192)), ((5, 3072), None), (None, None)])
def test_families_of_other_shapes_are_not_compared(rule, name, shapes):
    bad = judged("h200", EMULATED, families={name: family(WRONG, agree=False)}, families_shape=shapes[0])
    assert found(rule, bad, judged("h200", families={name: family()}, families_shape=shapes[1])) == []


def test_families_are_compared_by_their_shape():
    rows = [
        judged("h200", EMULATED, families={"inf": family(agree=False)}, families_shape=(5, 3072)),
        judged("h200", families={"inf": family()}, families_shape=(3, 8192)),
        judged("mi300x", EMULATED, families={"inf": family()}, families_shape=(5, 3072)),
    ]
    assert places("PK301", *rows) == [(("h200",), ("mi300x",))]


@pytest.mark.parametrize(
    ("rule", "bad", "good", "words"),
    [
        (
            "PK301",
            {"families": {"inf": family(agree=False)}},
            {"families": {"inf": family()}},
            "reference on h200 (emulated), and in the same on h200 (measured).",
        ),
        (
            "PK302",
            {"families": {"denormal": family(WRONG)}},
            {"families": {"denormal": family()}},
            "over its limit on h200 (emulated), and within it on h200 (measured).",
        ),
        (
            "PK307",
            {"status": WRONG, "error": 2e-6},
            {},
            "2.00 of its limit on h200 (emulated), and 0.10 of its limit on h200 (measu",
        ),
        ("PK308", {"repeatable": False}, {"repeatable": True}, "in 1 runs on h200 (emulated). On h200 (measured) all"),
        (
            "PK309",
            {"status": Status.OUT_OF_BOUNDS, "message": "past out"},
            {},
            "out_of_bounds (past out) on h200 (emulated), and passes on h200 (measured).",
        ),
    ],
)
def test_a_target_on_both_sides_is_told_with_its_evidence(rule, bad, good, words):
    (one,) = found(rule, judged("h200", EMULATED, **bad), judged("h200", **good))
    assert words in one.explanation
    assert "ever run" not in one.explanation
    (one,) = found(rule, judged("h200", EMULATED, **bad), judged("mi300x", EMULATED, **good))
    assert "(emulated)" not in one.explanation


def test_partitions_on_both_sides_are_told_apart():
    rows = [judged("h200", repeatable=False, partition="3g.71gb"), judged("h200", repeatable=True)]
    (one,) = found("PK308", *rows)
    assert "on h200 (3g.71gb). On h200 (whole) all were alike" in one.explanation


ASKED = {"ask.eviction": 1}
UNKNOWN = "so what it costs in time is not known."


def test_what_ran_without_a_build_on_its_row_was_run():
    rows = [judged("h200", EMULATED, signals=ASKED), judged("h200", build=None, timing=None)]
    (one,) = found("PK209", *rows)
    assert one.evidence == (EMULATED,)
    assert one.explanation.endswith(f"asked for. Run on h200 without a time, {UNKNOWN}")
    (alone,) = found("PK209", rows[0])
    assert alone.explanation.endswith(f"asked for. Never run (only emulated), {UNKNOWN}")


def test_what_any_run_timed_there_has_a_time():
    emulated = judged("h200", EMULATED, signals=ASKED)
    bare, whole = judged("h200", build=None, timing=None), judged("h200", build=None)
    for measured in (whole, dataclasses.replace(bare, other_runs=(whole.record,))):
        (one,) = found("PK209", emulated, measured)
        assert one.explanation.endswith("asked for.")
    older = dataclasses.replace(whole.record, keys=dataclasses.replace(whole.record.keys, source_hash="0" * 16))
    (one,) = found("PK209", emulated, dataclasses.replace(bare, other_runs=(older,)))  # of another source
    assert one.explanation.endswith(f"Run on h200 without a time, {UNKNOWN}")


@pytest.mark.parametrize(
    ("status", "stage", "told"),
    [
        (Status.TIMEOUT, Stage.RUN, "Run on h200 without a time"),
        (Status.DEVICE_FAULT, Stage.RUN, "Run on h200 without a time"),
        (Status.LAUNCH_ERROR, Stage.RUN, "Never run (only emulated)"),
        (Status.COMPILE_ERROR, Stage.COMPILE, "Never run (only emulated)"),
    ],
)
def test_a_row_without_a_verdict_ran_where_it_was_launched(status, stage, told):
    bare = judged("h200", build=None, timing=None).record
    row = Row(dataclasses.replace(bare, verdict=None, outcome=Outcome(status, stage, "no")), (), False)
    (one,) = found("PK209", judged("h200", EMULATED, signals=ASKED), row)
    assert f"{told}, {UNKNOWN}" in one.explanation


def test_both_kinds_without_a_time_are_told_of():
    rows = [
        judged("h200", EMULATED, signals=ASKED),
        judged("h200", timing=None, build=None),
        built("mi300x", ASKED),
        judged("a100", signals=ASKED),
    ]
    (one,) = found("PK209", *rows)
    assert one.explanation.endswith(
        "Never run on mi300x (only built); run on h200 without a time, so what it costs in time there is not known."
    )


def test_denormals_on_one_target():
    rows = [
        judged("mi300x", EMULATED, families={"denormal": family(WRONG)}),
        judged("h200", families={"denormal": family()}),
    ]
    assert places("PK302", *rows) == [(("mi300x",), ("h200",))]
    assert found("PK302", rows[0], judged("h200", families={"denormal": family(WRONG)})) == []
    assert found("PK302", rows[1], judged("mi300x", families={"denormal": family()})) == []


def test_wrong_on_one_target():
    rows = [judged("mi300x", EMULATED, status=WRONG, error=4e-2), judged("h200", error=1e-7)]
    (one,) = found("PK307", *rows)
    assert (one.targets, one.against) == (("mi300x",), ("h200",))
    assert "40000.00 of its limit on mi300x, and 0.10 of its limit on h200" in one.explanation


def test_wrong_codes_are_counted():
    """The limit of what has to be equal is 0, which no share is of."""
    outputs = tuple(
        dataclasses.replace(factories.verdict(1e-7).outputs[0], fused_error=error, limit=0.0) for error in (0.0036, 0.0)
    )
    rows = [judged("mi300x", EMULATED, status=WRONG, outputs=outputs[:1]), judged("h200", outputs=outputs[1:])]
    (one,) = found("PK307", *rows)
    assert "that 0.36 % of codes or indices are others on mi300x, and within its limit on h200." in one.explanation


def test_wrong_on_inputs_of_a_family_alone():
    families = {"inf": family(WRONG), "tail": family(), "zeros": family(WRONG)}
    rows = [judged("mi300x", EMULATED, status=WRONG, families=families), judged("h200", families=families)]
    (one,) = found("PK307", *rows)
    words = "over its limit on inputs of the family inf, zeros on mi300x, and 0.10 of its limit on h200"
    assert words in one.explanation


def test_wrong_on_other_inputs_or_everywhere_is_no_difference():
    wrong = judged("mi300x", status=WRONG, error=4e-2)
    assert found("PK307", wrong, judged("h200", input_hash="another")) == []
    assert found("PK307", wrong, judged("h200", status=WRONG, error=4e-2)) == []
    assert found("PK307", judged("mi300x"), judged("h200")) == []


@pytest.mark.parametrize(("ulp", "fires"), [(None, True), (3, False)])
def test_outputs_that_part_in_nan(ulp, fires):
    output = OutputDistance("0", "float32", False, 1024, 4, ulp, 1.0, 1.0)
    names = [
        f"{target} {evidence} (run {factories.RUN_ID})"
        for target, evidence in (("h200", "measured"), ("mi300x", "emulated"))
    ]
    apart = Distance("softmax", Direction.FORWARD, (4096, 4096), "float32", "w8", *names, (output,))
    rows = [judged("h200"), judged("mi300x", EMULATED)]
    assert places("PK307", *rows, apart=(apart,)) == ([(("mi300x",), ("h200",))] if fires else [])
    of_another = dataclasses.replace(apart, variant="w4")
    assert found("PK307", *rows, apart=(of_another,)) == []


def test_all_outputs_that_part_from_one_are_one_finding():
    output = OutputDistance("0", "float32", False, 1024, 4, None, None, None)
    first, *others = (f"{name} emulated (run {factories.RUN_ID})" for name in ("a100", "mi300x", "rx7900xtx"))
    apart = [
        Distance("softmax", Direction.FORWARD, (4096, 4096), "float32", "w8", first, other, (output,))
        for other in others
    ]
    rows = [judged(name, EMULATED) for name in ("a100", "mi300x", "rx7900xtx")]
    assert places("PK307", *rows, apart=apart) == [(("mi300x", "rx7900xtx"), ("a100",))]


def test_repeatable_on_one_target():
    rows = [judged("mi300x", EMULATED, repeatable=False, runs=3), judged("h200", repeatable=True, runs=3)]
    (one,) = found("PK308", *rows)
    assert (one.targets, one.against) == (("mi300x",), ("h200",))
    assert "in 3 runs on mi300x" in one.explanation
    for same in (True, False, None):
        assert found("PK308", *(judged(target, repeatable=same) for target in ("h200", "mi300x"))) == []


@pytest.mark.parametrize("status", [Status.OUT_OF_BOUNDS, Status.DATA_RACE, Status.DEVICE_FAULT])
def test_faults_on_one_target(status):
    bad = judged("mi300x", EMULATED, status=status, message="store past the end of out")
    (one,) = found("PK309", bad, judged("h200"))
    assert (one.targets, one.against) == (("mi300x",), ("h200",))
    assert f"{status} (store past the end of out) on mi300x" in one.explanation
    assert found("PK309", bad, judged("h200", status=status)) == []
    assert found("PK309", judged("mi300x"), judged("h200", status=WRONG)) == []


def test_speedup_that_does_not_carry_over():
    rows = [timed("h200", 0.5, 1.0), timed("mi300x", 0.8, 1.0)]  # 2.00 and 1.25
    (one,) = found("PK401", *rows)
    assert (one.targets, one.against) == (("mi300x",), ("h200",))
    assert "2.00 (1.98 to 2.02) times as fast as eager on h200, and 1.25 (1.24 to 1.26) on mi300x" in one.explanation
    assert "Never run" not in one.explanation


@pytest.mark.parametrize(("fused", "spread"), [(0.6, 0.01), (0.8, 0.4)])
def test_speedup_that_carries_over(fused, spread):
    assert found("PK401", timed("h200", 0.5, 1.0, spread=spread), timed("mi300x", fused, 1.0, spread=spread)) == []
    assert found("PK401", timed("h200", 0.5, 1.0)) == []


def test_speedup_within_what_nodes_differ_in():
    rows = [timed("h200", 0.5, 1.0), timed("mi300x", 0.65, 1.0)]  # 2.00 and 1.54
    assert found("PK401", *rows) != []
    spread = Spread("mi300x", "events_ms", {"a": 0.6, "b": 0.7}, rows[1].record.cell)
    assert found("PK401", *rows, spreads=(spread,)) == []


@pytest.mark.parametrize("changes", [{"flush_bytes": 0}, {"throttled": ("heat",)}])
def test_speedups_under_other_circumstances_are_not_compared(changes):
    slow = timed("mi300x", 0.9, 1.0, **changes)
    assert found("PK401", timed("h200", 0.25, 1.0), slow) == []
    assert places("PK401", timed("h200", 0.25, 1.0, **changes), slow) == [(("mi300x",), ("h200",))]


def test_fusing_that_is_slower():
    assert places("PK402", timed("h200", 1.0, 0.9), timed("mi300x", 0.5, 1.0)) == [(("h200",), ("mi300x",))]
    assert "0.90 (0.89 to 0.91) of eager" in found("PK402", timed("h200", 1.0, 0.9))[0].explanation
    assert found("PK402", timed("h200", 1.0, 0.9, spread=0.2)) == []
    assert found("PK402", timed("h200", 0.9, 1.0)) == []


def test_less_than_the_bytes_it_saves():
    """Bound 4, gain on kernel time 2 and so of whole calls, of which launches take as much of eager: half of it."""
    row = timed("h200", 0.8, 1.6, trace=0.4, eager_trace=0.8, counted={"fused": counted(occupancy_achieved_pct=30.0)})
    (one,) = found("PK403", row)
    assert (
        "gains 50 % of what the saved bytes allow on kernel time, and 50 % of it from call to call:" in one.explanation
    )
    assert "achieved occupancy is 30 %" in one.explanation
    assert "bytes of the work model" not in one.explanation
    assert "launches" not in one.explanation


def test_launches_take_of_what_the_kernels_gain():
    """Kernels gain 4 of 4; a call takes 1 ms where they take 0.2, and eager 1.2: it gains 1.2 of 4."""
    row = timed("h200", 1.0, 1.2, trace=0.2, eager_trace=0.8, counted={"fused": counted(occupancy_achieved_pct=30.0)})
    (one,) = found("PK403", row, timed("mi300x", 0.5, 2.0, trace=0.4, eager_trace=1.6))
    assert (one.targets, one.against) == (("h200",), ("mi300x",))
    assert (
        "gains 100 % of what the saved bytes allow on kernel time, and 30 % of it from call to call" in one.explanation
    )
    assert "a call takes 5.0 times as long as its kernels, so launches take of what they gain" in one.explanation
    assert "occupancy" not in one.explanation  # the kernels reach the bound as they are


def test_most_of_the_bytes_it_saves():
    assert found("PK403", timed("h200", 0.5, 2.0, trace=0.4, eager_trace=1.2)) == []  # 0.75 of 4
    same = Work(fused_bytes=100, unfused_bytes=100, flops=1)
    assert found("PK403", timed("h200", 0.8, 0.9, trace=0.4, eager_trace=0.4, work=same)) == []
    assert found("PK403", timed("h200", 0.8, 1.6)) == []  # no kernel times
    product = Work(fused_bytes=100, unfused_bytes=400, flops=10**6)
    assert found("PK403", timed("h200", 0.8, 1.6, trace=0.4, eager_trace=0.8, work=product)) == []


@pytest.mark.parametrize(("achieved", "fires"), [(50.0, True), (65.0, False), (None, False)])
def test_achieved_occupancy(achieved, fires):
    rows = [timed("h200", counted={"fused": counted(occupancy_achieved_pct=achieved)})]
    assert places("PK404", *rows) == ([(("h200",), ())] if fires else [])
    assert found("PK404", timed("h200")) == []


@pytest.mark.parametrize(("read", "fires"), [(90, True), (80, False), (None, False)])
def test_traffic(read, fires):
    """The work model has 100 B, 40 are written."""
    rows = [timed("h200", counted={"fused": counted(dram_read_bytes=read)})]
    assert places("PK405", *rows) == ([(("h200",), ())] if fires else [])
    told = "130 B crossed the memory in one call, 1.30 times the 100 B that the operation must move: 90 B read"
    assert all(told in one.explanation for one in found("PK405", *rows))


def test_occupancy_lost_by_fusing():
    low, full = counted(occupancy_theoretical_pct=50.0, occupancy_limiter="registers"), counted()
    assert places("PK108", timed("h200", counted={"fused": low, "eager": full})) == [(("h200",), ())]
    assert found("PK108", timed("h200", counted={"fused": full, "eager": low})) == []
    assert found("PK108", timed("h200", counted={"fused": low})) == []


@pytest.mark.parametrize(("copy_gbs", "fires"), [(1600.0, True), (1100.0, False)])
def test_occupancy_lost_at_the_ceiling_is_no_loss(copy_gbs, fires):
    """536.9 MB in 0.5 ms are 1,074 GB/s: 67 % of 1,600, and 98 % of 1,100."""
    work = Work(fused_bytes=2**29, unfused_bytes=2**31, flops=2**20)
    low, full = counted(occupancy_theoretical_pct=50.0), counted()
    row = timed("h200", 0.5, work=work, counted={"fused": low, "eager": full})
    row = dataclasses.replace(row, record=dataclasses.replace(row.record, device_id="d" * 16))
    probe = DeviceProbe(row.record.run_id, "d" * 16, "h200", "2026-01-02", copy_gbs, None, None, {"float32": 50.0})
    assert ["measured it reaches 67 % on h200" in one.explanation for one in found("PK108", row, probes=(probe,))] == [
        True
    ] * fires


@pytest.mark.parametrize(
    ("times", "fires"),
    [
        ({"liger": (0.77, 0.78)}, True),
        ({"liger": (0.93, 0.96)}, False),  # the interval reaches over 0.95
        ({"liger": (1.2, 1.3)}, False),
        ({"eager": (0.5, 0.6)}, False),  # the matter of PK402
        ({"liger": (0.5, None)}, False),  # schema 1: no interval
    ],
)
def test_another_implementation_is_faster(times, fires):
    speedup = {name: Ratio(low, low, high) for name, (low, high) in times.items()}
    row = timed("h200", speedup=speedup)
    assert places("PK409", row, timed("mi300x")) == ([(("h200",), ("mi300x",))] if fires else [])


def test_another_implementation_by_kernel_times_and_only_where_it_is_right():
    row = timed("h200", speedup={"liger": ratio(0.5, 0.01)}, speedup_kernel={"liger": ratio(0.8, 0.01)})
    (one,) = found("PK409", row)
    assert "liger 0.80 (0.79 to 0.81, trace) on h200 (95 % intervals)" in one.explanation
    wrong = dataclasses.replace(row.record, baselines={"liger": Baseline(WRONG)})
    assert found("PK409", dataclasses.replace(row, record=wrong)) == []


@pytest.mark.parametrize("rule", ["PK402", "PK409"])
def test_a_slow_variant_is_no_finding_where_another_is_fast(rule):
    """w16 takes 1.2 ms, w8 0.5; eager takes 1 and liger 0.9, so only what one would not run is slower."""

    def row(target, ms, variant):
        return timed(
            target, ms, 1.0, variant=variant, speedup={"eager": ratio(1 / ms, 0.01), "liger": ratio(0.9 / ms, 0.01)}
        )

    slow = row("h200", 1.2, "w16")
    assert found(rule, row("h200", 0.5, "w8"), slow) == []
    (one,) = found(rule, slow, row("mi300x", 0.5, "w8"), row("mi300x", 1.2, "w16"))
    assert (one.targets, one.against, one.variant) == (("h200",), (), "w16")


def test_another_variant_wins():
    """h200: w8 0.5, w16 0.6. mi300x: w8 0.9, w16 0.6, so h200's winner takes 1.5 times as long there."""
    rows = [
        timed("h200", 0.5, variant="w8"),
        timed("h200", 0.6, variant="w16"),
        timed("mi300x", 0.9, variant="w8"),
        timed("mi300x", 0.6, variant="w16"),
    ]
    (one,) = found("PK406", *rows)
    assert (one.targets, one.against, one.variant) == (("mi300x",), ("h200",), None)
    assert "w8 on h200 and w16 on mi300x" in one.explanation
    assert "That of h200 takes 1.50 times as long on mi300x" in one.explanation
    assert found("PK406", *rows[:2]) == []
    rows[2:] = [timed("mi300x", 0.59, variant="w8"), timed("mi300x", 0.6, variant="w16")]
    assert found("PK406", *rows) == []


def sized(rows: int, ms: float, target: str = "h200", flops: int = 1):
    work = Work(fused_bytes=rows * 1000, unfused_bytes=rows * 4000, flops=rows * flops)
    return timed(target, ms, 4 * ms, shape=(rows, 250), work=work)


def test_a_cliff():
    (one,) = found("PK407", sized(1000, 0.1), sized(2000, 0.4), sized(4000, 0.8))
    assert one.shape == (2000, 250)
    assert "from 10 GB/s at 1000x250 to 5 GB/s at 2000x250, 2.00 times" in one.explanation


@pytest.mark.parametrize("times", [(0.1, 0.25), (0.001, 0.1)])
def test_no_cliff(times):
    assert found("PK407", sized(1000, times[0]), sized(2000, times[1])) == []
    assert found("PK407", sized(1000, 0.1), sized(10_000, 10.0)) == []  # no neighbours
    assert found("PK407", sized(1000, 0.1, flops=1), sized(2000, 0.4, flops=4)) == []  # 4 times the work per byte
    assert found("PK407", sized(1000, 0.1), sized(2000, 0.4, "mi300x")) == []


def test_no_cliff_between_cache_modes():
    work = Work(fused_bytes=2 * factories.WORK.fused_bytes, unfused_bytes=800, flops=2)
    small = timed("h200", 0.02, shape=(1, 100), flush_bytes=0)
    large = timed("h200", 0.2, shape=(1, 200), work=work)
    assert found("PK407", small, large) == []


def test_throttled():
    assert places("PK501", timed("h200", throttled=("SW_THERMAL_SLOWDOWN",))) == [(("h200",), ())]
    assert found("PK501", timed("h200")) == []


def probe(processes: int | None, device: str = "d0d0") -> DeviceProbe:
    return DeviceProbe(factories.RUN_ID, device, "h200", "2026-01-02T03:04:05+00:00", other_processes=processes)


def test_shared_gpu():
    (one,) = found("PK502", timed("h200"), probes=(probe(2),))
    assert "h200 had 2 other processes" in one.explanation
    for other in (probe(0), probe(None), probe(2, "another")):
        assert found("PK502", timed("h200"), probes=(other,)) == []


def test_too_few_samples():
    few = timed("h200", fused=Timed(clock(0.5, 0.05, samples=8)))
    (one,) = found("PK503", few)
    assert "rests on 8 samples, with a 95 % interval of 10.0 % of it" in one.explanation
    assert places("PK503", timed("h200", settled=False)) == [(("h200",), ())]
    assert found("PK503", timed("h200", settled=True)) == []
    assert found("PK503", timed("h200")) == []


def test_no_counters():
    (one,) = found("PK504", timed("h200"))
    assert "no counters were asked for" in one.explanation
    assert found("PK504", timed("h200", counted={"fused": counted()})) == []


@pytest.mark.parametrize(("times", "fires"), [({"a": 0.5, "b": 0.6}, True), ({"a": 0.5, "b": 0.51}, False)])
def test_nodes_that_differ_by_more_than_the_gain(times, fires):
    row = timed("h200", 0.95, 1.0)  # 5 %
    spread = Spread("h200", "events_ms", times, row.record.cell)
    assert places("PK505", row, spreads=(spread,)) == ([(("h200",), ())] if fires else [])
    assert found("PK505", row) == []


NEED_A_RUN = [f"PK{n}" for n in (108, 301, 307, 308, 309, *range(401, 408), *range(501, 506))]


@pytest.mark.parametrize("rule", NEED_A_RUN)
def test_rows_that_were_never_run_say_nothing_of_runs(rule):
    from found import built

    rows = [built("h200"), built("mi300x"), failed("rx7900xtx", Status.UNSUPPORTED, "no")]
    assert found(rule, *rows) == []


def test_a_ratio_without_an_interval_claims_nothing():
    bare = dataclasses.replace(ratio(0.9, 0.01), low=None, high=None)
    row = timed("h200", speedup={"eager": bare})
    assert found("PK402", row) == found("PK401", row, timed("mi300x", 0.5, 2.0)) == []
