"""PyTorch's compiler in the supervisor: when, and what if that spoils the device for its workers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace

import pytest

from portkit.model import (
    CaseSource,
    Cell,
    CellResult,
    Device,
    DeviceProbe,
    Direction,
    Evidence,
    PlannedCell,
    Stage,
    Status,
)
from portkit.plan.baselines import may_compile
from portkit.run import devices, preload
from portkit.run.compiler_hang import HANG, NO_COMPILER
from portkit.run.jobs import AllDone, Finished, Limits, Ready, Request
from portkit.run.preload import is_wanted
from portkit.run.probes import probe_job
from portkit.run.session import COMPILER, Kind, Session, chains_for
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
    monkeypatch.delenv(NO_COMPILER, raising=False)
    assert is_wanted(chains(*baselines)) is wanted
    assert not is_wanted(chains(*baselines, evidence=Evidence.COMPILED))
    monkeypatch.setenv(NO_COMPILER, "1")
    assert not is_wanted(chains(*baselines))


@pytest.mark.parametrize(("gpus", "cells", "wanted"), [(1, 2, True), (2, 1, False), (2, 2, True)])
def test_where_one_case_runs_on_several_gpus(monkeypatch, gpus, cells, wanted):
    monkeypatch.delenv(NO_COMPILER, raising=False)
    ((job,),) = chains(("eager", "compile"))
    shapes = [replace(job.cells[0], shape=(n + 1,)) for n in range(cells)]
    assert is_wanted([(replace(job, cells=tuple(shapes), devices=(H200,) * gpus),)]) is wanted


@pytest.mark.parametrize(("evidence", "loaded"), [(Evidence.MEASURED, ["scipy.stats"]), (Evidence.EMULATED, [])])
def test_statistics_are_loaded_for_measured_cells(monkeypatch, evidence, loaded):
    asked, names = chains(("eager",), ("eager",), evidence=evidence), []
    monkeypatch.setattr(preload, "importlib", SimpleNamespace(import_module=names.append))
    preload.load_statistics(asked)
    assert names == loaded


def test_a_supervisor_loads_no_statistics_before_it_is_asked():
    code = "import sys, portkit.run.supervisor; print([name for name in sys.modules if name.startswith('scipy')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"


def test_of_the_environment_it_changes_the_folders_of_caches_alone(tmp_path):
    code = """
import os, sys
os.environ["TORCH_WARM_POOL"] = "1"
os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None)
before = dict(os.environ)
from portkit.run.preload import load_compiler
assert load_compiler(100)
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


SPOILS = """
import sys
from portkit.run import supervisor
supervisor.load_compiler = lambda most_seconds: False
sys.exit(supervisor.main(sys.argv[1:]))
"""


def supervisor(code, *options):
    """A supervisor as this code starts it, and the other end of its connection."""
    ours, theirs = socket.socketpair()
    env = {name: value for name, value in os.environ.items() if name != NO_COMPILER}
    command = [sys.executable, "-c", code, str(theirs.fileno()), *options]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=env)
    theirs.close()
    return process, Connection(ours.detach())


def answers(process, connection, *baselines):
    """All it says to a request for measured cells of that many cases."""
    connection.send(Request(chains(*baselines), Limits(1)))
    said = [connection.recv()]
    while not isinstance(said[-1], AllDone):
        said.append(connection.recv())
    connection.close()
    assert process.wait(timeout=60) == 0
    return said


@pytest.mark.parametrize(("options", "lives"), [((), 2), ((f"{COMPILER}60",), 1)])
def test_a_supervisor_that_spoiled_the_device_starts_over(options, lives):
    """Before the request where it was to load the compiler at its start; then it says nothing of that life."""
    said = answers(*supervisor(SPOILS, *options), ("eager", "compile"), ("eager", "compile"))
    assert [type(each) for each in said].count(Ready) == lives
    finished = {each.result.cell.case: each.result.outcome.status for each in said if isinstance(each, Finished)}
    assert set(finished) == {"case0", "case1"}
    assert set(finished.values()) <= {Status.WORKER_LOST, Status.CAPTURE_FAILED}  # no such device, no such file


NOTES = """
import sys
from portkit.run import supervisor
def load(most_seconds):
    print("loaded", most_seconds, file=sys.stderr, flush=True)
    return True
supervisor.load_compiler = load
sys.exit(supervisor.main(sys.argv[1:]))
"""


def test_one_for_measured_cells_loads_it_before_it_is_asked(capfd):
    process, connection = supervisor(NOTES, f"{COMPILER}60")
    connection.close()
    assert process.wait(timeout=60) == 0
    assert capfd.readouterr().err.count("loaded 60.0") == 1


def loads_early(command):
    return any(each.startswith(COMPILER) for each in command)


