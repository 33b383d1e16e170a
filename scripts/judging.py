"""Judges cells on this process's GPU, nothing timed, by several processes that share its memory.

Cells that differ in their variant alone are a group: they share inputs, float64 reference and unfused chain.
Each group has an estimate of the memory that it takes; as many are under way as the device holds. A process
keeps to one case, direction and dtype where it can, for what it has compiled.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import multiprocessing
import time
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import connection
from pathlib import Path
from typing import Any

import forked
import torch
from triton.runtime.autotuner import Autotuner

from portkit.errors import HostError
from portkit.model import DTYPE_BYTES, CaseSource, Cell, Direction, KernelCase, Outcome, Stage, Status
from portkit.run.calls import Upstream, upstream_for
from portkit.run.evaluate import Given, Runner, StageFailed, evaluate, given_for
from portkit.run.inputs import InputMaker
from portkit.run.load import load_case
from portkit.run.measure import device_failure
from portkit.run.peak import peak_bytes
from portkit.run.reference import CHAIN_SHARE, ReferenceMaker, free_bytes, unfused
from portkit.run.torch_settings import kept_settings
from portkit.run.tree import named_tensors

GIB = 2**30
CONTEXT = 0.7 * GIB
"""Memory of a process that holds nothing: its context, code and what libraries set aside."""
SLACK = 1.1
"""PyTorch's allocator holds more than is asked of it."""
OWN_REFERENCE = 6 * GIB
"""Most bytes of a reference that is made in slices of rows, beside its results."""
FOR_LARGE = 2
"""Processes that go through the large groups."""
LARGE = 1 / 6
"""Share of the memory from which on a group is large."""
HUGE = 2 / 3
"""Share of the memory up to which it is, and that is kept for the next of them."""
BLOCKING_SYNC = 4
"""``CU_CTX_SCHED_BLOCKING_SYNC``."""
NO_MEMORY = ("out of device memory", "out of memory", "ALLOC_FAILED")
"""Words of which the message of a cell has one that found none."""

Kind = tuple[str, Direction, str]


@dataclass(frozen=True)
class Group:
    """Cells that share inputs and reference."""

    source: CaseSource
    cells: tuple[Cell, ...]
    free: int  # bytes that its reference is told are free
    memory: int  # bytes that it takes at most, as far as can be told
    last: bool = False  # to be judged after all others
    claimed: bool = False  # by this run, of several that go through the same groups

    @property
    def kind(self) -> Kind:
        """What a process keeps to."""
        return (self.cells[0].case, self.cells[0].direction, self.cells[0].dtype)


