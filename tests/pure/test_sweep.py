"""``portkit sweep``: fusion over depth and over size."""

from __future__ import annotations

import dataclasses
import json

import pytest
from click.testing import CliRunner
from factories import build, header, launch, record, timing, verdict

from portkit.analysis.estimate import Estimate
from portkit.analysis.sweep.size import Crossover, Side, Step, crossover, measured_crossover
from portkit.cli.sweep import command
from portkit.errors import ReportError
from portkit.model import DeviceProbe, Evidence, Outcome, Ratio, Stage, Status, Work
from portkit.store.journal import Journal


def step(megabytes, bytes_ms, saved=(1, 1, 1)):
    return Step((1,), megabytes * 10**6, 1, bytes_ms, "bytes", Estimate(*saved), Ratio(1, 1, 1))


def with_kernels(times, fused=1, eager=5):
    return dataclasses.replace(
        times,
        fused=dataclasses.replace(times.fused, kernels=fused),
        baselines={name: dataclasses.replace(each, kernels=eager) for name, each in times.baselines.items()},
    )


def row(evidence=Evidence.MEASURED, **changes):
    if evidence is Evidence.MEASURED:
        changes = {"timing": with_kernels(timing()), "verdict": verdict(), **changes}
    return record(evidence, **changes)


def chain(depth, registers, evidence=Evidence.MEASURED, **changes):
    """A row of a kernel that is unrolled ``depth`` times."""
    made = build(launch(registers, percent=100.0 - registers, constants={"STAGES": str(depth), "BLOCK": "4096"}))
    return row(evidence, case="chain", shape=(depth, 1000), build=made, **changes)


@pytest.fixture
def report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(*records, probe=True):
        journal = Journal.create(tmp_path / "reports" / "local", header(cells=len(records)))
        if probe:
            told = {"copy_gbs": 1000.0, "launch_us": 10.0, "graph_launch_us": 1.0}
            journal.add(DeviceProbe(header().run_id, "d0d0", "h200", "2026-01-02T03:04:05+00:00", **told))
        for each in records:
            journal.append(each)
        journal.finish()

    return write


def run(*arguments):
    done = CliRunner().invoke(command, [str(each) for each in arguments], standalone_mode=False)
    if done.exception:
        raise done.exception
    return done.stdout


def test_gains_meet_between_two_sizes():
    found = crossover([step(10, 0.1), step(30, 0.5)], 0.2)  # a quarter of the way
    assert (found.side, found.fused_bytes) == (Side.AMONG, pytest.approx(15e6))


def test_beyond_the_sizes_it_is_said_beyond_which():
    assert crossover([step(10, 0.1), step(30, 0.5)], 0.05) == Crossover(Side.BELOW, 10e6)
    assert crossover([step(10, 0.1), step(30, 0.5)], 1.0) == Crossover(Side.ABOVE, 30e6)


def test_the_measured_gain_meets_the_launches_within_an_interval():
    steps = [step(10, 1, (0.1, 0.05, 0.15)), step(30, 1, (0.5, 0.45, 0.55)), step(90, 1, (0.9, 0.85, 0.95))]
    found = measured_crossover(steps, 0.3)
    assert found.value == Crossover(Side.AMONG, pytest.approx(20e6))  # half of the way
    assert found.low == Crossover(Side.AMONG, pytest.approx(17.5e6))  # (0.3 - 0.15) of 0.4
    assert found.high == Crossover(Side.AMONG, pytest.approx(22.5e6))  # (0.3 - 0.05) of 0.4
    near = measured_crossover(steps, 0.12)
    assert near.low == Crossover(Side.BELOW, 10e6)
    assert near.high.side is Side.AMONG
    assert measured_crossover(steps, 0.92).high == Crossover(Side.ABOVE, 90e6)


def test_gains_that_dip_meet_for_good():
    steps = [step(10, 1, (0.3, 0.3, 0.3)), step(20, 1, (0.1, 0.1, 0.1)), step(30, 1, (0.5, 0.5, 0.5))]
    assert measured_crossover(steps, 0.2).value == Crossover(Side.AMONG, pytest.approx(22.5e6))


def test_where_nothing_is_saved_they_do_not_meet():
    assert crossover([step(10, 0.0), step(30, 0.5)], 0.2) is None
    assert crossover([step(10, 0.1)], 0.0) is None
    assert measured_crossover([step(10, 0.1)], 0.0) is None


