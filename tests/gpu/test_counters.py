"""Hardware counters of the device here, in runs of the profiler that some cells do not survive."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from portkit.errors import HostError
from portkit.model import CaseSource, Cell, Direction, Evidence, Status
from portkit.run.capture import observe
from portkit.run.counters import Task
from portkit.run.counters.counting import FUNCTIONS, Place, count_tasks
from portkit.run.counters.taking import open_profiler
from portkit.run.evaluate import Runner, evaluate
from portkit.run.host import probe_host
from portkit.run.jobs import Limits
from portkit.run.load import load_case
from portkit.run.loaded import disagreements
from portkit.run.measure import device_failure
from portkit.store.journal import read_report

ROOT = Path(__file__).parents[2]
LARGE, SMALL = (268435456,), (1 << 20,)


def source(name):
    folder = "kernels" if (ROOT / "kernels" / f"{name}.py").is_file() else "tests/gpu/cases"
    return CaseSource(name, path=str(ROOT / folder / (f"{name}.py" if folder == "kernels" else "ends.py")))


def cell_of(name, shape, target, *, dtype="float32", variant="w8", direction=Direction.FORWARD):
    return Cell(name, direction, shape, dtype, variant, target.name)


@pytest.fixture(scope="module")
def found(request):
    """What is known of each task, by its number: one call of the profiler and those that go on after a death."""
    target = request.getfixturevalue("module_target")
    try:
        profiler = open_profiler(target)
    except HostError as error:
        pytest.skip(error.render())
    cells = [
        cell_of("sum_abs", LARGE, target),
        cell_of("sleeps", SMALL, target, variant="default"),
        cell_of("softmax", (1024, 32768), target),
        cell_of("aborts", SMALL, target, variant="default"),
        cell_of("faults", SMALL, target, variant="default"),
        cell_of("grows", SMALL, target, variant="default"),
        cell_of("softmax", (4096, 4096), target, direction=Direction.BACKWARD),
    ]
    tasks = [Task(n, cell, source(cell.case), ("fused", "eager")) for n, cell in enumerate(cells)]
    limits = replace(Limits(1), cell_seconds=10.0)
    known = {task.number: x for task, x in count_tasks(tasks, profiler, Place(target, 0, limits))}
    if "no permission" in known[0].nulls.get(FUNCTIONS, ""):
        pytest.skip(known[0].nulls[FUNCTIONS])
    return known


def dram(counted):
    return counted.dram_read_bytes + counted.dram_write_bytes


def test_fusion_moves_a_third_of_the_bytes_and_no_faster(found):
    """sum_abs: the chain reads, writes and reads again what the fused kernel reads once."""
    fused, eager = found[0].functions["fused"], found[0].functions["eager"]
    assert dram(eager) / dram(fused) == pytest.approx(3, rel=0.03)
    speeds = [dram(each) / each.duration_ms for each in (fused, eager)]
    assert speeds[0] == pytest.approx(speeds[1], rel=0.15)


def test_fused_bytes_are_those_of_the_work_model(found):
    assert dram(found[0].functions["fused"]) == pytest.approx(4 * LARGE[0], rel=0.02)


@pytest.mark.parametrize("number", [0, 2])
def test_occupancy_is_at_most_the_theoretical(found, number):
    for counted in found[number].functions.values():
        assert 0 < counted.occupancy_achieved_elapsed_pct <= counted.occupancy_achieved_pct + 0.5
        assert counted.occupancy_achieved_pct <= counted.occupancy_theoretical_pct + 0.5
        assert counted.local_bytes == 0
        assert counted.waves_per_unit > 0
    assert not found[number].nulls


def test_a_hang_an_abort_and_a_fault_cost_themselves(found):
    assert "more than its limit of 10 s" in found[1].nulls[FUNCTIONS]
    assert found[3].nulls[FUNCTIONS].startswith("the profiled process did not survive the cell: ")
    assert "fused" not in found[4].functions
    assert set(found[2].functions) == {"fused", "eager"}


def test_out_of_memory_costs_the_function_alone(found):
    assert found[5].nulls == {"fused": "out of device memory under the profiler"}
    assert set(found[5].functions) == {"eager"}


def test_kernels_of_a_gradient_are_seen(found):
    """Autograd would launch them from a thread of its own, outside of the range."""
    assert found[6].functions["fused"].kernels == 1
    assert found[6].functions["eager"].kernels > 1


@pytest.mark.parametrize(
    ("name", "shape", "variants"),
    [
        ("sum_abs", (1 << 20,), ("w4", "w8", "w16")),
        ("softmax", (64, 4096), ("w4", "w8", "w16")),
        ("add_rms_norm", (64, 4096), ("w4", "w8", "w16")),
        ("swiglu", (64, 14336), ("w4", "w8")),
    ],
)
def test_driver_says_what_binary_and_rules_say(target, name, shape, variants):
    case = load_case(source(name))
    for variant in (each for each in variants if each in case.variants):
        runner = Runner("cuda", device_failure, lambda: observe(target))
        build = evaluate(case, cell_of(name, shape, target, variant=variant), runner, seed=0).build
        assert build.launches
        assert all(launch.loaded and launch.loaded.blocks_per_unit for launch in build.launches)
        assert disagreements(build, target.architecture) == {}


MATRIX = """
version: 1
kernels:
  sum_abs: {{path: {path}}}
targets: [{target}]
"""


def test_a_run_writes_counters_of_each_measured_cell(target, tmp_path):
    try:
        open_profiler(target)
    except HostError as error:
        pytest.skip(error.render())
    name = probe_host().devices[0].target
    (tmp_path / "matrix.yaml").write_text(MATRIX.format(path=ROOT / "kernels" / "sum_abs.py", target=name))
    command = [sys.executable, "-m", "pytest", "--benchmark", "-p", "no:cacheprovider", "-k", "16777216 and w8"]
    command += ["--portkit-shared-device", "--portkit-probe", "off"]  # the tests' own process has a context
    command += ["--portkit-counters", "require", "--portkit-baselines", "eager"]
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    if done.returncode and "no hardware counters: no permission" in (said := done.stdout + done.stderr):
        pytest.skip(said)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (tmp_path / "reports" / "local").glob("*.jsonl")
    report = read_report(path)
    measured = [each for each in report.records if each.evidence is Evidence.MEASURED]
    assert measured
    assert all(each.outcome.status is Status.PASSED for each in measured)
    assert len(report.counters) == len(measured)
    for counters in report.counters.values():
        assert counters.tool.startswith("ncu ")
        assert set(counters.functions) == {"fused", "eager"}
