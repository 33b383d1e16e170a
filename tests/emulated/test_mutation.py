"""Deleted instructions are noticed: every barrier, every wait that a result needs, and most of the others.

A small sample; ``scripts/mutate_emulated.py`` deletes 2,000 instructions of ten kernels.
"""

import pytest
from mutants import CASES, kind_of, mutants


def barriers_and_waits(code, reached, count):
    """None of the other instructions."""
    return [index for index in sorted(reached) if kind_of(code, index) in {"barrier", "wait"}]


NEEDED_BY_NONE = {
    ("sum_abs", "barrier"): 1,  # before the last read, by the wave that wrote
    ("softmax", "wait"): 1,  # for loads that a wait before made sure of: it orders memory
}
"""Barriers and waits that no result needs."""


@pytest.mark.parametrize(("name", "architecture"), [("softmax", "gfx1201"), ("sum_abs", "gfx942")])
def test_every_needed_barrier_and_wait(name, architecture):
    found = list(mutants(CASES[name](architecture), 0, barriers_and_waits))
    assert len(found) >= 8
    for kind in ("barrier", "wait"):
        missed = [item for item in found if item.kind == kind and not item.by]
        assert len(missed) <= NEEDED_BY_NONE.get((name, kind), 0), missed


@pytest.mark.parametrize(("name", "architecture"), [("scan_and_sort", "gfx942"), ("swiglu", "gfx1100")])
def test_most_deletions(name, architecture):
    found = [item for item in mutants(CASES[name](architecture), 12) if item.kind == "other"]
    assert len(found) == 12
    assert sum(bool(item.by) for item in found) >= 8, found
