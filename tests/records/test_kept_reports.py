"""The reports that the repository keeps, and what is quoted from them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from kept_report import KEPT_REPORT

from portkit.model import Status
from portkit.store.journal import read_report

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "reports"


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
