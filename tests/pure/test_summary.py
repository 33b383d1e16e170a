"""Summaries in Parquet: what a row holds, that their merge is that of the reports, and what is refused."""

import dataclasses
import itertools
import json
import tempfile
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner
from factories import build, header, host, launch, record, timing
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from test_merge import run, write

from portkit.analysis.spread import repeats
from portkit.cli.merge import command
from portkit.errors import ReportError
from portkit.model import Clock, DeviceState, Evidence, Timed
from portkit.render.summary import render_summary
from portkit.store.columnar import merged
from portkit.store.journal import Journal
from portkit.store.merge import merge
from portkit.store.summary import SCHEMA, scan, summary

RUNS = st.lists(
    st.fixed_dictionaries(
        {
            "triton": st.sampled_from(["3.6.0", "3.7.1", "3.10.0", None]),
            "driver": st.sampled_from(["570", "580"]),
            "host_id": st.sampled_from(["h0", "h1"]),
            "device": st.sampled_from(["d0", "d1", None]),
            "source": st.sampled_from(["5" * 16, "6" * 16]),
            "whole": st.booleans(),
            "throttled": st.booleans(),
            "flush_bytes": st.sampled_from([0, 1 << 28]),
            "mhz": st.sampled_from([None, 1980.0, 1965.0, 1400.0]),
            "traced": st.booleans(),
            "ms": st.floats(0.01, 10),
            "cells": st.sets(st.sampled_from(list(itertools.product(["h200", "a100"], "mc"))), min_size=1),
        }
    ),
    min_size=1,
    max_size=6,
)


def records_of(here, drawn):
    states = {"during": DeviceState(sm_clock_mhz=drawn["mhz"])} if drawn["mhz"] else {}
    trace = Clock(drawn["ms"] * 0.9, drawn["ms"] * 0.9, drawn["ms"] * 0.9, 9) if drawn["traced"] else None
    timed = dataclasses.replace(
        timing(drawn["ms"]),
        fused=Timed(Clock(drawn["ms"], drawn["ms"], drawn["ms"], 9), trace),
        throttled=("SwPowerCap",) if drawn["throttled"] else (),
        flush_bytes=drawn["flush_bytes"],
        states=states,
    )
    for target, kind in sorted(drawn["cells"]):
        evidence = Evidence.MEASURED if kind == "m" else Evidence.COMPILED
        more = {"timing": timed, "device": drawn["device"]} if kind == "m" else {}
        yield record(evidence, run=here, target=target, source_hash=drawn["source"], **more)


def figures_of(dataset):
    """What the merge of reports says, as rows of the columnar one."""
    found = {}
    for row in dataset.rows:
        spread = repeats(row)
        times = [ms for runs in spread.runs.values() for ms in runs] if spread else []
        nodes = {r.device_id or r.host_id for r in row.spread}
        found[row.record.cell.target, row.record.evidence.value] = (
            row.record.run_id,
            row.older_source,
            len(row.spread),
            len(nodes),
            spread.clock if spread else None,
            min(times, default=None),
            max(times, default=None),
            min(spread.nodes.values()) if spread else None,
            max(spread.nodes.values()) if spread else None,
            sum(row.apart.values()),
        )
    return found


@given(drawn=RUNS, asked=st.booleans())
@settings(max_examples=25, deadline=None)
def test_the_merge_of_summaries_is_that_of_the_reports(drawn, asked):
    with tempfile.TemporaryDirectory() as folder:
        for number, each in enumerate(drawn, start=1):
            here = run(number, host=host(triton=each["triton"], driver=each["driver"], host_id=each["host_id"]))
            write(Path(folder), here, *records_of(here, each), whole=each["whole"])
        first = merge([Path(folder)])
        triton = first.rows[0].record.triton if asked and first.triton is not None else None
        known = {r.triton for x in (*first.rows, *first.drift) for r in x.records}
        triton = triton if triton in known - {None} and first.triton == triton else None
        dataset = merge([Path(folder)], triton)
    found = merged(summary(dataset).lazy(), triton)
    names = ["run_id", "older_source", "runs", "nodes", "clock", "run_low_ms", "run_high_ms"]
    names += ["node_low_ms", "node_high_ms", "apart"]
    rows = {(row["target"], row["evidence"]): tuple(row[n] for n in names) for row in found.iter_rows(named=True)}
    assert rows == figures_of(dataset)


