"""``scripts/emulated_distance.py``: outputs of emulated cells beside those of the same cells on a GPU."""

import base64
import dataclasses
import json
import math
import struct
from types import SimpleNamespace

import factories
import pytest
from script_modules import script_module

from portkit.errors import HostError
from portkit.model import SAMPLES, Evidence, Plan, PlannedCell
from portkit.store.journal import Journal

ULP = 2.0**-23


@pytest.fixture(scope="module")
def script():
    return script_module("emulated_distance")


def printed(values):
    raw = struct.pack(f"<{len(values)}f", *values)
    output = {"name": "0", "dtype": "float32", "shape": [len(values)], "hash": raw.hex()}
    finite = [each for each in values if math.isfinite(each)]
    output |= {"norm": math.hypot(*finite), "nonfinite": len(values) - len(finite)}
    output["bits"] = base64.b64encode(raw).decode()
    return json.dumps({"input_hash": "i" * 16, "samples": SAMPLES, "outputs": [output]}).encode()


def report(folder, values, *evidences, limit=1e-6, input_hash="i" * 16):
    """A report of one cell, in each of these evidences with the same output."""
    journal = Journal.create(folder, factories.header())
    verdict = dataclasses.replace(factories.verdict(limit=limit), input_hash=input_hash)
    for evidence in evidences:
        blobs = {"fingerprint": journal.store_blob("fingerprint", printed(values))}
        nulls = factories.NULLS.get(evidence, {"timing": "-"})
        journal.append(factories.record(evidence, blobs=blobs, verdict=verdict, nulls=nulls))
    journal.finish("complete")
    return journal.path


def apart(script, *paths):
    return [output for pair in script.pairs(paths, "h200") for output in script.apart(pair)]


def test_two_reports_of_a_cell_are_held_beside_each_other(script, tmp_path):
    measured = report(tmp_path / "m", [1.0, 2.0, 4.0, float("nan")], Evidence.MEASURED)
    emulated = report(tmp_path / "e", [1.0 + ULP, 2.0, 4.0 - 8 * ULP, float("nan")], Evidence.EMULATED)
    (found,) = apart(script, emulated, measured)
    assert found.ulp.tolist() == [1, 0, 4, 0]
    assert not found.equal
    scale = (21 / 3) ** 0.5
    assert found.of_limit == pytest.approx(8 * ULP / (4 + scale) / 1e-6, rel=1e-6)
    assert script.beyond([found]) == []
    last = [each.strip() for each in script.table([found]).splitlines()[-1].split("|")[1:-1]]
    assert last == ["all", "1", "0", "4", "50.00%", "1", "4", "4", "4", f"{found.of_limit:.2f}"]


def test_what_is_further_than_the_limit_is_named(script, tmp_path, capsys):
    paths = [
        report(tmp_path / "m", [1.0, 1.0], Evidence.MEASURED),
        report(tmp_path / "e", [1.0, 1.1], Evidence.EMULATED),
    ]
    assert script.main([str(each) for each in paths]) == 1
    assert "softmax: beyond its limit" in capsys.readouterr().out


@pytest.mark.parametrize("other", [float("nan"), float("inf")])
def test_what_is_finite_on_one_side_alone_is_beyond_any_limit(script, tmp_path, other):
    measured = report(tmp_path / "m", [1.0, 2.0, other], Evidence.MEASURED)
    emulated = report(tmp_path / "e", [1.0, 2.0, 3.0], Evidence.EMULATED)
    (found,) = apart(script, measured, emulated)
    assert found.of_limit == math.inf
    assert script.beyond([found]) == ["softmax"]


def test_equal_outputs_are_no_distance_apart(script, tmp_path, capsys):
    path = report(tmp_path, [1.0, -0.0], Evidence.MEASURED, Evidence.EMULATED)
    (found,) = apart(script, path)
    assert (found.equal, found.of_limit, found.ulp.tolist()) == (True, 0.0, [0, 0])
    assert script.main([str(path)]) == 0


def test_codes_have_no_limit_and_are_to_be_equal(script, tmp_path, capsys):
    paths = [
        report(tmp_path / "m", [1.0, 2.0], Evidence.MEASURED, limit=0.0),
        report(tmp_path / "e", [1.0, 2.0 + 2 * ULP], Evidence.EMULATED, limit=0.0),
    ]
    (found,) = apart(script, *paths)
    assert found.of_limit is None
    assert script.beyond([found]) == ["softmax"]
    assert script.beyond(apart(script, report(tmp_path, [1.0], *script.SIDES, limit=0.0))) == []


def test_cells_that_were_not_compared_from_the_source_of_today_are_named(script, tmp_path, capsys, monkeypatch):
    path = report(tmp_path, [1.0], Evidence.MEASURED, Evidence.EMULATED)
    planned = PlannedCell(factories.cell(), Evidence.EMULATED)
    other = PlannedCell(factories.cell(variant="w4"), Evidence.EMULATED)
    out = PlannedCell(factories.cell(variant="w4", dtype="float16"), Evidence.EMULATED, excluded="-")

    def prepared(source_hash, cells, params):
        declaration = SimpleNamespace(source_hash=source_hash, variants=dict.fromkeys(["w4", "w8"], params))
        plan = Plan((*cells, out, PlannedCell(factories.cell(), Evidence.COMPILED)), "quick", "0" * 16)
        return SimpleNamespace(plan=plan, declarations={"softmax": declaration})

    def absent(*today):
        monkeypatch.setattr(script, "plan", lambda target: prepared(*today))
        code = script.main(["--check", str(path)])
        return code, [line for line in capsys.readouterr().out.splitlines() if "not compared" in line]

    params = {"num_warps": 8}
    assert absent("5" * 16, [planned], params) == (0, [])
    assert absent("5" * 16, [planned, other], params) == (1, [f"{other.label}: not compared from today's source"])
    assert absent("6" * 16, [planned], params)[0] == 1
    assert absent("5" * 16, [planned], {"num_warps": 4})[0] == 1


def test_other_inputs_are_not_compared(script, tmp_path, capsys):
    measured = report(tmp_path / "m", [1.0], Evidence.MEASURED)
    emulated = report(tmp_path / "e", [1.0], Evidence.EMULATED, input_hash="j" * 16)
    assert apart(script, measured, emulated) == []
    assert script.main([str(measured), str(emulated)]) == 1
    assert "no cell was both" in capsys.readouterr().out


def test_a_run_without_a_gpu_of_the_target_is_refused_but_for_emulated_cells_alone(script):
    nothing, other = SimpleNamespace(devices=()), SimpleNamespace(devices=(SimpleNamespace(target="l4"),))
    with pytest.raises(HostError, match="no GPU of h200 is here") as refused:
        script.check_here(nothing, "h200", [])
    assert "-k emulated" in refused.value.remedy
    with pytest.raises(HostError) as refused:
        script.check_here(other, "h200", ["-k", "softmax"])
    assert refused.value.remedy.endswith("--target l4")
    script.check_here(nothing, "h200", ["-k", "emulated and softmax"])
    script.check_here(other, "l4", [])
