"""PyTorch's compiler in the supervisor: when, and what if that spoils the device for its workers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import replace
from multiprocessing.connection import Connection

import pytest

from portkit.model import CaseSource, Cell, Device, Direction, Evidence, PlannedCell, Status
from portkit.run.jobs import AllDone, Finished, Limits, Ready, Request
from portkit.run.preload import OFF, is_wanted
from portkit.run.session import chains_for
from portkit.targets.catalog import load_catalog

H200 = Device(0, "NVIDIA H200", "h200", "sm_90", 1, 132, "d0")


def chains(*baselines, evidence=Evidence.MEASURED):
    """One job a tuple of baselines."""
    names = [f"case{number}" for number in range(len(baselines))]
    planned = [PlannedCell(Cell(name, Direction.FORWARD, (8,), "float32", "w8", "h200"), evidence) for name in names]
    sources = {name: CaseSource(name, path=f"/nowhere/{name}.py") for name in names}
    wanted = dict(zip(names, baselines, strict=True))
    return chains_for(planned, sources, {"h200": load_catalog().get("h200")}, [H200], baselines=wanted)


@pytest.mark.parametrize(
    ("baselines", "wanted"),
    [
        ([("eager", "compile")] * 2, True),
        ([("eager", "liger"), ("eager", "torch", "compile")], True),
        ([("eager", "compile")], False),  # one cell: nothing is won
        ([("eager", "torch"), ("eager", "compile")], False),
        ([("eager", "torch")] * 2, False),
        ([()] * 2, False),
    ],
)
def test_where_several_cells_need_it(monkeypatch, baselines, wanted):
    monkeypatch.delenv(OFF, raising=False)
    assert is_wanted(chains(*baselines)) is wanted
    assert not is_wanted(chains(*baselines, evidence=Evidence.COMPILED))
    monkeypatch.setenv(OFF, "1")
    assert not is_wanted(chains(*baselines))


@pytest.mark.parametrize(("gpus", "cells", "wanted"), [(1, 2, True), (2, 1, False), (2, 2, True)])
def test_where_one_case_runs_on_several_gpus(monkeypatch, gpus, cells, wanted):
    monkeypatch.delenv(OFF, raising=False)
    ((job,),) = chains(("eager", "compile"))
    shapes = [replace(job.cells[0], shape=(n + 1,)) for n in range(cells)]
    assert is_wanted([(replace(job, cells=tuple(shapes), devices=(H200,) * gpus),)]) is wanted


def test_of_the_environment_it_changes_the_folders_of_caches_alone(tmp_path):
    code = """
import os, sys
os.environ["TORCH_WARM_POOL"] = "1"
os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None)
before = dict(os.environ)
from portkit.run.preload import load_compiler
assert load_compiler()
changed = {name: value for name, value in os.environ.items() if before.get(name) != value}
assert set(changed) <= {"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"}, changed
print(changed["TORCHINDUCTOR_CACHE_DIR"])
assert set(before) <= set(os.environ) and "torch._inductor.compile_fx" in sys.modules
"""
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "portkit" / "inductor")


def test_a_supervisor_that_spoiled_the_device_starts_over():
    code = """
import sys
from portkit.run import supervisor
supervisor.load_compiler = lambda: False
sys.exit(supervisor.main(sys.argv[1:]))
"""
    ours, theirs = socket.socketpair()
    env = {name: value for name, value in os.environ.items() if name != OFF}
    command = [sys.executable, "-c", code, str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=env)
    theirs.close()
    connection = Connection(ours.detach())
    asked = chains(("eager", "compile"), ("eager", "compile"))
    connection.send(Request(asked, Limits(1)))
    said = [connection.recv()]
    while not isinstance(said[-1], AllDone):
        said.append(connection.recv())
    connection.close()
    assert process.wait(timeout=60) == 0
    assert [type(each) for each in said[:2]] == [Ready, Ready]  # once in each life
    finished = {each.result.cell.case: each.result.outcome.status for each in said if isinstance(each, Finished)}
    assert set(finished) == {"case0", "case1"}
    assert set(finished.values()) <= {Status.WORKER_LOST, Status.CAPTURE_FAILED}  # no such device, no such file
