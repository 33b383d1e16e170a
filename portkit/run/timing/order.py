"""The order in which a round calls the functions, drawn anew for each.

What ran just before moves the time of a call: the device's power and clocks, what lies in its
caches' queues, how long it stood idle. In a fixed order each function always pays for the same
neighbour, and the first for the pause between two rounds. Drawn at random, every function comes
at every place about equally often, and what a place costs falls on all alike (a randomised
complete block design: a round is a block). Needs no torch.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

Functions = Mapping[str, Callable[[], object]]

SEED = 0
"""Of the draw: each clock and each mode of a cell begins it anew."""


def drawn(places: Sequence[Functions]) -> Iterator[Functions]:
    """Rounds without end, each in an order of its own; call by call, they take the places in turn.

    A call so never finds its inputs as the call before left them: that makes some kernels faster,
    flushed caches or not (translations of addresses that are still known, most likely), and the
    first of a round alone would lack it.
    """
    draw, turns = random.Random(SEED), itertools.cycle(places)
    while True:
        yield {name: next(turns)[name] for name in _drawn(draw, places[0])}


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
