"""Races in the memory of a run: which accesses are judged at once, which later, and what barriers put in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from portkit.emulate.core.bytestore import Offsets
from portkit.emulate.core.checker import (
    SEVERAL,
    Agents,
    Conflict,
    GlobalLedger,
    Ledger,
    Mask,
    Tags,
    Use,
    Values,
    agents_of,
    groups_of,
)
from portkit.emulate.core.late import Batch, Kept, Ordered
from portkit.emulate.core.memory import Allocation
from portkit.emulate.core.releases import Releases

Groups: TypeAlias = slice | NDArray[np.int64]
"""Workgroups of a chunk; some may stand there more than once."""

_MOST_FAILED = 3
"""Batches that were judged one by one, behind which a workgroup's accesses are judged at once."""


class LateLedger(Ledger):
    """Who touched memory since groups of agents were last put in order.

    Accesses are kept unjudged: mostly a barrier comes before anything that makes them a race.

    Args:
        size: bytes of the memory.
        groups: of agents, such as workgroups.
        batch: that keeps accesses.
        report: told of races that are found later, with whom the access was kept for.
    """

    def __init__(self, size: int, groups: int, batch: Batch, report: Callable[[Any, Conflict], None] | None) -> None:
        super().__init__(size)
        self.batch, self.report = batch, report
        self._failed = 0  # batches that were judged one by one
        self._reading: Mask = np.zeros(groups, np.bool_)  # have accesses that are kept
        self._passed: Mask = np.zeros(groups, np.bool_)  # a barrier, since the first of them
        self._noted: Mask = np.zeros(groups, np.bool_)  # may have accesses in the tags
        self._wrote: Mask = np.zeros(groups, np.bool_)  # may have writes there
        self._some_passed = self._some_noted = False  # of all of these

    def at_barrier(self, groups: Agents) -> None:
        """Order what workgroups did before what comes."""
        if self._some_noted:
            self._forget_groups(groups[self._noted[groups]])
        if self.batch.items:
            self._passed[groups], self._some_passed = True, True
            if groups.size == self._passed.size or not (self._reading & ~self._passed).any():
                if self.batch.changes and not self.batch.alone():
                    self._judge()
                    self._forget_groups(np.flatnonzero(self._reading))
                self._drop()

    def _group_of(self, item: Kept) -> Agents:
        """Of each access."""
        raise NotImplementedError

    def _forget_groups(self, groups: Agents) -> None:
        self._noted[groups] = self._wrote[groups] = False
        self._some_noted = bool(self._noted.any())

    def keep(self, item: Kept, groups: Groups) -> bool:
        """Leave accesses by some workgroups to be judged later; False where they must be judged at once."""
        if self.batch.full or (item.use is not Use.READ and self._failed > _MOST_FAILED):
            return False
        if self._some_passed and self._passed[groups].any():
            self._settle()
        if self._some_noted and (self._wrote if item.use is Use.READ else self._noted)[groups].any():
            return False
        self.batch.keep(item)
        self._reading[groups] = True
        return True

    def note_of(
        self, groups: NDArray[np.int64], use: Use, at: Offsets, size: int, agents: Agents, values: Values | None = None
    ) -> Conflict | None:
        """As ``note``, of accesses by some workgroups."""
        if use is Use.READ and self.keep(Kept(use, at, size, lambda: agents), groups):
            return None
        self._settle()
        self._noted[groups] = self._some_noted = True
        if use is not Use.READ:
            self._wrote[groups] = True
        return self.note(use, at, size, agents, values)

    def forget_range(self, start: int, end: int) -> None:
        """Order everything in a range before what comes, accesses that are kept among it."""
        if self._some_noted:
            self.forget(start, end)
        if self.batch.items:
            self.batch.items.append(Ordered(start, end))

    def settle(self) -> None:
        """Judge what is kept, where nothing comes any more that would be ordered behind it."""
        if self.batch.items and not self.batch.alone():
            self._judge()
        self._drop()

    def _settle(self) -> None:
        """Note what is kept, but for what a barrier has put in order since."""
        if not self.batch.items:
            return
        if self.batch.alone():
            self._note_left()
        else:
            self._judge()
            self._forget_groups(np.flatnonzero(self._passed))
        left = self._reading & ~self._passed
        self._noted |= left
        if self.batch.changes:
            self._wrote |= left
        self._some_noted = bool(self._noted.any())
        self._drop()

    def _note_left(self) -> None:
        """Note accesses that are no races, but may become some."""
        for item in self.batch.items:
            if isinstance(item, Ordered):
                self.forget(item.start, item.end)
            elif not self._some_passed:
                self.note(item.use, item.at, item.size, item.agents())
            else:
                left = ~self._passed[self._group_of(item)]
                self.note(item.use, item.at[left], item.size, item.agents()[left])

    def _judge(self) -> None:
        """Judge what is kept one by one."""
        self._failed += 1
        self.batch.judge(self, self._told)

    def _told(self, item: Kept, conflict: Conflict) -> None:
        if self.report:
            self.report(item.origin, conflict)

    def _drop(self) -> None:
        self.batch.clear()
        self._reading[:] = self._passed[:] = self._some_passed = False


