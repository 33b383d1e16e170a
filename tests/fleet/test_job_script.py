"""job.sh itself: locks, quarantine, limits, and what it says of each."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fleet_files import played_python
from waiting import until

from portkit.fleet.job import SCRIPT
from portkit.fleet.outcome import read_outcome
from portkit.store.journal import read_report

NONCE = "5" * 32
SETTINGS = {"lock_seconds": 1, "preflight_seconds": 20, "job_seconds": 20, "kill_after": 1, "die_within": 1}


class Job:
    """A folder as a host gets it."""

    def __init__(self, folder, python):
        self.folder = folder
        self.state = folder.parent / "state"
        self.settings = {"nonce": NONCE, "python": python, "locked": 1, **SETTINGS}
        self.arrays = {
            "devices": ["0"],
            "container": [],
            "expected": ["--matrix", "matrix.yaml", "--target", "h200", "--count", "1"],
            "arguments": ["--portkit-target", "h200", "--portkit-report", "report", "--portkit-nonce", NONCE],
        }
        self.variables = {"PLAYED_GPUS": "h200"}

    def write(self):
        self.folder.mkdir(exist_ok=True)
        (self.folder / "job.sh").write_text(SCRIPT.read_text())
        lines = [f"{name}={shlex.quote(str(value))}" for name, value in self.settings.items()]
        lines += [f"{name}=({shlex.join(words)})" for name, words in self.arrays.items()]
        (self.folder / "job.env").write_text("\n".join(lines) + "\n")

    def start(self, *before, **options):
        self.write()
        environment = os.environ | self.variables | {"PORTKIT_FLEET_STATE": str(self.state)}
        return subprocess.Popen([*before, "bash", "job.sh"], cwd=self.folder, env=environment, **options)

    def run(self, *before):
        process = self.start(*before, start_new_session=True)
        assert process.wait(60) == 0
        return self.outcome()

    def outcome(self):
        return read_outcome(self.folder / "outcome")


@pytest.fixture
def job(tmp_path):
    yield Job(tmp_path / "job", played_python(tmp_path))
    Path(f"/tmp/portkit-fleet-{NONCE}").unlink(missing_ok=True)


def test_done_with_its_report(job):
    assert job.run() == job.outcome()
    told = job.outcome()
    assert (told["cause"], told["code"], told["nonce"], told["units"]) == ("done", "0", NONCE, "gpu-0")
    (report,) = (job.folder / "report").glob("*.jsonl")
    assert read_report(report).header.nonce == NONCE


@pytest.mark.parametrize(
    ("gpus", "count", "why"),
    [
        ("h200,a100", "0", "expected no GPU, visible: 1 × a100, 1 × h200"),
        ("h200,h200", "1", "expected 1 × h200, visible: 2 × h200"),
    ],
)
def test_other_gpus_than_expected(job, gpus, count, why):
    job.variables["PLAYED_GPUS"] = gpus
    job.arrays["expected"][-1] = count
    told = job.run()
    assert (told["cause"], told["why"]) == ("absent", why)
    assert not list((job.folder / "report").iterdir())


def test_locked_gpu_is_waited_for_and_then_refused(job):
    job.state.mkdir()
    lock = job.state / "gpu-0.lock"
    lock.touch()
    with subprocess.Popen(["flock", str(lock), "sleep", "60"], start_new_session=True) as holder:
        until(lambda: subprocess.run(["flock", "-n", str(lock), "true"], check=False).returncode != 0)
        told = job.run()
        os.killpg(holder.pid, signal.SIGKILL)
    assert (told["cause"], told["why"]) == ("locked", "gpu-0 is locked by another job (waited 1 s)")


def test_time_limit_from_outside_ends_what_is_deaf(job):
    job.variables |= {"PLAYED_STOP_AFTER": "1", "PLAYED_DEAF": "1"}
    job.settings["job_seconds"] = 3
    told = job.run()
    assert (told["cause"], told["code"]) == ("timeout", "137")
    assert told["why"] == "pytest did not end within 3 s and was ended (code 137)"
    (report,) = (job.folder / "report").glob("*.jsonl")
    assert len(read_report(report).records) == 1


def test_told_to_stop(job):
    job.variables["PLAYED_STOP_AFTER"] = "1"
    process = job.start(start_new_session=True)
    until(lambda: list(job.folder.glob("report/*.jsonl")))
    process.terminate()
    assert process.wait(30) == 0
    assert (job.outcome()["cause"], job.outcome()["why"]) == ("cancelled", "was told to stop by SIGTERM")


def test_what_pytest_left_running_is_ended(job, tmp_path):
    left = tmp_path / "left"
    job.variables["PLAYED_LEAVE"] = str(left)
    assert job.run()["cause"] == "done"
    assert not is_alive(int(left.read_text()))


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def test_an_interpreter_without_portkit_is_told_with_its_remedy(tmp_path):
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -S "$@"\n')
    bare.chmod(0o755)
    told = Job(tmp_path / "job", bare).run()
    assert told["cause"] == "failed"
    assert "No module named 'portkit'" in told["why"]
    assert "`python:` in the fleet file" in told["why"]


@pytest.mark.skipif(os.geteuid() != 0, reason="a process that another user may not kill is started by root alone")
def test_process_that_survives_sigkill_puts_its_gpu_in_quarantine(job, tmp_path):
    """The job's user may not kill a process of root in the job's session: to it, that one survives SIGKILL."""
    for folder in (tmp_path, *(each for each in tmp_path.parents if each.name.startswith(("popen-", "pytest-")))):
        folder.chmod(0o755)
    job.write()
    job.state.mkdir(mode=0o777)
    job.state.chmod(0o777)
    job.folder.chmod(0o777)
    survivor = tmp_path / "survivor"
    as_nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups"
    script = f"sleep 300 & echo $! >{survivor}; exec {as_nobody} bash job.sh"
    environment = os.environ | job.variables | {"PORTKIT_FLEET_STATE": str(job.state), "HOME": "/tmp"}
    command = ["bash", "-c", script]
    process = subprocess.Popen(command, cwd=job.folder, env=environment, start_new_session=True)
    try:
        assert process.wait(60) == 0
        pid = int(survivor.read_text())
        told = job.outcome()
        assert told["cause"] == "survivor"
        assert told["why"] == f"process {pid} (sleep 300) survived SIGKILL: gpu-0 in quarantine until it is gone"
        again = Job(tmp_path / "again", job.settings["python"])
        told = again.run()
        assert told["cause"] == "quarantined"
        assert told["why"] == (f"gpu-0 is in quarantine: process {pid} (sleep 300) survived SIGKILL and is still there")
    finally:
        os.kill(int(survivor.read_text()), signal.SIGKILL)
    until(lambda: not is_alive(pid))
    assert Job(tmp_path / "third", job.settings["python"]).run()["cause"] == "done"
    assert not list(job.state.glob("*.quarantine"))


def test_mark_of_an_earlier_boot_is_void(job):
    job.state.mkdir()
    (job.state / "gpu-0.quarantine").write_text(f"another-boot {os.getpid()} 1 python\n")
    assert job.run()["cause"] == "done"


def test_folder_that_is_not_fresh(job):
    job.folder.mkdir()
    (job.folder / "report").mkdir()
    assert job.run()["cause"] == "stale"


def test_pytest_that_did_not_run_cells(job):
    job.variables["PLAYED_CODE"] = "4"
    told = job.run()
    assert (told["cause"], told["why"]) == ("failed", "pytest ended with code 4: a line of pytest")
