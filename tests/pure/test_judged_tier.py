"""``scripts/judged_tier.py``: what of a tier a GPU judged at today's source."""

from types import SimpleNamespace

import factories
import pytest
from script_modules import script_module

from portkit.errors import HostError, ReportError
from portkit.model import (
    VERDICT_RULE,
    Evidence,
    Expectation,
    Outcome,
    Plan,
    PlannedCell,
    Selector,
    Stage,
    Status,
    digest,
)


@pytest.fixture(scope="module")
def script():
    return script_module("judged_tier")


NOW = "5" * 16
VARIANTS = {name: {"num_warps": int(name[1:])} for name in ("w1", "w2", "w4", "w8")}


@pytest.fixture(scope="module")
def prepared():
    """Four cells of an H200, of which one is a known gap; one left out and one of another target."""
    cells = [PlannedCell(factories.cell(variant=name, target="h200"), Evidence.MEASURED) for name in VARIANTS]
    out = PlannedCell(factories.cell(variant="w1", dtype="float16", target="h200"), Evidence.MEASURED, excluded="-")
    gap = Expectation(Selector(variant="w8", evidence="measured"), Status.WRONG_RESULT, "as if", "matrix.yaml:9")
    return SimpleNamespace(
        plan=Plan((*cells, out, PlannedCell(factories.cell(), Evidence.COMPILED)), "full", "0" * 16),
        matrix=SimpleNamespace(expectations=(gap,)),
        declarations={"softmax": SimpleNamespace(source_hash=NOW, variants=VARIANTS)},
        devices=(SimpleNamespace(target="h200", name="NVIDIA H200"),),
    )


def line(script, prepared, number, status="passed", *, source_hash=NOW, params=None, rule=str(VERDICT_RULE)):
    cell = prepared.plan.cells[number].cell
    axes = (cell.case, cell.direction.value, cell.shape_text, cell.dtype, cell.variant)
    kept = digest(VARIANTS[cell.variant] if params is None else params)
    message = "" if status == "passed" else "off"
    return script.Line(*axes, status, source_hash, kept, rule, "3.6.0", "NVIDIA H200", message)


def table(script, path, lines):
    script.write_lines(path, script.Line, lines)
    return path


def test_a_cell_stands_where_its_last_verdict_of_today_says(script, prepared, tmp_path):
    lines = [
        line(script, prepared, 0, "wrong_result"),
        line(script, prepared, 0),
        line(script, prepared, 1),
        line(script, prepared, 1, "launch_error"),
        line(script, prepared, 2, source_hash="0" * 16),
        line(script, prepared, 3, "wrong_result"),
    ]
    found = script.read([table(script, tmp_path / "judged.csv", lines)], "h200")
    of = script.states(prepared, "h200", found)
    state = script.State
    assert list(of.values()) == [state.PASSED, state.WRONG, state.EARLIER, state.EXPECTED]
    first, second, third, _ = of
    assert script.left(of, ()) == [second, third]
    assert script.left(of, ["w4"]) == [third]
    assert [each.split(": ")[1:] for each in script.wrong(of, found)] == [["launch_error with Triton 3.6.0", "off"]]
    told = [each.strip() for each in script.table(of).splitlines()[-1].split("|")[1:-1]]
    assert told == ["all", "4", "1", "1", "1", "1", "0", "0"]
    assert [each.status for each in script.kept(of, found, prepared)] == [
        "passed",
        "launch_error",
        "passed",
        "wrong_result",
    ]
    assert first.target == "h200"


def test_other_parameters_of_a_variant_are_another_source(script, prepared, tmp_path):
    path = table(script, tmp_path / "judged.csv", [line(script, prepared, 0, "timeout", params={"num_warps": 2})])
    of = script.states(prepared, "h200", script.read([path], "h200"))
    assert list(of.values()) == [script.State.EARLIER_WRONG, *[script.State.NEVER] * 3]


def test_a_verdict_by_another_rule_is_an_earlier_one(script, prepared, tmp_path):
    lines = [
        line(script, prepared, 0, rule="0"),
        line(script, prepared, 1),
        line(script, prepared, 2, "timeout", rule="0"),
    ]
    of = script.states(prepared, "h200", script.read([table(script, tmp_path / "judged.csv", lines)], "h200"))
    state = script.State
    assert list(of.values()) == [state.EARLIER, state.PASSED, state.EARLIER_WRONG, state.NEVER]


def test_a_table_of_before_rules_were_counted_is_read_as_the_first_and_gone_on_with(script, prepared, tmp_path):
    path, first = tmp_path / "judged.csv", line(script, prepared, 0, rule="1")
    table(script, path, [first, line(script, prepared, 1)])
    older = [each.split(",") for each in path.read_text().splitlines()]
    at = older[0].index("rule")
    path.write_text("".join(",".join([*row[:at], *row[at + 1 :]]) + "\n" for row in older))
    cells = [planned.cell for planned in prepared.plan.cells]
    assert script.read([path], "h200")[cells[0]] == [first]
    lines = script.Lines(path, script.Line, script.SCRIPT)
    lines.add(line(script, prepared, 2))
    lines.close()
    rows = [each.split(",") for each in path.read_text().splitlines()]
    assert [row[at] for row in rows] == ["rule", "1", "1", str(VERDICT_RULE)]
    assert {len(row) for row in rows} == {len(older[0])}


def test_another_file_is_not_gone_on_with(script, tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("case,target\nsoftmax,h200\n")
    with pytest.raises(ReportError, match=r"is no table of judged_tier\.py"):
        script.Lines(path, script.Line, script.SCRIPT)
    assert path.read_text() == "case,target\nsoftmax,h200\n"


def test_what_a_killed_run_left_is_gone_on_with(script, prepared, tmp_path):
    path = tmp_path / "judged.csv"
    add = script._add
    cells = [planned.cell for planned in prepared.plan.cells]
    lines = script.Lines(path, script.Line, script.SCRIPT)
    add(lines, prepared, "NVIDIA H200", cells[0], Outcome(Status.PASSED))
    with path.open("a") as file:
        file.write("softmax,forward,3x")
    again = script.Lines(path, script.Line, script.SCRIPT)
    add(again, prepared, "NVIDIA H200", cells[1], Outcome(Status.WRONG_RESULT, Stage.VERIFY, "output 0:\n off"))
    found = script.read([path], "h200")
    assert [(cell.variant, each[-1].status) for cell, each in found.items()] == [
        ("w1", "passed"),
        ("w2", "wrong_result"),
    ]
    assert found[cells[1]][-1].message == "output 0: off"


def test_files_and_hosts_that_do_not_serve_are_refused(script, prepared, tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("case,target\nsoftmax,h200\n")
    with pytest.raises(ReportError, match="is no table of judged_tier"):
        script.read([path], "h200")
    with pytest.raises(HostError, match="no GPU of the target mi300x is here, but h200"):
        script.device_of(prepared, "mi300x")
    with pytest.raises(HostError, match="no GPU is here to judge on"):
        script.device_of(SimpleNamespace(devices=()), "h200")
