"""Runs jobs in worker processes that may die, and answers for every cell.

``python -m portkit.run.supervisor FD`` loads torch and Triton once and forks a
fresh worker per job, so that import-time branches of user code see their own
target. Workers are single-use; a crash, an exit or a hang costs the cell under
way, and the cells after it go to a new worker. It stops with its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import IO, Any

import torch
from triton.runtime.cache import triton_key

from portkit.model import Cell, CellResult, Evidence, Outcome, Stage, Status
from portkit.run.jobs import AllDone, Chain, Compiling, Finished, Job, Limits, Request, Started
from portkit.run.scrub import tail
from portkit.run.shim import answers_for
from portkit.run.worker import work  # loads torch and Triton, once for all workers

_FORK = multiprocessing.get_context("fork")
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(frozen=True)
class Pending:
    """A chain that waits for a process, with what earlier processes found out for it."""

    chain: Chain
    known: tuple[CellResult, ...] = ()


@dataclass
class Worker:
    """A worker process, with all that is known of it."""

    pending: Pending
    process: BaseProcess
    connection: Connection
    log: IO[bytes]
    results: list[CellResult] = field(default_factory=list)
    current: Cell | None = None
    compiling: str | None = None
    asked: dict[str, Any] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)
    timed_out: bool = False

    @property
    def job(self) -> Job:
        """The job at work; the chain's further jobs are SKUs that its builds may serve."""
        return self.pending.chain[0]

    def note(self, message: object) -> CellResult | None:
        """Take in a message; returns the result it carries, if any."""
        self.since = time.monotonic()
        match message:
            case Started(cell):
                self.current, self.compiling = cell, None
            case Compiling(kernel, asked):
                self.compiling, self.asked = kernel, dict(asked)
            case Finished(result):
                self.current = None
                self.results.append(result)
                return result
        return None

    def unfinished(self) -> tuple[Cell, ...]:
        """Cells of the job that have no result."""
        return self.job.cells[len(self.results) :]

    def log_tail(self) -> str:
        """The last lines that the process wrote."""
        self.log.seek(0)
        return tail(self.log.read().decode(errors="replace"))


class Supervisor:
    """Keeps at most ``limits.workers`` processes at work until a request is answered."""

    def __init__(self, parent: Connection, request: Request) -> None:
        self.parent = parent
        self.limits: Limits = request.limits
        self.queue = deque(Pending(chain) for chain in request.chains)
        self.workers: list[Worker] = []

    def run(self) -> None:
        """Answer every cell of the request; returns early when the parent goes."""
        try:
            while self.queue or self.workers:
                while self.queue and len(self.workers) < self.limits.workers:
                    self.workers.append(self._start(self.queue.popleft()))
                self._pump()
            self.parent.send(AllDone())
        finally:
            for worker in self.workers:
                _kill(worker)

    def _start(self, pending: Pending) -> Worker:
        ours, theirs = _FORK.Pipe(duplex=False)
        log = tempfile.TemporaryFile(prefix="portkit-worker-")  # noqa: SIM115  # closed when the worker is buried
        process = _FORK.Process(target=_enter, args=(pending.chain[0], theirs, log, self.parent, ours))
        process.start()
        theirs.close()
        return Worker(pending, process, ours, log)

    def _pump(self) -> None:
        """Wait for news of any worker and deal with it."""
        handles: list[Any] = [self.parent]
        handles += [h for w in self.workers for h in (w.connection, w.process.sentinel)]
        ready = wait(handles, timeout=0.5)
        if self.parent in ready:  # a parent says nothing while it waits: it has closed
            raise EOFError
        for worker in list(self.workers):
            self._receive(worker)
            if worker.process.sentinel in ready or not worker.process.is_alive():
                self._bury(worker)
            elif time.monotonic() - worker.since > self.limits.cell_seconds:
                worker.timed_out = True
                _kill(worker)

    def _receive(self, worker: Worker) -> None:
        with contextlib.suppress(EOFError, OSError):
            while worker.connection.poll():
                if result := worker.note(worker.connection.recv()):
                    self.parent.send(Finished(result))

    def _bury(self, worker: Worker) -> None:
        """Account for a process that ended: the cell under way, and what follows."""
        worker.process.join()
        self._receive(worker)
        self.workers.remove(worker)
        left = worker.unfinished()
        for cell in left if worker.current is None else left[:1]:
            result = CellResult(cell, worker.job.evidence, cause_of_death(worker), asked=worker.asked)
            worker.results.append(result)
            self.parent.send(Finished(result))
        worker.connection.close()
        worker.log.close()
        self._queue_rest(worker)

    def _queue_rest(self, worker: Worker) -> None:
        known = (*worker.pending.known, *worker.results)
        rest = worker.pending.chain[1:]
        if left := worker.unfinished():
            rest = (replace(worker.job, cells=left), *rest)
        else:
            rest = tuple(job for job in (self._serve(job, known) for job in rest) if job.cells)
        if rest:
            self.queue.appendleft(Pending(rest, known))

    def _serve(self, job: Job, known: Sequence[CellResult]) -> Job:
        """Send a SKU the results that hold for it; returns the job of the cells that are left."""
        shared, left = share(known, job)
        for result in shared:
            self.parent.send(Finished(result))
        return replace(job, cells=left)


