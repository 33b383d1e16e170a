"""Findings as people and programs get them: pages, commands, the comparison."""

import dataclasses
import json
import re
from pathlib import Path

import factories
import pytest
from found import built, timed

import portkit
from portkit.analysis.choice import choose
from portkit.analysis.findings import Severity, findings, rule, rules
from portkit.analysis.findings.summary import alike, top
from portkit.analysis.rows import comparison
from portkit.cli import main
from portkit.errors import ReportError
from portkit.model import SIGNALS, Evidence
from portkit.render.table import render
from portkit.store.journal import Journal
from portkit.store.merge import Dataset, merge

DOCS = Path(portkit.__file__).parent.parent / "docs"
PLAIN, MATRIX = {"dot.f32": 1, "fma.f32": 64}, {"dot.f32": 1, "matrix.f32": 8}


@pytest.mark.parametrize("one", rules(), ids=lambda each: each.id)
def test_every_rule_has_its_page(one):
    text = (DOCS / "rules" / f"{one.id}.md").read_text(encoding="utf-8")
    prose = " ".join(text.split())
    assert text.startswith(f"# {one.id}: {one.title}\n\nSeverity: {one.severity}. Rests on: {one.evidence}.\n")
    for part in (one.cause, one.cost, one.remedy):
        assert " ".join(part.split()) in prose
    for head in ("Why", "Cost", "Remedy", "When", "Reads like"):
        assert f"\n## {head}\n" in text
    assert f"| [{one.id}](rules/{one.id}.md) | {one.title} | {one.severity} |" in (DOCS / "findings.md").read_text()
    assert one.page == f"docs/rules/{one.id}.md"


def test_pages_are_of_rules():
    assert {each.stem for each in (DOCS / "rules").iterdir()} == {each.id for each in rules()}


def test_ids_are_in_order_and_of_a_kind():
    ids = [each.id for each in rules()]
    assert ids == sorted(set(ids))
    assert all(re.fullmatch(r"PK[1-5]\d\d", name) for name in ids)
    assert {name[2] for name in ids} == set("12345")


def test_every_signal_is_explained():
    text = (DOCS / "findings.md").read_text(encoding="utf-8")
    assert [name for name, meaning in SIGNALS.items() if f"| `{name}` | {meaning} |" not in text] == []


def test_rules_ask_for_signals_that_there_are():
    folder = Path(portkit.__file__).parent / "analysis" / "findings"
    named = re.compile(r'"((?:dot|matrix|fma|mul_add|ask|library)\.\w+|(?:async|atomic|exp|fp8|division)_\w+)"')
    asked = {name for path in folder.glob("pk*.py") for name in named.findall(path.read_text(encoding="utf-8"))}
    assert asked
    assert asked <= set(SIGNALS)


@pytest.mark.parametrize("name", ["PK203", "pk203"])
def test_explain(name, capsys):
    assert main(["explain", name]) == 0
    told = " ".join(capsys.readouterr().out.split())
    for part in (rule("PK203").title, rule("PK203").cause, rule("PK203").remedy, "docs/rules/PK203.md"):
        assert part in told


