"""Files that commands are told to write: the folder is made, and what can't be written is told before the work."""

import os

import pytest
from factories import header, record

from portkit.cli import main
from portkit.model import Evidence
from portkit.store.journal import Journal

COMMANDS = {
    "merge -o": (["merge", "{report}", "-o", "{file}"], ".md"),
    "merge --summary": (["merge", "{report}", "--summary", "{file}"], ".parquet"),
    "report -o": (["report", "{report}", "-o", "{file}"], ".md"),
    "report --html": (["report", "{report}", "--html", "{file}"], ".html"),
    "gate -o": (["gate", "--baseline", "{report}", "--current", "{report}", "-o", "{file}"], ".md"),
    "gate --junit": (["gate", "--baseline", "{report}", "--current", "{report}", "--junit", "{file}"], ".xml"),
    "savings --missing": (["savings", "-w", "llama3-8b-prefill", "{report}", "--missing", "{file}"], ".yaml"),
    "schema -o": (["schema", "matrix", "-o", "{file}"], ".json"),
}
NOBODY = 65534
READING = [name for name in COMMANDS if name != "schema -o"]


@pytest.fixture
def report(tmp_path):
    journal = Journal.create(tmp_path / "reports", header())
    journal.append(record(Evidence.MEASURED))
    journal.finish()
    return journal.path


def called(name, report, file):
    arguments, ending = COMMANDS[name]
    path = file.with_name(file.name + ending)
    return main([each.format(report=report, file=path) for each in arguments]), path


@pytest.mark.parametrize("name", COMMANDS)
def test_the_folder_is_made(name, report, tmp_path):
    code, path = called(name, report, tmp_path / "new" / "deep" / "file")
    assert code != 2
    assert path.stat().st_size > 0


@pytest.mark.parametrize("name", COMMANDS)
def test_below_a_file_is_no_folder(name, report, tmp_path, capsys):
    (tmp_path / "taken").write_text("")
    code, path = called(name, report, tmp_path / "taken" / "file")
    assert code == 2
    said = capsys.readouterr().err
    assert f"{path}: can't be written: " in said
    assert "name a file that you may write" in said


@pytest.mark.parametrize("name", READING)
def test_before_anything_is_read(name, tmp_path, capsys):
    code, path = called(name, tmp_path / "none.jsonl", tmp_path / ("x" * 300))
    assert code == 2
    assert f"{path}: can't be written: File name too long" in capsys.readouterr().err
    path = tmp_path / f"folder{COMMANDS[name][1]}"
    path.mkdir()
    assert called(name, tmp_path / "none.jsonl", tmp_path / "folder")[0] == 2
    assert f"{path}: can't be written: it is a folder" in capsys.readouterr().err


@pytest.fixture
def not_root():
    """Root may write everywhere; ``access`` asks for the real user, whatever the effective one opens."""
    users = os.getresuid()
    if os.geteuid() == 0:
        os.setresuid(NOBODY, 0, 0)
    yield
    os.setresuid(*users)


def test_a_folder_of_others(tmp_path, capsys, not_root):
    (tmp_path / "theirs").mkdir(mode=0o500)
    code, _ = called("schema -o", None, tmp_path / "theirs" / "file")
    assert code == 2
    assert f"{tmp_path / 'theirs'} can't be written to" in capsys.readouterr().err


def test_standard_output_is_no_file(report, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(report), "--html", "-"]) == 0
    assert capsys.readouterr().out.startswith("<!doctype html>")
    assert not (tmp_path / "-").exists()
