"""Jobs on a real Slurm: one that comes to its end, absent SKUs, and a node that is lost."""

import signal
import time

import pytest
from fleet_files import ended

from portkit.store.journal import read_report


def place(target, **keys):
    return {"target": target, "partition": target, "resource": f"gpu:{target}", **keys}


@pytest.fixture
def slurm(cluster, monkeypatch):
    for name, value in cluster.environment().items():
        monkeypatch.setenv(name, value)
    return cluster


def test_absent_skus_are_missing_and_the_rest_is_merged(slurm, played):
    played.write(
        [
            place("h200", env={"PLAYED_GPUS": "h200"}),
            place("b200", partition="nowhere"),
            place("a100", partition="h200", resource="gpu:a100", optional=True),
            place("mi355x", partition="mi300x", resource="gpu:mi300x", env={"PLAYED_GPUS": "mi300x"}),
        ]
    )
    ran = played.fleet("run")
    by_job = {attempt["job"]: attempt for attempt in played.attempts()}
    assert ran.code == 3, ran
    assert (by_job["h200-h200"]["cause"], by_job["h200-h200"]["records"]) == ("done", 3)
    assert by_job["h200-h200"]["scheduler"]["state"] == "COMPLETED"
    assert by_job["b200-nowhere"]["cause"] == "absent"
    assert by_job["b200-nowhere"]["why"].startswith("sbatch: error: invalid partition specified: nowhere")
    assert "Requested node configuration is not available" in by_job["a100-h200"]["why"]
    assert by_job["mi355x-mi300x"]["why"] == "expected 1 × mi355x, visible: 1 × mi300x"
    assert "MISSING: no row of h200:measured, b200:measured, mi355x:measured" in ran.out.replace("\n", " ")
    assert "a100" not in ran.out.partition("\njob ")[0]
    assert "absent, optional" in ran.out


def test_lost_node_is_named_and_the_job_goes_to_another(slurm, played, tmp_path):
    stop = tmp_path / "stop"
    stop.touch()
    variables = {"PLAYED_CELLS": "5", "PLAYED_STOP_AFTER": "2", "PLAYED_STOP_FILE": str(stop)}
    played.write([place("mi300x", count=0, env=variables)], retries=1)
    process = played.start("run")
    node = until_records(played, slurm, 2)
    (played.folder / "fleet.yaml").unlink()  # a run has its own
    stop.unlink()
    slurm.kill_node(node)
    slurm.say_down(node)
    try:
        ran = ended(process)
        first, second = played.attempts()
    finally:
        slurm.revive(node)
    assert (first["cause"], first["records"], first["cells"]) == ("node_lost", 2, 5), ran
    assert first["scheduler"]["state"] == "NODE_FAIL"
    assert first["why"].startswith(f"Slurm: NODE_FAIL (NodeDown) on {node}")
    assert "the node is DOWN" in first["why"]
    assert "(power lost)" in first["why"]
    assert (second["cause"], second["records"]) == ("done", 5)
    assert second["scheduler"]["node"] != node
    assert ran.code == 0
    partial = read_report(played.run / "reports" / first["reports"][0])
    assert len(partial.records) == 2
    assert "reports merged: 2" in ran.out


@pytest.mark.slow
def test_job_goes_on_without_its_driver_and_resume_waits_for_it(slurm, played, tmp_path):
    stop = tmp_path / "stop"
    stop.touch()
    variables = {"PLAYED_STOP_AFTER": "1", "PLAYED_STOP_FILE": str(stop), "PLAYED_STOP_SECONDS": "15"}
    played.write([place("h200", count=0, env=variables)])
    process = played.start("run")
    until_records(played, slurm, 1)
    process.send_signal(signal.SIGKILL)
    ended(process)
    resumed = played.fleet("resume")
    (attempt,) = played.attempts()
    assert "has not ended, waits for it: Slurm: RUNNING on n1" in resumed.err
    assert (attempt["cause"], attempt["records"], resumed.code) == ("done", 3, 0), resumed


@pytest.mark.slow
def test_stopped_driver_cancels_its_jobs(slurm, played, tmp_path):
    stop = tmp_path / "stop"
    stop.touch()
    variables = {"PLAYED_STOP_AFTER": "1", "PLAYED_STOP_FILE": str(stop)}
    played.write([place("h200", count=0, env=variables)])
    process = played.start("run")
    until_records(played, slurm, 1)
    process.send_signal(signal.SIGTERM)
    stopped = ended(process)
    (attempt,) = played.attempts()
    assert (attempt["cause"], attempt["records"], stopped.code) == ("cancelled", 1, 130), stopped
    assert attempt["why"].startswith("Slurm: CANCELLED on n1")


def until_records(project, slurm, count, seconds=60):
    """The node of the job, once its report has so many records."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = project.folder.rglob("stage/**/report/*.jsonl")
        if any(path.read_bytes().count(b'"kind":"record"') >= count for path in found):
            return slurm.ask("squeue", "-h", "-o", "%N").split()[0]
        time.sleep(0.1)
    raise AssertionError("no records came")
