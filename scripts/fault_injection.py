#!/usr/bin/env python3
"""Kills workers, supervisors and pytest at random moments of a real run, and resumes until it is whole.

    .venv/bin/python scripts/fault_injection.py [--kills 200] [--seed 1] [--matrix FILE] [-- PYTEST ARGUMENTS]

Checked after every kill and every run: the report reads; what it held before is still its
beginning, so no finished record is lost; no cell stands in it twice, except where its
earlier record was no verdict on the kernel; every resumption is accepted. At the end the
report must be whole and say of each cell what a run without kills says. A run that ends
before the kills are used up is followed by a new one. Nothing may be left running.

Reports go to a folder of their own. A script to run by hand: 200 kills take some minutes.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from portkit.errors import ReportError
from portkit.model import Status
from portkit.run.resume import is_repeated
from portkit.store.journal import Report, read_report

ROOT = Path(__file__).resolve().parent.parent
VICTIMS = ("worker", "worker", "supervisor", "pytest")
"""Each has its turn, in random order, then all again; workers twice, for there are more of them."""

LONGEST_PAUSE = 2.0
"""Seconds between two kills, at most; uniform, so that every moment of a run has its turn."""

Outcomes = dict[str, Status]


@dataclass
class Figures:
    """What was done to the runs, and what came of it."""

    kills: collections.Counter[str] = field(default_factory=collections.Counter)
    pytests: int = 0
    runs: int = 0
    resumptions: int = 0
    records: int = 0
    repeated: int = 0

    def __str__(self) -> str:
        kills = ", ".join(f"{count} {victim}" for victim, count in sorted(self.kills.items()))
        return (
            f"{sum(self.kills.values())} kills ({kills}); {self.runs} runs brought to their end by {self.pytests} "
            f"starts of pytest; {self.resumptions} resumptions, {self.records} records in the end, "
            f"{self.repeated} of them run again; none lost, none doubled"
        )


class BrokenPromiseError(AssertionError):
    """The promise that this script is about does not hold."""


@dataclass
class Injection:
    """Kills in runs of one matrix.

    Args:
        matrix: matrix file; runs begin in its folder.
        reports: folder of their reports.
        kills: how many.
        seed: of victims and moments.
        arguments: further arguments of pytest.
    """

    matrix: Path
    reports: Path
    kills: int
    seed: int
    arguments: Sequence[str] = ()
    figures: Figures = field(default_factory=Figures)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.bag: list[str] = []  # victims whose turn is still to come
        self.seen = b""  # whole lines of the report, as last looked at

    def run(self) -> Figures:
        """Do it all.

        Raises:
            BrokenPromiseError: a record was lost or doubled, or a run could not go on.
        """
        expected = self._undisturbed()
        while self.kills:
            self._one_run(expected)
        return self.figures

    def _undisturbed(self) -> Outcomes:
        folder = self.reports / "undisturbed"
        self._finish(self._start(folder, resume=False))
        return outcomes(self._report(folder))

    def _one_run(self, expected: Outcomes) -> None:
        """One run, killed and resumed until it is whole."""
        folder = self.reports / f"run{self.figures.runs}"
        self.figures.runs += 1
        self.seen = b""
        while True:
            resume = any(folder.glob("*.jsonl"))
            process = self._start(folder, resume=resume)
            self._torment(process, folder)
            self._finish(process)
            if any(folder.glob("*.jsonl")):
                report = self._look(folder)
                left = [record for record in report.records if is_repeated(record)]
                if report.partial is None and (not left or not self.kills) and outcomes(report) == expected:
                    break
            if not self.kills and self.figures.pytests > 4 * sum(self.figures.kills.values()) + 10:
                raise BrokenPromiseError(f"no end in sight: {report.partial}, {outcomes(report)}")
        self.figures.resumptions += len(report.resumes)
        self.figures.records += len(report.records)
        self.figures.repeated += sum(each.repeated for each in report.resumes)

    def _start(self, folder: Path, *, resume: bool) -> subprocess.Popen[bytes]:
        self.figures.pytests += 1
        command = [sys.executable, "-m", "pytest", "-q", "--benchmark", "-p", "no:cacheprovider", str(self.matrix)]
        command += ["--portkit-report", str(folder), *self.arguments, *(["--portkit-resume"] if resume else [])]
        self.output = tempfile.TemporaryFile()  # noqa: SIM115  # read when it ends
        return subprocess.Popen(command, cwd=self.matrix.parent, stdout=self.output, stderr=subprocess.STDOUT)

    def _torment(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        """Kill until the run ends or nobody may be killed any more."""
        while self.kills:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self.random.uniform(0, LONGEST_PAUSE))
                return
            if not self.bag:
                self.bag = self.random.sample(VICTIMS, len(VICTIMS))
            pids = victims(self.bag[-1], process.pid)
            if not pids:  # not yet, or no longer
                self.bag.insert(0, self.bag.pop())
                continue
            if any(folder.glob("*.jsonl")):
                self._look(folder)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.random.choice(pids), signal.SIGKILL)
                self.kills -= 1
                self.figures.kills[self.bag.pop()] += 1

    def _finish(self, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        self.output.seek(0)
        text = self.output.read().decode(errors="replace")
        self.output.close()
        if code not in (0, 1, -signal.SIGKILL):  # 1 is pytest's for red cells
            raise BrokenPromiseError(f"pytest ended with {code}:\n{text[-4000:]}")

    def _look(self, folder: Path) -> Report:
        """Read the report, and hold it against what it was."""
        (path,) = folder.glob("*.jsonl")
        content = path.read_bytes()
        if not content.startswith(self.seen):
            raise BrokenPromiseError(f"{path}: a line that was there is gone")
        self.seen = content[: content.rfind(b"\n") + 1]
        try:
            return read_report(path)  # refuses a cell that stands twice
        except ReportError as error:
            raise BrokenPromiseError(error.render()) from error

    def _report(self, folder: Path) -> Report:
        (path,) = folder.glob("*.jsonl")
        report = read_report(path)
        if report.partial:
            raise BrokenPromiseError(f"a run without kills is not whole: {report.partial}")
        return report


def outcomes(report: Report) -> Outcomes:
    """Label of each cell → its status."""
    return {record.cell.label(record.evidence): record.outcome.status for record in report.records}


def victims(kind: str, pytest: int) -> list[int]:
    """Processes of a run by what they are: pytest, supervisors (its children), workers (theirs)."""
    if kind == "pytest":
        return [pytest]
    supervisors = [pid for pid in children(pytest) if b"portkit.run.supervisor" in command_line(pid)]
    if kind == "supervisor":
        return supervisors
    return [worker for supervisor in supervisors for worker in children(supervisor)]


def children(pid: int) -> list[int]:
    """Processes that a process has started and that still run."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def command_line(pid: int) -> bytes:
    """What a process was started with; empty once it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def left_running(reports: Path) -> list[int]:
    """Processes of the runs that outlived them."""
    until = time.monotonic() + 10
    while True:
        found = [int(path.name) for path in Path("/proc").glob("[0-9]*") if started_by(path, reports)]
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.2)


def started_by(process: Path, reports: Path) -> bool:
    """Whether a process has our folder in its environment."""
    try:
        return f"PORTKIT_FAULTS={reports}".encode() in (process / "environ").read_bytes()
    except OSError:
        return False


def inject(matrix: Path, reports: Path, kills: int, seed: int, arguments: Sequence[str] = ()) -> Figures:
    """Kill, resume and check; see the module's text.

    Raises:
        BrokenPromiseError: a record was lost or doubled, a run could not go on, or a process is left.
    """
    os.environ["PORTKIT_FAULTS"] = str(reports)  # inherited by all that the runs start
    try:
        figures = Injection(matrix, reports, kills, seed, arguments).run()
    finally:
        del os.environ["PORTKIT_FAULTS"]
    if left := left_running(reports):
        raise BrokenPromiseError(f"still running: {left}")
    return figures


def main() -> int:
    """Run it as the command line says and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--kills", type=int, default=200, help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of victims and moments (%(default)s)")
    parser.add_argument("--matrix", type=Path, default=ROOT / "matrix.yaml", help="matrix file (%(default)s)")
    parser.add_argument("arguments", nargs="*", help="further arguments of pytest, after --")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="portkit-faults-") as folder:
        try:
            figures = inject(options.matrix.resolve(), Path(folder), options.kills, options.seed, options.arguments)
        except BrokenPromiseError as error:
            print(f"broken: {error}", file=sys.stderr)
            return 1
    print(f"{figures} ({time.monotonic() - began:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
