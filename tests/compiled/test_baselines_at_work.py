"""A baseline that ends its process costs only itself: played by processes without a GPU."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from dataclasses import replace

import pytest

from portkit.model import (
    Baseline,
    CaseSource,
    Cell,
    CellResult,
    Device,
    Direction,
    Evidence,
    Outcome,
    PlannedCell,
    Stage,
    Status,
)
from portkit.run.jobs import AllDone, DeviceAnswers, Entered, Finished, GivenUp, Limits, Request, Started, Trying
from portkit.run.session import chains_for
from portkit.run.supervisor import Supervisor
from portkit.targets.catalog import load_catalog

H200 = Device(0, "NVIDIA H200", "h200", "sm_90", 1, 132, "d0")
CELLS = [Cell("one", Direction.FORWARD, (n,), "float32", "w8", "h200") for n in (1, 2, 3)]
NAMES = ("eager", "first", "second", "third")
FAULT = Baseline(Status.BASELINE_FAILED, "RuntimeError: CUDA error: an illegal memory access was encountered")


def playing(ends):
    """A worker whose baselines end as ``ends`` says: (first axis of the cell, name) → how."""

    def work(job, connection):
        connection.send(DeviceAnswers())
        for cell in job.cells:
            connection.send(Started(job.evidence, cell))
            found = dict(job.given_up.get(cell, {}))
            for name in job.baselines:
                if name in found:
                    continue
                connection.send(Trying(name))
                match ends.get((cell.shape[0], name)):
                    case "exits":
                        os._exit(3)
                    case "hangs":
                        time.sleep(60)
                    case "faults":
                        connection.send(GivenUp(name, FAULT))
                        return
                found[name] = Baseline(Status.PASSED)
                connection.send(Entered(Stage.VERIFY))
            connection.send(Entered(Stage.TIMING))
            if ends.get((cell.shape[0], "timing")):
                os._exit(3)
            connection.send(Finished(CellResult(cell, job.evidence, Outcome(Status.PASSED), baselines=found)))

    return work


def run(ends, **limits):
    planned = [PlannedCell(cell, Evidence.MEASURED) for cell in CELLS]
    target = load_catalog().get("h200")
    chains = chains_for(planned, {"one": CaseSource("one")}, {"h200": target}, [H200], baselines={"one": NAMES})
    ours, theirs = multiprocessing.Pipe()
    said = []

    def listen():
        while not isinstance(message := ours.recv(), AllDone):
            said.append(message)

    thread = threading.Thread(target=listen)
    thread.start()
    Supervisor(theirs, Request(chains, replace(Limits(1), **limits)), playing(ends)).run()
    thread.join(timeout=10)
    ours.close()
    finished = [each.result for each in said if isinstance(each, Finished)]
    assert [each.cell for each in finished] == CELLS  # each once
    return finished


def statuses(result):
    return {name: each.status.value for name, each in result.baselines.items() if each.status is not Status.PASSED}


@pytest.mark.parametrize(
    ("how", "message"),
    [("exits", "exit 3"), ("faults", FAULT.message), ("hangs", "stage baseline took more than its limit of 0.5 s")],
)
def test_it_is_left_out_when_the_cell_runs_again(how, message):
    found = run({(2, "second"): how}, stage_seconds={Stage.BASELINE: 0.5})
    assert [each.outcome.status for each in found] == [Status.PASSED] * 3
    assert [statuses(each) for each in found] == [{}, {"second": "baseline_failed"}, {}]
    assert message in found[1].baselines["second"].message


def test_each_of_several_costs_only_itself():
    found = run({(1, "first"): "exits", (1, "third"): "faults", (3, "third"): "exits"})
    assert [each.outcome.status for each in found] == [Status.PASSED] * 3
    failed = "baseline_failed"
    assert [statuses(each) for each in found] == [{"first": failed, "third": failed}, {}, {"third": failed}]


def test_a_death_while_it_is_timed_is_the_cells():
    found = run({(2, "timing"): "exits"})
    assert [each.outcome.status for each in found] == [Status.PASSED, Status.WORKER_LOST, Status.PASSED]
    assert (found[1].outcome.stage, found[1].baselines) == (Stage.TIMING, {})
