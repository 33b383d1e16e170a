"""When Python's search for garbage runs in a process that builds and emulates."""

import gc
import weakref

import pytest

from portkit.garbage import GROWTH, Seldom


class Ring:
    """Refers to itself, so that only a search finds that nobody else does."""

    def __init__(self):
        self.own = self


@pytest.fixture
def thresholds():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def old_ring():
    ring = Ring()
    gc.collect()  # what survives is old
    return weakref.ref(ring)


def test_old_objects_are_looked_at_where_memory_has_grown(thresholds):
    held = [0]
    seldom = Seldom(lambda: held[0])
    gone = old_ring()
    seldom.look()
    held[0] = GROWTH
    seldom.look()
    assert gone() is not None
    held[0] = GROWTH + 1
    seldom.look()
    assert gone() is None


def test_growth_counts_from_the_last_look(thresholds):
    held = [0]
    seldom = Seldom(lambda: held[0])
    held[0] = GROWTH + 1
    seldom.look()
    gone = old_ring()
    held[0] = 2 * GROWTH
    seldom.look()
    assert gone() is not None


def test_new_garbage_is_found_of_itself(thresholds):
    Seldom(lambda: 0)
    gone = weakref.ref(Ring())
    rings = [Ring() for _ in range(60_000)]
    assert gone() is None
    assert len(rings) == 60_000
