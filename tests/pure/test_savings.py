"""``portkit savings``: workloads, prices, and what is worked out of measured rows."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from factories import header, record, timing, verdict
from ruamel.yaml import YAML

import portkit
from portkit.analysis.estimate import Estimate, total
from portkit.cli.savings import command
from portkit.errors import PricesError, ReportError, WorkloadError
from portkit.model import DeviceProbe, Evidence, Outcome, Stage, Status, Timed, Work
from portkit.plan.matrix import read_matrix
from portkit.plan.prices import load_prices, read_prices
from portkit.plan.workloads import evaluate, load_workloads, read_workloads
from portkit.store.journal import Journal

WORKLOAD = """\
workloads:
  small:
    title: A small model
    source: made up
    dtype: float32
    parameters: {rows: 4096, layers: 3}
    tokens: rows
    request_tokens: rows // 4
    kernels:
      - {case: softmax, shape: [rows, 4096], count: layers}
      - {case: rms_norm, shape: [rows, 4096], count: 2 * layers}
      - {case: rope, shape: [rows, 64], count: 1}
"""
PRICE = """\
prices:
  h200: {usd_per_hour: 3.6, granularity_seconds: 60, minimum_seconds: 1200, date: 2026-09-24, source: us}
"""


def measured(kernels=1, unfused=4, **changes):
    """A measured row; fused 0.5 ms and eager 1 ms, each ± 1 %, unless said otherwise."""
    times = changes.pop("timing", timing())
    named = dataclasses.replace(
        times,
        fused=dataclasses.replace(times.fused, kernels=kernels),
        baselines={name: dataclasses.replace(each, kernels=unfused) for name, each in times.baselines.items()},
    )
    return record(Evidence.MEASURED, timing=named, verdict=verdict(), **changes)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.yaml").write_text(WORKLOAD)
    (tmp_path / "prices.yaml").write_text(PRICE)
    return tmp_path


def report(folder, *records, launch_us=10.0):
    journal = Journal.create(folder / "reports" / "local", header(cells=len(records)))
    probe = DeviceProbe(header().run_id, "d0d0", "h200", "2026-01-02T03:04:05+00:00", launch_us=launch_us)
    journal.add(probe)
    for each in records:
        journal.append(each)
    journal.finish()


def run(*arguments):
    done = CliRunner().invoke(command, [str(each) for each in arguments], standalone_mode=False)
    if done.exception:
        raise done.exception
    return done.stdout


def found(*arguments):
    return json.loads(run("--workloads", "own.yaml", "-w", "small", "--prices", "prices.yaml", "--json", *arguments))


def value(figure):
    return figure["value"], figure["low"], figure["high"]


def test_sums_and_differences_reach_the_ends_of_their_parts():
    assert total([Estimate(10, 7, 14), Estimate(20, 16, 23)]) == Estimate(30, 23, 37)
    assert Estimate(20, 16, 23) - Estimate(10, 7, 14) == Estimate(10, 2, 16)
    assert Estimate(10, 9, 11) * 4 == Estimate(40, 36, 44)


def test_a_row_that_is_used_twice_is_as_uncertain_as_one_used_once_for_both():
    assert total([Estimate(10, 9, 11) * 16] * 4) == Estimate(10, 9, 11) * 64


def test_a_ratio_reaches_from_the_least_to_the_most():
    assert Estimate(100, 96, 104) / Estimate(50, 40, 64) == Estimate(2, 1.5, 2.6)
    assert Estimate(1, 1, 1) / Estimate(1, 0.5, 2) == Estimate(1, 0.5, 2)


def test_times_launches_bytes_and_money_by_hand(folder):
    report(folder, measured(), measured(case="rms_norm", timing=timing(0.25, 2.0), unfused=6))
    (one,) = found("--tokens", 4096 * 600_000)
    # softmax 3 × (1, 0.5) ms, rms_norm 6 × (2, 0.25) ms: each ± 1 %
    assert value(one["unfused_ms"]) == pytest.approx((15, 15 * 0.99, 15 * 1.01))
    assert value(one["fused_ms"]) == pytest.approx((3, 3 * 0.99, 3 * 1.01))
    assert one["saved_ms"]["value"] == pytest.approx(12)
    assert one["speedup"]["value"] == pytest.approx(5)
    assert one["launches_saved"] == 3 * 3 + 6 * 5
    assert one["bytes_saved"] == 9 * (400 - 100)
    # a billion tokens are 1e9 / 4096 passes of 3 ms
    assert one["gpu_hours_per_billion_tokens"]["fused"]["value"] == pytest.approx(1e9 / 4096 * 0.003 / 3600)
    # a request is 1024 tokens, a quarter of a pass
    assert one["gpu_hours_per_million_requests"]["unfused"]["value"] == pytest.approx(1e6 / 4 * 0.015 / 3600)
    # price ÷ tokens per second: $3.6/3600 s ÷ (4096 / 0.003 s) × 1e6
    assert one["money"]["fused_per_million"]["value"] == pytest.approx(0.001 / (4096 / 0.003) * 1e6)
    # 600,000 passes: 9000 s unfused, 1800 s fused; a part of a pass is not rounded to minutes
    assert not one["money"]["whole"]
    assert value(one["money"]["unfused_bill"]) == pytest.approx((9.0, 8.91, 9.09))
    assert one["money"]["fused_bill"]["value"] == pytest.approx(1.8)
    assert [each["use"]["case"] for each in one["missing"]] == ["rope"]


def test_the_bill_of_a_part_of_a_pass_says_that_it_is_one(folder):
    report(folder, measured(), measured(case="rms_norm", timing=timing(0.25, 2.0), unfused=6))
    arguments = ("--workloads", "own.yaml", "-w", "small", "--prices", "prices.yaml")
    shown = run(*arguments)
    assert "the part of these kernels alone: $" in shown
    assert "so how much is billed, is not known" in shown
    assert "Floor: not known, since 1 of 3 kernels are not measured; of those that are, 0 ms" in shown


def test_a_whole_pass_is_billed_by_steps(folder):
    (folder / "own.yaml").write_text(WORKLOAD.replace("      - {case: rope", "      # {case: rope"))
    report(folder, measured(), measured(case="rms_norm", timing=timing(0.25, 2.0), unfused=6))
    (one,) = found("--tokens", 4096 * 600_000)
    # 9000 s ± 1 % are 150 minutes, 149 at least and 152 at most, at 6 cents
    assert one["money"]["whole"]
    assert value(one["money"]["unfused_bill"]) == pytest.approx((9.0, 0.06 * 149, 0.06 * 152))
    shown = run("--workloads", "own.yaml", "-w", "small", "--prices", "prices.yaml")
    assert "The bill of a job of 1,000,000,000 tokens on one GPU: $" in shown
    assert "Floor: 0 ms of the fused time (0%) are bound by compute and stay." in shown


def test_a_short_job_pays_the_minimum_and_a_longer_one_whole_minutes(folder):
    price = read_prices(folder / "prices.yaml")["h200"]
    assert price.bill(1 / 3600) == pytest.approx(1.2)  # one second costs 20 minutes
    assert price.bill(1201 / 3600) == pytest.approx(3.6 * 21 / 60)
    unknown = dataclasses.replace(price, granularity_seconds=None, minimum_seconds=None)
    assert unknown.bill(1 / 3600) == pytest.approx(0.001)


def test_the_text_says_what_was_found_and_what_was_not(folder):
    report(folder, measured())
    shown = run("--workloads", "own.yaml", "-w", "small", "--prices", "prices.yaml", "--missing", "gap.yaml")
    assert "small on h200: 1 of 3 kernels of a pass are measured" in shown
    assert "3.000 [2.970, 3.030]  1.500 [1.485, 1.515]" in shown
    assert "These kernels alone, here and below: 2.000 [1.960, 2.040] times as fast." in shown
    assert (
        "Launches saved cost the host 0.09 ms a pass, at 10 µs each as measured there" in shown
    )  # 3 calls × 3 launches × 10 µs
    assert "rms_norm  4096x4096  float32  6 calls    no row of this shape and dtype" in shown
    assert "pytest --benchmark gap.yaml --portkit-target h200" in shown
    cells = YAML(typ="safe").load((folder / "gap.yaml").read_text())
    assert cells["kernels"]["rms_norm"] == {"shapes": ["4096x4096"], "dtypes": ["float32"], "directions": ["forward"]}
    assert list(cells["kernels"]) == ["rms_norm", "rope"]


def test_a_whole_pass_is_called_one(folder):
    report(folder, measured(), measured(case="rms_norm"), measured(case="rope", shape=(4096, 64)))
    shown = run("--workloads", "own.yaml", "-w", "small", "--prices", "prices.yaml", "--missing", "gap.yaml")
    assert "The pass: 2.000" in shown
    assert "Not measured" not in shown
    assert not (folder / "gap.yaml").exists()


def test_shapes_are_never_scaled(folder):
    report(folder, measured(shape=(8192, 4096)))
    (one,) = found()
    assert one["lines"] == []
    assert one["money"] is None
    assert "fused_ms" not in one


def test_the_fastest_variant_that_was_right_counts(folder):
    wrong = Outcome(Status.WRONG_RESULT, Stage.VERIFY, "no")
    report(
        folder,
        measured(variant="w4", timing=timing(0.4, 1.0)),
        measured(variant="w8"),
        measured(variant="w16", timing=timing(0.1, 1.0), outcome=wrong),
    )
    (one,) = found()
    assert [line["variant"] for line in one["lines"]] == ["w4"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (record(Evidence.COMPILED), "compiled only: it has no time"),
        (measured(outcome=Outcome(Status.WRONG_RESULT, Stage.VERIFY, "no")), "measured, but wrong_result"),
        (measured(timing=dataclasses.replace(timing(), throttled=("HwSlowdown",))), "throttled while it was timed"),
        (measured(timing=dataclasses.replace(timing(), baselines={}, speedup={})), "baseline eager was not timed"),
    ],
)
def test_why_a_row_gives_no_figures(folder, row, reason):
    report(folder, row, measured(case="rms_norm"))
    shown = run("--workloads", "own.yaml", "-w", "small", "--prices", "prices.yaml")
    assert reason in shown


def test_a_row_at_the_limit_of_power_counts_and_is_named(folder):
    report(folder, measured(timing=dataclasses.replace(timing(), throttled=("SwPowerCap",))))
    shown = run("--workloads", "own.yaml", "-w", "small", "--prices", "prices.yaml")
    assert "1 of 3 kernels of a pass are measured" in shown
    assert "Timed at the device's limit of power, as such kernels run: softmax." in shown


def test_compiled_rows_alone_give_no_money(folder):
    report(folder, record())
    with pytest.raises(ReportError, match="compiled or emulated rows have no time and give no money"):
        run("--workloads", "own.yaml", "-w", "small")
    shown = run("--workloads", "own.yaml", "-w", "small", "-t", "h200")
    assert "No money: no kernel of it was measured there" in shown


def test_another_baseline_has_no_bytes_of_the_chain(folder):
    times = timing()
    both = dataclasses.replace(times, baselines={**times.baselines, "compile": Timed(times.fused.events)})
    report(folder, measured(timing=both))
    (one,) = found("--baseline", "compile")
    assert one["bytes_saved"] is None
    assert one["saved_ms"]["value"] == pytest.approx(0)
    with pytest.raises(ReportError, match="did you mean compile"):
        found("--baseline", "compiled")
    with pytest.raises(ReportError, match="known: compile, eager"):
        found("--baseline", "fused")


def test_what_compute_bounds_is_the_floor(folder):
    report(folder, measured(work=Work(100, 400, 10**6)), measured(case="rms_norm"))
    (one,) = found()
    assert [line["bound"] for line in one["lines"]] == ["compute", "memory"]
    assert one["compute_ms"]["value"] == pytest.approx(1.5)


def test_a_sku_without_a_price_is_said(folder):
    report(folder, measured(target="rtx5090"))
    (one,) = found()
    assert one["money"] is None
    assert "no price of rtx5090 is known: give one with --prices" in one["no_money"]


def test_the_users_price_goes_first():
    assert load_prices()["h100"].usd_per_hour == 2.65
    assert (load_prices()["h100"].granularity_seconds, load_prices()["h100"].minimum_seconds) == (60, 1200)
    assert all(price.source and price.date for price in load_prices().values())


def test_the_users_price_replaces_one_of_the_package(folder):
    assert load_prices()["h200"].usd_per_hour != 3.6
    assert load_prices([folder / "prices.yaml"])["h200"].usd_per_hour == 3.6


def test_llama_shapes_by_hand():
    known = load_workloads()
    uses = {(use.case, use.role): use for use in known["llama3-70b-decode"].workload({"batch": 32}).uses}
    assert uses["qkv_projection", ""].shape == (32, 8192, 1024, 8192)
    assert uses["gemm", "down projection"].shape == (32, 8192, 28672)
    assert uses["gemm", "gate and up projections"].count == 160
    assert uses["decode_attention", ""].shape == (32, 64, 8, 32768, 64, 128)
    # products of 8B: 7.5 billion weights, the embedding's 0.53 billion aside
    products = [use for use in known["llama3-8b-prefill"].workload().uses if use.case == "gemm"]
    qkv = 32 * (4096 + 2 * 1024) * 4096
    assert sum(use.count * use.shape[1] * use.shape[2] for use in products) + qkv == 7_504_658_432


def test_the_matrix_of_whole_passes_has_their_very_shapes():
    passes = [load_workloads()[name].workload() for name in ("llama3-8b-prefill", "llama3-8b-decode")]
    wanted = {(use.case, use.shape) for each in passes for use in each.uses}
    kernels = read_matrix(Path(portkit.__file__).parents[1] / "examples" / "savings.yaml").kernels
    there = {(kernel.source.name, tuple(shape)) for kernel in kernels for shape in kernel.axes.shapes}
    assert there == wanted


@pytest.mark.parametrize("text", ["layers.real", "layers ** 2", "f(1)", "1 +", "1 // 0", "True", "'a'"])
def test_expressions_are_sums_and_products_alone(text):
    with pytest.raises(ValueError, match=r"no expression|neither number"):
        evaluate(text, {"layers": 2})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("count: layers}", "count: layer}", r"own.yaml:10: workloads.small.kernels\[0\].count: no parameter is named"),
        ("count: layers}", "count: 0}", r"own.yaml:10: workloads.small.kernels\[0\].count: 0 is 0, and no size"),
        ("title:", "titel:", r"own.yaml:3: workloads.small.titel|workloads.small.title: key 'title' is missing"),
        ("dtype: float32", "dtype: fp32", r"own.yaml:5: workloads.small.dtype: unknown dtype 'fp32'"),
        ("    kernels:", "\tkernels:", r"own.yaml:9: is not YAML"),
        ("count: 1}", "count: 1, colour: red}", r"own.yaml:12: .*unknown key 'colour'"),
    ],
)
def test_a_wrong_workloads_file_is_told_by_line_and_key(folder, old, new, message):
    (folder / "own.yaml").write_text(WORKLOAD.replace(old, new, 1))
    with pytest.raises(WorkloadError, match=message) as error:
        read_workloads(folder / "own.yaml")["small"].workload()
    assert error.value.remedy


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("3.6", "-1", r"prices.yaml:2: prices.h200.usd_per_hour: must be more than 0.0, not -1"),
        ("source: us", "sauce: us", r"prices.yaml:2: prices.h200.*(missing|unknown key)"),
        ("h200:", "h2000:", r"prices.yaml:2: prices.h2000: no target is named 'h2000'"),
        ("3.6", ".nan", r"prices.yaml:2: prices.h200.usd_per_hour: must be a finite number, not nan"),
        ("3.6", "'3.6'", r"prices.yaml:2: prices.h200.usd_per_hour: must be a number, not text"),
        ("2026-09-24", "soon", r"prices.yaml:2: prices.h200.date: must be a date, not text"),
        ("source: us", "source: ''", r"prices.yaml:2: prices.h200.source: must be a text that says something, not ''"),
        ("2026-09-24", "2026-19-24", r"prices.yaml:2: 2026-19-24 is no date: month must be"),
    ],
)
def test_a_wrong_prices_file_is_told_by_line_and_key(folder, old, new, message):
    report(folder, measured())
    (folder / "prices.yaml").write_text(PRICE.replace(old, new, 1))
    with pytest.raises(PricesError, match=message) as error:
        found()
    assert error.value.remedy


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-w", "llama3-8b-prefil"], "did you mean llama3-8b-prefill"),
        ([], "no workload is named"),
        (["-w", "llama3-8b-decode", "--set", "bach=1"], "no such parameter 'bach'"),
        (["-w", "llama3-8b-decode", "--set", "batch=many"], "sets no positive whole number"),
    ],
)
def test_wrong_options_are_told_with_what_is_right(folder, arguments, message):
    report(folder, measured())
    with pytest.raises(WorkloadError, match=message):
        run(*arguments)


def test_a_matrix_is_not_written_over_a_report(folder):
    report(folder, measured())
    (file,) = (folder / "reports" / "local").glob("*.jsonl")
    with pytest.raises(ReportError, match=r"a matrix is a YAML file\n  remedy: end its name in .yaml"):
        run("--workloads", "own.yaml", "-w", "small", "--missing", file)


def test_the_files_that_the_document_shows_are_right(folder):
    text = (Path(portkit.__file__).parent.parent / "docs" / "savings.md").read_text(encoding="utf-8")
    workloads, prices = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (folder / "shown.yaml").write_text(workloads)
    block = read_workloads(folder / "shown.yaml")["block"].workload()
    assert [(use.shape, use.dtype, use.count) for use in block.uses] == [
        ((16384, 4096), "bfloat16", 4),
        ((16384, 14336), "float16", 2),
    ]
    (folder / "shown.yaml").write_text(prices)
    shown, kept = read_prices(folder / "shown.yaml")["h100"], load_prices()["h100"]
    assert shown.billed_hours(0) == kept.billed_hours(0) == pytest.approx(1 / 3)
    assert (shown.usd_per_hour, shown.date) == (kept.usd_per_hour, kept.date)


def test_the_list_has_every_workload(folder):
    shown = run("--list", "--workloads", "own.yaml")
    assert [name for name in (*load_workloads(), "small") if name not in shown] == []
