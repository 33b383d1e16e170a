"""The shell job that goes to a host: ``job.sh``, which is the same for all, and what it is to do there."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from portkit.fleet.runs import FleetJob
from portkit.fleet.site import Fleet, Partition, Reached
from portkit.model import INTERPRETER, SCHEMA_VERSION

SCRIPT: Final = Path(__file__).parent / "job.sh"
OUTCOME: Final = "outcome"
REPORTS: Final = "report"

PREFLIGHT_SECONDS: Final = 600
"""Importing torch and waking a GPU takes a minute on a cold file system."""

KILL_AFTER_SECONDS: Final = 30
"""From SIGTERM to SIGKILL: pytest writes the end of its report meanwhile."""

DIE_WITHIN_SECONDS: Final = 10
"""What a process may take to die of SIGKILL, before it counts as one that survives it."""

MARGIN_SECONDS: Final = 300
"""What a job takes beside lock, preflight and pytest, before the scheduler or ReFrame ends it."""


def job_files(fleet: Fleet, place: Reached, nonce: str) -> dict[str, str]:
    """Name → content of what a job needs beside the source."""
    files = {"job.sh": SCRIPT.read_text(), "job.env": "\n".join(_variables(fleet, place, nonce)) + "\n"}
    if place.setup:
        files["setup.sh"] = "\n".join(place.setup) + "\n"
    return files


def outer_seconds(fleet: Fleet) -> int:
    """Limit of a job from outside, in seconds: it ends itself before that."""
    seconds = fleet.seconds
    return seconds.lock + PREFLIGHT_SECONDS + seconds.job + MARGIN_SECONDS


def options_of(place: Reached, job: FleetJob) -> list[str]:
    """Options of sbatch that this job alone has."""
    return [f"--nodelist={job.node}"] if isinstance(place, Partition) and job.node else []


def _variables(fleet: Fleet, place: Reached, nonce: str) -> Iterator[str]:
    devices = () if isinstance(place, Partition) else place.devices
    yield _assigned("nonce", nonce)
    yield _assigned("python", place.python)
    yield f"locked={int(bool(devices))}"
    yield f"lock_seconds={fleet.seconds.lock}"
    yield f"preflight_seconds={PREFLIGHT_SECONDS}"
    yield f"kill_after={KILL_AFTER_SECONDS}"
    yield f"die_within={DIE_WITHIN_SECONDS}"
    yield f"job_seconds={fleet.seconds.job}"
    yield _array("devices", map(str, devices))
    yield _array("container", shlex.split(place.container or ""))
    yield _array("expected", _expected(fleet, place, devices))
    yield _array("arguments", _arguments(fleet, place, devices, nonce))
    yield from (f"export {_assigned(name, value)}" for name, value in place.env.items())


def _expected(fleet: Fleet, place: Reached, devices: Sequence[int]) -> Iterator[str]:
    yield from ("--matrix", fleet.matrix, "--target", place.target, "--count", str(place.count))
    yield from ("--schema", str(SCHEMA_VERSION))
    if devices:
        yield from ("--devices", ",".join(map(str, devices)))


def _arguments(fleet: Fleet, place: Reached, devices: Sequence[int], nonce: str) -> Iterator[str]:
    yield from ("--benchmark", "-p", "no:cacheprovider", "--portkit-matrix", fleet.matrix)
    targets = place.target if place.count else f"{place.target},{INTERPRETER}"
    yield from ("--portkit-target", targets, "--portkit-report", REPORTS, "--portkit-nonce", nonce)
    yield from ("--portkit-cell-seconds", str(fleet.seconds.cell))
    if fleet.tier:
        yield from ("--portkit-tier", fleet.tier)
    if devices:
        yield from ("--portkit-devices", ",".join(map(str, devices)))
    yield from fleet.options


def _assigned(name: str, value: str) -> str:
    return f"{name}={shlex.quote(value)}"


def _array(name: str, words: Iterator[str] | Sequence[str]) -> str:
    return f"{name}=({shlex.join(words)})"
