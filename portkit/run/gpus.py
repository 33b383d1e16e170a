"""The GPUs of a request: which have a process, which no longer answer, and who takes what.

A GPU has one process at a time, so that no cell is timed while another runs on it. Cells
of a target go to whichever of its GPUs is free, in portions that become smaller towards
the end, so that the last GPUs end at about the same time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from portkit.model import Device, Evidence
from portkit.run.jobs import Job

MOST_REFUSALS: Final = 2
"""New processes in a row that a GPU may leave without an answer before it counts as lost."""

LEAST_PORTION: Final = 8
"""Cells of a portion at least: a new process on a GPU takes seconds before its first cell."""


class Gpus:
    """Who may start on which GPU.

    A job that names no GPU takes the one that torch takes, and shares that with no other such job.
    """

    def __init__(self) -> None:
        self._busy: set[str] = set()
        self._refusals: Counter[str] = Counter()  # in a row
        self._lost: dict[str, str] = {}  # device_id → why

    def claim(self, job: Job) -> Job | None:
        """The job, pinned to a free GPU that is then taken; None where it must wait.

        Jobs that need no GPU come back as they are.
        """
        if job.evidence is not Evidence.MEASURED:
            return job
        free = [x for x in places(job) if _key(x) not in self._busy and _key(x) not in self._lost]
        if not free:
            return None
        self._busy.add(_key(free[0]))
        return replace(job, device=free[0])

    def release(self, job: Job) -> None:
        """The job's process has ended."""
        if job.evidence is Evidence.MEASURED:
            self._busy.discard(_key(job.device))

    def answered(self, job: Job) -> None:
        """The GPU answered a new process."""
        self._refusals.pop(_key(job.device), None)

    def refused(self, job: Job, cause: str) -> None:
        """The GPU left a new process without an answer."""
        self._refusals[_key(job.device)] += 1
        if self._refusals[_key(job.device)] >= MOST_REFUSALS:
            self.lose(job, cause)

    def lose(self, job: Job, cause: str) -> None:
        """The GPU takes no more work."""
        name = f"GPU {job.device.index}, {job.device.name}," if job.device else "the GPU"
        self._lost[_key(job.device)] = f"{name} no longer answers: {cause}"

    def hopeless(self, job: Job) -> str | None:
        """Why no GPU is left that may run the job; None where there is one, or it needs none."""
        if job.evidence is not Evidence.MEASURED or self.left(job):
            return None
        return "; ".join(self._lost[_key(device)] for device in places(job))

    def left(self, job: Job) -> int:
        """GPUs that may run the job and are not lost."""
        return sum(_key(device) not in self._lost for device in places(job))


def places(job: Job) -> Sequence[Device | None]:
    """GPUs that may run a job; None stands for the one that torch takes."""
    return job.devices or (None,)


def portion(cells: int, waiting: int, gpus: int) -> int:
    """How many cells of a job a free GPU takes.

    Args:
        cells: of the job.
        waiting: cells that wait for the same GPUs, the job's included.
        gpus: that share them; one takes all.
    """
    return cells if gpus < 2 else min(cells, max(LEAST_PORTION, math.ceil(waiting / (2 * gpus))))


def split(job: Job, cells: int) -> tuple[Job, Job | None]:
    """The first cells of a job, and the rest of it if there is one."""
    rest = job.cells[cells:]
    return replace(job, cells=job.cells[:cells]), replace(job, cells=rest, device=None) if rest else None


def _key(device: Device | None) -> str:
    return device.device_id if device else ""
