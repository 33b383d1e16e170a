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
from portkit.emulate.core.bytestore import Bytes, ByteStore
from portkit.emulate.core.checker import (
    MANY,
    Conflict,
    GlobalRaces,
    SharedLedger,
    Use,
    Values,
    agent_of,
    global_tags,
    group_of,
)
from portkit.emulate.core.findings import Finding, Kind
from portkit.emulate.core.launch import Grid
from portkit.emulate.core.memory import Allocation, Memory


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
        self.judged, self.memory = judged, memory
        self.grid = (*grid, 1, 1)[:3]
        count = int(np.prod(self.grid))
        self.races = GlobalRaces(count)
        self.own = own

    def attach(self, runner: Runner) -> None:
        """Watch one chunk of workgroups."""
        machine = runner.machine
        whole, shared = _GlobalCheck(self, machine), _SharedCheck(machine, self.judged.loose)
        if self.judged.findings:
            runner.watch = self._on_block
        if self.races.workgroups * machine.waves_per_group > 1 or self.memory.written is not None:
            machine.observer = whole
        machine.shared_observer = shared
        machine.shared.follow_writes()

        def at_barrier(machine: Machine, group: int) -> None:
            whole.epochs[group] += 1
            shared.at_barrier(machine, group)

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

        def at_barrier(machine: Machine, group: int) -> None:
            loads.at_barrier(machine, group)
            if barrier:
                barrier(machine, group)

        runner.watch, runner.before, runner.after = watch, loads.before, loads.after
        runner.machine.shared_observer, runner.at_barrier = on_access, at_barrier

    def _on_block(self, machine: Machine, block: Block) -> bool:
        for finding in self.judged.findings.get(block.start, ()):
            machine.note(dataclasses.replace(finding, place=machine.place(0, None)))
        return False

    def number(self, group: Grid) -> int:
        """A workgroup's number within the launch."""
        x, y, z = group
        return x + self.grid[0] * (y + self.grid[1] * z)

    def workgroup(self, number: int) -> Grid:
        """The workgroup of a number."""
        rest, x = divmod(number, self.grid[0])
        z, y = divmod(rest, self.grid[1])
        return x, y, z


class _GlobalCheck:
    """Of global memory, for one chunk."""

    def __init__(self, check: Check, machine: Machine) -> None:
        self.check, self.memory, self.machine = check, check.memory, machine
        numbers = np.array([check.number(group) for group in machine.groups], np.int64)
        self.group_of_wave: NDArray[np.int64] = numbers[machine.group]
        self.wave: NDArray[np.int64] = np.arange(machine.waves) % machine.waves_per_group
        self.epochs: NDArray[np.int64] = np.zeros(len(machine.groups), np.int64)  # barriers that have completed

    def __call__(self, access: Access) -> None:
        if not access.at.size:
            return
        use = _use(access)
        if use is not Use.WRITE and (first := self.memory.first_unwritten(access.at, access.size)) is not None:
            self._unwritten(access, first)
        if int(access.at[0]) >= self.check.own:
            guessed = use is Use.READ and access.site.line in self.check.judged.guesses
            self._races(self.check.races, Use.ATOMIC if guessed else use, access)

    def _unwritten(self, access: Access, which: int) -> None:
        where = self.memory.containing(int(access.at[which]))
        assert where
        offset = int(access.at[which]) - where.start
        message = f"{access.size} bytes of {where.name}[{offset}] are read, and nothing wrote them"
        place = self.machine.place(which, access.active)
        self.machine.note(Finding(Kind.UNWRITTEN_GLOBAL, message, access.site, place, offset, where.name))

    def _races(self, races: GlobalRaces, use: Use, access: Access) -> None:
        """Accesses to more than one allocation at once are rare, and left unjudged."""
        where = self.memory.containing(int(access.at.min()))
        if where is None or int(access.at.max()) >= where.end:
            return
        tags = access.spread(self._tags())
        conflict = races.note(use, where, access.at - where.start, access.size, tags, _values(access, self.memory))
        if conflict:
            self._race(access, where, conflict)

    def _tags(self) -> NDArray[np.int64]:
        """Of all waves of the chunk."""
        return global_tags(self.group_of_wave, self.epochs[self.machine.group], self.wave)

    def _race(self, access: Access, where: Allocation, conflict: Conflict) -> None:
        place = self.machine.place(conflict.which, access.active)
        own = self.check.number(place.workgroup)
        by = self._other(conflict.other, own)
        message = f"{_verb(access)} {where.name}[{conflict.byte}], which {by} {_DONE[conflict.use]}, in no order"
        kind = Kind.WORKGROUP_RACE if group_of(conflict.other) == own else Kind.GLOBAL_RACE
        self.machine.note(Finding(kind, message, access.site, place, conflict.byte, where.name))

    def _other(self, tag: int, own: int) -> str:
        group, wave = group_of(tag), agent_of(tag)
        if group != own:
            return "several workgroups" if group is None else f"workgroup {self.check.workgroup(group)}"
        return "several waves of its own" if wave is None else f"wave {wave} of its own"


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


