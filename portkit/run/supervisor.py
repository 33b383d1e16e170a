"""Runs jobs in worker processes that may die, and answers for every cell.

``python -m portkit.run.supervisor FD`` loads torch and Triton once and forks a
fresh worker per job, so that import-time branches of user code see their own
target. A crash, an exit, a hang or too much memory costs the cell under way, and the
cells after it go to a new worker. It stops with its parent.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import itertools
import multiprocessing
import os
import pickle
import re
import signal
import sys
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NoReturn

import torch
from triton.runtime.cache import triton_key

from portkit.model import Baseline, Cell, CellResult, Evidence, Outcome, Stage, Status
from portkit.run.ahead import Builds
from portkit.run.compiler_hang import NO_COMPILER
from portkit.run.device_faults import ABORTS, aborted_by_runtime
from portkit.run.gpus import Gpus, portion, split
from portkit.run.jobs import (
    AllDone,
    Chain,
    Compiling,
    DeviceAnswers,
    DeviceRefuses,
    Entered,
    Finished,
    GivenUp,
    Job,
    Limits,
    Probed,
    Ready,
    Request,
    Started,
    Trying,
    Unusable,
)
from portkit.run.limits import DEVICE_SECONDS, GIB
from portkit.run.output import Output
from portkit.run.portions import divide
from portkit.run.preload import is_wanted, load_compiler, load_statistics
from portkit.run.probes import unprobed
from portkit.run.processes import describe_exit, end_with_parent, resident_bytes
from portkit.run.scrub import nameless, scrub, tail
from portkit.run.session import COMPILER
from portkit.run.shim import answers_for
from portkit.run.worker import work  # loads torch and Triton, once for all workers

_FORK = multiprocessing.get_context("fork")
_POLL_SECONDS = 0.25  # how often time and memory are looked at
_KILL_SECONDS = 15.0  # a driver may hold a killed process for long; then it is left behind
_LOG_LINES = 50
_COMPILERS_OWN = (Status.COMPILER_CRASH, Status.TIMEOUT)
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that no compiler and no host code raises in itself."""


@dataclass(frozen=True)
class Pending:
    """A chain that waits for a process, with what earlier processes found out for it."""

    chain: Chain
    known: tuple[CellResult, ...] = ()  # those that may hold for a sister SKU
    killed: bool = False  # from outside, before it came to a cell


