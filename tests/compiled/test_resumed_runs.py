"""Runs that are cut short by a signal, a full disk or an option, and go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from portkit.model import Status
from portkit.store.journal import read_report

KERNELS = """
import time
from pathlib import Path

import torch
import triton
import triton.language as tl

import portkit

GATE = Path(__file__).with_name("gate")


@triton.jit
def scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)


def double(x, block):
    while block == 512 and GATE.exists():
        time.sleep(0.05)
    y = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), BLOCK=block)
    return y


case = portkit.KernelCase(
    name="double",
    fused=double,
    reference=lambda x: x * 2,
    inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype)},
    work=lambda shape, dtype: portkit.Work(8 * shape[0], 8 * shape[0], shape[0]),
    shapes=((1000,),),
    small_shapes=((100,),),
    dtypes=("float32",),
    variants={"b256": {"block": 256}, "b512": {"block": 512}, "b1024": {"block": 1024}},
)
"""

MATRIX = """
version: 1
kernels:
  double: {path: kernels.py}
targets: [h200]
"""


@pytest.fixture
def project(pytester):
    """A user's folder: one kernel file, three cells; one of them waits while there is a gate."""
    pytester.path.joinpath("kernels.py").write_text(KERNELS)
    pytester.path.joinpath("matrix.yaml").write_text(MATRIX)
    return pytester


def command(*arguments):
    # The other plugin takes seconds to end, in which we would measure it.
    pytest_ = [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest"]
    return [*pytest_, "--benchmark", "--portkit-target", "h200", "--portkit-emulate", "off", *arguments]


def benchmark(project, *arguments):
    return project.run(*command("-p", "no:cacheprovider", *arguments))


def path_of(project):
    (path,) = project.path.glob("reports/local/*.jsonl")
    return path


def statuses(project):
    return [record.outcome.status for record in read_report(path_of(project)).records]


def processes_below(folder):
    """Other processes that work in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            here = str(process.joinpath("cwd").readlink()).startswith(str(folder))
        except OSError:
            continue
        found += [process.name] if here and process.name != str(os.getpid()) else []
    return found


def wait_for_records(project, process, count):
    until = time.monotonic() + 90
    while time.monotonic() < until and process.poll() is None:
        paths = list(project.path.glob("reports/local/*.jsonl"))
        if paths and len(read_report(paths[0]).records) >= count:
            return
        time.sleep(0.05)
    raise AssertionError(process.communicate()[0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_soon_and_it_can_go_on(project, number):
    gate = project.path / "gate"
    gate.touch()
    process = subprocess.Popen(
        command(), cwd=project.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    wait_for_records(project, process, 1)
    begin = time.monotonic()
    os.killpg(process.pid, number)
    output = process.communicate(timeout=30)[0]
    assert time.monotonic() - begin < 20  # the gate holds the cell for longer, and a busy host is slow
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert processes_below(project.path) == []
    cut = read_report(path_of(project))
    assert (cut.end.exit, len(cut.records)) == ("interrupted", 1)
    given = "-p no:hypothesispytest --benchmark --portkit-target h200 --portkit-emulate off"
    assert f"resume: pytest {given} --portkit-resume {cut.header.run_id}" in output
    if number == signal.SIGTERM:
        return

    gate.unlink()
    before = path_of(project).read_bytes()
    result = benchmark(project, "--portkit-resume")
    result.assert_outcomes(passed=3)
    assert path_of(project).read_bytes().startswith(before)
    report = read_report(path_of(project))
    assert (report.partial, len(report.records), report.resumes[0].repeated) == (None, 3, 0)

    whole = path_of(project).read_bytes()
    benchmark(project, "--portkit-resume", report.header.run_id).assert_outcomes(passed=3)
    assert path_of(project).read_bytes() == whole  # nothing was left to do

    kernels = project.path / "kernels.py"
    kernels.write_text(kernels.read_text().replace("* 2, mask", "* 2.5, mask"))
    result = benchmark(project, "--portkit-resume", "latest", "-k", "b256")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*the run can't go on: other cells are chosen*; the source of double changed*"])
    assert path_of(project).read_bytes() == whole


FULL_DISK = """
import resource

def pytest_runtest_logfinish(nodeid):
    # The report may grow no further: what a full disk does, to this process alone.
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))
"""


def test_a_full_disk_ends_the_run_with_what_was_finished(project):
    gate = project.path / "gate"
    project.path.joinpath("conftest.py").write_text(FULL_DISK)
    result = benchmark(project, "--portkit-limit", "capture=20")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    text = "\n".join([*result.outlines, *result.errlines])
    assert "the file size limit is reached (ulimit -f); what was finished is kept" in text
    assert "Traceback" not in text
    kept = len(read_report(path_of(project)).records)
    assert 1 <= kept < 3
    project.path.joinpath("conftest.py").unlink()
    assert not gate.exists()
    benchmark(project, "--portkit-resume").assert_outcomes(passed=3)
    assert statuses(project) == [Status.BUILT] * 3


def test_options_that_stop_or_choose_leave_a_readable_report(project):
    kernels = project.path / "kernels.py"
    good = kernels.read_text()
    kernels.write_text(good.replace("    y = torch.empty", "    assert block != 512\n    y = torch.empty"))
    result = project.run(*command("--sw", "-p", "no:terminal", "--junitxml=junit.xml"))
    assert result.ret == pytest.ExitCode.INTERRUPTED
    report = read_report(path_of(project))
    assert report.end.exit in ("interrupted", "complete")  # the third may be in already
    assert 2 <= len(report.records) <= 3
    assert 'name="double[h200-1000-float32-b512-compiled]"' in (project.path / "junit.xml").read_text()

    kernels.write_text(good)
    result = project.run(*command("--lf", "--maxfail=1"))
    result.assert_outcomes(passed=1, deselected=2)
    newest = max(project.path.glob("reports/local/*.jsonl"))
    assert (read_report(newest).partial, read_report(newest).header.cells) == (None, 1)


def test_bad_limits_and_runs_are_named(project):
    for arguments, message in (
        (["--portkit-limit", "compil=3"], "*did you mean compile*"),
        (["--portkit-memory", "much"], "*not a size of memory: 'much'*"),
        (["--portkit-emulate-budget", "much"], "*not a number of lane-instructions: 'much'*"),
        (["--portkit-resume"], "*no report is here to go on with*"),
    ):
        result = benchmark(project, *arguments)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([message])
