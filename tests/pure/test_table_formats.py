"""The rows of a comparison in formats for other programs: CSV, LaTeX, JUnit."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from factories import header, record, timing
from factories import launch as make_launch

from portkit.analysis.rows import comparison
from portkit.cli.merge import command
from portkit.model import Build, Direction, Evidence, Expectation, Outcome, Selector, Stage, Status
from portkit.render.delimited import inert
from portkit.render.latex import latex
from portkit.render.table import LAYOUTS, render
from portkit.store.journal import Journal
from portkit.store.merge import Dataset, Row

FIELDS = [
    "kernel",
    "direction",
    "shape",
    "dtype",
    "variant",
    "target",
    "partition",
    "architecture",
    "evidence",
    "older_source",
    "status",
    "expected",
    "cause",
    "registers_per_thread",
    "launches",
    "configurations",
    "configurations_usable",
    "spill_bytes_per_thread",
    "shared_bytes_per_block",
    "occupancy_theoretical_pct",
    "occupancy_limiter",
    "occupancy_achieved_pct",
    "occupancy_achieved_elapsed_pct",
    "events_median_ms",
    "events_low_ms",
    "events_high_ms",
    "trace_median_ms",
    "speedup_events_ratio",
    "speedup_events_low_ratio",
    "speedup_events_high_ratio",
    "speedup_trace_ratio",
    "fusion_bound_ratio",
    "share_of_bound_ratio",
    "error_relative",
    "error_limit_relative",
    "error_over_limit_ratio",
    "triton",
    "run_id",
    "host_id",
    "device_id",
    "cell_key",
    "cell_seconds",
    "nulls",
]

BEYOND = [
    *("occupancy_kind", "nonfinite", "other_runs", "throttled", "settled", "functions", "roofline", "emulated"),
    *("ranges", "repeats", "apart", "incomparable", "no_verdict", "platform"),
]
"""Fields of a row that JSON has and CSV has not."""

HOSTILE = "=cmd|'/c calc'!A0"


def shown(layout, *records):
    rows = tuple(Row(each, (), older_source=False) for each in records)
    return render(comparison(Dataset((header(),), rows, (), {}), explain=False), layout)


def lines(*records):
    return list(csv.DictReader(io.StringIO(shown("csv", *records))))


def test_names_and_order_of_fields_are_those_that_readers_know():
    for records in ((), (record(),), (record(Evidence.MEASURED), record(Evidence.INTERPRETED, target="interpreter"))):
        assert next(csv.reader(io.StringIO(shown("csv", *records)))) == FIELDS


def test_json_has_the_fields_of_csv_by_the_same_names_and_then_the_others():
    records = (record(), record(Evidence.MEASURED), record(direction=Direction.BACKWARD))
    data = json.loads(shown("json", *records))
    assert [row["kernel"] for row in data["rows"]] == ["softmax"] * 3
    for row, line in zip(data["rows"], lines(*records), strict=True):
        assert list(row)[: len(FIELDS) - 1] == FIELDS[:-1]
        assert set(row) == {*FIELDS, *BEYOND}
        assert list(row)[-1] == "nulls"
        assert row["nulls"] == json.loads(line["nulls"]) | {k: v for k, v in row["nulls"].items() if k not in line}
        for name in ("events_median_ms", "speedup_trace_ratio", "error_relative", "cell_seconds"):
            assert line[name] == ("" if row[name] is None else str(row[name]))


@pytest.mark.parametrize("layout", ["markdown", "latex"])
def test_tables_have_the_same_columns_whatever_the_rows_are(layout):
    def heads(*records):
        lines = shown(layout, *records).split("\n")
        return next(re.findall(r"[A-Za-z÷/× ]+", line) for line in lines if "kernel" in line and "variant" in line)

    forward, both = heads(record()), heads(record(), record(direction=Direction.BACKWARD))
    assert [head.strip() for head in forward] == [head.strip() for head in both]
    assert "direction" in [head.strip() for head in forward]


def test_figures_have_full_precision_and_what_is_unknown_is_empty_with_its_reason():
    measured, built = lines(record(Evidence.MEASURED, timing=timing(fused_ms=1 / 3, eager_ms=1.0)), record())
    assert (float(measured["events_median_ms"]), float(measured["speedup_events_ratio"])) == (1 / 3, 3.0)
    assert measured["occupancy_theoretical_pct"] == "100.0"
    assert (built["events_median_ms"], built["older_source"], built["expected"]) == ("", "false", "false")
    reasons = json.loads(built["nulls"])
    assert reasons["events_median_ms"] == "only a GPU has a time"
    assert not {name for name, why in reasons.items() if built[name]}


def test_every_empty_figure_has_its_reason():
    figures = set(FIELDS[FIELDS.index("occupancy_achieved_pct") : FIELDS.index("triton")])
    for line in lines(record(Evidence.MEASURED), record(), record(Evidence.INTERPRETED, target="interpreter")):
        empty = {name for name in figures if not line[name]}
        assert empty == figures & set(json.loads(line["nulls"]))


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "\r=1"])
def test_no_text_of_a_report_is_a_formula(text):
    assert inert(text).startswith("'")


@pytest.mark.parametrize("text", ["softmax", "1e-3", "a=b", "", "<b>"])
def test_other_texts_stay(text):
    assert inert(text) == text


def test_hostile_names_are_text_in_csv():
    outcome = Outcome(Status.COMPILE_ERROR, Stage.COMPILE, '@SUM(1)\n"quoted", and a line')
    (line,) = lines(record(case=HOSTILE, variant="-2+3", outcome=outcome))
    assert (line["kernel"], line["variant"]) == (f"'{HOSTILE}", "'-2+3")
    assert line["cause"] == '\'@SUM(1)\n"quoted", and a line'


def test_a_negative_figure_stays_a_number():
    (line,) = lines(record(seconds=-1.5))  # no run takes that; the format does not judge
    assert float(line["cell_seconds"]) == -1.5


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("100 %", r"100 \%"),
        ("a_b & c#d $x^2 ~", r"a\_b \& c\#d \$x\textasciicircum{}2 \textasciitilde{}"),
        (r"\input{/etc/passwd}", r"\textbackslash{}input\{/etc/passwd\}"),
        ("× 2.5 µs ≥ 1", r"\texttimes{} 2.5 \textmu{}s $\geq$ 1"),
        ("[1] <b>", r"{[}1{]} \textless{}b\textgreater{}"),
        ("a\nb\x1b[31m\x07", "a b?"),
        ("é 世 😀", "é ? ?"),
    ],
)
def test_latex_prints_a_text_as_it_is(text, printed):
    assert latex(text) == printed


def test_the_latex_table_has_a_row_a_line_with_as_many_cells_as_heads():
    text = shown("latex", record(case=r"soft\max_&%"), record(Evidence.MEASURED))
    table = text[text.index("\\toprule") : text.index("\\bottomrule")]
    rows = [line for line in table.split("\n") if line.endswith("\\\\")]
    assert len(rows) == 3
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {17}
    assert rows[1].startswith(r" soft\textbackslash{}max\_\&\% ")
    assert text.index("\\midrule\n\\endhead") < text.index(rows[1])
    assert text.count("{") - text.count("\\{") == text.count("}") - text.count("\\}")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_pdflatex_takes_the_table_whatever_names_a_report_has(tmp_path):
    name = "[x]\\input{/etc/passwd} 100%_&#$^~{}<>|\"'` × ÷ ± µ † – — … → ≥ ≤ − · ² é 世 😀"
    told = Outcome(Status.COMPILE_ERROR, Stage.COMPILE, "50% [of] \\it & _x_ \\end{longtable}")
    (tmp_path / "table.tex").write_text(shown("latex", record(case=name, outcome=told), record()), encoding="utf-8")
    page = r"\documentclass{article}\usepackage{booktabs,longtable}\begin{document}\tiny\input{table}\end{document}"
    (tmp_path / "page.tex").write_text(page, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]


def test_notes_of_the_latex_table_follow_it():
    text = shown("latex", record(outcome=Outcome(Status.COMPILE_ERROR, Stage.COMPILE, "50 % of it")))
    assert r"compile\_error {[}1{]}" in text
    assert "\\item[1] 50 \\% of it" in text


def test_a_latex_table_without_rows_is_whole():
    assert shown("latex").endswith("\\endhead\n\\bottomrule\n\\end{longtable}\n")


def junit(*records):
    return ElementTree.fromstring(shown("junit", *records))


EXPECTATION = Expectation(Selector(), Status.OUT_OF_RESOURCES, "too large", "matrix.yaml:3")


@pytest.mark.parametrize(
    ("made", "tag"),
    [
        (record(), None),
        (record(outcome=Outcome(Status.WRONG_RESULT, Stage.VERIFY, "far off")), "failure"),
        (record(outcome=Outcome(Status.WORKER_LOST, Stage.RUN, "killed")), "error"),
        (record(outcome=Outcome(Status.TIMEOUT, Stage.COMPILE, "180 s")), "failure"),
        (record(outcome=Outcome(Status.TIMEOUT, Stage.REFERENCE, "300 s")), "error"),
        (record(outcome=Outcome(Status.EXCLUDED, Stage.PLAN, "not here")), "skipped"),
        (record(outcome=Outcome(Status.OUT_OF_RESOURCES, Stage.LIMITS), expectation=EXPECTATION), "skipped"),
        (record(expectation=EXPECTATION), "failure"),  # the gap has closed
    ],
    ids=lambda each: each if isinstance(each, str) else None,
)
def test_how_ci_counts_a_row(made, tag):
    (suite,) = junit(made)
    (case,) = suite
    assert [each.tag for each in case if each.tag != "properties"] == ([tag] if tag else [])
    counts = {"failure": "failures", "error": "errors", "skipped": "skipped"}
    assert {name: suite.get(name) for name in ("tests", *counts.values())} == {
        "tests": "1",
        **{name: str(int(counts.get(tag) == name)) for name in counts.values()},
    }


def test_a_case_has_name_time_and_figures():
    ((case,),) = junit(record(Evidence.MEASURED, build=Build((make_launch(77),), "b")))
    assert case.attrib == {
        "classname": "h200.softmax",
        "name": "softmax[h200-4096x4096-float32-w8-measured]",
        "time": "0.250",
    }
    properties = {each.get("name"): each.get("value") for each in case.iter("property")}
    assert (properties["registers_per_thread"], properties["events_median_ms"]) == ("77", "0.5")
    assert "occupancy_achieved_pct" not in properties  # unknown, so left out


def test_a_suite_a_target():
    suites = junit(record(), record(target="mi300x"), record(variant="w4"))
    assert [(suite.get("name"), suite.get("tests")) for suite in suites] == [("h200", "2"), ("mi300x", "1")]


def test_hostile_text_is_text_in_junit():
    told = '"]]></failure><testcase name="x"/>\x00\ufffe'
    ((case,),) = junit(record(case="<k>&", outcome=Outcome(Status.COMPILE_ERROR, Stage.COMPILE, told)))
    assert case.find("failure").get("message") == 'compile_error: "]]></failure><testcase name="x"/>??'
    assert case.get("classname") == "h200.<k>&"


@pytest.mark.parametrize(("ending", "begins"), [("csv", "kernel,"), ("tex", "% Made by"), ("xml", "<?xml")])
def test_merge_writes_the_layout_of_the_ending(tmp_path, ending, begins):
    journal = Journal.create(tmp_path, header())
    journal.append(record())
    journal.finish()
    done = CliRunner().invoke(command, [str(tmp_path), "-o", str(tmp_path / f"c.{ending}")], standalone_mode=False)
    assert (done.exception, done.return_value) == (None, 0)
    assert (tmp_path / f"c.{ending}").read_text().startswith(begins)


def test_markdown_is_githubs():
    assert LAYOUTS["markdown"] is LAYOUTS["github"]
