"""``scripts/emulated_tier.py``: what of a tier emulation judged at today's source."""

import dataclasses
import itertools
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import factories
import pytest
from script_modules import script_module

from portkit.errors import ReportError
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
from portkit.store.journal import Journal, blob_path
from portkit.targets.catalog import load_catalog


@pytest.fixture(scope="module")
def script():
    return script_module("emulated_tier")


NOW = "5" * 16
PARAMS = {"num_warps": 8}  # those of the factory's records
TARGETS = ("mi300x", "a100")


@pytest.fixture(scope="module")
def prepared():
    """Eight emulated cells of two targets, of which some are a known gap, and one that is compiled."""
    select = Selector(target="a100", variant="w8", triton=">=3.7,<3.8")
    gap = Expectation(select, Status.DATA_RACE, "as if", "matrix.yaml:9")
    cells = [
        PlannedCell(factories.cell(shape=shape, variant=variant, target=target), Evidence.EMULATED)
        for shape, variant, target in itertools.product([(3, 8), (5, 16)], ["w4", "w8"], TARGETS)
    ]
    plan = Plan((*cells, PlannedCell(factories.cell(), Evidence.COMPILED)), "full", "0" * 16)
    catalog = load_catalog()
    return SimpleNamespace(
        plan=plan,
        matrix=SimpleNamespace(expectations=(gap,)),
        declarations={"softmax": SimpleNamespace(source_hash=NOW, variants={"w4": PARAMS, "w8": PARAMS})},
        targets={name: catalog.get(name) for name in TARGETS},
    )


def emulated(prepared):
    return prepared.plan.cells[:-1]


def report(folder, prepared, outcomes, *, source_hash=NOW, run_id=factories.RUN_ID):
    """A report of the plan's first emulated cells, one an outcome."""
    run = factories.header(run_id=run_id)
    journal = Journal.create(folder, run)
    for planned, outcome in zip(emulated(prepared), outcomes, strict=False):
        axes = dataclasses.asdict(planned.cell)
        record = factories.record(
            Evidence.EMULATED, run=run, source_hash=source_hash, outcome=outcome, nulls={"timing": "-"}, **axes
        )
        journal.append(record)
    journal.finish("complete")
    return journal.path


PASSED = Outcome(Status.PASSED)
RACE = Outcome(Status.DATA_RACE, Stage.RUN, "missing_wait")


def test_a_cell_stands_where_its_last_verdict_of_today_says(script, prepared, tmp_path):
    cells = emulated(prepared)
    unknown = Outcome(Status.CAPTURE_FAILED, Stage.CAPTURE, "configuration BLOCK=64: UnknownPropertyError: units?")
    earlier = report(tmp_path / "a", prepared, [RACE] * 5 + [PASSED], source_hash="0" * 16)
    today = report(tmp_path / "b", prepared, [PASSED, RACE, unknown, RACE], run_id="20260103T030405Z-0badcafe")
    states = script.states(prepared, script.read([today, earlier]))
    state = script.State
    judged = [state.PASSED, state.WRONG, state.UNKNOWN, state.EXPECTED, state.EARLIER_WRONG, state.EARLIER]
    assert list(states) == list(cells)
    assert list(states.values()) == [*judged, *[state.NEVER] * 2]
    told = script.table(states, prepared).splitlines()
    assert [each.strip() for each in told[-1].split("|")[1:-1]] == ["all", "8", "1", "1", "1", "1", "1", "1", "2"]


def test_verdicts_are_told_by_version_of_triton(script, prepared, tmp_path):
    found = script.read([report(tmp_path, prepared, [PASSED, RACE, PASSED, RACE])])
    extra = next(iter(found.values()))
    extra.update({(*key[:-1], "3.10.0"): dataclasses.replace(each, triton="3.10.0") for key, each in [*extra.items()]})
    rows = script.version_table(emulated(prepared), found, prepared).splitlines()[2:]
    told = [[each.strip() for each in row.split("|")[1:-1]] for row in rows]
    assert told == [["3.7.1", "4", "2", "1", "0", "1"], ["3.10.0", "1", "1", "0", "0", "0"]]


def test_what_is_left_is_what_has_no_right_verdict_of_today(script, prepared, tmp_path):
    path = report(tmp_path, prepared, [PASSED, RACE, PASSED])
    older = report(tmp_path / "older", prepared, [PASSED] * 4, source_hash="0" * 16)
    states = script.states(prepared, script.read([path, older]))
    first, wrong, third, *rest = emulated(prepared)
    assert script.left(states) == [wrong, *rest]
    assert {states[first], states[third]} == {script.State.PASSED}


def test_a_table_says_what_its_reports_said(script, prepared, tmp_path):
    path = report(tmp_path, prepared, [PASSED, PASSED, RACE, PASSED])
    older = report(tmp_path / "older", prepared, [PASSED] * 8, source_hash="0" * 16)
    found = script.read([path, older])
    states = script.states(prepared, found)
    csv = tmp_path / "table.csv"
    script.write(csv, script.lines(states, found, prepared))
    assert script.states(prepared, script.read([csv])) == states
    again = tmp_path / "again.csv"
    script.write(again, script.lines(states, script.read([csv]), prepared))
    assert again.read_text() == csv.read_text()
    assert "missing_wait" in csv.read_text()


