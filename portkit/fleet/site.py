"""Fleet file → :class:`Fleet`: which SKU is where, and how a job gets there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from portkit.document import Document, Kind, read_document
from portkit.errors import FleetError, nearest
from portkit.fleet.ci_format import WorkflowFormat
from portkit.fleet.fleet_format import CiFormat, FleetFormat, PlaceFormat, SecondsFormat
from portkit.plan.matrix import read_matrix
from portkit.plan.mistakes import first_mistake
from portkit.targets.catalog import load_catalog

_FILE: Final = Kind("fleet file", FleetError, "`places:`", "portkit fleet init")


@dataclass(frozen=True)
class Ci:
    """How a CI system reaches a place."""

    runner: tuple[str, ...]  # labels
    image: str | None  # of the job's container
    options: tuple[str, ...]  # of that container


@dataclass(frozen=True)
class Place:
    """GPUs of one SKU that only a CI system reaches; its subclasses are reached by ``portkit fleet`` too."""

    name: str  # unique in the file
    target: str
    count: int  # GPUs of a job, all of the target; 0: the host builds and interprets alone
    optional: bool  # whether its absence is no failure
    python: str  # interpreter on the host, or in the container
    container: str | None  # command that runs another inside a container
    setup: tuple[str, ...]  # lines of shell before the job
    env: Mapping[str, str]
    access: tuple[str, ...]  # options of sbatch or ssh
    ci: Ci | None
    place: str  # file and line, for messages

    @property
    def expected(self) -> str:
        """What the merged table must have of it: rows of the target, measured ones where it has GPUs."""
        return f"{self.target}:measured" if self.count else self.target


@dataclass(frozen=True)
class Partition(Place):
    """Nodes of a Slurm cluster."""

    partition: str
    resource: str | None  # generic resource without its count, such as gpu:h200
    nodes: tuple[str, ...]  # a job on each of them; none: one job on any
    scheduler: str  # ReFrame's backend: slurm, which asks sacct, or squeue


@dataclass(frozen=True)
class Host(Place):
    """A host over ssh."""

    host: str  # as ssh takes it
    devices: tuple[int, ...]  # GPUs of the host that the job may use, and locks


@dataclass(frozen=True)
class Local(Place):
    """This host."""

    devices: tuple[int, ...]


Reached = Partition | Host | Local
"""A place that ``portkit fleet`` reaches itself."""


@dataclass(frozen=True)
class Fleet:
    """A whole fleet file."""

    path: Path
    folder: Path  # what ``matrix`` and ``files`` are relative to
    matrix: str  # relative to the file's folder, as are the files
    files: tuple[str, ...]  # what every host gets beside the matrix and its kernels' folders
    tier: str | None
    options: tuple[str, ...]  # more options of pytest --benchmark
    retries: int  # new attempts after a lost node
    seconds: SecondsFormat
    places: tuple[Place, ...] = field(default=())
    ci: WorkflowFormat = field(default_factory=WorkflowFormat)  # workflows that ``portkit ci`` writes

    @property
    def reachable(self) -> tuple[Reached, ...]:
        """Places that ``portkit fleet`` reaches itself."""
        return tuple(place for place in self.places if isinstance(place, Reached))

    @property
    def targets(self) -> tuple[str, ...]:
        """Every target of the file, in its order."""
        return tuple(dict.fromkeys(place.target for place in self.places))


def read_fleet(path: Path, folder: Path | None = None) -> Fleet:
    """Read and check a fleet file.

    Args:
        path: of the file.
        folder: what its files are relative to; the file's own by default.

    Raises:
        FleetError: the first mistake of the file, with its line, key and remedy.
        MatrixError: a target is none of the built-in ones, and the matrix that may add it is wrong.
        CatalogError: a targets file of that matrix is wrong.
    """
    document = read_document(path, _FILE)
    fleet_file = _validated(document)
    folder = (folder or path.parent).resolve()
    _check_targets(fleet_file, document, folder / fleet_file.matrix)
    names = _names(fleet_file.places, document)
    return Fleet(
        path=path,
        folder=folder,
        matrix=fleet_file.matrix,
        files=tuple(fleet_file.files),
        tier=fleet_file.tier,
        options=tuple(fleet_file.options),
        retries=fleet_file.retries,
        seconds=fleet_file.seconds,
        ci=fleet_file.ci,
        places=tuple(
            _place(entry, name, document.place(("places", index)))
            for index, (entry, name) in enumerate(zip(fleet_file.places, names, strict=True))
        ),
    )


def _validated(document: Document) -> FleetFormat:
    try:
        return FleetFormat.model_validate(document.data)
    except ValidationError as error:
        raise first_mistake(error, document, FleetError, _keys_beside, "docs/fleet.md") from None


def _keys_beside(location: Sequence[str | int]) -> Iterable[str]:
    """Keys that the section of an unknown key knows."""
    if "ci" in location[:-1]:
        return WorkflowFormat.model_fields if location[0] == "ci" else CiFormat.model_fields
    if location[0] == "places" and len(location) > 1:
        return PlaceFormat.model_fields
    return FleetFormat.model_fields if len(location) == 1 else SecondsFormat.model_fields


def _check_targets(fleet_file: FleetFormat, document: Document, matrix: Path) -> None:
    catalog = load_catalog()
    if any(entry.target not in catalog for entry in fleet_file.places) and matrix.is_file():
        catalog = load_catalog([Path(name) for name in read_matrix(matrix).target_files])
    for index, entry in enumerate(fleet_file.places):
        if entry.target not in catalog:
            raise FleetError(
                f"unknown target {entry.target!r}",
                place=document.place(("places", index, "target")),
                remedy=nearest(entry.target, [target.name for target in catalog]),
            )


def _names(entries: Sequence[PlaceFormat], document: Document) -> list[str]:
    """The places' names, each its own.

    Raises:
        FleetError: two places have one name.
    """
    names: dict[str, int] = {}
    for index, entry in enumerate(entries):
        name = entry.name or _given_name(entry)
        if name in names:
            raise FleetError(
                f"two places are named {name!r}, here and at line {document.line(('places', names[name]))}",
                place=document.place(("places", index)),
                remedy="give one of them another `name`",
            )
        names[name] = index
    return list(names)


def _given_name(entry: PlaceFormat) -> str:
    where = entry.partition or entry.host or ("local" if entry.local else "ci")
    return re.sub(r"[^A-Za-z0-9_-]+", "-", f"{entry.target}-{where}")[:63]


def _place(entry: PlaceFormat, name: str, where: str) -> Place:
    common: dict[str, Any] = {
        "name": name,
        "target": entry.target,
        "count": entry.count,
        "optional": entry.optional,
        "python": entry.python or "python3",
        "container": entry.container,
        "setup": tuple(entry.setup),
        "env": dict(entry.env),
        "access": tuple(entry.access),
        "ci": entry.ci and Ci(tuple(entry.ci.runner), entry.ci.image, tuple(entry.ci.options)),
        "place": where,
    }
    devices = tuple(entry.devices or range(entry.count))
    if entry.partition:
        resource = entry.resource or ("gpu" if entry.count else None)
        return Partition(
            **common,
            partition=entry.partition,
            resource=resource,
            nodes=tuple(entry.nodes or ()),
            scheduler=entry.scheduler or "squeue",
        )
    if entry.host:
        return Host(**common, host=entry.host, devices=devices)
    return Local(**common, devices=devices) if entry.local else Place(**common)


def chosen(fleet: Fleet, targets: Iterable[str]) -> Iterator[Reached]:
    """Places of these targets, or of all where none is named.

    Raises:
        FleetError: no place has such a target or name.
    """
    wanted = tuple(targets)
    known = {name for place in fleet.reachable for name in (place.target, place.name)}
    for name in wanted:
        if name not in known:
            raise FleetError(
                f"no place of the fleet has the target {name!r}", place=str(fleet.path), remedy=nearest(name, known)
            )
    for place in fleet.reachable:
        if not wanted or place.target in wanted or place.name in wanted:
            yield place
