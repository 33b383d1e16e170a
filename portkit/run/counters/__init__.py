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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from portkit.errors import HostError
from portkit.model import CaseSource, Cell, Counted

MAY_COUNT: Final = 1 << 21 | 1 << 38
"""Capabilities of a process, as bits, of which either allows counters: CAP_SYS_ADMIN; CAP_PERFMON.

NVIDIA's driver heeds the second from 565 on.
"""

_NAME_CHARACTERS: Final = 120

RANGE = "portkit"
"""What encloses every call that is counted."""


@dataclass(frozen=True)
class BuiltKernel:
    """What the binary and the launch say of a kernel of Triton's, where the profiler's table does not."""

    name: str
    registers_per_thread: int
    shared_bytes_per_block: int
    threads_per_block: int
    grid: int  # blocks
    blocks_per_unit: int | None  # resident at once, by the rules
    local_bytes_per_thread: int | None = None  # spills and arrays of a thread


@dataclass(frozen=True)
class Task:
    """A cell whose functions are to be counted."""

    number: int  # within the run
    cell: Cell
    source: CaseSource
    functions: tuple[str, ...]  # fused and the baselines that were timed
    calls: tuple[int, ...] = ()  # how often each of them is counted; empty: once
    seed: int = 0
    built: tuple[BuiltKernel, ...] = ()  # kernels of the fused function

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
    lacking: Mapping[str, str] = field(default_factory=dict)  # metric → why no kernel has it


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

    @property
    def log(self) -> str:
        """Name of the file in its folder that has its complaints."""

    @property
    def passes(self) -> int:
        """How often the program must run for all that is asked."""

    @property
    def early(self) -> bool:
        """Whether it may start beside measured cells: it leaves the device alone as long as the program does."""

    def command(self, program: Sequence[str], folder: Path, number: int) -> list[str]:
        """How it runs a program for the pass of that number, writing what it saw into a folder."""

    def trouble(self, output: str) -> Trouble | None:
        """What its complaints say against counting anything in this pass; it may still be running."""

    def last_words(self, output: str) -> str | None:
        """What its complaints say of how it or the program ended; None where all was well."""

    def read(self, folder: Path, number: int) -> Table | None:
        """The table of a pass; None where there is none."""

    def without(self, number: int, why: str) -> dict[str, str]:
        """Metrics that are unknown without a pass, and why."""

    def count(
        self, kernels: Sequence[Kernel], built: Sequence[BuiltKernel], lacking: Mapping[str, str]
    ) -> tuple[Counted, dict[str, str]]:
        """One call's figures from its kernels, at least one, and why others are unknown, by the figure's name.

        Args:
            kernels: of the call.
            built: what is known of the function's own kernels.
            lacking: metrics that no kernel has, and why.
        """


SAID: Final = "said"
"""File in the folder of a run that has what profiler and program printed."""


def plain(kernels: Sequence[Kernel]) -> list[dict[str, Any]]:
    """Kernels as JSON holds them, for the side folder."""
    return [{"range": k.range, "kernel": k.name, **k.fields, "metrics": dict(k.metrics)} for k in kernels]


def text_of(path: Path) -> str:
    """What a file has, empty where there is none."""
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def short_name(name: str) -> str:
    """A kernel's name without most of its template arguments, which may be thousands of characters."""
    return name if len(name) <= _NAME_CHARACTERS else f"{name[: _NAME_CHARACTERS - 2]} …"


def parts(version: str) -> tuple[int, ...]:
    """Numbers of a version, to compare."""
    return tuple(int(number) for number in version.split("."))


def as_error(trouble: Trouble) -> HostError:
    """The trouble as an error of the host."""
    return HostError(trouble.message, remedy=trouble.remedy)
