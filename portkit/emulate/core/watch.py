"""Judges the accesses of a run: races, and reads of what nothing wrote.

What an instruction set gives: accesses (``Access``), the number of waves of a workgroup, where findings go, and a call
at each barrier.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.bytestore import Bytes, ByteStore, Offsets, Words
from portkit.emulate.core.checker import MANY, Conflict, Use, Values, agent_of, global_tags, group_of
from portkit.emulate.core.clocks import ClockedLedger, Clocks
from portkit.emulate.core.findings import Finding, Kind, Place, Site, keep
from portkit.emulate.core.late import Kept
from portkit.emulate.core.launch import Grid
from portkit.emulate.core.memory import Allocation, Memory
from portkit.emulate.core.races import GlobalRaces, SharedLedger
from portkit.emulate.core.releases import Mask, Releases
from portkit.emulate.core.shared import SharedMemory

Note = Callable[[Finding], None]
"""Keeps a finding."""


class Access(Protocol):
    """Bytes that one instruction touches.

    ``at`` has one offset an access: into the arena for global memory, into the chunk's array for shared memory.
    """

    @property
    def site(self) -> Site:
        """The instruction."""

    @property
    def at(self) -> Offsets:
        """Of each access."""

    @property
    def size(self) -> int:
        """Bytes of each."""

    @property
    def write(self) -> bool:
        """Whether bytes change."""

    @property
    def atomic(self) -> bool:
        """Whether by an atomic operation."""

    @property
    def words(self) -> Words | None:
        """Of a write that is not atomic, one row an access."""

    def spread(self, of_wave: NDArray[Any]) -> NDArray[Any]:
        """From one value for each wave of the chunk to one for each access."""

    def place(self, which: int) -> Place:
        """Who makes access number ``which``."""

    @property
    def lasts(self) -> bool:
        """Whether it may be asked later what it is."""

    @property
    def everyone(self) -> bool:
        """Whether all lanes of the chunk make it."""

    def placing(self) -> Callable[[int], Place]:
        """As ``place``, of an access that lasts, even when its chunk is gone."""

    def spreading(self, of_wave: NDArray[Any]) -> Callable[[], NDArray[Any]]:
        """As ``spread``, of the same: asked for when it is needed."""


@dataclass(frozen=True, slots=True)
class _Touch:
    """What a finding says of an access to global memory."""

    sites: Sequence[Site]
    use: Use
    place: Callable[[int], Place]
    ends: Sequence[int] = ()  # of several instructions: accesses up to the end of each one's

    def site(self, which: int) -> Site:
        """The instruction that makes access number ``which``."""
        return self.sites[bisect.bisect_right(self.ends, which)]


@dataclass(frozen=True)
class Exchange:
    """What accesses that order workgroups have done, or others that meet them."""

    at: Offsets  # into the arena, in the order of their lanes
    waves: NDArray[np.int64]  # of the chunk, of each
    acquires: bool = True
    releases: bool = True
    wrote: Mask | None = None  # None: all
    replaces: bool = False  # whether they write without reading


class GlobalWatch:
    """What all chunks of a launch have in common about global memory.

    Args:
        memory: of the launch.
        grid: workgroups in x, y, z.
        own: end of what the runtime keeps there for itself, where nothing is a race.
        guesses: lines of loads whose value a compare-and-swap checks.
        fences: whether the program has fences by which relaxed accesses order workgroups.
    """

    def __init__(
        self,
        memory: Memory,
        grid: Sequence[int],
        own: int,
        guesses: frozenset[int] = frozenset(),
        *,
        fences: bool = False,
    ) -> None:
        self.memory, self.own, self.guesses = memory, own, guesses
        self.grid = (*grid, 1, 1)[:3]
        workgroups = int(np.prod(self.grid))
        self.releases = Releases(workgroups, fences=fences)
        self.races = GlobalRaces(workgroups, self._found, self.releases)
        self.findings: dict[tuple[Kind, int], Finding] = {}

    def number(self, group: Grid) -> int:
        """A workgroup's number within the launch."""
        x, y, z = group
        return x + self.grid[0] * (y + self.grid[1] * z)

    def workgroup(self, number: int) -> Grid:
        """The workgroup of a number."""
        rest, x = divmod(number, self.grid[0])
        z, y = divmod(rest, self.grid[1])
        return x, y, z

    def settle(self) -> list[Finding]:
        """What is only found now that the launch has ended."""
        self.races.settle()
        return list(self.findings.values())

    def _found(self, touch: _Touch, where: Allocation, conflict: Conflict) -> None:
        keep(self.findings, self.race(touch, where, conflict))

    def race(self, touch: _Touch, where: Allocation, conflict: Conflict) -> Finding:
        """What two accesses to one byte are."""
        place = touch.place(conflict.which)
        own = self.number(place.workgroup)
        by = self._other(conflict.other, own)
        message = f"{VERBS[touch.use]} {where.name}[{conflict.byte}], which {by} {DONE[conflict.use]}, in no order"
        kind = Kind.WORKGROUP_RACE if group_of(conflict.other) == own else Kind.GLOBAL_RACE
        return Finding(kind, message, touch.site(conflict.which), place, conflict.byte, where.name)

    def _other(self, tag: int, own: int) -> str:
        group, wave = group_of(tag), agent_of(tag)
        if group != own:
            return "several workgroups" if group is None else f"workgroup {self.workgroup(group)}"
        return "several waves of its own" if wave is None else f"wave {wave} of its own"

    def needed(self, waves_per_group: int) -> bool:
        """Whether there is anything to judge."""
        return self.races.workgroups * waves_per_group > 1 or self.memory.written is not None


