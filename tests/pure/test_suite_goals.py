"""The script that holds the suite beside its goals."""

import dataclasses
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import factories
import pytest
from script_modules import script_module

import portkit
from portkit.model import Clock, DeviceProbe, Direction, Evidence, Ratio, Timed, Work
from portkit.plan.matrix import read_matrix
from portkit.store.journal import Journal, read_report

ROOT = Path(portkit.__file__).parent.parent
SCRIPT = ROOT / "scripts" / "suite_goals.py"
COPY_GBS = 4000.0
SWIGLU = ("swiglu", Direction.FORWARD)


@pytest.fixture(scope="module")
def goals():
    return script_module("suite_goals")


def timed(ms):
    return Timed(Clock(ms, ms, ms, 100))


def row(case, shape, *, fused, gigabytes=4.0, direction=Direction.FORWARD, variant="w8", dtype="bfloat16", **baselines):
    """A cell that was measured; times in ms, so that 4 GB take 1 ms at the copy bandwidth."""
    timing = dataclasses.replace(
        factories.timing(), fused=timed(fused), baselines={n: timed(ms) for n, ms in baselines.items()}, speedup={}
    )
    work = Work(fused_bytes=int(gigabytes * 1e9), unfused_bytes=int(9e9), flops=10**12)
    axes = {"case": case, "shape": shape, "dtype": dtype, "variant": variant, "target": "h200", "direction": direction}
    return {**axes, "timing": timing, "work": work, "device": "d" * 16}


def report(folder, *rows, copy_gbs=COPY_GBS, added_us=None, **changes):
    header = factories.header(**changes)
    journal = Journal.create(folder, header)
    nulls = {} if copy_gbs else {"copy_gbs": "the device is busy"}
    journal.add(
        DeviceProbe(
            header.run_id, "d" * 16, "h200", header.started, copy_gbs=copy_gbs, event_overhead_us=added_us, nulls=nulls
        )
    )
    for each in rows:
        journal.append(factories.record(Evidence.MEASURED, run=header, **each))
    journal.finish("complete")
    return journal.path


def verdicts(goals, *paths):
    """Title of each line that was measured → what became of its goal."""
    suite = goals.measured([read_report(path) for path in paths])
    return {line.cells[0]: line.cells[-1] for line in goals.lines(suite) if line.cells[-1] != "not measured"}


def test_a_share_of_the_copy_bandwidth_is_met_or_missed(goals, tmp_path):
    path = report(
        tmp_path,
        row("rms_norm", (16384, 4096), fused=1.0, compile=1.1, liger=1.05),
        row("softmax", (8192, 32768), fused=1.25, compile=2.0),
        row("swiglu", (8192, 14336), fused=1.0, compile=0.9),
    )
    found = verdicts(goals, path)
    assert found["rms_norm, 16384×4096"] == "met"
    assert found["softmax, 8192×32768"] == "missed: ≥ 92% of copy (80.0%)"
    assert found["swiglu, 8192×14336"] == "missed: ≥ 1.00× compile or liger (0.900)"


def test_the_fastest_variant_counts(goals, tmp_path):
    slow = row("rms_norm", (16384, 4096), fused=2.0, compile=1.5, variant="w4")
    fast = row("rms_norm", (16384, 4096), fused=1.0, compile=1.5, variant="w8")
    suite = goals.measured([read_report(report(tmp_path, slow, fast))])
    line = next(line for line in goals.lines(suite) if line.cells[0] == "rms_norm, 16384×4096")
    assert line.cells[5] == "1, 100.0% (w8)"
    assert line.verdict is goals.Verdict.MET


def test_the_last_source_counts_by_the_copy_bandwidth_of_its_run(goals, tmp_path):
    case = ("rms_norm", (16384, 4096))
    later = {"run_id": "20260103T000000Z-00000001", "started": "2026-01-03T00:00:00+00:00"}
    new = report(tmp_path, row(*case, fused=1.25, compile=2.0), copy_gbs=3200.0, **later)
    old = report(tmp_path, row(*case, fused=1.0, compile=2.0) | {"source_hash": "0" * 16})
    suite = goals.measured([read_report(path) for path in (new, old)])
    line = next(line for line in goals.lines(suite) if line.verdict is not goals.Verdict.UNKNOWN)
    assert line.cells[5] == "1.25, 100.0% (w8)"


