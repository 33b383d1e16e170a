"""How much is read to cool the caches, with the device's answer played; no GPU needed."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from portkit.run.timing import events
from portkit.run.timing.flush import DEFAULT_FLUSH_BYTES, MIN_FLUSH_BYTES, flush_size
from portkit.targets.catalog import load_catalog

MIB = 1 << 20


@pytest.fixture
def device(monkeypatch):
    def says(l2_mib):
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        known = {"L2_cache_size": l2_mib * MIB} if l2_mib else {}
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: SimpleNamespace(**known))

    return says


@pytest.mark.parametrize(
    ("target", "l2_mib", "expected"),
    [
        ("h200", 50, MIN_FLUSH_BYTES),
        ("mi300x", 4, 2 * 256 * MIB),  # the device tells one die's L2 and nothing of the Infinity Cache
        ("mi250x", 8, MIN_FLUSH_BYTES),  # has none
        ("rx7900xtx", 6, MIN_FLUSH_BYTES),  # twice 96 MiB is less
        ("gfx1151", 2, DEFAULT_FLUSH_BYTES),  # an SKU that nobody knows
        ("gfx942", 4, DEFAULT_FLUSH_BYTES),  # a partition, say
        ("sm_90", 0, DEFAULT_FLUSH_BYTES),
    ],
)
def test_twice_the_largest_cache_that_is_or_may_be_there(device, target, l2_mib, expected):
    device(l2_mib)
    assert flush_size(load_catalog().get(target)) == expected


def test_a_larger_cache_than_any_there_is(device):
    device(0)
    target = replace(load_catalog().get("mi300x"), last_level_cache_mib=1024)
    assert flush_size(target) == 2048 * MIB


def test_events_are_read_before_the_next_are_made(monkeypatch):
    """HIP slows down, and may fail, with thousands of pairs that nobody has read yet: here it is one at a time."""
    alive, most = set(), [0]

    class Event:
        def __init__(self, **given):
            alive.add(id(self))
            most[0] = max(most[0], len(alive))

        def record(self):
            pass

        def query(self):
            return False

        def elapsed_time(self, end):
            alive.difference_update({id(self), id(end)})
            return 1.0

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    functions = {"fused": lambda: None, "eager": lambda: None}
    rounds = events.sample_rounds([functions] * 1500, lambda name, call: None)
    assert len(rounds) == 1500
    assert most == [2]
