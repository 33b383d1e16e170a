"""What of a merge may stand beside what: repetitions, nodes, Triton versions, sources, expected targets."""

import dataclasses
import json
import subprocess
import sys
import zipfile

import pytest
from click.testing import CliRunner
from factories import build, header, host, launch, record, timing
from test_merge import numbered, run, write

from portkit.analysis.expected import expect
from portkit.analysis.rows import comparison
from portkit.cli.merge import command
from portkit.errors import ReportError
from portkit.model import DeviceState, Evidence, Outcome, Status
from portkit.render.table import render
from portkit.store.alike import why_apart
from portkit.store.merge import merge


def timed(ms=0.5, *, here=None, device="d0d0", **changes):
    """A measured record of that time, under timing of these changes."""
    return record(
        Evidence.MEASURED, run=here or header(), timing=dataclasses.replace(timing(ms), **changes), device=device
    )


def at_clock(mhz):
    return {"states": {"during": DeviceState(sm_clock_mhz=mhz)}}


APART = {
    "alike": (timed(), timed(0.6), None),
    "another board": (timed(), timed(device="d1d1"), None),
    "clocks a step apart": (timed(**at_clock(1980)), timed(**at_clock(1965)), None),
    "a clock that nobody knows": (timed(**at_clock(1980)), timed(), None),
    "lower clocks": (timed(**at_clock(1980)), timed(**at_clock(1410)), "SM clock 1980 and 1410 MHz"),
    "throttled": (timed(), timed(throttled=("SwPowerCap",)), "throttled in one of them alone (SwPowerCap)"),
    "warm caches": (timed(), timed(flush_bytes=0), "caches flushed in one of them alone"),
    "toolchain": (timed(), timed(here=header(host=host(driver="580"))), "another toolchain"),
    "source": (record(), record(source_hash="6" * 16), "another source"),
    "Triton": (record(), record(run=header(host=host(triton="3.8.0"))), "Triton 3.8.0"),
    "driver of a compiled row": (record(), record(run=header(host=host(driver="580"))), None),
    "no time": (timed(), dataclasses.replace(timed(), timing=None), "not timed"),
}


@pytest.mark.parametrize(("one", "other", "why"), APART.values(), ids=APART)
def test_what_is_a_repetition_and_what_not(one, other, why):
    assert why_apart(one, other) == why
    assert (why_apart(other, one) is None) == (why is None)


def test_repetitions_make_the_spread_and_others_are_named_beside_the_time(tmp_path):
    there = host(host_id="other")
    runs = [
        (run(1), timed(0.50, here=run(1))),
        (run(2), timed(0.51, here=run(2))),
        (run(3, host=there), timed(0.53, here=run(3, host=there), device="d1d1")),
        (run(4), timed(0.9, here=run(4), throttled=("SwPowerCap",))),
        (run(5), timed(0.52, here=run(5))),
    ]
    for here, found in runs:
        write(tmp_path, here, found)
    (row,) = comparison(merge([tmp_path])).rows
    assert row.run_id == "run5"
    assert row.repeats.runs == {"d0d0": (0.50, 0.51, 0.52), "d1d1": (0.53,)}
    assert row.repeats.nodes == {"d0d0": 0.51, "d1d1": 0.53}
    assert row.repeats.half_width == pytest.approx(0.01 / 0.52)
    assert row.apart == {"throttled in one of them alone (SwPowerCap)": 1}
    text = render(comparison(merge([tmp_path])), "github")
    assert "0.52 ±1.9 % [" in text
    assert "4 runs, medians on events: 0.5 to 0.52 ms in 3 on d0d0, 0.53 to 0.53 ms in 1 on d1d1" in text
    assert "no repetition of it: throttled in one of them alone (SwPowerCap) (1)" in text


def test_a_throttled_row_says_that_it_is_not_to_be_compared(tmp_path):
    write(tmp_path, run(1), timed(here=run(1), throttled=("SwPowerCap",), flush_bytes=0))
    (row,) = comparison(merge([tmp_path])).rows
    assert row.incomparable == ("throttled while it was timed (SwPowerCap)", "its caches were not flushed")
    assert "not to be compared with other rows: throttled" in render(comparison(merge([tmp_path])), "plain")


def of_triton(number, version):
    return run(number, host=host(triton=version))


def test_versions_of_triton_drift_and_never_spread(tmp_path):
    old, new = of_triton(1, "3.6.0"), of_triton(2, "3.7.1")
    write(tmp_path, old, numbered(old, 32), numbered(old, 40, target="a100"), numbered(old, 16, target="mi300x"))
    write(tmp_path, new, numbered(new, 48), numbered(new, 40, target="a100"))
    found = comparison(merge([tmp_path]))
    assert [(row.target, row.registers_per_thread) for row in found.rows] == [("h200", 48), ("a100", 40)]
    assert found.triton == "3.7.1"
    assert {(d.cell.target, d.triton, d.shown): dict(d.changes) for d in found.drift} == {
        ("a100", "3.6.0", "3.7.1"): {},
        ("h200", "3.6.0", "3.7.1"): {"registers_per_thread": (32, 48)},
        ("mi300x", "3.6.0", None): {},
    }
    text = render(found, "github")
    assert "- Triton 3.6.0: 1 cells as in the table, 1 differ, 1 not in it\n" in text
    assert "Triton 3.6.0 → 3.7.1: registers_per_thread 32 → 48\n" in text
    assert any("(3.6.0), so shown as drift alone: 1 compiled row; --triton" in each for each in found.warnings)
    asked = comparison(merge([tmp_path], triton="3.6.0"))
    assert [row.registers_per_thread for row in asked.rows] == [32, 40, 16]


