"""Counting under rocprofv3, one pass a counter: what each pass may cost, and what the figures then are."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import fake_rocprof
import pytest
from factories import cell

from portkit.errors import HostError
from portkit.model import CaseSource
from portkit.run.counters import BuiltKernel, Kernel, Task, child, rocprof
from portkit.run.counters.counting import Place, count_tasks
from portkit.run.counters.rocprof import Rocprof, open_rocprof
from portkit.run.counters.rocprof_metrics import GATED, RocprofMetrics
from portkit.run.jobs import Limits
from portkit.targets.catalog import load_catalog

MI300X = load_catalog().get("mi300x")
PERMISSION = (
    "W1129 12:00:00.000000 140 ioctl.cpp:68] Device 23418 could not be locked for profiling due to lack of permissions"
    " (capability SYS_PERFMON). PMC Counters may be inaccurate and System Counter Collection will be degraded.\n"
)
BUSY = (
    "W1129 12:00:00.000000 140 ioctl.cpp:60] Device 23418 has a profiler attached to it. PMC Counters may be wrong.\n"
)
TOO_MUCH = "F1129 12:00:00.000000 140 tool.cpp:1] error code 38: Request exceeds the capabilities of the hardware\n"
NO_COUNTER = (
    "W1129 12:00:00.000000 140 tool.cpp:1502] Unable to find all counters for agent 4 (gpu-0, {})"
    " in [OccupancyPercent]. Found: []. Missing: [OccupancyPercent]\n"
)
NOT_PERMITTED = "Required permission (CAP_PERFMON) is not set, permission denied\n"
CONFLICT = "E1129 12:00:00.000000 140 tool.cpp:7] Context has a conflict with another context\n"
OLD = "usage: rocprofv3 [options]\nrocprofv3: error: argument --output-format: invalid choice: 'rocpd'\n"


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Installs the fake rocprofv3; called with what is to go wrong."""
    monkeypatch.setattr(child, "_POLL_SECONDS", 0.01)  # four passes a test
    path = fake_rocprof.install(tmp_path / "rocm" / "bin")
    rocprof.rocprof_version.cache_clear()

    def install(target=MI300X, rocm="7.0.1", **wrong):
        monkeypatch.setenv("FAKE_ROCPROF", json.dumps(wrong))
        return Rocprof(str(path), rocm, RocprofMetrics(target))

    return install


def tasks(count, functions=("fused", "eager"), **given):
    source = CaseSource("softmax", path="/k.py")
    return [Task(n, cell(shape=(n + 1,), target="mi300x"), source, functions, **given) for n in range(count)]


def counted(profiler, given, **limits):
    place = Place(MI300X, 0, replace(Limits(1), **limits))
    tasks_given = tasks(given) if isinstance(given, int) else given
    return {task.number: figures for task, figures in count_tasks(tasks_given, profiler, place)}


def fused_of(profiler, **given):
    (found,) = counted(profiler, tasks(1, ("fused",), **given)).values()
    return found.functions.get("fused"), {name.removeprefix("fused."): why for name, why in found.nulls.items()}


def test_all_passes_make_one_answer(fake):
    found = counted(fake(), 2)
    for each in found.values():
        fused, eager = each.functions["fused"], each.functions["eager"]
        assert (fused.kernels, eager.kernels) == (1, 2)
        assert fused.occupancy_achieved_elapsed_pct == 62.5
        assert (fused.duration_ms, eager.duration_ms) == (0.002, 0.004)
        assert (fused.dram_read_bytes, eager.dram_read_bytes) == (4096 << 10, 2 * 4096 << 10)
        assert fused.dram_write_bytes == 1 << 10
        assert fused.shared_bytes_per_block == 1024  # of the launch, which the database has
        assert each.kernels[0].metrics["MeanOccupancyPerCU"] == 20.0


def test_what_rocprofv3_has_nothing_for_is_null_with_its_reason(fake):
    fused, nulls = fused_of(fake())
    never = ("occupancy_achieved_pct", "local_bytes", "occupancy_theoretical_pct", "occupancy_limiter", "idle_ms")
    for figure in never:
        assert getattr(fused, figure) is None
        assert nulls[figure]


