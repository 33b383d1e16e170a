"""The gate's promise over recorded and simulated noise, as scripts/simulate_gate.py measures it."""

from __future__ import annotations

import numpy as np
import pytest
from script_modules import script_module


@pytest.fixture(scope="module")
def script():
    return script_module("simulate_gate")


@pytest.mark.parametrize("name", ["recorded", "simulated, trace", "simulated, events"])
def test_few_false_alarms_and_few_missed_slowdowns(script, name):
    random = np.random.default_rng(7)
    every = script.scenarios(script.report_of(script.KEPT), 1000, random)
    (scenario,) = [each for each in every if each.name == name]
    found = script.simulate(scenario, random)
    assert found.alarms <= 0.001
    assert found.warned >= 0.95
    assert found.failed >= 0.95


@pytest.mark.slow
def test_all_scenarios_of_the_script(script):
    random = np.random.default_rng(0)
    found = [script.simulate(each, random) for each in script.scenarios(script.report_of(script.KEPT), 4000, random)]
    assert [each.scenario.name for each in found if not each.meets_goals] == []


def test_recorded_noise_is_that_of_the_kept_report(script):
    sources = script.recorded(script.report_of(script.KEPT))
    assert len(sources) == 2 * 18  # functions of four cells, on two clocks
    offsets = script.offsets_of(script.KEPT / "compare_runs.txt")
    assert len(offsets) == 36
    assert 0.005 < abs(offsets).max() < 0.01  # 34 of 34 medians within 1 %, as the report's text says
    drawn = sources[0].draw(np.random.default_rng(0))
    assert np.median(drawn) == pytest.approx(sources[0].milliseconds, rel=0.03)


def test_a_gate_that_sees_nothing_would_not_pass(script):
    """The test of the test: slower cells are slower in what the simulation draws."""
    random = np.random.default_rng(3)
    (cell, *_) = script.recorded(script.report_of(script.KEPT))
    scenario = script.Scenario("one", [cell])
    times = script.times(scenario, cell, random, 1.10)
    ratio = times.current["board"][0].log_ms - times.baseline["board"][0].log_ms
    assert np.exp(ratio) == pytest.approx(1.10, rel=0.03)
