"""Reports that can't be read or written, each with its message."""

import contextlib
import errno
import json
import os

import pytest
from factories import cell, file_size_limit, header, record, resume, timing

from portkit.errors import ReportError
from portkit.model import SCHEMA_VERSION, Counted, Counters, DeviceProbe, Evidence
from portkit.store import schema, sources
from portkit.store.fit import LIMIT
from portkit.store.journal import Journal, read_report
from portkit.store.merge import merge

HEADER = schema.encode(header())
RECORD = schema.encode(record())
RESUME = schema.encode(resume())


def ending(records: int) -> bytes:
    return b'{"kind":"end"}\n' if records < 0 else schema.encode(_end(records))


def _end(records: int):
    from portkit.model import End

    return End(header().run_id, records, {"built": records} if records else {}, "2026-01-02T03:04:06+00:00")


BAD = {
    "empty": (b"", "", "is empty"),
    "a half header": (HEADER[:100], "", "its header is cut off, or it is no report"),
    "prose": (b"hello\nworld\n", ":1", "not a line of a report"),
    "other JSON lines": (b'{"a": 1}\n{"a": 2}\n', ":1", "not a line of a portkit report"),
    "a kind that is no name": (HEADER + b'{"kind": {"a": []}}\n', ":2", "not a line of a portkit report"),
    "binary": (b"\x7fELF\x02\xff\xfe\n", ":1", "not a line of a report"),
    "no header": (RECORD, ":1", "begins with a line of kind record"),
    "two headers": (HEADER + HEADER, ":2", "a second header"),
    "a doubled record": (HEADER + RECORD + RECORD, ":3", "the cell of line 2 again: softmax[h200-"),
    "a damaged line in the middle": (HEADER + RECORD[:50] + b"\n" + RECORD, ":2", "not a line of a report"),
    "an edited line": (HEADER + RECORD.replace(b"softmax", b"softmix"), ":2", "the checksum is wrong"),
    "a line after the end": (HEADER + ending(0) + RECORD, ":3", "a line after the end line"),
    "a line after the end of a resumed run": (HEADER + ending(0) + RESUME + ending(0) + RECORD, ":5", "after the end"),
    "a cell twice after the resumption": (HEADER + RECORD + RESUME + RECORD + RECORD, ":5", "the cell of line 4 again"),
    "a resumption without header": (RESUME, ":1", "begins with a line of kind resume"),
    "a removed line": (HEADER + ending(1), "", "counts 1 records, 0 are here"),
    "another run's line": (HEADER + schema.encode(record(run=header(run_id="other"))), ":2", "of another run, other"),
}


@pytest.mark.parametrize(("content", "line", "words"), BAD.values(), ids=BAD)
def test_a_bad_report_is_refused_by_file_and_line(tmp_path, content, line, words):
    path = tmp_path / "r.jsonl"
    path.write_bytes(content)
    with pytest.raises(ReportError) as caught:
        read_report(path)
    assert caught.value.place == f"{path}{line}"
    assert words in caught.value.message


def _line(kind: str, **fields) -> bytes:
    """A line whose checksum is right, whatever its fields."""
    text = schema._canonical(fields)
    return json.dumps({"kind": kind, **fields, "sum": schema._checksum(kind, text)}).encode() + b"\n"


def _edited(value, *path, to) -> bytes:
    """A line of a value in which one figure was changed by who knows how to sign it."""
    fields = schema.plain(value)
    part = fields
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = to
    return _line(schema._kind_of(value), **fields)


MEASURED = record(Evidence.MEASURED, timing=timing())
PROBE = DeviceProbe(header().run_id, "d0d0", "h200", "2026-01-02T03:04:05+00:00", copy_gbs=4000.0)
COUNTERS = Counters(
    header().run_id,
    MEASURED.keys.cell_key,
    Evidence.MEASURED,
    "ncu 2025.3",
    {"fused": Counted(1, 1.0, 2, 3, 0, "k", 50.0, 40.0, 100.0, "registers", 32, 0, 1.0)},
)
IMPOSSIBLE = {
    "no number": (PROBE, ("copy_gbs",), float("nan"), "it is nan"),
    "infinite": (COUNTERS, ("functions", "fused", "duration_ms"), float("inf"), "it is inf"),
    "bytes below zero": (COUNTERS, ("functions", "fused", "dram_read_bytes"), -5, "it is -5, less than 0"),
    "a time below zero": (MEASURED, ("timing", "fused", "events", "median_ms"), -0.5, "it is -0.5, less than 0"),
    "no work": (MEASURED, ("work", "fused_bytes"), 0, "it is 0"),
}


