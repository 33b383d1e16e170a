"""Limits as a user writes them, and what is kept of a process's output."""

import os
import re
import subprocess
import sys

import pytest

from portkit.errors import HostError
from portkit.model import Stage
from portkit.run.limits import GIB, STAGE_SECONDS, default_memory, parse_lane_instructions, parse_memory, parse_stages
from portkit.run.output import KEPT_BYTES, Output
from portkit.run.processes import resident_bytes


def test_stages_that_are_not_named_keep_their_limits():
    limits = parse_stages(["compile=60,run=2.5", "import=7"])
    assert {stage: limits[stage] for stage in limits if limits[stage] != STAGE_SECONDS[stage]} == {
        Stage.COMPILE: 60,
        Stage.RUN: 2.5,
        Stage.IMPORT: 7,
    }
    assert limits.keys() == STAGE_SECONDS.keys()


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("compil=60", "no stage 'compil'.*\n.*did you mean compile"),
        ("plan=3", "no stage 'plan'"),
        ("run=0", "not a time limit: 'run=0'"),
        ("run", "not a time limit: 'run'"),
        ("run=" + "9" * 400, "not a time limit"),
        ("run=nan", "not a time limit"),
        ("run=-1", "write seconds, such as compile=60"),
    ],
)
def test_a_wrong_limit_is_named(option, words):
    with pytest.raises(HostError, match=words):
        parse_stages([option])


@pytest.mark.parametrize(
    ("text", "size"), [("8G", 8 * GIB), ("512m", 2**29), ("1.5GiB", 3 * GIB // 2), ("4096", 4096), ("2 TB", 2048 * GIB)]
)
def test_sizes(text, size):
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "0", "8X", "G", "-1G", "0.4", "9" * 400 + "T", "nan"])
def test_a_wrong_size_is_named(text):
    with pytest.raises(HostError, match=re.escape(repr(text))):
        parse_memory(text)


@pytest.mark.parametrize(("text", "count"), [("2G", 2 * 10**9), ("1.5m", 1_500_000), ("4096", 4096)])
def test_lane_instructions(text, count):
    assert parse_lane_instructions(text) == count


@pytest.mark.parametrize("text", ["", "0", "2e9", "-1", "1GiB"])
def test_a_wrong_number_of_lane_instructions_is_named(text):
    with pytest.raises(HostError, match=re.escape(repr(text))):
        parse_lane_instructions(text)


def test_the_default_leaves_the_host_some_memory():
    assert 0 < default_memory() <= 8 * GIB


HOLDS = """
import sys
print(flush=True)
sys.stdin.readline()
held = bytearray(50_000_000)
for page in range(0, len(held), 4096):
    held[page] = 1
print(flush=True)
sys.stdin.readline()
"""


def test_resident_memory_is_what_is_held():
    """Of a process of its own: this one may give memory back meanwhile."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLDS], text=True, **pipes) as child:
        child.stdout.readline()
        before = resident_bytes(child.pid)
        child.stdin.write("\n")
        child.stdin.flush()
        child.stdout.readline()
        assert 40_000_000 < resident_bytes(child.pid) - before < 100_000_000
        child.stdin.close()
    assert resident_bytes(2**30) == 0


def test_of_much_output_the_end_is_kept():
    output = Output()
    written = 0
    for number in range(3000):
        written += os.write(output.sink, f"line {number} {'x' * 50}\n".encode())
        output.read()
    output.close_sink()
    output.read()
    assert output.ended
    assert written > 2 * KEPT_BYTES > len(output.text) > KEPT_BYTES - 100
    assert output.text.startswith("line ")
    assert output.text.endswith(f"line 2999 {'x' * 50}\n")
    output.close()
