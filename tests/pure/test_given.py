"""Scripts take the reports that they are given as ``portkit merge`` does."""

import shutil
from pathlib import Path

import factories
import pytest
from script_modules import SCRIPTS, script_module

from portkit.errors import ReportError
from portkit.store.journal import Journal, read_report

TAKERS = (
    *("builds_table", "cell_seconds", "compare_clocks", "compare_runs", "compile_ahead"),
    *("emulated_distance", "emulated_tier", "first_in_round", "suite_goals"),
)


@pytest.fixture(scope="module")
def given():
    return script_module("given")


def report(folder, run_id):
    run = factories.header(run_id=run_id)
    journal = Journal.create(folder, run)
    journal.append(factories.record(run=run))
    journal.finish("complete")
    return journal.path


IDS = ("20260102T030405Z-0badcafe", "20260103T030405Z-0badcafe")


def test_files_and_folders_at_any_depth_in_the_order_of_their_naming(given, tmp_path):
    first, second = (report(tmp_path / name / "deep", run_id) for name, run_id in zip("ab", IDS, strict=True))
    assert given.reports([tmp_path]) == [first, second]
    assert given.reports([second, tmp_path]) == [second, first]
    assert given.reports([]) == []


def test_an_archive_is_there_until_the_script_ends(given, tmp_path):
    report(tmp_path / "run", IDS[0])
    archive = shutil.make_archive(str(tmp_path / "run"), "zip", tmp_path / "run")
    (found,) = given.reports([Path(archive)])
    assert read_report(found).header.run_id == IDS[0]


def test_what_is_left_out_is_told(given, tmp_path, capsys):
    report(tmp_path, IDS[0])
    (tmp_path / "other.jsonl").write_text("root:x:0:0\n")
    assert len(given.reports([tmp_path])) == 1
    assert "warning: left out other.jsonl: " in capsys.readouterr().err


def test_one_is_one(given, tmp_path):
    path = report(tmp_path, IDS[0])
    assert given.report(tmp_path) == path
    report(tmp_path, IDS[1])
    with pytest.raises(ReportError, match="holds 2 reports, and one is compared"):
        given.report(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReportError, match="no report in this folder"):
        given.reports([tmp_path / "empty"])


@pytest.mark.parametrize("name", TAKERS)
def test_every_script_that_is_given_reports_takes_them_so(name):
    assert "from given import report" in (SCRIPTS / f"{name}.py").read_text()