@dataclass
class Worker:
    """A worker process, with all that is known of it."""

    pending: Pending
    process: BaseProcess
    connection: Connection
    output: Output
    results: list[CellResult] = field(default_factory=list)
    known: list[CellResult] = field(default_factory=list)  # of them, those whose questions are all known
    current: Cell | None = None
    stage: Stage = Stage.IMPORT
    compiling: str | None = None  # kernel, while the stage is compile
    asked: dict[str, Any] = field(default_factory=dict)
    cell_since: float = field(default_factory=time.monotonic)
    stage_since: float = field(default_factory=time.monotonic)
    overrun: Outcome | None = None  # why we ended it, if we did
    ended_at: float = 0.0
    device_answers: bool = False  # the GPU, to this process
    refusal: str | None = None  # why it does not
    probed: bool = False  # the figures of its GPU have been sent
    trying: str | None = None  # baseline, while its first call runs
    given_up: dict[Cell, dict[str, Baseline]] = field(default_factory=dict)  # baselines that cost the process

    @property
    def job(self) -> Job:
        """The job at work; the chain's further jobs are SKUs that its builds may serve."""
        return self.pending.chain[0]

    def note(self, message: object) -> None:
        """Take in a message."""
        match message:
            case Started(evidence, cell):
                self.current, self.asked = cell, {}
                self.cell_since = time.monotonic()
                self._enter(Stage.CAPTURE if evidence is Evidence.COMPILED else Stage.INPUTS)
            case Entered(stage):
                self._enter(stage)
            case Compiling(kernel, asked):
                self._enter(Stage.COMPILE)
                self.compiling, self.asked = kernel, dict(asked)
            case Finished(result):
                self.current = None
                self.results.append(result)
                self.known.append(result)
                self._enter(Stage.IMPORT)
                self.cell_since = time.monotonic()
            case Trying(name):
                self._enter(Stage.BASELINE)
                self.trying = name
            case GivenUp(name, found):
                self.give_up(name, found)
            case _:
                self._note_device(message)

    def _note_device(self, message: object) -> None:
        match message:
            case DeviceAnswers():
                self.device_answers = True
            case DeviceRefuses(cause):
                self.refusal = cause
            case Probed():
                self.probed = True
            case Unusable():
                pass  # it ends by itself, between two cells

    def _enter(self, stage: Stage) -> None:
        self.stage, self.stage_since, self.compiling, self.trying = stage, time.monotonic(), None, None

    def give_up(self, name: str, found: Baseline) -> None:
        """Note a baseline that ends this process; the cell itself is left for another."""
        assert self.current is not None
        self.given_up.setdefault(self.current, {})[name] = found
        self.current = None

    def lose(self, cell: Cell, outcome: Outcome) -> CellResult:
        """The result of a cell that the process can't answer any more."""
        log = self.log(_LOG_LINES)
        blobs = {"log": log.encode(errors="replace")} if log else {}
        device = self.job.device.device_id if self.job.device else None
        result = CellResult(cell, self.job.evidence, outcome, asked=self.asked, blobs=blobs, device=device)
        self.results.append(result)
        if self.compiling and outcome.status in _COMPILERS_OWN:  # the host code was waiting and could ask no more
            self.known.append(result)
        return result

    def unfinished(self) -> tuple[Cell, ...]:
        """Cells of the job that have no result."""
        return self.job.cells[len(self.results) :]

    def log(self, lines: int) -> str:
        """The last lines that the process wrote, of the cell under way if there is one."""
        return tail(self.said, lines)

    @property
    def said(self) -> str:
        """What it wrote of the cell under way, as far as it is kept."""
        return self.output.of_cell(len(self.results))

    def explained(self, result: CellResult) -> CellResult:
        """A cell's result; where the compiler failed, with the cause that it printed instead of raising it."""
        outcome = result.outcome
        if outcome.status is not Status.COMPILE_ERROR:
            return result
        self.output.read()
        line = cause_line(self.said)
        if line is None or line in outcome.message:
            return result
        return replace(result, outcome=replace(outcome, message=f"{outcome.message}: {line}"))

    @property
    def doing(self) -> str:
        """What it is at, for messages."""
        return f"while compiling {self.compiling}" if self.compiling else "outside the compiler"

    @property
    def without_device(self) -> bool:
        """Whether it needs a GPU that has not answered it."""
        return self.job.evidence is Evidence.MEASURED and not self.device_answers

    @property
    def killed_from_outside(self) -> bool:
        """Whether a signal ended it that neither it nor we sent."""
        return self.overrun is None and -(self.process.exitcode or 0) in _FROM_OUTSIDE