class SharedLedger(LateLedger):
    """Who touched shared memory since the last barrier of each workgroup.

    Args:
        groups: workgroups, one range of memory behind the other.
        stride: bytes of each.
        report: as of ``LateLedger``.
    """

    def __init__(self, groups: int, stride: int, report: Callable[[Any, Conflict], None] | None = None) -> None:
        super().__init__(groups * stride, groups, Batch(groups * stride), report)
        self.stride = stride

    def _group_of(self, item: Kept) -> Agents:
        return item.at // self.stride

    def _forget_groups(self, groups: Agents) -> None:
        for group in groups.tolist():
            self.forget(group * self.stride, (group + 1) * self.stride)
        super()._forget_groups(groups)


class LaneLedger(LateLedger):
    """Who touched shared memory, by wave, epoch and lane: synchronisations of a wave order its lanes.

    Accesses of several waves are no affair of this one.

    Args:
        size: bytes of the memory.
        waves: of the chunk.
        report: as of ``LateLedger``.
    """

    dtype: DTypeLike = np.int64

    def __init__(self, size: int, waves: int, report: Callable[[Any, Conflict], None]) -> None:
        super().__init__(size, waves, Batch(size, agents_of), report)

    def _group_of(self, item: Kept) -> Agents:
        return groups_of(item.agents())

    def apart(self, tags: Tags, own: Tags) -> Mask:
        """Of another lane of the same wave, with no synchronisation since."""
        return np.asarray((tags != own) & ((tags | SEVERAL) == (own | SEVERAL)))

    def together(self, tags: Tags, own: Tags) -> Tags:
        """What came before a synchronisation, and what other waves did, is forgotten."""
        return np.where(self.apart(tags, own), own | SEVERAL, own)


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where an access to global memory comes from."""

    told: Any
    where: Allocation


@dataclass
class GlobalRaces:
    """Races in global memory.

    Accesses to an allocation are only kept, and judged at the end of the launch, or once another agent may see what the
    kernel writes to it: mostly none does.

    Args:
        workgroups: of the launch.
        releases: by which they are in order; None: by nothing.
        report: told of races that are found later, with whom the access was kept for.
    """

    workgroups: int
    report: Callable[[Any, Allocation, Conflict], None] | None = None
    releases: Releases | None = None
    ledgers: dict[str, GlobalLedger] = field(default_factory=dict)
    kept: dict[str, tuple[Allocation, Batch]] = field(default_factory=dict)

    def note(
        self, use: Use, where: Allocation, at: Offsets, size: int, tags: Agents, values: Values | None = None
    ) -> Conflict | None:
        """As ``Ledger.note``, with offsets into the allocation."""
        if use is Use.READ and self.keep(where, Kept(use, at, size, lambda: tags)):
            return None
        ledger = self._ledger(where)
        ledger.now = self._now
        return ledger.note(use, at, size, tags, values)

    @property
    def _now(self) -> int:
        return self.releases.now if self.releases else 0

    def keep(self, where: Allocation, item: Kept) -> bool:
        """Leave accesses to be judged later; False where they must be judged at once."""
        if where.name in self.ledgers:
            return False
        if where.name not in self.kept:
            self.kept[where.name] = where, Batch(where.size, agents_of)
        batch = self.kept[where.name][1]
        if batch.full:
            return False
        item.origin, item.moment = _Origin(item.origin, where), self._now
        batch.keep(item)
        return True

    def settle(self) -> None:
        """Judge what is kept: the launch has ended."""
        for where, batch in list(self.kept.values()):
            if not batch.alone():
                self._ledger(where)

    def _ledger(self, where: Allocation) -> GlobalLedger:
        if where.name not in self.ledgers:
            ledger = self.ledgers[where.name] = GlobalLedger(where.size, self.releases)
            if where.name in self.kept:
                self.kept.pop(where.name)[1].judge(ledger, self._told)
        return self.ledgers[where.name]

    def _told(self, item: Kept, conflict: Conflict) -> None:
        origin: _Origin = item.origin
        if self.report:
            self.report(origin.told, origin.where, conflict)
