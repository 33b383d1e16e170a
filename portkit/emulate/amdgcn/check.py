"""Attaches the checker to launches: judges the program once, and every access of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.amdgcn.definitions import unwritten_reads
from portkit.emulate.amdgcn.direct import DirectLoads, Plan, plan_of
from portkit.emulate.amdgcn.execute import Block, Code, Runner
from portkit.emulate.amdgcn.machine import Access, Machine
from portkit.emulate.amdgcn.swaps import guesses
from portkit.emulate.amdgcn.waits import missing_waits
from portkit.emulate.core.checker import Conflict, Use
from portkit.emulate.core.clocks import ClockedLedger
from portkit.emulate.core.findings import Finding, Kind
from portkit.emulate.core.memory import Memory
from portkit.emulate.core.races import SharedLedger
from portkit.emulate.core.watch import DONE, GlobalCheck, GlobalWatch, SharedCheck, verb_of
from portkit.emulate.core.watch import Access as Watched


@dataclass(frozen=True)
class Judged:
    """What is known of a program before it runs."""

    findings: Mapping[int, Sequence[Finding]]  # first instruction of a block → what is wrong whatever the data
    plan: Plan | None  # of loads that go to LDS
    guesses: frozenset[int]  # lines of loads that a compare-and-swap checks
    loose: Mapping[int, frozenset[int]]  # instruction behind a barrier → lines of LDS accesses that may outlast it


def judge(code: Code) -> Judged:
    """Judge a program."""
    waits, reads = missing_waits(code), unwritten_reads(code)
    starts = waits.findings.keys() | reads.keys()
    findings = {start: (*waits.findings.get(start, ()), *reads.get(start, ())) for start in starts}
    return Judged(findings, plan_of(code), guesses(code), waits.loose)


class Check:
    """The checker of one launch.

    Args:
        judged: what is wrong with the program; noted where a wave runs it.
        memory: global memory.
        grid: workgroups in x, y, z.
        own: end of what the runtime keeps there for itself, where nothing is a race.
    """

    def __init__(self, judged: Judged, memory: Memory, grid: Sequence[int], own: int) -> None:
        self.judged = judged
        self.launch = GlobalWatch(memory, grid, own, judged.guesses)

    def attach(self, runner: Runner) -> None:
        """Watch one chunk of workgroups."""
        machine = runner.machine
        whole = GlobalCheck(self.launch, machine.groups, machine.waves_per_group, machine.note)
        shared = _SharedCheck(machine, self.judged.loose)
        if self.judged.findings:
            runner.watch = self._on_block
        if self.launch.needed(machine.waves_per_group):
            machine.observer, machine.exchanged = whole, whole.exchanged
        machine.shared_observer = shared

        def at_barrier(machine: Machine, groups: NDArray[np.int64]) -> None:
            whole.at_barrier(groups)
            shared.at_barrier(groups)

        runner.at_barrier = at_barrier
        if self.judged.plan:
            self._follow(runner, DirectLoads(self.judged.plan, machine))

    def _follow(self, runner: Runner, loads: DirectLoads) -> None:
        """Run every block instruction by instruction."""
        shared, barrier = runner.machine.shared_observer, runner.at_barrier

        def watch(machine: Machine, block: Block) -> bool:
            loads.on_block(machine, block)
            self._on_block(machine, block)
            return True

        def on_access(access: Access) -> None:
            loads.on_access(access)
            if shared:
                shared(access)

        def at_barrier(machine: Machine, groups: NDArray[np.int64]) -> None:
            loads.at_barrier(machine, groups)
            if barrier:
                barrier(machine, groups)

        runner.watch, runner.before, runner.after = watch, loads.before, loads.after
        runner.machine.shared_observer, runner.at_barrier = on_access, at_barrier

    def _on_block(self, machine: Machine, block: Block) -> bool:
        for finding in self.judged.findings.get(block.start, ()):
            machine.note(dataclasses.replace(finding, place=machine.place(0, None)))
        return False


@dataclass(frozen=True)
class _Recent:
    """Accesses of one instruction that may outlast a barrier."""

    line: int
    use: Use
    at: NDArray[np.int64]
    size: int
    waves: NDArray[np.int64]
    outlasted: bool = False  # a barrier

    def touches(self, byte: int) -> bool:
        """Whether one of them reaches a byte."""
        return bool(((self.at <= byte) & (byte < self.at + self.size)).any())

    def part(self, which: NDArray[np.bool_]) -> _Recent:
        """Some of them."""
        return dataclasses.replace(self, at=self.at[which], waves=self.waves[which])


class _SharedCheck(SharedCheck):
    """Of shared memory, where accesses may outlast a barrier.

    Args:
        machine: the waves.
        loose: instruction behind a barrier → lines of accesses that may outlast it.
    """

    def __init__(self, machine: Machine, loose: Mapping[int, frozenset[int]]) -> None:
        super().__init__(machine.shared, machine.waves_per_group, machine.note)
        self.machine, self.loose = machine, loose
        self.may_outlast: frozenset[int] = frozenset().union(*loose.values())
        self.recent: list[_Recent] = []  # of them, those that no barrier has ended yet

    def at_barrier(self, groups: NDArray[np.int64]) -> None:
        """Accesses before a barrier are in order with those behind it, but for those that are still out."""
        super().at_barrier(groups)
        recent, self.recent = self.recent, []
        for each in recent:
            mine = np.isin(self.machine.group[each.waves], groups)
            out = dataclasses.replace(each.part(mine & self._outlasting(each)), outlasted=True)
            if out.at.size and self.ledger:
                self.ledger.note_of(groups, out.use, out.at, out.size, self.tags[out.waves])
            self.recent.extend(left for left in (out, each.part(~mine)) if left.at.size)

    def _outlasting(self, recent: _Recent) -> NDArray[np.bool_]:
        """Whether each access may be out at the barrier that its wave stands at."""
        barriers = [number for number, lines in self.loose.items() if recent.line in lines]
        return np.isin(self.machine.pc[recent.waves], barriers)

    def _order(self, ledger: SharedLedger | ClockedLedger, use: Use, access: Watched) -> None:
        if access.site.line in self.may_outlast:
            waves = access.spread(np.arange(self.machine.waves))
            self.recent.append(_Recent(access.site.line, use, access.at, access.size, waves))
        super()._order(ledger, use, access)

    def race(self, access: Watched, conflict: Conflict) -> None:
        """Of an access that outlasted a barrier, a wait is missing."""
        out = next((each for each in self.recent if each.outlasted and each.touches(conflict.byte)), None)
        if out is None:
            super().race(access, conflict)
            return
        message = (
            f"{verb_of(access)} a byte that the access of line {out.line}, which no wait made sure of at a barrier, "
        )
        self.found(Kind.MISSING_WAIT, message + DONE[out.use], access, conflict.which, conflict.byte)
