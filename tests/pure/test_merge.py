"""Merging: which record is shown, what is warned of, and that no order matters."""

import dataclasses
import tempfile
from pathlib import Path

import pytest
from factories import build, header, host, launch, record
from hypothesis import given, settings
from hypothesis import strategies as st

from portkit.analysis.rows import comparison
from portkit.errors import ReportError
from portkit.model import Evidence
from portkit.render.table import render
from portkit.store.journal import Journal
from portkit.store.merge import merge


def run(number: int, **changes):
    """The header of the run of that number; a greater number is a later run."""
    return header(run_id=f"run{number}", started=f"2026-01-0{number}T00:00:00+00:00", **changes)


def write(folder, run, *records, whole=True):
    run = dataclasses.replace(run, cells=len(records))
    journal = Journal.create(folder, run)
    for r in records:
        journal.append(r)
    if whole:
        journal.finish()
    else:
        journal.close()
    return journal.path


def registers(dataset):
    return [row.record.build.registers_per_thread for row in dataset.rows]


def numbered(run, registers, evidence=Evidence.COMPILED, **changes):
    """A record that its registers tell from others."""
    return record(evidence, run=run, build=build(launch(registers)), **changes)


def test_one_row_per_cell_and_evidence(tmp_path):
    both = (record(run=run(1)), record(Evidence.MEASURED, run=run(1)), record(run=run(1), target="mi300x"))
    write(tmp_path, run(1), *both)
    dataset = merge([tmp_path])
    assert sorted((row.record.cell.target, row.record.evidence) for row in dataset.rows) == [
        ("h200", "compiled"),
        ("h200", "measured"),
        ("mi300x", "compiled"),
    ]
    assert dataset.warnings == ()


def test_the_newest_run_is_shown_and_the_others_are_kept(tmp_path):
    for n in (2, 3, 1):
        write(tmp_path, run(n), numbered(run(n), n))
    dataset = merge([tmp_path])
    assert registers(dataset) == [3]
    assert [other.run_id for other in dataset.rows[0].other_runs] == ["run2", "run1"]
    assert dataset.warnings == ()


def test_a_whole_run_stands_before_a_newer_partial_one(tmp_path):
    write(tmp_path, run(1), numbered(run(1), 1))
    write(tmp_path, run(2), numbered(run(2), 2), whole=False)
    dataset = merge([tmp_path])
    assert registers(dataset) == [1]
    assert dataset.warnings == (
        "run run2 is partial: no end line, the run was killed or still goes on; 1 of 1 planned cells kept",
    )


def test_a_partial_run_alone_is_shown(tmp_path):
    write(tmp_path, run(1), numbered(run(1), 1), whole=False)
    assert registers(merge([tmp_path])) == [1]


def test_the_newest_source_is_shown_and_an_older_one_beside_it_is_marked(tmp_path):
    old, new = run(1), run(2)
    write(tmp_path, old, numbered(old, 1), numbered(old, 9, Evidence.MEASURED))
    write(tmp_path, new, numbered(new, 2, source_hash="6" * 16), whole=False)
    dataset = merge([tmp_path])
    shown = {row.record.evidence: (row.record.build.registers_per_thread, row.older_source) for row in dataset.rows}
    assert shown == {Evidence.COMPILED: (2, False), Evidence.MEASURED: (9, True)}
    assert dataset.warnings[1] == (
        "softmax: the source changed between runs in 1 cell (5555555555555555, 6666666666666666); "
        "the newest is shown, but 1 row only of an older one (marked)"
    )


def test_compiled_rows_show_the_newest_triton_before_the_newest_run(tmp_path):
    newer_triton = run(1, host=host(triton="3.10.0"))
    older_triton = run(2, host=host(triton="3.9.1"))
    write(tmp_path, newer_triton, numbered(newer_triton, 10))
    write(tmp_path, older_triton, numbered(older_triton, 9))
    dataset = merge([tmp_path])
    assert registers(dataset) == [10]
    assert dataset.warnings == (
        "of several Triton versions (3.9.1, 3.10.0) 3.10.0 is shown, the others as drift: 1 compiled row",
    )
    asked = merge([tmp_path], triton="3.9.1")
    assert (registers(asked), asked.triton) == ([9], "3.9.1")
    with pytest.raises(ReportError, match=r"no compiled or emulated row is of Triton 3\.8\n.*one of 3\.9\.1, 3\.10\.0"):
        merge([tmp_path], triton="3.8")