class GlobalCheck:
    """Of global memory, for one chunk.

    Args:
        launch: what its chunks have in common.
        groups: workgroups of this one.
        waves_per_group: waves of each.
        note: keeps findings.
    """

    def __init__(self, launch: GlobalWatch, groups: Sequence[Grid], waves_per_group: int, note: Note) -> None:
        self.launch, self.memory, self.note = launch, launch.memory, note
        numbers = np.array([launch.number(group) for group in groups], np.int64)
        self.group: NDArray[np.int64] = np.repeat(np.arange(len(groups)), waves_per_group)
        self.group_of_wave: NDArray[np.int64] = numbers[self.group]
        self.wave: NDArray[np.int64] = np.arange(len(self.group)) % waves_per_group
        self.epochs: NDArray[np.int64] = np.zeros(len(groups), np.int64)  # barriers that have completed
        self._tags: NDArray[np.int64] | None = None  # of all waves; None: a barrier has changed them

    def at_barrier(self, groups: NDArray[np.int64]) -> None:
        """What workgroups did before comes before what they do from here on."""
        self.epochs[groups] += 1
        self._tags = None

    def __call__(self, access: Access) -> None:
        """Judge an access that is about to be made."""
        if not access.at.size:
            return
        use = use_of(access)
        reads = use is not Use.WRITE and access.words is None
        if reads and (first := self.memory.first_unwritten(access.at, access.size)) is not None:
            self._unwritten(access, first)
        if int(access.at[0]) >= self.launch.own:
            guessed = use is Use.READ and access.site.line in self.launch.guesses
            self._races(self.launch.races, Use.LOOK if guessed else use, access)  # what the swap checks

    def exchanged(self, exchange: Exchange) -> None:
        """Note what atomics, or reads and writes of flags, have just done."""
        self.launch.releases.note(
            exchange.at,
            self.group_of_wave[exchange.waves],
            acquires=exchange.acquires,
            releases=exchange.releases,
            wrote=exchange.wrote,
            replaces=exchange.replaces,
        )

    def fenced(self, waves: NDArray[np.int64]) -> None:
        """Note that waves have come by a fence."""
        self.launch.releases.fence(np.unique(self.group_of_wave[waves]))

    def together(self, access: Access, ends: Sequence[int], sites: Sequence[Site]) -> bool:
        """Leave accesses of several instructions to be judged later; False where each must be judged now.

        Args:
            access: all of them, one instruction's behind the other's.
            ends: how many there are up to the end of each one's.
            sites: the instructions.
        """
        use, where = use_of(access), self.memory.holding(access.at)
        if where is None or where.start < self.launch.own or self.launch.guesses:
            return False
        if use is not Use.WRITE and self.memory.first_unwritten(access.at, access.size) is not None:
            return False
        touch = _Touch(sites, use, access.placing(), ends)
        tags, at = access.spreading(self._of_waves()), access.at - where.start
        item = Kept(use, at, access.size, tags, access.words, touch, ends=ends)
        return self.launch.races.keep(where, item)

    def _unwritten(self, access: Access, which: int) -> None:
        where = self.memory.containing(int(access.at[which]))
        assert where
        offset = int(access.at[which]) - where.start
        message = f"{access.size} bytes of {where.name}[{offset}] are read, and nothing wrote them"
        self.note(Finding(Kind.UNWRITTEN_GLOBAL, message, access.site, access.place(which), offset, where.name))

    def _races(self, races: GlobalRaces, use: Use, access: Access) -> None:
        """Accesses to more than one allocation at once are rare, and left unjudged."""
        where = self.memory.holding(access.at)
        if where is None:
            return
        at = access.at - where.start
        if use is not Use.ATOMIC and access.lasts:
            words = access.words if use is Use.WRITE else None
            touch = _Touch((access.site,), use, access.placing())
            tags = access.spreading(self._of_waves())
            if races.keep(where, Kept(use, at, access.size, tags, words, touch)):
                return
        conflict = races.note(
            use, where, at, access.size, access.spread(self._of_waves()), values_of(access, self.memory)
        )
        if conflict:
            self.note(self.launch.race(_Touch((access.site,), use_of(access), access.place), where, conflict))

    def _of_waves(self) -> NDArray[np.int64]:
        """Tags of all waves of the chunk."""
        if self._tags is None:
            self._tags = global_tags(self.group_of_wave, self.epochs[self.group], self.wave)
        return self._tags


