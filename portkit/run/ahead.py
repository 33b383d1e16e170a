"""Builds what measured cells need on all cores, before the first of them has a GPU.

Triton's compiler, and the C compiler for the launchers of Triton before 3.7, take longer than
all else that a measured cell does before it is timed, and need no GPU. So each cell is first
built as for an absent one, many at once, and so is what its input families launch; the measured
process then finds kernels and launchers in Triton's cache. Nothing else is kept but how long
each build took. A build that fails or hangs is left to its cell, which tells why.

Has ended before the first cell is timed.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final

from triton.backends import backends
from triton.backends.compiler import GPUTarget

from portkit.model import Evidence, KernelCase
from portkit.run.build import Builder
from portkit.run.capture import DryLaunch, Recorder, capture
from portkit.run.families import forms
from portkit.run.jobs import Chain, Job
from portkit.run.load import load_case
from portkit.run.shim import install

FEWEST_CELLS: Final = 2
"""Cells that are worth it: one alone is built as fast where it is measured."""

Fork = Callable[[Callable[[], None]], BaseProcess]
"""Starts a process of the supervisor's that does this and ends."""

seconds: dict[str, float] = {}
"""Hash of a kernel in Triton's cache → seconds that its build took; processes forked later have it too."""


def parts(chains: Sequence[Chain], workers: int) -> list[list[Job]]:
    """Measured cells of a request as builds, in as many parts of about one size as there are processes.

    Jobs of a part are of one target, since a process can look like a host of one alone.
    """
    jobs = [build for chain in chains for job in chain for build in _builds(job)]
    targets = dict.fromkeys(job.target.name for job in jobs if job.target)
    cells = sum(len(job.cells) for job in jobs)
    if cells < FEWEST_CELLS or workers < 1:
        return []
    share = max(1, workers // len(targets))
    by_target = [[job for job in jobs if job.target and job.target.name == name] for name in targets]
    return [part for own in by_target for part in _dealt(own, share)]


def _builds(job: Job) -> Iterator[Job]:
    """A measured job as builds; nothing where launches on its target can't be judged, so that none is recorded."""
    if job.evidence is Evidence.MEASURED and job.target and job.target.architecture.sourced:
        yield from replace(job, evidence=Evidence.COMPILED, devices=(), device=None).by_case()


def _dealt(jobs: Sequence[Job], hands: int) -> Iterator[list[Job]]:
    """Cells in order, as many for each hand, so that few jobs are in the hands of two."""
    cells = [(number, cell) for number, job in enumerate(jobs) for cell in job.cells]
    each = math.ceil(len(cells) / hands)
    for first in range(0, len(cells), each):
        by_job = itertools.groupby(cells[first : first + each], lambda pair: pair[0])
        yield [replace(jobs[number], cells=tuple(cell for _, cell in own)) for number, own in by_job]


@dataclass
class Builds:
    """The processes that build, and what they have told."""

    processes: list[BaseProcess] = field(default_factory=list)
    told: list[Connection] = field(default_factory=list)

    @classmethod
    def begin(cls, chains: Sequence[Chain], workers: int, fork: Fork) -> Builds:
        """Start them."""
        begun = cls()
        for part in parts(chains, workers):
            ours, theirs = Pipe(duplex=False)
            begun.processes.append(fork(functools.partial(build_all, part, theirs.send)))
            begun.told.append(ours)
            theirs.close()
        return begun

    def finish(self, most_seconds: float, parent: Connection) -> None:
        """Wait for them, not for ever and only as long as somebody waits for the cells; then none is left."""
        until = time.monotonic() + most_seconds
        told = list(self.told)
        while told and (left := until - time.monotonic()) > 0:
            ready = wait([parent, *told], timeout=left)
            if parent in ready:
                break
            for connection in (each for each in told if each in ready):
                try:
                    seconds.update(connection.recv())
                except (EOFError, OSError):
                    told.remove(connection)
        self.end()

    def end(self) -> None:
        """End them, compilers of their own included; does nothing where none is left."""
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid or 0, signal.SIGKILL)
            process.kill()
            process.join()
        for connection in self.told:
            connection.close()
        self.processes, self.told = [], []


def build_all(jobs: Sequence[Job], tell: Callable[[dict[str, float]], None]) -> None:
    """Have kernels and launchers of cells, and of their input families, in Triton's cache.

    Args:
        jobs: of one target; from here on, this process looks like a host of it.
        tell: is told the seconds of builds that were not there.
    """
    target = jobs[0].target
    assert target is not None
    answers, mode = install(target)
    recorder = Recorder(target)
    capture(recorder, answers, mode, launch=lambda kernel: _with_launcher(kernel, DryLaunch(kernel, mode)))
    for job in jobs:
        with contextlib.suppress(Exception):  # its cells will tell
            with mode:
                case = load_case(job.source)
            _build_cells(job, case, Builder(case, recorder, answers, mode, job.seed))
        tell(dict(recorder.compile_seconds))


def _build_cells(job: Job, case: KernelCase, builder: Builder) -> None:
    for cell in job.cells:
        for form, shaped in ((case, cell), *forms(case, cell)):
            replace(builder, case=form).build_cell(shaped)


def _with_launcher(kernel: Any, launch: DryLaunch) -> DryLaunch:
    """Have the launcher built that the measured process will load."""
    with contextlib.suppress(Exception):  # later Tritons build none for a kernel
        _driver(kernel.metadata.target.backend).launcher_cls(kernel.src, kernel.metadata)
    return launch


@functools.cache
def _driver(backend: str) -> Any:
    """Triton's own driver of a backend; it asks no device before it launches something."""
    return next(each.driver() for each in backends.values() if each.compiler.supports_target(GPUTarget(backend, 0, 0)))
