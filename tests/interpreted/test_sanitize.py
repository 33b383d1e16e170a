"""What compute-sanitizer says is read right; the texts are written after its manual."""

from __future__ import annotations

import os
import stat
import sys

import pytest

from portkit.model import CaseSource, Cell, Direction, Status
from portkit.run import sanitize
from portkit.run.sanitize import Finding, Task, parse, sanitize_cell

MEMCHECK = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at _copy+0x1b0 in cases/faulty.py:93
=========     by thread (0,0,0) in block (3,0,0)
=========     Access at 0x7f53c4a03e80 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f53c4a00000 of size 16,000 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: cuLaunchKernelEx [0x2c8b3d] in libcuda.so.1
=========
========= Invalid __global__ write of size 4 bytes
=========     at _copy+0x1b0 in cases/faulty.py:93
=========     by thread (1,0,0) in block (3,0,0)
=========     Access at 0x7f53c4a03e84 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f53c4a00000 of size 16,000 bytes
=========
========= ERROR SUMMARY: 2 errors
"""

OLDER = """\
========= COMPUTE-SANITIZER
========= Invalid __shared__ read of size 16 bytes
=========     at 0x2f0 in cases/faulty.py:41:_row_sums
=========     by thread (96,0,0) in block (0,0,0)
=========     Address 0x4400 is out of bounds
=========
========= ERROR SUMMARY: 1 error
"""

RACECHECK = """\
========= COMPUTE-SANITIZER
========= Warning: Race reported between Read access at _scan+0x200 in cases/scan.py:18
=========     and Write access at _scan+0x2a0 in cases/scan.py:19 [12 hazards]
=========
========= Error: Race reported between Write access at _scan+0x120 in cases/scan.py:10
=========     and Read access at _scan+0x150 in cases/scan.py:12 [508 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""

CLEAN = "========= COMPUTE-SANITIZER\nprinted by the kernel file\n========= ERROR SUMMARY: 0 errors\n"
CLEAN_RACES = "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"

WRITE = (
    "Invalid __global__ write of size 4 bytes in _copy at cases/faulty.py:93, "
    "is 1 bytes after the nearest allocation of size 16,000 bytes"
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (MEMCHECK, [(Status.OUT_OF_BOUNDS, WRITE)]),
        (
            OLDER,
            [(Status.OUT_OF_BOUNDS, "Invalid __shared__ read of size 16 bytes in _row_sums at cases/faulty.py:41")],
        ),
        (RACECHECK, [(Status.DATA_RACE, "Race reported between Write access in _scan at cases/scan.py:10")]),
        (CLEAN, []),
    ],
)
def test_errors_are_read_with_kernel_and_line(text, found):
    assert parse(text) == [Finding(*each) for each in found]


def test_a_text_without_summary_is_no_clean_bill():
    assert parse(MEMCHECK.partition("========= ERROR")[0]) is None
    assert parse("========= Error: unable to attach\n") is None


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """A stand-in that says a given text for each tool and exits as told."""

    def install(memcheck=CLEAN, racecheck=CLEAN_RACES, code=0):
        program = tmp_path / "compute-sanitizer"
        texts = {"memcheck": memcheck, "racecheck": racecheck}
        program.write_text(
            f"#!{sys.executable}\nimport sys\nsys.stdin.read()\nprint({texts!r}[sys.argv[2]])\nsys.exit({code})\n"
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    return install


CELL = Cell("copy", Direction.FORWARD, (4096, 4096), "float32", "w8", "h200")


def sanitized():
    return sanitize_cell(CaseSource("copy", path="copy.py"), CELL, shape=(4, 1000))


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        ({}, Status.PASSED, "memcheck, racecheck: nothing found on 4x1000"),
        ({"memcheck": MEMCHECK}, Status.OUT_OF_BOUNDS, "out_of_bounds on 4x1000: Invalid __global__ write"),
        ({"racecheck": RACECHECK}, Status.DATA_RACE, "data_race on 4x1000: Race reported"),
        ({"memcheck": MEMCHECK, "racecheck": RACECHECK}, Status.OUT_OF_BOUNDS, "out_of_bounds on 4x1000"),
    ],
)
def test_a_cell_gets_the_worst_that_a_tool_found(tool, said, status, words):
    tool(**said)
    found = sanitized()
    assert (found.outcome.status, found.why_not) == (status, None)
    assert found.text.startswith(words)


def test_a_tool_that_fails_leaves_the_matter_open(tool):
    tool(memcheck="no device", code=3)
    found = sanitized()
    assert found.outcome.status is Status.PASSED
    assert (found.text, found.why_not) == (None, "memcheck: exit 3: no device")


def test_a_missing_tool_is_said(monkeypatch):
    monkeypatch.setattr(sanitize.shutil, "which", lambda name: None)
    assert "not installed" in sanitized().why_not


def test_a_task_travels():
    task = Task(CaseSource("copy", module="package.copy"), CELL, seed=3)
    assert Task.from_json(task.to_json()) == task
