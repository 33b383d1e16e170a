"""``scripts/compile_ahead.py``: what a run compiles, compiled before it on many cores."""

import os
from argparse import Namespace
from types import SimpleNamespace

import factories
import pytest
from script_modules import script_module

from portkit.errors import HostError
from portkit.model import CaseSource, Cell, Direction, Evidence, PlannedCell


@pytest.fixture(scope="module")
def script():
    return script_module("compile_ahead")


def cell(case="softmax", variant="w4", rows=4):
    return Cell(case, Direction.FORWARD, (rows, 1000), "float32", variant, "h200")


def prepared(*cells, evidence=Evidence.MEASURED, tier="full"):
    case = SimpleNamespace(source=CaseSource("case"), baselines=("torch",))
    planned = tuple(PlannedCell(each, evidence) for each in cells)
    return SimpleNamespace(
        plan=SimpleNamespace(cells=planned, tier=tier), declarations={"softmax": case, "other": case}
    )


def options(**given):
    return Namespace(**{"report": [], "kernel": [], "k": [], "own": False, "processes": 1, "seconds": 60.0, **given})


def test_variants_are_called_once_and_only_what_compiles(script):
    plan = prepared(cell(), cell(variant="w8"), cell(rows=8), cell("other"))
    found = [(task.baseline, task.cell) for task in script.tasks(plan, options(kernel=["softmax"]))]
    assert found == [(name, each) for each in (cell(), cell(rows=8)) for name in ("compile", "compile_max_autotune")]
    assert len(script.tasks(plan, options())) == 6
    assert [task.cell for task in script.tasks(plan, options(k=["-8x1000-", "other["]))] == [
        *[cell(rows=8)] * 2,
        *[cell("other")] * 2,
    ]
    assert {task.baseline for task in script.tasks(prepared(cell(), tier="quick"), options())} == {"compile"}


def test_cells_that_a_report_has_are_left_out(script, monkeypatch):
    done = factories.record(Evidence.MEASURED)
    monkeypatch.setattr(script, "read_report", lambda path: SimpleNamespace(records=[done]))
    monkeypatch.setattr(script, "reports", list)
    plan = prepared(done.cell, cell(), cell(variant="w8"))
    plan.declarations[done.cell.case] = plan.declarations["other"]
    assert [task.cell for task in script.tasks(plan, options(report=["report"]))] == [cell(), cell()]


def test_work_is_spread_until_the_time_is_over(script, capfd):
    assert script.spread(counted, [1, 2, 3], options(processes=2)) == 3
    assert sorted(line.split()[-1] for line in capfd.readouterr().out.splitlines()) == ["1", "2", "3"]
    assert script.spread(asleep, [60.0], options(seconds=0.2)) == 0


def counted(number):
    return str(number), 0.0


def asleep(seconds):
    script_module("compile_ahead").time.sleep(seconds)
    return "", seconds


def test_choices_made_meanwhile_are_thrown_away_and_others_stay(script, tmp_path):
    before, ours, kernel = (tmp_path / "ab" / name for name in ("a.best_config", "b.best_config", "b.py"))
    (tmp_path / "ab").mkdir()
    for path in (before, ours, kernel):
        path.write_text("{}")
    os.utime(before, (1.0, 1.0))
    assert script.forget_choices(tmp_path, 2.0) == 1
    assert sorted(tmp_path.rglob("*.*")) == [before, kernel]


def test_without_a_gpu_there_is_nothing_to_call(script):
    with pytest.raises(HostError, match="no measured cell"):
        script.call_ahead(prepared(cell(), evidence=Evidence.COMPILED), options())
