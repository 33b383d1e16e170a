"""What a run of a fleet comes to: its jobs, the cells that failed by cause, and the exit code."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from portkit.fleet.runs import Attempt, Cause, FleetJob, FleetRun
from portkit.fleet.site import Fleet, Place
from portkit.model import Record
from portkit.store.merge import Dataset, Row

EXIT_CELLS: Final = 1
"""A cell failed, which is the kernel's fault."""

EXIT_LOST: Final = 3
"""No cell failed, but a job or a cell came to no verdict."""

_ABSENT: Final = frozenset((Cause.ABSENT, Cause.UNREACHABLE, Cause.NOT_STARTED))
"""What a place that is declared optional may end with."""


@dataclass(frozen=True)
class JobState:
    """A job with its newest attempt."""

    job: FleetJob
    place: Place
    attempts: tuple[Attempt, ...]  # oldest first

    @property
    def last(self) -> Attempt | None:
        """The newest attempt that ended."""
        return self.attempts[-1] if self.attempts else None

    @property
    def failed(self) -> bool:
        """Whether it is missed: not done, and not absent where that is no failure."""
        if self.last is None:
            return True
        return not (self.last.cause.good or (self.place.optional and self.last.cause in _ABSENT))


def job_states(run: FleetRun, fleet: Fleet) -> tuple[JobState, ...]:
    """Every job of a run."""
    attempts: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in run.attempts():
        attempts[attempt.job].append(attempt)
    places = {place.name: place for place in fleet.places}
    return tuple(JobState(job, places[job.place], tuple(attempts[job.name])) for job in run.jobs())


def expected_targets(states: tuple[JobState, ...]) -> tuple[str, ...]:
    """What the merged table must have rows of; those that are missing get a column that says so."""
    return tuple(dict.fromkeys(state.place.expected for state in states if state.failed or not _is_absent(state)))


def _is_absent(state: JobState) -> bool:
    return state.last is not None and state.last.cause in _ABSENT


def failed_cells(dataset: Dataset) -> Mapping[str, tuple[str, ...]]:
    """Status and cause → labels of the cells, of rows that are neither good nor as the matrix expects."""
    cells: dict[str, list[str]] = defaultdict(list)
    for record in _unexpected(dataset):
        cells[_cause(record)].append(f"{record.cell.label(record.evidence)}")
    return {cause: tuple(labels) for cause, labels in sorted(cells.items())}


def _unexpected(dataset: Dataset) -> Iterator[Record]:
    for row in dataset.rows:
        if _is_red(row):
            yield row.record


def _is_red(row: Row) -> bool:
    status = row.record.outcome.status
    return not status.good and not status.skipped and status is not row.record.expected


def _cause(record: Record) -> str:
    words = record.outcome.message.splitlines() or [""]
    return f"{record.outcome.status} ({record.outcome.stage}): {words[0]}".rstrip(": ")


def exit_code(states: tuple[JobState, ...], dataset: Dataset | None) -> int:
    """0 where all is there and good; what a CI system reads otherwise, as of ``portkit gate``."""
    red = [row.record for row in dataset.rows if _is_red(row)] if dataset else []
    if any(not record.outcome.no_verdict for record in red):
        return EXIT_CELLS
    return EXIT_LOST if red or any(state.failed for state in states) else 0
