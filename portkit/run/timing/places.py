"""Where tensors lie moves the time of a kernel that reads and writes them, by some per cent.

Two streams that meet in the same banks of memory wait for each other, and that depends on
their addresses. So that a median is not that of one accident, rounds take copies of the inputs
in turn, and results lie elsewhere from call to call: the last ones stay alive, and the
allocator has to take another block. Copies are made from fresh memory: in blocks that
are left from earlier work, tensors begin at odd places of a page.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from portkit.run.timing.events import Call, Functions
from portkit.run.tree import map_tensors

COPIES = 8
"""Copies of the inputs."""

RESULTS = 12
"""Results that stay alive: with the one being made, a prime number of places, which no order of calls divides."""

_SHARE = 0.25  # of the free memory, that copies may take, and of what is left, results


def at_places(make: Callable[[Mapping[str, Any]], Functions], inputs: Mapping[str, Any]) -> list[Functions]:
    """The functions on copies of the inputs, as many as memory allows; on the inputs themselves if on none.

    Args:
        make: the functions on given inputs.
        inputs: left as they are.
    """
    torch.cuda.empty_cache()
    places: list[Functions] = []
    with contextlib.suppress(torch.cuda.OutOfMemoryError):  # a backward pass keeps more than its inputs
        while len(places) < _copies_that_fit(inputs):
            places.append(make(map_tensors(torch.Tensor.clone, inputs)))
    return places or [make(inputs)]


def scattered(rounds: Iterable[Functions], keep: int) -> list[Functions]:
    """The same functions, all of whose last ``keep`` results stay alive."""
    alive: deque[object] = deque(maxlen=keep)

    def elsewhere(call: Call) -> Call:
        return lambda: alive.append(call())  # the new result is there before the oldest goes

    return [{name: elsewhere(call) for name, call in functions.items()} for functions in rounds]


def _copies_that_fit(inputs: Mapping[str, Any]) -> int:
    each = max(1, _bytes(inputs))
    free, _ = torch.cuda.mem_get_info()
    return min(COPIES, int(_SHARE * free) // each)


def results_that_fit(functions: Functions) -> int:
    """How many results may stay alive, the largest that any function returns taken for all."""
    largest = max(_bytes(call()) for call in functions.values())
    free, _ = torch.cuda.mem_get_info()
    return RESULTS if largest == 0 else min(RESULTS, int(_SHARE * free) // largest)


def _bytes(result: object) -> int:
    """Memory of the tensors in a result or in inputs."""
    tensors = (leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor))
    return sum(tensor.nbytes for tensor in tensors)
