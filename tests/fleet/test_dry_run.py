"""The whole nightly on a Slurm of this host, and the driver's limits, as the scripts show them."""

import subprocess
import sys
from pathlib import Path

import pytest
from slurm_cluster import missing

SCRIPTS = Path(__file__).parents[2] / "scripts"


def run(name, *arguments):
    command = [sys.executable, str(SCRIPTS / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)


@pytest.mark.slow
def test_two_nights_of_which_the_second_loses_a_node_and_hangs():
    if why := missing():
        pytest.skip(why)
    done = run("fleet_dry_run.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NODE_FAIL" in done.stdout
    assert "mi300x-mi300x: timeout (capture)" in done.stdout


@pytest.mark.slow
def test_driver_merges_fifty_hosts_within_its_limits():
    done = run("measure_fleet.py")
    assert done.returncode == 0, done.stdout + done.stderr