def test_bytes_behind_an_infinity_cache_are_an_upper_bound_and_say_so(fake):
    _, nulls = fused_of(fake())
    assert nulls["dram_read_bytes"].startswith("an upper bound: FETCH_SIZE counts")
    assert "Infinity Cache" in nulls["dram_write_bytes"]
    _, nulls = fused_of(fake(target=load_catalog().get("mi250x")))
    assert not nulls.keys() & {"dram_read_bytes", "dram_write_bytes"}


BUILT = BuiltKernel("kernel_0_of_fused", 96, 2048, threads_per_block=256, grid=64, blocks_per_unit=5)


def built(**changes):
    return replace(BUILT, **changes)


def test_registers_are_those_of_the_binary(fake):
    """The trace says 148, which it decodes amiss on gfx950; 64 blocks are a part of 5 on each of 304 units."""
    fused, nulls = fused_of(fake(rocm="6.4.1"), built=(built(),))
    assert fused.registers_per_thread == 96
    assert fused.shared_bytes_per_block == 2048  # the tables of text say 0
    assert fused.waves_per_unit == pytest.approx(64 / (5 * 304))
    assert "registers_per_thread" not in nulls


@pytest.mark.parametrize(
    ("kernels", "why"),
    [
        ((), "portkit did not build it"),
        ((built(name="another"),), "portkit did not build it"),
        ((built(threads_per_block=512),), "portkit did not build it"),
        ((built(), built(registers_per_thread=104)), "several builds of that name differ"),
    ],
)
def test_registers_of_a_kernel_that_is_not_known_are_null(fake, kernels, why):
    fused, nulls = fused_of(fake(rocm="6.4.1"), built=kernels)
    assert fused.registers_per_thread is None
    assert nulls["registers_per_thread"].startswith(why)
    assert "waves_per_unit" in nulls


def test_builds_of_one_name_are_told_apart_by_their_grids(fake):
    fused, _ = fused_of(fake(), built=(built(registers_per_thread=104, grid=1), built()))
    assert fused.registers_per_thread == 96


def test_lds_that_nobody_knows_is_null(fake):
    fused, nulls = fused_of(fake(rocm="6.4.1"))
    assert fused.shared_bytes_per_block is None
    assert nulls["shared_bytes_per_block"].startswith("the table has no LDS")


def test_resident_blocks_that_are_not_known(fake):
    fused, nulls = fused_of(fake(), built=(built(blocks_per_unit=None),))
    assert fused.waves_per_unit is None
    assert nulls["waves_per_unit"].startswith("resident blocks")


def test_a_counter_that_is_0_for_all_kernels_counted_nothing(fake):
    """Radeon under the performance level auto: the clock of the counters is off."""
    fused, nulls = fused_of(fake(zero=["FETCH_SIZE", "WRITE_SIZE", "OccupancyPercent", "MeanOccupancyPerCU"]))
    assert fused.duration_ms == 0.002
    for figure in ("dram_read_bytes", "dram_write_bytes", "occupancy_achieved_elapsed_pct"):
        assert getattr(fused, figure) is None
        assert nulls[figure].endswith(GATED)
        assert "is 0 for every kernel of the run" in nulls[figure]


def test_a_counter_that_is_0_for_one_kernel_is_unknown_for_it():
    shape = {"duration": 2000.0, "blocks": 64.0, "threads": 256.0}
    kernel = Kernel("0.0.0", "a", {**shape, "OccupancyPercent": 0.0}, {})
    counted, nulls = RocprofMetrics(MI300X).count([kernel], (), {})
    assert counted.occupancy_achieved_elapsed_pct is None
    assert nulls["occupancy_achieved_elapsed_pct"] == f"OccupancyPercent is 0 for a, which ran: {GATED}"


def test_a_chip_without_the_percentage_has_it_from_the_waves(fake):
    """20 of the 32 waves of a CU."""
    fused, nulls = fused_of(fake(says={"OccupancyPercent": NO_COUNTER.format("gfx942")}, dies=["OccupancyPercent"]))
    assert fused.occupancy_achieved_elapsed_pct == 62.5
    assert nulls["occupancy_achieved_elapsed_pct"].startswith(
        "from MeanOccupancyPerCU ÷ 32: this rocprofv3 has no such"
    )