def test_where_no_row_has_a_version_of_its_own_none_can_be_asked_for(tmp_path):
    write(tmp_path, run(1), numbered(run(1), 1, Evidence.MEASURED))
    with pytest.raises(ReportError, match="leave it out: there is no such row"):
        merge([tmp_path], triton="3.8")


def test_measured_rows_of_two_hosts_are_named(tmp_path):
    for n, name in ((1, "one"), (2, "two")):
        here = run(n, host=host(host_id=name))
        write(tmp_path, here, numbered(here, n, Evidence.MEASURED))
    dataset = merge([tmp_path])
    assert registers(dataset) == [2]
    assert dataset.warnings == ("of several hosts the newest whole run is shown: 1 measured row",)


def test_a_report_given_twice_or_copied_in_part_counts_once(tmp_path):
    path = write(tmp_path / "a", run(1), record(run=run(1)), record(run=run(1), target="mi300x"))
    whole = path.read_bytes()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "copy.jsonl").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "b" / "copy2.jsonl").write_bytes(whole)
    dataset = merge([tmp_path, path, tmp_path / "a" / ".." / "a"])
    assert len(dataset.rows) == 2
    assert len(dataset.headers) == 1
    assert dataset.warnings == ()
    assert all(row.other_runs == () for row in dataset.rows)


@pytest.fixture(scope="module")
def six_reports(tmp_path_factory):
    """Six runs that differ in age, Triton, source, host and wholeness, and their merge."""
    folder = tmp_path_factory.mktemp("six")
    for n in range(6):
        here = run(n + 1, host=host(triton=f"3.{7 + n % 3}.0", host_id=f"h{n % 2}"))
        source = {"source_hash": str(n // 3) * 16}
        cells = (numbered(here, n, **source), numbered(here, n, Evidence.MEASURED, **source))
        write(folder, here, *cells[: 1 + n % 2], whole=n != 5)
    return [path.read_bytes() for path in sorted(folder.iterdir())], merge([folder])


def test_six_reports_together(six_reports):
    _, dataset = six_reports
    shown = {row.record.evidence: row.record.run_id for row in dataset.rows}
    assert shown == {Evidence.MEASURED: "run4"}  # newest whole run; its Triton is not the newest
    assert {row.record.run_id for row in dataset.drift} == {"run6"}
    assert [h.run_id for h in dataset.headers] == [f"run{n}" for n in range(1, 7)]
    assert len(dataset.warnings) == 4  # partial, source, drift, toolchains


@given(names=st.permutations(range(6)), order=st.permutations(range(6)), as_folder=st.booleans())
@settings(max_examples=20, deadline=None)
def test_neither_the_order_nor_the_names_of_files_matter(six_reports, names, order, as_folder):
    contents, expected = six_reports
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{name}.jsonl") for name in names]
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        assert merge([Path(folder)] if as_folder else [paths[i] for i in order]) == expected


def test_kernels_whose_file_can_not_be_used_are_counted_and_named(tmp_path):
    failures = {"rope": "k/rope.py:3: no module named x\n  remedy: install it", "gelu": "is no kernel file"}
    here = run(1, failures=failures)
    write(tmp_path, here, record(run=here))
    dataset = merge([tmp_path])
    assert dataset.headers[0].failures == failures
    assert dataset.warnings == (
        "run run1 has no rows of 2 kernels whose file can't be used: "
        "gelu (is no kernel file); rope (k/rope.py:3: no module named x)",
    )
    text = render(comparison(dataset), "github")
    assert "run run1: matrix.yaml, tier quick, portkit 0.1.0, kernels that can't be used: 2\n" in text
    assert f"- {dataset.warnings[0]}\n" in text


def test_of_many_kernels_that_can_not_be_used_ten_are_named(tmp_path):
    here = run(1, failures={f"k{i:02}": "is no kernel file, " + "x" * 500 for i in range(12)})
    write(tmp_path, here, record(run=here))
    (warning,) = merge([tmp_path]).warnings
    assert warning.startswith("run run1 has no rows of 12 kernels whose file can't be used: k00 (is no kernel file,")
    assert warning.endswith("k09 (is no kernel file, …); and 2 more")


def test_a_damaged_report_is_raised(tmp_path):
    path = write(tmp_path, run(1), record(run=run(1)))
    path.write_bytes(path.read_bytes().replace(b"softmax", b"softmin"))
    with pytest.raises(ReportError, match="checksum"):
        merge([tmp_path])
