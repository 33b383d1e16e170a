"""Which waves of a workgroup come behind which, where they meet in parts: vector clocks.

A barrier of all waves orders all that was before it, and ``SharedLedger`` needs no clocks for that. Where some waves
meet at a barrier of their own, or tell others by a counter in memory, each wave has a clock, and knows up to which
moment of every other it comes behind. What asynchronous operations of a wave do has a clock of its own: who comes
behind the wave comes behind them only where they were waited for.

Source: Fidge, "Timestamps in Message-Passing Systems That Preserve the Partial Ordering" (1988); Mattern, "Virtual Time
and Global States of Distributed Systems" (1989).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.bytestore import Bytes, Offsets
from portkit.emulate.core.checker import CONFLICTS, MANY, WIDEST, Agents, Conflict, Mask, Use, Values, finest

Knowledge: TypeAlias = NDArray[np.int32]
"""Of each wave of a workgroup, and behind them of its asynchronous operations, the moment up to which it is known."""


class Clocks:
    """What every wave of a chunk comes behind.

    Args:
        groups: workgroups.
        waves: of each.
    """

    def __init__(self, groups: int, waves: int) -> None:
        self.waves = waves
        every = np.arange(groups * waves)
        self.known: NDArray[np.int32] = np.zeros((every.size, 2 * waves), np.int32)
        self.known[every, every % waves] = 1
        self.later: NDArray[np.int32] = np.ones(every.size, np.int32)  # clocks of asynchronous operations

    def of_group(self, group: int) -> Agents:
        """Waves of a workgroup."""
        return np.arange(group * self.waves, (group + 1) * self.waves)

    def now(self, waves: Agents, *, later: bool = False) -> NDArray[np.int32]:
        """Moments of waves, or of their asynchronous operations."""
        return self.later[waves] if later else self.known[waves, waves % self.waves]

    def meet(self, waves: Agents) -> None:
        """Let waves of a workgroup come behind one another."""
        self.known[waves] = self.known[waves].max(axis=0)
        self.known[waves, waves % self.waves] += 1

    def tell(self, wave: int, *, later: bool = False) -> Knowledge:
        """What who waits for a wave comes behind; with ``later`` its asynchronous operations so far, too."""
        told = self.known[wave].copy()
        own = wave % self.waves
        self.known[wave, own] += 1
        if later:
            told[self.waves + own] = self.later[wave]
            self.later[wave] += 1
        return told

    def learn(self, waves: Agents, told: Knowledge) -> None:
        """Let waves come behind what was told."""
        self.known[waves] = np.maximum(self.known[waves], told)

    def behind(self, wave: int, other: int, moment: int, *, later: bool = False) -> bool:
        """Whether a wave comes behind a moment of another, or of that one's asynchronous operations."""
        return bool(self.known[wave, other % self.waves + (self.waves if later else 0)] >= moment)


