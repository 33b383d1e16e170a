"""How a run of a fleet stands, from its folder: also while another process carries it out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from portkit.fleet import scheduler
from portkit.fleet.conclude import JobState
from portkit.fleet.job import OUTCOME, REPORTS
from portkit.fleet.outcome import read_outcome
from portkit.fleet.runs import Attempt, FleetRun
from portkit.fleet.site import Partition

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
    for state in states:
        yield from (_ended(state, attempt) for attempt in state.attempts)
        if number := _under_way(run, state):
            yield _live(run, state, number)
        elif not state.attempts:
            yield Line(state.job.name, state.job.target, 0, "not begun", "0", "")


def _ended(state: JobState, attempt: Attempt) -> Line:
    records = f"{attempt.records}/{attempt.cells}" if attempt.cells is not None else str(attempt.records)
    told = f"{attempt.cause}, optional" if state.tolerates(attempt) else str(attempt.cause)
    return Line(state.job.name, state.job.target, attempt.number, told, records, attempt.why)


def _under_way(run: FleetRun, state: JobState) -> int | None:
    """Number of an attempt that did not end yet."""
    known = {attempt.number for attempt in state.attempts}
    for plan in run.folder.glob("attempt-*/plan.json"):
        number = int(plan.parent.name.partition("-")[2])
        entries = json.loads(plan.read_text())["jobs"]
        if number not in known and any(entry["name"] == state.job.name for entry in entries):
            return number
    return None


def _live(run: FleetRun, state: JobState, number: int) -> Line:
    folder = run.job_folder(number, state.job)
    stage = folder / "stage"
    here = Path(stage.read_text()) if stage.exists() else folder
    if not (here / OUTCOME).exists():
        here = folder / "mirror"
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
