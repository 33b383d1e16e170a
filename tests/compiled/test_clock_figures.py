"""The script that tells what clocks and flush show; its figures need a GPU, which tests/gpu has."""

import os
import subprocess
import sys
from pathlib import Path

import portkit

SCRIPT = Path(portkit.__file__).parent.parent / "scripts" / "clock_figures.py"
PLAYED = """
import json, runpy, sys
from unittest import mock
found = iter([(7.0, 330.0), (9.0, 331.0), (8.0, 340.0)])
def run(command, **_):
    return mock.Mock(returncode=0, stdout="a warning\\n" + json.dumps(dict(zip(("copy", "walk"), next(found)))))
sys.argv = ["clock_figures.py", "--processes", "3"]
with mock.patch("subprocess.run", run):
    runpy.run_path(%r, run_name="__main__")
"""


def test_median_least_and_most_over_processes():
    done = subprocess.run([sys.executable, "-c", PLAYED % str(SCRIPT)], capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()[2:]]
    assert rows == [["copy", "8.00", "7.00", "9.00"], ["walk", "331.00", "330.00", "340.00"]]


def test_without_a_gpu_it_says_so():
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("no figures: ")
    assert "CUDA" in done.stderr or "HIP" in done.stderr
