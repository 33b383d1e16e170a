"""What session, supervisor and workers say to each other; plain values, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from portkit.model import Baseline, CaseSource, Cell, CellResult, Device, DeviceProbe, Evidence, Stage, Target
from portkit.plan.baselines import EAGER
from portkit.run.limits import CELL_SECONDS, LANE_INSTRUCTIONS, STAGE_SECONDS


@dataclass(frozen=True)
class Job:
    """Cells of one kernel case on one target that one process works through in order."""

    evidence: Evidence
    source: CaseSource
    cells: tuple[Cell, ...]
    target: Target | None = None  # None for the interpreter
    devices: tuple[Device, ...] = ()  # GPUs that may run measured cells; empty: the one that torch takes
    device: Device | None = None  # of them, the one that the process is pinned to
    probe: bool = False  # find out what the GPU can do at most, instead of running cells
    seed: int = 0
    sanitize: bool = False  # run small shapes of measured cells under compute-sanitizer
    modes: tuple[str, ...] = ()  # of timing, beside the two clocks
    baselines: tuple[str, ...] = (EAGER,)  # of measured cells, in the order of the samples
    lane_instructions: int = LANE_INSTRUCTIONS  # of one launch of an emulated cell, at most
    given_up: Mapping[Cell, Mapping[str, Baseline]] = field(default_factory=dict)  # baselines that ended a process


Chain = tuple[Job, ...]
"""Jobs of one case on several SKUs of one architecture: the first build may serve them all."""


@dataclass(frozen=True)
class Limits:
    """Bounds of a run."""

    workers: int  # processes at a time
    cell_seconds: float = CELL_SECONDS  # one cell, all stages together
    stage_seconds: Mapping[Stage, float] = field(default_factory=lambda: dict(STAGE_SECONDS))  # of compile: one kernel
    lane_instructions: int = LANE_INSTRUCTIONS  # of one launch of an emulated cell
    memory_bytes: int | None = None  # resident memory of a worker that has no device; None: no limit


@dataclass(frozen=True)
class Request:
    """What a session asks of its supervisor."""

    chains: tuple[Chain, ...]
    limits: Limits
    probes: tuple[Job, ...] = ()  # GPUs to be measured before any cell of theirs


@dataclass(frozen=True)
class Ready:
    """The supervisor has come up and taken a request."""


@dataclass(frozen=True)
class Started:
    """The worker takes up a cell."""

    evidence: Evidence
    cell: Cell


@dataclass(frozen=True)
class DeviceAnswers:
    """The worker's GPU answers it."""


@dataclass(frozen=True)
class DeviceRefuses:
    """The worker's GPU does not answer it, though the process is new."""

    cause: str


@dataclass(frozen=True)
class Probed:
    """What a GPU can do at most, as far as that could be found out; its ``run_id`` is empty."""

    probe: DeviceProbe


@dataclass(frozen=True)
class Entered:
    """The worker enters a stage of the cell."""

    stage: Stage


@dataclass(frozen=True)
class Compiling:
    """The worker enters the compiler; should it not come back, this much is known."""

    kernel: str
    asked: Mapping[str, Any] = field(default_factory=dict)  # platform queries so far → answers


@dataclass(frozen=True)
class Trying:
    """The worker tries a baseline of the cell; should it not come back, the cell runs again without."""

    baseline: str


@dataclass(frozen=True)
class GivenUp:
    """A baseline left the device unusable, and with it this process: the cell runs again without."""

    baseline: str
    found: Baseline


@dataclass(frozen=True)
class Finished:
    """The worker is done with a cell."""

    result: CellResult


@dataclass(frozen=True)
class Unusable:
    """The worker can't go on, since its device no longer answers it: another must take over."""


@dataclass(frozen=True)
class AllDone:
    """The supervisor has answered a request in full."""


class Watch(Protocol):
    """Whoever shows how a run gets on."""

    def started(self, evidence: Evidence, cell: Cell) -> None:
        """A worker takes up a cell."""

    def idle(self) -> None:
        """Nothing has happened for about a second."""
