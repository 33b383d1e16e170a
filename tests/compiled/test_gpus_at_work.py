"""Several GPUs of a host, played by processes that keep a diary."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import threading
import time
from dataclasses import fields, replace
from pathlib import Path

import pytest

from portkit.model import CaseSource, Cell, CellResult, Device, Direction, Evidence, Outcome, PlannedCell, Stage, Status
from portkit.run import supervisor
from portkit.run.jobs import (
    AllDone,
    DeviceAnswers,
    DeviceRefuses,
    Finished,
    Limits,
    Probed,
    Request,
    Started,
    Unusable,
)
from portkit.run.probes import FIGURES, probe_job, unprobed
from portkit.run.session import chains_for
from portkit.run.supervisor import Supervisor
from portkit.targets.catalog import load_catalog

H200S = [Device(index, "NVIDIA H200", "h200", "sm_90", 1, 132, f"d{index}") for index in (0, 1)]
PCIE = Device(2, "NVIDIA H100 PCIe", "h100pcie", "sm_90", 1, 114, "d2")
CATALOG = load_catalog()


def chains(devices, cells=24, cases=("one", "two")):
    targets = {device.target: CATALOG.get(device.target) for device in devices}
    planned = [
        PlannedCell(Cell(case, Direction.FORWARD, (n,), "float32", "w8", target), Evidence.MEASURED)
        for case, n, target in itertools.product(cases, range(1, cells + 1), targets)
    ]
    return chains_for(planned, {case: CaseSource(case) for case in cases}, targets, devices)


def run(work, asked, *, probes=(), workers=4):
    """All messages of a supervisor but those of cells that begin."""
    ours, theirs = multiprocessing.Pipe()
    said = []

    def listen():
        while not isinstance(message := ours.recv(), AllDone):
            said.append(message)

    thread = threading.Thread(target=listen)
    thread.start()
    Supervisor(theirs, Request(asked, Limits(workers), tuple(probes)), work).run()
    thread.join(timeout=10)
    ours.close()
    return [each for each in said if not isinstance(each, Started)]


def diary_keeper(path, lost=frozenset(), dies=frozenset()):
    """A worker that writes when it was on which GPU; some GPUs never answer, some go when they meet a cell."""

    def note(device, start):
        with Path(path).open("a") as diary:
            diary.write(json.dumps([device.device_id, start, time.monotonic()]) + "\n")

    def work(job, connection):
        start = time.monotonic()
        if job.device.device_id in lost or Path(f"{path}.{job.device.device_id}").exists():
            note(job.device, start)
            connection.send(DeviceRefuses("GPU is lost"))
            return
        connection.send(DeviceAnswers())
        if job.probe:
            time.sleep(0.05)
            note(job.device, start)
            connection.send(Probed(unprobed(job.device, job.target, "played")))
            return
        for cell in job.cells:
            connection.send(Started(job.evidence, cell))
            start = time.monotonic()
            time.sleep(0.01)
            note(job.device, start)
            ends = job.device.device_id in dies
            outcome = Outcome(Status.DEVICE_FAULT if ends else Status.PASSED)
            connection.send(Finished(CellResult(cell, job.evidence, outcome, device=job.device.device_id)))
            if ends:
                Path(f"{path}.{job.device.device_id}").touch()
                connection.send(Unusable())
                return

    return work


def read_diary(path):
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    return {device: sorted((s, e) for d, s, e in lines if d == device) for device in {d for d, _, _ in lines}}


def results(said):
    return [each.result for each in said if isinstance(each, Finished)]


def check_no_overlap(diary):
    for times in diary.values():
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(times))


def overlap(one, other):
    """Whether two GPUs were ever at work at once."""
    return any(a < d and c < b for a, b in one for c, d in other)


def test_both_gpus_work_at_once_and_none_has_two_cells(tmp_path):
    path = tmp_path / "diary"
    found = results(run(diary_keeper(path), chains(H200S)))
    diary = read_diary(path)
    assert sorted(diary) == ["d0", "d1"]
    check_no_overlap(diary)
    assert overlap(diary["d0"], diary["d1"])
    assert len(found) == len({each.cell for each in found}) == 48
    for device in ("d0", "d1"):
        assert sum(each.device == device for each in found) == len(diary[device]) >= 8


def test_two_skus_are_two_targets_at_the_same_time(tmp_path):
    path = tmp_path / "diary"
    found = results(run(diary_keeper(path), chains([H200S[0], PCIE], cells=6)))
    diary = read_diary(path)
    check_no_overlap(diary)
    assert overlap(diary["d0"], diary["d2"])
    assert {(each.cell.target, each.device) for each in found} == {("h200", "d0"), ("h100pcie", "d2")}


def vars_of(value):
    return [getattr(value, each.name) for each in fields(value)]


def test_each_gpu_is_probed_once_before_its_cells(tmp_path):
    path = tmp_path / "diary"
    probes = [probe_job(device, CATALOG.get("h200")) for device in H200S]
    said = run(diary_keeper(path), chains(H200S, cells=4), probes=probes)
    first = [each for each in said if isinstance(each, Probed)]
    assert sorted(each.probe.device_id for each in first) == ["d0", "d1"]
    for device in ("d0", "d1"):
        mine = [x for x in said if device in vars_of(getattr(x, "result", None) or x.probe)]
        assert isinstance(mine[0], Probed)
    check_no_overlap(read_diary(path))


def test_a_gpu_that_never_answers_costs_two_processes_and_its_sister_does_its_work(tmp_path):
    path = tmp_path / "diary"
    said = run(diary_keeper(path, lost={"d0"}), chains(H200S), probes=[probe_job(H200S[0], CATALOG.get("h200"))])
    assert {(each.device, each.outcome.status) for each in results(said)} == {("d1", Status.PASSED)}
    assert len(results(said)) == 48
    assert len(read_diary(path)["d0"]) == 2
    (probed,) = [each.probe for each in said if isinstance(each, Probed)]
    assert probed.nulls == dict.fromkeys(FIGURES, "GPU 0, NVIDIA H200, no longer answers: GPU is lost")


def test_a_gpu_that_goes_while_it_works_ends_its_cells_quickly_and_others_go_on(tmp_path):
    path = tmp_path / "diary"
    begin = time.monotonic()
    found = results(run(diary_keeper(path, dies={"d0"}), chains([H200S[0], PCIE], cells=100)))
    assert time.monotonic() - begin < 30
    mine = [each for each in found if each.cell.target == "h200"]
    assert [each.outcome.status for each in mine] == [Status.DEVICE_FAULT] + [Status.WORKER_LOST] * 199
    assert {each.outcome.message for each in mine[1:]} == {"GPU 0, NVIDIA H200, no longer answers: GPU is lost"}
    assert len(read_diary(path)["d0"]) == 3  # the cell, and two processes without an answer
    others = [each for each in found if each.cell.target == "h100pcie"]
    assert [each.outcome.status for each in others] == [Status.PASSED] * 200


def test_a_process_that_dies_before_its_gpu_answers_costs_no_cell(tmp_path):
    def work(job, connection):
        if not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os._exit(7)
        diary_keeper(tmp_path / "diary")(job, connection)

    found = results(run(work, chains(H200S[:1], cells=3)))
    assert [each.outcome.status for each in found] == [Status.PASSED] * 6


def test_a_gpu_that_hangs_a_new_process_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "DEVICE_SECONDS", 0.3)
    found = results(run(lambda job, connection: time.sleep(60), chains(H200S[:1], cells=3)))
    assert {each.outcome.status for each in found} == {Status.WORKER_LOST}
    assert found[0].outcome.message == (
        "GPU 0, NVIDIA H200, no longer answers: no answer to a new process within 0.3 s"
    )


def test_a_probe_that_ends_its_process_is_a_null_with_the_reason():
    def work(job, connection):
        connection.send(DeviceAnswers())
        os._exit(9)

    (said,) = run(work, (), probes=[probe_job(H200S[0], CATALOG.get("h200"))])
    assert said.probe.nulls["copy_gbs"] == "the process that measured it ended: exit 9"


@pytest.mark.parametrize("workers", [1, 2])
def test_no_more_processes_than_asked_for(tmp_path, workers):
    path = tmp_path / "diary"
    run(diary_keeper(path), chains(H200S, cells=8), workers=workers)
    diary = read_diary(path)
    check_no_overlap({"all": sorted(time for times in diary.values() for time in times)} if workers == 1 else diary)


def test_builds_for_an_architecture_without_limits_are_not_judged():
    target = CATALOG.match_device(name="NVIDIA Z100", architecture="sm_150", units=200, memory_bytes=None)
    source = CaseSource("chain", path=str(Path(__file__).parent / "cases" / "launches.py"))
    cell = Cell("chain", Direction.FORWARD, (8,), "float32", "default", target.name)
    asked = chains_for([PlannedCell(cell, Evidence.COMPILED)], {"chain": source}, {target.name: target})
    (result,) = results(run(supervisor.work, asked))
    assert result.outcome == Outcome(
        Status.BACKEND_MISSING,
        Stage.LIMITS,
        "no source that portkit has gives the limits of sm_150, so a build can't be judged",
    )


def test_a_real_worker_tells_that_there_is_no_such_gpu(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
    nowhere = replace(H200S[0], index=977)
    found = results(run(supervisor.work, chains([nowhere], cells=3)))
    assert [each.outcome.status for each in found] == [Status.WORKER_LOST] * 6
    assert found[0].outcome.message.startswith("GPU 977, NVIDIA H200, no longer answers: ")
