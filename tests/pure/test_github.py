"""What GitHub shows of a comparison."""

from __future__ import annotations

import dataclasses

import pytest
from factories import header, record

from portkit.analysis.findings.rule import Finding, Severity
from portkit.analysis.rows import comparison
from portkit.model import Direction, Evidence, Expectation, Outcome, Selector, Stage, Status
from portkit.plan.places import KernelPlaces, Place
from portkit.render.github import (
    ANNOTATIONS,
    MARKER,
    annotate,
    annotation_commands,
    inert,
    job_summary,
    pull_request_comment,
)
from portkit.store.merge import Dataset, Row

BROKEN = Outcome(Status.COMPILE_ERROR, Stage.COMPILE, "error: @octo-org see #12 <img src=x> | `rm`")


def finding(severity=Severity.WARNING, **changes):
    given = Finding(
        rule="PK203",
        title="Spills",
        severity=severity,
        kernel="softmax",
        direction=Direction.FORWARD,
        shape=(4096, 4096),
        dtype="float32",
        variant="w8",
        targets=("h200",),
        against=("mi300x",),
        evidence=(Evidence.COMPILED,),
        explanation="On h200 it spills 12 %: more\nthan elsewhere.",
        remedy="Smaller tiles.",
        page="docs/rules/PK203.md",
        runs=("r",),
    )
    return dataclasses.replace(given, **changes)


def shown(*records, findings=()):
    rows = tuple(Row(each, (), older_source=False) for each in records)
    return dataclasses.replace(comparison(Dataset((header(),), rows, (), {}), explain=False), findings=tuple(findings))


def test_the_summary_says_first_what_does_not_carry_over():
    text = job_summary(shown(record(), record(target="mi300x", outcome=BROKEN), findings=[finding()]))
    parts = [part for part in text.split("\n\n") if part]
    assert parts[1] == "**1 of 1 kernel does not carry over: softmax (mi300x)**"
    assert "| kernel | h200 | mi300x |\n| --- | --- | --- |\n| softmax | C✅ | C❌ |" in text
    assert text.index("### Not good, and why") < text.index("### Kernels by target") < text.index("### Findings")
    assert text.index("### Findings") < text.index("<summary>2 rows")
    assert text.count("<details>") == text.count("</details>")


def test_nothing_of_a_report_is_markup_a_mention_or_a_reference():
    text = job_summary(shown(record(target="mi300x", case="k_*_@me", outcome=BROKEN)))
    assert "@octo-org" not in text
    assert "#12" not in text
    assert "<img" not in text
    assert r"\`rm\`" in text
    assert r"k\_\*\_" in text


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("https://evil.example", "://"),
        ("www.evil.example", "www."),
        ("@a/b", "@a"),
        ("#1", "#1"),
        ("**b**", "**"),
        ("~~s~~", "~~"),
        ("a _i_", " _i"),
        ("$x$", "$x"),
        ("$`x`$", "$\\`"),
    ],
)
def test_inert_texts_have_no_sign_that_github_acts_on(text, sign):
    assert sign not in inert(text)


def many(count):
    outcomes = (Outcome(Status.BUILT), BROKEN)
    return [record(variant=f"v{number}", outcome=outcomes[number % 2]) for number in range(count)]


def test_a_comment_is_cut_at_whole_rows_and_says_what_is_left_out():
    made = pull_request_comment(shown(*many(1500), findings=[finding(variant=f"v{n}") for n in range(3)]))
    assert len(made) <= 65_536
    assert len(made) > 60_000
    assert made.startswith(MARKER)
    table = [line for line in made.split("\n") if line.startswith("| softmax | forward")]
    assert {line.count(" | ") for line in table} == {17}
    assert f"*{1500 - len(table)} more rows left out" in made
    assert made.rstrip().endswith("</sub>")
    assert made.count("<details>") == made.count("</details>")


def test_the_summary_is_counted_in_bytes(monkeypatch):
    monkeypatch.setattr("portkit.render.github.SUMMARY_BYTES", 20_000)
    made = job_summary(shown(*many(300)))
    assert 18_000 < len(made.encode()) <= 20_000
    assert len(made) < len(made.encode())
    assert "more rows left out" in made


def test_what_fits_is_whole():
    text = pull_request_comment(shown(*many(20)))
    assert "left out" not in text
    assert text.count("| softmax | forward") == 20


PLACES = {"softmax": KernelPlaces(Place("kernels/softmax.py", 90), {"_softmax": Place("kernels/softmax.py", 12)})}


def test_an_annotation_names_file_and_line_of_the_kernel():
    made = annotate(shown(record(), findings=[finding()]), PLACES, lambda found: ["_helper", "_softmax"])
    assert annotation_commands(made) == (
        "::warning file=kernels/softmax.py,line=12,title=PK203 Spills::softmax 4096x4096 float32 w8: "
        "On h200 it spills 12 %25: more%0Athan elsewhere. Remedy: Smaller tiles."
    )


def test_without_a_known_function_it_is_the_declaration_and_without_a_file_none():
    (of_case,) = annotate(shown(record(), findings=[finding()]), PLACES)
    assert of_case.place == Place("kernels/softmax.py", 90)
    (of_none,) = annotate(shown(record(), findings=[finding(kernel="rope")]), PLACES)
    assert "file=" not in annotation_commands([of_none])


def test_what_is_bad_and_no_finding_tells_is_an_error():
    made = shown(record(target="mi300x", outcome=BROKEN), record(case="rope", outcome=BROKEN))
    told = finding(Severity.ERROR, targets=("mi300x",))
    levels = [(each.level, each.title) for each in annotate(dataclasses.replace(made, findings=(told,)), {})]
    assert levels == [("error", "compile_error on h200"), ("error", "PK203 Spills")]


def test_a_gap_that_has_closed_is_an_error():
    expected = Expectation(Selector(), Status.OUT_OF_RESOURCES, "was so once", "matrix.yaml:3")
    (made,) = annotate(shown(record(expectation=expected)), PLACES)
    assert (made.level, made.title, made.place) == ("error", "built on h200", PLACES["softmax"].case)
    assert "the gap has closed" in made.message


def test_a_step_has_ten_of_a_level_and_the_last_says_how_many_more():
    found = [finding(kernel=f"k{number}") for number in range(25)]
    lines = annotation_commands(annotate(shown(record(), findings=found), {})).split("\n")
    assert len(lines) == ANNOTATIONS
    assert lines[-1] == "::warning title=portkit::16 more warnings: portkit report and portkit findings have them"


def test_no_text_ends_a_command_or_begins_another():
    hostile = finding(title="a,b:c::d", explanation="x\n::set-env name=PATH::evil\r\x1b[31m")
    (line,) = annotation_commands(annotate(shown(record(), findings=[hostile]), PLACES)).split("\n")
    assert "title=PK203 a%2Cb%3Ac%3A%3Ad::" in line
    assert "%0A::set-env name=PATH::evil" in line
    assert "\x1b" not in line
