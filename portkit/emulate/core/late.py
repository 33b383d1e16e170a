"""Accesses that are judged together, later: most races can be ruled out for all of them at once.

What one agent alone touches, or nobody changes, is no race in whatever order that happens. So accesses are only kept,
and at the next barrier, or at the end of a launch, one scatter and one gather of all of them tell whether that is so.
Where it is not, they are judged one by one, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.bytestore import Bytes, Offsets, Words, low_bits
from portkit.emulate.core.checker import WIDEST, Agents, Conflict, Ledger, Use, Values

MOST = 1 << 23
"""Numbers of 64 bits that a batch keeps, about."""

_STEP, _WIDE_STEP = 1 << 10, 1 << 40
"""More than any agent of a workgroup, or of a launch, is numbered with."""

_LAST = (1 << 31) - 2 * _STEP


@dataclass(eq=False, slots=True)
class Kept:
    """Accesses of one instruction that are not judged yet; nobody changes what it holds."""

    use: Use
    at: Offsets
    size: int
    agents: Callable[[], Agents]  # tags, one an access
    words: Words | None = None  # of writes whose values tell whether they change anything
    origin: Any = None  # whom to tell
    moment: int = 0  # where the ledger wants to know it
    ends: Sequence[int] = ()  # of several instructions: accesses up to the end of each one's

    def parts(self) -> Iterator[tuple[int, Kept]]:
        """The accesses of each instruction, and how many are before them."""
        if not self.ends:
            yield 0, self
        for start, end in zip((0, *self.ends), self.ends, strict=False):
            words = None if self.words is None else self.words[start:end]
            if start < end:
                yield start, Kept(self.use, self.at[start:end], self.size, partial(self._agents, start, end), words)

    def _agents(self, start: int, end: int) -> Agents:
        return self.agents()[start:end]


@dataclass(frozen=True, slots=True)
class Ordered:
    """That everything in a range of bytes comes before what is touched next."""

    start: int
    end: int


class Batch:
    """Accesses to a range of memory that wait to be judged.

    Args:
        size: bytes of the range.
        identity: agents of tags, above 0; agents of one number are always in order.
    """

    def __init__(self, size: int, identity: Callable[[Agents], Agents] | None = None) -> None:
        self.size, self.identity = size, identity
        self.items: list[Kept | Ordered] = []
        self.changes = False  # whether anything is written
        self._numbers = 0
        self._stamp = 0  # agents of this batch are told from those of earlier ones by what is added to them
        self._owners: dict[int, NDArray[Any]] = {}  # size of a granule → who touched each

    @property
    def full(self) -> bool:
        """Whether it holds as much as it may."""
        return self._numbers > MOST

    def keep(self, item: Kept) -> None:
        """Leave accesses to be judged."""
        if item.words is not None:
            item.words = item.words.copy()  # it may be a register, which changes
        self.items.append(item)
        self.changes = self.changes or item.use is not Use.READ
        self._numbers += 2 * item.at.size + (0 if item.words is None else item.words.size // 2)

    def clear(self) -> None:
        """All are judged."""
        self.items.clear()
        self.changes, self._numbers = False, 0

    def alone(self) -> bool:
        """Whether what an agent changes is touched by no other one."""
        accesses = [item for item in self.items if isinstance(item, Kept)]
        uses = {item.use for item in accesses}
        if uses <= {Use.READ} or uses == {Use.ATOMIC}:
            return True
        changing = {Use.WRITE} if Use.READ not in uses else {Use.WRITE, Use.ATOMIC}
        return self._apart(
            [item for item in accesses if item.use in changing], [item for item in accesses if item.use not in changing]
        )

    def _apart(self, changing: Sequence[Kept], others: Sequence[Kept]) -> bool:
        place, who, granule = self._touched((*changing, *others))
        count = sum(item.at.size * max(1, item.size // granule) for item in changing)
        owners = self._owners_of(granule)
        who = (self.identity(who) if self.identity else who) + who.dtype.type(self._stamp)
        owners[place[:count]] = who[:count]
        found = owners[place]
        if np.count_nonzero(found[:count] != who[:count]):
            return False
        return not np.count_nonzero((found[count:] > self._stamp) & (found[count:] != who[count:]))

    def _touched(self, items: Sequence[Kept]) -> tuple[Offsets, Agents, int]:
        """Granules that accesses touch, by whom, and bytes of a granule."""
        at, who = _together([item.at for item in items]), _together([item.agents() for item in items])
        bits = low_bits(at) | WIDEST
        sizes = {item.size for item in items}
        for size in sizes:
            bits |= size
        granule = bits & -bits
        shift = granule.bit_length() - 1
        if sizes != {granule}:
            return _together([_places(i, shift) for i in items]), _together([_who(i, granule) for i in items]), granule
        return at >> shift, who, granule

    def _owners_of(self, granule: int) -> NDArray[Any]:
        self._stamp += _WIDE_STEP if self.identity else _STEP
        if self._stamp > _LAST and not self.identity:
            self._owners.clear()
            self._stamp = 0
        if granule not in self._owners:
            kind = np.int64 if self.identity else np.int32
            self._owners[granule] = np.zeros(-(-self.size // granule), kind)
        return self._owners[granule]

    def judge(self, ledger: Ledger, report: Callable[[Kept, Conflict], None]) -> None:
        """Judge accesses one by one.

        Args:
            ledger: of what was touched before.
            report: told of each access that races.
        """
        held: Bytes = np.empty(self.size, np.uint8)  # by the writes that have been judged
        for item in self.items:
            if isinstance(item, Ordered):
                ledger.forget(item.start, item.end)
                continue
            ledger.now = item.moment
            for start, part in item.parts():
                conflict = ledger.note(part.use, part.at, part.size, part.agents(), _values(part, held))
                if conflict:
                    report(item, replace(conflict, which=conflict.which + start))


def _together(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _places(item: Kept, shift: int) -> Offsets:
    first: Offsets = item.at >> shift
    count = item.size >> shift
    return first if count == 1 else (first[:, None] + np.arange(count)).reshape(-1)


def _who(item: Kept, granule: int) -> Agents:
    agents = item.agents()
    return agents if item.size == granule else np.repeat(agents, item.size // granule)


def _values(item: Kept, held: Bytes) -> Values | None:
    """Bytes of a write, and what was there: of other writes of the batch, which alone it is held against."""
    words = item.words
    if words is None:
        return None
    after = np.ascontiguousarray(words).view(np.uint8).reshape(item.at.size, -1)[:, : item.size]
    place = item.at[:, None] + np.arange(item.size)
    before = held[place]
    held[place] = after
    return Values(lambda: before, lambda: after)
