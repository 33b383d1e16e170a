"""``scripts/liger_table.py``: what it keeps of a run, and what it says of what is kept."""

import dataclasses

import pytest
from script_modules import script_module

from portkit.errors import ReportError
from portkit.model import Cell, CellResult, Direction, Evidence, Outcome, Stage, Status

RIGHT = Outcome(Status.PASSED)
OVER = Outcome(Status.OUT_OF_RESOURCES, Stage.LIMITS, "shared memory 70000 B > 65536 B")


@pytest.fixture(scope="module")
def script():
    return script_module("liger_table")


def result(name, target, direction, outcome=RIGHT, dtype="float32"):
    return CellResult(Cell(name, direction, (4, 8), dtype, "default", target), Evidence.EMULATED, outcome)


@pytest.fixture
def lines(script, monkeypatch):
    """Two operations, the second with gradients, of which one of two does not agree on a T4."""
    monkeypatch.setattr(script, "version", lambda package: "0.8.5")
    results = [result("softmax", target, Direction.FORWARD) for target in ("t4", "mi300x")]
    results += [result("rope", target, Direction.BACKWARD) for target in ("t4", "mi300x")]
    results += [result("rope", "t4", Direction.BACKWARD, OVER, "bfloat16")]
    return list(script.lines_of(results, ["sm_75", "gfx942"]))


def test_a_line_counts_an_operation_in_one_direction_on_one_architecture(lines):
    told = [(line.operation, line.direction, line.architecture, line.agree, line.cells) for line in lines]
    assert told == [
        ("softmax", "forward", "sm_75", "1", "1"),
        ("softmax", "forward", "gfx942", "1", "1"),
        ("rope", "backward", "sm_75", "1", "2"),
        ("rope", "backward", "gfx942", "1", "1"),
    ]
    assert lines[2].others == f"rope backward bfloat16 t4: out_of_resources: {OVER.message}"
    assert not any(line.others for line in lines if line is not lines[2])


def test_each_direction_has_a_sum_and_what_does_not_agree_its_words(script, lines):
    text = script.table(lines)
    rows = {
        row[1].strip(): [each.strip() for each in row[2:-1]]
        for row in (x.split("|") for x in text.splitlines())
        if len(row) > 2
    }
    assert (rows["rope"], rows["all, forward"], rows["all, backward"]) == (
        ["1 of 2", "1 of 1"],
        ["1 of 1", "1 of 1"],
        ["1 of 2", "1 of 1"],
    )
    assert "4 of 5 cells agree" in text
    assert text.endswith(OVER.message)


def test_kept_lines_are_told_without_a_run_and_a_later_run_takes_their_place(
    script, lines, tmp_path, capsys, monkeypatch
):
    path = tmp_path / "kept.csv"
    better = [dataclasses.replace(lines[2], agree="2", others="")]
    for given in (lines, better):
        monkeypatch.setattr(script, "_run", lambda options, given=given: given)
        script.main(["sm_75", "-o", str(path)])
    assert script.read(path) == [*lines[:2], *better, lines[3]]
    capsys.readouterr()
    assert script.main(["--kept", str(path)]) == 0
    assert "5 of 5 cells agree" in capsys.readouterr().out


@pytest.mark.parametrize(("agreeing", "code"), [(94, 1), (95, 0)])
def test_fewer_than_95_percent_of_a_direction_are_too_few(script, lines, tmp_path, agreeing, code):
    path = tmp_path / "kept.csv"
    forward = dataclasses.replace(lines[0], cells="1000", agree="1000")  # make up for nothing
    script.write_lines(path, script.Line, [forward, dataclasses.replace(lines[2], cells="100", agree=str(agreeing))])
    assert script.main(["--kept", str(path)]) == code


def test_another_table_is_refused(script, tmp_path):
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ReportError, match="is no table of liger_table"):
        script.read(tmp_path / "other.csv")
