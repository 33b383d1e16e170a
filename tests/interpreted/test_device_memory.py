"""What a cell held of the device's memory is given back, cycles included."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from portkit.model import Outcome, Stage, Status
from portkit.run.measure import _device_memory
from portkit.run.watched import GuardedStage, StageFailed

ALIVE = weakref.WeakSet()


class Held:
    """Stands for a tensor: a megabyte while it lives."""

    def __init__(self):
        ALIVE.add(self)


@pytest.fixture(autouse=True)
def memory(monkeypatch):
    emptied = []
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: len(ALIVE) << 20)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(len(ALIVE)))
    gc.collect()
    gc.disable()
    yield emptied
    gc.enable()


@_device_memory()
def cell(cyclic):
    held = Held()
    if cyclic:
        held.itself = held
    return "a result"


@pytest.mark.parametrize("cyclic", [False, True])
def test_memory_is_free_before_the_cache_is_emptied(memory, cyclic):
    assert cell(cyclic) == "a result"
    assert memory == [0]


def test_what_was_there_before_starts_no_collection(memory, monkeypatch):
    before = Held()
    monkeypatch.setattr(gc, "collect", lambda: pytest.fail("nothing of the cell is left to collect"))
    cell(cyclic=False)
    assert memory == [1]
    del before


def test_a_device_that_is_lost_refuses_and_the_result_stays(monkeypatch):
    def refuse():
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "empty_cache", refuse)
    assert cell(cyclic=False) == "a result"


def test_a_stage_that_fails_leaves_nothing_in_a_cycle():
    """From Python 3.12 on it did, where the stage was guarded by a generator."""

    def evaluate():
        with GuardedStage(Stage.INPUTS, Status.CAPTURE_FAILED, lambda error, stage: None):
            held = Held()
        with GuardedStage(Stage.RUN, Status.LAUNCH_ERROR, lambda error, stage: None):
            raise ValueError(f"with {len([held])} tensor")

    def run():
        try:
            evaluate()
        except StageFailed as failed:
            return failed.outcome

    assert run().message.startswith("ValueError: with 1 tensor at ")
    assert len(ALIVE) == 0


def test_a_stage_fails_once_and_what_ends_a_process_passes():
    own = Outcome(Status.DEVICE_FAULT, Stage.RUN, "explained")
    outer = GuardedStage(Stage.VERIFY, Status.CAPTURE_FAILED, lambda *given: None)
    inner = GuardedStage(Stage.RUN, Status.LAUNCH_ERROR, lambda *given: own)
    with pytest.raises(StageFailed) as failed, outer, inner:
        raise ValueError
    assert failed.value.outcome is own
    with pytest.raises(SystemExit), inner:
        raise SystemExit(3)
