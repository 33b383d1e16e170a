"""Which waves run next.

A wave is ready, waits at a barrier, or has ended. Waves that are at the same program counter run together,
which is what makes the emulator fast; the order decides between the groups. A right kernel gives the same
bits under every order, locks and floating-point atomics aside.
"""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

READY, WAITING, ENDED = 0, 1, 2
"""States of a wave."""


class Order(enum.StrEnum):
    """Order in which waves of a workgroup run between two barriers."""

    CONVERGED = "converged"  # the lowest program counter first: most waves at once, the fastest
    FORWARD = "forward"  # one wave of each workgroup at a time, the first one that can
    REVERSE = "reverse"  # the last one that can
    SEEDED = "seeded"  # half of them by chance, then, once none of those can go on, the rest, and so on


@dataclass
class Schedule:
    """Picks the group of waves that runs next.

    ``patience`` is the number of picks after which the most advanced waves run instead of the least advanced
    ones, once, and in turns with that the last wave of a workgroup instead of the first: waves that spin on a
    lock must not starve its holder.
    """

    order: Order = Order.CONVERGED
    seed: int = 0
    patience: int = 64
    picks: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._turn: NDArray[np.bool_] = np.zeros(0, np.bool_)  # waves whose turn it is
        self._everyone = True  # whether that is all

    @functools.cached_property
    def _random(self) -> np.random.Generator:
        """Made when it is first asked for: that takes as long as a dozen instructions."""
        return np.random.default_rng(self.seed)

    @property
    def turns(self) -> bool:
        """Whether the next pick is one of those against starvation."""
        return (self.picks + 1) % self.patience == 0

    def workgroups(self, count: int) -> NDArray[np.int64]:
        """Order in which workgroups start."""
        numbers = np.arange(count)
        if self.order is Order.REVERSE:
            return numbers[::-1]
        return self._random.permutation(count) if self.order is Order.SEEDED else numbers

    def pick(self, ready: NDArray[np.bool_], pc: NDArray[np.int64], per_group: int) -> NDArray[np.bool_]:
        """Waves that run next: all at one program counter. ``ready`` has at least one."""
        self.picks += 1
        if self.order is Order.CONVERGED:
            return self._by_counter(ready, pc)
        if self.order is Order.SEEDED:
            return self._by_counter(self._on_turn(ready), pc)
        return self._one_wave_a_group(ready, pc, per_group)

    def _on_turn(self, ready: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Ready waves whose turn it is: of half of them and of all alternately."""
        over = self._turn.size != ready.size or not (self._turn & ready).any()
        if over or self.picks % self.patience == 0:  # that half may spin on a lock that another wave holds
            self._everyone = not self._everyone
            self._turn = self._random.random(ready.size) < (1.0 if self._everyone else 0.5)
        chosen = self._turn & ready
        return chosen if chosen.any() else ready

    def _by_counter(self, ready: NDArray[np.bool_], pc: NDArray[np.int64]) -> NDArray[np.bool_]:
        at = pc[ready]
        target = at.min() if self.picks % self.patience else at.max()
        return ready & (pc == target)

    def _one_wave_a_group(self, ready: NDArray[np.bool_], pc: NDArray[np.int64], per_group: int) -> NDArray[np.bool_]:
        rank = self._ranks(ready.size, per_group)
        rank[~ready] = np.iinfo(np.int64).max
        by_group = rank.reshape(-1, per_group)
        first = (by_group == by_group.min(axis=1, keepdims=True)).reshape(-1) & ready
        return self._by_counter(first, pc)

    def _ranks(self, waves: int, per_group: int) -> NDArray[np.int64]:
        ranks: NDArray[np.int64] = np.arange(waves, dtype=np.int64) % per_group
        turned = self.picks % self.patience == self.patience // 2
        return per_group - 1 - ranks if (self.order is Order.REVERSE) != turned else ranks
