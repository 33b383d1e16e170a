"""What plots and pages show, worked out by hand on four made-up targets."""

from __future__ import annotations

from dataclasses import replace

import factories
import many_targets
import pytest
from many_targets import TARGETS

from portkit.analysis.choice import choose
from portkit.analysis.findings.rule import Severity
from portkit.analysis.rows import comparison
from portkit.analysis.views.apart import apart
from portkit.analysis.views.cascade import cascades, worst_of_each
from portkit.analysis.views.depth import depths
from portkit.analysis.views.excerpts import Excerpts, excerpt
from portkit.analysis.views.heat import METRICS, heat
from portkit.analysis.views.kernels import Carry, kernel_summaries
from portkit.analysis.views.roofline import rooflines
from portkit.analysis.views.speedups import speedups
from portkit.analysis.views.standing import Standing, standing
from portkit.analysis.views.targets import targets
from portkit.analysis.views.variants import variants
from portkit.analysis.views.whole_cells import whole_cells
from portkit.model import Evidence, Outcome, Status


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return many_targets.dataset(tmp_path_factory.mktemp("reports"))


@pytest.fixture(scope="module")
def compared(dataset):
    return comparison(dataset)


def metric(name):
    return next(each for each in METRICS if each.name == name)


def of(cells, page):
    return {cell.target: cell for cell in cells if cell.page == page}


def test_the_map_takes_the_worst_status_of_a_kernel_on_a_target(compared):
    found = of(heat(compared.rows, metric("status")), "attention")
    assert {name: cell.text for name, cell in found.items()} == {
        "h200": "passed",
        "a100": "weak_check",
        "mi300x": "wrong_result",
        "rx7900xtx": "out_of_resources",
    }
    assert [cell.standing for cell in found.values()] == [
        Standing.GOOD,
        Standing.NO_VERDICT,
        Standing.BAD,
        Standing.BAD,
    ]
    assert found["rx7900xtx"].evidence is Evidence.COMPILED
    assert "131072 B > 65536 B" in found["rx7900xtx"].reason


def test_the_map_takes_most_registers_and_least_speedup(compared):
    registers = of(heat(compared.rows, metric("registers_per_thread")), "fan_in")
    assert (registers["h200"].value, registers["mi300x"].value) == (52, 84)  # 20 + 32, 20 + 2 × 32
    assert registers["h200"].rows == 5
    speedup = of(heat(compared.rows, metric("speedup")), "softmax")
    assert speedup["h200"].value == pytest.approx(3.6)
    share = of(heat(compared.rows, metric("share_of_bound")), "softmax")
    assert share["h200"].value == pytest.approx(100 * 3.6 * 1.05 / 4)


def test_a_figure_that_no_row_has_keeps_its_reason(compared):
    cell = of(heat(compared.rows, metric("speedup")), "attention")["rx7900xtx"]
    assert (cell.value, cell.rows, cell.reason) == (None, 0, "only a GPU has a time")


@pytest.mark.parametrize(
    ("status", "found"),
    [
        (Status.PASSED, Standing.GOOD),
        (Status.WRONG_RESULT, Standing.BAD),
        (Status.COMPILE_ERROR, Standing.BAD),
        (Status.REFERENCE_FAILED, Standing.NO_VERDICT),
        (Status.BACKEND_MISSING, Standing.NO_VERDICT),
        (Status.EXCLUDED, Standing.EXCLUDED),
    ],
)
def test_standings_of_statuses(tmp_path, status, found):
    record = many_targets.measured("h200", outcome=Outcome(status))
    (row,) = comparison(many_targets.of_records([record], many_targets.Report(tmp_path))).rows
    assert standing(row) is found


def test_points_of_a_roofline_and_of_the_unfused_chain(compared):
    view = next(view for view in rooflines(compared) if view.page == "softmax")
    fused, eager = (point for point in view.points if point.target == "h200" and point.label.endswith("w8"))
    assert (fused.function, eager.function) == ("fused", "eager")
    assert fused.intensity == 2  # 2^29 flop ÷ 2^28 B
    assert fused.tflops == pytest.approx(2**29 / 0.1e-3 / 1e12)
    assert fused.gbs == pytest.approx(2**28 / 0.1e-3 / 1e9)
    assert eager.intensity == 0.5  # it moves four times the bytes
    assert eager.tflops == pytest.approx(fused.tflops / (3.6 * 1.05))
    roof = next(roof for roof in view.roofs if roof.target == "h200")
    assert (roof.memory_gbs, roof.compute_tflops, roof.origin) == (4200, 50, "measured")
    (_, low), ridge, (_, high) = roof.corners
    assert ridge == (pytest.approx(50e3 / 4200), 50)
    assert (low, high) == (pytest.approx(roof.corners[0][0] * 4.2), 50)


