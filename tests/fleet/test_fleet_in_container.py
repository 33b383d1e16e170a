"""Jobs in a container of podman, whose image is this host's own files: one that ends well, and one over its limit."""

import os
import subprocess
from pathlib import Path

import pytest
from waiting import absent, until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def podman(tmp_path_factory):
    """A command that runs another in a container; skipped with the reason where there can be none."""
    if os.geteuid() != 0:
        pytest.skip("a container of this host's own files is made by root alone")
    if why := absent(("podman", "runc", "catatonit"), "packages podman, runc and catatonit"):
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("podman")
    stores = f"--root {folder}/store --runroot {folder}/run --cgroup-manager cgroupfs --runtime runc"
    limits = "--ulimit nofile=1024:1024 --ulimit nproc=4096:4096"  # podman's own may be more than root has
    run = f"podman {stores} run --rm --init --network none {limits}"
    tried = subprocess.run(f"{run} --rootfs /:O true", shell=True, capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"podman runs no container here: {tried.stderr.strip()[-300:]}")
    return run


@pytest.fixture
def container(podman):
    """The key ``container`` of a place."""
    passed = " ".join(f"-e {name}" for name in ("PORTKIT_FLEET_NONCE", "PLAYED_STOP_AFTER", "PLAYED_STOP_FILE"))
    return f"{podman} {passed} -v .:/job -w /job --rootfs /:O"


def test_report_of_a_container_comes_back(played, container):
    played.write([{"target": "h200", "local": True, "count": 0, "container": container}])
    ran = played.fleet("run")
    (attempt,) = played.attempts()
    assert (attempt["cause"], attempt["records"], ran.code) == ("done", 3, 0), ran


def test_container_over_its_limit_is_ended_with_all_that_is_in_it(played, container, tmp_path):
    stop = tmp_path / "stop"
    stop.touch()
    variables = {"PLAYED_STOP_AFTER": "1", "PLAYED_STOP_FILE": str(stop)}
    place = {"target": "h200", "local": True, "count": 0, "container": container, "env": variables}
    played.write([place], seconds={"job": 8})
    ran = played.fleet("run")
    (attempt,) = played.attempts()
    assert (attempt["cause"], attempt["records"], ran.code) == ("timeout", 1, 3), ran
    until(lambda: not marked(attempt["nonce"]), 10)


def marked(nonce):
    """Processes of a job, in its container or out of it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if f"PORTKIT_FLEET_NONCE={nonce}".encode() in words:
            found.append(path.parent.name)
    return found
