"""The page of PTX instructions says what the tables say."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

SCRIPT = Path(__file__).parents[2] / "scripts" / "ptx_instruction_table.py"


def test_the_page_is_of_today():
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, "run python scripts/ptx_instruction_table.py"
