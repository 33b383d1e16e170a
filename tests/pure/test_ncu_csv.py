"""Tables of Nsight Compute: both layouts, and what may stand in a field."""

from pathlib import Path

import pytest

from portkit.run.counters import BuiltKernel, Kernel
from portkit.run.counters.ncu_csv import parse
from portkit.run.counters.ncu_metrics import Metrics

H200 = Path(__file__).parent.parent / "records" / "ncu" / "raw_wide_h200.csv"
STACK = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
ENDS = "none:none:none:none:none:none"


def wide(*rows, units=("us", "Kbyte"), metrics=("gpu__time_duration.sum", "dram__bytes_read.sum")):
    """Lines of the wide layout; a row is its range's name and its values."""
    lines = [("ID", "Process Name", STACK, "Kernel Name", "Block Size", *metrics), ("",) * 5 + units]
    for number, (name, *values) in enumerate(rows):
        stack = f'9 ""<default domain>:portkit:{ENDS}"" ""<default domain>:{name}:{ENDS}"" '
        lines.append((str(number), "python", stack, "k", "(1, 1, 1)", *values))
    return "".join(",".join(f'"{field}"' for field in line) + "\n" for line in lines)


def test_real_table_of_an_h200():
    table = parse(H200.read_text(encoding="utf-8"))
    assert table.whole
    assert [kernel.name for kernel in table.kernels] == ["sum_abs", "add_rms"]
    first = table.kernels[0]
    assert first.range == ""
    assert first.metrics["dram__bytes_read.sum"] == 1_073_758_976
    assert first.metrics["gpu__time_duration.sum"] == 237_056
    assert first.metrics["launch__func_cache_config"] == "CachePreferNone"
    assert first.fields["Block Size"] == "(256, 1, 1)"
    assert not {"Host Name", "Process ID"} & set(first.fields)


def test_real_table_becomes_figures():
    table = parse(H200.read_text(encoding="utf-8"))
    counted, nulls = Metrics.of("sm_90").count(table.kernels[:1])
    assert counted.duration_ms == 0.237056
    assert counted.dram_read_bytes == 1_073_758_976
    assert counted.dram_write_bytes == 4_633_600
    assert (counted.occupancy_achieved_pct, counted.occupancy_theoretical_pct) == (97.35, 100)
    assert counted.occupancy_limiter == "waves"  # registers allow as many blocks, 8
    assert (counted.registers_per_thread, counted.shared_bytes_per_block) == (32, 32)
    assert counted.waves_per_unit == 31.03
    # Others were asked for when it was written.
    assert set(nulls) == {"occupancy_achieved_elapsed_pct", "local_bytes", "idle_ms"}
    assert counted.local_bytes is None
    assert "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum" in nulls["local_bytes"]


def test_range_units_and_thousands():
    (kernel,) = parse(wide(("3.1.0", "1,205.50", "2,048.25"))).kernels
    assert kernel.range == "3.1.0"
    assert kernel.metrics == {"gpu__time_duration.sum": 1_205_500.0, "dram__bytes_read.sum": 2_048_250.0}


def test_ranges_that_the_function_opens_take_no_kernel_away():
    text = wide(("3.1.0", "5", "6")).replace("3.1.0:" + ENDS, f'3.1.0:{ENDS}"" ""<default domain>:2.11.0:{ENDS}')
    assert [kernel.range for kernel in parse(text).kernels] == ["3.1.0"]


def test_a_kernel_name_as_long_as_may_be():
    name = "k" * 300_000
    (kernel,) = parse(wide(("3.1.0", "5", "6")).replace('"k"', f'"{name}"')).kernels
    assert kernel.name == name


def test_a_quote_that_nothing_closes():
    table = parse(wide(("0.0.0", "5", "6")) + '"1","' + "row\n" * 50_000)
    assert not table.whole
    assert [kernel.range for kernel in table.kernels] == ["0.0.0"]


@pytest.mark.parametrize("text", ["n/a", "nan", "", "1e999", "-1e999"])
def test_no_value_is_not_zero(text):
    (kernel,) = parse(wide(("3.1.0", "5", text))).kernels
    assert "dram__bytes_read.sum" not in kernel.metrics
    counted, nulls = Metrics.of("sm_90").count([kernel])
    assert counted.dram_read_bytes is None
    assert nulls["dram_read_bytes"] == "ncu has no value of dram__bytes_read.sum for k"


def test_what_stands_before_the_table_is_skipped():
    said = 'printed by the program\n==PROF== Profiling "k" - 0: 0%....100% - 1 pass\n'
    table = parse(said + wide(("0.0.0", "5", "6")) + "==PROF== Disconnected from process 9\n")
    assert table.whole
    assert [kernel.range for kernel in table.kernels] == ["0.0.0"]


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_cut_row_is_left_out(cut):
    text = wide(("0.0.0", "5", "6"), ("0.1.0", "7", "8"))
    table = parse(text[:-cut])
    assert not table.whole
    assert [kernel.range for kernel in table.kernels] == ["0.0.0"]


@pytest.mark.parametrize("text", ["", "==WARNING== No kernels were profiled.\n", '"ID","Proc'])
def test_no_table(text):
    assert parse(text) is None


def test_a_table_without_rows_has_no_kernel():
    assert parse(wide()).kernels == ()


