"""Keeps what a check's result depends on, so that a second call of the same is answered by the report of the first.

A worker says which files its process imported for the function, beyond Python, PyTorch, Triton and
portkit. The report stands for a later call where it is of the same call, targets, versions,
environment and folder, and each of these files has its size and time of change. What a function
reads by other ways is not seen: a script is never answered so.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from platformdirs import user_cache_path

from portkit import __version__
from portkit.errors import ReportError
from portkit.model import CaseSource, CellResult, Target, digest
from portkit.plan.check import IMPORTED
from portkit.run.host import relevant_settings
from portkit.store.journal import Report, read_report, write_whole

_MOST = 64
"""Reports that are kept, the newest; older ones go when another comes."""


def own_folder() -> Path:
    """Where reports of checks go unless another folder is named."""
    return user_cache_path("portkit") / "checks"


@dataclass(frozen=True)
class Call:
    """What a check is about."""

    sources: tuple[CaseSource, ...]
    targets: tuple[Target, ...]
    emulate: bool


@dataclass
class Kept:
    """Files that the results of a check depend on."""

    BLOB: ClassVar[str] = IMPORTED
    files: set[str] = field(default_factory=set)
    whole: bool = True  # whether every result said what it depends on
    began: int = field(default_factory=time.time_ns)  # of the check: files that changed since may not be what it saw

    def add(self, result: CellResult) -> None:
        """Take in a result's files; one without costs the whole its use, as does one that our side failed."""
        told = result.blobs.get(self.BLOB)
        if told is None or result.outcome.no_verdict:
            self.whole = False
        else:
            self.files.update(json.loads(told))


def keep(report: Path, call: Call, kept: Kept) -> None:
    """Note that a report answers for a check from now on, if it does."""
    _forget_oldest(report.parent)
    if not kept.whole or any(source.check and source.check.script for source in call.sources):
        return
    states = {name: _state(name) for name in sorted(kept.files)}
    if any(state is None or state[1] > kept.began for state in states.values()):
        return
    note = {"report": report.name, "files": states}
    write_whole(_note(report.parent, call), json.dumps(note).encode())


def kept_report(folder: Path, call: Call) -> Report | None:
    """The report that answers for a check; None where there is none, or something has changed."""
    try:
        note = json.loads(_note(folder, call).read_bytes())
        if any(_state(name) != state for name, state in note["files"].items()):
            return None
        report = read_report(folder / note["report"])
    except (OSError, ValueError, KeyError, TypeError, ReportError):
        return None
    return None if report.partial else report


def _note(folder: Path, call: Call) -> Path:
    return folder / f"{_key(call)}.kept"


def _key(call: Call) -> str:
    versions = [__version__, sys.version, sys.executable, *map(_version, ("torch", "triton"))]
    place = [str(Path.cwd()), os.environ.get("PYTHONPATH", "")]
    return digest([repr(call), versions, place, relevant_settings(os.environ)])


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _state(name: str) -> list[int] | None:
    try:
        found = Path(name).stat()
    except OSError:
        return None
    return [found.st_size, found.st_mtime_ns]


def _forget_oldest(folder: Path) -> None:
    """Remove reports of checks beyond the newest, in the folder of our own alone."""
    if folder != own_folder():
        return
    reports = sorted(folder.glob("*.jsonl"))
    for report in reports[:-_MOST]:
        report.unlink(missing_ok=True)
        shutil.rmtree(report.with_suffix(".blobs"), ignore_errors=True)
    notes = sorted(folder.glob("*.kept"), key=lambda path: path.stat().st_mtime)
    for note in notes[:-_MOST]:
        note.unlink(missing_ok=True)
