"""Python's search for garbage, switched off for a while: it stops the host, and looks at every object there is."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_YOUNG: Final = (50_000, 20, 1 << 30)
"""New objects that are looked at together, lots of them that are looked at once more, and of those: never."""

GROWTH: Final = 256 << 20
"""Bytes by which memory may grow without a look at what is old."""


@contextmanager
def uncollected() -> Iterator[None]:
    """No search for garbage within the block; afterwards as it was before."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Seldom:
    """Python's search for garbage among old objects, made where memory has grown and not of itself any more.

    Compilers and compiled code make many objects, nearly all of which stay: to look at them again and again takes a
    fifth of the time of a process that builds and emulates. What is new is looked at as ever, in larger lots.

    Args:
        resident: bytes that this process has in memory.
    """

    def __init__(self, resident: Callable[[], int]) -> None:
        self._resident, self._known = resident, resident()
        gc.set_threshold(*_YOUNG)

    def look(self) -> None:
        """Search among all objects if it is time."""
        if self._resident() - self._known > GROWTH:
            gc.collect()
            self._known = self._resident()
