"""Writing a report and reading it back, whole and cut off."""

import dataclasses
import json
import os
import re

import pytest
from factories import build, cell, header, host, launch, record, result, tuned_build, verdict

from portkit.errors import ReportError
from portkit.model import (
    Evidence,
    Expectation,
    FamilyVerdict,
    Outcome,
    PlannedCell,
    Selector,
    Stage,
    Status,
    Work,
    cell_key,
)
from portkit.store.fit import LIMIT
from portkit.store.journal import Journal, new_run_id, read_blob, read_report
from portkit.store.record import env_key, make_record


def write(folder, *records, cells=None, finish="complete"):
    journal = Journal.create(folder, header(cells=len(records) if cells is None else cells))
    kept = [journal.append(r) for r in records]
    if finish:
        journal.finish(finish)
    else:
        journal.close()
    return journal.path, kept


def test_a_report_is_read_as_it_was_written(tmp_path):
    records = (record(), record(target="mi300x"), record(Evidence.MEASURED))
    path, kept = write(tmp_path / "reports" / "local", *records)
    report = read_report(path)
    assert path.name == f"{header().run_id}.jsonl"
    assert kept == list(records) == list(report.records)
    assert report.header == header(cells=3)
    assert report.end.counts == {"built": 2, "passed": 1}
    assert report.partial is None


def test_run_ids_are_times_that_never_repeat():
    ids = {new_run_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch(r"\d{8}T\d{6}Z-[0-9a-f]{8}", run) for run in ids)


def test_each_record_is_on_the_disk_before_the_next_begins(tmp_path):
    journal = Journal.create(tmp_path, header(cells=2))
    journal.append(record())
    report = read_report(journal.path)
    assert report.records == (record(),)
    assert report.partial == "no end line, the run was killed or still goes on; 1 of 2 planned cells kept"
    journal.close()


@pytest.mark.parametrize("finish", [None, "complete"], ids=["record last", "end last"])
def test_a_last_line_cut_at_any_byte_is_left_out_and_said(tmp_path, finish):
    path, _ = write(tmp_path, record(), record(target="mi300x"), finish=finish)
    content = path.read_bytes()
    begin = content.rindex(b"\n", 0, -1) + 1
    whole = 2 if finish else 1
    for size in range(len(content) - 2, begin, -1):
        os.truncate(path, size)
        report = read_report(path)
        assert len(report.records) == whole
        assert report.partial == f"the last line is cut off; {whole} of 2 planned cells kept"


def test_a_last_line_that_lost_only_its_newline_is_kept(tmp_path):
    path, _ = write(tmp_path, record())
    path.write_bytes(path.read_bytes()[:-1])
    assert read_report(path).partial is None


@pytest.mark.parametrize(
    ("cells", "finish", "why"),
    [(5, "complete", "it ended with 1 of 5"), (1, "interrupted", "the run was interrupted; 1 of 1")],
)
def test_a_report_that_ended_early_is_partial(tmp_path, cells, finish, why):
    path, _ = write(tmp_path, record(), cells=cells, finish=finish)
    assert read_report(path).partial.startswith(why)


def test_a_blob_is_stored_once_under_its_content(tmp_path):
    journal = Journal.create(tmp_path, header())
    address = journal.store_blob("ptx", b".version 8.0")
    assert address == journal.store_blob("asm", b".version 8.0")
    blobs = [p for p in tmp_path.rglob("*") if p.is_file() and p != journal.path]
    assert [str(p.relative_to(tmp_path)) for p in blobs] == [f"{header().run_id}.blobs/{address[:2]}/{address}"]
    assert read_blob(journal.path, address) == b".version 8.0"
    blobs[0].write_bytes(b".version 9.0")
    with pytest.raises(ReportError, match="not what its name says"):
        read_blob(journal.path, address)


def test_a_long_message_is_cut_and_kept_whole_in_a_blob(tmp_path):
    text = "error: " + "x" * 10_000
    path, (kept,) = write(tmp_path, record(outcome=Outcome(Status.COMPILE_ERROR, Stage.COMPILE, text)))
    assert len(kept.outcome.message) <= 400
    assert kept.outcome.message.endswith("(10007 characters in all)")
    assert read_blob(path, kept.blobs["message"]).decode() == text
    assert read_report(path).records == (kept,)


