"""``scripts/mutants_table.py``: what became of mutants, and the kept table of them."""

import lzma
from dataclasses import replace
from pathlib import Path

import pytest
from script_modules import script_module

from portkit.errors import ReportError

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    return script_module("mutants_table")


@pytest.fixture
def lines(script):
    """A wait that is found, one that need not be, one that is missed, and two other instructions."""
    found = script.Line(
        "3.6.0", "aa", "softmax", "sm_90", "wait", "deleted", "7", "cp.async.wait_group 0", "halt", "yes", ""
    )
    idle = replace(found, change="wait 1", by="", verdict="", why="idle")
    missed = replace(found, line="8", by="", verdict="", why="MISSED")
    other = replace(found, kind="other", line="9", by="bits, tiny inputs", verdict="", instruction="mov.b32 %r1, 0")
    return [found, idle, missed, other, replace(other, line="10", by="", why="equal")]


def cells(table, name):
    row = next(line for line in table.splitlines() if line.split("|")[1].strip() == name)
    return [each.strip() for each in row.split("|")[2:-1]]


def test_what_has_nothing_to_notice_does_not_count(script, lines):
    table = script.by_kind(lines)
    assert cells(table, "waits, deleted") == ["2", "0", "1 of 2 (50.0 %)", "1", "1 of 2 (50.0 %)"]
    assert cells(table, "waits, changed") == ["1", "1", "0 of 0 (0.0 %)", "0", "0 of 0 (0.0 %)"]
    assert cells(table, "other instructions") == ["2", "0", "1 of 2 (50.0 %)", "0", "0 of 2 (0.0 %)"]
    assert cells(table, "all") == ["5", "1", "2 of 4 (50.0 %)", "1", "1 of 4 (25.0 %)"]
    assert cells(script.by_architecture(lines), "sm_90") == ["1", "3", "1", "1 of 2 (50.0 %)", "1 of 2 (50.0 %)"]
    assert cells(script.reasons(lines), "idle") == ["waits", "1"]


@pytest.mark.parametrize("suffix", [".csv", ".csv.xz"])
def test_a_file_is_read_as_it_was_written(script, lines, tmp_path, suffix):
    path = tmp_path / "mutants.csv"
    script.write(path, lines[:2])
    script.write(path, lines[2:], more=True)
    if suffix == ".csv.xz":
        path = tmp_path / f"mutants{suffix}"
        path.write_bytes(lzma.compress((tmp_path / "mutants.csv").read_bytes()))
    assert script.read(path) == lines


def test_half_a_line_is_passed_over(script, lines, tmp_path):
    path = tmp_path / "mutants.csv"
    script.write(path, lines)
    path.write_text(path.read_text()[:-20])
    assert script.read(path) == lines[:-1]


def test_another_file_is_refused(script, tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ReportError, match=r"no table of mutate_emulated\.py"):
        script.read(path)


def test_the_exit_code_says_whether_something_was_missed(script, lines, tmp_path, capsys):
    path = tmp_path / "mutants.csv"
    script.write(path, lines)
    assert script.main([str(path)]) == 1
    assert "MISSED     softmax sm_90 line 8" in capsys.readouterr().out
    script.write(path, [line for line in lines if line.why != "MISSED"])
    assert script.main([str(path), "--survivors"]) == 0
    assert "idle       softmax sm_90 line 7: cp.async.wait_group 0 → wait 1" in capsys.readouterr().out
