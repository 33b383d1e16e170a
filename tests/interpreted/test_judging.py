"""``scripts/judging.py`` and ``judged_groups.py``: cells judged by several processes in the memory of one device."""

import multiprocessing
import sys
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from portkit.errors import HostError
from portkit.model import CaseSource, Cell, Direction, Status

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import judged_groups
import judging

CASE = """
import os
import torch
from portkit import KernelCase, Work

def doubled(x, off=0.0, fatal=False):
    if fatal:
        os._exit(3)
    return x * 2 + off

case = KernelCase(
    name="doubled", fused=doubled, reference=lambda x: x * 2, shapes=((4, 8), (64, 8)), small_shapes=((2, 8),),
    inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype)}, dtypes=("float32",), row_inputs=("x",),
    variants={"right": {}, "fatal": {"fatal": True}, "off": {"off": 1.0}, "also": {}},
    work=lambda shape, dtype: Work(2 * 4 * shape[0] * shape[1], 2 * 4 * shape[0] * shape[1], 1),
)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("kernels") / "doubled.py"
    path.write_text(CASE)
    return CaseSource("doubled", path=str(path))


def cells(shape, dtype="float32", case="doubled"):
    return [Cell(case, Direction.FORWARD, shape, dtype, name, "h200") for name in ("right", "fatal", "off", "also")]


def group(memory, *, case="a", dtype="float32", last=False):
    return judged_groups.Group(CaseSource(case), (cells((4, 8), dtype, case)[0],), 1, memory, last)


def queue_of(groups, room):
    queue = judged_groups.Queue(room)
    for each in groups:
        queue.add(each)
    return queue


def test_each_cell_has_its_verdict_though_a_process_dies(source):
    verdicts = {}
    both = list(judged_groups.grouped([*cells((4, 8)), *cells((64, 8))], {"doubled": source}))
    assert [len(each.cells) for each in both] == [4, 4]
    queue = judged_groups.Queue(1 << 40)
    judging.Judges(queue, lambda cell, outcome: verdicts.update({cell: outcome.status}), 2, device="cpu").run(both, 120)
    named = [Status.PASSED, Status.WORKER_LOST, Status.WRONG_RESULT, Status.PASSED]
    assert verdicts == dict(zip([*cells((4, 8)), *cells((64, 8))], named * 2, strict=True))
    assert queue.room == 1 << 40


def test_a_process_that_dies_after_its_last_outcome_is_replaced(monkeypatch):
    verdicts, queue = [], queue_of([group(3), group(4)], 10)
    judges = judging.Judges(queue, lambda *told: verdicts.append(told), 0, device="cpu")
    ours, theirs = multiprocessing.Pipe()
    theirs.close()
    died = SimpleNamespace(kill=lambda: None, join=lambda seconds=None: None, exitcode=-9)
    process, other = judging._Process(died, ours, deque()), object()
    monkeypatch.setattr(judges, "_start", lambda: other)
    queue.take(0)
    judges._hear(0, process)
    assert judges._processes == {0: other}
    assert (queue.room, queue.held, verdicts) == (10, {}, [])
    assert [each.memory for each in queue.waiting] == [3]
    assert ours.closed


def test_a_process_that_says_nothing_for_too_long_is_ended(monkeypatch):
    verdicts, queue = [], queue_of([group(3)], 10)
    queue.waiting[0] = replace(queue.waiting[0], cells=tuple(cells((4, 8))[:2]))
    judges = judging.Judges(queue, lambda *told: verdicts.append(told), 0, device="cpu", limit=0.01)
    ended, other = [], object()
    held = SimpleNamespace(left=deque(), connection=SimpleNamespace(send=lambda group: None))
    held.end = lambda: ended.append(True)
    judges._processes[0] = held
    monkeypatch.setattr(judges, "_start", lambda: other)
    judges._give()
    judges._end_late()
    assert not ended
    time.sleep(0.02)
    judges._end_late()
    assert ended == [True]
    assert judges._processes == {0: other}
    assert [(cell.variant, outcome.status) for cell, outcome in verdicts] == [("right", Status.TIMEOUT)]
    assert [[cell.variant for cell in each.cells] for each in queue.waiting] == [["fatal"]]


def test_processes_that_never_begin_end_the_run(monkeypatch):
    judges = judging.Judges(queue_of([], 10), lambda *told: None, 0, device="cpu")

    def died():
        ours, theirs = multiprocessing.Pipe()
        theirs.close()
        process = SimpleNamespace(kill=lambda: None, join=lambda seconds=None: None, exitcode=1)
        return judging._Process(process, ours, deque())

    monkeypatch.setattr(judges, "_start", died)
    judges._processes.update({0: died(), 1: died()})
    with pytest.raises(HostError, match="before they are asked: its process died, exit code 1"):
        judges.run([group(3)], 20)
    assert [each.memory for each in judges._queue.waiting] == [3]


def test_a_group_is_judged_though_its_only_process_dies_before_it_is_given_it(source, monkeypatch):
    verdicts = {}
    queue = queue_of(judged_groups.grouped(cells((4, 8))[:1], {"doubled": source}), 1 << 40)
    judges = judging.Judges(queue, lambda cell, outcome: verdicts.update({cell: outcome.status}), 1, device="cpu")
    judges._processes[0].process.kill()
    judges._processes[0].process.join()
    judges.run((), 120)
    assert list(verdicts.values()) == [Status.PASSED]


def test_of_two_runs_each_judges_what_it_claims(tmp_path):
    both = [group(1), group(2, dtype="float16"), group(3, case="b")]
    queues = [judged_groups.Queue(100, judged_groups.Claims(tmp_path / "claims")) for _ in range(2)]
    for queue in queues:
        for each in both:
            queue.add(each)
    assert queues[0].take(2).memory == 1
    taken = queues[1].take(2)
    assert (taken.memory, taken.claimed) == (2, True)
    assert queues[0].take(3).memory == 3
    assert queues[1].take(3) is None
    assert queues[1].waiting == []
    for queue, what in zip(queues, ("1 group, 1 cell", "2 groups, 2 cells"), strict=True):
        assert queue.claim.told.startswith(f"{what}, left to another run: {tmp_path / 'claims'} has their names.")
    assert judged_groups.Claims(tmp_path).told is None
    queues[1].give_back(2)
    queues[1].add(taken)  # of a process that died
    assert queues[1].take(4).memory == 2
    assert (queues[0].room, queues[1].room) == (96, 98)


def test_processes_leave_room_for_groups():
    assert judging.room(10 * judged_groups.GIB, 4) == int(7.2 * judged_groups.GIB)
    with pytest.raises(HostError, match=r"16 processes leave nothing of 8\.0 GiB") as caught:
        judging.room(8 * judged_groups.GIB, 16)
    assert "--workers" in caught.value.remedy


def test_an_autotuner_calls_each_configuration_twice_and_times_the_second(monkeypatch):
    calls = []
    monkeypatch.setattr(judging.torch.cuda, "synchronize", lambda: None)
    times = judging.seconds_of_one_call(lambda: calls.append(time.sleep(0.2 if not calls else 0.01)), (0.5, 0.2, 0.8))
    assert len(calls) == 2
    assert len(times) == 3
    assert 0.01 <= times[0] == times[2] < 0.2


def test_a_process_keeps_to_its_kind_and_others_to_theirs():
    groups = [group(1), group(2), group(3, case="b"), group(4, dtype="float16"), group(5, case="b")]
    queue = queue_of(groups, 100)
    assert [queue.take(process).memory for process in (2, 3, 4)] == [1, 3, 4]
    queue.give_back(2)
    assert queue.take(2).memory == 2
    queue.give_back(4)
    assert queue.take(4).memory == 5  # of another's kind: nothing else is left
    assert queue.room == 100 - 3 - 2 - 5


def test_some_processes_take_the_large_ones_and_what_is_huge_waits_for_all_others():
    queue = queue_of([group(500), group(70), group(40), group(30), group(10), group(15)], 100)
    assert [queue.take(process).memory for process in (0, 1, 2, 3)] == [40, 30, 10, 15]
    assert queue.take(4) is None
    for process in (0, 2, 3):
        queue.give_back(process)
    assert queue.take(0).memory == 70
    queue.give_back(1)
    assert queue.take(1) is None
    queue.give_back(0)
    assert queue.take(4).memory == 100


def test_small_groups_leave_room_for_a_large_one():
    queue = queue_of([*(group(15) for _ in range(6)), group(65)], 100)
    assert [queue.take(process) is None for process in (2, 3, 4)] == [False, False, True]
    assert queue.take(0).memory == 65


def test_the_last_wait_for_all_others():
    queue = queue_of([group(1, last=True), group(9), group(20), group(40, last=True)], 100)
    assert [queue.take(process).memory for process in (0, 1, 2, 3)] == [20, 9, 1, 40]


def test_a_large_one_that_is_last_waits_for_small_and_huge_ones():
    queue = queue_of([group(40, last=True), group(8), group(9), group(90)], 100)
    assert [queue.take(process).memory for process in (0, 1)] == [8, 9]
    assert queue.take(2) is None  # the huge one is next, alone
    queue.give_back(0)
    queue.give_back(1)
    assert queue.take(0).memory == 90
    queue.give_back(0)
    assert queue.take(0).memory == 40


def test_what_a_group_needs(source):
    wanted = judged_groups.needs(source, cells((64, 8))[0])
    size = 64 * 8
    assert (wanted.inputs, wanted.outputs, wanted.chain, wanted.reference) == (4 * size, 8 * size, 4 * size, 16 * size)
    assert wanted.rows == 64
    large = replace(wanted, reference=100 * judged_groups.GIB, rows=10)
    assert large.shared_reference == 10 * judged_groups.GIB
    assert replace(large, rows=0).shared_reference == 100 * judged_groups.GIB
    assert large.memory > 10 * judged_groups.GIB