def test_a_device_that_was_not_measured_has_the_roof_of_its_datasheet(tmp_path):
    record = many_targets.measured("h200", device="another")
    (view,) = rooflines(comparison(many_targets.of_records([record], many_targets.Report(tmp_path))))
    assert {roof.origin for roof in view.roofs} == {"datasheet"}


def test_speedups_keep_their_clocks_apart(compared):
    view = next(view for view in speedups(compared) if view.operation.label == "4096x4096 float32 w8")
    found = {(each.target, each.baseline, each.clock): each for each in view.speedups}
    assert {target for target, _, _ in found} >= {"h200"}
    assert found["h200", "eager", "events"].value == pytest.approx(3.6)
    assert found["h200", "eager", "trace"].value == pytest.approx(3.78)
    assert found["h200", "eager", "events"].low == pytest.approx(3.6 * 0.97)


def test_depth_is_the_axis_that_a_constant_of_the_launch_follows(compared, dataset):
    lines = [line for line in depths(compared, dataset) if line.page == "fan_in"]
    assert {line.target for line in lines} == set(TARGETS)
    line = next(line for line in lines if line.target == "mi300x")
    assert (line.axis, line.label) == ("STAGES", "4096 float32 w8")
    assert [(step.depth, step.registers) for step in line.steps] == [(2, 24), (4, 28), (8, 36), (16, 52), (32, 84)]


def test_an_axis_that_no_constant_follows_is_no_depth(tmp_path):
    plain = factories.build(factories.launch(constants={"BLOCK": "128"}))
    records = [many_targets.measured("h200", shape=(depth, 4096), build=plain) for depth in (2, 4, 8)]
    found = many_targets.of_records(records, many_targets.Report(tmp_path))
    assert depths(comparison(found), found) == ()


def test_cascades_fall_as_targets_join(compared):
    found = [each for each in cascades(compared) if each.operation.page == "softmax"]
    assert {each.operation.variant: each.best for each in found} == {"w8": True, "w16": False}
    w8 = next(each for each in found if each.best)
    assert [step.efficiency for step in w8.steps] == [1, 1, pytest.approx(1 / 1.2), pytest.approx(1 / 1.2)]
    assert w8.steps[-1].portability == pytest.approx(4 / (1 + 1 + 1.2 + 1.2))
    worst = worst_of_each(cascades(compared))
    assert worst[0].steps[-1].portability == 0  # wrong on a target
    assert [each.operation.page for each in worst].count("fan_in") == 1


def test_variants_and_what_a_winner_costs_elsewhere(compared):
    (view,) = [view for view in variants(compared) if view.operation.kernel == "softmax"]
    cells = {(cell.variant, cell.target): cell for cell in view.cells}
    assert cells["w8", "h200"].winner
    assert cells["w16", "h200"].slower == pytest.approx(1.3)
    assert cells["w8", "mi300x"].slower == pytest.approx(1.2)
    penalties = {(each.of, each.on): each.penalty for each in view.transfers}
    assert penalties["h200", "mi300x"] == pytest.approx(1.2)
    assert penalties["mi300x", "h200"] == pytest.approx(1.3)
    assert [cell.target for cell in view.cells[:4]] == ["h200", "a100", "mi300x", "rx7900xtx"]


def test_every_two_targets_are_held_against_each_other_those_of_two_vendors_first(compared, dataset):
    (view,) = apart(compared, dataset)
    assert view.operation.label == "4096x4096 float32 w8"
    steps = {target: place for place, target in enumerate(TARGETS)}  # as many ulp above 1
    for pair in view.pairs:
        one, other = (name.removesuffix(" measured") for name in (pair.one, pair.other))
        assert pair.ulp == abs(steps[one] - steps[other])
        assert pair.across == ((one in ("h200", "a100")) != (other in ("h200", "a100")))
        assert not pair.identical
    assert [pair.across for pair in view.pairs] == [True] * 4 + [False] * 2


def test_emulated_runs_of_both_vendors_are_compared_without_any_gpu(tmp_path):
    report = many_targets.Report(tmp_path)
    steps = {"h200": 0, "a100": 0, "mi300x": 3}
    emulated = [
        factories.record(
            Evidence.EMULATED,
            target=target,
            shape=(8, 128),
            build=replace(factories.build(), build_key=target),
            blobs={"fingerprint": report.keep(many_targets.fingerprint(n))},
        )
        for target, n in steps.items()
    ]
    dataset = many_targets.of_records(emulated, report)
    (view,) = apart(comparison(dataset), dataset)
    found = {(pair.one, pair.other): (pair.across, pair.identical, pair.ulp) for pair in view.pairs}
    assert found == {
        ("h200 emulated", "mi300x emulated"): (True, False, 3),
        ("a100 emulated", "mi300x emulated"): (True, False, 3),
        ("h200 emulated", "a100 emulated"): (False, True, 0),
    }
    assert not apart(choose(comparison(dataset), targets=["mi300x"]), dataset)