def test_long_layout():
    """As ``--metrics … --csv`` without ``--page raw`` writes it; rows of rules end later than those of metrics."""
    about = '"ID","Process Name","Kernel Name","Block Size","Section Name"'
    header = f'{about},"Metric Name","Metric Unit","Metric Value","Rule Name"\n'
    rows = [
        '"0","app","first","(32, 1, 1)","Command line profiler metrics","dram__bytes_read.sum","","n/a"\n',
        '"0","app","first","(32, 1, 1)","Command line profiler metrics","gpu__time_duration.sum","us","1,205.00",\n',
        '"1","app","second","(64, 1, 1)","Command line profiler metrics","gpu__time_duration.sum","ms","2.5"\n',
        '"1","app","second","(64, 1, 1)","Speed Of Light","","","","Bottleneck"\n',
    ]
    table = parse("".join([header, *rows]))
    assert table.whole
    assert [(kernel.name, dict(kernel.metrics)) for kernel in table.kernels] == [
        ("first", {"gpu__time_duration.sum": 1_205_000.0}),
        ("second", {"gpu__time_duration.sum": 2_500_000.0}),
    ]
    assert [dict(kernel.fields) for kernel in table.kernels] == [
        {"Block Size": "(32, 1, 1)"},
        {"Block Size": "(64, 1, 1)"},
    ]


def kernel(name, **metrics):
    names = {
        "duration": "gpu__time_duration.sum",
        "read": "dram__bytes_read.sum",
        "write": "dram__bytes_write.sum",
        "active": "sm__warps_active.avg.pct_of_peak_sustained_active",
        "registers": "launch__registers_per_thread",
        "passes": "profiler__replayer_passes",
        "op_read": "dram__bytes_op_read.sum",
        "op_write": "dram__bytes_op_write.sum",
        "l2": "lts__t_bytes.sum",
        "cycles": "sm__cycles_elapsed.max",
        "busy": "sm__cycles_active.max",
    }
    return Kernel("0.0.0", name, {names[key]: float(value) for key, value in metrics.items()}, {})


def test_several_kernels_are_summed_and_the_longest_tells_of_occupancy():
    chain = [
        kernel("short", duration=2000, read=100, write=10, active=90, registers=16),
        kernel("long", duration=7000, read=300, write=30, active=40, registers=64),
    ]
    counted, _ = Metrics.of("sm_90").count(chain)
    assert (counted.kernels, counted.kernel) == (2, "long")
    assert counted.duration_ms == 0.009
    assert (counted.dram_read_bytes, counted.dram_write_bytes) == (400, 40)
    assert (counted.occupancy_achieved_pct, counted.registers_per_thread) == (40, 64)


def test_time_without_work_on_any_sm_is_summed_over_the_kernels():
    chain = [kernel("a", duration=2000, cycles=4000, busy=1000), kernel("b", duration=9000, cycles=18000, busy=15000)]
    counted, nulls = Metrics.of("sm_90").count(chain)
    assert counted.idle_ms == pytest.approx((1500 + 1500) / 1e6)
    assert "idle_ms" not in nulls
    counted, nulls = Metrics.of("sm_90").count([*chain, kernel("c", duration=5, busy=1)])
    assert counted.idle_ms is None
    assert nulls["idle_ms"] == "ncu has no value of sm__cycles_elapsed.max for c"


def test_a_sum_is_unknown_where_one_of_its_kernels_is():
    counted, nulls = Metrics.of("sm_90").count([kernel("a", duration=5, read=1), kernel("b", duration=5)])
    assert counted.dram_read_bytes is None
    assert nulls["dram_read_bytes"].endswith("for b")


def test_bytes_of_several_passes_are_unknown():
    """Only the first of them finds cold caches."""
    counted, nulls = Metrics.of("sm_90").count([kernel("a", duration=5, read=1, write=1, passes=2)])
    assert (counted.dram_read_bytes, counted.dram_write_bytes, counted.duration_ms) == (None, None, 5e-6)
    assert "ran 2 times" in nulls["dram_write_bytes"]


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_103"])
def test_names_of_most_chips(architecture):
    names = Metrics.of(architecture).names
    assert {"dram__bytes_read.sum", "dram__bytes_write.sum"} <= set(names)


def test_without_local_memory_kernels_that_have_none_by_their_binary_move_none():
    metrics, built = Metrics.of("sm_90", local=False), [BuiltKernel("a", 32, 0, 128, 1, 8, 0)]
    assert not any("local" in name for name in metrics.names)
    assert metrics.names == tuple(name for name in Metrics.of("sm_90").names if "local" not in name)
    assert metrics.count([kernel("a", duration=5)], built)[0].local_bytes == 0
    for unseen in ([kernel("a", duration=5), kernel("b", duration=5)], [kernel("b", duration=5)]):
        counted, nulls = metrics.count(unseen, built)
        assert counted.local_bytes is None
        assert "--portkit-count-all" in nulls["local_bytes"]
    assert metrics.count([kernel("a", duration=5)])[0].local_bytes is None


def test_names_of_gb20x():
    metrics = Metrics.of("sm_120")
    assert not any(name.startswith("dram__bytes_read") for name in metrics.names)
    counted, _ = metrics.count([kernel("a", duration=5, op_read=7, op_write=3)])
    assert (counted.dram_read_bytes, counted.dram_write_bytes) == (7, 3)


@pytest.mark.parametrize("architecture", ["sm_110", "sm_121"])
def test_chips_without_counters_of_their_memory(architecture):
    metrics = Metrics.of(architecture)
    assert "lts__t_bytes.sum" in metrics.names
    assert not any(name.startswith("dram__") for name in metrics.names)
    counted, nulls = metrics.count([kernel("a", duration=5, l2=7)])
    assert counted.dram_read_bytes is None
    assert "lts__t_bytes" in nulls["dram_read_bytes"]