def test_other_dtypes_and_directions_stay_apart(goals, tmp_path):
    path = report(
        tmp_path,
        row("rms_norm", (16384, 4096), fused=0.1, compile=1.0, dtype="float32"),
        row("rms_norm", (16384, 4096), fused=1.0, compile=0.5, direction=Direction.BACKWARD),
        row("sum_abs", (268435456,), fused=1.0, dtype="float32"),
    )
    found = verdicts(goals, path)
    assert set(found) == {"rms_norm backward, 16384×4096", "sum_abs, 268435456"}


def test_what_is_not_known_is_no_verdict(goals, tmp_path):
    path = report(tmp_path, row("rms_norm", (16384, 4096), fused=1.0), copy_gbs=None)
    assert verdicts(goals, path) == {"rms_norm, 16384×4096": "unknown: ≥ 93% of copy, ≥ 1.00× compile or liger"}


def test_products_are_held_against_those_of_the_library(goals, tmp_path):
    shape = (8192, 14336, 4096)
    path = report(
        tmp_path,
        row("gemm", shape, fused=1.3, eager=1.2),
        row("gemm_epilogue", shape, fused=1.3, eager=2.0, compile=1.5),
        row("flash_attention", (4, 32, 32, 4096, 128), fused=1.4, cudnn=1.0, flash=1.6),
    )
    found = verdicts(goals, path)
    assert found["gemm, 8192×14336×4096"] == "met"
    assert found["gemm_epilogue, 8192×14336×4096"] == "met"  # 1.3 / 1.2 = 1.083
    assert found["flash_attention, 4×32×32×4096×128"] == "missed: ≥ 0.75× cudnn (0.714)"


@pytest.mark.parametrize(
    ("high", "exit_code", "verdict"),
    [
        (1.004, 0, "within the interval: ≥ 1.00× compile or liger (0.999, 0.994 to 1.004)"),
        (0.9994, 1, "missed: ≥ 1.00× compile or liger (0.999, 0.994 to 0.999)"),
    ],
)
def test_a_ratio_whose_interval_holds_the_goal_is_not_missed(goals, tmp_path, monkeypatch, high, exit_code, verdict):
    swiglu = row("swiglu", (8192, 14336), fused=1.0, compile=0.999)
    swiglu["timing"] = dataclasses.replace(swiglu["timing"], speedup={"compile": Ratio(0.999, 0.994, high)})
    path = report(tmp_path, swiglu)
    assert verdicts(goals, path) == {"swiglu, 8192×14336": verdict}
    monkeypatch.setattr(goals, "GOALS", [goal for goal in goals.GOALS if (goal.case, goal.direction) == SWIGLU])
    assert goals.main([str(path), "--check"]) == exit_code


@pytest.mark.parametrize(("fused", "verdict"), [(1.3, "met"), (0.5, "missed: control: ≤ 1.00× eager (2.000)")])
def test_a_control_that_gains_is_told(goals, tmp_path, fused, verdict):
    spread, one = (16384, 2048, 4096, 2048), (16384, 2048, 4096, 1)
    path = report(
        tmp_path, row("scatter_add", spread, fused=1.0, eager=2.0), row("scatter_add", one, fused=fused, eager=1.0)
    )
    found = verdicts(goals, path)
    assert found[f"scatter_add, {'×'.join(map(str, one))}"] == verdict


def test_every_goal_is_among_the_cells_that_are_run(goals):
    kernels = {kernel.source.name: kernel.axes for kernel in read_matrix(ROOT / "goals.yaml").kernels}
    for goal in goals.GOALS:
        assert tuple(goal.shape) in {tuple(shape) for shape in kernels[goal.case].shapes}, goal


