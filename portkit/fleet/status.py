"""How a run of a fleet stands, from its folder: also while another process carries it out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from portkit.fleet import scheduler
from portkit.fleet.conclude import JobState
from portkit.fleet.job import OUTCOME, REPORTS
from portkit.fleet.outcome import read_outcome, where
from portkit.fleet.runs import Attempt, FleetRun
from portkit.fleet.site import Host, Partition

COLUMNS: Final = ("job", "target", "attempt", "state", "records", "why")


@dataclass(frozen=True)
class Line:
    """A job as a table shows it."""

    job: str
    target: str
    attempt: int  # 0: none was begun
    state: str
    records: str  # those there are, of those planned
    why: str


def lines(run: FleetRun, states: Sequence[JobState]) -> Iterator[Line]:
    """Each job: every attempt, the last be it over or under way."""
    plans = run.plans()
    for state in states:
        yield from (_ended(state, attempt) for attempt in state.attempts)
        if number := _under_way(plans, state):
            yield _live(run, state, number)
        elif not state.attempts:
            yield Line(state.job.name, state.job.target, 0, "not begun", "0", "")


def _ended(state: JobState, attempt: Attempt) -> Line:
    records = f"{attempt.records}/{attempt.cells}" if attempt.cells is not None else str(attempt.records)
    told = f"{attempt.cause}, optional" if state.tolerates(attempt) else str(attempt.cause)
    return Line(state.job.name, state.job.target, attempt.number, told, records, attempt.why)


def _under_way(plans: Mapping[int, Sequence[Mapping[str, Any]]], state: JobState) -> int | None:
    """Number of an attempt that did not end yet."""
    known = {attempt.number for attempt in state.attempts}
    begun = (number for number, jobs in plans.items() if any(job["name"] == state.job.name for job in jobs))
    return next((number for number in begun if number not in known), None)


def _live(run: FleetRun, state: JobState, number: int) -> Line:
    folder = run.job_folder(number, state.job)
    here = where(folder, by_ssh=isinstance(state.place, Host))
    words = read_outcome(here / OUTCOME)
    records = sum(_records(path) for path in (here / REPORTS).glob("*.jsonl"))
    said = _said(folder) if isinstance(state.place, Partition) else ""
    told = "ended" if "end" in words else words.get("stage", "waits")
    return Line(state.job.name, state.job.target, number, told, str(records), words.get("why", said))


def _said(folder: Path) -> str:
    number = folder / "number"
    return scheduler.text(scheduler.ask(number.read_text())) if number.exists() else ""


def _records(path: Path) -> int:
    with path.open("rb") as file:
        return sum(line.startswith(b'{"kind":"record"') for line in file)
