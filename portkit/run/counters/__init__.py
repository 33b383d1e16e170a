"""Hardware counters of measured cells, taken by the vendor's profiler in a process of its own.

Once the cells of a device are measured, one run of the profiler calls each function of each
of them once more (:mod:`~portkit.run.counters.profiled`) and its table is read back. What
differs between vendors is behind :class:`Profiler`, one file a vendor; which of them serves
a device, how long its process may take and what a dead one costs is in
:mod:`~portkit.run.counters.counting`.

Imports no torch: only the process under the profiler does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from portkit.model import CaseSource, Cell, Counted

RANGE = "portkit"
"""What encloses every call that is counted."""


@dataclass(frozen=True)
class Task:
    """A cell whose functions are to be counted."""

    number: int  # within the run
    cell: Cell
    source: CaseSource
    functions: tuple[str, ...]  # fused and the baselines that were timed
    calls: tuple[int, ...] = ()  # how often each of them is counted; empty: once
    seed: int = 0

    def ranges_of(self, function: str) -> tuple[str, ...]:
        """Names of the ranges around the counted calls: numbers alone, since a tool may take other characters amiss."""
        position = self.functions.index(function)
        calls = self.calls[position] if self.calls else 1
        return tuple(f"{self.number}.{position}.{call}" for call in range(calls))


@dataclass(frozen=True)
class Kernel:
    """One kernel launch as the profiler saw it."""

    range: str  # of the call that it belongs to, as :meth:`Task.ranges_of` names it; empty outside of any
    name: str
    metrics: Mapping[str, float | str]  # name → value in base units (ns, byte, %); those without a value are left out
    fields: Mapping[str, str]  # what else its row says, such as block and grid


@dataclass(frozen=True)
class Table:
    """What a profiler wrote of the kernels it saw, in order."""

    kernels: tuple[Kernel, ...]
    whole: bool  # False where the end is cut off


@dataclass(frozen=True)
class Trouble:
    """Why a profiler can count nothing here, and what would help."""

    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}"


class Profiler(Protocol):
    """A vendor's profiler on this host."""

    @property
    def tool(self) -> str:
        """Its name and version."""

    def command(self, program: Sequence[str], output: Path) -> list[str]:
        """How it runs a program, writing what it saw and its complaints to ``output``."""

    def trouble(self, output: str) -> Trouble | None:
        """What its output says against counting anything at all; it may still be running."""

    def last_words(self, output: str) -> str | None:
        """What its output says of how it or the program ended; None where all was well."""

    def read(self, output: str) -> Table | None:
        """The table in its output; None where there is none."""

    def count(self, kernels: Sequence[Kernel]) -> tuple[Counted, dict[str, str]]:
        """One call's figures from its kernels, at least one, and why others are unknown, by the figure's name."""


def plain(kernels: Sequence[Kernel]) -> list[dict[str, Any]]:
    """Kernels as JSON holds them, for the side folder."""
    return [{"range": k.range, "kernel": k.name, **k.fields, "metrics": dict(k.metrics)} for k in kernels]
