"""A run whose cells come from a session of the test's own: what is written of them, and how it ends."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from factories import cell, host, launch, record, result

from portkit.errors import CaseError, HostError, ReportError, WorkerError
from portkit.model import (
    Build,
    CaseDeclaration,
    CaseSource,
    Direction,
    Evidence,
    Matrix,
    Outcome,
    Plan,
    PlannedCell,
    Status,
    Work,
)
from portkit.plan.cases import Introspection
from portkit.pytest_plugin.matrix import CellFailedError, _conclude
from portkit.run.benchmark import Choices, Prepared, Run, default_limits
from portkit.run.interrupt import Interruptions
from portkit.run.limits import check_seconds
from portkit.store.journal import read_report
from portkit.targets.catalog import load_catalog

CELLS = [cell(variant=name) for name in ("w4", "w8", "w16")]


class Answering:
    """A session that has the results already; an exception among them is raised."""

    def __init__(self, *results):
        self.given = results

    def results(self, chains, watch=None, probes=(), measuring=lambda: None):
        for each in self.given:
            if isinstance(each, Exception):
                raise each
            yield each

    def close(self):
        pass


@pytest.fixture
def start(tmp_path):
    """Begins a run of the three cells with given results."""

    def begin(*results, failures=None):
        path = tmp_path / "matrix.yaml"
        path.write_text("version: 1\n")
        variants = {each.variant: {} for each in CELLS}
        source = CaseSource("softmax", path=str(tmp_path / "softmax.py"))
        declared = CaseDeclaration(source, (), (), (), variants, (Direction.FORWARD,), "0" * 16)
        planned = [PlannedCell(each, Evidence.COMPILED) for each in CELLS]
        prepared = Prepared(
            Matrix(str(path), (), ("h200",), {}, (), ()),
            Plan(tuple(planned), "quick", "0" * 16),
            Introspection(host(), {"softmax": declared}, failures or {}),
            {"h200": load_catalog().get("h200")},
        )
        return Run(prepared, planned, Answering(*results), Choices(tmp_path / "reports"), Interruptions()), planned

    return begin


def written(run):
    return {each.cell.variant: each for each in read_report(run.journal.path).records}


def built():
    return [result(cell=each, build=Build((launch(),), "b" * 16)) for each in CELLS]


def test_one_that_has_all_its_cells_is_complete(start):
    run, planned = start(*built())
    for each in planned:
        assert run.record_of(each).outcome == Outcome(Status.BUILT)
    run.finish("complete" if run.whole else "interrupted")
    report = read_report(run.journal.path)
    assert (report.partial, report.end.exit) == (None, "complete")


def test_one_that_is_cut_short_says_so(start):
    run, planned = start(*built())
    run.record_of(planned[0])
    run.finish("interrupted")
    report = read_report(run.journal.path)
    assert (report.end.exit, report.partial) == ("interrupted", "the run was interrupted; 1 of 3 planned cells kept")


def test_a_record_that_can_not_be_encoded_is_replaced_by_one_that_says_so(start):
    first, second, third = built()
    odd = dataclasses.replace(second, work=Work(1.5, 2, 3))  # not whole, as no reader would take it
    run, planned = start(first, odd, third)
    assert run.record_of(planned[1]).outcome.status is Status.CAPTURE_FAILED
    run.record_of(planned[2])
    assert (run.failure, run.whole) == (None, True)
    assert [each.outcome.status.value for each in written(run).values()] == ["built", "capture_failed", "built"]
    assert written(run)["w8"].outcome.message.startswith("its record can't be written: Input should be a valid integer")
    assert written(run)["w8"].outcome.message.endswith("; it was built")


def test_names_that_no_line_can_hold_cost_their_own_cell(start, monkeypatch):
    monkeypatch.setitem(globals(), "CELLS", [cell(variant=name) for name in ("w4", "w" * 9000, "w16")])
    run, planned = start(*built())
    assert run.record_of(planned[2]).outcome == Outcome(Status.BUILT)
    with pytest.raises(ReportError, match="names alone take"):
        run.record_of(planned[1])
    assert (run.failure, run.whole, list(written(run))) == (None, False, ["w4", "w16"])


def test_after_a_fault_of_ours_nothing_is_said_of_the_cells_that_are_left(start):
    run, planned = start(built()[0], ZeroDivisionError("a bug"))
    assert run.record_of(planned[0]).outcome == Outcome(Status.BUILT)
    with pytest.raises(ZeroDivisionError):
        run.record_of(planned[1])
    with pytest.raises(WorkerError, match="the run broke off: ZeroDivisionError: a bug"):
        run.record_of(planned[2])
    run.finish("interrupted")
    report = read_report(run.journal.path)
    assert (report.end, list(written(run))) == (None, ["w4"])


def test_a_disk_that_refuses_ends_the_run(start, monkeypatch):
    run, planned = start(*built())
    run.record_of(planned[0])
    monkeypatch.setattr("os.fsync", lambda file: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    for each in planned[1:]:
        with pytest.raises(ReportError, match="No space left"):
            run.record_of(each)
    run.finish("interrupted")
    assert list(written(run)) == ["w4"]


def test_kernels_that_can_not_be_used_stand_in_the_header_without_a_users_path(start):
    place = f"{Path.home()}/project/kernels/broken.py:3"
    run, _ = start(failures={"broken": CaseError("import failed", place=place, remedy="mend it")})
    run.finish("interrupted")
    header = read_report(run.journal.path).header
    assert header.failures == {"broken": "kernels/broken.py:3: import failed"}


def test_a_bad_status_other_than_the_expected_one_is_a_failure():
    expected = dataclasses.replace(record(), expected=Status.COMPILE_ERROR, expected_reason="no such instruction")
    for status in set(Status) - {Status.COMPILE_ERROR, Status.EXCLUDED, Status.BACKEND_MISSING}:
        with pytest.raises(CellFailedError, match=f"expected compile_error .no such instruction., got {status.value}"):
            _conclude(dataclasses.replace(expected, outcome=Outcome(status)))
    with pytest.raises(pytest.skip.Exception, match="backend_missing"):
        _conclude(dataclasses.replace(expected, outcome=Outcome(Status.BACKEND_MISSING)))
    with pytest.raises(pytest.xfail.Exception, match="no such instruction"):
        _conclude(dataclasses.replace(expected, outcome=Outcome(Status.COMPILE_ERROR)))
    for status in set(Status) - {Status.BUILT, Status.PASSED, Status.EXCLUDED, Status.BACKEND_MISSING}:
        with pytest.raises(CellFailedError, match=status.value):
            _conclude(dataclasses.replace(record(), outcome=Outcome(status)))


@pytest.mark.parametrize("value", [0.0, -5.0, float("nan"), float("inf")])
def test_a_time_is_above_zero_and_has_an_end(value):
    with pytest.raises(HostError, match=r"--portkit-cell-seconds: not a time in seconds: .*\n.*write one such as 60"):
        default_limits(value)
    if value:
        with pytest.raises(HostError, match="--portkit-wait"):
            check_seconds(value, "--portkit-wait", zero=True)
    else:
        assert check_seconds(value, "--portkit-wait", zero=True) == 0