class _SharedCheck:
    """Of shared memory, for one chunk.

    Args:
        machine: the waves.
        loose: instruction behind a barrier → lines of accesses that may outlast it.
    """

    def __init__(self, machine: Machine, loose: Mapping[int, frozenset[int]]) -> None:
        self.machine, self.loose = machine, loose
        self.may_outlast: frozenset[int] = frozenset().union(*loose.values())
        self.recent: list[_Recent] = []  # of them, those that no barrier has ended yet
        several = machine.waves_per_group > 1
        self.ledger = SharedLedger(len(machine.groups), machine.shared.stride) if several else None
        self.tags: NDArray[np.int32] = np.arange(machine.waves, dtype=np.int32) % machine.waves_per_group + 1

    def at_barrier(self, machine: Machine, group: int) -> None:
        """Accesses before a barrier are in order with those behind it, but for those that are still out."""
        if not self.ledger:
            return
        self.ledger.at_barrier(group)
        recent, self.recent = self.recent, []
        for each in recent:
            mine = machine.group[each.waves] == group
            out = dataclasses.replace(each.part(mine & self._outlasting(each)), outlasted=True)
            if out.at.size:
                self.ledger.note_of(np.array([group]), out.use, out.at, out.size, self.tags[out.waves])
            self.recent.extend(left for left in (out, each.part(~mine)) if left.at.size)

    def _outlasting(self, recent: _Recent) -> NDArray[np.bool_]:
        """Whether each access may be out at the barrier that its wave stands at."""
        barriers = [number for number, lines in self.loose.items() if recent.line in lines]
        return np.isin(self.machine.pc[recent.waves], barriers)

    def __call__(self, access: Access) -> None:
        if not access.at.size:
            return
        shared = self.machine.shared
        use = _use(access)
        if use is not Use.WRITE and (first := shared.first_unwritten(access.at, access.size)) is not None:
            message = f"{access.size} bytes are read, and nothing wrote them"
            self._note(Kind.UNWRITTEN_SHARED, message, access, first, int(access.at[first]))
        if self.ledger:
            if access.site.line in self.may_outlast:
                self.recent.append(_Recent(access.site.line, use, access.at, access.size, access.waves))
            groups = self.machine.group[self.machine.select]
            tags, values = access.spread(self.tags), _values(access, shared)
            conflict = self.ledger.note_of(groups, use, access.at, access.size, tags, values)
            if conflict:
                self._race(access, conflict)

    def _race(self, access: Access, conflict: Conflict) -> None:
        if out := next((each for each in self.recent if each.outlasted and each.touches(conflict.byte)), None):
            message = (
                f"{_verb(access)} a byte that the access of line {out.line}, which no wait made sure of at a barrier, "
            )
            message += _DONE[out.use]
            self._note(Kind.MISSING_WAIT, message, access, conflict.which, conflict.byte)
            return
        by = "several waves" if conflict.other == MANY else f"wave {conflict.other - 1}"
        message = f"{_verb(access)} a byte that {by} {_DONE[conflict.use]}, with no barrier between"
        self._note(Kind.SHARED_RACE, message, access, conflict.which, conflict.byte)

    def _note(self, kind: Kind, message: str, access: Access, which: int, byte: int) -> None:
        offset = byte % self.machine.shared.stride
        place = self.machine.place(which, access.active)
        self.machine.note(Finding(kind, message, access.site, place, offset, "shared"))


_DONE = {Use.READ: "read", Use.WRITE: "wrote", Use.ATOMIC: "changed by an atomic"}


def _use(access: Access) -> Use:
    if access.atomic:
        return Use.ATOMIC
    return Use.WRITE if access.write else Use.READ


def _verb(access: Access) -> str:
    return {Use.READ: "reads", Use.WRITE: "writes", Use.ATOMIC: "changes by an atomic"}[_use(access)]


def _values(access: Access, store: ByteStore) -> Values | None:
    """Of a write that is not atomic."""
    words = access.words
    if words is None:
        return None

    def after() -> Bytes:
        return np.ascontiguousarray(words).view(np.uint8).reshape(access.at.size, -1)[:, : access.size]

    return Values(lambda: store.bytes[access.at[:, None] + np.arange(access.size)], after)
