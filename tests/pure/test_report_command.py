"""``portkit report`` as a command."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from factories import header, record

from portkit.cli.report import LAYOUT_NAMES, command
from portkit.errors import ReportError
from portkit.model import Outcome, Stage, Status
from portkit.store.journal import Journal


@pytest.fixture
def reports(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    journal = Journal.create(tmp_path / "reports" / "local", header(cells=2))
    journal.append(record())
    journal.append(record(target="mi300x", outcome=Outcome(Status.COMPILE_ERROR, Stage.COMPILE, "no such thing")))
    journal.finish()
    return tmp_path


def run(*arguments):
    done = CliRunner().invoke(command, [str(each) for each in arguments], standalone_mode=False)
    if done.exception:
        raise done.exception
    return done


def test_without_arguments_it_shows_the_runs_of_this_host(reports):
    shown = run().stdout
    assert shown.startswith("1 of 1 kernel does not carry over: softmax (mi300x)\n")
    assert "portkit show 'softmax[mi300x-4096x4096-float32-w8-compiled]' reports/local\n" in shown


@pytest.mark.parametrize("layout", [each for each in LAYOUT_NAMES if each != "gitlab-code-quality"])
def test_every_layout_is_written_to_a_file(reports, layout):
    file = reports / "out" / "report.any"
    done = run("--format", layout, "-o", file)
    assert done.stdout == ""
    assert "2 rows of 1 report\n" in done.stderr
    assert "softmax" in file.read_text()


@pytest.mark.parametrize(
    ("ending", "begins"),
    [
        (".txt", "1 of 1"),
        (".md", "# Comparison"),
        (".csv", "kernel,"),
        (".json", "{"),
        (".xml", "<?xml"),
        (".tex", "%"),
    ],
)
def test_the_ending_says_the_layout(reports, ending, begins):
    run("-o", reports / f"r{ending}")
    assert (reports / f"r{ending}").read_text().startswith(begins)


def test_a_file_of_the_overview_has_lines_of_120_columns_whatever_the_terminal_has(reports, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    run("-o", reports / "r.txt")
    assert max(map(len, (reports / "r.txt").read_text().split("\n"))) > 40


def test_a_dash_is_standard_output(reports):
    pytest.importorskip("jinja2", reason="needs the extra `report`")
    pytest.importorskip("vl_convert", reason="needs the extra `report`")
    assert run("--html", "-").stdout.startswith("\n<!doctype html>") or run("--html", "-").stdout.startswith(
        "<!doctype"
    )
    assert run("-o", "-", "--format", "csv").stdout.startswith("kernel,")
    assert not (reports / "-").exists()


def test_kernels_and_targets_are_chosen(reports):
    rows = json.loads(run("-t", "mi*", "--format", "json").stdout)["rows"]
    assert [row["target"] for row in rows] == ["mi300x"]
    with pytest.raises(ReportError, match="no row of a kernel 'rope'"):
        run("-k", "rope")


def test_a_target_that_must_be_there_and_is_not_is_the_exit_code(reports):
    assert run("--expect", "h200").return_value == 0
    done = run("--expect", "b200")
    assert (done.return_value, "MISSING: no row of b200" in done.stdout) == (1, True)


def test_annotations_name_lines_of_the_matrix_that_is_here(reports):
    assert "file=" not in run("--format", "github-annotations").stdout
    assert "no matrix.yaml here" in run("--format", "github-annotations").stderr
    (reports / "kernels").mkdir()
    (reports / "kernels" / "softmax.py").write_text("import x\n\nCASE = portkit.KernelCase(name='softmax')\n")
    (reports / "matrix.yaml").write_text("kernels:\n  softmax:\ntargets: [h200, mi300x]\n")
    done = run("--format", "github-annotations")
    assert "::error file=kernels/softmax.py,line=3,title=" in done.stdout
    assert "warning" not in done.stderr


def test_a_matrix_that_has_other_kernels_is_said_to_name_no_line(reports):
    (reports / "matrix.yaml").write_text("kernels:\n  rope:\ntargets: [h200, mi300x]\n")
    done = run("--format", "github-annotations")
    assert "file=" not in done.stdout
    assert done.stderr.startswith("warning: no line is named for softmax: matrix.yaml has none of them; --matrix names")


def test_a_report_is_not_written_over(reports):
    with pytest.raises(ReportError, match="nothing is written over a report"):
        run("--html", reports / "reports" / "local" / "x.jsonl")


def test_a_page_and_plots_are_written_and_nothing_else_is_shown(reports):
    pytest.importorskip("jinja2")
    pytest.importorskip("vl_convert")
    done = run("--html", reports / "page.html", "--plots", reports / "plots")
    assert (reports / "page.html").read_text().lstrip().lower().startswith("<!doctype html>")
    assert done.stdout == ""
    assert "plots" in done.stderr