class ClockedLedger:
    """Who touched each granule of shared memory last, by wave, and at which of its moments.

    Args:
        groups: workgroups, one range of memory behind the other.
        stride: bytes of each.
        clocks: of their waves.
    """

    def __init__(self, groups: int, stride: int, clocks: Clocks) -> None:
        self.size, self.granule, self.clocks, self._groups = groups * stride, WIDEST, clocks, groups
        self._moments: dict[Use, dict[int, NDArray[np.int32]]] = {use: {} for use in Use}  # by agent, of each granule
        self._latest: dict[tuple[Use, int], NDArray[np.int32]] = {}  # of those, by workgroup

    def at_barrier(self, groups: Agents) -> None:
        """The clocks know."""

    def settle(self) -> None:
        """Nothing is kept to be judged later."""

    def forget_range(self, start: int, end: int) -> None:
        """Order everything in a range before what comes."""
        for _, _, moments in self._every():
            moments[start // self.granule : -(-end // self.granule)] = 0

    def _every(self) -> Iterator[tuple[Use, int, NDArray[np.int32]]]:
        for use, agents in self._moments.items():
            for agent, moments in agents.items():
                yield use, agent, moments

    def _refine(self, at: Offsets, size: int) -> None:
        needed = finest(self.granule, at, size)
        if needed < self.granule:
            for use, agent, moments in [*self._every()]:
                self._moments[use][agent] = np.repeat(moments, self.granule // needed)
            self.granule = needed

    def note_of(
        self,
        groups: Agents,
        use: Use,
        at: Offsets,
        size: int,
        agents: Agents,
        values: Values | None = None,
        *,
        later: bool = False,
    ) -> Conflict | None:
        """Note accesses, and find one that comes in no order with an earlier one, or another of the same instruction.

        Args:
            groups: workgroup of each.
            use: what they do.
            at: offset of each, bytes.
            size: bytes of each.
            agents: tag of who makes each: number of the wave in its workgroup, from 1 on.
            values: of writes.
            later: whether asynchronous operations of those waves make them.
        """
        self._refine(at, size)
        count = size // self.granule
        place = at // self.granule if count == 1 else (at // self.granule)[:, None] + np.arange(count)
        waves = groups * self.clocks.waves + agents - 1
        conflict = self._earlier(use, place, waves, values) or self._at_once(use, place, waves, values)
        self._enter(use, place, waves, later)
        return conflict

    def _earlier(self, use: Use, place: Offsets, waves: Agents, values: Values | None) -> Conflict | None:
        distinct = np.unique(waves)
        for earlier in CONFLICTS[use]:
            agents = (agent for agent in self._moments[earlier] if self._news(earlier, agent, distinct))
            apart = {agent: self._apart(earlier, agent, place, waves) for agent in agents}
            found = np.logical_or.reduce([*apart.values()]) if apart else np.zeros(0, np.bool_)
            if earlier is use and values and found.any():
                found &= self._differ(values.before(), values.after(), place)
            if found.any():
                first = int(np.argmax(found.reshape(-1)))
                others = {agent % self.clocks.waves for agent, each in apart.items() if each.reshape(-1)[first]}
                return self._conflict(found, place, others, earlier)
        return None

    def _news(self, use: Use, agent: int, waves: Agents) -> bool:
        """Whether an agent has done something that one of the waves does not come behind."""
        latest = self._latest[use, agent][waves // self.clocks.waves]
        return bool((latest > self.clocks.known[waves, agent]).any())

    def _apart(self, use: Use, agent: int, place: Offsets, waves: Agents) -> Mask:
        """Which places an agent has used at a moment that those who come now do not come behind."""
        known = self.clocks.known[waves, agent]
        return np.asarray(self._moments[use][agent][place] > (known if place.ndim == 1 else known[:, None]))

    def _at_once(self, use: Use, place: Offsets, waves: Agents, values: Values | None) -> Conflict | None:
        """Writes of several waves to one byte in one instruction."""
        if use is not Use.WRITE or (waves == waves[0]).all():
            return None
        own = np.broadcast_to(waves if place.ndim == 1 else waves[:, None], place.shape)
        last = np.empty(self.size // self.granule, waves.dtype)
        last[place] = own
        found = np.asarray(last[place] != own)
        if values and found.any():
            rows, at = values.after().reshape(-1, self.granule), place.reshape(-1)
            kept = np.empty((last.size, self.granule), np.uint8)
            kept[at] = rows
            found &= self._differ(kept[at], rows, place)
        if not found.any():
            return None
        return self._conflict(found, place, {int(last[place][found][0]) % self.clocks.waves}, use)

    def _enter(self, use: Use, place: Offsets, waves: Agents, later: bool) -> None:
        own, now = waves % self.clocks.waves, self.clocks.now(waves, later=later)
        for agent in np.unique(own).tolist():
            which = own == agent
            key = agent + (self.clocks.waves if later else 0)
            if key not in self._moments[use]:
                self._moments[use][key] = np.zeros(-(-self.size // self.granule), np.int32)
                self._latest[use, key] = np.zeros(self._groups, np.int32)
            moments, latest = self._moments[use][key], self._latest[use, key]
            moments[place[which]] = now[which] if place.ndim == 1 else now[which, None]
            latest[waves[which] // self.clocks.waves] = now[which]

    def _differ(self, left: Bytes, right: Bytes, place: Offsets) -> Mask:
        """By granule."""
        return np.asarray((left != right).reshape(*place.shape, self.granule).any(axis=-1))

    def _conflict(self, found: Mask, place: Offsets, others: set[int], use: Use) -> Conflict:
        which = int(np.argmax(found.reshape(-1)))
        byte = int(place.reshape(-1)[which]) * self.granule
        other = others.pop() + 1 if len(others) == 1 else MANY
        return Conflict(which * place.shape[0] // place.size, byte, other, use)
