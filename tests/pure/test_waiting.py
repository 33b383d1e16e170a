"""What a command says while it is at work."""

from __future__ import annotations

import threading
import time

import pytest

from portkit.cli import waiting
from portkit.cli.waiting import said_while


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


def test_it_ends_with_the_work_where_this_fails():
    threads = threading.active_count()
    with pytest.raises(ValueError, match="wrong"), said_while("reading"):
        raise ValueError("wrong")
    assert threading.active_count() == threads
