"""What a run of a fleet comes to: its jobs, the cells that failed by cause, and the exit code."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from portkit.fleet.runs import Attempt, Cause, FleetJob, FleetRun
from portkit.fleet.site import Fleet, Place
from portkit.model import Record
from portkit.store.merge import Dataset

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
        return self.last is None or not (self.last.cause.good or self.tolerates(self.last))

    def tolerates(self, attempt: Attempt) -> bool:
        """Whether an attempt failed only since the place is away, which was declared to be no failure."""
        return self.place.optional and attempt.cause in _ABSENT


def job_states(run: FleetRun, fleet: Fleet) -> tuple[JobState, ...]:
    """Every job of a run."""
    attempts: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in run.attempts():
        attempts[attempt.job].append(attempt)
    places = {place.name: place for place in fleet.places}
    return tuple(JobState(job, places[job.place], tuple(attempts[job.name])) for job in run.jobs())


def expected_targets(states: Sequence[JobState]) -> tuple[str, ...]:
    """What the merged table must have rows of; those that are missing get a column that says so."""
    return tuple(dict.fromkeys(state.place.expected for state in states if state.failed or not _is_absent(state)))


def _is_absent(state: JobState) -> bool:
    return state.last is not None and state.last.cause in _ABSENT


def red_records(states: Sequence[JobState], dataset: Dataset | None) -> tuple[tuple[str, Record], ...]:
    """Job and record of what is neither good nor as the matrix expects, of each job's newest reports.

    A merged row shows one run of a cell; here every job speaks for itself, since a kernel that
    hangs on one of two hosts is a failure.
    """
    jobs = dict(_newest_runs(states))
    records = _every_record(dataset) if dataset else ()
    red = [(jobs[record.run_id], record) for record in records if record.run_id in jobs and _is_red(record)]
    return tuple(sorted(red, key=lambda each: (each[0], each[1].cell.label(each[1].evidence))))


def _newest_runs(states: Sequence[JobState]) -> Iterator[tuple[str, str]]:
    """Run id and job, of the last attempt that brought a report."""
    for state in states:
        brought = [attempt for attempt in state.attempts if attempt.reports]
        for report in brought[-1].reports if brought else ():
            yield PurePosixPath(report).stem, state.job.name


def _every_record(dataset: Dataset) -> Iterator[Record]:
    for row in (*dataset.rows, *dataset.drift):
        yield from row.records


def _is_red(record: Record) -> bool:
    status = record.outcome.status
    return not status.good and not status.skipped and status is not record.expected


def causes(red: Iterable[tuple[str, Record]]) -> Mapping[str, tuple[str, ...]]:
    """Status and cause, with the job → labels of the cells."""
    cells: dict[str, list[str]] = defaultdict(list)
    for job, record in red:
        cells[f"{job}: {_cause(record)}"].append(record.cell.label(record.evidence))
    return {cause: tuple(labels) for cause, labels in cells.items()}


def _cause(record: Record) -> str:
    words = record.outcome.message.splitlines() or [""]
    return f"{record.outcome.status} ({record.outcome.stage}): {words[0]}".rstrip(": ")


def exit_code(states: Sequence[JobState], red: Sequence[tuple[str, Record]]) -> int:
    """0 where all is there and good; what a CI system reads otherwise, as of ``portkit gate``."""
    if any(not record.outcome.no_verdict for _, record in red):
        return EXIT_CELLS
    return EXIT_LOST if red or any(state.failed for state in states) else 0