HANGS = """
import sys
sys.path.insert(0, {folder!r})
from portkit.run import preload, supervisor
preload._MODULES = ("hangs",)
sys.exit(supervisor.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize(
    "body", ["import time; time.sleep(60)", "import ctypes; ctypes.PyDLL(None).sleep(60)"], ids=["free", "locked"]
)
def test_an_import_that_hangs_is_ended_and_done_without(monkeypatch, tmp_path, body, early):
    """Also where it holds Python's lock; cells and probes are then served, by one that knows why not to compile."""
    (tmp_path / "hangs.py").write_text(f"# 1\n{body}\n")
    monkeypatch.delenv(NO_COMPILER, raising=False)
    popen, environments = subprocess.Popen, []

    def start(command, *, env, **options):
        environments.append(dict(env))
        return popen([sys.executable, "-c", HANGS.format(folder=str(tmp_path)), *command[3:]], env=env, **options)

    monkeypatch.setattr("portkit.run.session.subprocess.Popen", start)
    session = Session(replace(Limits(1), stage_seconds={**Limits(1).stage_seconds, Stage.IMPORT: 1.0}))
    if early:
        session.prestart(measuring=True)
    probe = probe_job(H200, load_catalog().get("h200"))
    said = list(session.results(chains(("eager", "compile"), ("eager", "compile")), probes=[probe]))
    session.close()
    hangs = [env.get(HANG) for env in environments]
    told = f"importing PyTorch's compiler took over 1 s, at {tmp_path.name}/hangs.py:2 in <module>"
    assert hangs == ([None, None, told] if early else [None, told])
    assert environments[-1][NO_COMPILER] == "1"
    assert [type(each) for each in said].count(DeviceProbe) == 1
    assert not any("the supervisor ended" in str(each) for each in said)
    assert len(said) == 3


def test_a_supervisor_that_never_comes_up_is_given_up(monkeypatch):
    popen, commands = subprocess.Popen, []

    def start(command, **options):
        commands.append(command)
        return popen([sys.executable, "-c", "import time; time.sleep(60)"], **options)

    monkeypatch.setattr("portkit.run.session.subprocess.Popen", start)
    monkeypatch.setattr("portkit.run.session.START_SECONDS", 0.5)
    session = Session(replace(Limits(1), stage_seconds={**Limits(1).stage_seconds, Stage.IMPORT: 0.5}))
    probe = probe_job(H200, load_catalog().get("h200"))
    said = list(session.results(chains(("eager",), ("eager",)), probes=[probe]))
    assert len(commands) == 1
    said += session.results(chains(("eager",)))  # another is tried for what is asked later
    session.close()
    why = "torch and Triton were not loaded within 1 s"
    assert [each.outcome.message for each in said if isinstance(each, CellResult)] == [why] * 3
    assert {each.outcome.status for each in said if isinstance(each, CellResult)} == {Status.WORKER_LOST}
    assert sum(isinstance(each, DeviceProbe) for each in said) == 1
    assert len(commands) == 2


def test_one_that_was_started_long_before_it_is_asked_is_not_late(monkeypatch):
    popen = subprocess.Popen
    sleeps = [sys.executable, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr("portkit.run.session.subprocess.Popen", lambda command, **options: popen(sleeps, **options))
    monkeypatch.setattr("portkit.run.session.START_SECONDS", 1.0)
    session = Session(replace(Limits(1), stage_seconds={**Limits(1).stage_seconds, Stage.IMPORT: 1.0}))
    session.prestart()
    link = session._links[Kind.COMMON]
    time.sleep(2.1)
    link.ask(chains(("eager",)), session._limits, None)
    link.end_late()
    assert link._late is None
    time.sleep(2.1)
    link.end_late()
    assert link._late is not None
    session.close()


def test_one_that_dies_of_what_it_loads_early_is_replaced_by_one_that_does_not(monkeypatch):
    popen, commands = subprocess.Popen, []

    def start(command, **options):
        commands.append(command)
        dies = [sys.executable, "-c", "import os; os.abort()"]
        return popen(dies if loads_early(command) else command, **options)

    monkeypatch.setattr("portkit.run.session.subprocess.Popen", start)
    session = Session(Limits(1))
    session.prestart(measuring=True)
    said = [result.outcome.message for result in session.results(chains(("eager",), ("eager",)))]
    session.close()
    assert [loads_early(command) for command in commands] == [False, True, False]
    assert len(said) == 2
    assert not any("the supervisor ended" in message for message in said)


@pytest.mark.parametrize("measuring", [False, True])
def test_measured_cells_go_to_the_supervisor_that_was_started_for_them(monkeypatch, measuring):
    asked = []

    class Link:
        def __init__(self, kind, *others):
            self.kind = kind
            self.done = True

        def ask(self, *request):
            asked.append(self.kind)
            raise StopAsyncIteration

    monkeypatch.setattr("portkit.run.session._Link", Link)
    session = Session(Limits(1))
    session.prestart(measuring=measuring)
    for evidence in (Evidence.COMPILED, Evidence.MEASURED):
        with pytest.raises(StopAsyncIteration):
            list(session.results(chains(("eager", "compile"), evidence=evidence)))
    assert asked == [Kind.COMMON, Kind.MEASURING if measuring else Kind.COMMON]


@pytest.mark.parametrize(
    ("options", "compiles"), [([], True), (["none"], False), (["eager", "torch"], False), (["eager,compile"], True)]
)
def test_what_a_user_asks_for_tells_whether_it_will_be_needed(options, compiles):
    assert may_compile(options) is compiles


@pytest.mark.parametrize(("visible", "here"), [(None, True), ("1", True), ("", False), ("-1", False)])
def test_a_driver_tells_that_there_may_be_a_gpu(monkeypatch, tmp_path, visible, here):
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    monkeypatch.setattr(devices, "DRIVERS", (Path("/nowhere"), tmp_path))
    assert devices.may_have_gpus(environment) is here
    monkeypatch.setattr(devices, "DRIVERS", (Path("/nowhere"),))
    assert not devices.may_have_gpus(environment)