@dataclass(frozen=True)
class Needs:
    """Bytes of a group's parts."""

    inputs: int
    outputs: int  # of one call, as float64
    chain: int  # most at once of the unfused chain in the cell's dtype
    reference: int  # most at once of that in float64
    rows: int = 0  # of which both can be made slice by slice; 0: they are not independent
    reads_values: bool = False  # then chain and reference are all that is moved, of which they hold a part at once

    @property
    def shared_reference(self) -> int:
        """Most of the reference as it is made beside others: slice by slice where that can be."""
        if not self.rows:
            return self.reference
        return min(self.reference, max(self.reference // self.rows, OWN_REFERENCE + 3 * self.outputs))

    @property
    def free(self) -> int:
        """What the reference is told is free: it takes half of that."""
        return 2 * self.shared_reference + GIB

    @property
    def memory(self) -> int:
        """All of it: inputs in three copies, two references, results of chain and calls, and what one of them holds."""
        in_slices = bool(self.rows) and self.chain > CHAIN_SHARE * self.free
        chain = max(self.chain // self.rows, int(CHAIN_SHARE / 2 * self.free)) if in_slices else self.chain
        most = max(self.shared_reference + 2 * self.inputs, chain) // (3 if self.reads_values else 1)
        return int(SLACK * (3 * self.inputs + 4.5 * self.outputs + most) + GIB)


def needs(source: CaseSource, cell: Cell) -> Needs:
    """What a cell takes, found on tensors without memory; that of the work model where values are asked for."""
    case = _case(source)
    maker, make = ReferenceMaker(case, cell, lambda device: 0), InputMaker(0, "meta")
    inputs = case.inputs(make, cell.shape, cell.dtype)
    own = sum(tensor.nbytes for _, tensor in named_tensors(inputs))
    moved = maker.moved(inputs)
    try:
        outputs, upstream = _outputs(case, cell, inputs, make)
    except Exception:  # it asks for values
        least = case.work(cell.shape, cell.dtype).fused_bytes * 8 // DTYPE_BYTES[cell.dtype]
        return Needs(own, int(least) // 2, moved, moved, reads_values=True)
    held = min(moved, maker.held(inputs, upstream) or moved)
    chain = peak_bytes(lambda: unfused(case, cell, inputs, upstream)) or moved
    by_row = named_tensors({name: inputs[name] for name in case.row_inputs})
    return Needs(own, outputs, chain, held, by_row[0][1].shape[0] if by_row else 0)


def _outputs(case: KernelCase, cell: Cell, inputs: dict[str, Any], make: InputMaker) -> tuple[int, Upstream]:
    """Bytes of the results as float64, and the gradients that come in."""
    outputs = unfused(case, replace(cell, direction=Direction.FORWARD), inputs)
    upstream: Upstream = ()
    if cell.direction is Direction.BACKWARD:
        upstream = upstream_for([tensor for _, tensor in outputs.named], make)
        outputs = unfused(case, cell, inputs, upstream)
    return sum(8 * tensor.numel() for _, tensor in outputs.named), upstream


@dataclass(frozen=True)
class Claims:
    """Which run judges a group, of several on this host that go through the same: the first to name it in a folder."""

    folder: Path

    def __call__(self, group: Group) -> bool:
        """Whether the group is this run's."""
        if group.claimed:
            return True
        self.folder.mkdir(parents=True, exist_ok=True)
        cell = group.cells[0]
        name = "-".join((cell.case, cell.direction.value, cell.shape_text, cell.dtype))
        try:
            (self.folder / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


@dataclass
class Queue:
    """Groups that are to be judged, the smallest first, and the memory that is left for them.

    Two processes go through the large ones, the largest first; others take those once nothing small is left.
    What takes more than two thirds of the memory waits for all others.
    """

    room: int
    claim: Callable[[Group], bool] = lambda group: True
    waiting: list[Group] = field(default_factory=list)
    held: dict[int, Group] = field(default_factory=dict)  # process → what it judges
    kinds: dict[int, Kind] = field(default_factory=dict)  # process → what it keeps to

    def add(self, group: Group) -> None:
        """One more; if it takes more than there is, it waits until it is alone."""
        insort(self.waiting, replace(group, memory=min(group.memory, self.whole)), key=_order)

    @property
    def whole(self) -> int:
        """All the memory there is."""
        return self.room + sum(each.memory for each in self.held.values())

    def take(self, process: int) -> Group | None:
        """A group that fits and is this run's, if there is one."""
        while chosen := self._choose(process):
            self.waiting.remove(chosen)
            if self.claim(chosen):
                self.room -= chosen.memory
                self.held[process], self.kinds[process] = replace(chosen, claimed=True), chosen.kind
                return self.held[process]
        return None

    def _choose(self, process: int) -> Group | None:
        small = [each for each in self.waiting if each.memory <= LARGE * self.whole]
        large = [each for each in self.waiting if LARGE < each.memory / self.whole <= HUGE]
        large.sort(key=lambda each: (each.last, -each.memory))
        if small and process >= FOR_LARGE:
            return self._of_kind(process, small, kept=self.whole * HUGE if large and not self._has_large() else 0)
        return self._first(large) or self._first(small) or (None if small or large else self._first(self.waiting))

    def _has_large(self) -> bool:
        return any(each.memory > LARGE * self.whole for each in self.held.values())

    def _of_kind(self, process: int, small: list[Group], kept: float) -> Group | None:
        """Of the kind that the process keeps to, of one that none keeps to, or the first."""
        fitting = [each for each in small if each.memory <= self.room - kept and each.last == small[0].last]
        taken = {kind for other, kind in self.kinds.items() if other != process}
        own = [each for each in fitting if each.kind == self.kinds.get(process)]
        new = [each for each in fitting if each.kind not in taken]
        return next(iter(own or new or fitting), None)

    def _first(self, groups: list[Group]) -> Group | None:
        return next((each for each in groups if each.memory <= self.room), None)

    def give_back(self, process: int) -> None:
        """The process is done with its group."""
        self.room += self.held.pop(process).memory


def _order(group: Group) -> tuple[bool, int]:
    return (group.last, group.memory)


Told = Callable[[Cell, Outcome], None]
"""Takes each verdict as it is known."""


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
                if not added and not self._queue.held:
                    return
                self._wait(0.0 if added else min(until, self._first_limit()) - time.monotonic())
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


@functools.cache
def _case(source: CaseSource) -> KernelCase:
    """A case, loaded once: what is compiled for it stays with its functions."""
    return load_case(source)


def judge(group: Group, device: str) -> Iterator[Outcome]:
    """The outcome of each cell of a group, in order."""
    case = _case(group.source)
    explain = device_failure if device == "cuda" else lambda error, stage: None
    runner = Runner(device, explain, free_bytes=lambda where: min(group.free, free_bytes(where)))
    given: Given | None = None
    for cell in group.cells:
        with kept_settings():
            try:
                given = given or _given(case, cell, runner)
                yield evaluate(case, cell, runner, seed=0, given=given).outcome
            except StageFailed as failed:
                yield failed.outcome


def _given(case: KernelCase, cell: Cell, runner: Runner) -> Given:
    """What a group shares; what making it took goes back to the device, of which others have a part."""
    given = given_for(case, cell, runner, seed=0)
    if runner.device == "cuda":
        torch.cuda.empty_cache()
    return given


def grouped(
    cells: Iterable[Cell], sources: Mapping[str, CaseSource], last: Callable[[Cell], bool] = lambda cell: False
) -> Iterator[Group]:
    """Groups of cells, in their order, and which of them are to be judged after all others."""
    found: dict[tuple[object, ...], list[Cell]] = {}
    for cell in cells:
        found.setdefault((cell.case, cell.direction, cell.shape, cell.dtype), []).append(cell)
    for own in found.values():
        source = sources[own[0].case]
        taken = needs(source, own[0])
        yield Group(source, tuple(own), taken.free, taken.memory, last(own[0]))
