"""Baselines on the device here, and device times in pytest-benchmark."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from portkit.model import CaseSource, Cell, Direction, Evidence, PlannedCell, Stage, Status
from portkit.plan.baselines import COMPILE, EAGER, MAX_AUTOTUNE, baselines_of
from portkit.plan.cases import introspect
from portkit.run.baselines import Wanted
from portkit.run.jobs import Limits
from portkit.run.limits import STAGE_SECONDS
from portkit.run.load import load_case
from portkit.run.measure import IDLE, measure_cell
from portkit.run.session import Session, chains_for
from portkit.run.timing.samples import Samples
from portkit.targets.catalog import load_catalog

ROOT = Path(__file__).parents[2]
RIVALS = ROOT / "tests/gpu/cases/rivals.py"
SHAPES = {"sum_abs": (1000003,), "add_rms_norm": (64, 2880), "swiglu": (64, 11008), "softmax": (64, 50257)}


def measure(name, target, *, shape, names, direction=Direction.FORWARD, path=None, variant="w8", dtype="float32"):
    case = load_case(CaseSource(name, path=str(path or ROOT / f"kernels/{name}.py")))
    return measure_cell(
        case, Cell(name, direction, shape, dtype, variant, target.name), target, baselines=Wanted(names)
    )


@pytest.mark.parametrize("name", SHAPES)
def test_baselines_of_the_cases_are_right_or_missing(target, name):
    case = load_case(CaseSource(name, path=str(ROOT / f"kernels/{name}.py")))
    names = baselines_of(tuple(case.baselines), "quick")
    result = measure(name, target, shape=SHAPES[name], names=names)
    assert result.outcome.status is Status.PASSED, result.outcome
    assert tuple(result.baselines) == names
    for each, found in result.baselines.items():
        library = getattr(case.baselines.get(each), "library", None)
        there = library is None or library.installed
        assert found.status is (Status.PASSED if there else Status.BACKEND_MISSING), (each, found)
        assert (each in result.timing.speedup) is there
        assert (f"speedup.{each}" in result.nulls) is not there
        if there:
            assert 0 <= found.error <= found.limit
    kept = Samples.from_json(result.blobs["samples"]).milliseconds["events"]
    assert len({len(times) for times in kept.values()}) == 1  # interleaved: a sample of each a round


def test_max_autotune(target):
    result = measure("softmax", target, shape=(256, 4096), names=(EAGER, COMPILE, MAX_AUTOTUNE))
    assert [found.status for found in result.baselines.values()] == [Status.PASSED] * 3, result.baselines
    assert set(result.timing.baselines) == {EAGER, COMPILE, MAX_AUTOTUNE}


def test_gradients_of_compile(target):
    names = (EAGER, "right", "without_gradient", COMPILE)
    result = measure(
        "rivals", target, shape=(1 << 20,), names=names, direction=Direction.BACKWARD, path=RIVALS, variant="default"
    )
    assert result.outcome.status is Status.PASSED, result.outcome
    assert set(result.timing.baselines) == {EAGER, "right", COMPILE}, result.baselines
    assert result.baselines["without_gradient"].status is Status.BASELINE_FAILED
    assert "without torch.autograd" in result.baselines["without_gradient"].message


def test_none_of_them_costs_the_cell_its_time():
    devices = introspect([], []).host.devices
    target = load_catalog().get(devices[0].target)
    cell = Cell("rivals", Direction.FORWARD, (1 << 20,), "float32", "default", target.name)
    names = (EAGER, "wrong", "broken", "absent", "faults", "hangs", "remembers", "resizes", "in_place", "right")
    session = Session(Limits(workers=1, stage_seconds={**STAGE_SECONDS, Stage.BASELINE: 3.0}))
    sources = {"rivals": CaseSource("rivals", path=str(RIVALS))}
    planned = [PlannedCell(cell, Evidence.MEASURED)]
    chains = chains_for(planned, sources, {target.name: target}, devices, baselines={"rivals": names})
    (result,) = session.results(chains)
    session.close()
    assert result.outcome.status is Status.PASSED, result.outcome
    failed, passed = Status.BASELINE_FAILED, Status.PASSED
    assert {name: found.status for name, found in result.baselines.items()} == {
        "eager": passed,
        "wrong": Status.WRONG_RESULT,
        "broken": failed,
        "absent": Status.BACKEND_MISSING,
        "faults": failed,
        "hangs": failed,
        "in_place": passed,
        "right": passed,
        "remembers": failed,
        "resizes": failed,
    }
    assert set(result.timing.speedup) == {"eager", "in_place", "right"}
    messages = {name: found.message for name, found in result.baselines.items()}
    assert "illegal memory access" in messages["faults"]
    assert "stage baseline took more than its limit of 3 s" in messages["hangs"]
    assert messages["remembers"] == IDLE
    assert messages["resizes"] == "ValueError: resizes its input x: (1048576,) → (0,)"
    assert messages["absent"] == "no-such-library is not installed"


MATRIX = f"""
version: 1
kernels:
  softmax: {{path: {ROOT}/kernels/softmax.py, shapes: [256x4096], dtypes: [float32], variants: [w4, w8],
    directions: [forward]}}
targets: [h200]
"""


@pytest.mark.skipif(importlib.util.find_spec("pytest_benchmark") is None, reason="pytest-benchmark is not installed")
def test_device_times_in_pytest_benchmark(tmp_path):
    (tmp_path / "matrix.yaml").write_text(MATRIX)
    command = [sys.executable, "-m", "pytest", "--benchmark", "-p", "no:cacheprovider", "--benchmark-json", "out.json"]
    command += ["--portkit-baselines", "eager,torch", "--portkit-shared-device", "--portkit-probe", "off"]
    command += ["--portkit-counters", "off"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    entries = json.loads((tmp_path / "out.json").read_text())["benchmarks"]
    assert len(entries) == 2, done.stdout
    for entry in entries:
        assert entry["name"].endswith("-measured]")
        told = entry["extra_info"]
        assert set(told["fused"]) == {"events", "trace"}
        assert set(told["speedup"]) == {"eager", "torch"}
        assert entry["stats"]["median"] * 1e3 == pytest.approx(told["fused"]["events"]["median"], rel=1e-6)
        assert 1e-6 < entry["stats"]["min"] <= entry["stats"]["median"] < 1e-2
