"""What is kept of a device's ceilings, for whom, and for how long."""

from __future__ import annotations

import dataclasses
import datetime

import pytest
from factories import host

from portkit.model import DeviceProbe
from portkit.run.probes import FIGURES, LONGEST_DAYS, keep_probe, load_probe, probe_job, unprobed
from portkit.targets.catalog import load_catalog

DEVICE = host().devices[0]


def found(days_ago=1.0, **changes):
    measured = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days_ago)
    given = DeviceProbe(
        "a run",
        DEVICE.device_id,
        "h200",
        measured.isoformat(timespec="seconds"),
        copy_gbs=4200.5,
        matmul_tflops={"bfloat16": 773.25},
        evicted=True,
        other_processes=0,
        nulls={"matmul_tflops.fp8": "refused"},
    )
    return dataclasses.replace(given, **changes)


def test_a_later_run_takes_over_all_but_who_was_there(tmp_path):
    keep_probe(host(), DEVICE, found(), tmp_path)
    assert load_probe(host(), DEVICE, tmp_path) == found(run_id="", other_processes=None)


@pytest.mark.parametrize(
    "changes", [{"driver": "580.1"}, {"torch": "2.11.0"}, {"toolkit": "13.0"}, {"host_id": "another"}]
)
def test_another_driver_torch_toolkit_or_host_measures_anew(tmp_path, changes):
    keep_probe(host(), DEVICE, found(), tmp_path)
    assert load_probe(host(**changes), DEVICE, tmp_path) is None


def test_another_device_and_another_portkit_measure_anew(tmp_path, monkeypatch):
    keep_probe(host(), DEVICE, found(), tmp_path)
    assert load_probe(host(), dataclasses.replace(DEVICE, device_id="e1e1"), tmp_path) is None
    monkeypatch.setattr("portkit.run.probes.__version__", "99")
    assert load_probe(host(), DEVICE, tmp_path) is None


@pytest.mark.parametrize(
    ("days", "taken"), [(0, True), (LONGEST_DAYS - 0.1, True), (LONGEST_DAYS + 0.1, False), (-1, False)]
)
def test_old_figures_and_those_of_the_future_are_not_taken_over(tmp_path, days, taken):
    keep_probe(host(), DEVICE, found(days_ago=days), tmp_path)
    assert (load_probe(host(), DEVICE, tmp_path) is not None) == taken


@pytest.mark.parametrize(
    "changes", [{"copy_gbs": None}, {"matmul_tflops": {}}, {"other_processes": 1}, {"other_processes": None}]
)
def test_a_poor_probe_and_one_of_a_shared_device_are_not_kept(tmp_path, changes):
    keep_probe(host(), DEVICE, found(**changes), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"run_id": 3}', b"\xff"])
def test_a_damaged_file_is_as_none(tmp_path, content):
    keep_probe(host(), DEVICE, found(), tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(content)
    assert load_probe(host(), DEVICE, tmp_path) is None


def test_a_folder_that_can_not_be_made_keeps_nothing(tmp_path):
    (tmp_path / "file").touch()
    keep_probe(host(), DEVICE, found(), tmp_path / "file" / "folder")
    assert load_probe(host(), DEVICE, tmp_path / "file" / "folder") is None


def test_a_probe_that_found_nothing_gives_the_reason_for_every_figure():
    blank = unprobed(DEVICE, load_catalog().get("h200"), "why")
    assert blank.nulls == dict.fromkeys(FIGURES, "why")
    unset = {field.name for field in dataclasses.fields(blank) if getattr(blank, field.name) in (None, {})}
    assert unset == {*FIGURES, "other_processes", "reached_by"}


def test_a_probe_is_of_one_device():
    job = probe_job(DEVICE, load_catalog().get("h200"))
    assert (job.devices, job.probe, job.cells) == ((DEVICE,), True, ())
