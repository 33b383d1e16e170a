"""Runs one launch, chunk of workgroups by chunk: the same for every instruction set."""

from __future__ import annotations

import dataclasses
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

from portkit.emulate.core.bounds import Bounds
from portkit.emulate.core.bytestore import Bytes, keep_heap
from portkit.emulate.core.findings import Fault, Finding, Halt, Kind, OverBudget, Site, TooLarge, Unloadable, outcome_of
from portkit.emulate.core.launch import Buffers, Counts, Emulation, Grid, Options, Value, workgroup_ids
from portkit.emulate.core.memory import Memory
from portkit.emulate.core.schedule import Order, Schedule

MAX_WORKGROUPS = 1 << 22
"""Of a launch: more would not end in this emulator's lifetime, and their ids alone would fill memory."""

GRID = Bounds(0, (1 << 31) - 1)
LANES = Bounds(1, 1 << 13)
SHARED_BYTES = Bounds(0, 1 << 18)
"""Of a launch: workgroups along an axis, lanes of a workgroup and its shared memory; more than any device has."""

LEAST_LANES = 1024
"""An instruction of fewer lanes takes about as long, so it is charged as one of so many."""


@dataclass
class Meter:
    """Instructions and lane-instructions so far, and how many are allowed."""

    budget: int
    instructions: int = 0
    lane_instructions: int = 0
    charged: int = 0  # lane-instructions, of ``LEAST_LANES`` at least for each instruction

    def add(self, steps: int, lanes: int) -> None:
        """Count instructions that so many lanes ran together.

        Raises:
            OverBudget: there have been more than allowed.
        """
        self.instructions += steps
        self.lane_instructions += steps * lanes
        self.charged += steps * max(lanes, LEAST_LANES)
        if self.charged > self.budget:
            raise OverBudget(f"more than {self.budget} lane-instructions")


class _Block(Protocol):
    @property
    def counted(self) -> int: ...


class _Code(Protocol):
    """A program in blocks."""

    @property
    def blocks(self) -> Mapping[int, _Block]: ...


class _Machine(Protocol):
    @property
    def findings(self) -> dict[tuple[Kind, int], Finding]: ...


class _Runner(Protocol):
    """Runs one chunk of workgroups to its end."""

    @property
    def machine(self) -> _Machine: ...
    @property
    def closing(self) -> Sequence[Callable[[], None]]: ...
    def run(self) -> None: ...
    def starvation(self) -> Finding: ...


BlockT = TypeVar("BlockT", bound=_Block)


class Blocks(dict[int, BlockT]):
    """Blocks of a program by their first instruction.

    Args:
        blocks: all of them.
        last: the last instruction of the text, behind which waves find nothing to run.
    """

    def __init__(self, blocks: Mapping[int, BlockT], last: Site) -> None:
        super().__init__(blocks)
        self.last = last

    def __missing__(self, start: int) -> BlockT:
        raise Unloadable(f"line {self.last.line} `{self.last.text}`: the code runs past its end")


CodeT = TypeVar("CodeT", bound=_Code)
RunnerT = TypeVar("RunnerT", bound=_Runner)
JudgedT = TypeVar("JudgedT")


