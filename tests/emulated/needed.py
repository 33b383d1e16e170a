"""Which barriers and waits of a kernel are needed, decided on recorded runs of the whole kernel.

What every wave does is recorded once: its instructions in order, and the bytes that each access touches. A deletion
is then judged by replaying those records, one wave after another, with queues in place of the checker's analysis of
the program; so it says of what the checker misses whether there was anything to find.

A barrier is needed where, without it, two waves of a workgroup touch one byte with no other barrier between, at least
one of them writing. A wait is needed where, without it, an operation may be out when its wave uses the operation's
register, or when the wave arrives at the last barrier before another wave touches the same bytes.

Kernels that order workgroups by atomics are beyond this.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from portkit.emulate.amdgcn.execute import Block, Code
from portkit.emulate.amdgcn.isa.registry import Compiled
from portkit.emulate.amdgcn.machine import Access, Machine
from portkit.emulate.amdgcn.waits import issue_of, waits_of

Instance = tuple[int, int]
"""Wave of the whole run, and how many instructions it had run before."""


@dataclass(frozen=True)
class Touch:
    """Bytes that one instruction touched for one wave."""

    space: str  # "shared" or "global"
    group: int
    wave: int  # of the whole run
    instance: Instance
    at: np.ndarray  # bytes
    write: bool
    atomic: bool


@dataclass
class Record:
    """A run: for each wave the instructions that it ran in order, and all accesses in the order of the run."""

    code: Code
    traces: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    touches: list[Touch] = field(default_factory=list)
    started: int = 0  # waves of the chunks before

    def __post_init__(self) -> None:
        self.index_of = {item.instruction.site.line: number for number, item in enumerate(self.code.compiled)}

    def attach(self, runner) -> None:
        """Record one chunk of workgroups."""
        machine, first = runner.machine, self.started
        self.started += machine.waves
        runner.watch = lambda machine, block: self._enter(machine, block, first)
        machine.observer = lambda access: self._touch(access, first, "global")
        machine.shared_observer = lambda access: self._touch(access, first, "shared")

    def _enter(self, machine: Machine, block: Block, first: int) -> bool:
        """The selected waves run a block to its end."""
        self.block = block
        for wave in machine.selected():
            self.traces[first + int(wave)].extend(range(block.start, block.after))
        return False

    def _touch(self, access: Access, first: int, space: str) -> None:
        waves, back = access.waves, self.block.after - self.index_of[access.site.line]
        for wave in np.unique(waves):
            mine = access.at[waves == wave]
            touched = (mine[:, None] + np.arange(access.size)).reshape(-1)
            name = first + int(wave)
            instance = (name, len(self.traces[name]) - back)
            group = name // access.machine.waves_per_group
            self.touches.append(Touch(space, group, name, instance, touched, access.write, access.atomic))


@dataclass(frozen=True)
class Meeting:
    """Two accesses of two waves of a workgroup to one byte, not both reads, not both atomic."""

    earlier: Instance
    later: Instance


def meetings(record: Record) -> list[Meeting]:
    """The nearest of them: for each access those of other waves that come last before it."""
    found: set[tuple[Instance, Instance]] = set()
    for touches in _by_memory(record).values():
        found |= _meetings_of(touches)
    return [Meeting(*pair) for pair in found]


def _by_memory(record: Record) -> Mapping[tuple[str, int], list[Touch]]:
    memory: dict[tuple[str, int], list[Touch]] = defaultdict(list)
    for touch in record.touches:
        memory[touch.space, touch.group].append(touch)
    return memory


def _meetings_of(touches: Sequence[Touch]) -> set[tuple[Instance, Instance]]:
    """By byte, the number of the last access of each wave and kind is kept."""
    places = np.unique(np.concatenate([touch.at for touch in touches]))
    waves = {wave: n for n, wave in enumerate(sorted({touch.wave for touch in touches}))}
    last = {write: np.full((len(waves), places.size), -1) for write in (False, True)}
    found = set()
    for number, touch in enumerate(touches):
        at, own = np.searchsorted(places, touch.at), waves[touch.wave]
        for write in (True, False) if touch.write else (True,):
            for earlier in np.unique(np.delete(last[write][:, at], own, axis=0)):
                if earlier >= 0 and not (touch.atomic and touches[earlier].atomic):
                    found.add((touches[earlier].instance, touch.instance))
        last[touch.write][own, at] = number
    return found


# -- barriers


def barriers_before(record: Record, without: int | None = None) -> Mapping[int, list[int]]:
    """For each wave, barriers that it has passed before each of its instructions; ``without``: one that is deleted."""
    counts = {}
    for wave, trace in record.traces.items():
        passed, count = [], 0
        for number in trace:
            passed.append(count)
            count += number != without and _is_barrier(record.code.compiled[number])
        counts[wave] = passed
    return counts


def _is_barrier(item: Compiled) -> bool:
    """Waves arrive at it."""
    return item.instruction.mnemonic in {"s_barrier", "s_barrier_signal"}


def barrier_is_needed(record: Record, met: Sequence[Meeting], index: int) -> bool:
    """Whether two waves would touch one byte in no order."""
    if record.code.compiled[index].instruction.mnemonic == "s_barrier_wait":
        return True  # without it no wave waits at all
    passed = barriers_before(record, without=index)
    return any(passed[a.earlier[0]][a.earlier[1]] >= passed[a.later[0]][a.later[1]] for a in met)


# -- waits


@dataclass
class _Operation:
    """One that has a counter, as it stands in the queue."""

    sure: bool
    ordered: bool
    targets: frozenset  # registers
    due: int | None  # the barrier at whose arrival it must have ended


def wait_is_needed(
    record: Record, met: Sequence[Meeting], index: int, instead: Mapping[str, int] | None = None
) -> bool:
    """Whether some use comes too early without the wait, or with other counts in its place, and not with it."""
    due, changed = _due(record, met), {index: instead or {}}
    return any(
        set(_too_early(record, wave, due, changed)) - set(_too_early(record, wave, due, {})) for wave in record.traces
    )


def _due(record: Record, met: Sequence[Meeting]) -> Mapping[Instance, int]:
    """For each access that another wave meets later: barriers that the other has passed by then."""
    passed, due = barriers_before(record), {}
    for pair in met:
        count = passed[pair.later[0]][pair.later[1]]
        due[pair.earlier] = min(count, due.get(pair.earlier, count))
    return due


def _too_early(
    record: Record, wave: int, due: Mapping[Instance, int], changed: Mapping[int, Mapping[str, int]]
) -> Iterator[tuple]:
    """Uses of what no wait made sure of: place in the trace and what is used. ``changed``: other counts of waits."""
    generation = record.code.program.architecture.generation
    queues: dict[str, list[_Operation]] = defaultdict(list)
    arrived = 0
    for place, number in enumerate(record.traces[wave]):
        item = record.code.compiled[number]
        _wait(queues, changed[number] if number in changed else waits_of(item.instruction))
        if _is_barrier(item):
            arrived += 1
            late = [out for queue in queues.values() for out in queue if not out.sure and out.due is not None]
            yield from ((place, "memory", out.due) for out in late if out.due <= arrived)
        issue = issue_of(item, generation)
        yield from ((place, *register) for register in _used_early(queues, item, issue.counters if issue else ()))
        if issue:
            operation = _Operation(False, issue.ordered, frozenset(item.uses.writes), due.get((wave, place)))
            for counter in issue.counters:
                queues[counter].append(operation)


def _wait(queues: Mapping[str, list[_Operation]], counts: Mapping[str, int]) -> None:
    """All but the last ones of a counter have ended; where some end out of order, only a wait for all is sure."""
    for counter, count in counts.items():
        queue = queues.get(counter, [])
        if count and any(not out.ordered and not out.sure for out in queue):
            continue
        ended = max(0, len(queue) - count)
        for out in queue[:ended]:
            out.sure = True
        del queue[:ended]


def _used_early(queues: Mapping[str, list[_Operation]], item: Compiled, counters: Sequence[str]) -> Iterator[tuple]:
    """Registers that a load which is still out will change; loads of one counter overwrite in order."""
    for counter, queue in queues.items():
        for out in queue:
            if out.sure:
                continue
            behind = _overwritten(item) if counter in counters and out.ordered else set()
            yield from ((register[0].value, register[1]) for register in out.targets & (_used(item) - behind))


def _overwritten(item: Compiled) -> set:
    """What a load may write behind an earlier one of its counter; a load of one half leaves the other as it comes."""
    name = item.instruction.mnemonic
    halves = "_load_" in name and "_d16" in name
    return item.uses.writes if halves else item.uses.writes - item.uses.reads


def _used(item: Compiled) -> set:
    return item.uses.reads | item.uses.writes
