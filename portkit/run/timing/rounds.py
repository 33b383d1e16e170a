"""When enough rounds were sampled."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from portkit.run.timing.statistics import relative_half_width

SETTLED = 0.005
"""Half width of the 95 % interval of a median, as a share of the median, that ends sampling."""

T = TypeVar("T")


@dataclass(frozen=True)
class Bounds:
    """How long a clock is sampled."""

    seconds: float  # of wall clock
    fewest: int = 10  # rounds, made whatever time they take
    least: int = 50  # rounds, before the medians can count as known
    most: int = 1000  # rounds
    step: int = 10  # rounds between two looks at the intervals and at the clock, fewer where long ones would go past it

    def further(self, made: int, seconds: float) -> int:
        """How many rounds to make next, after so many in so many seconds; 0 where that was enough."""
        if made >= self.most or seconds >= self.seconds:
            return 0
        fitting = int((self.seconds - seconds) * made / seconds) if seconds else self.step
        return max(1, min(self.step, self.most - made, fitting))


@dataclass
class Rounds(Generic[T]):
    """Rounds sampled so far: for each, function → sample."""

    rounds: list[Mapping[str, T]] = field(default_factory=list)
    settled: bool = False

    def column(self, name: str) -> list[T]:
        """All samples of one function."""
        return [each[name] for each in self.rounds]


def until_settled(
    sample: Callable[[int], Sequence[Mapping[str, T]]], milliseconds: Callable[[T], float], bounds: Bounds
) -> Rounds[T]:
    """Sample until every function's median is known to half a per cent, or the time is over.

    Args:
        sample: makes that many rounds.
        milliseconds: the time of one sample.
        bounds: how long at least and at most.
    """
    start = time.perf_counter()
    taken = Rounds(list(sample(bounds.fewest)))
    while not taken.settled and (rounds := bounds.further(len(taken.rounds), time.perf_counter() - start)):
        taken.rounds += sample(rounds)
        taken.settled = len(taken.rounds) >= bounds.least and _is_known(taken, milliseconds)
    return taken


def _is_known(taken: Rounds[T], milliseconds: Callable[[T], float]) -> bool:
    return all(
        relative_half_width([milliseconds(each) for each in taken.column(name)]) <= SETTLED for name in taken.rounds[0]
    )