@pytest.fixture
def folder(tmp_path):
    """Three runs of two cells, and their summary as a file."""
    for number in (1, 2, 3):
        here = run(number, host=host(triton=f"3.{5 + number}.0"))
        measured = record(Evidence.MEASURED, run=here, timing=timing(number / 10), target="a100")
        write(tmp_path / "reports", here, record(run=here, build=build(launch(32 + number))), measured)
    summary(merge([tmp_path / "reports"])).write_parquet(tmp_path / "s.parquet")
    return tmp_path


def test_a_row_has_the_figures_of_its_record(folder):
    rows = scan([folder / "s.parquet"]).collect()
    assert dict(rows.schema) == dict(SCHEMA)
    assert rows.height == 6
    row = rows.filter(pl.col("run_id") == "run2", pl.col("evidence") == "measured").row(0, named=True)
    of = {name: row[name] for name in ("case", "shape", "target", "triton", "events_median_ms", "speedup", "flushed")}
    assert of == {
        "case": "softmax",
        "shape": "4096x4096",
        "target": "a100",
        "triton": "3.7.0",
        "events_median_ms": 0.2,
        "speedup": 5.0,
        "flushed": True,
    }
    assert (row["trace_median_ms"], row["partial"], row["node"]) == (None, False, "d0d0")


def test_order_and_copies_do_not_matter_and_inputs_stay(folder):
    whole = pl.read_parquet(folder / "s.parquet")
    once = merged(whole.lazy())
    assert once["registers_per_thread"].to_list() == [32, 35]
    assert_frame_equal(merged(whole.reverse().lazy()), once)
    assert_frame_equal(merged(pl.concat([whole, whole.sample(fraction=1, shuffle=True, seed=1)]).lazy()), once)
    assert_frame_equal(pl.read_parquet(folder / "s.parquet"), whole)


def test_a_triton_may_be_asked_for(folder):
    asked = merged(scan([folder / "s.parquet"]), "3.6.0")
    assert asked.filter(pl.col("evidence") == "compiled")["registers_per_thread"].to_list() == [33]
    with pytest.raises(ReportError, match=r"no compiled or emulated row is of Triton 3\.5"):
        merged(scan([folder / "s.parquet"]), "3.5")


def test_two_rows_of_one_run_and_cell_that_differ(folder):
    whole = pl.read_parquet(folder / "s.parquet")
    other = whole.with_columns(pl.col("events_median_ms") * 2)
    with pytest.raises(ReportError, match="two different rows of one run and cell"):
        merged(pl.concat([whole, other]).lazy())


BAD = {
    "negative": ({"events_median_ms": -1.0}, "column events_median_ms: 6 rows"),
    "NaN": ({"trace_low_ms": float("nan")}, "column trace_low_ms: 6 rows"),
    "infinite": ({"speedup": float("inf")}, "column speedup: 6 rows"),
    "negative registers": ({"registers_per_thread": -1}, "column registers_per_thread: 6 rows"),
    "no key": ({"cell_key": None}, "column cell_key: 6 rows"),
    "newer": ({"layout": 99}, "layout 99, this portkit reads up to 1"),
}


@pytest.mark.parametrize(("changes", "words"), BAD.values(), ids=BAD)
def test_a_value_that_no_record_can_have_is_refused_by_column(folder, changes, words):
    whole = pl.read_parquet(folder / "s.parquet")
    path = folder / "bad.parquet"
    whole.with_columns(pl.lit(v, dtype=SCHEMA[n]).alias(n) for n, v in changes.items()).write_parquet(path)
    with pytest.raises(ReportError) as caught:
        scan([path])
    assert caught.value.place == str(path)
    assert words in caught.value.message


@pytest.mark.parametrize("content", [b"", b"PAR1 nothing", b"{}\n" * 99])
def test_a_file_that_is_no_parquet(tmp_path, content):
    path = tmp_path / "x.parquet"
    path.write_bytes(content)
    with pytest.raises(ReportError, match=r"x\.parquet: the summary can't be read as Parquet"):
        scan([path])
    with pytest.raises(ReportError, match="can't be read as Parquet"):
        scan([tmp_path / "absent.parquet"])


