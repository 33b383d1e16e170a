"""A device whose SKU and architecture are in no catalogue: played by giving the device here another name."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from portkit.model import CaseSource, Cell, CellResult, DeviceProbe, Direction, Evidence, PlannedCell, Status
from portkit.plan.cases import introspect
from portkit.run.jobs import Limits
from portkit.run.probes import probe_job
from portkit.run.session import Session, chains_for
from portkit.targets.catalog import load_catalog

ROOT = Path(__file__).parents[2]
WHY = "no source that portkit has gives the limits of "


@pytest.mark.parametrize(("name", "known"), [("Z100", False), ("NVIDIA Prototype", True)])
def test_it_is_judged_timed_and_measured_all_the_same(name, known):
    here = introspect([], []).host.devices[0]
    strange = here.architecture if known else ("sm_150" if here.architecture.startswith("sm_") else "gfx1999")
    target = load_catalog().match_device(
        name=name, architecture=strange, units=here.units, memory_bytes=here.memory_bytes
    )
    source = CaseSource("softmax", path=str(ROOT / "kernels/softmax.py"))
    cell = Cell("softmax", Direction.FORWARD, (64, 4096), "float32", "w8", target.name)
    planned = [PlannedCell(cell, Evidence.MEASURED)]
    session = Session(Limits(workers=1))
    chains = chains_for(planned, {"softmax": source}, {target.name: target}, [_named(here, target.name)])
    found = list(session.results(chains, probes=[probe_job(_named(here, target.name), target)]))
    session.close()
    probe = next(each for each in found if isinstance(each, DeviceProbe))
    result = next(each for each in found if isinstance(each, CellResult))
    assert (probe.target, probe.copy_gbs is not None, probe.nulls.get("copy_gbs")) == (target.name, True, None)
    assert result.outcome.status is Status.PASSED, result.outcome
    assert result.device == here.device_id
    assert result.timing.fused.events.median_ms > 0
    assert (result.build is not None) == known
    assert result.nulls.get("build") == (None if known else f"{WHY}{target.architecture.name}")


def _named(device, target):
    return dataclasses.replace(device, target=target)