def test_what_does_not_carry_over_stands_first(compared):
    found = {each.page: each for each in kernel_summaries(compared)}
    assert next(iter(found)) == "attention"
    assert (found["attention"].bad, found["attention"].unsure) == (("mi300x", "rx7900xtx"), ("a100",))
    assert found["attention"].carry is Carry.NO
    assert (found["softmax"].carry, found["softmax"].gravest) == (Carry.AT_A_COST, Severity.WARNING)
    assert found["softmax backward"].carry is Carry.ALONE
    assert found["throttled"].carry is Carry.ALONE  # how it was measured is no cost of the kernel's
    assert found["softmax"].evidence == {Evidence.MEASURED: TARGETS}


@pytest.mark.parametrize(
    ("records", "carry"),
    [
        ([("measured", "h200"), ("measured", "mi300x")], Carry.YES),
        ([("measured", "h200"), ("compiled", "mi300x")], Carry.BUILT),
        ([("compiled", "h200"), ("compiled", "mi300x")], Carry.BUILT),
        ([("compiled", "h200")], Carry.ALONE),
    ],
)
def test_how_far_a_kernel_without_trouble_was_seen(tmp_path, records, carry):
    made = [
        many_targets.compiled(target) if evidence == "compiled" else many_targets.measured(target, timing=None)
        for evidence, target in records
    ]
    (summary,) = kernel_summaries(comparison(many_targets.of_records(made, many_targets.Report(tmp_path))))
    assert summary.carry is carry


def test_a_kernel_without_a_verdict_is_not_said_to_carry_over_nor_not_to(tmp_path):
    failed = many_targets.measured("a100", outcome=Outcome(Status.REFERENCE_FAILED), timing=None)
    made = [many_targets.measured("h200", timing=None), failed]
    (summary,) = kernel_summaries(comparison(many_targets.of_records(made, many_targets.Report(tmp_path))))
    assert (summary.carry, summary.unsure) == (Carry.UNSURE, ("a100",))


def test_targets_stand_as_planned_with_what_they_are(compared):
    found = targets(compared)
    assert [each.name for each in found] == ["h200", "a100", "mi300x", "rx7900xtx"]
    assert [each.vendor for each in found] == ["NVIDIA", "NVIDIA", "AMD", "AMD"]
    assert found[3].market == "consumer"


def test_whole_cells_are_one_a_kernel_and_target_then_those_with_findings(compared, dataset):
    rows = whole_cells(dataset, compared.findings)
    places = [(row.record.cell.case, row.record.cell.direction, row.record.cell.target) for row in rows]
    pairs = {(row.record.cell.case, row.record.cell.direction, row.record.cell.target) for row in dataset.rows}
    assert set(places[: len(pairs)]) == pairs
    assert len(rows) > len(pairs)
    assert len({id(row) for row in rows}) == len(rows)


def test_excerpts_show_the_lines_of_a_target_where_it_holds_and_of_one_where_not(compared, dataset):
    finding = next(each for each in compared.findings if each.rule == "PK303")
    holds, not_there = Excerpts(dataset).of(finding)
    assert (holds.target, holds.stage, holds.matches, holds.holds) == ("mi300x", "amdgcn", 2, True)
    assert [line.text for line in holds.lines if line.match] == ["v_exp_f32 v3, v1", "v_ldexp_f32 v3, v3, v4"]
    assert (not_there.target, not_there.stage, not_there.holds) == ("a100", "ptx", False)


def test_findings_of_times_have_no_excerpt(compared, dataset):
    finding = next(each for each in compared.findings if each.rule == "PK401")
    assert Excerpts(dataset).of(finding) == ()


def test_without_the_side_folder_a_finding_stands_without_its_excerpt(compared, tmp_path):
    moved = replace(many_targets.dataset(tmp_path), paths={factories.RUN_ID: str(tmp_path / "moved.jsonl")})
    finding = next(each for each in compared.findings if each.rule == "PK303")
    assert Excerpts(moved).of(finding) == ()


def test_an_excerpt_counts_all_and_shows_the_first():
    lines, matches = excerpt("\n".join(f"exp {i}" for i in range(10)), "exp", "source", most=2)
    assert matches == 10
    assert [line.number for line in lines] == [1, 2, 3]
