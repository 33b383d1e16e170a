"""Vector clocks of waves, and the accesses that they put in order."""

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import itertools

import numpy as np

from portkit.emulate.core.checker import CONFLICTS, MANY, Use, Values
from portkit.emulate.core.clocks import ClockedLedger, Clocks

WAVES, STRIDE = 4, 64


@pytest.fixture
def clocks():
    return Clocks(2, WAVES)


@pytest.fixture
def ledger(clocks):
    return ClockedLedger(2, STRIDE, clocks)


def at(*offsets):
    return np.array(offsets, np.int64)


def note(ledger, wave, use, *offsets, size=4, values=None, later=False, group=0):
    """Accesses of one wave, or one each where it is several, of a workgroup."""
    waves = np.broadcast_to(np.array(wave), len(offsets))
    groups = np.full(len(offsets), group)
    return ledger.note_of(groups, use, at(*offsets) + group * STRIDE, size, waves + 1, values, later=later)


@pytest.mark.parametrize(("first", "second"), [*itertools.product(Use, Use)])
def test_uses_of_two_waves_conflict_as_they_do_elsewhere(ledger, first, second):
    assert note(ledger, 0, first, 8) is None
    assert note(ledger, 0, second, 8) is None
    found = note(ledger, 1, second, 8)
    assert (found is not None) == (first in CONFLICTS[second] or second in CONFLICTS[second])
    if found:
        assert (found.which, found.byte, found.other) == (0, 8, 1)


def test_waves_that_meet_come_behind_one_another(clocks, ledger):
    note(ledger, 0, Use.WRITE, 0)
    clocks.meet(at(0, 1))
    assert note(ledger, 1, Use.READ, 0) is None
    assert note(ledger, 2, Use.READ, 0).other == 1
    clocks.meet(at(1, 2))  # what one has learned it passes on
    assert note(ledger, 2, Use.READ, 0) is None
    note(ledger, 0, Use.WRITE, 0)
    assert note(ledger, 1, Use.READ, 0) is not None


def test_who_is_told_comes_behind_and_not_the_other_way(clocks, ledger):
    note(ledger, 0, Use.WRITE, 0)
    note(ledger, 1, Use.WRITE, 8)
    told = clocks.tell(0)
    note(ledger, 0, Use.WRITE, 4)
    clocks.learn(at(1, 2), told)
    assert note(ledger, 1, Use.READ, 0) is None
    assert note(ledger, 2, Use.READ, 0) is None
    assert note(ledger, 1, Use.READ, 4) is not None  # behind what was told
    assert note(ledger, 0, Use.READ, 8) is not None


def test_readers_are_all_remembered(clocks, ledger):
    for wave in (1, 2):
        note(ledger, wave, Use.READ, 16)
    clocks.learn(at(0), clocks.tell(1))
    assert note(ledger, 0, Use.WRITE, 16).other == 3
    clocks.learn(at(0), clocks.tell(2))
    assert note(ledger, 0, Use.WRITE, 16) is None
    assert note(ledger, 3, Use.READ, 16).other == 1


def test_of_several_others_none_is_named(ledger):
    for wave in (1, 2):
        note(ledger, wave, Use.READ, 16)
    assert note(ledger, 0, Use.WRITE, 16).other == MANY


def test_asynchronous_operations_are_behind_their_wave_and_before_who_waits(clocks, ledger):
    note(ledger, 0, Use.READ, 0, later=True)
    assert note(ledger, 0, Use.WRITE, 0) is not None  # its own wave does not come behind
    clocks.meet(at(0, 1))
    assert note(ledger, 1, Use.WRITE, 0) is not None
    told = clocks.tell(0, later=True)
    clocks.learn(at(2), told)
    assert clocks.behind(2, 0, 1, later=True)
    assert not clocks.behind(1, 0, 1, later=True)


def test_workgroups_have_waves_of_their_own(clocks, ledger):
    note(ledger, 0, Use.WRITE, 0)
    assert note(ledger, 1, Use.READ, 0, group=1) is None
    clocks.meet(clocks.of_group(1))
    assert note(ledger, 1, Use.READ, 0) is not None


def test_two_writes_of_one_value_are_no_race(ledger):
    def written(before, after):
        return Values(*(lambda each=each: np.array(each, "<u4")[:, None].view(np.uint8) for each in (before, after)))

    assert note(ledger, [0, 1], Use.WRITE, 8, 8, values=written([0, 0], [7, 7])) is None
    assert note(ledger, 2, Use.WRITE, 8, values=written([7], [7])) is None
    assert note(ledger, 3, Use.WRITE, 8, values=written([7], [8])) is not None
    assert note(ledger, [0, 1], Use.WRITE, 16, 16, values=written([0, 0], [7, 8])).byte == 16


def test_granules_become_finer_and_keep_what_is_known(ledger):
    note(ledger, 0, Use.WRITE, 16, size=16)
    assert note(ledger, 1, Use.READ, 31, size=1).other == 1
    assert note(ledger, 1, Use.READ, 32, size=1) is None
    ledger.forget_range(16, 24)
    assert note(ledger, 1, Use.READ, 23, size=1) is None
    assert note(ledger, 1, Use.READ, 24, size=1) is not None