class KernelLaunch(ABC, Generic[CodeT, RunnerT, JudgedT]):
    """One launch of one kernel.

    Args:
        code: the kernel.
        grid: workgroups in x, y, z.
        values: one value an argument, in order.
        waves: of each workgroup; None: as many as the kernel was built for.
        shared_bytes: of each workgroup, where the launch asks for more than the kernel states.
        options: how to emulate.
    """

    def __init__(
        self,
        code: CodeT,
        grid: Sequence[int],
        values: Sequence[Value],
        waves: int | None,
        shared_bytes: int,
        options: Options,
    ) -> None:
        self.code, self.options, self.values = code, options, values
        self.grid: Grid = (*grid, 1, 1, 1)[:3]  # type: ignore[assignment]
        for axis, size in zip("xyz", self.grid, strict=True):
            GRID.check(f"workgroups along {axis}", size)
        SHARED_BYTES.check("bytes of shared memory of the launch", shared_bytes)
        self.waves, self.shared_bytes = self._size(waves, shared_bytes)
        LANES.check("lanes of a workgroup", self.lanes)
        self.findings: list[Finding] = []
        self.meter = Meter(options.budget)
        self.done = 0
        self.attach: list[Callable[[RunnerT], None]] = []  # called for each chunk before it runs
        self.closing: list[Callable[[], list[Finding]]] = []  # called when all have run, and give what that tells
        self.buffers, self.own_end = self._allocate()

    # -- what an instruction set says

    @abstractmethod
    def _size(self, waves: int | None, shared_bytes: int) -> tuple[int, int]:
        """Waves and bytes of shared memory that each workgroup gets."""

    @abstractmethod
    def _allocate(self) -> tuple[Buffers, int]:
        """Global memory, and the end of what it holds beside the caller's buffers."""

    @abstractmethod
    def _runner(self, groups: list[Grid], schedule: Schedule) -> RunnerT:
        """Runs some workgroups that begin."""

    @abstractmethod
    def _checker(self, judged: JudgedT) -> Callable[[RunnerT], None]:
        """Attaches the checker to a runner."""

    @property
    @abstractmethod
    def lanes(self) -> int:
        """Of a workgroup."""

    @property
    @abstractmethod
    def said(self) -> tuple[str, ...]:
        """What the kernel printed so far."""

    # -- the launch

    @property
    def memory(self) -> Memory:
        """Global memory of the launch."""
        return self.buffers.memory

    def check_budget(self) -> None:
        """Refuse a launch whose straight run alone is over the budget.

        Raises:
            TooLarge: each instruction once, in every lane, is more than allowed.
        """
        groups = math.prod(self.grid)
        least = groups * self.lanes * sum(block.counted for block in self.code.blocks.values())
        if least > self.options.budget or groups > MAX_WORKGROUPS:
            work = f"{groups} workgroups, about {least} lane-instructions"
            raise TooLarge(f"launch of {work}; allowed: {self.options.budget}")

    def run(self) -> None:
        """Run all workgroups, and write the buffers back whatever happens.

        Raises:
            Halt: a fault, something unsupported, or more work than allowed.
        """
        schedule = Schedule(self.options.order, self.options.seed)
        ids = workgroup_ids(self.grid)
        order = [ids[number] for number in schedule.workgroups(len(ids))]
        per_chunk = max(1, self.options.lanes_at_once // self.lanes)
        try:
            with np.errstate(all="ignore"):
                for start in range(0, len(order), per_chunk):
                    self._run_chunk(order[start : start + per_chunk], schedule)
        finally:
            for close in self.closing:
                self.findings.extend(close())
            self.buffers.write_back()

    def run_checked(self, judged: JudgedT) -> None:
        """Run with the checker.

        Raises:
            Halt: as ``run``.
        """
        start = self.memory.contents()
        self.attach.append(self._checker(judged))
        self.run()
        if any(item.kind is Kind.WORKGROUP_RACE for item in self.findings) and self._same_both_ways(start):
            self.findings = [item for item in self.findings if item.kind is not Kind.WORKGROUP_RACE]

    def _same_both_ways(self, start: Sequence[Bytes]) -> bool:
        """Whether memory is left the same by waves that run first to last, and last to first.

        Then no race within a workgroup has an effect. Where a tensor has fewer elements than a workgroup has lanes,
        several waves load each of them, and one stores: what the others read too late goes nowhere.
        """
        left = self.memory.contents()
        try:
            return all(self._left_by(order, start, left) for order in (Order.FORWARD, Order.REVERSE))
        finally:
            self.buffers.write_back()

    def _left_by(self, order: Order, start: Sequence[Bytes], expected: Sequence[Bytes]) -> bool:
        again = self._again(dataclasses.replace(self.options, order=order, check=False))
        again.memory.restore(start)
        try:
            again.run()
            return all(map(np.array_equal, again.memory.contents(), expected))
        except Halt:
            return False
        finally:
            again.memory.release()

    def _again(self, options: Options) -> Self:
        return type(self)(self.code, self.grid, self.values, self.waves, self.shared_bytes, options)

    def _run_chunk(self, groups: list[Grid], schedule: Schedule) -> None:
        runner = self._runner(groups, schedule)
        for attach in self.attach:
            attach(runner)
        try:
            runner.run()
            self.done += len(groups)
        except OverBudget as over:
            where = runner.starvation()
            self.findings.append(where)
            raise OverBudget(f"{where}; does the kernel end?") from over
        finally:
            for close in runner.closing:
                close()
            self.findings.extend(runner.machine.findings.values())


def emulate(make: Callable[[], KernelLaunch[CodeT, RunnerT, JudgedT]], judged: Callable[[], JudgedT]) -> Emulation:
    """Run a launch.

    Args:
        make: gives the launch; what it refuses is an outcome, too.
        judged: what is wrong with its code whatever the data; asked for where the checker is on.
    """
    keep_heap()
    started = time.perf_counter()
    launch: KernelLaunch[CodeT, RunnerT, JudgedT] | None = None
    halt: Halt | None = None
    try:
        launch = make()
        launch.check_budget()
        if launch.options.check:
            launch.run_checked(judged())
        else:
            launch.run()
    except Halt as error:
        halt = error
    finally:
        if launch:
            launch.memory.release()
    return _emulation(launch, halt, time.perf_counter() - started)


def _emulation(launch: KernelLaunch[CodeT, RunnerT, JudgedT] | None, halt: Halt | None, seconds: float) -> Emulation:
    findings = launch.findings if launch else []
    if isinstance(halt, Fault):
        findings = [*findings, halt.finding]
    meter = launch.meter if launch else Meter(0)
    counts = Counts(meter.instructions, meter.lane_instructions, launch.done if launch else 0, seconds)
    over_budget = isinstance(halt, OverBudget | TooLarge)
    return Emulation(
        outcome_of(findings, halt), tuple(findings), counts, over_budget, tuple(launch.said) if launch else ()
    )
