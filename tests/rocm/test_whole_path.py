"""From a matrix to a table on a ROCm host whose device, amd-smi and rocprofv3 are stand-ins.

What the stand-ins answer is made up, so no figure of such a report means anything: that the
way is whole, and that the report has the form of one from a GPU, is what is looked at.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from kept_report import KEPT_REPORT
from stand_in_host import ROOT, environment

from portkit.analysis.rows import comparison
from portkit.errors import ReportError
from portkit.model import Evidence, Status
from portkit.render.table import render
from portkit.store.journal import read_blob, read_report
from portkit.store.merge import merge

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a host with a GPU needs no stand-in")

KERNEL = "softmax"
MATRIX = """
version: 1
kernels: {softmax: {shapes: [4x1000], dtypes: [float32], directions: [forward], variants: [w8]}}
targets: [mi300x]
"""


def benchmark(folder, choices=(), **variables):
    without = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    command = [sys.executable, "-m", "pytest", "-q", *without, "--benchmark", *choices]
    env = os.environ | environment(folder) | variables
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The path of one run's report."""
    folder = tmp_path_factory.mktemp("rocm")
    shutil.copytree(ROOT / "kernels", folder / "kernels")
    (folder / "matrix.yaml").write_text(MATRIX)
    choices = (
        "--portkit-target",
        "mi300x,interpreter",
        "--portkit-emulate",
        "off",
        "--portkit-probe",
        "off",
        "--portkit-baselines",
        "eager,torch",
    )
    done = benchmark(folder, choices)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    (path,) = (folder / "reports" / "local").glob("*.jsonl")
    return path


@pytest.fixture(scope="module")
def read(report):
    return read_report(report)


@pytest.fixture(scope="module")
def measured(read):
    (record,) = (each for each in read.records if each.evidence is Evidence.MEASURED)
    return record


def test_the_host_is_one_of_rocm(read):
    host = read.header.host
    (device,) = host.devices
    assert host.toolkit.startswith("HIP ")
    assert (device.target, device.architecture, device.units) == ("mi300x", "gfx942", 304)
    assert (device.features, device.partition) == (("sramecc+", "xnack-"), "SPX/NPS1")


def test_a_device_that_another_computes_on_is_refused(report):
    done = benchmark(report.parents[2], STAND_IN_OTHER="4242")
    assert done.returncode != 0
    assert "GPU 0, AMD Instinct MI300X: 1 other process uses it" in done.stderr


def test_a_kernel_s_machine_code_ran_and_was_judged(measured):
    assert measured.outcome.status is Status.PASSED
    assert measured.verdict.repeatable
    (launch,) = measured.build.launches
    assert launch.resources.warp_size == 64
    assert launch.resources.raw["agpr_count"] == 0


def test_it_was_timed_on_both_clocks_against_its_baselines(measured):
    timing = measured.timing
    assert timing.fused.kernels == 1
    assert timing.fused.trace.median_ms < timing.fused.events.median_ms
    assert set(timing.speedup) == {"eager", "torch"}
    assert timing.flush_bytes == 512 << 20  # twice the Infinity Cache of 256 MiB


def test_the_state_of_the_device_is_known(measured):
    assert measured.timing.states["before"].power_w == 750
    assert measured.timing.throttled == ("PPT",)
    assert not any(name.startswith("timing.states") for name in measured.nulls)


def test_counters_are_the_call_s_own(report, read, measured):
    counters = read.counters[measured.keys.cell_key, measured.evidence]
    assert counters.tool == "rocprofv3 of ROCm 7.0.2"
    fused = counters.functions["fused"]
    assert fused.kernels == 1
    assert fused.occupancy_achieved_elapsed_pct == 62.5
    assert (fused.dram_read_bytes, fused.dram_write_bytes) == (4 << 20, 1 << 20)
    assert fused.registers_per_thread == measured.build.registers_per_thread
    assert fused.shared_bytes_per_block == measured.build.launches[0].resources.shared_bytes_per_block
    rows = json.loads(read_blob(report, counters.blobs["kernels"]))
    assert not [row for row in rows if row["kernel"].startswith("portkit_")]


