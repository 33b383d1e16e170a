"""A session whose measured cells are judged and not timed, several at once on one GPU: seconds in place of minutes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

import torch

from portkit.errors import HostError
from portkit.model import Cell, CellResult, DeviceProbe, Evidence, KernelCase
from portkit.run.evaluate import Runner, StageFailed, evaluate
from portkit.run.jobs import Chain, Job, Watch
from portkit.run.load import load_case
from portkit.run.measure import device_failure

NULLS = dict.fromkeys(("build", "timing"), "judged alone, nothing was timed")


class UntimedSession:
    """Stands for :class:`portkit.run.session.Session` in a run.

    Args:
        processes: that judge at once, each a case.
        runner: how cells run.
    """

    def __init__(self, processes: int, runner: Runner | None = None) -> None:
        self._processes, self._runner = processes, runner or Runner("cuda", device_failure)

    def results(
        self,
        chains: Sequence[Chain],
        watch: Watch | None = None,
        probes: Sequence[Job] = (),
        measuring: Callable[[], None] = lambda: None,
    ) -> Iterator[CellResult | DeviceProbe]:
        """Every cell of the chains, in the order of completion; GPUs are not probed.

        Raises:
            HostError: a process died, so that what it and others had under way has no result.
        """
        jobs = [part for chain in chains for job in chain for part in job.by_case()]
        pool = ProcessPoolExecutor(self._processes, multiprocessing.get_context("fork"), _begin, (self._runner,))
        left = list(jobs)
        try:
            given = {pool.submit(_judged, job): job for job in jobs}
            for done in as_completed(given):
                yield from done.result()
                left.remove(given[done])
        except BrokenProcessPool:
            raise _lost(left) from None
        finally:
            pool.shutdown(cancel_futures=True)

    def close(self) -> None:
        """Nothing is left over."""


def _lost(jobs: Iterable[Job]) -> HostError:
    names = sorted({job.source.name for job in jobs})
    return HostError(
        f"a process that judges died; without results are cells of {', '.join(names)}",
        remedy="run without --untimed: then each cell is watched, and the one that ends its process is named",
    )


_runner: list[Runner] = []
"""Of this process, where it judges."""


def _begin(runner: Runner) -> None:
    torch.set_num_threads(1)
    _runner[:] = [runner]


def _judged(job: Job) -> list[CellResult]:
    case = load_case(job.source)
    return [_one(case, cell, job.seed) for cell in job.cells]


def _one(case: KernelCase, cell: Cell, seed: int) -> CellResult:
    try:
        done = evaluate(case, cell, _runner[0], seed=seed)
    except StageFailed as failed:
        why = dict.fromkeys(("build", "verdict", "timing"), f"{failed.outcome.status} at {failed.outcome.stage}")
        return CellResult(cell, Evidence.MEASURED, failed.outcome, nulls=why)
    printed = {"fingerprint": done.fingerprint}
    nulls = {**NULLS, **done.nulls}
    return CellResult(cell, Evidence.MEASURED, done.outcome, verdict=done.verdict, nulls=nulls, blobs=printed)
