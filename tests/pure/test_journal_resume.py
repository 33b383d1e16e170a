"""Reports of runs that were cut short and went on: the newest record counts, nothing is lost."""

import os
import tempfile
from pathlib import Path

import pytest
from factories import header, record, resume
from hypothesis import given, settings
from hypothesis import strategies as st

from portkit.errors import ReportError
from portkit.model import Outcome, Stage, Status
from portkit.store.journal import Journal, read_report
from portkit.store.merge import merge

LOST = Outcome(Status.WORKER_LOST, Stage.RUN, "signal SIGKILL")
TARGETS = ("h200", "mi300x", "a100")


def interrupted(folder, *records, cells=3, end=True):
    journal = Journal.create(folder, header(cells=cells))
    for each in records:
        journal.append(each)
    if end:
        journal.finish("interrupted")
    else:
        journal.close()
    return journal.path


def go_on(path, *records, end="complete"):
    journal, _ = Journal.reopen(path)
    journal.go_on(resume())
    for each in records:
        journal.append(each)
    if end:
        journal.finish(end)
    else:
        journal.close()
    return path


def statuses(report):
    return {each.cell.target: each.outcome.status for each in report.records}


def test_a_report_of_an_older_schema_is_not_gone_on_with(tmp_path):
    kept = Path(__file__).parents[1] / "records" / "schema1.jsonl"
    path = tmp_path / kept.name
    path.write_bytes(kept.read_bytes())
    journal, report = Journal.reopen(path)
    assert report.layout == 1
    with pytest.raises(ReportError, match="its report has schema 1") as caught:
        journal.go_on(resume(run_id=report.header.run_id))
    assert "start a new run" in caught.value.remedy
    journal.close()
    assert path.read_bytes() == kept.read_bytes()


@pytest.mark.parametrize("end", [True, False], ids=["with end line", "killed"])
def test_a_resumed_report_is_whole_and_its_newest_records_count(tmp_path, end):
    path = interrupted(tmp_path, record(outcome=LOST), record(target="mi300x"), end=end)
    before = path.read_bytes()
    go_on(path, record(target="a100"), record())
    report = read_report(path)
    assert path.read_bytes().startswith(before)
    assert statuses(report) == dict.fromkeys(TARGETS, Status.BUILT)
    assert (report.partial, report.end.records, report.end.counts) == (None, 3, {"built": 3})
    assert report.resumes == (resume(),)


def test_a_resumption_that_is_cut_short_too_can_go_on(tmp_path):
    path = interrupted(tmp_path, record())
    go_on(path, record(target="mi300x"), end=None)
    assert read_report(path).partial == "no end line, the run was killed or still goes on; 2 of 3 planned cells kept"
    go_on(path, record(target="a100"))
    report = read_report(path)
    assert (report.partial, len(report.records), len(report.resumes)) == (None, 3, 2)


@pytest.mark.parametrize("cut", [1, 2, 300])
def test_half_a_line_is_removed_before_the_run_goes_on(tmp_path, cut):
    path = interrupted(tmp_path, record(), record(target="mi300x"), end=False)
    os.truncate(path, path.stat().st_size - cut)
    lost = () if cut == 1 else (record(target="mi300x"),)  # the newline alone is no loss
    go_on(path, *lost, record(target="a100"))
    assert read_report(path).partial is None
    assert sorted(statuses(read_report(path))) == sorted(TARGETS)


@pytest.fixture(scope="module")
def resumed(tmp_path_factory):
    """A report of two resumptions."""
    path = interrupted(tmp_path_factory.mktemp("resumed"), record(outcome=LOST), record(target="mi300x"))
    go_on(path, record(outcome=LOST), end=None)
    return go_on(path, record(target="a100"), record())


@given(size=st.integers(min_value=0))
@settings(max_examples=60, deadline=None)
def test_truncation_anywhere_keeps_the_records_before_it(resumed, size):
    lines = resumed.read_bytes().splitlines(keepends=True)
    first, whole = len(lines[0]), b"".join(lines)
    content = whole[: first + size % (len(whole) - first + 1)]
    kept = content.splitlines()
    kept = kept if kept[-1] == lines[len(kept) - 1].rstrip() else kept[:-1]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.jsonl")
        path.write_bytes(content)
        report = read_report(path)
    records = [line for line in kept if line.startswith(b'{"kind":"record"')]
    assert set(statuses(report)) == {t for t in TARGETS for line in records if f'"target":"{t}"'.encode() in line}
    assert len(report.sums) == len(kept) - 1
    assert (report.partial is None) == (len(kept) == len(lines))


@given(first=st.integers(1, 10), second=st.integers(1, 10), swapped=st.booleans())
@settings(max_examples=20, deadline=None)
def test_of_two_copies_of_a_resumed_report_the_longer_counts(resumed, first, second, swapped):
    lines = resumed.read_bytes().splitlines(keepends=True)
    assert len(lines) == 10
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("a.jsonl", "b.jsonl")]
        for path, count in zip(paths, (first, second), strict=True):
            path.write_bytes(b"".join(lines[:count]))
        longer = read_report(paths[0] if first > second else paths[1])
        rows = merge(list(reversed(paths)) if swapped else paths).rows
    assert {row.record.cell.target: row.record.outcome.status for row in rows} == statuses(longer)
    assert all(row.other_runs == () for row in rows)


@pytest.fixture(scope="module")
def three_runs(tmp_path_factory):
    """Two whole runs and between them one that was resumed, and their merge."""
    folder = tmp_path_factory.mktemp("three")
    for number in (1, 2, 3):
        run = header(run_id=f"run{number}", started=f"2026-01-0{number}T00:00:00+00:00", cells=2)
        journal = Journal.create(folder, run)
        journal.append(record(run=run, outcome=LOST) if number == 2 else record(run=run))
        if number != 2:
            journal.append(record(run=run, target="mi300x", outcome=LOST))
        if number == 2:
            journal.close()
            journal, _ = Journal.reopen(journal.path)
            journal.go_on(resume(run_id=run.run_id, repeated=1))
            journal.append(record(run=run))
            journal.append(record(run=run, target="mi300x"))
        journal.finish()
    return [path.read_bytes() for path in sorted(folder.iterdir())], merge([folder])


@given(names=st.permutations(range(3)))
@settings(max_examples=6, deadline=None)
def test_a_resumed_run_merges_as_one_in_any_order(three_runs, names):
    contents, expected = three_runs
    with tempfile.TemporaryDirectory() as folder:
        for name, content in zip(names, contents, strict=True):
            Path(folder, f"{name}.jsonl").write_bytes(content)
        merged = merge([Path(folder)])
    assert (merged.headers, merged.rows) == (expected.headers, expected.rows)
    assert (merged.warnings, merged.partial) == (expected.warnings, expected.partial)
    assert [[r.run_id for r in row.records] for row in expected.rows] == [["run3", "run2", "run1"]] * 2
    assert LOST not in [other.outcome for row in expected.rows for other in row.other_runs if other.run_id == "run2"]