def test_many_launches_keep_the_worst_figures_and_the_count(tmp_path):
    launches = [launch(registers=32 + i % 7, shared=64 * (i % 5), percent=100 - i % 11) for i in range(60)]
    launches[40] = launch(spill=16, limits_broken=("shared memory 131072 B > 101376 B",))
    whole = record(build=build(*launches))
    path, (kept,) = write(tmp_path, whole)
    assert max(len(line) for line in path.read_bytes().splitlines()) < LIMIT
    assert kept.build.launch_count == 60
    assert len(kept.build.launches) < 10
    for figure in ("registers_per_thread", "spill_bytes_per_thread", "shared_bytes_per_block", "limits_broken"):
        assert getattr(kept.build, figure) == getattr(whole.build, figure)
    assert kept.build.worst_occupancy.percent == whole.build.worst_occupancy.percent == 90
    assert len(json.loads(read_blob(path, kept.blobs["launches"]))) == 60


def test_launches_that_are_left_out_count_as_often_as_they_are_made(tmp_path):
    whole = record(build=build(*(launch(registers=32 + i, count=10) for i in range(60))))
    _, (kept,) = write(tmp_path, whole)
    assert kept.build.launch_count == whole.build.launch_count == 600
    assert kept.build.omitted_launches == 600 - 10 * len(kept.build.launches)


def test_many_configurations_keep_the_range_and_the_count(tmp_path):
    whole = record(build=tuned_build(failed=98))
    path, (kept,) = write(tmp_path, whole)
    assert max(len(line) for line in path.read_bytes().splitlines()) < LIMIT
    tuning = kept.build.tuning
    assert (tuning.ranges, tuning.configurations, tuning.usable) == (whole.build.tuning.ranges, 100, 2)
    assert (len(tuning.failed), tuning.omitted_failed) == (1, 97)
    assert (kept.build.launch_count, kept.build.omitted_launches) == (2, 0)
    assert (kept.build.registers_per_thread, kept.build.worst_occupancy.percent) == (72, 50.0)
    assert len(json.loads(read_blob(path, kept.blobs["tuning"]))["failed"]) == 98


def test_a_few_launches_lose_details_only(tmp_path):
    wordy = {f"argument_{i}": "*bf16 divisibility=16" for i in range(120)}
    _, (kept,) = write(tmp_path, record(build=build(*(launch(specialization=wordy) for _ in range(2)))))
    assert kept.build.omitted_launches == 0
    assert [x.specialization for x in kept.build.launches] == [{}, {}]


def test_families_that_passed_make_room_first(tmp_path):
    right = FamilyVerdict(Status.PASSED, 1e-7, 1e-6, nonfinite_agree=True)
    lines = {f"family{i}": right for i in range(90)} | {"nan": dataclasses.replace(right, nonfinite_agree=False)}
    judged = dataclasses.replace(verdict(), families=lines)
    path, (kept,) = write(tmp_path, record(Evidence.MEASURED, verdict=judged, build=build(launch())))
    assert set(kept.verdict.families) == {"nan"}
    assert kept.build.launches[0].constants == launch().constants
    assert len(json.loads(read_blob(path, kept.blobs["families"]))) == 91


def test_a_part_without_room_goes_to_a_blob_and_says_so(tmp_path):
    many = dataclasses.replace(verdict(), outputs=verdict().outputs * 99)
    path, (kept,) = write(tmp_path, record(Evidence.MEASURED, verdict=many))
    assert kept.verdict is None
    assert kept.nulls["verdict"] == "too large for a record; whole in the blob verdict"
    assert kept.timing is not None
    assert len(json.loads(read_blob(path, kept.blobs["verdict"]))["outputs"]) == 99


def huge_record():
    """More in each part than a line has room for, in characters that take the most bytes."""
    wide = "\U0001f600" * 5000
    rule = Expectation(Selector(), Status.WRONG_RESULT, wide, "matrix.yaml:9")
    planned = PlannedCell(cell(), Evidence.MEASURED, expectation=rule)
    found = result(
        Evidence.MEASURED,
        outcome=Outcome(Status.WRONG_RESULT, Stage.VERIFY, wide),
        nulls={f"part{i}": wide for i in range(100)},
        asked={f"query{i}": "x" * 100 for i in range(100)},
        work=Work(1, 2**62, 1),
    )
    return make_record(
        found,
        planned,
        header=header(),
        params={"names": ["x" * 100] * 100},
        source_hash="s" * 16,
        architecture="sm_90",
        blobs={f"blob{i}": "a" * 64 for i in range(100)},
    )


def test_a_record_of_any_size_fits_and_its_blobs_hold_the_whole(tmp_path):
    whole = huge_record()
    path, (kept,) = write(tmp_path, whole)
    assert max(len(line) for line in path.read_bytes().splitlines()) < LIMIT
    assert read_report(path).records == (kept,)
    assert (kept.keys, kept.cell, kept.outcome.status) == (whole.keys, whole.cell, Status.WRONG_RESULT)
    assert kept.nulls == {"nulls": "too large for a record; whole in the blob nulls"}
    blobs = json.loads(read_blob(path, kept.blobs["blobs"]))
    assert read_blob(path, blobs["message"]).decode() == whole.outcome.message
    assert read_blob(path, blobs["expected_reason"]).decode() == whole.expected_reason
    assert json.loads(read_blob(path, blobs["variant_params"])) == {"names": ["x" * 100] * 100}
    assert json.loads(read_blob(path, blobs["nulls"])).items() > whole.nulls.items()
    assert blobs.items() > whole.blobs.items()