class Supervisor:
    """Keeps at most ``limits.workers`` processes at work until a request is answered, and one on a GPU.

    Args:
        parent: the session.
        request: what it asks.
        work: what a worker does.
    """

    def __init__(self, parent: Connection, request: Request, work: Callable[[Job, Connection], None] = work) -> None:
        self.parent = parent
        self.limits: Limits = request.limits
        self.queue = deque(Pending(chain) for chain in (*((probe,) for probe in request.probes), *request.chains))
        self.workers: list[Worker] = []
        self.gpus = Gpus()
        self.work = work

    def run(self) -> None:
        """Answer every cell of the request; returns early when the parent goes."""
        try:
            while self.queue or self.workers:
                self._give_up_lost()
                while len(self.workers) < self.limits.workers and (pending := self._next()):
                    self.workers.append(self._start(pending))
                if self.workers:
                    self._pump()
            self.parent.send(AllDone())
        finally:
            for worker in self.workers:
                _kill(worker)

    def _next(self) -> Pending | None:
        """A part of the first in the queue that need not wait for a GPU; the rest of it waits on."""
        for pending in self.queue:
            if job := self.gpus.claim(pending.chain[0]):
                break
        else:
            return None
        queued = [each.chain for each in self.queue]
        self.queue.remove(pending)
        if job.evidence is Evidence.MEASURED:
            chain, left = self._portion((job, *pending.chain[1:]))
        else:
            chain, left = divide(pending.chain, queued, self.limits.workers)
        if left:
            self.queue.appendleft(replace(pending, chain=left))
        return replace(pending, chain=chain)

    def _portion(self, chain: Chain) -> tuple[Chain, Chain]:
        """What a GPU takes of a chain that others of its kind share, and the rest."""
        job, *rest = chain
        waiting = len(job.cells) + sum(len(x.cells) for p in self.queue for x in p.chain if x.devices == job.devices)
        job, left = split(job, portion(len(job.cells), waiting, self.gpus.left(job)))
        return ((job,), (left, *rest)) if left else ((job, *rest), ())

    def _give_up_lost(self) -> None:
        """Answer for what waits for GPUs that are all lost."""
        for pending in list(self.queue):
            if why := self.gpus.hopeless(pending.chain[0]):
                self.queue.remove(pending)
                self._answer_lost(pending.chain[0], why)
                if rest := pending.chain[1:]:
                    self.queue.append(replace(pending, chain=rest))

    def _answer_lost(self, job: Job, why: str) -> None:
        if job.probe:
            self._send_unprobed(job, why)
        for cell in job.cells:
            self.parent.send(Finished(CellResult(cell, job.evidence, Outcome(Status.WORKER_LOST, Stage.RUN, why))))

    def _send_unprobed(self, job: Job, why: str) -> None:
        assert job.target is not None
        for device in job.devices:
            self.parent.send(Probed(unprobed(device, job.target, why)))

    def _start(self, pending: Pending) -> Worker:
        ours, theirs = _FORK.Pipe(duplex=False)
        output = Output()
        process = _FORK.Process(
            target=_enter,
            args=(os.getpid(), partial(self.work, pending.chain[0], theirs), output.sink, self.parent, ours),
        )
        process.start()
        theirs.close()
        output.close_sink()
        return Worker(pending, process, ours, output)

    def _pump(self) -> None:
        """Wait for news of any worker and deal with it."""
        handles: list[Any] = [self.parent]
        handles += [h for w in self.workers for h in (w.connection, w.process.sentinel)]
        handles += [w.output.source for w in self.workers if not w.output.ended]
        ready = wait(handles, timeout=_POLL_SECONDS)
        if self.parent in ready:  # a parent says nothing while it waits: it has closed
            raise EOFError
        for worker in list(self.workers):
            self._receive(worker)
            if worker.process.sentinel in ready or not worker.process.is_alive():
                self._bury(worker)
            elif worker.overrun is None:
                self._watch(worker)
            elif time.monotonic() - worker.ended_at > _KILL_SECONDS:
                self._bury(worker)

    def _watch(self, worker: Worker) -> None:
        """End a worker that is over a limit."""
        worker.overrun = over_time(worker, self.limits) or over_memory(worker, self.limits)
        if worker.overrun:
            worker.ended_at = time.monotonic()
            _kill(worker)

    def _receive(self, worker: Worker) -> None:
        worker.output.read()
        with contextlib.suppress(EOFError, OSError):
            while worker.connection.poll():
                message = worker.connection.recv()
                if isinstance(message, Finished):
                    message = Finished(worker.explained(message.result))
                worker.note(message)
                if isinstance(message, DeviceAnswers):
                    self.gpus.answered(worker.job)
                if isinstance(message, Started | Finished | Probed):
                    self.parent.send(message)

    def _bury(self, worker: Worker) -> None:
        """Account for a process that ended: the cell under way, and what follows."""
        worker.process.join(timeout=1)
        self._receive(worker)
        _end_group(worker)  # what its host code started goes with it, after a good end, too
        self.workers.remove(worker)
        self._account_for_device(worker)
        if worker.trying and worker.current:
            worker.give_up(worker.trying, Baseline(Status.BASELINE_FAILED, cause_of_death(worker).message))
        blamed = _blamed(worker)
        if blamed:
            outcome = cause_of_death(worker)
            for cell in blamed:
                self.parent.send(Finished(worker.lose(cell, outcome)))
        worker.connection.close()
        worker.output.close()
        self._queue_rest(worker)

    def _account_for_device(self, worker: Worker) -> None:
        """Free the worker's GPU, or count what speaks against it."""
        self.gpus.release(worker.job)
        if worker.job.evidence is Evidence.MEASURED and worker.process.is_alive():
            self.gpus.lose(worker.job, "a process of an earlier cell holds it and could not be killed")
        elif worker.without_device:
            self.gpus.refused(worker.job, worker.refusal or _ending(worker))
        elif worker.job.probe and not worker.probed:
            self._send_unprobed(worker.job, f"the process that measured it ended: {_ending(worker)}")

    def _queue_rest(self, worker: Worker) -> None:
        if worker.job.probe:
            if worker.without_device:
                self.queue.appendleft(Pending((replace(worker.job, device=None),)))
            return
        known = (*worker.pending.known, *worker.known)
        rest = worker.pending.chain[1:]
        if left := worker.unfinished():
            rest = (replace(worker.job, cells=left, device=None, given_up=_given_up(worker)), *rest)
        else:
            rest = tuple(job for job in (self._serve(job, known) for job in rest) if job.cells)
        if rest:
            self.queue.appendleft(Pending(rest, known, killed=not worker.results and not worker.given_up))

    def _serve(self, job: Job, known: Sequence[CellResult]) -> Job:
        """Send a SKU the results that hold for it; returns the job of the cells that are left."""
        shared, left = share(known, job)
        for result in shared:
            self.parent.send(Finished(result))
        return replace(job, cells=left)


