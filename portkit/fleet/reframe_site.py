"""ReFrame's site configuration of a fleet: one system, a partition a place."""

from __future__ import annotations

import io
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ruamel.yaml import YAML

from portkit.fleet.site import Fleet, Host, Local, Partition, Reached

SYSTEM: Final = "portkit"

SSH_OPTIONS: Final = (
    "-o ConnectTimeout=20",
    "-o ServerAliveInterval=15",  # a host that lost its power says nothing: without these ssh waits for good
    "-o ServerAliveCountMax=4",
)


def site(fleet: Fleet) -> dict[str, Any]:
    """What ``reframe -C`` reads, for every place that is reached without a CI system."""
    return {
        "systems": [
            {
                "name": SYSTEM,
                "descr": f"places of {fleet.path.name}",
                "hostnames": [".*"],
                "modules_system": "nomod",
                "partitions": [_partition(place) for place in fleet.reachable],
            }
        ],
        "general": [{"poll_rate_max": 2, "poll_rate_min": _slowest_rate(fleet), "purge_environment": False}],
        "storage": [{"enable": False}],
        "logging": [{"handlers": [], "handlers$": [_ON_THE_SCREEN], "handlers_perflog": []}],
    }


_ON_THE_SCREEN: Final[Mapping[str, str]] = {
    "type": "stream",
    "name": "stdout",
    "level": "info",
    "format": "%(message)s",
}


def _slowest_rate(fleet: Fleet) -> float:
    """Questions a second, when nothing happens for long: a Slurm serves many others."""
    return 0.1 if any(isinstance(place, Partition) for place in fleet.reachable) else 1.0


def site_text(configuration: Mapping[str, Any]) -> str:
    """The file of a configuration, in YAML."""
    text = io.StringIO()
    yaml = YAML(typ="safe")
    yaml.default_flow_style = False
    yaml.dump(dict(configuration), text)
    return text.getvalue()


def _partition(place: Reached) -> dict[str, Any]:
    common = {"name": place.name, "descr": place.target, "launcher": "local", "environs": ["builtin"]}
    return common | _backend(place)


def _backend(place: Reached) -> dict[str, Any]:
    match place:
        case Partition():
            return {"scheduler": place.scheduler, "access": slurm_options(place), "max_jobs": max(1, len(place.nodes))}
        case Host():
            return {
                "scheduler": "ssh",
                "access": ssh_options(place),
                "sched_options": {"ssh_hosts": [place.host]},
                "max_jobs": 1,
            }
        case Local():
            return {"scheduler": "local", "max_jobs": 1}


def slurm_options(place: Partition) -> list[str]:
    """Options of sbatch. A job whose node is lost is not put back in the queue: the loss would be seen by nobody."""
    resource = [f"--gres={place.resource}:{place.count}"] if place.resource else []
    return [f"--partition={place.partition}", "--no-requeue", *resource, *place.access]


def ssh_options(place: Host) -> list[str]:
    """Options of ssh; those of the fleet file come first, and ssh takes the first of each."""
    return [*place.access, *SSH_OPTIONS]


def ssh_command(place: Host, command: Sequence[str]) -> list[str]:
    """A command of one's own on the host, with the same options."""
    options = [word for option in ssh_options(place) for word in shlex.split(option)]
    return ["ssh", "-o", "BatchMode=yes", *options, place.host, shlex.join(command)]
