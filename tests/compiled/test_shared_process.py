"""Cells of several cases in one process that measures, and builds ahead of it."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from portkit.errors import CaseError
from portkit.model import CaseSource, Cell, CellResult, Device, Direction, Evidence, Outcome, PlannedCell, Stage, Status
from portkit.run import ahead
from portkit.run.jobs import DeviceAnswers, Finished, Limits, Request, Started
from portkit.run.measured_cases import MeasuredCases
from portkit.run.session import chains_for
from portkit.run.supervisor import Supervisor
from portkit.targets.catalog import load_catalog

H200 = Device(0, "NVIDIA H200", "h200", "sm_90", 1, 132, "d0")
TARGETS = {"h200": load_catalog().get("h200")}
KERNELS = Path(__file__).parents[2] / "kernels"
CASE = """
import torch
from portkit import KernelCase

torch.set_default_dtype(torch.{dtype})
case = KernelCase(
    name="{name}",
    fused=print,
    reference=print,
    inputs=print,
    work=print,
    shapes=((4,),),
    small_shapes=((4,),),
    dtypes=("float32",),
    variants={{"w8": {{}}}},
)
"""


def cell(case, size=8):
    return Cell(case, Direction.FORWARD, (size,), "float32", "w8", "h200")


def job_of(sources, sizes=(8,), baselines=None):
    """The one measured job of these cases."""
    planned = [PlannedCell(cell(name, size), Evidence.MEASURED) for name in sources for size in sizes]
    chains = chains_for(planned, sources, TARGETS, [H200], baselines=baselines)
    assert len(chains) == 1
    (job,) = chains[0]
    return job


def test_cases_of_a_folder_share_a_process_and_keep_their_own_baselines():
    sources = {name: CaseSource(name, path=f"/k/{name}.py") for name in ("one", "two")}
    wanted = {"one": ("eager",), "two": ("eager", "torch")}
    job = job_of(sources, (8, 16), wanted)
    assert [each.case for each in job.cells] == ["one", "one", "two", "two"]
    assert [(own.source, own.baselines, len(own.cells)) for own in job.by_case()] == [
        (sources[name], wanted[name], 2) for name in sources
    ]


@pytest.mark.parametrize("where", [("/k/one.py", "/l/two.py"), ("a.one", "b.two")])
def test_those_of_other_folders_and_packages_may_import_others_by_the_same_name(where):
    kind = "path" if where[0].startswith("/") else "module"
    sources = {name: CaseSource(name, **{kind: each}) for name, each in zip(("one", "two"), where, strict=True)}
    planned = [PlannedCell(cell(name), Evidence.MEASURED) for name in sources]
    assert len(chains_for(planned, sources, TARGETS, [H200])) == 2


@pytest.fixture
def in_float32():
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("in_float32")
@pytest.mark.parametrize(
    ("dtype_of_first", "status", "follows"),
    [
        ("float32", Status.PASSED, True),
        ("float64", Status.PASSED, False),
        ("float32", Status.WRONG_RESULT, False),
    ],
)
def test_another_case_follows_where_all_is_as_before(tmp_path, monkeypatch, dtype_of_first, status, follows):
    monkeypatch.setattr(sys, "path", [*sys.path])
    paths = {name: tmp_path / f"{name}.py" for name in ("one", "two")}
    for (name, path), dtype in zip(paths.items(), (dtype_of_first, "float32"), strict=True):
        path.write_text(CASE.format(name=name, dtype=dtype))
    cases = MeasuredCases(job_of({name: CaseSource(name, path=str(path)) for name, path in paths.items()}))
    assert cases.case_of(cell("one")).name == "one"
    cases.note(CellResult(cell("one"), Evidence.MEASURED, Outcome(status)))
    assert cases.take_up(cell("one", 16))
    assert cases.take_up(cell("two")) is follows


def test_a_file_that_fails_is_imported_once(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = tmp_path / "one.py"
    path.write_text(f"open({str(tmp_path / 'times')!r}, 'a').write('x'); 1 / 0")
    cases = MeasuredCases(job_of({"one": CaseSource("one", path=str(path))}))
    for size in (8, 16):
        with pytest.raises(CaseError, match="ZeroDivisionError"):
            cases.case_of(cell("one", size))
    assert (tmp_path / "times").read_text() == "x"


def test_a_death_before_any_cell_costs_the_first_case_alone():
    sources = {name: CaseSource(name, path=f"/k/{name}.py") for name in ("dies", "lives")}

    def work(job, connection):
        connection.send(DeviceAnswers())
        if job.cells[0].case == "dies":
            os._exit(3)
        for each in job.cells:
            connection.send(Started(job.evidence, each))
            connection.send(Finished(CellResult(each, job.evidence, Outcome(Status.PASSED))))

    ours, theirs = multiprocessing.Pipe()
    Supervisor(theirs, Request(((job_of(sources, (8, 16)),),), Limits(1)), work).run()
    said = [ours.recv() for _ in range(6 + 1)]
    outcomes = {(m.result.cell.case, m.result.cell.shape[0]): m.result.outcome for m in said if isinstance(m, Finished)}
    assert {key: outcome.status for key, outcome in outcomes.items()} == {
        ("dies", 8): Status.CAPTURE_FAILED,
        ("dies", 16): Status.CAPTURE_FAILED,
        ("lives", 8): Status.PASSED,
        ("lives", 16): Status.PASSED,
    }
    assert outcomes["dies", 8].stage is Stage.IMPORT


def test_cells_are_dealt_evenly_and_one_alone_is_not_built_ahead():
    sources = {name: CaseSource(name, path=f"/k/{name}.py") for name in ("one", "two", "three")}
    job = job_of(sources, range(1, 9))
    hands = ahead.parts([(job,)], 4)
    assert [sum(len(each.cells) for each in hand) for hand in hands] == [6, 6, 6, 6]
    assert {each.evidence for hand in hands for each in hand} == {Evidence.COMPILED}
    assert sorted(str(c) for hand in hands for each in hand for c in each.cells) == sorted(map(str, job.cells))
    assert ahead.parts([(job_of({"one": sources["one"]}),)], 4) == []
    assert ahead.parts([(job,)], 0) == []


def fork(work):
    process = multiprocessing.get_context("fork").Process(target=lambda: (os.setsid(), work()))
    process.start()
    return process


def test_seconds_of_builds_are_kept_and_one_that_hangs_is_ended(monkeypatch):
    def build_all(jobs, tell):
        tell({jobs[0].source.name: 0.5})
        if jobs[0].source.name == "hangs":
            time.sleep(60)

    monkeypatch.setattr(ahead, "build_all", build_all)
    monkeypatch.setattr(ahead, "seconds", {})
    sources = {name: CaseSource(name, path=f"/k/{name}.py") for name in ("hangs", "ends")}
    builds = ahead.Builds.begin([(job_of(sources),)], 2, fork)
    processes = list(builds.processes)
    begin = time.monotonic()
    parent, _kept = multiprocessing.Pipe()
    builds.finish(1.0, parent)
    assert time.monotonic() - begin < 30  # half of what they sleep
    assert ahead.seconds == {"hangs": 0.5, "ends": 0.5}
    assert not any(process.is_alive() for process in processes)


def test_nobody_waits_for_builds_that_nobody_wants(monkeypatch):
    monkeypatch.setattr(ahead, "build_all", lambda jobs, tell: time.sleep(60))
    sources = {name: CaseSource(name, path=f"/k/{name}.py") for name in ("one", "two")}
    builds = ahead.Builds.begin([(job_of(sources),)], 1, fork)
    parent, gone = multiprocessing.Pipe()
    gone.close()
    begin = time.monotonic()
    builds.finish(60.0, parent)
    assert time.monotonic() - begin < 30  # half of what they sleep


BUILD = """
import json, sys
from portkit.model import CaseSource, Cell, Direction, Evidence, PlannedCell
from portkit.run import ahead
from portkit.run.session import chains_for
from portkit.targets.catalog import load_catalog
name, targets = "softmax", {"h200": load_catalog().get("h200")}
cells = [Cell(name, Direction.FORWARD, shape, "float32", "w8", "h200") for shape in ((64, 4096), (64, 1000))]
planned = [PlannedCell(cell, Evidence.MEASURED) for cell in cells]
chains = chains_for(planned, {name: CaseSource(name, path=sys.argv[1])}, targets)
told = []
(part,) = ahead.parts(chains, 1)
ahead.build_all(part, told.append)
print(json.dumps(told[-1]))
"""


def test_what_was_built_ahead_is_found_in_the_cache(tmp_path):
    def once():
        environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", BUILD, str(KERNELS / "softmax.py")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    first = once()
    assert len(first) >= 3  # two shapes and a small one of the families
    assert all(seconds > 0 for seconds in first.values())
    assert len(list(tmp_path.rglob("*.cubin"))) == len(first)
    assert once() == {}
