"""The script that holds flushes against hardware counters; its figures need a GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from script_modules import script_module

import portkit
from portkit.run.counters import Kernel, Table
from portkit.run.counters.ncu import NO_PERMISSION
from portkit.run.counters.ncu_metrics import Metrics

SCRIPT = Path(portkit.__file__).parent.parent / "scripts" / "flush_bytes.py"


@pytest.fixture
def script(monkeypatch):
    module = script_module("flush_bytes")
    monkeypatch.setattr(module, "_architecture", lambda: "sm_90")
    return module


class Profiler:
    """Stands for ncu: the kernels of each case, the one outside of any range first."""

    log = "output"

    def __init__(self, kernels, trouble=None):
        self._kernels, self._trouble = kernels, trouble

    def command(self, program, folder):
        return [sys.executable, "-c", ""]

    def trouble(self, output):
        return self._trouble

    def read(self, folder):
        return Table(self._kernels, whole=True)

    def count(self, kernels):
        return Metrics.of("sm_90").count(kernels)


def kernel(where, mib, us):
    return Kernel(where, "k", {"dram__bytes_read.sum": mib * 2.0**20, "gpu__time_duration.sum": us * 1e3}, {})


def test_medians_of_each_case(script, monkeypatch, capsys):
    of_cases = [
        kernel(f"0.{number}.{call}", number + off, 100.0 + off)
        for number in range(len(script.CASES))
        for call, off in enumerate((0.0, 40.0, 2.0))
    ]
    monkeypatch.setattr(script, "open_ncu", lambda architecture: Profiler((kernel("", 9e9, 9e9), *of_cases)))
    assert script.main() == 0
    rows = [line.split("  ") for line in capsys.readouterr().out.splitlines()[2:]]
    found = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert len(found) == len(script.CASES) == 18
    assert found[0] == ["read of 8 MiB", "nothing", "reads", "2.0", "102.0"]
    assert found[-1] == ["torch.softmax", "128 MiB of another", "the timing's", "19.0", "102.0"]


def test_without_permission_it_says_what_helps(script, monkeypatch, capsys):
    monkeypatch.setattr(script, "open_ncu", lambda architecture: Profiler((), NO_PERMISSION))
    assert script.main() == 2
    assert "ERR_NVGPUCTRPERM" in capsys.readouterr().err


def test_without_a_gpu_it_says_so():
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("no NVIDIA GPU is here")
