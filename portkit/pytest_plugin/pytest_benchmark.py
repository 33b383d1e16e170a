"""Hands device times to pytest-benchmark, where it is installed and switched on.

Its ``benchmark`` fixture times what a test calls, by a timer that a marker may name. For a
measured cell that has a time, the timer reads out the recorded samples of the fused function
on device events, in seconds, one a round, and what is called does nothing. So its statistics,
tables and files are those of the device, and ``--benchmark-json``, ``-save``, ``-autosave``,
``-compare`` and ``-compare-fail`` work as for any test.

A cell without a time does not ask for the fixture, and so is not in its statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from _pytest.fixtures import TopRequest

from portkit.model import Clock, Record, Timed
from portkit.run.timing.samples import EVENTS, FUSED, Samples
from portkit.store.journal import read_blob

_PLUGIN = "benchmark"  # the name it registers under: ``-p no:benchmark`` leaves it out
_FIXTURE = "benchmark"
_DISABLED = pytest.StashKey[bool]()


def is_loaded(config: pytest.Config) -> bool:
    """Whether pytest-benchmark is there, and no other plugin under its name."""
    plugin = config.pluginmanager.get_plugin(_PLUGIN)
    return getattr(plugin, "__name__", "").startswith("pytest_benchmark.")


def adopt(item: Any) -> None:
    """Give an item that is no function what fixtures need, as pytest does for doctests.

    Args:
        item: its ``fixturenames`` are what ``--benchmark-only`` and ``--benchmark-skip`` go by.
    """
    item._fixtureinfo = item.session._fixturemanager.getfixtureinfo(node=item, func=None, cls=None)
    item.fixturenames = [_FIXTURE]
    item.funcargs = {}


def replay(item: Any, record: Record, report: Path) -> None:
    """Let the fixture time a cell by its recorded samples.

    Args:
        item: adopted.
        record: of the cell; one without a time changes nothing.
        report: that the record is in.

    Raises:
        ReportError: the report's side folder lacks the samples.
    """
    if record.timing is None or record.timing.samples_ref is None:
        return
    samples = Samples.from_json(read_blob(report, record.timing.samples_ref))
    seconds = [ms / 1e3 for ms in samples.milliseconds[EVENTS][FUSED]]
    item.add_marker(pytest.mark.benchmark(timer=_timer(seconds), group=record.cell.case, cprofile=False))
    fixture = TopRequest(item, _ispytest=True).getfixturevalue(_FIXTURE)
    item.config.stash[_DISABLED] = fixture.disabled
    fixture.extra_info.update(_extra_info(record))
    fixture.pedantic(_nothing, rounds=len(seconds), iterations=1)


def note(config: pytest.Config) -> str | None:
    """What the end of the run should say of it."""
    if not config.stash.get(_DISABLED, False):
        return None
    return "pytest-benchmark is disabled (--benchmark-disable): it got no device times"


def _timer(seconds: Sequence[float]) -> Callable[[], float]:
    """A clock that is read twice a round, at 0 and at the round's sample."""
    readings = iter([reading for sample in seconds for reading in (0.0, sample)])

    def device_events() -> float:  # its name is in pytest-benchmark's files
        return next(readings)

    return device_events


def _nothing() -> None:
    pass


def _extra_info(record: Record) -> dict[str, Any]:
    """What stands beside the statistics: both clocks, in ms, and what they were taken against."""
    timing = record.timing
    assert timing is not None
    return {
        "unit": "ms",
        "target": record.cell.target,
        "evidence": record.evidence.value,
        "run_id": record.run_id,
        "cell_key": record.keys.cell_key,
        "fused": _clocks(timing.fused),
        "baselines": {name: _clocks(timed) for name, timed in timing.baselines.items()},
        "speedup": {name: asdict(ratio) for name, ratio in timing.speedup.items()},
        "speedup_kernel": {name: asdict(ratio) for name, ratio in timing.speedup_kernel.items()},
    }


def _clocks(timed: Timed) -> dict[str, Any]:
    """Clock or mode → median with its 95 % interval, of those that were taken."""
    taken = {name: getattr(timed, name) for name in ("events", "trace", "warm", "graph")}
    return {name: _median(clock) for name, clock in taken.items() if clock}


def _median(clock: Clock) -> dict[str, float]:
    return {"median": clock.median_ms, "low": clock.low_ms, "high": clock.high_ms}