def _blamed(worker: Worker) -> tuple[Cell, ...]:
    """Cells that a death costs: the one under way, or all of the first case where the process came to none.

    None where it died between two cells, gave up an unusable device, got no answer from
    it, came to its end by a baseline, or was killed from outside before its first cell, unless that happened before.
    """
    if worker.without_device or worker.given_up:
        return ()
    left = worker.unfinished()
    if worker.current is not None:
        return left[:1]
    if worker.results or (worker.killed_from_outside and not worker.pending.killed):
        return ()
    return tuple(cell for cell in left if cell.case == left[0].case)


def _given_up(worker: Worker) -> dict[Cell, dict[str, Baseline]]:
    """Baselines of each cell that ended this process or an earlier one."""
    before, now = worker.job.given_up, worker.given_up
    return {cell: {**before.get(cell, {}), **now.get(cell, {})} for cell in (*before, *now)}


def over_time(worker: Worker, limits: Limits) -> Outcome | None:
    """The outcome of a cell that is over the time of its stage or over its own."""
    now = time.monotonic()
    stage = limits.stage_seconds.get(worker.stage, limits.cell_seconds)
    if worker.without_device and now - worker.stage_since > DEVICE_SECONDS:
        return Outcome(Status.TIMEOUT, worker.stage, f"no answer to a new process within {DEVICE_SECONDS:g} s")
    if now - worker.stage_since > stage:
        what, limit = f"stage {worker.stage}", stage
    elif now - worker.cell_since > limits.cell_seconds:
        what, limit = f"the cell, now in stage {worker.stage},", limits.cell_seconds
    else:
        return None
    return Outcome(Status.TIMEOUT, worker.stage, f"{what} took more than its limit of {limit:g} s, {worker.doing}")


def over_memory(worker: Worker, limits: Limits) -> Outcome | None:
    """The outcome of a cell whose process holds more memory than it may; a device's is not limited."""
    if limits.memory_bytes is None or worker.job.evidence is Evidence.MEASURED:
        return None
    used = resident_bytes(worker.process.pid or 0)
    if used <= limits.memory_bytes:
        return None
    figures = f"{used / GIB:.2f} GiB resident, {limits.memory_bytes / GIB:.2f} GiB allowed"
    return _death(worker, f"ended over the memory limit: {figures}, {worker.doing}")