def test_a_verdict_of_other_parameters_is_an_earlier_one(script, prepared, tmp_path):
    found = script.read([report(tmp_path, prepared, [PASSED] * 8)])
    csv = tmp_path / "table.csv"
    script.write(csv, script.lines(script.states(prepared, found), found, prepared))
    tuned = {"w4": PARAMS, "w8": {**PARAMS, "block": 64}}
    changed = SimpleNamespace(
        **{**vars(prepared), "declarations": {"softmax": SimpleNamespace(source_hash=NOW, variants=tuned)}}
    )
    states = script.states(changed, script.read([csv]))
    assert {each.cell.variant: state for each, state in states.items()} == {
        "w4": script.State.PASSED,
        "w8": script.State.EARLIER,
    }
    assert {each.cell.variant for each in script.left(states)} == {"w8"}


@pytest.mark.parametrize(
    ("verdict", "rule"),
    [({"rule_version": 7}, "7"), ({}, "1"), (None, str(VERDICT_RULE)), ("blob", "7"), ("lost", "")],
)
def test_a_reports_verdict_is_of_the_rule_that_judged(script, tmp_path, verdict, rule):
    journal = Journal.create(tmp_path, factories.header())
    record = factories.record(Evidence.EMULATED, outcome=PASSED, nulls={"timing": "-"}, target="a100")
    if isinstance(verdict, str):
        address = journal.store_blob("verdict", json.dumps({"rule_version": 7}).encode())
        record = dataclasses.replace(record, verdict=None, blobs={"verdict": address})
    else:
        judged = None if verdict is None else dataclasses.replace(factories.verdict(), **verdict)
        record = dataclasses.replace(record, verdict=judged)
    journal.append(record)
    journal.finish("complete")
    if verdict == "lost":
        blob_path(journal.path, address).unlink()
    ((judged,),) = [each.values() for each in script.read([journal.path]).values()]
    assert judged.rule == rule


@pytest.mark.parametrize("kept", [True, False])
def test_long_parameters_are_read_from_their_blob(script, tmp_path, kept):
    journal = Journal.create(tmp_path, factories.header())
    address = journal.store_blob("variant_params", json.dumps(PARAMS).encode())
    record = factories.record(Evidence.EMULATED, outcome=PASSED, nulls={"timing": "-"}, target="a100")
    moved = dataclasses.replace(record, variant_params={}, blobs={"variant_params": address})
    journal.append(moved)
    journal.finish("complete")
    if not kept:
        blob_path(journal.path, address).unlink()
    ((judged,),) = [each.values() for each in script.read([journal.path]).values()]
    assert judged.params == (digest(PARAMS) if kept else "")


def test_two_versions_of_triton_both_count(script, prepared):
    planned = emulated(prepared)[3]
    params, rule = digest(PARAMS), str(VERDICT_RULE)
    both = [script.Judged("data_race", NOW, params, rule, triton, "missing_wait") for triton in ("3.7.1", "3.6.0")]
    found = {planned.cell: {(*each.keys, each.triton): each for each in both}}
    states = script.states(prepared, found)
    assert states[planned] is script.State.WRONG  # the rule is for 3.7 alone
    told = "data_race with Triton 3.7.1: missing_wait; data_race with Triton 3.6.0: missing_wait"
    assert list(script.wrong(states, found, prepared)) == [f"{planned.label}: {told}"]
    assert (
        script.states(prepared, {planned.cell: {(NOW, params, rule, "3.7.1"): both[0]}})[planned]
        is script.State.EXPECTED
    )


def test_a_run_shares_launches_and_leaves_nothing_behind(script, prepared, tmp_path, monkeypatch):
    began = []

    def until(command, seconds, defaults):
        names = next(each for each in command if each.startswith("@"))
        began.append((Path(names[1:]).read_bytes().decode("utf-8"), Path(defaults[script.KEPT_LAUNCHES]).is_dir()))

    monkeypatch.setattr(script, "until", until)
    matrix = tmp_path / "größe.yaml"
    chosen = SimpleNamespace(matrix=matrix, tier="full", target="a100", run=tmp_path, seconds=None)
    script.run(emulated(prepared)[:1], chosen, [])
    assert began == [(f"{matrix}::{emulated(prepared)[0].label}\n", True)]
    assert script.KEPT_LAUNCHES not in os.environ


@pytest.mark.parametrize(("own", "seen"), [({}, "default"), ({"PORTKIT_OF_A_TEST": "own"}, "own")])
def test_a_command_has_variables_that_this_process_has_not(tmp_path, monkeypatch, own, seen):
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "seen"
    text = "import os, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(os.environ['PORTKIT_OF_A_TEST'])"
    assert script_module("bounded").until(
        [sys.executable, "-c", text, str(path)], defaults={"PORTKIT_OF_A_TEST": "default"}
    )
    assert path.read_text() == seen


def test_a_file_that_is_no_such_table_is_refused(script, tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("case,target\nsoftmax,h200\n")
    with pytest.raises(ReportError, match="is no table of emulated_tier"):
        script.read([path])