def test_size_by_hand(report):
    small = row(shape=(10, 10), work=Work(10_000_000, 40_000_000, 1))  # 30 MB fewer at 1000 GB/s: 0.03 ms
    large = row(shape=(20, 10), work=Work(20_000_000, 80_000_000, 1))  # 0.06 ms
    report(small, large)
    (found,) = json.loads(run("--json"))["sizes"]
    assert found["launches_saved"] == 4  # at 10 µs: 0.04 ms, a third of the way
    assert [each["bytes_ms"] for each in found["steps"]] == pytest.approx([0.03, 0.06])
    assert [each["wins_by"] for each in found["steps"]] == ["launches", "bytes"]
    assert found["crossover"]["fused_bytes"] == pytest.approx(10e6 + 10e6 / 3)
    assert found["graph_crossover"] == {"side": "below", "fused_bytes": 10e6}
    assert found["steps"][0]["saved_ms"]["value"] == pytest.approx(0.5)
    shown = run()
    assert "bytes win from 13.3 MB; from a graph (1 µs) from below 10.0 MB; by the measured gain" in shown
    assert "by the measured gain from below 10.0 MB [below 10.0 MB, below 10.0 MB]." in shown


def test_where_no_launch_is_saved_bytes_gain_all(report):
    alike = with_kernels(timing(), fused=2, eager=2)
    report(row(shape=(10, 10), timing=alike), row(shape=(20, 10), timing=alike))
    assert "launches saved 0 of 10 µs, 1000 GB/s:\n  no launches are saved: what is gained is gained by bytes." in run()


def test_without_the_devices_figures_there_is_no_size(report):
    report(row(shape=(10, 10)), row(shape=(20, 10)), probe=False)
    assert "Size: no operation was measured at two sizes or more" in run()


def test_depth_has_measured_speedup_and_compiled_registers(report):
    report(
        chain(2, 20),
        chain(8, 40, timing=with_kernels(timing(0.5, 4.0))),
        chain(32, 90, Evidence.COMPILED),
        chain(2, 30, Evidence.COMPILED, target="mi300x"),
        chain(8, 30, Evidence.COMPILED, target="mi300x"),
    )
    h200, mi300x = sorted(json.loads(run("--json"))["chains"], key=lambda each: each["target"])
    assert [each["depth"] for each in h200["steps"]] == [2, 8, 32]
    assert [each["speedup"] and each["speedup"]["value"] for each in h200["steps"]] == [2.0, 8.0, None]
    assert [each["registers_per_thread"] for each in h200["steps"]] == [20, 40, 90]
    assert [each["occupancy_pct"] for each in h200["steps"]] == [80, 60, 10]
    assert h200["missing"] == [32]
    assert mi300x["missing"] == [2, 8, 32]
    shown = run()
    assert "Not measured: chain 1000 float32 w8 at 2, 8, 32 on mi300x." in shown
    assert "-k 'chain'" in shown
    assert "--portkit-target h200,mi300x" in shown


def test_rows_that_are_unrolled_by_nothing_are_no_chain(report):
    report(row(shape=(1024, 10)), row(shape=(2048, 10)))
    assert "Depth: no chain has two depths here." in run()


def test_a_wrong_result_has_no_speedup(report):
    report(chain(2, 20), chain(8, 40, outcome=Outcome(Status.WRONG_RESULT, Stage.VERIFY, "no")))
    (found,) = json.loads(run("--json"))["chains"]
    assert found["steps"][1]["speedup"] is None
    assert found["steps"][1]["why_none"] == "measured, but wrong_result"


def test_an_unknown_kernel_is_told(report):
    report(chain(2, 20), chain(8, 40))
    with pytest.raises(ReportError, match="no row of a kernel 'chian'"):
        run("-k", "chian")


def test_plots_are_written(report, tmp_path):
    pytest.importorskip("vl_convert", reason="needs the extra `report`")
    report(
        chain(2, 20),
        chain(8, 40, timing=with_kernels(timing(0.5, 4.0))),
        row(shape=(10, 10), work=Work(10**7, 4 * 10**7, 1)),
        row(shape=(20, 10), work=Work(2 * 10**7, 8 * 10**7, 1)),
    )
    run("--plots", tmp_path / "plots", "--plot-format", "vega")
    files = {path.name: json.loads(path.read_text()) for path in (tmp_path / "plots").iterdir()}
    depth = files["chain-1000-float32-w8-chains.vl.json"]["datasets"]["steps"]
    assert [(each["depth"], each["value"], each["registers"]) for each in depth] == [(2, 2.0, 20), (8, 8.0, 40)]
    meeting = files["softmax-float32-w8-sizes-h200-4-launches.vl.json"]["datasets"]["crossovers"]
    assert meeting[0]["megabytes"] == pytest.approx(13.333, abs=1e-3)
