"""The script that holds the device trace against the profiler's clock."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import factories
import pytest

import portkit
from portkit.model import Clock, Counted, Counters, Evidence, Timed
from portkit.store.journal import Journal

SCRIPT = Path(portkit.__file__).parent.parent / "scripts" / "compare_clocks.py"
COUNTED = Counted(1, 0.1, None, None, None, "k", None, None, None, None, None, None, None)


def report(folder, *, trace_us, profiler_us, kernels=1, counted=1, idle_us=None, copies=None, copied_us=None):
    """A report of one cell, traced and counted."""
    clock = Clock(trace_us / 1e3, trace_us / 1e3, trace_us / 1e3, 20)
    copied = None if copied_us is None else copied_us / 1e3
    fused = Timed(events=clock, trace=clock, kernels=kernels, copies=copies, copied_ms=copied)
    timing = dataclasses.replace(factories.timing(), fused=fused, baselines={}, speedup={})
    header = factories.header()
    journal = Journal.create(folder, header)
    record = journal.append(factories.record(Evidence.MEASURED, run=header, timing=timing))
    idle = None if idle_us is None else idle_us / 1e3
    function = dataclasses.replace(COUNTED, kernels=counted, duration_ms=profiler_us / 1e3, idle_ms=idle)
    journal.add(Counters(header.run_id, record.keys.cell_key, Evidence.MEASURED, "ncu", {"fused": function}))
    journal.finish("complete")
    return journal.path


def compare(*paths):
    return subprocess.run([sys.executable, SCRIPT, *paths], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("trace_us", "profiler_us", "agrees"),
    [
        (101.9, 100.0, True),  # 2 %
        (102.1, 100.0, False),
        (97.9, 100.0, False),
        (6.4, 5.0, True),  # 1.5 µs
        (6.6, 5.0, False),
    ],
)
def test_two_per_cent_or_a_microsecond_and_a_half(tmp_path, trace_us, profiler_us, agrees):
    done = compare(report(tmp_path, trace_us=trace_us, profiler_us=profiler_us))
    assert done.returncode == (0 if agrees else 1), done.stdout + done.stderr
    assert f"{int(agrees)} of 1 within 2% or 1.5 µs a kernel" in done.stdout


@pytest.mark.parametrize(("trace_us", "agrees", "as_one"), [(48.6, 1, 1), (45.6, 1, 0), (45.4, 0, 0)])
def test_each_kernel_of_a_chain_may_differ_and_the_call_is_told_too(tmp_path, trace_us, agrees, as_one):
    done = compare(report(tmp_path, trace_us=trace_us, profiler_us=50, kernels=4, counted=3))
    assert done.returncode == (0 if agrees else 1), done.stdout
    assert f"{agrees} of 1 within 2% or 1.5 µs a kernel\n{as_one} of 1 within 2% or 1.5 µs a call" in done.stdout


@pytest.mark.parametrize(("idle_us", "at_work"), [(3.2, 1), (1.0, 0), (9.0, 0)])
def test_without_the_time_in_which_nothing_had_work(tmp_path, idle_us, at_work):
    done = compare(report(tmp_path, trace_us=47.3, profiler_us=50, kernels=3, counted=3, idle_us=idle_us))
    assert done.returncode == 0, done.stdout
    assert f"0 of 1 within 2% or 1.5 µs a call\n{at_work} of 1 within 2% or 1.5 µs a call, without idle" in done.stdout
    assert f" {idle_us:.2f} " in done.stdout


@pytest.mark.parametrize(("kernels", "counted", "code"), [(3, 2, 0), (2, 2, 0), (2, 3, 1)])
def test_a_kernel_that_was_not_traced_does_not_agree(tmp_path, kernels, counted, code):
    done = compare(report(tmp_path, trace_us=100, profiler_us=100, kernels=kernels, counted=counted))
    assert done.returncode == code
    assert f"{kernels}/{counted}" in done.stdout


@pytest.mark.parametrize(("trace_us", "copies", "code"), [(131, 1, 0), (135, 1, 1), (131, 0, 1)])
def test_copies_are_taken_off_the_trace_for_the_profiler_sees_none(tmp_path, trace_us, copies, code):
    path = report(tmp_path, trace_us=trace_us, profiler_us=100, kernels=3, counted=2, copies=copies, copied_us=30)
    done = compare(path)
    assert done.returncode == code, done.stdout
    assert f" {trace_us - 30:.2f} " in done.stdout
    assert f"{3 - copies}/2" in done.stdout


def test_one_function_alone(tmp_path):
    path = report(tmp_path, trace_us=100, profiler_us=100)
    assert compare(path, "--function", "fused").returncode == 0
    assert compare(path, "--function", "eager").returncode == 2


def test_a_report_without_counters_can_not_be_compared(tmp_path):
    journal = Journal.create(tmp_path, factories.header())
    journal.finish("complete")
    done = compare(journal.path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no function was both traced and counted" in done.stderr
