"""What came of an attempt at a job: its own word, the scheduler's, ReFrame's, and the reports that are truly of it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from portkit.errors import ReportError
from portkit.fleet import scheduler
from portkit.fleet.job import OUTCOME, REPORTS
from portkit.fleet.outcome import read_outcome, where
from portkit.fleet.runs import Cause
from portkit.store.journal import Report, read_report

_ABSENT: Final = re.compile(
    r"invalid partition|invalid gres|requested node configuration is not available|invalid node name"
    r"|invalid generic resource|more processors requested than permitted",
    re.IGNORECASE,
)
"""What sbatch says where there is no such SKU."""

_WAITED: Final = re.compile(r"maximum pending time|job cancelled because it was blocked", re.IGNORECASE)


@dataclass(frozen=True)
class Found:
    """All that is known of an attempt when it is over."""

    nonce: str
    outcome: Mapping[str, str] = field(default_factory=dict)  # the job's own words
    said: Mapping[str, str] = field(default_factory=dict)  # the scheduler's
    failure: str = ""  # ReFrame's
    by_ssh: bool = False
    overdue: bool = False  # the connection was ended from our side
    reports: tuple[Report, ...] = ()  # those of this job
    refused: tuple[str, ...] = ()


_SPAWNED: Final = re.compile(r"^spawned process error: .*--- stderr --- *(.+?) *--- stderr ---$")
"""What ReFrame makes of a command that failed; what the command said stands in it."""


def gather(folder: Path, nonce: str, *, slurm: bool, by_ssh: bool, failure: str, into: Path) -> Found:
    """Look at what an attempt left, and take its reports.

    Args:
        folder: of the attempt at the job.
        nonce: its word.
        slurm: whether a Slurm has it.
        by_ssh: whether it ran on a host over ssh.
        failure: ReFrame's words, if it failed.
        into: folder that reports are moved to.
    """
    place = where(folder, by_ssh=by_ssh)
    taken, refused = take_reports(place / REPORTS, nonce, into)
    return Found(
        nonce=nonce,
        outcome=read_outcome(place / OUTCOME),
        said=_said(folder) if slurm else {},
        failure="" if failure.startswith("sanity error") else _SPAWNED.sub(r"\1", failure),  # that one is our own
        by_ssh=by_ssh,
        overdue=(folder / "overdue").exists(),
        reports=tuple(taken),
        refused=tuple(refused),
    )


def _said(folder: Path) -> dict[str, str]:
    """The scheduler's newest word; where it forgot the job, what it said when the job ended."""
    number = folder / "number"
    told = folder / "scheduler.json"
    kept: dict[str, str] = json.loads(told.read_text()) if told.exists() else {}
    return (scheduler.ask(number.read_text()) if number.exists() else {}) or kept


def take_reports(folder: Path, nonce: str, into: Path) -> tuple[list[Report], list[str]]:
    """Move a job's reports to their place; those of another job, and what is none, are refused with the reason."""
    taken, refused = [], []
    for path in sorted(folder.glob("*.jsonl")):
        try:
            report = read_report(path)
        except ReportError as error:
            refused.append(f"{path.name}: {error.message}")
            continue
        if report.header.nonce != nonce:
            refused.append(f"{path.name}: is of another job: {_of_whom(report.header.nonce)}")
            continue
        into.mkdir(parents=True, exist_ok=True)
        for each in (path, path.with_suffix(".blobs")):
            if each.exists():
                shutil.move(each, into / each.name)
        taken.append(report)
    return taken, refused


def _of_whom(nonce: str | None) -> str:
    return f"its word is {nonce[:40]}" if nonce else "no fleet asked for it"


def judge(found: Found) -> tuple[Cause, str]:
    """What became of the attempt, and in whose words."""
    words = found.outcome
    if words and words.get("nonce") != found.nonce:
        return Cause.STALE, f"what came back is of another job, whose word is {words.get('nonce', 'missing')[:40]}"
    if not words:
        return _never_began(found)
    if "cause" not in words or words["cause"] == Cause.CANCELLED:
        return _cut_short(found)
    cause = Cause(words["cause"]) if words["cause"] in set(Cause) else Cause.FAILED
    return _judge_reports(found) if cause is Cause.DONE else (cause, words.get("why", ""))


def _judge_reports(found: Found) -> tuple[Cause, str]:
    """Of a job that says it is done."""
    if found.refused:
        return Cause.STALE, "; ".join(found.refused)
    if not found.reports:
        return Cause.NO_REPORT, f"pytest ended with code {found.outcome.get('code', 'unknown')} and left no report"
    partial = [report.partial for report in found.reports if report.partial]
    return (Cause.FAILED, f"the report is partial: {partial[0]}") if partial else (Cause.DONE, "")


def _never_began(found: Found) -> tuple[Cause, str]:
    """Of a job that left no word."""
    said = scheduler.text(found.said)
    words = "; ".join(text for text in (found.failure, said) if text)
    if _ABSENT.search(found.failure):
        return Cause.ABSENT, words
    if _WAITED.search(found.failure) or scheduler.state(found.said) == "CANCELLED":
        return Cause.NOT_STARTED, words
    if found.by_ssh and not found.overdue:
        return Cause.UNREACHABLE, words or "the host did not answer"
    return _by_state(found, words or "the job left no word")


def _cut_short(found: Found) -> tuple[Cause, str]:
    """Of a job that began and did not come to its end."""
    stage = f"in the stage {found.outcome.get('stage', 'unknown')}"
    if found.overdue:
        return Cause.TIMEOUT, f"gave no sign within its limit, {stage}; the connection was ended"
    if found.by_ssh:
        return Cause.NODE_LOST, f"the connection to the host was lost {stage}"
    own = found.outcome.get("why", "")
    words = "; ".join(text for text in (scheduler.text(found.said), own) if text)
    return _by_state(found, f"{words or 'the job ended without a word'}, {stage}")


def _by_state(found: Found, words: str) -> tuple[Cause, str]:
    state = scheduler.state(found.said)
    if scheduler.is_active(found.said):
        return Cause.RUNNING, words
    if state in scheduler.LOST or _node_is_gone(found.said):
        return Cause.NODE_LOST, words
    if state in ("TIMEOUT", "DEADLINE"):
        return Cause.TIMEOUT, words
    return (Cause.CANCELLED if state == "CANCELLED" or "cause" in found.outcome else Cause.LOST), words


def _node_is_gone(said: Mapping[str, str]) -> bool:
    return said.get("node_state", "").startswith("DOWN") or "NOT_RESPONDING" in said.get("node_state", "")


def names(reports: tuple[Report, ...], into: Path) -> Iterator[str]:
    """Reports as they are named below the run's folder of reports."""
    yield from (f"{into.name}/{Path(report.path).name}" for report in reports)
