"""Carries out a run of a fleet: attempts at its jobs until each is done, or no further attempt is worth it."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from portkit.fleet import scheduler
from portkit.fleet.engine import Say, run_engine
from portkit.fleet.harvest import Found, gather, judge, names
from portkit.fleet.job import job_files, options_of, outer_seconds
from portkit.fleet.mirror import EVERY_SECONDS, Mirror
from portkit.fleet.on_host import end_job, fetch, forget
from portkit.fleet.outcome import MIRROR, where
from portkit.fleet.reframe_site import site
from portkit.fleet.runs import Attempt, FleetJob, FleetRun, new_nonce
from portkit.fleet.site import Fleet, Host, Partition, Reached, read_fleet
from portkit.store.journal import utc_now

_POLL_SECONDS: Final = 5.0

_COMPLETING_SECONDS: Final = 300.0
"""What a job may take from its end until Slurm has its node back; longer where a process of it can't be killed."""

_CANCEL_SECONDS: Final = 120.0
"""What Slurm may take to end a job that it was told to end."""


@dataclass(frozen=True)
class _Sent:
    """A job on its way."""

    job: FleetJob
    place: Reached
    nonce: str
    started: str


class Driver:
    """Sends the jobs of a run, and keeps what comes of them."""

    def __init__(self, run: FleetRun, fleet: Fleet, say: Say, mirror_seconds: float = EVERY_SECONDS) -> None:
        self._run = run
        self._fleet = fleet
        self._say = say
        self._mirror_seconds = mirror_seconds
        self._places = {place.name: place for place in fleet.reachable}

    def carry_out(self, jobs: Sequence[FleetJob]) -> None:
        """Send jobs, and again those whose host was at fault, as often as the fleet file says.

        Raises:
            FleetError: ReFrame can't run.
            KeyboardInterrupt: it was stopped; what the jobs had done by then is kept.
        """
        tries: Counter[str] = Counter()
        while jobs:
            tries.update(job.name for job in jobs)
            attempts = self._attempt(jobs)
            again = {each.job for each in attempts if each.cause.again and tries[each.job] <= self._fleet.retries}
            jobs = [job for job in jobs if job.name in again]

    def take_up(self) -> None:
        """Keep what came of jobs whose driver died.

        Those of Slurm may have gone on without it, and are waited for; others are ended.
        """
        known = {(attempt.job, attempt.number) for attempt in self._run.attempts()}
        jobs = {job.name: job for job in self._run.jobs()}
        for number, entries in self._run.plans().items():
            for entry in entries:
                if (entry["name"], number) not in known:
                    job = jobs[entry["name"]]
                    sent = _Sent(job, self._places[job.place], entry["nonce"], entry["started"])
                    if not isinstance(sent.place, Partition):
                        end_job(sent.place, sent.nonce)
                    self._keep(sent, number, "")

    def _attempt(self, jobs: Sequence[FleetJob]) -> list[Attempt]:
        number = max(self._run.plans(), default=0) + 1
        sent = [_Sent(job, self._places[job.place], new_nonce(), utc_now()) for job in jobs]
        self._prepare(sent, number)
        self._say(f"attempt {number}: {', '.join(each.job.name for each in sent)}")
        failures: Mapping[str, str] = {}
        try:
            with Mirror(self._copies(sent, number), self._mirror_seconds):
                failures = run_engine(self._run.attempt_folder(number), site(self._fleet), self._say)
        except KeyboardInterrupt:
            for each in sent:
                self._end(each, number)
            for each in sent:
                self._keep(each, number, "stopped by the user")
            raise
        return [self._keep(each, number, failures.get(each.job.name, "")) for each in sent]

    def _prepare(self, sent: Iterable[_Sent], number: int) -> None:
        entries = [self._entry(each, number) for each in sent]
        (self._run.attempt_folder(number) / "plan.json").write_text(json.dumps({"jobs": entries}, indent=1))

    def _entry(self, sent: _Sent, number: int) -> dict[str, object]:
        """What ReFrame's tests read of a job, whose files are written here."""
        folder = self._run.job_folder(number, sent.job)
        (folder / "files").mkdir(parents=True)
        for name, content in job_files(self._fleet, sent.place, sent.nonce).items():
            (folder / "files" / name).write_text(content)
        return {
            "name": sent.job.name,
            "place": sent.job.place,
            "nonce": sent.nonce,
            "started": sent.started,
            "folder": str(folder),
            "source": str(self._run.source),
            "options": options_of(sent.place, sent.job),
            "slurm": isinstance(sent.place, Partition),
            "seconds": outer_seconds(self._fleet),
            "pending_seconds": self._fleet.seconds.pending,
        }

    def _copies(self, sent: Iterable[_Sent], number: int) -> dict[Path, tuple[Host, str]]:
        return {
            self._run.job_folder(number, each.job) / MIRROR: (each.place, each.nonce)
            for each in sent
            if isinstance(each.place, Host)
        }

    def _end(self, sent: _Sent, number: int) -> None:
        """End a job that was stopped, whatever ReFrame did about it."""
        slurm_number = self._run.job_folder(number, sent.job) / "number"
        if not isinstance(sent.place, Partition):
            end_job(sent.place, sent.nonce)
        elif slurm_number.exists():
            scheduler.cancel(slurm_number.read_text())

    def _keep(self, sent: _Sent, number: int, failure: str) -> Attempt:
        """What came of an attempt, written down."""
        folder = self._run.job_folder(number, sent.job)
        if isinstance(sent.place, Partition):
            self._wait_for(folder, sent.job.name)
        elif isinstance(sent.place, Host):
            self._fetch_rest(sent.place, sent.nonce, folder)
        if not isinstance(sent.place, Partition):
            forget(sent.place, sent.nonce)
        into = self._run.reports / f"{sent.job.name}.{number}"
        found = gather(
            folder,
            sent.nonce,
            slurm=isinstance(sent.place, Partition),
            by_ssh=isinstance(sent.place, Host),
            failure=failure,
            into=into,
        )
        attempt = _concluded(sent, number, found, into)
        self._run.add(attempt)
        self._say(told(attempt))
        return attempt

    def _wait_for(self, folder: Path, name: str) -> None:
        """Until Slurm says that a job has ended: a controller that was away for a moment makes it seem so.

        One that still waits when its time in the queue is over, or that waits for a node that is gone, is ended;
        one that does not end then, either, is given up.
        """
        if not (folder / "number").exists():
            return
        number = (folder / "number").read_text()
        begin = time.monotonic()
        while scheduler.is_active(said := scheduler.ask(number)):
            waited = time.monotonic() - begin
            if scheduler.is_blocked(said) or waited > self._longest(said):
                (folder / "scheduler.json").write_text(json.dumps(said))
                scheduler.cancel(number)
                if waited > self._longest(said) + _CANCEL_SECONDS:
                    return
            elif waited < _POLL_SECONDS:
                self._say(f"{name}: Slurm's job {number} has not ended, waits for it: {scheduler.text(said)}")
            time.sleep(_POLL_SECONDS)

    def _longest(self, said: scheduler.Said) -> float:
        """Seconds that a job may still wait, run, or come to its end."""
        match scheduler.state(said):
            case "PENDING":
                return self._fleet.seconds.pending
            case "COMPLETING":
                return _COMPLETING_SECONDS
            case _:
                return outer_seconds(self._fleet)

    def _fetch_rest(self, host: Host, nonce: str, folder: Path) -> None:
        """What a host still has of a job whose connection was lost."""
        mirror = folder / MIRROR
        if where(folder, by_ssh=True) == mirror:
            end_job(host, nonce)
            fetch(host, nonce, mirror, blobs=True)