def share(results: Sequence[CellResult], job: Job) -> tuple[list[CellResult], tuple[Cell, ...]]:
    """Results of one SKU that hold for another of the same architecture.

    They hold where the host code asked nothing that the other SKU would have
    answered otherwise: then launches and binaries are the same, and limits are
    the architecture's. Where a question had no answer the message names the SKU.

    Args:
        results: each with all the questions that its host code asked.
        job: cells of the other SKU.

    Returns:
        Its results, and the cells that are left.
    """
    if job.target is None or job.evidence not in (Evidence.COMPILED, Evidence.EMULATED):
        return [], job.cells
    answers = answers_for(job.target)
    known = {
        replace(r.cell, target=""): r for r in results if None not in r.asked.values() and answers.same_for(r.asked)
    }
    shared = [
        replace(known[key], cell=cell, seconds=0.0) for cell in job.cells if (key := replace(cell, target="")) in known
    ]
    done = {r.cell for r in shared}
    return shared, tuple(cell for cell in job.cells if cell not in done)


def cause_of_death(worker: Worker) -> Outcome:
    """What the end of a process says about the cell under way."""
    if worker.overrun:
        survives = " (and it could not be killed)" if worker.process.is_alive() else ""
        return replace(worker.overrun, message=worker.overrun.message + survives)
    how = describe_exit(worker.process.exitcode)
    if worker.killed_from_outside:
        text = f"killed from outside ({how}), as the kernel does when memory runs out, {worker.doing}"
        return Outcome(Status.WORKER_LOST, worker.stage, text)
    outcome = _death(worker, _ending(worker))
    if outcome.status is Status.CAPTURE_FAILED:
        return replace(outcome, message=f"host code ended the process: {outcome.message}")
    return outcome


def _ending(worker: Worker) -> str:
    """How a process ended, with what it said last."""
    if worker.overrun:
        return worker.overrun.message
    how, said = describe_exit(worker.process.exitcode), telling_line(worker.said)
    return f"{how}: {said}" if said else how


_OWN_FAULTS = {Stage.INPUTS: Status.CAPTURE_FAILED, Stage.IMPORT: Status.CAPTURE_FAILED}
_OWN_FAULTS |= {Stage.CAPTURE: Status.CAPTURE_FAILED, Stage.REFERENCE: Status.REFERENCE_FAILED}
"""Stages before the kernel runs, and whose fault it is when one ends the process."""


def _death(worker: Worker, message: str) -> Outcome:
    """The outcome of a cell whose process ended in its stage."""
    if worker.stage not in _OWN_FAULTS and aborted_by_runtime(worker.said):
        return Outcome(Status.DEVICE_FAULT, Stage.RUN if worker.stage is Stage.COMPILE else worker.stage, message)
    if worker.stage is Stage.COMPILE:
        return Outcome(Status.COMPILER_CRASH, Stage.COMPILE, message)
    return Outcome(_OWN_FAULTS.get(worker.stage, Status.WORKER_LOST), worker.stage, message)


_TELLING = ("LLVM ERROR", "error:", "Assertion", "Cannot select", "fatal", "Error:", *ABORTS)


_FALSE_ALARMS = ("no matching matrix core intrinsic",)
"""What the compiler prints of kernels that it builds all the same."""

_PROGRAM = re.compile(r"^[\w.-]+: (?=\S+:\d+: )")
"""Name of the interpreter, which glibc puts before a failed assertion."""


def telling_line(log: str) -> str:
    """The first line of a log that names a fault, otherwise its last; empty where it has none."""
    return cause_line(log) or tail(log, 1)[:400]


def cause_line(log: str) -> str | None:
    """The first line of a log that names a fault, scrubbed; false alarms only where there is no other."""
    found = [line.strip() for line in log.splitlines() if any(word in line for word in _TELLING)]
    real = [line for line in found if not any(alarm in line for alarm in _FALSE_ALARMS)]
    return nameless(scrub(_PROGRAM.sub("", (real or found)[0])))[:400] if found else None


