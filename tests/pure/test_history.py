"""Nights kept as Parquet: in a folder, in an object store, and read by others."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from factories import header, record
from fake_s3 import fake_s3
from nights import night

from portkit.cli import main
from portkit.errors import ReportError
from portkit.store.history import HISTORY_SCHEMA, Kept, add, scan
from portkit.store.journal import Journal
from portkit.store.merge import merge

FIRST = "20261101T021700Z-0badcafe"


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Two nights in ``history``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PORTKIT_HISTORY", raising=False)
    for day, triton in ((1, "3.6.0"), (2, "3.7.1")):
        night(Path("reports"), day, triton=triton, driver="570.86")
    assert main(["history", "add", "reports"]) == 0
    return Path("history")


def test_a_night_is_a_file_with_a_row_a_record_and_its_versions(kept):
    assert sorted(path.name for path in kept.iterdir()) == [f"{FIRST}.parquet", "20261102T021700Z-0badcafe.parquet"]
    rows = scan("history").collect()
    assert dict(rows.schema) == dict(HISTORY_SCHEMA)
    told = rows.select("run_id", "evidence", "triton", "torch", "driver", "toolkit", "portkit").sort(
        "run_id", "evidence"
    )
    assert told.rows()[:2] == [
        (FIRST, "compiled", "3.6.0", "2.8.0", "570.86", "12.8", "0.1.0"),
        (FIRST, "measured", "3.6.0", "2.8.0", "570.86", "12.8", "0.1.0"),
    ]


def test_a_night_that_is_added_twice_is_there_once(kept, capsys):
    before = (kept / f"{FIRST}.parquet").read_bytes()
    capsys.readouterr()
    assert main(["history", "add", "reports"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"{FIRST}: 2 rows, there already"
    assert (kept / f"{FIRST}.parquet").read_bytes() == before


def test_a_run_that_went_on_takes_the_place_of_its_beginning(tmp_path):
    run = header(cells=2)
    journal = Journal.create(tmp_path / "first", run)
    journal.append(record(run=run))
    journal.finish()
    whole = Journal.create(tmp_path / "whole", run)
    whole.append(record(run=run))
    whole.append(record(run=run, target="mi300x"))
    whole.finish()
    place = str(tmp_path / "history")
    steps = [add(place, merge([tmp_path / folder])) for folder in ("first", "whole", "first")]
    assert [(each.rows, each.kept) for (each,) in steps] == [(1, Kept.NEW), (2, Kept.FULLER), (1, Kept.THERE)]
    assert scan(place).collect().height == 2


def test_a_night_is_a_summary_that_merge_reads(kept, capsys):
    capsys.readouterr()
    assert main(["merge", *map(str, sorted(kept.iterdir()))]) == 0
    assert "softmax" in capsys.readouterr().out


def test_duckdb_reads_it(kept):
    duckdb = pytest.importorskip("duckdb", reason="of the extra `test`")
    question = "select triton, count(*), min(trace_median_ms) from 'history/*.parquet' group by triton order by triton"
    assert duckdb.sql(question).fetchall() == [("3.6.0", 2, None), ("3.7.1", 2, None)]


def test_list_tells_the_nights(kept, capsys):
    capsys.readouterr()
    assert main(["history", "list"]) == 0
    head, _, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["run_id", "rows", "kernels", "targets", "triton", "torch", "driver", "portkit"]
    assert first.split() == [FIRST, "2", "1", "h200", "mi300x", "3.6.0", "2.8.0", "570.86", "0.1.0"]
    assert "3.7.1" in second


# -- an object store


@pytest.fixture
def store(monkeypatch):
    with fake_s3() as (address, objects):
        given = {"AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
        for name, value in {**given, "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("PORTKIT_HISTORY", "s3://bucket/nights")
        yield objects


def test_an_object_store_is_a_history_too(store, tmp_path, capsys):
    for day in (1, 2):
        assert main(["history", "add", str(night(tmp_path / "reports", day))]) == 0
    assert main(["history", "add", str(tmp_path / "reports")]) == 0
    assert sorted(store) == [f"bucket/nights/{FIRST}.parquet", "bucket/nights/20261102T021700Z-0badcafe.parquet"]
    assert [line.partition(", ")[2] for line in capsys.readouterr().out.splitlines()] == [
        "new",
        "new",
        *["there already"] * 2,
    ]
    assert main(["trend", "softmax", "--target", "h200"]) == 0
    assert capsys.readouterr().out.count("2026-11-0") == 2


def test_a_store_without_a_night_says_so(store, capsys):
    assert main(["history", "list", "--history", "s3://empty/nights"]) == 2
    assert "s3://empty/nights: no night is kept here" in capsys.readouterr().err


def test_a_store_that_lets_nobody_in_is_one_error(store):
    with pytest.raises(ReportError, match=r"can't be read: .*403 Forbidden"):
        scan("s3://denied/nights")


# -- what can't be


def test_a_folder_without_a_night_says_how_to_begin(tmp_path, capsys):
    assert main(["history", "list", "--history", str(tmp_path)]) == 2
    assert "remedy: add one with `portkit history add REPORTS`" in capsys.readouterr().err


def test_a_file_that_is_no_night_is_refused(kept, capsys):
    pl.DataFrame({"a": [1]}).write_parquet(kept / "other.parquet")
    assert main(["history", "list"]) == 2
    assert "history/other.parquet: is no night: it has no column 'layout'" in capsys.readouterr().err


def test_a_damaged_night_is_refused(kept, capsys):
    (kept / f"{FIRST}.parquet").write_bytes(b"PAR1 and then nothing")
    assert main(["trend", "softmax"]) == 2
    assert f"history/{FIRST}.parquet: can't be read: " in capsys.readouterr().err


def test_a_time_that_can_not_be_is_refused(kept, capsys):
    file = kept / f"{FIRST}.parquet"
    pl.read_parquet(file).with_columns(pl.lit(-1.0).alias("events_median_ms")).write_parquet(file)
    assert main(["trend", "softmax"]) == 2
    assert "column events_median_ms: 2 rows have a value that no record can have" in capsys.readouterr().err


def test_a_place_that_can_not_be_written_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    report = night(tmp_path / "reports", 1)
    assert main(["history", "add", str(report), "--history", str(tmp_path / "file" / "history")]) == 2
    assert "can't be written: Not a directory" in capsys.readouterr().err
