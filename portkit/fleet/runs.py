"""A run of a fleet on the disk: its jobs, every attempt at each, and what came of it.

``<folder>/<run>/`` holds ``run.json`` (what is to be done), ``attempts.jsonl`` (a line for each
attempt that ended), ``source/`` (what every host got), ``attempt-<n>/`` (ReFrame's own folders) and
``reports/`` (the reports that were taken).
"""

from __future__ import annotations

import enum
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from portkit.errors import FleetError, nearest
from portkit.fleet.site import Fleet, Partition, Place
from portkit.store.journal import new_run_id, utc_now, write_whole

DEFAULT_FOLDER: Final = Path("reports/fleet")
LATEST: Final = "latest"


class Cause(enum.StrEnum):
    """What became of an attempt."""

    DONE = "done"
    ABSENT = "absent"  # no such SKU: the scheduler refused, or the host has other GPUs
    NODE_LOST = "node_lost"
    UNREACHABLE = "unreachable"
    NOT_STARTED = "not_started"  # waited in the queue too long, or was blocked there
    TIMEOUT = "timeout"  # from outside; a cell over its own limit is in the report
    LOCKED = "locked"
    QUARANTINED = "quarantined"  # a process that survived SIGKILL is still there
    SURVIVOR = "survivor"  # a process of this job survived SIGKILL
    NO_ANSWER = "no_answer"  # of the GPUs, at the preflight
    CANCELLED = "cancelled"
    STALE = "stale"  # what came back is of another job
    NO_REPORT = "no_report"
    FAILED = "failed"  # pytest or the preflight, not a cell
    LOST = "lost"  # the job ended, and nobody says how
    RUNNING = "running"  # nobody waits for it any more, and it goes on

    @property
    def good(self) -> bool:
        """Whether the job's report is all that it should be."""
        return self is Cause.DONE

    @property
    def again(self) -> bool:
        """Whether another attempt may do better at once: the host was at fault, and another may be given."""
        return self in (Cause.NODE_LOST, Cause.UNREACHABLE, Cause.QUARANTINED, Cause.LOST)


@dataclass(frozen=True)
class FleetJob:
    """One job: a place, and the node of it where it is to be one."""

    name: str  # unique in the run
    place: str  # name of the place
    target: str
    node: str | None = None


@dataclass(frozen=True)
class Attempt:
    """One attempt at a job, as it ended."""

    job: str
    number: int  # from 1
    nonce: str
    started: str  # ISO 8601, UTC
    ended: str
    cause: Cause
    why: str = ""
    scheduler: Mapping[str, str] = field(default_factory=dict)  # what it said last: state, reason, node, …
    records: int = 0
    cells: int | None = None  # planned; None where no report came
    reports: tuple[str, ...] = ()  # names below ``reports/``
    refused: tuple[str, ...] = ()  # what came back and was not taken, with the reason


@dataclass(frozen=True)
class FleetRun:
    """A run's folder."""

    folder: Path

    @property
    def name(self) -> str:
        """The run's id."""
        return self.folder.name

    @property
    def source(self) -> Path:
        """What every host gets."""
        return self.folder / "source"

    @property
    def reports(self) -> Path:
        """The reports that were taken."""
        return self.folder / "reports"

    @property
    def fleet_file(self) -> Path:
        """The fleet file as it was when the run began."""
        return self.folder / "fleet.yaml"

    def attempt_folder(self, number: int) -> Path:
        """Where ReFrame works in the attempts of one number."""
        return self.folder / f"attempt-{number}"

    def plans(self) -> dict[int, list[dict[str, Any]]]:
        """Number of each attempt that was begun → its jobs, as ReFrame's tests read them; the oldest first."""
        found = {int(path.parent.name.partition("-")[2]): path for path in self.folder.glob("attempt-*/plan.json")}
        return {number: json.loads(path.read_text())["jobs"] for number, path in sorted(found.items())}

    def job_folder(self, number: int, job: FleetJob) -> Path:
        """What is known of one attempt at a job."""
        return self.attempt_folder(number) / "jobs" / job.name

    def jobs(self) -> tuple[FleetJob, ...]:
        """Jobs of the run, in the order of the fleet file."""
        return tuple(FleetJob(**each) for each in self._plan()["jobs"])

    def _plan(self) -> dict[str, Any]:
        try:
            plan: dict[str, Any] = json.loads((self.folder / "run.json").read_text())
        except (OSError, ValueError) as error:
            raise FleetError(f"is no run of a fleet: {error}", place=str(self.folder), remedy="name another") from None
        return plan

    def attempts(self) -> tuple[Attempt, ...]:
        """Every attempt that ended, oldest first."""
        try:
            lines = (self.folder / "attempts.jsonl").read_text().splitlines()
        except FileNotFoundError:
            return ()
        return tuple(_attempt(json.loads(line)) for line in lines if line.strip())

    def add(self, attempt: Attempt) -> None:
        """Keep an attempt that ended."""
        with (self.folder / "attempts.jsonl").open("a") as file:
            file.write(json.dumps(asdict(attempt)) + "\n")

    def last(self) -> dict[str, Attempt]:
        """Job → its newest attempt."""
        return {attempt.job: attempt for attempt in self.attempts()}


def _attempt(fields: dict[str, Any]) -> Attempt:
    listed = {name: tuple(fields[name]) for name in ("reports", "refused")}
    return Attempt(**{**fields, **listed, "cause": Cause(fields["cause"])})


def create_run(folder: Path, fleet: Fleet, places: Sequence[Place]) -> FleetRun:
    """A new run's folder, with its jobs.

    Raises:
        FleetError: the folder can't be written.
    """
    run = FleetRun((folder / new_run_id()).absolute())
    jobs = list(_jobs(places))
    try:
        run.reports.mkdir(parents=True)
        run.fleet_file.write_bytes(fleet.path.read_bytes())
        plan = {"created": utc_now(), "fleet": str(fleet.path.absolute()), "jobs": [asdict(job) for job in jobs]}
        write_whole(run.folder / "run.json", json.dumps(plan, indent=1).encode())
    except OSError as error:
        raise FleetError(
            f"can't be written: {error.strerror}", place=str(folder), remedy="name another folder"
        ) from None
    return run


def _jobs(places: Iterable[Place]) -> Iterator[FleetJob]:
    for place in places:
        nodes = place.nodes if isinstance(place, Partition) else ()
        if not nodes:
            yield FleetJob(place.name, place.name, place.target)
        for node in nodes:
            yield FleetJob(f"{place.name}-{node}", place.name, place.target, node)


def find_run(folder: Path, name: str) -> FleetRun:
    """A run by its id, its folder, or ``latest``.

    Raises:
        FleetError: there is none.
    """
    if (Path(name) / "run.json").is_file():
        return FleetRun(Path(name).absolute())
    known = {each.parent.name: each.parent for each in sorted(folder.glob("*/run.json"))}
    if name == LATEST and known:
        return FleetRun(known[max(known)].absolute())
    if name not in known:
        raise FleetError(
            "no run of a fleet is here" if name == LATEST else f"no run {name!r} of a fleet",
            place=str(folder),
            remedy=nearest(name, known) if known else "start one with `portkit fleet run`",
        )
    return FleetRun(known[name].absolute())


def new_nonce() -> str:
    """A word that no other job has."""
    return secrets.token_hex(16)
