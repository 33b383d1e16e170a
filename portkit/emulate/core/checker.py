"""Races and reads of what nothing wrote, found from the accesses of a run.

Two accesses of different agents race when they touch one byte, at least one of them writes, not both are
atomic, and nothing orders them. Barriers order the waves of a workgroup; nothing but atomics that acquire what others
released orders workgroups.

Everything here is kept in arrays of tags, so a check is a gather and a scatter beside the access's own.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from portkit.emulate.core.bytestore import Bytes, Offsets, low_bits
from portkit.emulate.core.releases import Releases

Agents: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Tags: TypeAlias = NDArray[Any]

WIDEST = 16
"""Bytes of the widest access of a lane."""

MANY = -1
"""Tag of what agents touched that nothing orders; 0 is the tag of nobody, and agents have tags above 0."""


class Use(enum.Enum):
    """What an access does with its bytes."""

    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"
    LOOK = "look"  # a read that may meet atomics, as of a flag

    __hash__ = object.__hash__  # Enum's own hashes a name at every look-up


CONFLICTS = {
    Use.READ: (Use.WRITE, Use.ATOMIC),
    Use.WRITE: (Use.WRITE, Use.READ, Use.ATOMIC, Use.LOOK),
    Use.ATOMIC: (Use.WRITE, Use.READ),
    Use.LOOK: (Use.WRITE,),
}
"""Use → earlier uses by another agent that it races with."""


@dataclass(frozen=True)
class Conflict:
    """Two accesses that nothing orders."""

    which: int  # number of the access that found it
    byte: int  # offset of the byte
    other: int  # tag of the access that came first
    use: Use  # of the earlier access


@dataclass(frozen=True)
class Values:
    """Bytes of writes, ``[accesses, size]``, fetched only where two writes meet.

    To write what is there already is no race with another write, as where several agents hold one value.
    """

    before: Callable[[], Bytes]
    after: Callable[[], Bytes]


def finest(granule: int, at: Offsets, size: int) -> int:
    """Bytes of granules, a power of two and so many at most, that accesses consist of whole ones."""
    return min(granule, (size | low_bits(at)) & -(size | low_bits(at)))


class Ledger:
    """Who touched each granule of a range of memory, by use.

    Args:
        size: bytes of the range.

    Attributes:
        granule: bytes that share a tag; becomes finer with the accesses.
        now: moment of the accesses that are noted, where moments count.
    """

    dtype: DTypeLike = np.int32

    def __init__(self, size: int) -> None:
        self.size, self.granule, self.now = size, WIDEST, 0
        self.tags: dict[Use, Tags] = {}

    def apart(self, tags: Tags, own: Tags) -> Mask:
        """Whether nothing orders an access of tag ``own`` behind one that left ``tags``."""
        return np.asarray((tags != 0) & (tags != own))

    def graver(self, found: Mask, tags: Tags, own: Tags) -> Mask:
        """Of the accesses that race, those to report."""
        return found

    def unordered(self, found: Mask, earlier: Use, place: Offsets, own: Tags) -> Mask:
        """Of the accesses that race with an earlier use, those that nothing else orders."""
        return found

    def together(self, tags: Tags, own: Tags) -> Tags:
        """Tag of what was read by both."""
        return np.where((tags == 0) | (tags == own), own, MANY)

    def _of(self, use: Use) -> Tags:
        if use not in self.tags:
            self.tags[use] = np.zeros(-(-self.size // self.granule), self.dtype)
        return self.tags[use]

    def _refine(self, at: Offsets, size: int) -> None:
        """Make granules so fine that the accesses consist of whole ones."""
        needed = finest(self.granule, at, size)
        if needed < self.granule:
            self.tags = {use: np.repeat(tags, self.granule // needed) for use, tags in self.tags.items()}
            self.granule = needed

    def forget(self, start: int, end: int) -> None:
        """Order everything in a range before what comes."""
        for tags in self.tags.values():
            tags[start // self.granule : -(-end // self.granule)] = 0

    def note(self, use: Use, at: Offsets, size: int, agents: Agents, values: Values | None = None) -> Conflict | None:
        """Note accesses, and find one that races with an earlier one, or with another of the same instruction.

        Args:
            use: what they do.
            at: offset of each, bytes.
            size: bytes of each.
            agents: tag of who makes each.
            values: of writes.
        """
        self._refine(at, size)
        count = size // self.granule
        place = at // self.granule if count == 1 else (at // self.granule)[:, None] + np.arange(count)
        own = agents if count == 1 else np.broadcast_to(agents[:, None], place.shape)
        conflict = self._earlier(use, place, own, values)
        return self._enter(use, place, own, values) or conflict

    def _earlier(self, use: Use, place: Offsets, own: Tags, values: Values | None) -> Conflict | None:
        for earlier in CONFLICTS[use]:
            if earlier not in self.tags:
                continue
            tags = self.tags[earlier][place]
            found = self.apart(tags, own)
            if earlier is use and values and found.any():
                found &= self._differ(values.before(), values.after(), place)
            if found.any():
                found = self.unordered(found, earlier, place, own)
            if found.any():
                return self._conflict(self.graver(found, tags, own), tags, place, earlier)
        return None

    def _enter(self, use: Use, place: Offsets, own: Tags, values: Values | None) -> Conflict | None:
        tags = self._of(use)
        if use is not Use.WRITE:
            tags[place] = self.together(tags[place], own)
            if (apart := self.apart(tags[place], own)).any():  # several agents in one instruction
                tags[place[apart]] = self.together(tags[place[apart]], own[apart])
            return None
        tags[place] = own
        shared = self.apart(tags[place], own)
        if values and shared.any() and (shared := shared & self._disagree(values.after(), place)).any():
            return self._conflict(shared, tags[place], place, use)
        return None

    def _differ(self, left: Bytes, right: Bytes, place: Offsets) -> Mask:
        """By granule."""
        return np.asarray((left != right).reshape(*place.shape, self.granule).any(axis=-1))

    def _disagree(self, values: Bytes, place: Offsets) -> Mask:
        """Whether a granule gets another value than the one that the last access leaves there."""
        rows, at = values.reshape(-1, self.granule), place.reshape(-1)
        last = np.empty((self.tags[Use.WRITE].size, self.granule), np.uint8)
        last[at] = rows
        return self._differ(last[at], rows, place)

    def _conflict(self, found: Mask, tags: Tags, place: Offsets, use: Use) -> Conflict:
        which = int(np.argmax(found.reshape(-1)))
        other = int(tags.reshape(-1)[which])
        byte = int(place.reshape(-1)[which]) * self.granule
        return Conflict(which * place.shape[0] // place.size, byte, other, use)


_GROUP, _EPOCH = 32, 8
"""Places of a workgroup and of its epoch in a tag; an agent of a workgroup has the bits below."""

SEVERAL = (1 << _EPOCH) - 1
"""Agent of a tag that stands for several of a workgroup."""


def global_tags(groups: Agents, epochs: Agents, agents: Agents) -> Agents:
    """Tags of accesses to global memory.

    Args:
        groups: number of the workgroup.
        epochs: barriers that it has completed.
        agents: number of the wave within it, below ``SEVERAL``.
    """
    return ((groups + 1) << _GROUP) | (epochs << _EPOCH) | agents


def groups_of(tags: Agents) -> Agents:
    """Workgroups of tags of single ones."""
    return (tags >> _GROUP) - 1


def agents_of(tags: Agents) -> Agents:
    """Workgroup and wave of tags of global memory, whatever their epochs."""
    return (tags >> _GROUP << _EPOCH) | (tags & SEVERAL)


def group_of(tag: int) -> int | None:
    """Workgroup of a tag; None: several."""
    return None if tag == MANY else (tag >> _GROUP) - 1


def agent_of(tag: int) -> int | None:
    """Wave of a tag of global memory; None: several."""
    return None if tag == MANY or tag & SEVERAL == SEVERAL else tag & SEVERAL


class GlobalLedger(Ledger):
    """Who touched global memory, by workgroup, epoch and wave: barriers order the waves of a workgroup.

    Args:
        size: bytes.
        releases: by which workgroups are in order, at moments of these; None: by nothing.
    """

    dtype: DTypeLike = np.int64

    def __init__(self, size: int, releases: Releases | None = None) -> None:
        super().__init__(size)
        self.releases = releases
        self.moments: dict[Use, NDArray[np.int64]] = {}

    def _refine(self, at: Offsets, size: int) -> None:
        before = self.granule
        super()._refine(at, size)
        if self.granule < before:
            self.moments = {use: np.repeat(each, before // self.granule) for use, each in self.moments.items()}

    def _enter(self, use: Use, place: Offsets, own: Tags, values: Values | None) -> Conflict | None:
        found = super()._enter(use, place, own, values)
        if self.releases and self.releases.now:
            if use not in self.moments:
                self.moments[use] = np.zeros(self.tags[use].size, np.int64)
            self.moments[use][place] = self.now
        return found

    def unordered(self, found: Mask, earlier: Use, place: Offsets, own: Tags) -> Mask:
        """But for those of workgroups of which one acquired what the other released behind its use."""
        if self.releases is None or not self.releases.now:
            return found
        tags = self.tags[earlier][place]
        which = found & ((tags >> _GROUP) != (own >> _GROUP))
        if not which.any():
            return found
        mine, others = groups_of(own[which]), groups_of(tags[which])  # of several it is negative
        moments = self.moments[earlier][place][which] if earlier in self.moments else np.zeros(mine.size, np.int64)
        left = found.copy()
        left[which] = ~self.releases.behind(mine, others, moments, self.now)
        return left

    def apart(self, tags: Tags, own: Tags) -> Mask:
        """Of another workgroup, or of another wave with no barrier since."""
        elsewhere = (tags >> _GROUP) != (own >> _GROUP)
        at_once = ((tags >> _EPOCH) == (own >> _EPOCH)) & (tags != own)
        return np.asarray((tags != 0) & (elsewhere | at_once))

    def graver(self, found: Mask, tags: Tags, own: Tags) -> Mask:
        """Those of several workgroups, where there are any: races within one may be without effect."""
        elsewhere = found & ((tags >> _GROUP) != (own >> _GROUP))
        return elsewhere if elsewhere.any() else found

    def together(self, tags: Tags, own: Tags) -> Tags:
        """What came before a barrier is forgotten."""
        at_once = (tags >> _EPOCH) == (own >> _EPOCH)
        one_group = np.where(at_once & (tags != own), own | SEVERAL, own)
        return np.where((tags == 0) | ((tags >> _GROUP) == (own >> _GROUP)), one_group, MANY)


def lane_tags(waves: Agents, epochs: Agents, lanes: Agents) -> Agents:
    """Tags of accesses by lanes, above 0.

    Args:
        waves: number of the wave within the chunk.
        epochs: synchronisations that it has come through.
        lanes: below ``SEVERAL``.
    """
    return ((waves + 1) << _GROUP) | (epochs << _EPOCH) | lanes
