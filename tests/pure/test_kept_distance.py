"""The suite's quick tier on an H200 beside its emulation, as the repository keeps both."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
REPORTS = sorted((ROOT / "reports" / "distance-h200-2026-11-30").glob("*.jsonl"))


def test_emulated_outputs_lie_within_the_limits_of_measured_ones():
    command = [sys.executable, str(ROOT / "scripts" / "emulated_distance.py"), *map(str, REPORTS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n76 cells\n" in done.stdout
    outputs, equal = map(int, re.findall(r"\| all +\| (\d+) +\| (\d+) ", done.stdout)[0])
    assert (outputs, equal) == (96, 96)
