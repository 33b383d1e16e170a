"""The reports that the repository keeps, and what is quoted from them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from kept_report import KEPT, KEPT_REPORT

from portkit.model import Status
from portkit.store.journal import read_report

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "reports"
AGAIN = KEPT.with_name(f"{KEPT.name}-again")


def test_readme_and_comparison_are_what_the_command_makes_of_the_report():
    command = [sys.executable, str(ROOT / "scripts" / "quote_reports.py"), "--check"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout + run.stderr) == (0, "")
    assert "<!-- quote: softmax" in (ROOT / "README.md").read_text()


def test_registers_of_each_loaded_kernel_are_those_of_the_binary_built_for_it_without_a_gpu():
    command = [sys.executable, str(ROOT / "scripts" / "compare_registers.py"), *sorted(REPORTS.glob("h200-*/*.jsonl"))]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    launches, cells = re.findall(r"(\d+) of \1 launches of (\d+) cells agree, \1 bit by bit", run.stdout)[0]
    assert (run.returncode, int(launches) >= 5, int(cells) >= 4) == (0, True, True)
    assert {each.outcome.status for each in read_report(KEPT_REPORT).records} <= {
        Status.PASSED,
        Status.BUILT,
    }


@pytest.mark.parametrize(("script", "folders"), [("compare_runs", (KEPT, AGAIN)), ("compare_clocks", (KEPT, AGAIN))])
def test_what_two_runs_and_two_clocks_say_is_kept_beside_them_and_quoted(script, folders):
    command = [sys.executable, str(ROOT / "scripts" / f"{script}.py"), *folders]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.stdout == (KEPT / f"{script}.txt").read_text(encoding="utf-8")
    first = next(each for each in re.findall(r"^(\d+ of \d+) .*within", run.stdout, re.MULTILINE))
    assert first in (ROOT / "README.md").read_text(encoding="utf-8")


FULL = REPORTS / "full-h200-2026-11-30"
CLOCKS = REPORTS / "clocks-h200-2026-11-30"


def test_the_full_tier_is_made_in_pieces_on_several_devices():
    (report,) = map(read_report, FULL.glob("*.jsonl"))
    measured = {each.cell for each in report.records}
    assert (report.header.tier, report.header.cells, len(report.records), len(measured)) == ("full", 480, 480, 480)
    assert report.partial is None
    assert {each.outcome.status for each in report.records} == {Status.PASSED}
    assert len(report.resumes) >= 1
    assert len({each.device_id for each in report.records}) >= 2
    assert all("compile_max_autotune" in each.timing.baselines for each in report.records)


def test_builds_of_the_full_tier_have_the_registers_of_what_was_loaded():
    command = [sys.executable, str(ROOT / "scripts" / "compare_registers.py"), str(FULL), f"{FULL}-compiled.tar.xz"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    launches, cells = re.findall(r"(\d+) of \1 launches of (\d+) cells agree", run.stdout)[0]
    assert (run.returncode, int(launches) >= 571, int(cells) >= 463) == (0, True, True)


def test_trace_and_profiler_agree_on_every_fused_function_of_the_suite():
    (path,) = CLOCKS.glob("20261130T123314Z-*.jsonl")
    command = [sys.executable, str(ROOT / "scripts" / "compare_clocks.py"), str(path)]
    fused = subprocess.run([*command, "--function", "fused"], capture_output=True, text=True, check=False)
    assert "17 of 17 within 2% or 1.5 µs a kernel" in fused.stdout
    assert "38 of 40 within" in subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_a_cell_of_the_suite_with_counters_takes_three_seconds():
    (path,) = CLOCKS.glob("20261130T160316Z-*.jsonl")
    command = [sys.executable, str(ROOT / "scripts" / "cell_seconds.py"), str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, "26 cells, 3.00 s a cell" in run.stdout) == (0, True)
    whole = subprocess.run([*command, "--wall", "93.98"], capture_output=True, text=True, check=False)
    assert (whole.returncode, "26 cells, 3.23 s a cell" in whole.stdout) == (1, True)


def test_the_two_clocks_part_where_the_card_throttles():
    (path,) = CLOCKS.glob("20261130T160316Z-*.jsonl")
    throttled = {each.cell.case for each in read_report(path).records if each.timing.throttled}
    command = [sys.executable, str(ROOT / "scripts" / "compare_clocks.py"), str(path)]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    apart = [line.partition("[")[0] in throttled for line in lines if line.endswith(" no")]
    assert (len(throttled), apart.count(True), apart.count(False)) == (8, 12, 4)