@pytest.mark.parametrize(("value", "field", "figure", "words"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_figure_that_no_run_can_have_taken_is_refused_by_its_field(tmp_path, value, field, figure, words):
    path = tmp_path / "r.jsonl"
    path.write_bytes(HEADER + schema.encode(MEASURED) * (value is COUNTERS) + _edited(value, *field, to=figure))
    with pytest.raises(ReportError) as caught:
        read_report(path)
    assert caught.value.place == f"{path}:{3 if value is COUNTERS else 2}: {'.'.join(field)}"
    assert words in caught.value.message


def test_a_figure_may_be_nothing_or_below_zero_where_that_can_be(tmp_path):
    path = tmp_path / "r.jsonl"
    idle = _edited(MEASURED, "timing", "fused", "events", "median_ms", to=0.0)
    path.write_bytes(HEADER + idle + _edited(PROBE, "event_overhead_us", to=-0.1))
    report = read_report(path)
    assert report.records[0].timing.fused.events.median_ms == 0
    assert report.probes[0].event_overhead_us == -0.1


def test_a_newer_schema_is_refused_by_name(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_bytes(HEADER.replace(b'"schema":%d' % SCHEMA_VERSION, b'"schema":99'))
    with pytest.raises(ReportError, match=rf"reads up to {SCHEMA_VERSION}\n.*upgrade portkit"):
        read_report(path)


def test_missing_files_and_folders_without_reports(tmp_path):
    with pytest.raises(ReportError, match="No such file"):
        merge([tmp_path / "absent.jsonl"])
    with pytest.raises(ReportError, match=r"no report in this folder\n.*pytest --benchmark"):
        merge([tmp_path])


def test_one_bad_report_among_good_ones_is_not_skipped(tmp_path):
    Journal.create(tmp_path, header()).close()
    (tmp_path / "bad.jsonl").write_bytes(HEADER + RECORD[:50] + b"\n" + RECORD)
    with pytest.raises(ReportError, match=r"bad\.jsonl:2: not a line of a report"):
        merge([tmp_path])


FOREIGN = {
    "empty.jsonl": (b"", "is empty"),
    "log.jsonl": (b'{"level": "info"}\n', "not a line of a portkit report"),
    "beheaded.jsonl": (RECORD, "begins with a line of kind record, not with its header"),
    "binary.jsonl": (b"\x7fELF\xff\n", "not a line of a report"),
}


def test_files_of_a_folder_that_are_no_reports_are_left_out_with_a_warning(tmp_path):
    Journal.create(tmp_path / "good", header()).close()
    (tmp_path / "other").mkdir()
    for name, (content, _) in FOREIGN.items():
        (tmp_path / "other" / name).write_bytes(content)
    dataset = merge([tmp_path])
    assert len(dataset.headers) == 1
    warnings = [text for text in dataset.warnings if text.startswith("left out")]
    assert len(warnings) == len(FOREIGN)
    for text, (name, (_, why)) in zip(warnings, sorted(FOREIGN.items()), strict=True):
        assert text.startswith(f"left out other/{name}: {why}")


def test_a_file_that_is_no_report_is_refused_where_it_is_named(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"level": "info"}\n')
    with pytest.raises(ReportError, match=r"log\.jsonl:1: not a line of a portkit report"):
        merge([path])
    with pytest.raises(ReportError, match=r"no report in this folder; left out log\.jsonl: not a line"):
        merge([tmp_path])


def test_a_circle_of_links_can_not_be_read(tmp_path):
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    one.symlink_to(two)
    two.symlink_to(one)
    with pytest.raises(ReportError, match="symbolic links"):
        merge([one])
    Journal.create(tmp_path, header()).close()
    assert len(merge([tmp_path]).headers) == 1


def test_a_disk_that_does_not_give_the_bytes(tmp_path, monkeypatch):
    def broken(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(sources, "is_parquet", broken)
    (tmp_path / "r.jsonl").write_text("{}\n")
    with pytest.raises(ReportError, match=r"r\.jsonl: can't be read: Input/output error\n.*check the disk"):
        merge([tmp_path / "r.jsonl"])


def test_blank_lines_are_no_lines(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"\n" + HEADER + b"\r\n" + RECORD + ending(1) + b"\n  \n\n ")
    report = read_report(path)
    assert (report.records, report.partial) == ((record(),), None)
    path.write_bytes(HEADER + b"\n\n" + RECORD + RECORD)
    with pytest.raises(ReportError, match=r"r\.jsonl:5: the cell of line 4 again"):
        read_report(path)
    path.write_bytes(b"\n \n")
    with pytest.raises(ReportError, match="is empty"):
        read_report(path)


def test_a_report_is_never_overwritten(tmp_path):
    Journal.create(tmp_path, header()).close()
    with pytest.raises(ReportError, match="never overwrites"):
        Journal.create(tmp_path, header())


@pytest.mark.parametrize("folder", ["reports", "reports/local"])
def test_a_file_in_place_of_a_folder(tmp_path, folder):
    (tmp_path / "reports").write_text("")
    with pytest.raises(ReportError, match=r"Not a directory\n.*name a folder"):
        Journal.create(tmp_path / folder, header())


def test_a_report_that_is_not_there(tmp_path):
    with pytest.raises(ReportError, match=r"No such file or directory\n.*make a report first: `pytest --benchmark`"):
        read_report(tmp_path / "local")


def test_no_write_permission(tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    with without_root(), pytest.raises(ReportError, match=r"Permission denied\n.*that you may write"):
        Journal.create(folder, header())


def test_a_report_that_is_being_written_is_not_resumed(tmp_path):
    journal = Journal.create(tmp_path, header())
    with pytest.raises(ReportError, match="still goes on"):
        Journal.reopen(journal.path)
    journal.close()
    reopened, _ = Journal.reopen(journal.path)
    reopened.close()


def test_a_record_twice_or_of_another_run(tmp_path):
    journal = Journal.create(tmp_path, header())
    journal.append(record())
    with pytest.raises(ReportError, match="was written before"):
        journal.append(record())
    with pytest.raises(ReportError, match="is of run other"):
        journal.append(record(run=header(run_id="other")))
    journal.finish()
    with pytest.raises(ReportError, match="is closed"):
        journal.append(record(target="a100"))


def test_no_room_left_keeps_what_was_finished_and_goes_on_when_there_is_room(tmp_path):
    journal = Journal.create(tmp_path, header(cells=2))
    journal.append(record())
    with file_size_limit(journal.path.stat().st_size + 100), pytest.raises(ReportError, match="finished is kept"):
        journal.append(record(target="mi300x"))
    assert read_report(journal.path).records == (record(),)
    journal.append(record(target="mi300x"))
    journal.finish()
    assert read_report(journal.path).partial is None


def test_a_record_whose_names_alone_are_too_large(tmp_path):
    journal = Journal.create(tmp_path, header())
    with pytest.raises(ReportError, match=f"{LIMIT} is the most"):
        journal.append(record(variant="v" * 9000))
    assert read_report(journal.path).records == ()
    journal.close()


def test_two_different_reports_of_one_run(tmp_path):
    for name, target in (("a", "h200"), ("b", "mi300x")):
        journal = Journal.create(tmp_path / name, header())
        journal.append(record(**{"target": cell(target=target).target}))
        journal.finish()
    with pytest.raises(ReportError, match="two different reports of one run"):
        merge([tmp_path])


@contextlib.contextmanager
def without_root():
    """As an ordinary user: root may write everywhere."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
