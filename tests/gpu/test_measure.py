"""Measured cells on the device here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from portkit.model import FAMILIES, CaseSource, Cell, Direction, Outcome, Stage, Status
from portkit.run.inputs import InputMaker, hash_tensors
from portkit.run.load import load_case
from portkit.run.measure import measure_cell
from portkit.run.sanitize import Sanitized, sanitize_cell
from portkit.run.timing import engine
from portkit.run.timing.samples import Samples

ROOT = Path(__file__).parents[2]
SHAPES = {"sum_abs": (1000003,), "add_rms_norm": (64, 2880), "swiglu": (64, 11008), "softmax": (64, 50257)}
DTYPES = ("float32", "float16", "bfloat16")


def measure(name, target, *, shape=None, dtype="float32", variant="w8", folder="kernels", **given):
    file = "faulty" if folder != "kernels" else name
    case = load_case(CaseSource(name, path=str(ROOT / folder / f"{file}.py")))
    return measure_cell(case, Cell(name, Direction.FORWARD, shape, dtype, variant, target.name), target, **given)


@pytest.fixture(autouse=True)
def short_budget(monkeypatch):
    for clock in ("EVENT_SECONDS", "TRACE_SECONDS", "MODE_SECONDS"):
        monkeypatch.setattr(engine, clock, 0.05)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SHAPES)
def test_case_is_right_and_timed(target, name, dtype):
    result = measure(name, target, shape=SHAPES[name], dtype=dtype)
    assert result.outcome.status is Status.PASSED, result.outcome
    fused, eager = result.timing.fused, result.timing.baselines["eager"]
    assert 0 < fused.trace.median_ms < fused.events.median_ms < 100
    assert 0 < fused.events.low_ms <= fused.events.median_ms <= fused.events.high_ms < 100
    ratio = eager.events.median_ms / fused.events.median_ms
    assert result.timing.speedup["eager"].value == pytest.approx(ratio, rel=1e-3)
    assert fused.kernels <= eager.kernels
    samples = Samples.from_json(result.blobs["samples"])
    assert (samples.places, samples.results) == (8, 12)
    kept = samples.milliseconds
    assert len(kept["events"]["fused"]) == len(kept["events"]["eager"]) == fused.events.samples >= 10
    assert len(kept["trace"]["fused"]) == fused.trace.samples >= 10


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


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("one_past_the_end", Status.OUT_OF_BOUNDS, "output 0: written after its end, from byte 16000 of 16000"),
        ("one_before_the_start", Status.OUT_OF_BOUNDS, "output 0: written before its start, from byte -4"),
        ("one_past_its_input", Status.OUT_OF_BOUNDS, "x: written after its end"),
        ("half_written", Status.WRONG_RESULT, "2000 of 4000 elements were never written"),
        ("unsteady", Status.NONDETERMINISTIC, "3 runs on the same inputs gave different bits"),
        ("codes", Status.PASSED, ""),
        ("codes_off", Status.WRONG_RESULT, "of a tie, within it off by 1 at most), first at"),
        ("in_place", Status.PASSED, ""),
    ],
)
def test_every_verdict_of_the_interpreter_holds_here(target, name, status, words):
    result = measure(name, target, shape=(4, 1000), variant="default", folder="tests/interpreted/cases")
    assert result.outcome.status is status, result.outcome
    assert words in result.outcome.message


@pytest.mark.parametrize(("name", "status"), [("squares", "passed"), ("squares_wrong_gradient", "wrong_result")])
def test_gradients_are_judged_and_timed(target, name, status):
    case = load_case(CaseSource(name, path=str(ROOT / "tests/interpreted/cases/faulty.py")))
    cell = Cell(name, Direction.BACKWARD, (4, 1000), "float32", "default", target.name)
    result = measure_cell(case, cell, target)
    assert result.outcome.status == status, result.outcome
    assert [output.name for output in result.verdict.outputs] == ["grad x", "grad weight"]
    assert (result.timing is not None) == (status == "passed")


def test_families_ran_on_the_small_shape_of_that_row_length(target):
    verdict = measure("softmax", target, shape=(64, 32768)).verdict
    assert verdict.families_shape == (2, 32768)
    assert set(verdict.families) == set(FAMILIES)
    assert all(line.status is Status.PASSED for line in verdict.families.values())
    assert verdict.repeatable is True


@pytest.mark.skipif(shutil.which("compute-sanitizer") is None, reason="compute-sanitizer is not installed")
@pytest.mark.parametrize(
    ("file", "name", "shape", "dtype", "status"),
    [
        ("tests/interpreted/cases/faulty.py", "one_past_the_end", (4, 1000), "float32", Status.OUT_OF_BOUNDS),
        ("tests/gpu/cases/racy.py", "racy", (256,), "int32", Status.DATA_RACE),
        ("kernels/softmax.py", "softmax", (4, 4096), "float32", Status.PASSED),
    ],
)
def test_compute_sanitizer_finds_what_is_there(target, file, name, shape, dtype, status):
    variant = "w8" if name == "softmax" else "default"
    cell = Cell(name, Direction.FORWARD, shape, dtype, variant, target.name)
    found = sanitize_cell(
        CaseSource(name, path=str(ROOT / file)), cell, shape=shape, environment={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert found.why_not is None
    assert found.outcome.status is status, found
    if status is not Status.PASSED:
        assert f"{Path(file).name}:" in found.text, found.text


def test_a_finding_of_the_sanitizer_ends_the_cell(target):
    case = load_case(CaseSource("softmax", path=str(ROOT / "kernels/softmax.py")))
    race = Sanitized(Outcome(Status.DATA_RACE, Stage.VERIFY, "a race"), "data_race: a race")
    cell = Cell("softmax", Direction.FORWARD, (8, 4096), "float32", "w8", target.name)
    result = measure_cell(case, cell, target, sanitize=lambda cell, shape: race)
    assert (result.outcome.status, result.timing) == (Status.DATA_RACE, None)
    assert result.verdict.sanitizer == "data_race: a race"


def test_out_of_device_memory_is_said(target):
    total = torch.cuda.get_device_properties(0).total_memory
    result = measure("sum_abs", target, shape=(total // 4,))
    assert result.outcome.status is Status.LAUNCH_ERROR
    assert result.outcome.message.startswith("out of device memory at")


def test_what_ran_out_of_device_memory_holds_none_of_it(target):
    before = torch.cuda.memory_allocated()
    total = torch.cuda.get_device_properties(0).total_memory
    measure("sum_abs", target, shape=(total // 10,))  # inputs fit, the float64 reference does not
    assert torch.cuda.memory_allocated() == before
    assert measure("sum_abs", target, shape=(1000003,)).outcome.status is Status.PASSED


def test_device_fault_fills_a_result(target):
    file = Path(__file__).parent / "cases" / "wild_store.py"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
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
