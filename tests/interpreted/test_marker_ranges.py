"""Marker kernels around a counted call: what is launched in which order, and under which names; no GPU needed."""

from __future__ import annotations

import pytest

from portkit.run.counters import marker_ranges, nvtx_ranges
from portkit.run.counters.markers import BEGINS, ENDS, Grid, name_of


class Kernel:
    """Notes its launches instead of making them."""

    def __init__(self, name, log):
        self.name, self.log = name, log

    def __getitem__(self, grid: Grid):
        return lambda: self.log.append((self.name, grid))


@pytest.fixture
def launched(monkeypatch):
    log = []
    monkeypatch.setattr(marker_ranges, "_begins", Kernel(BEGINS, log))
    monkeypatch.setattr(marker_ranges, "_ends", Kernel(ENDS, log))
    return log


def test_a_call_lies_between_its_markers(launched):
    with marker_ranges.counted("7.1.3"):
        launched.append(("call", None))
    (begin, grid), call, (end, _) = launched
    assert (begin, name_of(grid), call[0], end) == (BEGINS, "7.1.3", "call", ENDS)


def test_a_call_that_raises_ends_its_range(launched):
    with pytest.raises(ValueError, match="no"), marker_ranges.counted("0.0.0"):
        raise ValueError("no")
    assert [name for name, _ in launched] == [BEGINS, ENDS]


def test_what_is_discarded_is_in_no_range(launched):
    with marker_ranges.discarded():
        launched.append(("first", None))
    assert [name for name, _ in launched] == [ENDS, "first"]


def test_the_kernels_have_the_names_that_the_reader_knows():
    assert (marker_ranges._begins.fn.__name__, marker_ranges._ends.fn.__name__) == (BEGINS, ENDS)


def test_nvtx_ranges_are_within_that_of_the_project(monkeypatch):
    told = []
    monkeypatch.setattr(nvtx_ranges.torch.cuda.nvtx, "range_push", told.append)
    monkeypatch.setattr(nvtx_ranges.torch.cuda.nvtx, "range_pop", lambda: told.append("end"))
    with nvtx_ranges.counted("0.1.2"):
        told.append("call")
    with nvtx_ranges.discarded():
        told.append("first")
    assert told == ["portkit", "0.1.2", "call", "end", "end", "portkit", "first", "end"]
