"""Launches of autotuned kernels and gradients, as a device shows them and as capture says without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from portkit.model import CaseSource, Cell, Direction, Evidence, PlannedCell, Status
from portkit.run.jobs import Limits
from portkit.run.session import Session, chains_for

CASE = CaseSource("doubled", path=str(Path(__file__).parent / "cases" / "tuned.py"))


@pytest.fixture(scope="module")
def results():
    import torch

    from portkit.targets.catalog import load_catalog

    if torch.version.hip:
        pytest.skip("the catalogue's target of this device is not looked up here")
    target = load_catalog().get("sm_{}{}".format(*torch.cuda.get_device_capability()))
    cells = [Cell("doubled", way, (100000,), "float32", "autotune", target.name) for way in Direction]
    session = Session(Limits(workers=1))
    chains = [
        chains_for([PlannedCell(cell, evidence) for cell in cells], {"doubled": CASE}, {target.name: target})
        for evidence in (Evidence.MEASURED, Evidence.COMPILED)
    ]
    found = {(r.evidence, r.cell.direction): r for r in session.results([*chains[0], *chains[1]])}
    session.close()
    return found


@pytest.mark.parametrize("direction", Direction)
def test_trials_are_marked_and_the_choice_counts(results, direction):
    measured, compiled = results[Evidence.MEASURED, direction], results[Evidence.COMPILED, direction]
    assert measured.outcome.status is Status.PASSED, measured.outcome.message
    assert measured.build.tuning is None  # the choice is known
    (chosen,) = measured.build.counted
    trials = [x for x in compiled.build.launches if x.trial and not x.forward]
    assert len(trials) == 3
    assert chosen.binary_hash in {x.binary_hash for x in trials}
    low, high = compiled.build.tuning.ranges["registers_per_thread"]
    assert low <= measured.build.registers_per_thread <= high


def test_the_first_call_tries_each_configuration_once_in_the_record(results):
    launches = results[Evidence.MEASURED, Direction.FORWARD].build.launches
    assert sorted(x.grid[0] for x in launches if x.trial) == sorted([391, 98, 25])


def test_a_backward_cell_marks_its_forward_pass(results):
    launches = results[Evidence.MEASURED, Direction.BACKWARD].build.launches
    assert [x.forward for x in launches if not x.trial] == [True, False]
