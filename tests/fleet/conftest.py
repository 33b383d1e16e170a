"""A Slurm and an sshd of their own, both on loopback; skipped with the reason where they can't be started."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from fleet_files import Project, played_python
from slurm_accounting import no_accounting
from slurm_cluster import Cluster, missing
from ssh_daemon import Daemon, no_daemon

PROJECT = Path(__file__).parent / "project"
NODES = {"n1": "h200", "n2": "mi300x", "n3": "mi300x", "n4": "b200"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Four nodes of three SKUs."""
    if why := missing():
        pytest.skip(why)
    yield from running(Cluster(tmp_path_factory.mktemp("slurm"), NODES))


@pytest.fixture(scope="module")
def accounted(tmp_path_factory):
    """Three nodes of three SKUs, and accounting."""
    if why := missing() or no_accounting():
        pytest.skip(why)
    nodes = {"n1": "h200", "n2": "mi300x", "n3": "b200"}
    yield from running(Cluster(tmp_path_factory.mktemp("slurm"), nodes, accounting=True))


def running(slurm):
    try:
        yield slurm.start()
    finally:
        slurm.stop()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    """An sshd with its own keys."""
    if why := no_daemon():
        pytest.skip(why)
    sshd = Daemon(tmp_path_factory.mktemp("sshd"))
    try:
        yield sshd.start()
    finally:
        sshd.stop()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with a matrix, in which commands run."""
    folder = tmp_path / "project"
    shutil.copytree(PROJECT, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PORTKIT_FLEET_STATE", str(tmp_path / "state"))
    return Project(folder, sys.executable, {"PYTHONPATH": os.environ.get("PYTHONPATH", "")})


@pytest.fixture
def played(project, tmp_path):
    """The same, where every host's interpreter is played."""
    return Project(project.folder, played_python(tmp_path), {})
