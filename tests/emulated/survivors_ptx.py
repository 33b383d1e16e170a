"""Why a PTX kernel does the same with an instruction changed: what runs of the whole and of the mutant show of it.

=========  ==============================================================================================
idle       whenever it runs, it ends, orders and shows nothing: no operation is out, no write is unseen
covered    a barrier: without it no two warps, nor lanes, meet at a byte with no other barrier between
ordered    a wait of some warps for others: without it no two warps meet at a byte in no order either, since the one
           that waits has come behind all of that by another wait
alone      an mbarrier that nothing ends: no data and no other mbarrier is put in its place
unnamed    an mbarrier that is made, and that no arrival, wait or copy names before another, or data, is in its place
merged     every other wait leaves out what it left out before: a group is committed together with the next one
unused     a wait for copies whose bytes nobody touches before another wait has ended them, or the block
behind     a wait for a commit of ``tcgen05``: every thread that waits has, whenever it comes there, waited elsewhere
           for a later commit of the same thread, and a commit is for all that its thread issued before
same       a parity that is what the register holds whenever it is asked
equal      whenever it runs, its registers already hold what it writes; of a store: it never runs
skips      a branch that is never taken, or over code that changes nothing
dead       what it writes is never read, or overwritten before, in every thread that runs it
masked     it writes other bits, and they are read, but by threads alone that a mask keeps from storing, or in bits
           that no result is made of
lost       a store, a copy or a part of a tensor map: what it leaves is there already, or nothing is made of it
=========  ==============================================================================================

``covered`` is told by masks of warps, byte by byte, apart from the checker's tags; where warps meet in parts, it and
``ordered`` by a graph of what each warp did between two meetings, apart from the checker's clocks; ``idle`` and
``merged`` by what the units of asynchronous operations have under way.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import mutants_ptx
import numpy as np

from portkit.emulate.core.findings import Halt, Site
from portkit.emulate.ptx.check import meets_in_parts
from portkit.emulate.ptx.decode import Decoder
from portkit.emulate.ptx.execute import Code, Runner, cut
from portkit.emulate.ptx.isa.bulk import BulkGroups
from portkit.emulate.ptx.isa.copies import Copies
from portkit.emulate.ptx.isa.flight import Flights
from portkit.emulate.ptx.isa.mbarriers import Barrier, Delivery, MemoryBarriers
from portkit.emulate.ptx.isa.proxies import WrittenMaps
from portkit.emulate.ptx.isa.registry import Compiled
from portkit.emulate.ptx.isa.tensor_memory import Commit, TensorMemory
from portkit.emulate.ptx.isa.wgmma import Products
from portkit.emulate.ptx.launch import Launch
from portkit.emulate.ptx.machine import LANES, Access, Machine
from portkit.emulate.ptx.program import Register, Space
from portkit.emulate.ptx.types import Type

if TYPE_CHECKING:
    from mutants import Change

CLASSES = (
    "idle",
    "covered",
    "ordered",
    "alone",
    "unnamed",
    "merged",
    "unused",
    "behind",
    "same",
    "equal",
    "skips",
    "dead",
    "masked",
    "lost",
)


# -- what orders


def reason(kind: str, name: str, whole: Sequence[Launch], mutant: Sequence[Launch]) -> str:
    """Why a mutant of what orders, which leaves the same bits in all orders of warps, is as good; empty: it is not."""
    if kind == "barrier":
        return "" if any(_met(launch, of) for launch in mutant for of in (_Meetings, _LaneMeetings)) else "covered"
    if kind == "mbarrier":
        return "" if any(map(_reused, mutant)) else "alone"
    if kind == "wait" and mutants_ptx.ASKS.match(name):
        in_parts = [_meets_in_parts(launch) for launch in mutant]
        return "ordered" if all(in_parts) and not any(_met(launch, _Meetings) for launch in mutant) else ""
    if kind in {"commit", "wait"} and "mbarrier" not in name and _all_alike(whole, mutant):
        return "merged"
    if name.startswith("cp.async.wait"):
        return "" if any(map(_touched, mutant)) else "unused"
    return ""


def _all_alike(whole: Sequence[Launch], mutant: Sequence[Launch]) -> bool:
    """Whether every wait leaves out in the mutant what it leaves out in the whole."""
    return all(map(operator.eq, map(_out, whole), map(_out, mutant)))


def is_without(code: Code, change: Change, launches: Callable[[], Sequence[Launch]]) -> str:
    """``idle``, ``same`` or ``unnamed``, which runs of the whole show alone; empty: none of them."""
    if is_idle(code, change.index, launches()):
        return "idle"
    if is_same(code, change, launches()):
        return "same"
    return "unnamed" if is_unnamed(code, change.index, launches()) else ""


def is_same(code: Code, change: Change, launches: Sequence[Launch]) -> bool:
    """Whether the parity that a change asks for is the one that is asked for anyway."""
    instruction = code.compiled[change.index].instruction
    if not change.name.startswith("parity "):
        return False
    read = Decoder(code.program, instruction).read(instruction.operands[2], Type.U32)
    others: list[int] = []

    def watch(item: Compiled) -> Compiled:
        def step(machine: Machine) -> None:
            asked = np.asarray(read(machine)) & 1
            others.extend(np.flatnonzero(asked != int(change.name[-1])).tolist())
            item.step(machine)

        return replace(item, step=step)

    for launch in launches:
        _run(launch, {change.index: watch})
    return not others


def is_unnamed(code: Code, index: int, launches: Sequence[Launch]) -> bool:
    """Whether nobody names the mbarriers that an instruction makes, before others or data are in their place."""
    if not mutants_ptx.name_of(code.compiled[index]).startswith("mbarrier.init"):
        return False
    found = [_Made() for _ in launches]
    for each, launch in zip(found, launches, strict=True):
        launch.attach.append(each.attach)
        _run(launch, {index: each.watch})
    return any(each.made for each in found) and not any(each.named for each in found)


class _Made:
    """Whether mbarriers that one instruction makes are named."""

    def __init__(self) -> None:
        self.made = self.named = False
        self._mine: set[int] = set()  # places where the last one was made by it
        self._making = False

    def attach(self, runner: Runner) -> None:
        """Watch one chunk of blocks."""
        barriers, self._mine = runner.machine.unit(MemoryBarriers), set()
        initialise, at = barriers.initialise, barriers.at

        def made(site: Site, place: int, count: int, thread: int) -> None:
            self._mine.discard(place)
            initialise(site, place, count, thread)
            self.made |= self._making
            if self._making:
                self._mine.add(place)

        def named(site: Site, place: int, thread: int) -> Barrier:
            self.named |= place in self._mine
            return at(site, place, thread)

        def used(access: Access) -> None:
            if access.write:
                ends = access.at + access.size
                self._mine -= {place for place in self._mine if ((access.at < place + 8) & (ends > place)).any()}

        barriers.initialise, barriers.at, runner.machine.shared_observer = made, named, used  # type: ignore[method-assign]

    def watch(self, item: Compiled) -> Compiled:
        """Know when it runs."""

        def step(machine: Machine) -> None:
            self._making = True
            item.step(machine)
            self._making = False

        return replace(item, step=step)


def is_behind(code: Code, index: int, launches: Sequence[Launch]) -> bool:
    """Whether every thread that waits at an instruction for a commit has waited elsewhere for a later one.

    PTX ISA, "tcgen05.commit": the mbarrier tracks all that the executing thread has initiated before.
    """
    names = list(map(mutants_ptx.name_of, code.compiled))
    if not mutants_ptx.ASKS.match(names[index]) or not any(name.startswith("tcgen05.commit") for name in names):
        return False
    found = [_Commits(index) for _ in launches]
    for each, launch in zip(found, launches, strict=True):
        launch.attach.append(each.attach)
        asks = (number for number, name in enumerate(names) if mutants_ptx.ASKS.match(name))
        _run(launch, {number: partial(each.watch, code, number) for number in asks})
    return any(each.asked for each in found) and not any(each.ahead for each in found)


class _Commits:
    """Which commits threads know to have arrived, but by one wait.

    Args:
        but: the instruction of that wait.
    """

    def __init__(self, but: int) -> None:
        self.but = but
        self.asked = self.ahead = False  # whether somebody waits there, and for a commit that nothing else tells of
        self._count = itertools.count()
        self._of: dict[int, list[tuple[int, int]]] = {}  # by an mbarrier's identity: number and thread, by phase
        self._barriers: list[Barrier] = []  # kept, so that their identities are
        self._known: dict[tuple[int, int], int] = {}  # by who waits and who committed: the last number

    def attach(self, runner: Runner) -> None:
        """Number the commits of one chunk of blocks."""
        barriers, memory = runner.machine.unit(MemoryBarriers), runner.machine.unit(TensorMemory)
        owe, commit, threads = barriers.owe, memory.commit, dict[int, int]()

        def committed(thread: int, arrive: Callable[[], None]) -> Commit:
            made = commit(thread, arrive)
            threads[id(made)] = thread
            return made

        def owed(barrier: Barrier, delivery: Delivery) -> None:
            owe(barrier, delivery)
            commits = self._of.setdefault(id(barrier), [])
            self._barriers.append(barrier)
            if isinstance(delivery.work, Commit):
                commits.append((next(self._count), threads[id(delivery.work)]))

        barriers.owe, memory.commit = owed, committed  # type: ignore[method-assign]

    def watch(self, code: Code, number: int, item: Compiled) -> Compiled:
        """Note who is told of what by a question."""
        decoder = Decoder(code.program, item.instruction)
        _, where, which, *_ = item.instruction.operands
        address, parity, site = decoder.address(where), decoder.read(which, Type.U32), item.instruction.site
        guard = decoder.guard() if item.instruction.guard else None

        def note(machine: Machine) -> None:
            own = machine.selected
            _, places = machine.locate(site, Space.SHARED, machine.spread(address(machine)), 8, own)
            parities = machine.spread(parity(machine)) & 1
            for thread, place, bit in zip(own.tolist(), places.tolist(), parities.tolist(), strict=True):
                self._told(number, thread, machine.unit(MemoryBarriers).known[place], bit)

        def step(machine: Machine) -> None:
            own = machine.selected.copy()
            item.step(machine)
            machine.acting(own, lambda: machine.guarded(guard(machine), note) if guard else note(machine))

        return replace(item, step=step)

    def _told(self, number: int, thread: int, barrier: Barrier, parity: int) -> None:
        """A thread has asked whether the phase of a parity has ended."""
        if barrier.phase & 1 == parity:
            return  # it sleeps
        commit = self._commit_of(barrier)
        if number == self.but:
            self.asked = True
            self.ahead |= commit is None or self._known.get((thread, commit[1]), -1) < commit[0]
        elif commit:
            key = (thread, commit[1])
            self._known[key] = max(commit[0], self._known.get(key, -1))

    def _commit_of(self, barrier: Barrier) -> tuple[int, int] | None:
        """The commit that ended the last phase; None: something else did, or nobody knows what."""
        commits = self._of.get(id(barrier), [])
        alone = barrier.expected == 1 and len(commits) == barrier.phase + len(barrier.owed)
        return commits[barrier.phase - 1] if alone and barrier.phase else None


def is_idle(code: Code, index: int, launches: Sequence[Launch]) -> bool:
    """Whether an instruction that orders one thread's or warp's own operations finds nothing to do."""
    kind, name = mutants_ptx.kind_of(code, index), mutants_ptx.name_of(code.compiled[index])
    if kind not in {"wait", "commit", "fence"} or name.startswith("mbarrier."):
        return False
    acted: list[int] = []

    def watch(item: Compiled) -> Compiled:
        def step(machine: Machine) -> None:
            before = _state(machine)
            item.step(machine)
            if before != _state(machine):
                acted.append(index)

        return replace(item, step=step)

    for launch in launches:
        _run(launch, {index: watch})
    return not acted


def _run(launch: Launch, watches) -> None:
    """Run with some instructions watched."""
    compiled = list(mutants_ptx.before_passes(launch.code))
    for index, watch in watches.items():
        compiled[index] = watch(compiled[index])
    launch.code = mutants_ptx.passed(launch.code, compiled)
    launch.run()


def _state(machine: Machine) -> tuple[tuple[Hashable, ...], ...]:
    """All that waits, commits and fences could change; units that have nothing are as if they were not there."""
    return tuple(found for found in (tuple(filter(None, _of(unit))) for unit in machine.units) if found)


def _of(unit: object) -> Iterator[Hashable]:
    """What one unit has."""
    match unit:
        case Flights():
            yield unit._unseen.any() and unit._unseen.tobytes()
            yield from (tuple(unit._reads), tuple(unit._operations))
        case WrittenMaps():
            yield frozenset(unit._unseen)
        case MemoryBarriers():
            yield tuple((at, b.pending, b.phase, b.bytes, len(b.owed)) for at, b in unit.known.items())
        case TensorMemory():
            yield tuple((n, *map(id, b.stores), *b.loads, *map(id, b.queue)) for n, b in enumerate(unit.blocks))
        case Copies() | BulkGroups() | Products():
            yield from _under_way(unit, groups=True)


def _under_way(unit: Copies | BulkGroups | Products, *, groups: bool) -> Iterator[Hashable]:
    """What a unit has out, and with ``groups`` how many groups ago it was issued."""
    match unit:
        case Copies():
            for copy in unit.out:
                yield (
                    copy.number,
                    copy.threads.tobytes(),
                    groups and (unit.committed[copy.threads] - copy.groups).tobytes(),
                )
        case BulkGroups():
            for store in unit.out:
                yield store.site.line, store.thread, groups and int(unit.committed[store.thread] - store.group)
        case Products():
            for register, numbers in unit._out.items():
                ago = np.where(numbers > 0, unit.committed + 2 - numbers if groups else 1, 0)
                yield register.name, ago.tobytes()
            for reads in unit._reads:
                yield (
                    reads.site.line,
                    reads.threads.tobytes(),
                    groups and (unit.committed[reads.threads] - reads.groups).tobytes(),
                )
            if groups:
                yield tuple((each.name, mask.tobytes()) for each, mask in unit._changed.items() if mask.any())
                yield frozenset(each.name for each in unit._changed_by_all)


def _out(launch: Launch) -> list[tuple[Hashable, ...]]:
    """By wait of the run, what it left out; waits that left nothing where nothing was are not told."""
    seen: list[tuple[Hashable, ...]] = []

    def watch(item: Compiled) -> Compiled:
        def step(machine: Machine) -> None:
            before = _all_out(machine)
            item.step(machine)
            after = _all_out(machine)
            if before != after:
                seen.append((item.instruction.site.line, machine.selected.tobytes(), *after))

        return replace(item, step=step)

    code = launch.code
    waits = [
        index
        for index, item in enumerate(code.compiled)
        if mutants_ptx.kind_of(code, index) == "wait" and item.instruction.opcode != "mbarrier"
    ]
    _run(launch, dict.fromkeys(waits, watch))
    return seen


def _all_out(machine: Machine) -> tuple[Hashable, ...]:
    units = (unit for unit in machine.units if isinstance(unit, Copies | BulkGroups | Products))
    return tuple(each for unit in units for each in _under_way(unit, groups=False))


def _bytes(at: np.ndarray, size: int) -> np.ndarray:
    return (at[:, None] + np.arange(size)).reshape(-1)


def _touched(launch: Launch) -> bool:
    """Whether bytes are touched that a ``cp.async`` has yet to write."""
    found = [False]

    def attach(runner: Runner) -> None:
        machine = runner.machine

        def used(access: Access) -> None:
            for copy in machine.unit(Copies).out:
                if copy.site is not access.site:  # else it ends now
                    found[0] |= bool(np.isin(_bytes(access.at, access.size), _bytes(copy.places, copy.size)).any())

        machine.shared_observer = used

    launch.attach.append(attach)
    launch.run()
    return found[0]


# -- who meets whom


_AGAINST = {"read": ("write", "atomic"), "write": ("read", "write", "atomic"), "atomic": ("read", "write")}
"""Use → uses by other warps that it must not meet."""


class _Bytes:
    """Of each byte, by bit, the warps that have read, written or changed it by an atomic since the last barrier."""

    def __init__(self, size: int) -> None:
        self.touched = {use: np.zeros(size, np.uint64) for use in _AGAINST}
        self._since: list[np.ndarray] = []  # places of the accesses

    def forget(self, start: int, end: int) -> None:
        """A barrier orders them."""
        for masks in self.touched.values():
            masks[start:end] = 0

    def forget_all(self) -> None:
        """The same of all."""
        for masks in self.touched.values():
            for places in self._since:
                masks[places] = 0
        self._since.clear()

    def meets(self, use: str, at: np.ndarray, warps: np.ndarray, against: Sequence[str]) -> bool:
        """Note that warps use bytes, one each; whether others used them, or do, in one of the ways of ``against``."""
        own = np.uint64(1) << warps.astype(np.uint64)
        self._since.append(at)
        np.bitwise_or.at(self.touched[use], at, own)
        return any(bool((self.touched[each][at] & ~own).any()) for each in against)


class _Graph:
    """What each warp of a chunk did between two meetings as a node, and the nodes that come before it, by bit.

    It stands in the place of the emulator's clocks, and is told of the same meetings.
    """

    def __init__(self, groups: int, warps: int) -> None:
        self.warps = warps
        self._count = itertools.count(1)
        every = range(groups * warps)
        self.node = [next(self._count) for _ in every]
        self.later = [next(self._count) for _ in every]  # of asynchronous operations
        self.waited = [0 for _ in every]  # those that somebody may wait for
        self.before = [0 for _ in every]

    def of_group(self, group: int) -> np.ndarray:
        return np.arange(group * self.warps, (group + 1) * self.warps)

    def meet(self, warps: np.ndarray) -> None:
        before = 0
        for warp in warps.tolist():
            before |= self.before[warp] | 1 << self.node[warp]
        for warp in warps.tolist():
            self.before[warp], self.node[warp] = before, next(self._count)

    def tell(self, warp: int, *, later: bool = False) -> int:
        told = self.before[warp] | 1 << self.node[warp]
        self.before[warp], self.node[warp] = told, next(self._count)
        if later:
            self.waited[warp] |= 1 << self.later[warp]
            told |= self.waited[warp]
            self.later[warp] = next(self._count)
        return told

    def learn(self, warps: np.ndarray, told: int) -> None:
        for warp in warps.tolist():
            self.before[warp] |= told

    def now(self, warps: np.ndarray) -> np.ndarray:
        return np.array([self.node[warp] for warp in warps.tolist()])

    def behind(self, warp: int, other: int, moment: int, *, later: bool = False) -> bool:
        return bool(self.before[warp] >> moment & 1)


class _NodeBytes:
    """Of each byte, the node of each warp that last read, wrote or changed it by an atomic."""

    def __init__(self, size: int, graph: _Graph) -> None:
        self.size, self.graph = size, graph
        self.last: dict[tuple[str, int], np.ndarray] = {}

    def forget(self, start: int, end: int) -> None:
        for nodes in self.last.values():
            nodes[start:end] = 0

    def meets(self, use: str, at: np.ndarray, warps: np.ndarray, against: Sequence[str], later: bool = False) -> bool:
        """As that of ``_Bytes``, by numbers of warps within the chunk."""
        found = [self._meets(use, at[warps == warp], warp, against, later) for warp in np.unique(warps).tolist()]
        return any(found)

    def _meets(self, use: str, at: np.ndarray, warp: int, against: Sequence[str], later: bool) -> bool:
        agent = warp + len(self.graph.node) if later else warp
        others = (nodes for key, nodes in self.last.items() if key[0] in against and key[1] != agent)
        met = {node for nodes in others for node in np.unique(nodes[at]).tolist() if node}
        own = self.last.setdefault((use, agent), np.zeros(self.size, np.int64))
        own[at] = self.graph.later[warp] if later else self.graph.node[warp]
        mine = self.graph.node[warp]  # asynchronous operations come behind what their warp did before
        return any(node != mine and not self.graph.before[warp] >> node & 1 for node in met)


def _meets_in_parts(launch: Launch) -> bool:
    """Whether warps meet without the others of their block."""
    return meets_in_parts(launch.code, launch.lanes)


class _Meetings:
    """Whether two warps of a block touch one byte, or one part of tensor memory, in no order, one of them writing."""

    def __init__(self) -> None:
        self.found = False

    def attach(self, runner: Runner) -> None:
        """Watch one chunk of blocks."""
        machine = self.machine = runner.machine
        self.warps = machine.per_group // LANES
        self.stride = machine.shared.stride
        self.memory = machine.memory.bytes
        self.in_parts = meets_in_parts(runner.code, machine.per_group)
        self.spaces = {"shared": self._space(), "mbarrier": self._space()}
        self.blocks = [_Bytes(self.memory.size) for _ in machine.groups]
        machine.shared_observer = self._shared
        machine.observer = self._global
        machine.mbarrier_observer = lambda access: self._note(self.spaces["mbarrier"], access, access.at, None)
        machine.synchronised = self._barrier
        machine.settled = self.spaces["shared"].forget

    def _space(self) -> _Bytes | _NodeBytes:
        machine, size = self.machine, self.machine.shared.bytes.size
        if not self.in_parts:
            return _Bytes(size)
        if machine.clocks is None:
            machine.clocks = _Graph(len(machine.groups), self.warps)  # type: ignore[assignment]
            machine.later_observer = self._later
        return _NodeBytes(size, machine.clocks)  # type: ignore[arg-type]

    def _later(self, access: Access) -> None:
        places = (access.at[:, None] + np.arange(access.size)).reshape(-1)
        warps = np.repeat(access.threads // LANES, access.size)
        self.found |= self.spaces["shared"].meets("read", places, warps, _AGAINST["read"], later=True)

    def _barrier(self, groups: np.ndarray) -> None:
        for group in groups.tolist():
            for space in () if self.in_parts else self.spaces.values():
                space.forget(group * self.stride, (group + 1) * self.stride)
            self.blocks[group].forget_all()

    def _shared(self, access: Access) -> None:
        self._note(self.spaces["shared"], access, access.at, self.machine.shared.bytes)

    def _global(self, access: Access) -> None:
        groups = access.threads // self.machine.per_group
        for group in np.unique(groups).tolist():
            self._note(self.blocks[group], access, access.at, self.memory, groups == group)

    def _note(
        self, space: _Bytes | _NodeBytes, access: Access, at: np.ndarray, held: np.ndarray | None, which=None
    ) -> None:
        places = at[:, None] + np.arange(access.size)
        bits = access.threads // LANES if isinstance(space, _NodeBytes) else self._bits(access.threads)
        warps = np.broadcast_to(bits[:, None], places.shape)
        changes = self._changes(access, places, held)
        chosen = np.ones(places.shape, np.bool_) if which is None else np.broadcast_to(which[:, None], places.shape)
        use = "atomic" if access.atomic else "write" if access.write else "read"
        kept = chosen & ~changes  # written with what is there
        self.found |= space.meets(use, places[chosen & changes], warps[chosen & changes], _AGAINST[use])
        self.found |= space.meets(use, places[kept], warps[kept], ("read", "atomic"))

    def _bits(self, threads: np.ndarray) -> np.ndarray:
        """Who is told from whom."""
        return threads // LANES % self.warps

    def _changes(self, access: Access, places: np.ndarray, held: np.ndarray | None) -> np.ndarray:
        """Which bytes of a write get another value than they have, or than another write of the instruction gives."""
        if not access.write or access.words is None or held is None:
            return np.ones(places.shape, np.bool_)
        words = np.ascontiguousarray(access.words).view(np.uint8).reshape(places.shape[0], -1)[:, : access.size]
        _, first, inverse = np.unique(places, return_index=True, return_inverse=True)
        again = first[inverse].reshape(-1) != np.arange(places.size)
        same = words.reshape(-1) == words.reshape(-1)[first[inverse].reshape(-1)]
        return np.asarray((words != held[places]) & ~(again & same).reshape(places.shape))


class _LaneMeetings(_Meetings):
    """The same of lanes of a warp, in shared memory, in programs that synchronise lanes."""

    def attach(self, runner: Runner) -> None:
        super().attach(runner)
        machine, size = self.machine, self.machine.shared.bytes.size
        machine.observer = machine.mbarrier_observer = None
        syncs = any(item.instruction.name == "bar.warp.sync" for item in runner.code.compiled)
        self.of = [_Bytes(size) for _ in range(machine.threads // LANES)] if syncs else []
        machine.lanes_synchronised = lambda warps: [self.of[warp].forget_all() for warp in np.unique(warps)]
        machine.settled = lambda start, end: [each.forget(start, end) for each in self.of]

    def _barrier(self, groups: np.ndarray) -> None:
        for group in groups.tolist():
            for each in self.of[group * self.warps : (group + 1) * self.warps]:
                each.forget_all()

    def _shared(self, access: Access) -> None:
        for warp, each in enumerate(self.of):
            which = access.threads // LANES == warp
            if which.any():
                self._note(each, access, access.at, self.machine.shared.bytes, which)

    def _bits(self, threads: np.ndarray) -> np.ndarray:
        return threads % LANES


def _met(launch: Launch, of: type[_Meetings]) -> bool:
    """Whether two meet with no barrier between, or are refused what others have not made sure of."""
    meetings = of()
    launch.attach.append(meetings.attach)
    try:
        launch.run()
    except Halt:
        return True
    return meetings.found


def _reused(launch: Launch) -> bool:
    """Whether bytes of a living mbarrier become data, or those of another one."""
    found = [False]

    def attach(runner: Runner) -> None:
        barriers = runner.machine.unit(MemoryBarriers)
        initialise = barriers.initialise

        def made(site, place: int, count: int, thread: int) -> None:
            found[0] |= place in barriers.known
            initialise(site, place, count, thread)

        def used(access: Access) -> None:
            found[0] |= access.write and any(
                ((access.at < at + 8) & (access.at + access.size > at)).any() for at in barriers.known
            )

        barriers.initialise, runner.machine.shared_observer = made, used

    launch.attach.append(attach)
    launch.run()
    return found[0]


# -- the others


def class_of(code: Code, index: int, launches: Callable[[], Sequence[Launch]]) -> str:
    """What is known of a deletion that changes nothing: equal, skips, dead, masked or lost."""
    item = code.compiled[index]
    if item.entry.ends:
        return "skips"
    if not any(_changes(code, index, launch) for launch in launches()):
        return "equal"
    if not item.uses.writes:
        return "lost"
    return "masked" if any(_is_read(code, index, launch) for launch in launches()) else "dead"


def _is_read(code: Code, index: int, launch: Launch) -> bool:
    """Whether some thread reads what an instruction has written, before the thread writes it anew."""
    whole = list(mutants_ptx.before_passes(code))
    written = whole[index].uses.writes
    holds: dict[Register, np.ndarray] = {}  # threads
    found = [False]

    def watch(number: int, item: Compiled) -> Compiled:
        guard = Decoder(code.program, item.instruction).guard() if item.instruction.guard else None

        def note(machine: Machine) -> None:
            for register in written:
                held = holds.setdefault(register, np.zeros(machine.threads, np.bool_))
                found[0] |= register in item.uses.reads and bool(held[machine.select].any())
                if register in item.uses.writes:
                    held[machine.select] = number == index

        def step(machine: Machine) -> None:
            machine.guarded(guard(machine), note) if guard else note(machine)
            item.step(machine)

        return replace(item, step=step)

    touched = (number for number, item in enumerate(whole) if (item.uses.reads | item.uses.writes) & written)
    for number in [*touched]:
        whole[number] = watch(number, whole[number])
    launch.code = cut(code.program, tuple(whole))
    launch.run()
    return found[0]


def _changes(code: Code, index: int, launch: Launch) -> bool:
    """Whether its registers ever hold other bits behind it than before; of a store: whether it runs."""
    whole = mutants_ptx.before_passes(code)  # without the passes, by which some instructions run at the place of others
    item, changed = whole[index], [False]

    def step(machine: Machine) -> None:
        before = _values(machine, item)
        item.step(machine)
        changed[0] |= not before or not all(map(np.array_equal, before, _values(machine, item)))

    compiled = (*whole[:index], replace(item, step=step), *whole[index + 1 :])
    launch.code = cut(code.program, compiled)
    launch.run()
    return changed[0]


_KINDS = {1: Type.PRED, 16: Type.B16, 32: Type.B32, 64: Type.B64, 128: Type.B128}


def _values(machine: Machine, item: Compiled) -> list[np.ndarray]:
    return [np.array(machine.rows[_KINDS[each.bits]][each.index]) for each in item.uses.writes]
