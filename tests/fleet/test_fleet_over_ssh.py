"""Jobs over ssh to an sshd on loopback: one that ends well, hosts that are lost or never answer, and one that hangs."""

import os
import signal
import threading
from pathlib import Path

import pytest
from fleet_files import ended
from ssh_daemon import HOST
from waiting import until

from portkit.fleet.drive import Driver
from portkit.fleet.on_host import forget, place_on_host
from portkit.fleet.runs import create_run
from portkit.fleet.site import chosen, read_fleet
from portkit.fleet.source import collect_source


@pytest.fixture
def place(daemon, tmp_path):
    def make(target="h200", host=HOST, **keys):
        variables = {"PLAYED_GPUS": target, "PORTKIT_FLEET_STATE": str(tmp_path / "state"), **keys.pop("env", {})}
        return {"target": target, "host": host, "access": [f"-F {daemon.config}"], "env": variables, **keys}

    return make


def test_report_comes_back_and_the_rest_is_named(played, place):
    away = place("mi300x", host="127.0.0.1", access=["-o Port=1"], optional=True)
    played.write([place(), away, place("h100", env={"PLAYED_NONCE": "0" * 32})])
    ran = played.fleet("run")
    told = {attempt["job"]: (attempt["cause"], attempt["why"]) for attempt in played.attempts()}
    assert told[f"h200-{HOST}"] == ("done", ""), ran
    cause, why = told["mi300x-127-0-0-1"]
    assert (cause, "Connection refused" in why) == ("unreachable", True)
    cause, why = told[f"h100-{HOST}"]
    assert (cause, f"is of another job: its word is {'0' * 32}" in why) == ("stale", True)
    assert ran.code == 3
    assert "h100" not in {path.parent.name.partition("-")[0] for path in played.run.rglob("reports/*/*.jsonl")}
    done = played.attempts()[0]
    assert not os.path.lexists(place_on_host(done["nonce"]))


def test_lost_host_leaves_what_was_copied_meanwhile(daemon, played, place, tmp_path):
    """The host loses its power in the middle: connections drop, its processes are gone, and it answers no more."""
    played.write([place(env={"PLAYED_STOP_AFTER": "2"})])
    fleet = read_fleet(played.folder / "fleet.yaml")
    run = create_run(played.folder / "runs", fleet, list(chosen(fleet, ())))
    collect_source(fleet, run.source)
    lines = []
    driver = Driver(run, fleet, lines.append, mirror_seconds=0.3)

    def lose_power_when_copied():
        copies = run.job_folder(1, run.jobs()[0]) / "mirror" / "report"
        until(lambda: any(path.read_bytes().count(b'"kind":"record"') == 2 for path in copies.glob("*.jsonl")), 40)
        daemon.lose_power("PLAYED_STOP_AFTER")

    watcher = threading.Thread(target=lose_power_when_copied)
    watcher.start()
    try:
        driver.carry_out(run.jobs())
    finally:
        watcher.join()
        daemon.start_again()
    (attempt,) = run.attempts()
    forget(fleet.reachable[0], attempt.nonce)  # it did not answer when the driver did
    assert (attempt.cause, attempt.records, attempt.cells) == ("node_lost", 2, 3), lines
    assert attempt.why == "the connection to the host was lost in the stage run"
    (report,) = run.reports.rglob("*.jsonl")
    assert attempt.reports == (f"{report.parent.name}/{report.name}",)


@pytest.mark.slow
def test_job_that_hangs_is_ended_by_itself(played, place):
    played.write([place(env={"PLAYED_STOP_AFTER": "1"})], seconds={"job": 2})
    ran = played.fleet("run")
    (attempt,) = played.attempts()
    assert (attempt["cause"], attempt["records"]) == ("timeout", 1), ran
    assert attempt["why"].startswith("pytest did not end within 2 s and was ended")


@pytest.mark.slow
def test_job_that_outlasts_every_limit_is_ended_from_outside(played, place, monkeypatch):
    """ReFrame's ssh backend has no limit of time; here the job's own is far away."""
    monkeypatch.setattr("portkit.fleet.drive.outer_seconds", lambda _fleet: 6)
    played.write([place(env={"PLAYED_STOP_AFTER": "1"})])
    fleet = read_fleet(played.folder / "fleet.yaml")
    run = create_run(played.folder / "runs", fleet, list(chosen(fleet, ())))
    collect_source(fleet, run.source)
    Driver(run, fleet, print).carry_out(run.jobs())
    (attempt,) = run.attempts()
    assert (attempt.cause, attempt.records) == ("timeout", 1), attempt
    assert attempt.why == "gave no sign within its limit, in the stage run; the connection was ended"
    assert not os.path.lexists(place_on_host(attempt.nonce))


@pytest.mark.slow
def test_stopped_driver_keeps_what_there_is_and_resume_goes_on(played, place, tmp_path):
    stop = tmp_path / "stop"
    stop.touch()
    played.write([place(env={"PLAYED_STOP_AFTER": "1", "PLAYED_STOP_FILE": str(stop)})])
    process = played.start("run")
    until(lambda: running_report(played), 40)
    live = played.fleet("status").out
    assert f"h200-{HOST}" in live
    process.send_signal(signal.SIGTERM)
    stopped = ended(process)
    assert stopped.code == 130
    assert "portkit fleet resume" in stopped.err
    stop.unlink()
    resumed = played.fleet("resume")
    assert resumed.code == 0, resumed
    assert [attempt["cause"] for attempt in played.attempts()][1:] == ["done"]
    assert played.fleet("status").out.splitlines()[-1].split()[3] == "done"


def running_report(played):
    """Whether a job has a report, at the place where its host keeps it."""
    plans = list(played.folder.rglob("plan.json"))
    words = [word for plan in plans for word in plan.read_text().split('"') if len(word) == 32]
    return any(list_reports(word) for word in words)


def list_reports(nonce):
    folder = Path(place_on_host(nonce), "report")
    return folder.is_dir() and any(folder.iterdir())