def test_the_table_goes_to_a_file_and_the_exit_code_tells(tmp_path):
    path = report(tmp_path, row("rms_norm", (16384, 4096), fused=1.0, compile=1.1))
    output = tmp_path / "goals.md"
    command = [sys.executable, str(SCRIPT), str(path), "--check", "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert output.read_text(encoding="utf-8") == done.stdout
    assert "copy bandwidth 4000 GB/s" in done.stdout
    assert "1 of" in done.stdout.splitlines()[-1]


def test_those_beside_which_most_modes_of_the_compiler_were_timed_count(goals, tmp_path):
    quick = report(tmp_path / "quick", row("rms_norm", (16384, 4096), fused=1.0, compile=1.2))
    full = report(tmp_path / "full", row("rms_norm", (16384, 4096), fused=1.02, compile=1.2, compile_max_autotune=1.01))
    assert verdicts(goals, quick)["rms_norm, 16384×4096"] == "met"
    assert verdicts(goals, quick, full)["rms_norm, 16384×4096"] == "missed: ≥ 1.00× compile or liger (0.990)"


def test_what_events_add_is_told_where_it_takes_most_of_the_time(goals, tmp_path):
    small = row("fused_moe_gate", (16384, 128, 8), fused=0.008, gigabytes=0.004, compile=0.05)  # 1 µs of copying
    large = row("softmax", (8192, 32768), fused=1.25, compile=2.0)
    found = verdicts(goals, report(tmp_path, small, large, added_us=4.0))
    told = "missed: ≥ 92% of copy (12.5%); the 4.0 µs of events leave 20%"
    assert found["fused_moe_gate, 16384×128×8"] == told
    assert found["softmax, 8192×32768"] == "missed: ≥ 92% of copy (80.0%)"


def tiers_of(commands):
    return [command[command.index("--portkit-tier") + 1] for command in commands]


def test_a_run_that_is_not_whole_goes_on(goals, tmp_path, monkeypatch):
    commands = []
    monkeypatch.setattr(goals, "until", lambda command: commands.append(command) or True)
    begun = Journal.create(tmp_path / "quick", dataclasses.replace(factories.header(), cells=0))
    assert goals.run(tmp_path, True, "", ["-x"]) == [begun.path]
    assert commands[0][commands[0].index("--portkit-resume") + 1] == str(begun.path)
    assert commands[0][-1] == "-x"
    begun.finish("complete")
    assert goals.run(tmp_path, False, "rope", []) == [begun.path]
    assert tiers_of(commands[1:]) == ["full", "quick", "full"]
    assert all("--portkit-resume" not in command for command in commands[1:])


def test_each_line_has_a_run_and_backward_two(goals):
    (first, second, third) = [cells[1] for _, _, cells in goals._runs(False, "rope")]
    later = f"({' or '.join(goals.LATER)})"
    assert first == f"(not backward and not {later}) and (rope)"
    assert second == f"(backward or {later}) and (rope)"
    assert third == f"(backward and not {later}) and (rope)"
    assert list(goals._runs(True, "")) == [("quick", "quick", ())]


def test_a_run_that_wrote_no_report_says_so(goals, tmp_path, monkeypatch):
    monkeypatch.setattr(goals, "until", lambda command: False)
    with pytest.raises(SystemExit, match="wrote no report"):
        goals.run(tmp_path, False, "rope", [])


def test_a_signal_ends_the_run_and_not_the_table(goals, tmp_path):
    told = tmp_path / "told"
    child = f"""
import pathlib, time
try:
    time.sleep(20)
except KeyboardInterrupt:
    pathlib.Path({str(told)!r}).write_text("interrupted")
"""
    timer = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    assert goals.until([sys.executable, "-c", child]) is False
    assert told.read_text() == "interrupted"


def test_of_runs_of_one_source_the_last_counts_and_not_the_fastest(goals, tmp_path):
    later = {"run_id": "20260103T000000Z-00000001", "started": "2026-01-03T00:00:00+00:00"}
    lucky = report(tmp_path / "lucky", row("rms_norm", (16384, 4096), fused=1.0, compile=1.2))
    slower = row("rms_norm", (16384, 4096), fused=1.07, compile=1.2, variant="w4")
    last = report(tmp_path / "last", slower, row("rms_norm", (16384, 4096), fused=1.05, compile=1.2), **later)
    suite = goals.measured([read_report(path) for path in (last, lucky)])
    line = next(line for line in goals.lines(suite) if line.verdict is not goals.Verdict.UNKNOWN)
    assert line.cells[5] == "1.05, 95.2% (w8)"
