"""What a kernel may do to the device, and that the next cells are unaffected; one run at a time."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import time
from pathlib import Path

import pytest

from portkit.model import CaseSource, Cell, Direction, Evidence, PlannedCell, Stage, Status
from portkit.plan.cases import introspect
from portkit.run.jobs import Limits
from portkit.run.limits import STAGE_SECONDS
from portkit.run.session import Session, chains_for
from portkit.store.journal import read_report
from portkit.targets.catalog import load_catalog

CASES = Path(__file__).parent / "cases"


@pytest.fixture(scope="module")
def devices():
    return introspect([], []).host.devices


@pytest.fixture(scope="module")
def measure(devices):
    """Measures cells of tests/gpu/cases/poison.py in worker processes; status by shape."""
    stages = {**STAGE_SECONDS, Stage.RUN: 15.0}
    session = Session(Limits(workers=2, stage_seconds=stages))
    target = load_catalog().get(devices[0].target)

    def run(name, *shapes):
        source = CaseSource(name, path=str(CASES / "poison.py"))
        cells = [Cell(name, Direction.FORWARD, shape, "float32", "default", target.name) for shape in shapes]
        planned = [PlannedCell(cell, Evidence.MEASURED) for cell in cells]
        results = session.results(chains_for(planned, {name: source}, {target.name: target}, devices))
        found = {result.cell.shape: result for result in results}
        return [found[shape] for shape in shapes]

    yield run
    session.close()


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("wild_store", Status.DEVICE_FAULT),
        ("endless", Status.TIMEOUT),
        ("aborts", Status.WORKER_LOST),
        ("hoards", Status.LAUNCH_ERROR),
        ("too_large_a_grid", Status.LAUNCH_ERROR),
    ],
)
def test_the_next_cell_is_unaffected(measure, name, status):
    before, fatal, after = measure(name, (1024,), (2048,), (4096,))
    assert fatal.outcome.status is status, fatal.outcome
    assert fatal.outcome.stage is Stage.RUN
    assert (before.outcome.status, after.outcome.status) == (Status.PASSED, Status.PASSED), (before, after)
    assert after.timing.fused.events.median_ms > 0


MATRIX = """
version: 1
kernels:
  wild_store: {{path: {file}}}
targets: [h200]
"""


def start(folder, *arguments):
    command = [sys.executable, "-m", "pytest", "--benchmark", "-p", "no:cacheprovider", "-k", "measured and 4096"]
    command += ["--portkit-shared-device", "--portkit-probe", "off"]  # this process has a context, too
    return subprocess.Popen(
        [*command, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_a_second_run_on_the_device_is_refused_or_waits_and_device_ids_are_kept(tmp_path, devices):
    from portkit.run.locks import hold_devices

    (tmp_path / "matrix.yaml").write_text(MATRIX.format(file=CASES / "poison.py"))
    with hold_devices(devices[:1]):
        refused = start(tmp_path)
        output = refused.communicate(timeout=120)[0]
        assert refused.returncode == pytest.ExitCode.USAGE_ERROR, output
        assert "another run measures on GPU 0" in output
        waiting = start(tmp_path, "--portkit-wait", "100")
        time.sleep(15)
        assert waiting.poll() is None
        assert not list(tmp_path.glob("reports/local/*.jsonl"))
    output = waiting.communicate(timeout=120)[0]
    assert waiting.returncode == 0, output
    (path,) = tmp_path.glob("reports/local/*.jsonl")
    report = read_report(path)
    assert report.partial is None
    assert [record.device_id for record in report.records] == [devices[0].device_id]
    again = start(tmp_path, "--portkit-resume", "--portkit-same-device")
    assert again.wait(timeout=120) == 0


def test_a_device_that_is_gone_ends_its_cells_quickly(measure, devices, monkeypatch):
    """Played by an index that no device has: every new process finds none."""
    gone = dataclasses.replace(devices[0], index=len(devices) + 7, device_id="gone")
    target = load_catalog().get(gone.target)
    cells = [Cell("aborts", Direction.FORWARD, (n,), "float32", "default", target.name) for n in range(1024, 1124)]
    planned = [PlannedCell(cell, Evidence.MEASURED) for cell in cells]
    source = CaseSource("aborts", path=str(CASES / "poison.py"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    session = Session(Limits(workers=1))
    begin = time.monotonic()
    found = list(session.results(chains_for(planned, {"aborts": source}, {target.name: target}, [gone])))
    session.close()
    assert time.monotonic() - begin < 60
    assert {result.outcome.status for result in found} == {Status.WORKER_LOST}
    assert len(found) == 100
    assert found[0].outcome.message.startswith(f"GPU {gone.index}, {gone.name}, no longer answers: ")