def test_a_compiled_row_stands_beside_a_measured_one_of_its_own_triton_alone(tmp_path):
    old, new = of_triton(1, "3.6.0"), of_triton(2, "3.7.1")
    write(tmp_path, old, numbered(old, 1, Evidence.MEASURED))
    write(tmp_path, new, numbered(new, 2), numbered(new, 3, target="a100"))
    dataset = merge([tmp_path])
    shown = [(row.record.cell.target, row.record.evidence.value) for row in dataset.rows]
    assert sorted(shown) == [("a100", "compiled"), ("h200", "measured")]
    assert [row.record.cell.target for row in dataset.drift] == ["h200"]
    write(tmp_path, of_triton(3, "3.7.1"), numbered(of_triton(3, "3.7.1"), 4, Evidence.MEASURED))
    assert len(merge([tmp_path]).rows) == 3


def test_another_source_is_set_apart_and_named(tmp_path):
    write(tmp_path, run(1), dataclasses.replace(timed(0.5, here=run(1)), keys=_other_source()))
    write(tmp_path, run(2), timed(0.6, here=run(2)))
    (row,) = comparison(merge([tmp_path])).rows
    assert row.apart == {"another source": 1}
    assert row.repeats.count == 1


def _other_source():
    return dataclasses.replace(timed().keys, source_hash="6" * 16)


def test_expected_targets_that_are_missing_get_a_column_and_the_exit_code(tmp_path):
    skipped = record(run=run(1), target="a100", outcome=Outcome(Status.BACKEND_MISSING), build=None)
    write(tmp_path, run(1), record(run=run(1)), skipped)
    found = expect(comparison(merge([tmp_path])), ["h200", "h200:measured", "a100", "mi300x"])
    assert found.missing == ("h200:measured", "a100", "mi300x")
    with pytest.raises(ReportError, match="no evidence is named 'guessed'"):
        expect(found, ["h200:guessed"])
    done = CliRunner().invoke(command, [str(tmp_path), "--expect", "h200,mi300x", "--format", "github"])
    assert "| kernel   | h200         | mi300x MISSING   |" in done.stdout
    assert "| softmax  | compiled 1/1 | MISSING          |" in done.stdout
    measured = CliRunner().invoke(
        command, [str(tmp_path), "--expect", "h200:compiled,h200:measured", "--format", "github"]
    )
    assert "| kernel   | h200:compiled   | h200:measured MISSING   |" in measured.stdout
    assert "MISSING: no row of mi300x" in done.stderr
    assert CliRunner().invoke(command, [str(tmp_path), "--expect", "h200"], standalone_mode=False).return_value == 0
    failed = CliRunner().invoke(command, [str(tmp_path), "--expect", "mi300x"], standalone_mode=False)
    assert failed.return_value == 1
    assert "catalogue" not in failed.stderr
    slip = CliRunner().invoke(command, [str(tmp_path), "--expect", "h20:measured,ours"], standalone_mode=False)
    assert slip.return_value == 1
    told = slip.stderr.splitlines()
    assert told[0] == "MISSING: no row of h20:measured, ours"
    assert told[1].startswith("h20 is no target of the catalogue or these reports: did you mean h200")
    assert len(told) == 2  # nothing is near the other


def test_markup_in_names_stands_as_text(tmp_path):
    evil = "<img src=x>|[a](javascript:b)`"
    failed = Outcome(Status.COMPILE_ERROR, message="<script>\x1b]0;x\x07alert(1)</script>")
    write(tmp_path, run(1), record(run=run(1), case=evil, variant=evil), record(run=run(1), outcome=failed))
    text = render(comparison(merge([tmp_path])), "github")
    assert "<img" not in text
    assert "<script" not in text
    assert "](" not in text
    assert "\x1b" not in render(comparison(merge([tmp_path])), "plain")
    assert json.loads(render(comparison(merge([tmp_path])), "json"))["rows"][0]["kernel"] == evil


def test_a_build_of_several_launches_drifts_by_its_worst(tmp_path):
    old, new = of_triton(1, "3.6.0"), of_triton(2, "3.7.1")
    two = build(launch(32), launch(64, spill=16, percent=50.0))
    write(tmp_path, old, record(run=old))
    write(tmp_path, new, record(run=new, build=two))
    (drift,) = comparison(merge([tmp_path])).drift
    assert drift.changes == {
        "registers_per_thread": (32, 64),
        "spill_bytes_per_thread": (0, 16),
        "occupancy_pct": (100.0, 50.0),
    }


@pytest.mark.parametrize("module", ["portkit.cli.merge", "portkit.cli.gate", "portkit.cli.summaries"])
def test_merge_and_gate_import_neither_torch_nor_triton(module):
    code = f"import sys, {module}; print(sorted({{'torch', 'triton'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_input_is_changed(tmp_path):
    for n in (1, 2):
        write(tmp_path / "reports", run(n), timed(n, here=run(n)), record(run=run(n)))
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in (tmp_path / "reports").glob("*.jsonl"):
            packed.write(path, path.name)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.rglob("*") if path.is_file()}
    dataset = merge([tmp_path / "reports", archive])
    kept = dataclasses.replace(dataset)
    comparison(dataset)
    assert dataset == kept == merge([archive])
    after = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before
