"""Marker kernels in a table of dispatches: their names, and ranges as shapes of grids; no torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol, TypeVar

BEGINS: Final = "portkit_range_begins"
ENDS: Final = "portkit_range_ends"

Grid = tuple[int, int, int]


class Dispatched(Protocol):
    """A kernel as a table has it."""

    @property
    def name(self) -> str:
        """Of the kernel."""

    @property
    def blocks(self) -> Grid:
        """Shape of its grid, in blocks."""


Dispatch = TypeVar("Dispatch", bound=Dispatched)


def grid_of(name: str) -> Grid:
    """Shape of the grid of the marker that begins a range ``task.function.call``; no side is empty."""
    task, function, call = (int(part) for part in name.split("."))
    return task + 1, function + 1, call + 1


def name_of(grid: Grid) -> str:
    """Range that a marker of that shape begins."""
    return ".".join(str(side - 1) for side in grid)


def in_ranges(dispatches: Iterable[Dispatch]) -> Iterator[tuple[str, Dispatch]]:
    """Dispatches in order, markers left out, each with its range; empty outside of any."""
    current = ""
    for dispatch in dispatches:
        if dispatch.name == BEGINS:
            current = name_of(dispatch.blocks)
        elif dispatch.name == ENDS:
            current = ""
        else:
            yield current, dispatch
