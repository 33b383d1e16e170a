"""Seconds of the stages of a cell, and the script that sums them up."""

import itertools
import subprocess
import sys
from pathlib import Path

import factories
import pytest

import portkit
from portkit.model import Baseline, Counters, Evidence, Stage, Status
from portkit.run.stages import Stopwatch
from portkit.store.journal import Journal, read_report

SCRIPT = Path(portkit.__file__).parent.parent / "scripts" / "cell_seconds.py"
STAGES = {Stage.INPUTS: 0.5, Stage.BASELINE: 4.0, Stage.TIMING: 1.0}
BASELINES = {
    "eager": Baseline(Status.PASSED),
    "compile": Baseline(Status.PASSED, first_call_seconds=2.5),
    "liger": Baseline(Status.PASSED, first_call_seconds=1.25),
}


def test_a_stopwatch_gives_every_moment_to_a_stage():
    watch = Stopwatch(clock=iter(itertools.accumulate([0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])).__next__)
    watch.enter(Stage.RUN)  # at 1
    watch.begin()  # at 3: what was before is another cell's
    watch.enter(Stage.RUN)  # at 7
    watch.enter(Stage.COMPILE)  # at 15
    watch.enter(Stage.RUN)  # at 31
    assert watch.seconds() == {Stage.INPUTS: 4.0, Stage.RUN: 8.0 + 32.0, Stage.COMPILE: 16.0}
    assert watch.seconds()[Stage.RUN] == 8.0 + 32.0 + 64.0


def report(folder, *, cells=2, counters=0.75, **changes):
    """Cells that each took 5.5 s, 2.5 of them in torch.compile, on one GPU."""
    header = factories.header(started="2026-01-02T03:04:05+00:00")
    journal = Journal.create(folder, header)
    for n in range(cells):
        given = {"stage_seconds": STAGES, "baselines": BASELINES, "seconds": 5.5, **changes}
        record = factories.record(Evidence.MEASURED, run=header, shape=(n + 1, 8), **given)
        record = journal.append(record)
        journal.add(Counters(header.run_id, record.keys.cell_key, Evidence.MEASURED, "ncu", {}, seconds=counters))
    return journal


def run(*arguments):
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)
    return done, {line.rsplit(maxsplit=2)[0]: line.rsplit(maxsplit=2)[1:] for line in done.stdout.splitlines()[2:]}


def test_seconds_come_back_from_the_report(tmp_path):
    (first, _) = read_report(report(tmp_path).path).records
    assert first.stage_seconds == STAGES


@pytest.mark.parametrize(("most", "code"), [("3.75", 0), ("3.74", 1)])
def test_stages_of_all_cells_with_torch_compile_apart(tmp_path, most, code):
    done, lines = run(report(tmp_path).path, "--most", most)
    assert done.returncode == code, done.stderr
    assert lines["inputs"] == ["1.00", "0.50"]
    assert lines["baseline"] == ["0.50", "0.25"]  # without first calls
    assert lines["timing"] == ["2.00", "1.00"]
    assert lines["other baselines, first calls"] == ["2.50", "1.25"]
    assert lines["counters"] == ["1.50", "0.75"]
    assert lines["together"] == ["7.50", "3.75"]
    assert lines["torch.compile, first calls"] == ["5.00", "2.50"]
    assert "around cells" not in lines  # the report has no end


def test_what_is_left_of_the_time_of_a_whole_report(tmp_path, monkeypatch):
    journal = report(tmp_path)
    monkeypatch.setattr("portkit.store.journal.utc_now", lambda: "2026-01-02T03:04:25+00:00")
    journal.finish("complete")
    _, lines = run(journal.path)
    assert lines["around cells"] == ["7.50", "3.75"]  # 20 s, of which cells took 11 and counters 1.5


def test_with_the_time_of_the_command_all_of_it_counts(tmp_path):
    journal = report(tmp_path)
    assert "error: " in run(journal.path, "--wall", "30")[0].stderr  # it has no end
    journal.finish("complete")
    done, lines = run(journal.path, "--wall", "30")
    assert lines["around cells"] == ["17.50", "8.75"]
    assert "2 cells, 12.50 s a cell apart from torch.compile" in done.stdout
    assert done.returncode == 1
    other = journal.path.with_name("other.jsonl")
    other.write_bytes(journal.path.read_bytes())
    assert run(journal.path, other, "--wall", "30")[0].returncode == 2
    assert run(journal.path.parent, "--wall", "30")[0].returncode == 2


def test_a_run_that_was_broken_off_at_its_counters_tells_nothing(tmp_path):
    journal = report(tmp_path)
    journal.append(factories.record(Evidence.MEASURED, run=journal.header, shape=(9, 8), stage_seconds=STAGES))
    done, _ = run(journal.path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "1 of 3 measured cells have no counters yet" in done.stderr


def test_reports_are_summed_up(tmp_path):
    one, two = report(tmp_path / "1").path, report(tmp_path / "2", cells=1).path
    assert "3 cells, 3.75 s a cell" in run(one, two)[0].stdout


def test_cells_whose_stages_nobody_timed_tell_nothing(tmp_path):
    done, _ = run(report(tmp_path, stage_seconds={}).path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no cell was measured, or by a portkit that did not time its stages" in done.stderr