class SharedCheck:
    """Of shared memory, for one chunk.

    Args:
        shared: that memory.
        waves_per_group: waves of each workgroup.
        note: keeps findings.
        clocks: of its waves, where they meet in parts.
    """

    def __init__(self, shared: SharedMemory, waves_per_group: int, note: Note, clocks: Clocks | None = None) -> None:
        self.shared, self.note, self.clocks = shared, note, clocks
        waves = shared.groups * waves_per_group
        self.ledger = self.new_ledger(self.race) if waves_per_group > 1 else None
        self.group: NDArray[np.int64] = np.repeat(np.arange(shared.groups), waves_per_group)
        self.tags: NDArray[np.int32] = np.arange(waves, dtype=np.int32) % waves_per_group + 1
        shared.follow_writes()

    def at_barrier(self, groups: NDArray[np.int64]) -> None:
        """Accesses before a barrier are in order with those behind it."""
        if self.ledger:
            self.ledger.at_barrier(groups)

    def settle(self, start: int, end: int) -> None:
        """An asynchronous operation on a range has ended, and who waits for that comes behind it."""
        if self.ledger:
            self.ledger.forget_range(start, end)

    def __call__(self, access: Access) -> None:
        """Judge an access that is about to be made."""
        if not access.at.size:
            return
        use = use_of(access)
        if use is not Use.WRITE and (first := self.shared.first_unwritten(access.at, access.size)) is not None:
            message = f"{access.size} bytes are read, and nothing wrote them"
            self.found(Kind.UNWRITTEN_SHARED, message, access, first, int(access.at[first]))
        if self.ledger:
            self._order(self.ledger, use, access)

    def new_ledger(self, report: Callable[[Any, Conflict], None]) -> SharedLedger | ClockedLedger:
        """Of that memory, with nothing noted; what is found late is reported."""
        if self.clocks:
            return ClockedLedger(self.shared.groups, self.shared.stride, self.clocks)
        return SharedLedger(self.shared.groups, self.shared.stride, report)

    def ended(self) -> None:
        """Judge what is left: the chunk has ended."""
        if self.ledger:
            self.ledger.settle()

    def kept(self, ledger: SharedLedger | ClockedLedger, use: Use, access: Access, words: Words | None = None) -> bool:
        """Whether an access is kept, to be judged later."""
        if isinstance(ledger, ClockedLedger) or not access.lasts:
            return False
        groups = slice(None) if access.everyone else access.spread(self.group)
        item = Kept(use, access.at, access.size, lambda: access.spread(self.tags), words, access)
        return ledger.keep(item, groups)

    def later(self, access: Access) -> None:
        """Judge one that asynchronous operations of its waves make: who comes behind these may come before it."""
        if not isinstance(self.ledger, ClockedLedger):
            self(access)
        elif access.at.size:
            groups, tags = access.spread(self.group), access.spread(self.tags)
            conflict = self.ledger.note_of(groups, use_of(access), access.at, access.size, tags, later=True)
            if conflict:
                self.race(access, conflict)

    def _order(self, ledger: SharedLedger | ClockedLedger, use: Use, access: Access) -> None:
        words = access.words if use is Use.WRITE else None
        if (words is not None or use is not Use.WRITE) and self.kept(ledger, use, access, words):
            return
        groups, tags = access.spread(self.group), access.spread(self.tags)
        conflict = ledger.note_of(groups, use, access.at, access.size, tags, values_of(access, self.shared))
        if conflict:
            self.race(access, conflict)

    def race(self, access: Access, conflict: Conflict) -> None:
        """Keep what two accesses to one byte are."""
        by = "several waves" if conflict.other == MANY else f"wave {conflict.other - 1}"
        message = f"{verb_of(access)} a byte that {by} {DONE[conflict.use]}, with no barrier between"
        self.found(Kind.SHARED_RACE, message, access, conflict.which, conflict.byte)

    def found(self, kind: Kind, message: str, access: Access, which: int, byte: int) -> None:
        """Keep a finding about one access."""
        self.note(Finding(kind, message, access.site, access.place(which), byte % self.shared.stride, "shared"))


VERBS = {Use.READ: "reads", Use.WRITE: "writes", Use.ATOMIC: "changes by an atomic", Use.LOOK: "looks at"}
"""What an access does, in words."""

DONE = {Use.READ: "read", Use.WRITE: "wrote", Use.ATOMIC: "changed by an atomic", Use.LOOK: "looked at"}
"""What an earlier access did, in words."""


def use_of(access: Access) -> Use:
    """What an access does."""
    if access.atomic:
        return Use.ATOMIC if access.write else Use.LOOK
    return Use.WRITE if access.write else Use.READ


def verb_of(access: Access) -> str:
    """The same, in words."""
    return VERBS[use_of(access)]


def values_of(access: Access, store: ByteStore) -> Values | None:
    """Bytes of a write that is not atomic."""
    words = access.words
    if words is None:
        return None

    def after() -> Bytes:
        return np.ascontiguousarray(words).view(np.uint8).reshape(access.at.size, -1)[:, : access.size]

    return Values(lambda: store.bytes[access.at[:, None] + np.arange(access.size)], after)