def test_the_environment_sets_the_width_through_a_pipe(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["explain", "PK203"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 60


def test_explain_lists_all(capsys):
    assert main(["explain"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [each.id for each in rules()]


def test_explain_an_unknown_rule(capsys):
    assert main(["explain", "PK999"]) == 2
    assert "no rule 'PK999'" in capsys.readouterr().err


def test_an_unknown_rule_is_an_error():
    with pytest.raises(ReportError, match="no rule 'PK20'"):
        rule("PK20")


@pytest.fixture
def report(tmp_path):
    """A report of one operation on two targets, of which one has no matrix instructions; and one over its limit."""
    rows = [
        built("mi300x", PLAIN, limits_broken=("shared memory 98304 B > 65536 B",)),
        built("rx7900xtx", PLAIN),
        built("h200", MATRIX),
    ]
    header = factories.header(cells=len(rows))
    journal = Journal.create(tmp_path, header)
    for row in rows:
        journal.append(row.record)
    journal.finish()
    return tmp_path


def test_findings_as_data(report, capsys):
    assert main(["findings", str(report), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["rule"], each["targets"], each["against"]) for each in found] == [
        ("PK103", ["mi300x"], ["h200", "rx7900xtx"]),
        ("PK201", ["mi300x", "rx7900xtx"], ["h200"]),
    ]
    assert set(found[0]) == {
        *("rule", "title", "severity", "kernel", "direction", "shape", "dtype", "variant", "targets", "against"),
        *("evidence", "explanation", "remedy", "page", "runs"),
    }
    assert found[0]["severity"] == "error"
    assert found[1]["evidence"] == ["compiled"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ["PK103", "PK201"]),
        (["-r", "PK2*"], ["PK201"]),
        (["-r", "pk103,PK201"], ["PK103", "PK201"]),
        (["--severity", "error"], ["PK103"]),
        (["-t", "rx*"], ["PK201"]),
        (["-k", "softmax"], ["PK103", "PK201"]),
        (["-t", "h200"], []),
    ],
)
def test_a_choice_of_findings(report, options, expected, capsys):
    assert main(["findings", str(report), *options]) == 0
    out = capsys.readouterr().out
    assert re.findall(r"^PK\d+", out, re.M) == expected
    assert ("no findings" in out) == (not expected)


@pytest.mark.parametrize(("option", "what"), [("-k", "kernel"), ("-t", "target")])
def test_a_name_that_no_row_has_is_a_slip(report, option, what, capsys):
    assert main(["findings", str(report), option, "no_such"]) == 2
    assert f"no row of a {what} 'no_such'" in capsys.readouterr().err


def test_findings_of_no_rule(report, capsys):
    assert main(["findings", str(report), "-r", "PK9*"]) == 2
    assert "no rule 'PK9*'" in capsys.readouterr().err


@pytest.mark.parametrize("layout", ["github", "plain"])
def test_the_comparison_shows_findings(report, layout, capsys):
    assert main(["merge", str(report), "--format", layout]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "PK103 error: Shared memory over the limit of some targets" in out
    assert "Never run (only built), so what it costs in time is not known" in out
    assert main(["merge", str(report), "--format", layout, "--findings", "1"]) == 0
    out = capsys.readouterr().out
    assert "PK201" not in out
    assert "… and 1 more: --findings all" in out
    assert main(["merge", str(report), "--format", layout, "--findings", "all"]) == 0
    assert "PK201" in capsys.readouterr().out


def test_the_data_of_the_comparison_has_all_findings(report, capsys):
    for most, expected in (("1", ["PK103", "PK201"]), ("0", [])):
        assert main(["merge", str(report), "--format", "json", "--findings", most]) == 0
        assert [each["rule"] for each in json.loads(capsys.readouterr().out)["findings"]] == expected


def test_a_count_of_findings_that_is_none(report, capsys):
    assert main(["merge", str(report), "--findings", "some"]) == 2
    assert "'some' is neither a number nor all" in capsys.readouterr().err


def test_a_choice_of_rows_is_one_of_findings_too(report):
    whole = comparison(merge([report]))
    assert {each.rule for each in choose(whole, targets=["rx7900xtx"]).findings} == {"PK201"}


def test_a_choice_of_rows_is_counted_anew(report):
    whole = comparison(merge([report]))
    part = choose(whole, targets=["rx7900xtx"])
    assert sum(sum(of_it.values()) for of_it in part.counts.values()) == len(part.rows) < len(whole.rows)
    assert choose(whole).counts == whole.counts


def test_findings_that_are_alike_stand_once():
    rows = [built(t, s, variant=v) for v in ("a", "b", "c") for t, s in (("mi300x", PLAIN), ("h200", MATRIX))]
    dataset = Dataset((factories.header(),), tuple(rows), (), {})
    found = findings(dataset)
    assert [each.variant for each in found] == ["a", "b", "c"]
    (group,) = alike(found)
    assert (group.operations, group.others) == (3, 2)
    assert "float32 a and 2 more" in render(comparison(dataset), "plain")


def test_the_first_are_of_several_rules():
    """Two warnings of one rule and one of another: the second of the first rule comes after."""
    over = {"limits_broken": ("threads 2048 > 1024",)}
    rows = [
        *[built(t, s, variant=v) for v in "ab" for t, s in (("mi300x", PLAIN), ("h200", MATRIX))],
        built("mi300x", PLAIN, variant="c", **over),
        built("h200", MATRIX, variant="c"),
    ]
    groups = [dataclasses.replace(each, operations=1) for each in alike(findings(Dataset((), tuple(rows), (), {})))]
    assert [each.first.rule for each in groups] == ["PK105", "PK201"]
    twice = [groups[1], groups[1], groups[0]]
    kept, more = top(sorted(twice, key=lambda each: each.first.severity.rank), 2)
    assert ([each.first.rule for each in kept], more) == (["PK105", "PK201"], 1)
    assert top(groups, None) == (tuple(groups), 0)
    assert [each.rank for each in Severity] == [0, 1, 2]


def test_a_reference_and_portability_in_the_tables():
    rows = [timed("h200", 0.5, 1.0), timed("mi300x", 0.8, 1.2), built("rx7900xtx")]
    dataset = Dataset((factories.header(),), tuple(rows), (), {})
    text = render(comparison(dataset, "h200"), "github")
    assert "## Against h200" in text
    assert "on mi300x (events): 0.62 × the speed of h200, 0.75 × its speedup over eager" in text
    assert "h200 1.00, mi300x 1.00 (1 more target without a time); PP 1.00 over all (h200, mi300x)" in text
    assert "## Against" not in render(comparison(dataset), "github")
    data = json.loads(render(comparison(dataset, "h200"), "json"))
    assert data["ratios"][0]["speed"] == pytest.approx(0.625)
    assert data["portability"][0]["shares"][0]["cascade"] == [["h200", 1.0], ["mi300x", 1.0]]


def test_variants_in_the_tables():
    rows = [
        timed(t, ms, variant=v)
        for v, t, ms in (("a", "h200", 1), ("b", "h200", 2), ("a", "mi300x", 3), ("b", "mi300x", 1))
    ]
    text = render(comparison(Dataset((factories.header(),), tuple(rows), (), {})), "plain")
    told = " ".join(text.split())
    assert "fastest a on h200; b on mi300x" in told
    assert "a costs 3.00 × on mi300x; b costs 2.00 × on h200" in told
    assert "best single variant b, PP 0.67, costs 2.00 × on h200 " in told


def test_a_winner_is_told_once_and_what_costs_nothing_is_left_out():
    rows = [timed(t, ms, variant=v) for t in ("h200", "a100", "mi300x") for v, ms in (("a", 1.0), ("b", 1.01))]
    text = " ".join(render(comparison(Dataset((factories.header(),), tuple(rows), (), {})), "plain").split())
    assert "fastest a on a100, h200, mi300x " in text
    assert "no winner of a target costs more than 2 % on another" in text
    assert "best single variant a, PP 1.00, costs less than 2 % anywhere" in text


def test_one_target_has_an_efficiency_and_no_portability_is_told_of_it():
    text = " ".join(render(comparison(Dataset((factories.header(),), (timed("h200"),), (), {})), "plain").split())
    assert "w8 (events): h200 1.00 " in text
    assert "PP 1.00 over" not in text


def test_findings_on_measurement_are_told_once_a_device():
    rows = [timed("h200", throttled=("heat",), shape=(1, n)) for n in (1, 2, 3)]
    text = render(comparison(Dataset((factories.header(),), tuple(rows), (), {})), "plain")
    assert text.count("PK501 warning") == 1


def test_merging_leaves_rows_as_they_were(report):
    dataset = merge([report])
    before = repr(dataset)
    comparison(dataset)
    assert repr(dataset) == before
    assert {row.record.evidence for row in dataset.rows} == {Evidence.COMPILED}
