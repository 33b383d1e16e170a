"""What session, supervisor and workers say to each other; plain values, no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from portkit.model import Baseline, CaseSource, Cell, CellResult, Device, DeviceProbe, Evidence, Stage, Target
from portkit.plan.baselines import EAGER
from portkit.run.limits import CELL_SECONDS, LANE_INSTRUCTIONS, STAGE_SECONDS

KEPT_LAUNCHES: Final = "PORTKIT_KEPT_LAUNCHES"
"""Environment variable: the folder of emulated launches that need not be executed again."""


@dataclass(frozen=True)
class Measured:
    """What a process that measures needs of a case."""

    source: CaseSource
    baselines: tuple[str, ...]


@dataclass(frozen=True)
class Job:
    """Cells of one kernel case on one target that one process works through in order.

    Measured cells may be of several cases, those of each together: they share a process as long as all is well.
    """

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
    cases: Mapping[str, Measured] = field(default_factory=dict)  # of several cases: each by its name

    def by_case(self) -> Iterator[Job]:
        """The same as jobs of one case each."""
        if not self.cases:
            yield self
        for name, case in self.cases.items():
            if cells := tuple(cell for cell in self.cells if cell.case == name):
                yield replace(self, source=case.source, baselines=case.baselines, cells=cells, cases={})


def in_one_process(jobs: Sequence[Job]) -> Job:
    """Measured jobs of one target as one job."""
    first, *others = jobs
    if not others:
        return first
    cases = {job.source.name: Measured(job.source, job.baselines) for job in jobs}
    return replace(first, cells=tuple(cell for job in jobs for cell in job.cells), cases=cases)


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
    builders: int = 0  # processes that build what measured cells need, before the first of them


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
