"""The order in which a round calls the functions, drawn anew for each.

What ran just before moves the time of a call: the device's power and clocks, what lies in its
caches' queues, how long it stood idle. In a fixed order each function always pays for the same
neighbour, and the first for the pause between two rounds. Drawn at random, every function comes
at every place about equally often, and what a place costs falls on all alike (a randomised
complete block design: a round is a block). Needs no torch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

SEED = 0
"""Of the draw: each clock and each mode of a cell begins it anew."""


def shuffled(rounds: Iterable[Mapping[str, Callable[[], object]]]) -> Iterator[Mapping[str, Callable[[], object]]]:
    """The same rounds, each in an order of its own."""
    draw = random.Random(SEED)
    for functions in rounds:
        yield {name: functions[name] for name in _drawn(draw, functions)}


def orders(names: Collection[str], rounds: int, seed: int) -> list[list[str]]:
    """In which order functions were called in the first rounds of a clock, as the samples of a cell keep the seed.

    Args:
        names: of the functions, in the order of the samples.
        rounds: how many.
        seed: of the draw.
    """
    draw = random.Random(seed)
    return [_drawn(draw, names) for _ in range(rounds)]


def _drawn(draw: random.Random, names: Iterable[str]) -> list[str]:
    order = list(names)
    draw.shuffle(order)
    return order