def share(results: Sequence[CellResult], job: Job) -> tuple[list[CellResult], tuple[Cell, ...]]:
    """Results of one SKU that hold for another of the same architecture.

    They hold where the host code asked nothing that the other SKU would have
    answered otherwise: then launches and binaries are the same, and limits are
    the architecture's.
    """
    if job.target is None or job.evidence is not Evidence.COMPILED:
        return [], job.cells
    answers = answers_for(job.target)
    known = {replace(r.cell, target=""): r for r in results if answers.same_for(r.asked)}
    shared = [
        replace(known[key], cell=cell, seconds=0.0) for cell in job.cells if (key := replace(cell, target="")) in known
    ]
    done = {r.cell for r in shared}
    return shared, tuple(cell for cell in job.cells if cell not in done)


def cause_of_death(worker: Worker) -> Outcome:
    """What the end of a process says about the cell under way."""
    log = worker.log_tail()
    if worker.timed_out:
        doing = f"while compiling {worker.compiling}" if worker.compiling else "outside the compiler"
        return Outcome(Status.TIMEOUT, _stage(worker), f"no end within the time limit, {doing}")
    how = describe_exit(worker.process.exitcode)
    message = f"{how}: {telling_line(log)}" if log else how
    if worker.job.evidence is not Evidence.COMPILED:
        return Outcome(Status.WORKER_LOST, _stage(worker), message)
    if worker.compiling is None:
        return Outcome(Status.CAPTURE_FAILED, _stage(worker), f"host code ended the process: {message}")
    return Outcome(Status.COMPILER_CRASH, Stage.COMPILE, message)


def describe_exit(code: int | None) -> str:
    """``signal SIGABRT`` or ``exit 1``."""
    if code is not None and code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit {code}"


_TELLING = ("LLVM ERROR", "error:", "Assertion", "Cannot select", "fatal", "Error:")


def telling_line(log: str) -> str:
    """The first line of a log that names a fault, otherwise its last."""
    lines = log.splitlines()
    return next((line for line in lines if any(word in line for word in _TELLING)), lines[-1])[:400]


def _stage(worker: Worker) -> Stage:
    if worker.current is None:
        return Stage.IMPORT
    if worker.compiling:
        return Stage.COMPILE
    return Stage.CAPTURE if worker.job.evidence is Evidence.COMPILED else Stage.RUN


def _enter(job: Job, connection: Connection, log: IO[bytes], *inherited: Connection) -> None:
    """First steps of a worker: die with the supervisor, write to the log, then work."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()  # so that a compiler's own children can be killed with it
    for end in inherited:
        end.close()
    for stream in (1, 2):
        os.dup2(log.fileno(), stream)
    work(job, connection)
    connection.close()


def _kill(worker: Worker) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.process.pid or 0, signal.SIGKILL)
    worker.process.kill()


def _warm_up() -> None:
    """Do once what every worker would do again: each takes about half a second."""
    triton_key()  # hashes all of Triton; kept for the life of the process
    torch.empty_like(torch.empty(1, device="meta"))  # imports torch's symbolic shapes


def main(arguments: list[str]) -> int:
    """Serve requests from the session at the other end of the given file descriptor."""
    parent = Connection(int(arguments[0]))
    _warm_up()
    for request in _requests(parent.recv):
        with contextlib.suppress(EOFError, BrokenPipeError):
            Supervisor(parent, request).run()
    return 0


def _requests(receive: Callable[[], Any]) -> Iterator[Request]:
    while True:
        try:
            request = receive()
        except EOFError:
            return
        yield request


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
