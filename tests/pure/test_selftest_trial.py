"""The run of ``portkit selftest``, with pytest's part played."""

from __future__ import annotations

import shutil
import subprocess
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from kept_report import KEPT_REPORT

from portkit.cli.selftest import command
from portkit.errors import HostError
from portkit.run.devices import choose_devices
from portkit.run.selftest import trial


@pytest.fixture
def play(monkeypatch):
    """What pytest leaves: a report of an H200 that ran other kernels, or nothing."""

    def ran(*, report=True):
        def pytest_of_the_cases(folder, options):
            (local := folder / "reports" / "local").mkdir(parents=True)
            if report:
                shutil.copy(KEPT_REPORT, local)
            return "collected 0 items\n\nERROR: no GPU\n"

        monkeypatch.setattr(trial, "_pytest", pytest_of_the_cases)

    return ran


def test_a_report_is_judged_for_the_device_that_it_names(play, tmp_path):
    play()
    done = trial.run_trial(tmp_path)
    assert done.device.target == "h200"
    assert next(each for each in done.checks if each.name == "matching").state == "ok"
    assert (tmp_path / "known_kernels.py").is_file()


def test_a_run_without_a_report_says_its_last_words(play, tmp_path):
    play(report=False)
    with pytest.raises(HostError, match="the run left no report: ERROR: no GPU"):
        trial.run_trial(tmp_path)


NO_GPU = """
=================== ERRORS ===================
______ ERROR collecting matrix.yaml ______
--portkit-devices: no GPU 0 is here
  remedy: those here are none
=========== short test summary info ===========
ERROR matrix.yaml
1 error in 3.45s
"""


def test_the_cause_is_told_and_not_how_pytest_sums_up(monkeypatch, tmp_path):
    refused = NO_GPU.replace("no GPU 0 is here", "1 process uses it")
    monkeypatch.setattr(trial, "_pytest", lambda folder, options: refused)
    with pytest.raises(HostError, match="the run left no report: --portkit-devices: 1 process uses it\n  remedy"):
        trial.run_trial(tmp_path)


def test_what_a_run_without_a_gpu_says_is_known():
    with pytest.raises(HostError) as caught:
        choose_devices(SimpleNamespace(devices=()), {0})
    assert trial._NO_GPU in str(caught.value)


def test_without_a_gpu_a_host_with_one_is_asked_for(monkeypatch, tmp_path):
    monkeypatch.setattr(trial, "_pytest", lambda folder, options: NO_GPU)
    with pytest.raises(
        HostError, match=r"^no GPU is here that torch can use\n.*on a host with a GPU; `portkit doctor`"
    ):
        trial.run_trial(tmp_path)


def test_the_command_fails_where_something_is_off(play, tmp_path):
    play()
    done = CliRunner().invoke(command, ["--folder", str(tmp_path)])
    assert done.exit_code == 1
    assert "verdict on known_bytes" in done.output
    assert "are off. Please open an issue" in done.output


def test_pytest_is_called_as_a_user_would(monkeypatch, tmp_path):
    def run(command, **given):
        assert command[1:4] == ["-m", "pytest", "--benchmark"]
        assert given["cwd"] == tmp_path
        return subprocess.CompletedProcess(command, 1, "one\n", "two\n")

    monkeypatch.setattr(trial.subprocess, "run", run)
    assert trial._pytest(tmp_path, ()) == "one\ntwo\n"


def test_a_run_that_hangs_is_given_up(monkeypatch, tmp_path):
    def run(command, **given):
        raise subprocess.TimeoutExpired(command, given["timeout"])

    monkeypatch.setattr(trial.subprocess, "run", run)
    with pytest.raises(HostError, match="took more than 300 s"):
        trial._pytest(tmp_path, ())


def test_a_host_without_a_gpu(play, tmp_path, monkeypatch):
    play()
    read = trial.read_report

    def without(path):
        found = read(path)
        object.__setattr__(found.header.host, "devices", ())
        return found

    monkeypatch.setattr(trial, "read_report", without)
    with pytest.raises(HostError, match="torch sees no GPU here"):
        trial.run_trial(tmp_path)