def _concluded(sent: _Sent, number: int, found: Found, into: Path) -> Attempt:
    cause, why = judge(found)
    return Attempt(
        job=sent.job.name,
        number=number,
        nonce=sent.nonce,
        started=sent.started,
        ended=utc_now(),
        cause=cause,
        why=" ".join(why.split()),
        scheduler=found.said,
        records=sum(len(report.records) for report in found.reports),
        cells=max((report.header.cells for report in found.reports), default=None),
        reports=tuple(names(found.reports, into)),
        refused=found.refused,
    )


def told(attempt: Attempt) -> str:
    """An attempt in one line."""
    of = f" of {attempt.cells}" if attempt.cells is not None else ""
    why = f": {attempt.why}" if attempt.why else ""
    return f"{attempt.job}: {attempt.cause}, {attempt.records}{of} records{why}"


def open_jobs(run: FleetRun, chosen: Iterable[str] = ()) -> Iterator[FleetJob]:
    """Jobs that are not done."""
    last, wanted = run.last(), set(chosen)
    for job in run.jobs():
        done = job.name in last and last[job.name].cause.good
        if not done and (not wanted or wanted & {job.target, job.place, job.name}):
            yield job


def fleet_of(run: FleetRun) -> Fleet:
    """The fleet as it was when the run began.

    Raises:
        FleetError: the file in the run's folder was changed and is wrong.
    """
    return read_fleet(run.fleet_file, run.source)
