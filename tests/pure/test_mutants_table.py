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


KEPT = max((ROOT / "reports").glob("mutants-????-??-??.csv.xz"))


def test_the_kept_mutants_are_found_or_explained(script, capsys):
    """Of every kind on every family of NVIDIA's matrix units, and of AMD's four architectures."""
    lines = script.read(KEPT)
    assert list(script.missed(lines)) == []
    script.main([str(KEPT), "--check"])
    assert "other tables" not in capsys.readouterr().out
    by_vendor = {vendor: [line for line in lines if line.vendor == vendor] for vendor in ("AMD", "NVIDIA")}
    assert all(len(every) >= 2000 for every in by_vendor.values())
    assert {line.kind for line in by_vendor["NVIDIA"]} == set(script.WORDS)
    assert {line.architecture for line in lines} >= {"sm_75", "sm_80", "sm_90", "sm_100", "sm_120", "gfx942", "gfx1201"}
    keys = [(line.triton, line.case, line.architecture, line.line, line.change) for line in lines]
    assert len(keys) == len(set(keys))


def test_a_document_without_a_place_is_refused(script, tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/emulation.md").write_text("# nothing\n")
    monkeypatch.setattr(script, "ROOT", tmp_path)
    with pytest.raises(ReportError, match="has no place for the tables"):
        script.document([], "AMD")


def test_other_tables_in_a_document_are_told_and_written(script, lines, tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    for vendor, name in script.DOCUMENTS.items():
        mark = f"<!-- {vendor}'s mutants, made by scripts/mutants_table.py -->"
        (tmp_path / name).write_text(f"before\n{mark}\nold\n{script.END}\nbehind\n")
    monkeypatch.setattr(script, "ROOT", tmp_path)
    path = tmp_path / "mutants.csv"
    script.write(path, [line for line in lines if line.why != "MISSED"])
    assert [script.main([str(path), option]) for option in ("--check", "--write", "--check")] == [1, 0, 0]
    written = (tmp_path / "docs/emulation-ptx.md").read_text()
    assert written.startswith("before\n")
    assert "NVIDIA, Triton 3.6.0" in written
    assert "old" not in written
    assert written.endswith("\nbehind\n")
