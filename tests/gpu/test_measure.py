"""Measured cells on the device here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from portkit.model import CaseSource, Cell, Direction, Status
from portkit.run import timing
from portkit.run.inputs import InputMaker, hash_tensors
from portkit.run.load import load_case
from portkit.run.measure import measure_cell

ROOT = Path(__file__).parents[2]
SHAPES = {"sum_abs": (1000003,), "add_rms_norm": (64, 2880), "swiglu": (64, 11008), "softmax": (64, 50257)}
DTYPES = ("float32", "float16", "bfloat16")


def measure(name, target, *, shape=None, dtype="float32", variant="w8", folder="kernels", **given):
    file = "faulty" if folder != "kernels" else name
    case = load_case(CaseSource(name, path=str(ROOT / folder / f"{file}.py")))
    return measure_cell(case, Cell(name, Direction.FORWARD, shape, dtype, variant, target.name), target, **given)


@pytest.fixture(autouse=True)
def short_budget(monkeypatch):
    monkeypatch.setattr(timing, "BUDGET_S", 0.05)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SHAPES)
def test_case_is_right_and_timed(target, name, dtype):
    result = measure(name, target, shape=SHAPES[name], dtype=dtype)
    assert result.outcome.status is Status.PASSED, result.outcome
    fused, eager = result.timing.fused, result.timing.baselines["eager"]
    assert 0 < fused.low_ms <= fused.median_ms <= fused.high_ms < 100
    assert result.timing.speedup["eager"] == eager.median_ms / fused.median_ms
    kept = json.loads(result.blobs["samples"])["samples"]
    assert len(kept["fused"]) == len(kept["eager"]) == fused.samples >= 10


@pytest.mark.parametrize("dtype", [*DTYPES, "float64", "int32", "float8_e4m3fn"])
def test_inputs_and_hash_are_those_of_the_cpu(dtype):
    def make(device):
        maker = InputMaker(5, device)
        whole = maker.integers((3, 12347), dtype, -7, 8)
        return {"i": whole, "u": maker.uniform((12347, 3), "float32" if dtype == "int32" else dtype, low=-0.3)}

    on_cpu, on_device = make("cpu"), make("cuda")
    for name, tensor in on_cpu.items():
        assert torch.equal(tensor.view(torch.uint8), on_device[name].cpu().view(torch.uint8))
    assert hash_tensors(on_cpu) == hash_tensors(on_device)


@pytest.mark.parametrize("name", ["wrong_half", "all_zeros", "missing_mask"])
def test_planted_fault_is_wrong_and_not_timed(target, name):
    result = measure(name, target, shape=(4, 1000), variant="default", folder="tests/interpreted/cases")
    assert result.outcome.status is Status.WRONG_RESULT
    assert result.timing is None
    assert result.nulls["timing"] == "not timed: wrong_result"


def test_out_of_device_memory_is_said(target):
    total = torch.cuda.get_device_properties(0).total_memory
    result = measure("sum_abs", target, shape=(total // 4,))
    assert result.outcome.status is Status.LAUNCH_ERROR
    assert result.outcome.message.startswith("out of device memory at")


def test_device_fault_fills_a_result(target):
    file = Path(__file__).parent / "cases" / "wild_store.py"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(file), target.name], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.startswith("device_fault run "), done.stdout + done.stderr


def test_more_warps_than_a_block_holds_cost_their_cell_only(target):
    case = load_case(CaseSource("softmax", path=str(ROOT / "kernels/softmax.py")))
    object.__setattr__(case, "variants", {"w64": {"num_warps": 64}})
    result = measure_cell(case, Cell("softmax", Direction.FORWARD, (8, 4096), "float32", "w64", target.name), target)
    assert not result.outcome.status.good
    assert result.timing is None
    assert measure("softmax", target, shape=(8, 4096)).outcome.status is Status.PASSED


def test_repeated_runs_give_the_same_bits(target):
    first, second = (measure("sum_abs", target, shape=(1000003,)).verdict for _ in range(2))
    assert first == second


def test_launches_are_recorded_every_time(target):
    pytest.importorskip("elftools", reason="reading a cubin needs pyelftools")
    from portkit.run.capture import observe

    builds = [measure("softmax", target, shape=(8, 4096), observe=lambda: observe(target)).build for _ in range(2)]
    assert [len(build.launches) for build in builds] == [1, 1]


def test_no_sample_waits_for_the_host(target):
    """A call that takes the host much longer than the device is timed as the device sees it."""
    import time

    x = torch.ones(1024, device="cuda")

    def slow_host():
        time.sleep(0.0005)
        x.add_(1)

    samples = timing.sample({"fused": slow_host}, flush_bytes=timing.flush_size(target), budget_s=0.3)
    assert samples.flush_reads > 1
    assert timing.clock(samples.milliseconds["fused"]).median_ms < 0.25
