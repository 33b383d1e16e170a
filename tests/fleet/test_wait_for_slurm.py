"""How long the driver waits for a job that Slurm says goes on, on a clock of its own."""

import pytest

from portkit.fleet import drive, scheduler
from portkit.fleet.drive import Driver
from portkit.fleet.job import outer_seconds
from portkit.fleet.runs import FleetRun
from portkit.fleet.site import read_fleet

PENDING_SECONDS = 600


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def waited(tmp_path, monkeypatch):
    """Seconds that the driver waits, and how often it tells Slurm to end the job, where Slurm says what is given."""
    (tmp_path / "number").write_text("7")
    path = tmp_path / "fleet.yaml"
    path.write_text(f"seconds: {{pending: {PENDING_SECONDS}}}\nplaces: [{{target: h200, partition: gpu}}]\n")
    driver = Driver(FleetRun(tmp_path), read_fleet(path), lambda _line: None)
    clock, cancelled = Clock(), []
    monkeypatch.setattr(drive, "time", clock)
    monkeypatch.setattr(drive.scheduler, "cancel", cancelled.append)

    def wait(said):
        monkeypatch.setattr(drive.scheduler, "ask", lambda _number: said(clock.now, len(cancelled)))
        driver._wait_for(tmp_path, "h200-gpu")
        return clock.now, len(cancelled)

    return wait


def test_job_that_ends_is_waited_for_and_left_alone(waited):
    seconds, cancels = waited(lambda now, _: {"state": "RUNNING" if now < 60 else "COMPLETED"})
    assert (seconds, cancels) == (60, 0)


def test_job_over_its_time_in_the_queue_is_ended(waited):
    seconds, cancels = waited(lambda _, cancels: {"state": "CANCELLED by 0" if cancels else "PENDING"})
    assert (seconds, cancels) == (PENDING_SECONDS + 10, 1)


@pytest.mark.parametrize("state", ["PENDING", "COMPLETING", "RUNNING"])
def test_job_that_never_ends_is_given_up(waited, tmp_path, state):
    limits = {
        "PENDING": PENDING_SECONDS,
        "COMPLETING": drive._COMPLETING_SECONDS,
        "RUNNING": outer_seconds(read_fleet(tmp_path / "fleet.yaml")),
    }
    seconds, cancels = waited(lambda *_: {"state": state})
    assert seconds == pytest.approx(limits[state] + drive._CANCEL_SECONDS, abs=10)
    assert cancels == pytest.approx(drive._CANCEL_SECONDS / drive._POLL_SECONDS, abs=2)


def program(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_accounting_is_asked_where_the_controller_has_forgotten_the_job(tmp_path, monkeypatch):
    """The accounting lags: it may still say that a job runs."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    program(tmp_path, "scontrol", "echo JobId=7 JobState=TIMEOUT Reason=TimeLimit ExitCode=0:15")
    program(tmp_path, "sacct", "echo 'RUNNING|None|0:0|'")
    assert scheduler.ask("7") == {"from": "scontrol", "state": "TIMEOUT", "reason": "TimeLimit", "exit_code": "0:15"}
    program(tmp_path, "scontrol", "exit 1")
    program(tmp_path, "sacct", "echo 'CANCELLED by 0|None|0:0|'")
    said = scheduler.ask("7")
    assert said == {"from": "sacct", "state": "CANCELLED by 0", "exit_code": "0:0"}
    assert scheduler.state(said) == "CANCELLED"
    program(tmp_path, "sacct", "exit 1")
    assert scheduler.ask("7") == {}
