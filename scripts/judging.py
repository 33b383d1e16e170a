"""Judges cells on this process's GPU, nothing timed, by several processes that share its memory.

Each takes a group of cells (``judged_groups.py``), and keeps to one case, direction and dtype where it can, for what it
has compiled.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import multiprocessing
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import connection
from typing import Any

import forked
import torch
from judged_groups import GIB, Group, Queue, loaded
from triton.runtime.autotuner import Autotuner

from portkit.errors import HostError
from portkit.model import Cell, KernelCase, Outcome, Stage, Status
from portkit.run.evaluate import Given, Runner, StageFailed, evaluate, given_for
from portkit.run.measure import device_failure
from portkit.run.reference import free_bytes
from portkit.run.torch_settings import kept_settings

CONTEXT = 0.7 * GIB
"""Memory of a process that holds nothing: its context, code and what libraries set aside."""
BLOCKING_SYNC = 4
"""``CU_CTX_SCHED_BLOCKING_SYNC``."""
NO_MEMORY = ("out of device memory", "out of memory", "ALLOC_FAILED")
"""Words of which the message of a cell has one that found none."""

Told = Callable[[Cell, Outcome], None]
"""Takes each verdict as it is known."""


def room(memory: float, count: int) -> int:
    """Bytes for groups, of a memory that so many processes share.

    Raises:
        HostError: the processes alone take it.
    """
    left = int(memory - count * CONTEXT)
    if left <= 0:
        raise HostError(
            f"{count} processes leave nothing of {memory / GIB:.1f} GiB",
            remedy="take fewer --workers, or more --memory",
        )
    return left


@dataclass(frozen=True)
class _Process:
    """One that judges, and what it has left of its group."""

    process: Any
    connection: connection.Connection
    left: deque[Cell]

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


class Judges:
    """Processes that judge the groups of a queue.

    Args:
        queue: of the groups.
        told: takes each verdict.
        count: of processes.
        device: of PyTorch, on which they judge.
        limit: seconds that a verdict may take, the group's reference included; a process that takes more is ended.
    """

    def __init__(self, queue: Queue, told: Told, count: int, device: str = "cuda", *, limit: float = math.inf) -> None:
        self._queue, self._told, self._device, self._limit = queue, told, device, limit
        self._heard: dict[int, float] = {}  # process → when it last told something, or was given a group
        self._unasked = 0  # processes that ended before they were given a group
        forked.begin()
        self._context = multiprocessing.get_context("forkserver")
        self._processes = dict(enumerate(self._start() for _ in range(count)))

    def run(self, groups: Iterable[Group], seconds: float = math.inf) -> None:
        """Judge until nothing is left or the time is over; groups are taken in while others are judged."""
        until, more = time.monotonic() + seconds, iter(groups)
        try:
            while time.monotonic() < until:
                added = next(more, None)
                if added:
                    self._queue.add(added)
                self._give()
                if not (added or self._queue.held or self._queue.waiting):
                    return
                # Nothing is held while something waits where a process died before it was given that.
                asked = self._queue.held and not added
                self._wait(min(until, self._first_limit()) - time.monotonic() if asked else 0.0)
                self._end_late()
        finally:
            for process in self._processes.values():
                process.end()

    def _wait(self, seconds: float) -> None:
        """Hear the processes that have something to tell."""
        connections = [each.connection for each in self._processes.values()]
        ready = set(connection.wait(connections, None if seconds == math.inf else max(0.0, seconds)))
        for number, process in list(self._processes.items()):
            if process.connection in ready:
                self._hear(number, process)

    def _first_limit(self) -> float:
        return min((self._heard[number] + self._limit for number in self._queue.held), default=math.inf)

    def _end_late(self) -> None:
        """End the processes whose verdict takes too long: a compiler or a kernel that hangs."""
        for number in [each for each in self._queue.held if time.monotonic() > self._heard[each] + self._limit]:
            process = self._processes[number]
            if process.left:
                late = Outcome(Status.TIMEOUT, Stage.RUN, f"no verdict within {self._limit:g} s")
                self._told(process.left.popleft(), late)
            self._replace(number, process)

    def _start(self) -> _Process:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, self._device), daemon=True)
        process.start()
        theirs.close()
        return _Process(process, ours, deque())

    def _give(self) -> None:
        """Hand a group to each process that has none."""
        for number, process in list(self._processes.items()):
            if number not in self._queue.held and (group := self._queue.take(number)):
                self._heard[number] = time.monotonic()
                try:
                    process.connection.send(group)
                    process.left.extend(group.cells)
                except (BrokenPipeError, ConnectionResetError):
                    self._queue.give_back(number)
                    self._queue.add(group)
                    self._start_anew(number, _died(process))

    def _hear(self, number: int, process: _Process) -> None:
        self._heard[number] = time.monotonic()
        try:
            outcome: Outcome | None = process.connection.recv()
        except (EOFError, ConnectionResetError):
            outcome = Outcome(Status.WORKER_LOST, Stage.RUN, _died(process))
        if number not in self._queue.held:
            self._start_anew(number, outcome.message if outcome else "")
        elif outcome is None:
            self._queue.give_back(number)
        elif self._crowded(outcome, number):
            self._replace(number, process, alone=True)
        else:
            if process.left:  # else it died between its last outcome and None
                self._told(process.left.popleft(), outcome)
            if outcome.status in (Status.WORKER_LOST, Status.DEVICE_FAULT):
                self._replace(number, process)

    def _start_anew(self, number: int, why: str) -> None:
        """In place of a process that ended before it had a group, unless as many have as there are."""
        self._unasked += 1
        if self._unasked > len(self._processes):
            raise HostError(f"processes that judge end before they are asked: {why}", remedy="take fewer --workers")
        self._processes[number].end()
        self._processes[number] = self._start()

    def _crowded(self, outcome: Outcome, number: int) -> bool:
        """Whether a cell found no memory that it may find once it is alone."""
        crowded = self._queue.held[number].memory < self._queue.whole
        return crowded and any(word in outcome.message for word in NO_MEMORY)

    def _replace(self, number: int, process: _Process, *, alone: bool = False) -> None:
        """Start another process; what the first had left is judged again, if need be alone."""
        group = self._queue.held[number]
        self._queue.give_back(number)
        process.end()
        self._processes[number] = self._start()
        if process.left:
            memory = self._queue.whole if alone else group.memory
            self._queue.add(replace(group, cells=tuple(process.left), memory=memory))


def _died(process: _Process) -> str:
    process.process.join(5)
    return f"its process died, exit code {process.process.exitcode}"


def _work(given: connection.Connection, device: str) -> None:
    """Judge groups as they come: an outcome a cell, then None."""
    torch.set_num_threads(1)
    if device == "cuda":
        _sleep_while_waiting()
        Autotuner.do_bench = property(lambda tuner: seconds_of_one_call)
        torch.zeros(1, device=device)  # makes the context
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            group: Group = given.recv()
            for outcome in judge(group, device):
                given.send(outcome)
            if device == "cuda":
                torch.cuda.empty_cache()  # before the memory is another's
            given.send(None)


def seconds_of_one_call(call: Callable[[], object], quantiles: Sequence[float] = (), **_: object) -> list[float]:
    """In place of an autotuner's timer, which takes an eighth of a second and more a configuration.

    Which is the fastest can't be told while processes share a device, and any is as right as another; each is called.
    """
    call()  # builds it
    torch.cuda.synchronize()
    begun = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return [time.perf_counter() - begun] * max(1, len(quantiles))


def _sleep_while_waiting() -> None:
    """Leave the core to those that compile while the device works; CUDA would keep it busy asking.

    Source: ``cuDevicePrimaryCtxSetFlags`` of the CUDA driver API, before the context is made. A ROCm host has
    no such library.
    """
    with contextlib.suppress(OSError):
        driver = ctypes.CDLL("libcuda.so.1")
        driver.cuInit(0)
        driver.cuDevicePrimaryCtxSetFlags_v2(0, BLOCKING_SYNC)


def judge(group: Group, device: str) -> Iterator[Outcome]:
    """The outcome of each cell of a group, in order."""
    case = loaded(group.source)
    explain = device_failure if device == "cuda" else lambda error, stage: None
    runner = Runner(device, explain, free_bytes=partial(_free, group))
    given: Given | None = None
    for cell in group.cells:
        with kept_settings():
            try:
                given = given or _given(case, cell, runner)
                yield evaluate(case, cell, runner, seed=0, given=given).outcome
            except StageFailed as failed:
                yield failed.outcome


def _free(group: Group, where: torch.device) -> int:
    """What a reference is told: on a device, what is set aside for the group, whatever others have of it now."""
    return group.free if where.type == "cuda" else min(group.free, free_bytes(where))


def _given(case: KernelCase, cell: Cell, runner: Runner) -> Given:
    """What a group shares; what making it took goes back to the device, of which others have a part."""
    given = given_for(case, cell, runner, seed=0)
    if runner.device == "cuda":
        torch.cuda.empty_cache()
    return given
