"""What session, supervisor and workers say to each other; plain values, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from portkit.model import CaseSource, Cell, CellResult, Evidence, Target


@dataclass(frozen=True)
class Job:
    """Cells of one kernel case on one target that one process works through in order."""

    evidence: Evidence
    source: CaseSource
    cells: tuple[Cell, ...]
    target: Target | None = None  # None for the interpreter
    device_index: int | None = None  # GPU of the host, for measured cells
    seed: int = 0


Chain = tuple[Job, ...]
"""Jobs of one case on several SKUs of one architecture: the first build may serve them all."""


@dataclass(frozen=True)
class Limits:
    """Bounds of a run."""

    workers: int  # processes at a time
    cell_seconds: float = 180.0  # one cell, compilation included


@dataclass(frozen=True)
class Request:
    """What a session asks of its supervisor."""

    chains: tuple[Chain, ...]
    limits: Limits


@dataclass(frozen=True)
class Started:
    """The worker takes up a cell."""

    cell: Cell


@dataclass(frozen=True)
class Compiling:
    """The worker enters the compiler; should it not come back, this much is known."""

    kernel: str
    asked: Mapping[str, Any] = field(default_factory=dict)  # platform queries so far → answers


@dataclass(frozen=True)
class Finished:
    """The worker is done with a cell."""

    result: CellResult


@dataclass(frozen=True)
class AllDone:
    """The supervisor has answered a request in full."""