def test_a_chip_without_either(fake):
    wrong = ["OccupancyPercent", "MeanOccupancyPerCU"]
    fused, nulls = fused_of(fake(says=dict.fromkeys(wrong, TOO_MUCH), dies=wrong))
    assert fused.occupancy_achieved_elapsed_pct is None
    assert "can't count what the counter is made of in one pass" in nulls["occupancy_achieved_elapsed_pct"]


def test_a_pass_that_dies_before_any_task_costs_its_counter(fake):
    fused, nulls = fused_of(fake(dies=["WRITE_SIZE"], says={"WRITE_SIZE": "F1129 1 tool.cpp:3] agent is not known"}))
    assert fused.dram_read_bytes == 4096 << 10
    assert fused.dram_write_bytes is None
    assert nulls["dram_write_bytes"].startswith("agent is not known")


def test_a_counter_that_is_not_in_the_table(fake):
    fused, nulls = fused_of(fake(missing=["FETCH_SIZE"]))
    assert fused.dram_read_bytes is None
    assert nulls["dram_read_bytes"] == "rocprofv3 has no value of FETCH_SIZE for kernel_0_of_fused"


def test_a_pass_that_ran_other_kernels_is_not_mixed_in(fake):
    fused, nulls = fused_of(fake(other=["FETCH_SIZE"]))
    assert fused.dram_read_bytes is None
    assert "no value of FETCH_SIZE" in nulls["dram_read_bytes"]
    assert fused.dram_write_bytes == 1 << 10


@pytest.mark.parametrize(("calls", "duration_ms", "kib"), [(1, 0.002, 1), (3, 0.003, 3), (5, 0.003, 3)])
def test_figures_of_all_passes_are_of_the_call_of_median_duration(fake, calls, duration_ms, kib):
    fused, _ = fused_of(fake(), calls=(calls,))
    assert (fused.calls, fused.duration_ms, fused.dram_write_bytes) == (calls, duration_ms, kib << 10)


@pytest.mark.parametrize(
    ("says", "reason", "remedy"),
    [
        (PERMISSION, "no permission to lock the GPU", "--cap-add=PERFMON"),
        (BUSY, "another profiler is attached", "stop the other profiler"),
        ("hsa_init failed\n", "can't open the GPU", "render and video"),
        (OLD, "refuses its options: rocprofv3: error: argument --output-format", "ROCm 6.4"),
    ],
)
def test_trouble_is_told_with_its_remedy(fake, says, reason, remedy):
    found = counted(fake(says=says), 2)
    for each in found.values():
        assert not each.functions
        assert reason in each.nulls["functions"]
        assert remedy in each.nulls["functions"]


def test_what_the_program_prints_is_no_complaint_of_the_profiler(fake):
    fused, _ = fused_of(fake(says="my_tool: error: invalid choice: 'x'\n"))
    assert fused.occupancy_achieved_elapsed_pct == 62.5


@pytest.mark.parametrize("what", ["die", "hang"])
def test_a_task_under_which_the_program_dies_costs_itself(fake, what):
    """No table is left, so the others are counted again, from the first pass on."""
    found = counted(fake(tasks={"1": what}), 3, cell_seconds=1.0)
    assert "did not survive" in found[1].nulls["functions"]
    for number in (0, 2):
        assert found[number].functions["eager"].dram_read_bytes == 2 * 4096 << 10


def test_several_deaths_cost_their_tasks_alone(fake):
    found = counted(fake(tasks={"1": "die", "2": "die", "4": "die"}), 6)
    assert {number for number, each in found.items() if each.functions} == {0, 3, 5}


def test_what_another_gpu_of_the_host_lacks_is_no_trouble(fake):
    """rocprofv3 asks all of them, the graphics of the processor among them."""
    fused, nulls = fused_of(fake(says={"OccupancyPercent": NO_COUNTER.format("gfx1036")}))
    assert fused.occupancy_achieved_elapsed_pct == 62.5
    assert "occupancy_achieved_elapsed_pct" not in nulls


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (NOT_PERMITTED, "no permission to lock the GPU for counting"),
        (CONFLICT, "another profiling tool is at work in the process"),
        ("[rocprofv3] Fatal error: no such agent\n", None),
    ],
)
def test_words_of_later_versions(said, why):
    profiler = Rocprof("rocprofv3", "7.2", RocprofMetrics(MI300X))
    found = profiler.trouble(said)
    assert (found and found.message.startswith(why)) if why else found is None
    assert profiler.last_words("[rocprofv3] Fatal error: no such agent\n") == "no such agent"


