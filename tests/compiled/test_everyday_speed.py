"""How long the everyday commands take, in seconds of a processor: the wall's depend on who else is at work."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from portkit.plan.check import TARGETS

CORES = 2
"""That the limits are stated for."""

KERNEL = """
import torch, triton
import triton.language as tl

@triton.jit
def doubled(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

def double(x):
    y = torch.empty_like(x)
    doubled[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y
"""


def processor_seconds(*words, folder):
    """Of a command and all that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {
        "PATH": "/usr/bin:/bin",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "TRITON_CACHE_DIR": str(folder / "t"),
    }
    command = [sys.executable, "-m", "portkit", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow
@pytest.mark.parametrize("command", ["check", "toggle", "savings", "sweep", "init", "schema"])
def test_help_comes_in_a_second(command, tmp_path):
    assert processor_seconds(command, "--help", folder=tmp_path) < 1.0


@pytest.mark.slow
def test_one_kernel_over_fourteen_targets(tmp_path):
    Path(tmp_path / "simple.py").write_text(KERNEL, encoding="utf-8")
    words = ("check", "simple.py:double", "--arg", "x=bf16[65536]", "--findings", "0")
    assert len(TARGETS) == 14
    assert processor_seconds(*words, folder=tmp_path) < 15 * CORES
    assert processor_seconds(*words, folder=tmp_path) < 3