@pytest.mark.parametrize("part", range(2))
def test_a_damaged_summary_is_one_error_or_none(folder, part):
    """Pages are read when they are asked for, and Polars panics at some damage."""
    whole = (folder / "s.parquet").read_bytes()
    path = folder / "damaged.parquet"
    refused = 0
    for place in range(part, len(whole), 97):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        error = invoke(path, "-o", folder / "x.json").exception
        assert error is None or isinstance(error, ReportError), (place, error)
        refused += error is not None
    assert refused > 5


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_summary_is_refused_by_name(folder, share):
    whole = (folder / "s.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(whole[: int(share * len(whole))])
    error = invoke(folder / "cut.parquet").exception
    assert isinstance(error, ReportError)
    assert error.place == str(folder / "cut.parquet")


def test_a_summary_of_too_many_rows_is_refused_before_it_is_read(folder, monkeypatch):
    monkeypatch.setattr("portkit.store.summary.MOST_ROWS", 8)
    assert scan([folder / "s.parquet"]).collect().height == 6
    with pytest.raises(ReportError, match="makes 12 rows with those before it, 8 are the most"):
        scan([folder / "s.parquet"] * 2)


def test_a_parquet_of_another_program(tmp_path):
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(ReportError, match="has no column 'layout' of a summary"):
        scan([tmp_path / "x.parquet"])


def invoke(*options):
    return CliRunner().invoke(command, [str(each) for each in options], standalone_mode=False)


def test_the_command_writes_merges_and_compacts_summaries(folder):
    one, all_ = folder / "one.parquet", folder / "all.parquet"
    done = invoke(folder / "reports", "--summary", one, "-o", folder / "table.md")
    assert (done.return_value, pl.read_parquet(one).height) == (0, 6)
    table = invoke(one)
    assert "3 rows" not in table.stdout
    lines = [line.split() for line in table.stdout.splitlines()]
    assert [line[:2] for line in lines if line and line[0] in ("a100", "h200")] == [
        ["a100", "measured"],
        ["h200", "compiled"],
    ]
    mixed = invoke(
        one, folder / "reports", "--summary", all_, "-o", folder / "merged.parquet", "--expect", "h200:measured"
    )
    assert (mixed.return_value, "MISSING: no row of h200:measured" in mixed.stderr) == (1, True)
    assert pl.read_parquet(all_).height == 6
    assert pl.read_parquet(folder / "merged.parquet").height == 2
    chosen = invoke(all_, "-t", "a*", "-o", folder / "a.json")
    assert chosen.return_value == 0
    assert [row["target"] for row in json.loads((folder / "a.json").read_text())["rows"]] == ["a100"]


def test_a_run_without_a_record_has_a_summary_that_merges(tmp_path):
    Journal.create(tmp_path / "reports", header()).finish("interrupted")
    empty = tmp_path / "empty.parquet"
    assert invoke(tmp_path / "reports", "--summary", empty, "-o", tmp_path / "table.md").return_value == 0
    assert pl.read_parquet(empty).height == 0
    merged = invoke(empty, "-o", tmp_path / "merged.json")
    assert (merged.exception, merged.return_value) == (None, 0)
    assert json.loads((tmp_path / "merged.json").read_text())["rows"] == []


def test_the_command_refuses_what_makes_no_sense(folder):
    one = folder / "s.parquet"
    assert "a summary is Parquet" in str(invoke(folder / "reports", "--summary", folder / "x.csv").exception)
    assert "nothing is written over a report" in str(invoke(one, "-o", one).exception)
    assert "--reference: summaries have no baselines" in str(invoke(one, "--reference", "h200").exception)
    assert "--findings: summaries have no baselines" in str(invoke(one, "--findings", "3").exception)
    (folder / "s.jsonl").write_bytes(one.read_bytes())
    assert "is a summary, and here reports are read" in str(invoke(folder / "s.jsonl").exception)
    assert "no row of a case 'rope'" in str(invoke(one, "-k", "rope").exception)
    assert "no evidence is named 'seen'" in str(invoke(one, "--expect", "h200:seen").exception)


@pytest.mark.parametrize("width", [80, 120])
def test_a_summary_fits_the_terminal(folder, width):
    text = render_summary(merged(scan([folder / "s.parquet"])), "plain", width)
    assert max(map(len, text.splitlines())) <= width
    assert "left out for want of room: " in text
    assert "apart" in " ".join(text.split())


def test_names_of_a_summary_stand_as_text(folder):
    evil = pl.read_parquet(folder / "s.parquet").with_columns(pl.lit("<b>|\x1b[2J`").alias("variant"))
    evil.write_parquet(folder / "evil.parquet")
    text = invoke(folder / "evil.parquet", "--format", "github").stdout
    assert "<b>" not in text
    assert "\x1b" not in text
    assert "&lt;b>\\|\\`" in text
