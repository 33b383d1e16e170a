"""How a run gets on: cells done, failed, left, the current one and the time left.

A line that renews itself on a terminal; elsewhere, as in CI, a plain line now and then.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from portkit.model import Cell, Evidence, Record, Status

LINE_SECONDS: Final = 15.0
"""At least so long between two plain lines."""

_SLOWEST = 5


class Tally:
    """Counts of a run under way.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self._known = 0
        self.cells = 0
        self.done = 0
        self.failed = 0
        self.under_way: dict[str, None] = {}  # labels, oldest first
        self.counted: tuple[int, int] | None = None  # cells with hardware counters, of how many

    def begin(self, cells: int, known: Collection[Record]) -> None:
        """Start counting; ``known`` records count as done but tell nothing of the time."""
        self.cells, self._known, self._since = cells, len(known), self._clock()
        self.done, self.failed = len(known), sum(map(is_failed, known))

    def start(self, evidence: Evidence, cell: Cell) -> None:
        """A cell is taken up."""
        self.under_way[cell.label(evidence)] = None

    def add(self, record: Record) -> None:
        """A cell has its record."""
        self.under_way.pop(record.cell.label(record.evidence), None)
        self.done += 1
        self.failed += is_failed(record)

    @property
    def left(self) -> int:
        """Cells without a record."""
        return self.cells - self.done

    @property
    def seconds_left(self) -> float | None:
        """What is left at the pace so far; None before there is a pace."""
        run = self.done - self._known
        return (self._clock() - self._since) / run * self.left if run else None

    def text(self) -> str:
        """All of it in one line."""
        if self.counted:
            return "counters: {} of {}".format(*self.counted)
        parts = [f"{self.done} of {self.cells} cells done", f"{self.failed} failed", f"{self.left} left"]
        if self.left and self.seconds_left is not None:
            parts.append(f"about {duration(self.seconds_left)} to go")
        current = next(reversed(self.under_way), None)
        return ", ".join(parts) + (f"; now {current}" if current else "")


def is_failed(record: Record) -> bool:
    """Whether pytest will call the cell failed."""
    status = record.outcome.status
    if record.expected is not None:
        return status is not record.expected
    return not (status.good or status.skipped)


def duration(seconds: float) -> str:
    """``40 s``, ``3 min`` or ``2.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class PlainLines:
    """Says how a run gets on in a line now and then.

    Args:
        write: takes each line.
        clock: seconds that only grow.
        seconds: at least so long between two lines.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        *,
        seconds: float = LINE_SECONDS,
    ) -> None:
        self._write = write
        self._seconds = seconds
        self._clock = clock
        self._tally = Tally(clock)
        self._last = clock()

    def begin(self, cells: int, known: Collection[Record]) -> None:
        """The run begins."""
        self._tally.begin(cells, known)
        self._last = self._clock()

    def started(self, evidence: Evidence, cell: Cell) -> None:
        """A worker takes up a cell."""
        self._tally.start(evidence, cell)

    def finished(self, record: Record) -> None:
        """A cell has its record."""
        self._tally.add(record)
        self.idle()

    def counting(self, done: int, cells: int) -> None:
        """Hardware counters are taken."""
        self._tally.counted = done, cells
        self.idle()

    def idle(self) -> None:
        """Write a line if the last is long ago."""
        if self._clock() - self._last >= self._seconds and (self._tally.left or self._tally.counted):
            self._write(self._tally.text())
            self._last = self._clock()

    def close(self) -> None:
        """Nothing is left to take away."""


class LiveLine:
    """Says how a run gets on in a line that renews itself and goes when the run ends."""

    def __init__(self, console: Console) -> None:
        self._tally = Tally()
        columns = (BarColumn(bar_width=24), TextColumn("{task.description}", markup=False))
        self._bar = Progress(
            *columns,
            console=console,
            transient=True,
            refresh_per_second=4,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task("")

    def begin(self, cells: int, known: Collection[Record]) -> None:
        """The run begins."""
        self._tally.begin(cells, known)
        self._show()
        self._bar.start()

    def started(self, evidence: Evidence, cell: Cell) -> None:
        """A worker takes up a cell."""
        self._tally.start(evidence, cell)
        self._show()

    def finished(self, record: Record) -> None:
        """A cell has its record."""
        self._tally.add(record)
        self._show()

    def counting(self, done: int, cells: int) -> None:
        """Hardware counters are taken."""
        self._tally.counted = done, cells
        self._show()

    def idle(self) -> None:
        """The time left is worked out anew."""
        self._show()

    def close(self) -> None:
        """Take the line away."""
        self._bar.stop()

    def _show(self) -> None:
        text = self._tally.text()
        self._bar.update(self._task, total=self._tally.cells, completed=self._tally.done, description=text)


def summary(records: Iterable[Record], unusable: Collection[str] = ()) -> Iterator[str]:
    """Cells by what pytest calls them, counts by status, and the cells that took longest.

    Args:
        records: of the run.
        unusable: kernels whose files can't be used: they have no cell, and pytest counts each as failed.
    """
    known = list(records)
    if known:
        told = collections.Counter(_called(record) for record in known)
        yield "cells:   " + ", ".join(f"{told[name]} {name}" for name in ("passed", "failed", "expected", "excluded"))
        counts = collections.Counter(record.outcome.status for record in known)
        if unusable:
            yield f"kernels: {len(unusable)} can't be used, so no cell is of {', '.join(unusable)}"
        yield "status:  " + ", ".join(f"{counts[status]} {status}" for status in Status if counts[status])
    slow = sorted(known, key=lambda record: record.seconds, reverse=True)[:_SLOWEST]
    slow = [record for record in slow if record.seconds >= 1.0]
    if slow:
        named = (f"{record.seconds:.1f} s {record.cell.label(record.evidence)}" for record in slow)
        yield "slowest: " + "\n         ".join(named)


def failed(records: Iterable[Record]) -> list[Record]:
    """Records of cells that pytest calls failed, in their order."""
    return [record for record in records if _called(record) == "failed"]


def _called(record: Record) -> str:
    """What becomes of a cell in pytest: ``excluded`` is skipped there, ``expected`` xfailed."""
    if record.outcome.status.skipped:
        return "excluded"
    if is_failed(record):
        return "failed"
    return "passed" if record.expected is None else "expected"
