"""What a run says while it goes on, and at its end."""

import dataclasses
import io

from factories import cell, record
from rich.console import Console

from portkit.model import Evidence, Outcome, Status
from portkit.run.progress import LINE_SECONDS, LiveLine, PlainLines, Tally, duration, failed, summary


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


BAD = record(target="mi300x", outcome=Outcome(Status.WRONG_RESULT))
EXPECTED = dataclasses.replace(BAD, expected=Status.WRONG_RESULT)


def test_counts_and_the_time_left():
    clock = Clock()
    tally = Tally(clock)
    tally.begin(10, [record(), BAD, EXPECTED])
    assert tally.text() == "3 of 10 cells done, 1 failed, 7 left"
    tally.start(Evidence.COMPILED, cell(target="a100"))
    tally.start(Evidence.COMPILED, cell(target="l4"))
    clock.now += 20
    tally.add(record(target="a100"))
    assert tally.text() == (
        "4 of 10 cells done, 1 failed, 6 left, about 2 min to go; now softmax[l4-4096x4096-float32-w8-compiled]"
    )


def test_plain_lines_come_now_and_then_and_end_with_the_run():
    clock, lines = Clock(), []
    plain = PlainLines(lines.append, clock)
    plain.begin(3, [])
    plain.finished(record())
    assert lines == []
    clock.now += LINE_SECONDS
    plain.idle()
    plain.idle()
    assert [line.split(",")[0] for line in lines] == ["1 of 3 cells done"]
    clock.now += LINE_SECONDS
    plain.finished(BAD)
    assert lines[1].startswith("2 of 3 cells done, 1 failed, 1 left")


def test_counters_follow_the_cells():
    clock, lines = Clock(), []
    plain = PlainLines(lines.append, clock)
    plain.begin(1, [])
    plain.finished(record())
    plain.counting(0, 40)
    clock.now += LINE_SECONDS
    plain.counting(12, 40)
    assert lines == ["counters: 12 of 40"]


def test_the_live_line_goes_when_the_run_ends():
    written = io.StringIO()
    live = LiveLine(Console(file=written, force_terminal=True, width=120))
    live.begin(2, [])
    live.started(Evidence.COMPILED, cell())
    live.finished(record())
    live._bar.refresh()
    live.close()
    assert "1 of 2 cells done, 0 failed, 1 left" in written.getvalue()
    assert written.getvalue().endswith("\x1b[2K")  # the line is erased


def test_the_summary_counts_and_names_the_slowest():
    slow = dataclasses.replace(record(), seconds=41.25)
    assert list(summary([slow, BAD, dataclasses.replace(BAD, seconds=0.5)])) == [
        "cells:   1 passed, 2 failed, 0 expected, 0 excluded",
        "status:  2 wrong_result, 1 built",
        "slowest: 41.2 s softmax[h200-4096x4096-float32-w8-compiled]",
    ]
    assert list(summary([])) == []
    _, kernels, *_ = summary([BAD], {"rope": "can't be imported", "gelu": "is no kernel file"})
    assert kernels == "kernels: 2 can't be used, so no cell is of rope, gelu"


def test_cells_are_counted_as_pytest_calls_them():
    skipped = [record(outcome=Outcome(status)) for status in (Status.EXCLUDED, Status.BACKEND_MISSING)]
    closed = dataclasses.replace(record(), expected=Status.WRONG_RESULT)
    first, *_ = summary([record(), EXPECTED, BAD, closed, *skipped])
    assert first == "cells:   1 passed, 2 failed, 1 expected, 2 excluded"
    assert failed([record(), EXPECTED, BAD, closed, *skipped]) == [BAD, closed]


def test_durations():
    assert [duration(s) for s in (0.4, 89, 100, 7200)] == ["0 s", "89 s", "2 min", "2.0 h"]
