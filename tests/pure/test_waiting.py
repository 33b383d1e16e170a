"""What a command says while it is at work."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from portkit.cli import cli, reading, report, waiting
from portkit.cli.waiting import said_while

KEPT = Path(__file__).parents[2] / "reports" / "diverging-2026-11-30"


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(waiting, "_is_watched", lambda: True)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("first", "said"), [(60.0, False), (0.01, True)])
def test_a_word_comes_where_it_takes_long_alone(monkeypatch, capsys, first, said):
    monkeypatch.setattr(waiting, "FIRST_SECONDS", first)
    monkeypatch.setattr(waiting, "NEXT_SECONDS", 0.01)
    threads, told = threading.active_count(), ""
    with said_while("portkit savings: reading reports"):
        until = time.monotonic() + (5.0 if said else 0.05)
        while told.count("\n") < 2 and time.monotonic() < until:
            time.sleep(0.01)
            told += capsys.readouterr().err
    assert threading.active_count() == threads
    assert (told.splitlines()[:2] == ["portkit savings: reading reports, 0 s"] * 2) == said
    assert bool(told) == said


def test_a_file_or_a_pipe_gets_none(monkeypatch, capsys):
    monkeypatch.setattr(waiting, "FIRST_SECONDS", 0.0)
    with said_while("reading"):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_a_command_says_its_name(monkeypatch):
    begun = []
    monkeypatch.setattr(reading, "said_while", lambda text: begun.append(text) or contextlib.nullcontext())
    CliRunner().invoke(cli, ["findings", "/nowhere"], prog_name="portkit")
    assert begun == ["portkit findings: reading reports"]


def test_a_page_of_many_cells_is_no_silence(monkeypatch, tmp_path):
    begun = []
    for module in (reading, report):
        monkeypatch.setattr(module, "said_while", lambda text: begun.append(text) or contextlib.nullcontext())
    CliRunner().invoke(cli, ["report", str(KEPT), "--html", str(tmp_path / "page.html")], prog_name="portkit")
    assert begun == [f"portkit report: {what}" for what in ("reading reports", "comparing", "writing the page")]


@pytest.mark.usefixtures("terminal")
def test_it_ends_with_the_work_where_this_fails():
    threads = threading.active_count()
    with pytest.raises(ValueError, match="wrong"), said_while("reading"):
        raise ValueError("wrong")
    assert threading.active_count() == threads
