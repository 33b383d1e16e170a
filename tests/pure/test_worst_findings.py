"""The gravest findings at the end of a run: of small and large ones, whole and stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from factories import build, header, launch, record

from portkit.model import Evidence, Outcome, Status
from portkit.pytest_plugin import worst_findings as module
from portkit.pytest_plugin.worst_findings import worst_findings
from portkit.store.journal import Journal

RUN = header(cells=1000)
SHOWN_AS = Path("reports/local/run.jsonl")


def spilling(target: str, case: str = "softmax", **changes):
    return record(run=RUN, target=target, case=case, build=build(launch(64, spill=512)), **changes)


def plain(target: str, case: str = "softmax", **changes):
    return record(run=RUN, target=target, case=case, **changes)


def failing(target: str, case: str):
    over = Outcome(Status.OUT_OF_RESOURCES, message="shared memory 131072 B > 65536 B")
    broken = launch(shared=131072, limits_broken=("shared memory 131072 B > 65536 B",))
    return record(run=RUN, target=target, case=case, outcome=over, build=build(broken))


def told(folder: Path, records, *, whole: bool) -> list[str]:
    journal = Journal.create(folder, RUN)
    for each in records:
        journal.append(each)
    journal.finish("complete" if whole else "interrupted")
    return list(worst_findings(journal.path, RUN, records, SHOWN_AS, whole=whole))


def small():
    return [spilling("mi300x"), plain("h200"), failing("rx7900xtx", "attention"), plain("h200", "attention")]


@pytest.mark.parametrize("whole", [True, False])
def test_the_gravest_comes_first_whether_or_not_the_run_was_stopped(tmp_path, whole):
    lines = told(tmp_path, small(), whole=whole)
    assert lines[0].startswith("findings: PK103 error ")
    assert "attention 4096x4096 float32" in lines[0]
    assert [line.removeprefix("findings:").split()[0] for line in lines] == ["PK103", "PK101", "PK102"]


def test_a_whole_run_is_looked_at_wholly_however_large(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_AT_ONCE", 2)
    assert len(told(tmp_path, small(), whole=True)) == 3


def test_of_a_large_run_that_was_stopped_operations_that_failed_are_looked_at_first(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_AT_ONCE", 2)
    lines = told(tmp_path, small(), whole=False)
    assert "PK103 error" in lines[0]
    assert lines[1:] == ["          looked for in 2 of 4 cells, since the run was stopped"]


def test_more_than_three_are_counted_with_the_command_that_has_them(tmp_path):
    records = [each for n in range(5) for each in (spilling("mi300x", f"k{n}"), plain("h200", f"k{n}"))]
    lines = told(tmp_path, records, whole=True)
    assert len(lines) == 4
    assert lines[-1] == "          and 7 more: portkit findings reports/local/run.jsonl"


def test_a_run_without_findings_or_without_a_report_says_nothing(tmp_path):
    assert told(tmp_path, [record(Evidence.COMPILED, run=RUN)], whole=True) == []
    assert list(worst_findings(tmp_path / "none.jsonl", RUN, [], SHOWN_AS, whole=True)) == []