def test_the_table_has_its_rows(report):
    text = render(comparison(merge([report], stand_ins=True)), "plain")
    assert "mi300x" in text
    assert "an upper bound: FETCH_SIZE counts" in text


def test_no_command_takes_such_a_report(report):
    with pytest.raises(ReportError, match="made on a stand-in of mi300x") as caught:
        merge([report])
    assert str(report) in caught.value.place
    done = subprocess.run(
        [sys.executable, "-m", "portkit", "merge", str(report)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 2
    assert "made on a stand-in of mi300x" in done.stderr


# --------------------------------------------------------------------------
# One schema

NAMED = {"nulls", "blobs", "raw", "options", "constants", "specialization", "baselines", "speedup", "speedup_kernel"}
NAMED |= {"limits", "families", "params", "functions", "samples", "signals", "stage_seconds"}
"""Maps whose keys are names of something, and no fields."""

AT_THEIR_DEFAULT = ("blocks_per_unit", "outliers", "message", "throttle[]", "throttled[]", "copies", "copied_ms")
"""Fields that a line has only where there is something to say, whatever the vendor; a kept report may be older."""


def apart(one, other):
    """Fields that one of the two has."""
    return {name for name in one ^ other if not name.endswith(AT_THEIR_DEFAULT)}


def keys(value, path=""):
    """Names of all fields in a value, those of lists and of named maps alike as one."""
    if isinstance(value, list):
        return set().union(*(keys(each, f"{path}[]") for each in value)) if value else set()
    if not isinstance(value, dict):
        return {path}
    if path.rpartition(".")[2].removesuffix("[]") in NAMED:
        return {path} | set().union(*(keys(each, f"{path}.*") for each in value.values()))
    return set().union(*(keys(each, f"{path}.{name}".lstrip(".")) for name, each in value.items()))


def lines_of(path, kind):
    for line in path.read_text().splitlines():
        body = json.loads(line)
        if body["kind"] == kind:
            yield body


def first_record(path, evidence):
    found = [line for line in lines_of(path, "record") if line["evidence"] == evidence]
    return next(line for line in found if line["cell"]["case"] == KERNEL and line["outcome"]["status"] == "passed")


def record_keys(path, evidence):
    return keys(first_record(path, evidence))


def test_records_of_rocm_and_cuda_have_the_same_fields(report):
    """Against a record that an H200 made."""
    cuda, rocm = record_keys(KEPT_REPORT, "measured"), record_keys(report, "measured")
    assert apart(cuda, rocm) - {"verdict.rule_version"} == set()  # of rule 1 a record does not say so


def test_an_interpreted_record_has_no_field_of_its_own(report):
    assert record_keys(report, "interpreted") <= record_keys(report, "measured")


def test_what_a_record_has_not_it_gives_a_reason_for(report):
    """A part of the schema that one of the three has is there in the others, or ``nulls`` says why not."""
    lines = [
        first_record(KEPT_REPORT, "measured"),
        first_record(report, "measured"),
        first_record(report, "interpreted"),
    ]
    parts = set().union(*lines) - {"nulls", "blobs", "stage_seconds", "device_id", "baselines", "asked"}
    lacking = {
        (line["evidence"], part) for line in lines for part in parts - line.keys() - line.get("nulls", {}).keys()
    }
    assert lacking == set()


def test_counters_of_rocm_and_cuda_have_the_same_fields(report):
    of_rocm = next(lines_of(report, "counters"))
    cuda, rocm = keys(next(lines_of(KEPT_REPORT, "counters"))), keys(of_rocm)
    reasons = {name.rpartition(".")[2] for name in of_rocm["nulls"]}
    assert {name.rpartition(".")[2] for name in apart(cuda, rocm)} <= reasons
    assert rocm <= cuda
