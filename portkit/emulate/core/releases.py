"""Which workgroups come behind which, by atomics: who has read what another one released.

An access that acquires comes behind a release of another workgroup where it reads what that left at the same place, or
what atomics have since made of it. So does all that its workgroup does from then on. Other atomics order nothing.

Who comes behind whom is asked for rarely, since workgroups seldom touch the same bytes: so only a list of what was
released and acquired is kept, and looked through backward from the one who asks.

Source: PTX ISA, "Memory Consistency Model": release and acquire patterns, observation, causality order; LLVM, "User
Guide for AMDGPU Backend": memory model.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.bytestore import Offsets

Groups: TypeAlias = NDArray[np.int64]
Moments: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

KEPT = 1 << 21
"""Atomics of single lanes that are kept; of more, all workgroups that acquire come behind all that release."""

NEVER = -1


@dataclass(frozen=True)
class _Step:
    """One instruction's accesses, in their order."""

    at: Offsets
    groups: Groups
    wrote: Mask
    released: Moments  # up to which each is a release; ``NEVER``: it is none
    acquires: bool  # else only where its workgroup has come by a fence since
    replaces: bool  # stores, behind which nobody sees what others left


class Releases:
    """What workgroups of a launch released and acquired.

    Args:
        workgroups: how many there are.

    Attributes:
        fences: whether there may be fences, by which relaxed accesses order, too.
        now: the moment: what a workgroup did at it comes before what it releases from here on.
    """

    def __init__(self, workgroups: int, *, fences: bool = False) -> None:
        self.fences = fences
        self._steps: list[_Step] = []
        self._kept = 0
        self._acquired: dict[int, list[int]] = {}  # by workgroup, the moments behind its steps that acquired
        self._fences: dict[int, list[int]] = {}  # by workgroup, moments
        self._fenced: Moments = np.full(workgroups, NEVER, np.int64)  # the last of them
        self._released: Mask = np.zeros(workgroups, np.bool_)
        self._known: dict[tuple[int, int], Moments] = {}  # by workgroup and moment
        self.now = 0

    def note(
        self,
        at: Offsets,
        groups: Groups,
        *,
        acquires: bool,
        releases: bool,
        wrote: Mask | None = None,
        replaces: bool = False,
    ) -> None:
        """Note accesses of one instruction, in their order.

        Args:
            at: place of each.
            groups: workgroup of each.
            acquires: whether they acquire what they read.
            releases: whether those that write release.
            wrote: which wrote; None: all.
            replaces: whether they write without reading.
        """
        if self._released.size == 1 or not (acquires or releases or replaces or self.fences):
            return
        written = np.ones(at.size, np.bool_) if wrote is None else wrote
        moments = np.full(at.size, self.now) if releases else self._fenced[groups]
        moments = np.where(written, moments, NEVER)
        self._released[groups[moments != NEVER]] = True
        self._kept += at.size
        self.now += 1
        if acquires:
            self._note_each(self._acquired, groups)
        if self._kept > KEPT:
            self._steps = []
            return
        self._steps.append(_Step(at.copy(), groups, written, moments, acquires, replaces))

    def fence(self, groups: Groups) -> None:
        """Let relaxed writes of workgroups release what was before, and what they have read acquire."""
        self._fenced[groups] = self.now
        self._note_each(self._fences, groups)
        self._note_each(self._acquired, groups)

    def _note_each(self, of: dict[int, list[int]], groups: Groups) -> None:
        for group in np.unique(groups).tolist():
            of.setdefault(group, []).append(self.now)

    def behind(self, groups: Groups, others: Groups, moments: Moments, now: int) -> Mask:
        """Whether workgroups, one each, come at a moment behind what others did at some.

        Of several others nobody knows who they are (a negative number): a workgroup is taken to come behind them if it
        has acquired anything.
        """
        found: Mask = np.zeros(groups.size, np.bool_)
        for group in np.unique(groups).tolist():
            which = groups == group
            if until := _last(self._acquired.get(group, ()), now):
                known = self._of(group, until)
                found[which] = (others[which] < 0) | (known[others[which]] >= moments[which])
        return found

    def _of(self, group: int, until: int) -> Moments:
        """By workgroup, the last moment that a workgroup comes behind, as far as it has acquired until a moment."""
        if self._kept > KEPT:
            return np.where(self._released, np.iinfo(np.int64).max, NEVER)
        if (group, until) not in self._known:
            self._known[group, until] = self._looked_through(group, until)
        return self._known[group, until]

    def _looked_through(self, group: int, until: int) -> Moments:
        known, came, wanted = np.full(self._released.size, NEVER, np.int64), {group}, set[int]()
        for number in range(until - 1, -1, -1):
            step = self._steps[number]
            each = (item[::-1].tolist() for item in (step.at, step.groups, step.wrote, step.released))
            for at, who, wrote, released in zip(*each, strict=True):
                if wrote and at in wanted:
                    if released != NEVER and who != group:
                        known[who] = max(known[who], released)
                        came.add(who)
                    if step.replaces:
                        wanted.discard(at)
                if who in came and (step.acquires or _last(self._fences.get(who, ()), until) > number):
                    wanted.add(at)
        return known


def _last(moments: Sequence[int], until: int) -> int:
    """The last of ascending moments that are not behind one; 0: there is none."""
    number = bisect.bisect_right(moments, until)
    return moments[number - 1] if number else 0