def _enter(supervisor: int, work: Callable[[], None], sink: int, *inherited: Connection) -> None:
    """First steps of a worker: die with the supervisor, write to the pipe, then work."""
    end_with_parent(supervisor)
    os.setsid()  # so that a compiler's own children can be killed with it
    for end in inherited:
        end.close()
    for stream in (1, 2):
        os.dup2(sink, stream)
    os.close(sink)
    _leave_after(work)


def _leave_after(run: Callable[[], None]) -> NoReturn:
    """Run, and end the process at once: threads and exit handlers of host code keep it from nothing."""
    code = 1
    try:
        run()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):  # host code may have closed them
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code & 0xFF)


def _kill(worker: Worker) -> None:
    _end_group(worker)
    worker.process.kill()


def _end_group(worker: Worker) -> None:
    """Kill the worker's session: itself, a compiler's tools and what host code started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.process.pid or 0, signal.SIGKILL)


def _warm_up() -> None:
    """Do once what every worker would do again."""
    importlib.import_module("triton.experimental.gluon")  # Triton does so at the first launch, which takes 40 ms
    if os.environ.get("TRITON_INTERPRET") != "1":
        triton_key()  # hashes all of Triton, a third of a second; kept for the life of the process
        torch.empty_like(torch.empty(1, device="meta"))  # imports torch's symbolic shapes, as much again
    gc.collect()
    gc.freeze()  # what is loaded by now stays, and workers need neither look at it nor copy its pages


def main(arguments: list[str]) -> int:
    """Serve requests from the session at the other end of the given file descriptor.

    Args:
        arguments: the descriptor; then :data:`~portkit.run.session.COMPILER` with seconds, or files with requests
            that an earlier life of this process left.
    """
    parent = Connection(int(arguments[0]))
    _warm_up()
    early = [float(each.removeprefix(COMPILER)) for each in arguments[1:] if each.startswith(COMPILER)]
    if early and not os.environ.get(NO_COMPILER) and not load_compiler(*early):
        _start_over(arguments[0])
    taken_over = [_left_over(Path(name)) for name in arguments[1:] if not name.startswith(COMPILER)]
    for request in itertools.chain(taken_over, _requests(parent.recv)):
        with contextlib.suppress(EOFError, BrokenPipeError):
            parent.send(Ready())
            builds = Builds.begin(request.chains, request.limits.builders, partial(_fork_silent, parent))
            try:
                load_statistics(request.chains)
                if is_wanted(request.chains) and not load_compiler(request.limits.stage_seconds[Stage.IMPORT]):
                    builds.end()
                    _start_over(arguments[0], request)
                builds.finish(request.limits.stage_seconds[Stage.COMPILE], parent)
            finally:
                builds.end()
            Supervisor(parent, request).run()
    return 0


def _fork_silent(parent: Connection, work: Callable[[], None]) -> BaseProcess:
    """Start a worker whose words nobody reads."""
    sink = os.open(os.devnull, os.O_WRONLY)
    process = _FORK.Process(target=_enter, args=(os.getpid(), work, sink, parent))
    process.start()
    os.close(sink)
    return process


def _start_over(parent: str, *requests: Request) -> NoReturn:
    """Become a supervisor that has not loaded the compiler: CUDA would refuse every worker of this one."""
    left = [_leave(request) for request in requests]
    command = [sys.executable, "-m", "portkit.run.supervisor", parent, *left]
    os.execve(sys.executable, command, {**os.environ, NO_COMPILER: "1"})


def _leave(request: Request) -> str:
    """Keep a request for the next life of this process; the file."""
    with tempfile.NamedTemporaryFile(prefix="portkit-request-", delete=False) as left:
        left.write(pickle.dumps(request))
    return left.name


def _left_over(path: Path) -> Request:
    """The request that an earlier life of this process left."""
    request: Request = pickle.loads(path.read_bytes())
    path.unlink()
    return request


def _requests(receive: Callable[[], Any]) -> Iterator[Request]:
    while True:
        try:
            request = receive()
        except EOFError:
            return
        yield request


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
