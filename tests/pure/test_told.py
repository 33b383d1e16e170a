"""Scripts tell what is wrong with their input in one sentence, and end with exit code 2."""

import argparse
import errno
import sys
from pathlib import Path

import pytest
from script_modules import script_module

from portkit.store.journal import read_report

SCRIPTS = Path(__file__).parents[2] / "scripts"
READERS = (
    *("builds_table", "cell_seconds", "compare_clocks", "compare_registers", "compare_runs"),
    *("emulated_distance", "emulated_tier", "first_in_round", "suite_goals"),
)


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(SCRIPTS))
    import told

    return told


def broken(tmp_path):
    path = tmp_path / "broken.jsonl"
    path.write_text("root:x:0:0\n")
    return path


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: folder / "none.jsonl", "none.jsonl: the report can't be read: No such file"),
        (lambda folder: folder, "remedy: name the *.jsonl reports in it"),
        (broken, "broken.jsonl:1: not a line of a report"),
    ],
)
def test_a_report_that_can_not_be_read(script, tmp_path, capsys, make, words):
    assert script.told(lambda: read_report(make(tmp_path))) == script.WRONG_INPUT
    told = capsys.readouterr().err
    assert told.startswith(f"error: {tmp_path}")
    assert words in told
    assert "Traceback" not in told
    assert "remedy: " in told


def test_a_file_that_can_not_be_written_is_named(script, tmp_path, capsys):
    path = tmp_path / "absent" / "table.csv"
    assert script.told(lambda: path.write_text("")) == script.WRONG_INPUT
    assert capsys.readouterr().err == f"error: {path}: No such file or directory\n  remedy: check the path\n"


def test_what_names_no_file_is_a_fault_of_the_script(script):
    def broken_pipe():
        raise OSError(errno.EPIPE, "Broken pipe")

    with pytest.raises(BrokenPipeError):
        script.told(broken_pipe)


def test_an_exit_code_is_handed_on(script):
    assert script.told(lambda: 1) == 1


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "0", "1e999", "ten", ""])
def test_no_limit_of_time(script, text):
    with pytest.raises(argparse.ArgumentTypeError, match="no number of seconds above 0"):
        script.seconds(text)


def test_limit_of_time(script):
    assert script.seconds("0.5") == 0.5


def test_a_file_to_write_is_looked_at_before_the_work(script, tmp_path):
    assert script.output(str(tmp_path / "table.md")) == tmp_path / "table.md"
    with pytest.raises(argparse.ArgumentTypeError, match=r"no folder .*absent is here for table\.md; make it first"):
        script.output(str(tmp_path / "absent" / "table.md"))
    with pytest.raises(argparse.ArgumentTypeError, match="is a folder; name a file in it"):
        script.output(str(tmp_path))


@pytest.mark.parametrize("name", ["builds_table", "measure_speed", "suite_goals", "tier_table"])
def test_every_script_that_writes_does_so(name):
    assert "type=output" in (SCRIPTS / f"{name}.py").read_text()


def test_without_a_browser_no_picture_is_drawn(script, tmp_path, monkeypatch, capsys):
    pytest.importorskip("playwright")
    screenshots = script_module("screenshots")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PORTKIT_CHROMIUM", raising=False)
    assert script.told(screenshots.chromium) == script.WRONG_INPUT
    assert "no Chromium is here\n  remedy: scripts/chromium.sh installs one" in capsys.readouterr().err
    monkeypatch.setenv("PORTKIT_CHROMIUM", "/opt/chrome")
    assert screenshots.chromium() == "/opt/chrome"


@pytest.mark.parametrize("name", READERS)
def test_every_script_that_reads_reports_tells_it(name):
    text = (SCRIPTS / f"{name}.py").read_text()
    assert text.endswith(("sys.exit(told(main))\n", "sys.exit(told(partial(main, sys.argv[1:])))\n"))
