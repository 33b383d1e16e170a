"""Ranges as rocprofv3's tables show them: kernels that do nothing, before and after a call.

Its tables have no ranges beside the kernels, and a range that is traced on the host would
have to be matched by time. The order of dispatches is in every table, so a marker kernel
stands at either end, and the name ``task.function.call`` is in the shape of the first one's
grid. Not yet run on AMD hardware.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import triton

from portkit.run.counters.markers import grid_of


@contextlib.contextmanager
def counted(name: str) -> Iterator[None]:
    """A range in which kernels are counted, of the call with that name."""
    _begins[grid_of(name)]()
    try:
        yield
    finally:
        _ends[(1,)]()


@contextlib.contextmanager
def discarded() -> Iterator[None]:
    """Kernels outside of any range belong to no call; compiles the markers."""
    _ends[(1,)]()
    yield


def portkit_range_begins() -> None:
    """An empty kernel; its name is the marker's."""


def portkit_range_ends() -> None:
    """An empty kernel; its name is the marker's."""


_begins = triton.jit(portkit_range_begins)
_ends = triton.jit(portkit_range_ends)
