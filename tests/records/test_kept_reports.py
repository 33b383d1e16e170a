"""The reports that the repository keeps, and what is quoted from them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from portkit.model import Evidence, Status
from portkit.store.merge import merge

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "reports" / "h200-2026-11-29"


def test_readme_and_comparison_are_what_the_command_makes_of_the_report():
    command = [sys.executable, str(ROOT / "scripts" / "quote_reports.py"), "--check"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout + run.stderr) == (0, "")
    assert "<!-- quote: softmax" in (ROOT / "README.md").read_text()


def test_registers_of_the_loaded_kernel_are_those_of_the_binary_built_for_it():
    records = [row.record for row in merge([KEPT]).rows if row.record.cell.target == "h200"]
    measured = {r.keys.cell_key: r.build for r in records if r.evidence is Evidence.MEASURED}
    compiled = {r.keys.cell_key: r.build for r in records if r.evidence is Evidence.COMPILED}
    assert len(measured) == 4
    assert all(r.outcome.status in (Status.PASSED, Status.BUILT) for r in records)
    for key, build in measured.items():
        assert build.registers_per_thread == compiled[key].registers_per_thread
        assert [x.binary_hash for x in build.launches] == [x.binary_hash for x in compiled[key].launches]