def test_no_tables_is_no_success(fake):
    (found,) = counted(fake(rows=False), 1).values()
    assert found.nulls["functions"].startswith("the profiler wrote no table")


def test_a_trace_that_is_cut_off_is_not_whole(fake):
    found = counted(fake(rocm="6.4.1", cut=30), 1)
    assert not found[0].nulls.get("functions")


def test_a_database_is_asked_for_where_there_is_one():
    new, old = (
        Rocprof("rocprofv3", rocm, RocprofMetrics(MI300X)).command(["python"], Path("/f"), 1) for rocm in ("7.0", "6.4")
    )
    assert new[:4] == ["rocprofv3", "--pmc", "FETCH_SIZE", "--kernel-trace"]
    assert "rocpd" in new
    assert "rocpd" not in old
    assert new[-2:] == ["--", "python"]


@pytest.fixture
def on_path(fake, tmp_path, monkeypatch):
    monkeypatch.setattr(rocprof, "_ROOT", tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path / "rocm" / "bin"))
    for name in ("ROCM_PATH", "ROCM_HOME", "ROCM_DIR"):
        monkeypatch.delenv(name, raising=False)
    return fake


def test_rocprofv3_that_is_there(on_path):
    on_path()
    assert open_rocprof(MI300X).tool == "rocprofv3 of ROCm 7.0.1"


def test_rocprofv3_off_the_path(on_path, tmp_path, monkeypatch):
    on_path()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("ROCM_PATH", str(tmp_path / "rocm"))
    assert open_rocprof(MI300X).path == str(tmp_path / "rocm" / "bin" / "rocprofv3")


def test_of_several_installations_the_newest_is_taken(on_path, tmp_path, monkeypatch):
    on_path()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(rocprof, "_ROOT", tmp_path / "opt")
    for core in ("core-7.2", "core-10.0"):
        shutil.copytree(tmp_path / "rocm" / "bin", tmp_path / "opt" / core / "bin")
    assert rocprof.find_rocprof() == str(tmp_path / "opt" / "core-10.0" / "bin" / "rocprofv3")


def test_the_version_of_rocm_is_in_a_file_beside_it(on_path, tmp_path):
    """ROCm 6.4's rocprofv3 has no --version."""
    on_path(version=None)
    (tmp_path / "rocm" / ".info").mkdir()
    (tmp_path / "rocm" / ".info" / "version").write_text("6.4.1-83\n")
    assert open_rocprof(MI300X).version == "6.4.1"


def test_a_version_of_the_library_alone(on_path, monkeypatch):
    on_path()
    monkeypatch.setattr(rocprof, "_said_version", lambda path: "             version: 1.1.0\n")
    assert open_rocprof(MI300X).version == "7.0"


@pytest.mark.parametrize(
    ("version", "words"),
    [("6.3.2", "rocprofv3 of ROCm 6.3.2 is too old"), (None, "rocprofv3 tells no version: rocprofv3: error: unrec")],
)
def test_rocprofv3_that_will_not_do(on_path, version, words):
    on_path(version=version)
    with pytest.raises(HostError, match=words) as caught:
        open_rocprof(MI300X)
    assert "ROCm 6.4" in caught.value.remedy


def test_rocprofv3_missing(on_path, tmp_path):
    (tmp_path / "rocm" / "bin" / "rocprofv3").unlink()
    with pytest.raises(HostError, match="rocprofv3 is not installed"):
        open_rocprof(MI300X)


def test_rocprofv3_that_does_not_run(on_path, tmp_path):
    (tmp_path / "rocm" / "bin" / "rocprofv3").write_text("#!/no/such/program\n")
    with pytest.raises(HostError, match="rocprofv3 does not run"):
        open_rocprof(MI300X)
