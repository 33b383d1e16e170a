"""Reading rocprofv3's tables: versions, damage, and what their columns must not be taken for."""

import shutil
import sqlite3
from dataclasses import replace

import pytest
from rocprof_files import OLD, Ran, begins, counters_csv, database, ends, in_range, leave, trace_csv

from portkit.run.counters.markers import grid_of, in_ranges, name_of
from portkit.run.counters.rocprof_tables import read_database, read_folder, read_text

KERNELS = [
    Ran("softmax_kernel", (128, 2, 1), (256, 1, 1), 7_000, 2_048, {"OccupancyPercent": 42.5, "FETCH_SIZE": 4096.0}),
    Ran("void at::native::vectorized<4, add>(int, float*)", (32, 1, 1), counters={"OccupancyPercent": 61.0}),
]


@pytest.mark.parametrize("version", OLD)
def test_text_of_each_version(version):
    """Rows come in no certain order; columns are found by name, timestamps in the trace."""
    found = read_text(trace_csv(KERNELS, version), counters_csv(KERNELS, version))
    assert found.whole
    first, second = found.rows
    assert (first.number, first.name, first.duration_ns) == (1, "softmax_kernel", 7_000)
    assert (second.number, second.name) == (2, KERNELS[1].name)
    assert first.counters == {"OccupancyPercent": 42.5, "FETCH_SIZE": 4096.0}


def test_the_grid_is_in_blocks():
    """The tables count work-items."""
    first, _ = read_text(trace_csv(KERNELS), "").rows
    assert (first.blocks, first.threads) == ((128, 2, 1), (256, 1, 1))


def test_lds_of_the_text_is_not_that_of_the_launch():
    """It is what the binary asks for by itself, 0 in all of Triton's kernels."""
    assert [row.lds_bytes for row in read_text(trace_csv(KERNELS), "").rows] == [None, None]


def test_a_database_has_lds_of_the_launch(tmp_path):
    database(tmp_path / "a_results.db", KERNELS)
    found = read_database(tmp_path / "a_results.db")
    assert [row.number for row in found.rows] == [1, 2]
    assert found.rows[0].lds_bytes == 2_048
    assert found.rows[0].counters == {"OccupancyPercent": 42.5, "FETCH_SIZE": 4096.0}
    assert found.rows[0].blocks == (128, 2, 1)


def test_text_and_database_say_the_same(tmp_path):
    database(tmp_path / "a_results.db", KERNELS)
    of_text = read_text(trace_csv(KERNELS), counters_csv(KERNELS))
    of_base = read_database(tmp_path / "a_results.db")
    assert [replace(row, lds_bytes=None) for row in of_base.rows] == list(of_text.rows)


@pytest.mark.parametrize("name", ["k.kd", "k [clone .kd]", "k.kd [clone .kd]", " k "])
def test_marks_of_a_descriptor_are_no_part_of_a_name(name):
    assert read_text(trace_csv([Ran(name)]), "").rows[0].name == "k"


def test_a_trace_that_is_cut_off():
    text = trace_csv(KERNELS)
    found = read_text(text[:-20], "")
    assert not found.whole
    assert [row.number for row in found.rows] == [2]  # the first is written last


def test_counters_that_are_cut_off():
    text = counters_csv(KERNELS)
    found = read_text(trace_csv(KERNELS), text[:-20])
    assert not found.whole
    assert found.rows[1].counters == {}


@pytest.mark.parametrize(
    ("trace", "counters"),
    [
        (trace_csv(KERNELS).replace(",7,", ",seven,").replace("1000000107000", "later"), ""),
        (trace_csv(KERNELS), counters_csv(KERNELS).replace("42.5", "some")),
    ],
)
def test_what_is_no_number_is_left_out_and_said(trace, counters):
    found = read_text(trace, counters)
    assert not found.whole


def test_values_that_are_not_finite_are_no_values():
    """A counter that divides by a clock that stood still."""
    kernels = [Ran("k", counters={"OccupancyPercent": float("nan"), "FETCH_SIZE": 1.0})]
    assert read_text(trace_csv(kernels), counters_csv(kernels)).rows[0].counters == {"FETCH_SIZE": 1.0}


@pytest.mark.parametrize("trace", ["", "\n", "no table\n", '"Kind","Kernel_Name"\n"KERNEL_DISPATCH","k"\n'])
def test_no_trace_is_no_table(trace):
    assert read_text(trace, counters_csv(KERNELS)) is None


def test_counters_of_another_tool_are_not_whole():
    found = read_text(trace_csv(KERNELS), "Index,KernelName,gpu-id\n0,k,1\n")
    assert not found.whole
    assert found.rows[0].counters == {}


def test_an_empty_run_is_a_table_without_kernels(tmp_path):
    leave(tmp_path, [])
    assert read_folder(tmp_path).rows == ()


def test_a_folder_prefers_the_database(tmp_path):
    leave(tmp_path / "host" / "42", KERNELS, ("csv", "rocpd"))
    assert read_folder(tmp_path).rows[0].lds_bytes == 2_048


@pytest.mark.parametrize("damage", [b"", b"SQLite format 3\0 and then nothing", b"no database at all"])
def test_a_damaged_database_leaves_the_text(tmp_path, damage):
    leave(tmp_path, KERNELS)
    (tmp_path / "portkit_results.db").write_bytes(damage)
    assert len(read_folder(tmp_path).rows) == 2


@pytest.mark.parametrize("change", ["DROP VIEW kernels", "DROP VIEW counters_collection"])
def test_a_database_of_another_form_leaves_the_text(tmp_path, change):
    leave(tmp_path, KERNELS, ("csv", "rocpd"))
    base = sqlite3.connect(tmp_path / "portkit_results.db")
    base.execute(change)
    base.commit()
    base.close()
    assert read_folder(tmp_path).rows[0].lds_bytes is None


def test_a_database_without_a_column(tmp_path):
    leave(tmp_path, KERNELS, ("rocpd",))
    base = sqlite3.connect(tmp_path / "portkit_results.db")
    base.execute("DROP VIEW kernels")
    base.execute("CREATE VIEW kernels AS SELECT name, start, end FROM dispatched")
    base.commit()
    base.close()
    assert read_folder(tmp_path) is None


def test_a_process_that_launched_nothing_adds_nothing(tmp_path):
    """A compiler that the program started has the profiler's library in it, too."""
    leave(tmp_path / "41", [], name="41")
    leave(tmp_path / "42", KERNELS, name="42")
    leave(tmp_path / "43", [], name="43")
    assert [row.name for row in read_folder(tmp_path).rows] == [kernel.name for kernel in KERNELS]


def test_an_empty_folder(tmp_path):
    assert read_folder(tmp_path) is None
    shutil.rmtree(tmp_path)
    assert read_folder(tmp_path) is None


@pytest.mark.parametrize("name", ["0.0.0", "12.3.4", "99999.2.0"])
def test_a_range_is_the_shape_of_a_grid(name):
    assert name_of(grid_of(name)) == name
    assert min(grid_of(name)) > 0


def test_kernels_between_markers_are_the_range_s():
    a, b, c = Ran("a"), Ran("b"), Ran("c")
    ran = [ends(), a, *in_range("3.1.0", b, c), a, begins("4.0.2"), b]
    found = [(name, row.name) for name, row in in_ranges(read_text(trace_csv(ran), "").rows)]
    assert found == [("", "a"), ("3.1.0", "b"), ("3.1.0", "c"), ("", "a"), ("4.0.2", "b")]
