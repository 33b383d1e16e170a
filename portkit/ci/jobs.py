"""The jobs of a night: one for each place of the fleet that a CI system reaches."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from portkit.ci.templates import read_data
from portkit.errors import FleetError
from portkit.fleet.site import Fleet, Place
from portkit.model import Platform
from portkit.targets.catalog import Catalog

_SPARE_MINUTES: Final = 15
"""Between the limit on the run and that on the job: to install, and to keep what a stopped run has left."""


@dataclass(frozen=True)
class Job:
    """One job of the nightly matrix."""

    place: str  # name, unique in the fleet
    target: str
    count: int  # GPUs that must be visible, no more and no less
    labels: tuple[str, ...]  # of the runner
    image: str | None
    options: tuple[str, ...]  # of its container
    setup: str  # lines of shell that the run begins with
    command: str  # that starts Python, quoted for a shell
    seconds: int  # of the run, from outside
    expected: str | None  # what the merged table must have; None where the place is optional

    @property
    def minutes(self) -> int:
        """Limit of the whole job."""
        return -(-self.seconds // 60) + _SPARE_MINUTES


def jobs(fleet: Fleet, catalog: Catalog) -> list[Job]:
    """The jobs of a fleet, in the order of its file.

    Raises:
        FleetError: no place has a ``ci`` key.
    """
    found = [_job(place, fleet, catalog) for place in fleet.places if place.ci]
    if not found:
        raise FleetError(
            "no place of the fleet is reached by a CI system",
            place=str(fleet.path),
            remedy="give a place `ci: {runner: [self-hosted, h200]}`",
        )
    return found


@cache
def container_options(platform: Platform) -> tuple[str, ...]:
    """What a container needs to reach GPUs of a platform."""
    return tuple(read_data("containers.yaml")[platform.value]["options"])


def _job(place: Place, fleet: Fleet, catalog: Catalog) -> Job:
    assert place.ci is not None
    image = place.ci.image
    platform = catalog.get(place.target).architecture.platform
    inside = [] if image else shlex.split(place.container or "")
    return Job(
        place=place.name,
        target=place.target,
        count=place.count,
        labels=place.ci.runner,
        image=image,
        options=place.ci.options or (container_options(platform) if image and place.count else ()),
        setup="\n".join([*place.setup, *(f"export {name}={shlex.quote(to)}" for name, to in place.env.items())]),
        command=shlex.join([*inside, place.python]),
        seconds=fleet.seconds.job,
        expected=None if place.optional else place.expected,
    )


def expectation(found: Sequence[Job]) -> str:
    """The targets that the merged table must have, as ``portkit merge --expect`` takes them."""
    return ",".join(dict.fromkeys(job.expected for job in found if job.expected))


def github_entry(job: Job) -> dict[str, Any]:
    """A job as an entry of GitHub's matrix; a container without an image is none, as the runner reads it."""
    container = {"image": job.image, "options": shlex.join(job.options)} if job.image else ""
    return {
        "place": job.place,
        "target": job.target,
        "count": job.count,
        "runner": list(job.labels),
        "container": container,
        "setup": job.setup,
        "command": job.command,
        "minutes": job.minutes,
        "limit": f"{job.seconds}s",
    }
