"""``scripts/builds_table.py``: what builds of AMD's architectures need, from a report."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from kept_report import KEPT_REPORT

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The script's rows and summary of the report that the repository keeps."""
    output = tmp_path_factory.mktemp("builds") / "builds.csv"
    command = [sys.executable, ROOT / "scripts" / "builds_table.py", KEPT_REPORT, "-o", output]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(csv.DictReader(output.read_text().splitlines())), done.stdout


def test_each_launch_on_an_amd_target_has_a_row(told):
    rows, _ = told
    assert {row["architecture"] for row in rows} >= {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201"}
    assert not [row for row in rows if row["target"] in ("h200", "a100")]
    of_sum = [row for row in rows if (row["kernel_case"], row["target"]) == ("sum_abs", "mi300x")]
    assert [row["kernel"] for row in of_sum] == ["_partial_sums", "_total"]
    assert all(row["vgpr"] and row["sgpr"] and row["status"] == "built" for row in of_sum)


def test_of_a_cell_in_several_reports_the_last_counts(told):
    _, summary = told
    twice = subprocess.run(
        [sys.executable, ROOT / "scripts" / "builds_table.py", KEPT_REPORT, KEPT_REPORT],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert twice == summary


def test_waves_by_the_rules_are_llvm_s(told):
    rows, _ = told
    assert rows
    assert all(row["waves"] == row["waves_rules"] for row in rows)


def test_accumulation_registers_are_cdna_s(told):
    rows, _ = told
    assert {row["architecture"] for row in rows if row["agpr"]} == {"gfx90a", "gfx942", "gfx950"}


def test_the_summary_has_a_row_an_architecture(told):
    rows, summary = told
    names = {row["architecture"] for row in rows}
    assert {line.split("|")[1].strip() for line in summary.splitlines()[2:]} == names
