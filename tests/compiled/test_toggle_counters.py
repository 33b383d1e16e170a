"""Bytes by hardware counters in portkit toggle: what becomes of a profiler's table, or of none."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from portkit.analysis.toggle import MEMORY, spent
from portkit.errors import HostError
from portkit.model import Clock
from portkit.plan.toggle import Subject, ToggleRequest
from portkit.run.counters import Kernel, Table
from portkit.run.counters.ncu import Ncu
from portkit.run.counters.ncu_metrics import Metrics
from portkit.run.toggle import counters
from portkit.run.toggle.counters import CountedWay, count_ways
from portkit.run.toggle.profiled import FAILED, FAILED_FILE, ORDERS, ORDERS_FILE
from portkit.store.toggled import Roofs, Toggled, Way
from portkit.targets.catalog import load_catalog

H200 = load_catalog().get("h200")


def subject(name):
    return Subject(name, "m.py:build", "m.py", None, name)


REQUEST = ToggleRequest(subject("eager"), (subject("liger"),), ("f32[2]",), ("default",), "cuda", 1.0, counters=True)


@dataclass(frozen=True)
class Played(Ncu):
    """ncu that runs nothing: it notes its orders and has a table for the model."""

    def command(self, program, folder, number=0):
        orders = ORDERS.validate_json((Path(folder) / ORDERS_FILE).read_bytes())
        if orders.modes:
            (Path(folder) / FAILED_FILE).write_bytes(FAILED.dump_json({"compile default": "no compiler"}))
        return ["true"]

    def read(self, folder, number=0):
        orders = ORDERS.validate_json((Path(folder) / ORDERS_FILE).read_bytes())
        if not orders.modes:
            return None
        read, write = self.metrics.dram.read, self.metrics.dram.write
        row = {read: 300.0, write: 100.0, "gpu__time_duration.sum": 5.0}
        return Table(
            (Kernel("0.0.0", "a", row, {}), Kernel("0.0.0", "b", row, {}), Kernel("", "c", row, {})), whole=True
        )


def test_bytes_of_the_calls_own_kernels_and_why_others_have_none(monkeypatch):
    monkeypatch.setattr(counters, "open_profiler", lambda target: Played("ncu", "2025.3", Metrics.of("sm_90")))
    stages = []
    found = count_ways(REQUEST, H200, stages.append)
    assert found["eager"] == CountedWay(2, 800)
    assert found["compile default"] == CountedWay(why="no compiler")
    assert found["liger"].why == "the profiler saw no kernel of it"
    assert stages[0] == "counting bytes under ncu 2025.3: eager, compile default"


def test_without_a_profiler_every_way_says_so(monkeypatch):
    def refuse(target):
        raise HostError("Nsight Compute (ncu) is not installed")

    monkeypatch.setattr(counters, "open_profiler", refuse)
    found = count_ways(REQUEST, H200, lambda text: None)
    assert {each.why for each in found.values()} == {"Nsight Compute (ncu) is not installed"}
    assert set(found) == {"eager", "compile default", "liger"}


def test_a_variants_bound_comes_from_counted_bytes():
    way = Way("liger", wall=Clock(1.0, 0.9, 1.1, 20), kernel_ms=0.8, launches=4)
    found = Toggled(
        "m", (), "a GPU", True, "2.13", "float32", (way,), (), 10, 20, True, roofs=Roofs(4000.0, 100.0, "f32")
    )
    assert spent(way, found).bound is None
    counted = replace(way, dram_bytes=2_000_000_000)
    judged = spent(counted, found)
    assert judged.bound == MEMORY
    assert judged.attained == pytest.approx(0.5 / 0.8)
