"""What a fleet file may hold: the keys, their types and the rules of single values.

What ties two parts of the file together, or needs the catalogue, is in :mod:`portkit.fleet.site`.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field, model_validator

from portkit.fleet.ci_format import WorkflowFormat
from portkit.plan.matrix_format import (
    Choice,
    Given,
    Rules,
    Section,
    TargetName,
    Text,
    TierName,
    fitting,
    known_version,
    mistake,
)

FORMAT_VERSION = 1
"""Version of the file format; a file that says another is refused."""

REACHED_BY: Final = ("partition", "host", "local", "ci")
"""Keys that say how a place is reached: by Slurm, by ssh, not at all since it is this host, by a CI system alone."""

_MOST_SECONDS = 30 * 86_400


_place_name = fitting(
    "name of a place",
    r"[A-Za-z_][A-Za-z0-9_-]{0,62}",  # what ReFrame takes for a partition
    "use letters, digits, _ and -, a letter first, such as h200-node7",
)
_destination = fitting(
    "host",
    r"[A-Za-z0-9_][A-Za-z0-9_.@:-]*",  # one that begins with a dash would be an option of ssh
    "write what `ssh` takes: a name of its configuration, or user@host",
)
_partition = fitting("partition of Slurm", r"[A-Za-z0-9_][A-Za-z0-9_.,-]*", "write a name that `sinfo` shows")
_node = fitting("node of Slurm", r"[A-Za-z0-9_][A-Za-z0-9_.-]*", "write one name that `sinfo -N` shows")
_resource = fitting(
    "generic resource", r"[A-Za-z0-9_]+(:[A-Za-z0-9_.-]+)?", "write it without a count, such as gpu or gpu:h200"
)
_variable = fitting("name of a variable", r"[A-Za-z_][A-Za-z0-9_]*", "use letters, digits and _, no digit first")


def _relative(path: str) -> str:
    if path.startswith("/") or ".." in path.split("/"):
        raise mistake(f"{path[:80]!r} is not below the folder of the fleet file", "name files below it alone")
    return path


def _variables(given: dict[str, str]) -> dict[str, str]:
    for name in given:
        _variable(name)
    return given


Seconds = Annotated[int, Field(gt=0, le=_MOST_SECONDS)]
Index = Annotated[int, Field(ge=0, le=1023)]


class CiFormat(Section):
    """How a CI system reaches a place; ``portkit ci`` reads it."""

    runner: Choice[Text] = Field(description="labels of the runner")
    image: Given[Text] = Field(default=None, description="container image of the job")
    options: Rules[Text] = Field(default=[], description="options of the container")


class SecondsFormat(Section):
    """Limits of time."""

    cell: Seconds = Field(default=900, description="one cell, all stages together")
    job: Seconds = Field(default=14_400, description="one job on a host; from outside, by timeout -k")
    pending: Seconds = Field(default=86_400, description="a job that waits in Slurm's queue")
    lock: Seconds = Field(default=600, description="wait for a GPU that another job has locked")


class PlaceFormat(Section):
    """Where GPUs of one SKU are, and how they are reached."""

    target: TargetName
    name: Given[Annotated[str, AfterValidator(_place_name)]] = None
    partition: Given[Annotated[str, AfterValidator(_partition)]] = None
    host: Given[Annotated[str, AfterValidator(_destination)]] = None
    local: Given[bool] = None
    count: Annotated[int, Field(ge=0, le=1024)] = Field(default=1, description="GPUs of a job; 0: builds alone")
    nodes: Given[Choice[Annotated[str, AfterValidator(_node)]]] = Field(
        default=None, description="names of nodes, a job on each; without them one job on any node"
    )
    resource: Given[Annotated[str, AfterValidator(_resource)]] = Field(
        default=None, description="Slurm: generic resource"
    )
    scheduler: Given[str] = Field(default=None, description="slurm (needs accounting) or squeue")
    devices: Given[Choice[Index]] = Field(default=None, description="GPUs of the host that may be used")
    access: Rules[Text] = Field(default=[], description="options of sbatch or ssh")
    python: Given[Text] = Field(default=None, description="interpreter on the host, or in the container")
    container: Given[Text] = Field(default=None, description="command that runs another inside a container")
    setup: Rules[Text] = Field(default=[], description="lines of shell before the job")
    env: Annotated[dict[str, str], AfterValidator(_variables)] = Field(default={})
    optional: bool = Field(default=False, description="whether its absence is no failure")
    ci: Given[CiFormat] = None

    @model_validator(mode="after")
    def _one_way(self) -> PlaceFormat:
        ways = [key for key in ("partition", "host", "local") if getattr(self, key)]
        if len(ways) > 1:
            raise mistake(
                f"is reached in {len(ways)} ways: {' and '.join(ways)}", "keep one, and write a place for each"
            )
        if not ways and self.ci is None:
            raise mistake("is reached in no way", f"add one of {', '.join(REACHED_BY)}")
        return self

    @model_validator(mode="after")
    def _keys_of_the_way(self) -> PlaceFormat:
        for key, ways in _ONLY_OF.items():
            if getattr(self, key) is not None and not any(getattr(self, way) for way in ways):
                raise mistake(f"has {key!r}, which only a place with {' or '.join(ways)} can have", f"remove {key!r}")
        if self.scheduler not in (None, "slurm", "squeue"):
            raise mistake(f"has an unknown scheduler {self.scheduler[:40]!r}", "write slurm or squeue")
        if self.devices is not None and len(self.devices) != self.count:
            raise mistake(f"has count {self.count} and {len(self.devices)} devices", "make the two agree")
        return self


_ONLY_OF: Final[dict[str, tuple[str, ...]]] = {
    "nodes": ("partition",),
    "resource": ("partition",),
    "scheduler": ("partition",),
    "devices": ("host", "local"),
}


class FleetFormat(Section):
    """A whole fleet file."""

    version: Annotated[int, AfterValidator(known_version(FORMAT_VERSION))] = Field(
        default=FORMAT_VERSION, json_schema_extra={"const": FORMAT_VERSION}
    )
    matrix: Annotated[Text, AfterValidator(_relative)] = "matrix.yaml"
    files: Rules[Annotated[Text, AfterValidator(_relative)]] = Field(
        default=[], description="what every host gets beside the matrix and the folders of its kernels"
    )
    tier: Given[TierName] = None
    options: Rules[Text] = Field(default=[], description="more options of pytest --benchmark")
    retries: Annotated[int, Field(ge=0, le=10)] = Field(default=1, description="new attempts after a lost node")
    seconds: SecondsFormat = SecondsFormat()
    ci: WorkflowFormat = Field(default=WorkflowFormat(), description="workflows that portkit ci writes")
    places: Annotated[list[PlaceFormat], Field(min_length=1)]
