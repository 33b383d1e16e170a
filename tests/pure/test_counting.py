"""Counting under a profiler that is not there, lacks permission, hangs, dies or cuts its table off."""

import json
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path

import fake_ncu
import pytest
from factories import cell

from portkit.errors import HostError
from portkit.model import CaseSource, Platform
from portkit.run.counters import Task, counting, ncu, taking
from portkit.run.counters.child import Begun, run_profiler
from portkit.run.counters.counting import Place, count_tasks
from portkit.run.counters.ncu import Ncu, open_ncu, restricted
from portkit.run.counters.ncu_metrics import Metrics
from portkit.run.counters.orders import Kind, Orders, Step, steps
from portkit.run.counters.taking import begin_early, calls_for
from portkit.run.jobs import Limits
from portkit.targets.catalog import load_catalog

H200 = load_catalog().get("h200")
PERMISSION = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the"
    " target device 0. For instructions on enabling permissions and to get more information see"
    " https://developer.nvidia.com/ERR_NVGPUCTRPERM\n"
)
BUSY = (
    "==ERROR== An error was reported by the driver:\n==ERROR== Profiling failed because a driver resource was"
    " unavailable. Ensure that no other tool (like DCGM) is concurrently collecting profiling data.\n"
)


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Installs the fake ncu; called with what is to go wrong."""
    path = fake_ncu.install(tmp_path / "bin")
    ncu.ncu_version.cache_clear()
    ncu._help_of.cache_clear()

    def install(**wrong):
        monkeypatch.setenv("FAKE_NCU", json.dumps(wrong))
        return Ncu(str(path), "2025.3.1.0", Metrics.of("sm_90"), ("--disable-extra-suffixes",))

    return install


def tasks(count, functions=("fused", "eager")):
    return [Task(n, cell(shape=(n + 1,)), CaseSource("softmax", path="/k.py"), functions) for n in range(count)]


def place(**limits):
    return Place(H200, 0, replace(Limits(1), **limits))


def counted(profiler, count, **limits):
    return {task.number: figures for task, figures in count_tasks(tasks(count), profiler, place(**limits))}


def test_all_is_counted(fake):
    told = []
    figures = dict(count_tasks(tasks(3), fake(), place(), told=told.append))
    assert [task.number for task in figures] == [0, 1, 2]
    for found in figures.values():
        assert (found.functions["fused"].kernels, found.functions["eager"].kernels) == (1, 2)
        assert found.functions["eager"].duration_ms == 0.004
        assert found.functions["eager"].dram_read_bytes == 2 * 4_194_304
        assert not found.nulls
        assert [kernel.name for kernel in found.kernels] == [
            "kernel_0_of_fused",
            "kernel_0_of_eager",
            "kernel_1_of_eager",
        ]
    assert told[-1] == 3


def test_cells_share_the_time_of_the_runs_that_served_them(fake, monkeypatch):
    monkeypatch.setattr(counting, "MOST_TASKS", 2)
    start = time.monotonic()
    shares = [found.seconds for found in counted(fake(), 3).values()]
    took = time.monotonic() - start
    assert shares[0] == shares[1]
    assert 0 < 2 * shares[0] < took
    assert sum(shares) == pytest.approx(took, abs=0.1)


@pytest.mark.parametrize(
    ("calls", "duration_ms", "shown"), [(1, 0.002, 0), (2, 0.002, 0), (3, 0.003, 2), (5, 0.003, 2)]
)
def test_the_call_of_median_duration_is_told(fake, calls, duration_ms, shown):
    task = replace(tasks(1, ("fused",))[0], calls=(calls,))
    ((_, found),) = count_tasks([task], fake(), place())
    counted = found.functions["fused"]
    assert (counted.calls, counted.duration_ms, counted.dram_write_bytes) == (calls, duration_ms, shown)
    assert [kernel.range for kernel in found.kernels] == [f"0.0.{shown}"]


@pytest.mark.parametrize(("kernels", "calls"), [(None, 3), (1, 3), (2, 3), (3, 2), (4, 1), (40, 1)])
def test_functions_of_few_kernels_are_counted_more_often(kernels, calls):
    assert calls_for(kernels) == calls


def test_a_profiler_that_went_away_counts_nothing(fake, tmp_path):
    gone = replace(fake(), path=str(tmp_path / "ncu"))
    found = counted(gone, 1)
    assert re.match(r"ncu \S+ does not start: .*No such file", found[0].nulls["functions"])


def test_a_task_that_hangs_costs_itself(fake):
    start = time.monotonic()
    found = counted(fake(tasks={"1": "hang"}), 4, cell_seconds=1.0)
    assert time.monotonic() - start < 20
    assert all(found[n].functions.keys() == {"fused", "eager"} for n in (0, 2, 3))
    why = "the profiled process did not survive the cell: it took more than its limit of 1 s under the profiler"
    assert found[1].nulls == {"functions": why}


def test_a_stage_that_is_over_its_time_is_named(fake):
    limits = {**Limits(1).stage_seconds, "run": 0.5}
    found = counted(fake(tasks={"0": "hang"}), 1, stage_seconds=limits)
    assert "stage run took more than its limit of 0.5 s" in found[0].nulls["functions"]


def test_a_program_that_dies_costs_the_task_under_way(fake):
    found = counted(fake(tasks={"1": "die"}), 3)
    assert found[0].functions
    assert found[2].functions
    assert found[1].nulls["functions"].endswith("the program ended with code 134")


def test_what_was_counted_of_a_task_before_its_death_is_kept(fake):
    found = counted(fake(tasks={"1": "partial"}), 3)
    assert set(found[1].functions) == {"fused"}
    assert "did not survive" in found[1].nulls["eager"]
    assert all(found[n].functions.keys() == {"fused", "eager"} for n in (0, 2))


def test_a_profiler_that_crashes_costs_the_task_under_way(fake):
    """Its table is lost, so the tasks before are counted again."""
    found = counted(fake(tasks={"2": "crash"}), 4)
    assert all(found[n].functions.keys() == {"fused", "eager"} for n in (0, 1, 3))
    assert "the profiler: signal SIGSEGV" in found[2].nulls["functions"]


def test_a_device_that_became_unusable_costs_nobody_else(fake):
    found = counted(fake(tasks={"0": "unusable", "1": "unusable"}), 3)
    assert all(found[n].functions.keys() == {"fused", "eager"} for n in range(3))


def test_a_profiler_that_crashes_at_the_end_gets_a_second_chance(fake):
    """All is called, and no table: once more, and then it is said."""
    found = counted(fake(crashes=True), 2)
    assert all(
        x.nulls == {"functions": "the profiler wrote no table: the profiler: signal SIGSEGV"} for x in found.values()
    )


def test_a_device_that_is_gone_is_given_up(fake):
    """Each process fails its first task and ends."""
    found = counted(fake(tasks={str(n): "gone" for n in range(9)}), 9)
    assert [found[n].nulls["functions"] for n in range(3)] == ["no CUDA GPUs are available"] * 3
    assert all(found[n].nulls["functions"].startswith("nothing was counted: ") for n in range(3, 9))


def test_a_function_that_fails_costs_itself(fake):
    found = counted(fake(tasks={"0": "fail"}), 2)
    assert set(found[0].functions) == {"fused"}
    assert found[0].nulls == {"eager": "out of device memory under the profiler"}
    assert set(found[1].functions) == {"fused", "eager"}


def test_a_function_without_kernels(fake):
    found = counted(fake(tasks={"1": "silent"}), 2)
    assert found[1].nulls == {"functions": "the profiler saw no kernel of it"}


@pytest.mark.parametrize(
    ("says", "reason", "remedy"),
    [
        (PERMISSION, "no permission to read hardware counters (ERR_NVGPUCTRPERM)", "--cap-add=SYS_ADMIN"),
        (BUSY, "another tool holds the hardware counters", "dcgmi profile --pause"),
        ("==ERROR== Failed to open/create lock file /tmp/nsight-compute-lock.\n", "lock file", "set TMPDIR"),
        ("==ERROR== InterprocessLockFailed\n", "lock file", "set TMPDIR"),
        ("==ERROR== Profiling is not supported on device 0.\n", "can't profile the GPU", "--list-chips"),
        ("==ERROR== unrecognised option '--nvtx-include'\n", "ncu 2025.3.1.0 is too old", "install Nsight Compute"),
        ("==ERROR== Cuda driver is not compatible with Nsight Compute.\n", "does not fit the driver", "driver's CUDA"),
    ],
)
def test_trouble_is_told_with_its_remedy(fake, says, reason, remedy):
    found = counted(fake(says=says, rows=False), 3)
    assert len(found) == 3
    for each in found.values():
        assert not each.functions
        assert reason in each.nulls["functions"]
        assert remedy in each.nulls["functions"]


def test_no_rows_and_no_complaint_is_no_success(fake):
    """Exit code 0, and nothing was profiled."""
    found = counted(fake(rows=False), 2)
    assert all(not each.functions for each in found.values())
    assert found[0].nulls["functions"] == "the profiler wrote no table: the profiler: exit 0"


def test_a_table_that_is_cut_off(fake):
    """The last function in it may lack kernels, so it is not trusted."""
    found = counted(fake(cut=3), 2)
    assert set(found[0].functions) == {"fused", "eager"}
    assert set(found[1].functions) == {"fused"}
    assert "did not write its table to the end" in found[1].nulls["eager"]


def test_more_tasks_than_one_run_takes(fake, monkeypatch):
    monkeypatch.setattr(counting, "MOST_TASKS", 2)
    assert sorted(counted(fake(), 5)) == [0, 1, 2, 3, 4]


def test_stopped_with_what_is_done_kept(fake):
    """The task under way is not to blame: it has no figures and no reason, and is left for a resumed run."""
    done = []
    found = dict(count_tasks(tasks(4), fake(tasks={"2": "hang"}), place(), lambda: 2 in done, done.append))
    assert [(task.number, set(x.functions)) for task, x in found.items()] == [
        (0, {"fused", "eager"}),
        (1, {"fused", "eager"}),
    ]


def test_nothing_is_left_behind(fake, tmp_path):
    ran = run_profiler(
        fake(tasks={"0": "hang"}), Orders(tuple(tasks(1)), H200, 0), replace(Limits(1), cell_seconds=0.5)
    )
    assert not ran.good
    assert not Path("/proc", str(ran.progress.program)).exists()


def test_a_profiler_that_was_begun_early_takes_the_first_orders_and_no_others(fake, monkeypatch):
    monkeypatch.setattr(counting, "MOST_TASKS", 2)
    begun = Begun(fake())
    early = begun._process.pid
    begun.progress.stage_since -= 1000  # time that it waits is nobody's
    found = dict(count_tasks(tasks(3), fake(), place(), begun=begun))
    assert [set(x.functions) for x in found.values()] == [{"fused", "eager"}] * 3
    assert not begun.takes(fake(), 0)
    assert not Path("/proc", str(early)).exists()
    begun.end()  # once more does nothing


def test_one_that_was_begun_and_is_not_needed_leaves_nothing_behind(fake):
    begun = Begun(fake())
    folder = begun._folder
    assert begun.takes(fake(), 0)
    assert not begun.takes(replace(fake(), version="2024.1.0.0"), 0)
    begun.end()
    assert not Path("/proc", str(begun._process.pid)).exists()
    assert not folder.exists()


def test_one_that_has_died_meanwhile_is_replaced(fake):
    begun = Begun(fake())
    begun._process.kill()
    begun._process.wait()
    found = dict(count_tasks(tasks(1), fake(), place(), begun=begun))
    assert [set(x.functions) for x in found.values()] == [{"fused", "eager"}]
    begun.end()


def test_the_profiler_starts_beside_measured_cells_where_it_leaves_the_device_alone(on_path, monkeypatch):
    on_path()
    monkeypatch.setattr(taking, "_OPEN", {**taking._OPEN, Platform.ROCM: lambda *given: pytest.fail("of the second")})
    begun = begin_early([H200, load_catalog().get("mi300x")])
    assert begun is not None
    assert begun.takes(open_ncu("sm_90", local=False), 0)
    assert not begun.takes(open_ncu("sm_90"), 0)  # where a kernel has local memory, another is begun
    begun.end()
    assert begin_early([]) is None


def test_orders_come_back_as_they_were():
    orders = Orders(tuple(tasks(2)), H200, 3)
    assert Orders.from_json(orders.to_json()) == orders


def test_half_a_step_is_left_out():
    lines = Step(Kind.BEGUN, 3).to_json() + Step(Kind.COUNTED, 3, "fused").to_json()[:-5]
    assert list(steps(lines)) == [Step(Kind.BEGUN, 3)]


@pytest.fixture
def on_path(fake, tmp_path, monkeypatch):
    monkeypatch.setattr(ncu, "_TOOLKIT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    return fake


def test_ncu_that_is_there(on_path):
    on_path()
    assert open_ncu("sm_90").tool == "ncu 2025.3.1.0"


@pytest.mark.parametrize("says", ["  --metrics arg   Metrics to collect.\n", ""])
def test_an_ncu_is_asked_for_no_option_that_it_does_not_know(on_path, tmp_path, says):
    on_path()
    sparing = open_ncu("sm_90").command(["program"], tmp_path)
    ncu._help_of.cache_clear()
    on_path(help=says)
    plain = open_ncu("sm_90").command(["program"], tmp_path)
    assert [each for each in sparing if each not in plain] == ["--disable-extra-suffixes"]
    assert plain == [each for each in sparing if each in plain]


def test_ncu_of_the_toolkit_off_the_path(on_path, tmp_path, monkeypatch):
    on_path()
    monkeypatch.setenv("PATH", "")
    assert open_ncu("sm_90").path == str(tmp_path / "bin" / "ncu")


@pytest.mark.parametrize(
    ("version", "words"),
    [("2019.5.3", "ncu 2019.5.3 is too old"), ("unknown", "ncu tells no version")],
)
def test_ncu_that_will_not_do(on_path, version, words):
    on_path(version=version)
    with pytest.raises(HostError, match=words) as caught:
        open_ncu("sm_90")
    assert caught.value.remedy


def test_ncu_missing(on_path, tmp_path):
    shutil.rmtree(tmp_path / "bin")
    with pytest.raises(HostError, match=r"Nsight Compute \(ncu\) is not installed") as caught:
        open_ncu("sm_90")
    assert "PATH" in caught.value.remedy


def test_ncu_that_does_not_run(on_path, tmp_path):
    (tmp_path / "bin" / "ncu").write_text("#!/no/such/program\n")
    with pytest.raises(HostError, match="ncu does not run"):
        open_ncu("sm_90")


def test_ncu_whose_words_are_no_text(on_path, tmp_path):
    (tmp_path / "bin" / "ncu").write_bytes(b"#!/bin/sh\nprintf '\\377\\376 broken\\n'\n")
    with pytest.raises(HostError, match="ncu tells no version"):
        open_ncu("sm_90")


@pytest.mark.parametrize(
    ("params", "capabilities", "expected"),
    [
        ("RmProfilingAdminOnly: 1\n", 0, True),
        ("RmProfilingAdminOnly: 1\n", 1 << 21, False),  # CAP_SYS_ADMIN
        ("RmProfilingAdminOnly: 1\n", 1 << 38, False),  # CAP_PERFMON
        ("RmProfilingAdminOnly: 1\n", 1 << 12, True),
        ("RmProfilingAdminOnly: 0\n", 0, False),
        ("", 0, False),
    ],
)
def test_permission_as_the_driver_tells_it(params, capabilities, expected):
    assert restricted(params, capabilities) is expected