@pytest.mark.parametrize("part", ["params", "reason"])
def test_long_parameters_and_a_long_reason_alone_leave_the_figures(tmp_path, part):
    rule = Expectation(Selector(), Status.UNSUPPORTED, "r" * 9000 if part == "reason" else "r", "matrix.yaml:9")
    params = {"table": list(range(2000))} if part == "params" else {"num_warps": 8}
    planned = PlannedCell(cell(), Evidence.COMPILED, expectation=rule)
    whole = make_record(result(), planned, header=header(), params=params, source_hash="s" * 16, architecture="sm_90")
    path, (kept,) = write(tmp_path, whole)
    assert kept.build.registers_per_thread == 32
    if part == "params":
        assert kept.variant_params == {}
        assert kept.nulls["variant_params"] == "too large for a record; whole in the blob variant_params"
        assert kept.keys.cell_key == cell_key(cell(), params)
    else:
        assert kept.expected_reason == "r" * 360 + " … (9000 characters in all)"
        assert read_blob(path, kept.blobs["expected_reason"]) == b"r" * 9000


def test_texts_are_stored_as_any_terminal_may_show_them(tmp_path):
    dirty = "\x1b[31mred\x1b[0m \x1b]0;title\x07end\r\nnext\rlast\x00 caf\udce9 \x9b2Jé"
    path, (kept,) = write(tmp_path, record(outcome=Outcome(Status.COMPILE_ERROR, Stage.COMPILE, dirty)))
    assert kept.outcome.message == "red end\nnext\nlast? caf? é"
    assert read_report(path).records == (kept,)


def test_a_long_text_that_is_no_unicode_goes_to_its_blob(tmp_path):
    path, (kept,) = write(tmp_path, record(outcome=Outcome(Status.COMPILE_ERROR, Stage.COMPILE, "\ud800" * 9000)))
    assert read_blob(path, kept.blobs["message"]) == b"?" * 9000


def test_the_header_is_cleaned_as_well(tmp_path):
    journal = Journal.create(tmp_path, header(failures={"k": "\x1b[1mno\x1b[0m such \udcff"}))
    journal.close()
    assert read_report(journal.path).header == journal.header == header(failures={"k": "no such ?"})


def test_timing_names_the_blob_of_its_samples():
    assert record(Evidence.MEASURED, blobs={"samples": "a" * 64}).timing.samples_ref == "a" * 64
    assert record(Evidence.MEASURED).timing.samples_ref is None


@pytest.mark.parametrize(
    "changes",
    [
        {"torch": "2.9.0"},
        {"triton": "3.8.0"},
        {"driver": "570.90"},
        {"toolkit": "13.0"},
        {"settings": {"TRITON_DEFAULT_FP_FUSION": "0"}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_each_part_of_the_toolchain_changes_the_environment_key(changes):
    assert env_key(host(**changes)) != env_key(host())


def test_another_gpu_of_the_host_is_no_other_toolchain():
    """A scheduler hands out now this one and now that."""
    keys = {env_key(host(settings={"CUDA_VISIBLE_DEVICES": each, "TRITON_PTXAS_PATH": "/p"})) for each in "01"}
    assert keys == {env_key(host(settings={"TRITON_PTXAS_PATH": "/p"}))}


def test_the_keys_of_a_record_each_do_their_own_job():
    rule = Expectation(Selector(), Status.UNSUPPORTED, "no fp8 there", "matrix.yaml:9")
    planned = PlannedCell(cell(), Evidence.COMPILED, expectation=rule)
    given = {"header": header(), "params": {"num_warps": 8}, "source_hash": "s1", "architecture": "sm_90"}
    made = make_record(result(), planned, **given)
    assert made.keys.cell_key == cell_key(cell(), {"num_warps": 8})
    assert made.keys.build_key == "b" * 16
    assert made.keys.env_key == env_key(header().host)
    assert (made.expected, made.expected_reason) == (Status.UNSUPPORTED, "no fp8 there")
    other_source = make_record(result(), planned, **{**given, "source_hash": "s2"})
    other_params = make_record(result(), planned, **{**given, "params": {"num_warps": 4}})
    assert other_source.keys.cell_key == made.keys.cell_key != other_params.keys.cell_key
    assert env_key(dataclasses.replace(header().host, host_id="other")) == made.keys.env_key
    assert make_record(result(build=None), planned, **given).keys.build_key is None
