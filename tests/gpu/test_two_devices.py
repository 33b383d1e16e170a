"""Two devices of a host: both used, one cell at a time on each."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from portkit.analysis.spread import ceiling_spread
from portkit.model import Evidence, Status
from portkit.store.journal import read_report

ROOT = Path(__file__).parents[2]
CASES = Path(__file__).parent / "cases"

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA or ROCm devices")

MATRIX = """
version: 1
kernels:
  diary: {{path: {file}}}
targets: [h200]
"""


def benchmark(folder, *arguments):
    command = [sys.executable, "-m", "pytest", "--benchmark", "-p", "no:cacheprovider", "-k", "measured"]
    environment = {**os.environ, "DIARY": str(folder / "diary"), "XDG_CACHE_HOME": str(folder / "cache")}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command += ["--portkit-shared-device"]  # the tests' own process may have a context
    command += ["--portkit-counters", "off", "--portkit-baselines", "eager"]
    return subprocess.run(
        [*command, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def read_diary(folder):
    """Device → times from the first launch to the last of each cell, in order."""
    lines = [json.loads(line) for line in (folder / "diary").read_text().splitlines()]
    spans = {}
    for device, shape, moment in lines:
        first, last = spans.setdefault((device, shape), (moment, moment))
        spans[device, shape] = min(first, moment), max(last, moment)
    return {name: sorted(span for (device, _), span in spans.items() if device == name) for name, _ in spans}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "matrix.yaml").write_text(MATRIX.format(file=CASES / "diary.py"))
    return tmp_path


def report_of(folder):
    (path,) = folder.glob("reports/local/*.jsonl")
    return read_report(path)


def test_both_are_used_and_no_cell_runs_beside_another_on_its_device(folder):
    done = benchmark(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    report = report_of(folder)
    measured = [record for record in report.records if record.evidence is Evidence.MEASURED]
    assert {record.outcome.status for record in measured} == {Status.PASSED}
    here = {device.device_id for device in report.header.host.devices}
    assert {record.device_id for record in measured} == here == {probe.device_id for probe in report.probes}
    diary = read_diary(folder)
    assert len(diary) == 2
    for spans in diary.values():
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    one, other = diary.values()
    assert any(a < d and c < b for a, b in one for c, d in other), "they were never at work at once"
    counts = sorted(sum(record.device_id == device for record in measured) for device in here)
    assert counts[0] >= 8, counts
    copies = next(each for each in ceiling_spread(report.probes) if each.figure == "copy_gbs")
    assert copies.relative < 0.1, copies


def test_a_chosen_device_is_the_only_one(folder):
    done = benchmark(folder, "--portkit-devices", "1", "--portkit-probe", "off", "-k", "measured and 1052672")
    assert done.returncode == 0, done.stdout + done.stderr
    report = report_of(folder)
    (device,) = report.header.host.devices
    assert device.index == 1
    assert {record.device_id for record in report.records if record.device_id} == {device.device_id}
    assert len(read_diary(folder)) == 1
