"""A run and its hardware counters: what is written, when, and what a resumed run still takes."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import fake_ncu
import pytest
from factories import build, cell, host, launch, result, timing

from portkit.errors import HostError
from portkit.model import (
    CaseDeclaration,
    CaseSource,
    Clock,
    Device,
    Direction,
    Evidence,
    Matrix,
    Outcome,
    Plan,
    PlannedCell,
    Status,
    Timed,
)
from portkit.plan.cases import Introspection
from portkit.run import benchmark
from portkit.run.benchmark import Choices, Prepared, Run
from portkit.run.counters import ncu
from portkit.run.counters.taking import Choice
from portkit.run.interrupt import Interruptions
from portkit.run.neighbours.use import Use
from portkit.run.probes import OFF
from portkit.store.journal import read_blob, read_report
from portkit.store.merge import merge
from portkit.targets.catalog import load_catalog

DEVICES = tuple(Device(index, "NVIDIA H200", "h200", "sm_90", 150_000_000_000, 132, f"d{index}") for index in (0, 1))
VARIANTS = ("w4", "w8", "w16")


class Answering:
    """A session that has measured all cells, on the devices in turn."""

    def __init__(self, failed=(), baselines=("eager",), timed=None, built=None, spilling=()):
        self._failed, self._build, self._spilling = failed, built or build(), spilling
        self._timing = timing()
        self._timing = replace(self._timing, baselines=dict.fromkeys(baselines, timed or self._timing.fused))

    def results(self, chains, watch=None, probes=(), measuring=lambda: None):
        cells = [(cell, job) for chain in chains for job in chain for cell in job.cells]
        if cells:
            measuring()
        for number, (each, job) in enumerate(cells):
            found = result(Evidence.MEASURED, device=job.devices[number % len(job.devices)].device_id)
            status = Status.WRONG_RESULT if each.variant in self._failed else Status.PASSED
            built = build(launch(spill=8)) if each.variant in self._spilling else self._build
            yield replace(found, cell=each, outcome=Outcome(status), timing=self._timing, build=built)

    def close(self):
        pass


class Watching:
    """Notes how the counters get on."""

    def __init__(self, then=lambda done: None):
        self.told, self._then = [], then

    def begin(self, *of_no_matter):
        pass

    started = finished = idle = begin

    def counting(self, done, cells):
        self.told.append((done, cells))
        self._then(done)


@pytest.fixture
def profiler(tmp_path, monkeypatch):
    """The fake ncu as the only one; called with what goes wrong, or to take it away."""
    path = fake_ncu.install(tmp_path / "bin")
    monkeypatch.setattr(ncu, "_TOOLKIT", tmp_path / "none")
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    monkeypatch.setattr(benchmark, "check_alone", lambda devices, **given: {x.device_id: Use(0) for x in devices})
    ncu.ncu_version.cache_clear()
    ncu._help_of.cache_clear()

    def set_up(*, there=True, **wrong):
        monkeypatch.setenv("FAKE_NCU", json.dumps(wrong))
        if not there:
            path.unlink()

    set_up()
    return set_up


@pytest.fixture
def start(tmp_path, profiler):
    """Carries out a run up to its counters."""

    def begin(
        *,
        devices=DEVICES[:1],
        host_id="h0",
        cells=None,
        watch=None,
        interruptions=None,
        failed=(),
        baselines=("eager",),
        timed=None,
        built=None,
        spilling=(),
        **choices,
    ):
        (tmp_path / "matrix.yaml").write_text("version: 1\n")
        source = CaseSource("softmax", path=str(tmp_path / "softmax.py"))
        case = CaseDeclaration(source, (), (), (), {name: {} for name in VARIANTS}, (Direction.FORWARD,), "5" * 16)
        planned = [PlannedCell(cell(variant=name), Evidence.MEASURED) for name in VARIANTS]
        prepared = Prepared(
            Matrix(str(tmp_path / "matrix.yaml"), (), ("h200",), {}, (), ()),
            Plan(tuple(planned), "quick", "0" * 16),
            Introspection(host(devices=devices, host_id=host_id), {"softmax": case}, {}),
            {"h200": load_catalog().get("h200")},
        )
        chosen = Choices(tmp_path / "reports", probing=OFF, **choices)
        run = Run(
            prepared,
            planned,
            Answering(failed, baselines, timed, built, spilling),
            chosen,
            interruptions or Interruptions(),
            watch,
        )
        for each in planned[:cells]:
            run.record_of(each)
        return run

    return begin


def besides_local(nulls):
    """Reasons but for that of local memory, which is not counted by default."""
    return {figure: why for figure, why in nulls.items() if not figure.endswith(".local_bytes")}


def finish(run):
    run.finish("complete" if run.whole else "interrupted")
    assert run.failure is None
    return read_report(run.journal.path)


def test_each_measured_cell_gets_its_line(start):
    watch = Watching()
    run = start(watch=watch)
    assert not run.whole
    run.take_counters()
    assert run.whole
    report = finish(run)
    assert report.partial is None
    assert len(report.counters) == 3
    for counters in report.counters.values():
        assert (counters.tool, counters.device_id, counters.evidence) == ("ncu 2025.3.1.0", "d0", Evidence.MEASURED)
        assert set(counters.functions) == {"fused", "eager"}
        assert besides_local(counters.nulls) == {}
        assert "--portkit-count-all" in counters.nulls["eager.local_bytes"]
        rows = json.loads(read_blob(run.journal.path, counters.blobs["kernels"]))
        assert [row["kernel"] for row in rows] == ["kernel_0_of_fused", "kernel_0_of_eager", "kernel_1_of_eager"]
        assert "127.0.0.1" not in json.dumps(rows)
    assert watch.told[-1] == (3, 3)


def test_baselines_whose_times_a_record_had_no_room_for_are_counted_too(start, monkeypatch):
    monkeypatch.setattr("portkit.store.fit.LIMIT", 1500)
    run = start()
    assert all(record.timing is None for record in run.records.values())
    run.take_counters()
    assert all(set(each.functions) == {"fused", "eager"} for each in finish(run).counters.values())


def test_baselines_of_compilers_and_libraries_are_counted_when_asked_for(start):
    names = ("eager", "torch", "compile", "liger")
    run = start(baselines=names)
    run.take_counters()
    for counters in finish(run).counters.values():
        assert set(counters.functions) == {"fused", "eager", "torch"}
        assert set(besides_local(counters.nulls)) == {"compile", "liger"}
        assert "--portkit-count-all" in counters.nulls["liger"]
    run = start(baselines=names, count_all=True)
    run.take_counters()
    for counters in finish(run).counters.values():
        assert set(counters.functions) == {"fused", *names}
        assert {each.local_bytes for each in counters.functions.values()} == {16, 32, 48, 64, 80}  # of 1 to 5 kernels


@pytest.mark.parametrize(("spill", "known"), [(0, None), (8, 16)])
def test_local_memory_is_counted_where_a_measured_kernel_has_some(start, spill, known):
    run = start(built=build(launch(spill=spill)))
    run.take_counters()
    assert {each.functions["fused"].local_bytes for each in finish(run).counters.values()} == {known}


def test_only_cells_whose_kernels_have_some_pay_for_it(start):
    watch = Watching()
    run = start(spilling=("w8",), watch=watch)
    begun = run._begun
    run.take_counters()
    assert begun.progress.ended == {0, 2}  # w4 and w16, in the run that was begun early
    report = finish(run)
    variants = {record.keys.cell_key: record.cell.variant for record in report.records}
    found = {variants[key]: counters.functions["fused"].local_bytes for (key, _), counters in report.counters.items()}
    assert found == {"w4": None, "w16": None, "w8": 16}
    assert list(found)[-1] == "w8"
    done = [each for each, _ in watch.told]
    assert (done, watch.told[-1]) == (sorted(done), (3, 3))


@pytest.mark.parametrize(
    ("kernels", "copies", "copied_ms", "told"),
    [
        (3, 1, 0.1, True),  # ncu sees two of them
        (3, 1, 0.0099, False),  # too short to be worth a word
        (2, 1, 0.1, False),  # all were counted, as where copies are kernels
        (2, 0, 0.0, False),
    ],
)
def test_bytes_of_a_chain_that_copies_without_a_kernel_are_a_lower_bound(start, kernels, copies, copied_ms, told):
    clock = Clock(1.0, 1.0, 1.0, 50)
    run = start(timed=Timed(clock, clock, kernels=kernels, copies=copies, copied_ms=copied_ms))
    run.take_counters()
    for counters in finish(run).counters.values():
        assert counters.functions["eager"].dram_read_bytes > 0
        nulls = besides_local(counters.nulls)
        assert set(nulls) == ({"eager.dram_read_bytes", "eager.dram_write_bytes"} if told else set())
        assert all("1 of 3 launches copy or fill without a kernel" in why for why in nulls.values())


def test_cells_that_were_not_right_have_none(start):
    run = start(failed=("w8",))
    run.take_counters()
    assert len(finish(run).counters) == 2


def test_each_device_counts_its_own_cells(start):
    watch = Watching()
    run = start(devices=DEVICES, watch=watch)
    run.take_counters()
    report = finish(run)
    devices = {record.keys.cell_key: record.device_id for record in report.records}
    assert set(devices.values()) == {"d0", "d1"}
    assert {key: counters.device_id for (key, _), counters in report.counters.items()} == devices
    assert watch.told[-1] == (3, 3)


def test_a_run_goes_on_on_another_host_of_the_same_sku(start):
    """Two GPUs of one host, then one of another: what the first measured and did not count is counted there."""
    run = start(devices=DEVICES, host_id="h0", cells=2)
    run.take_counters()  # not before all cells have their records
    assert finish(run).partial is not None

    elsewhere = replace(DEVICES[0], device_id="e0")
    run = start(devices=(elsewhere,), host_id="h1", resume=run.journal.path, watch=(watch := Watching()))
    run.take_counters()
    report = finish(run)
    assert report.partial is None
    assert [(each.cell.variant, each.host_id, each.device_id) for each in report.records] == [
        ("w4", "h0", "d0"),
        ("w8", "h0", "d1"),
        ("w16", "h1", "e0"),
    ]
    assert [(each.host_id, each.devices) for each in report.resumes] == [("h1", (elsewhere,))]
    assert {counters.device_id for counters in report.counters.values()} == {"e0"}
    assert watch.told[-1] == (3, 3)
    merged = merge([run.journal.path])
    assert [row.counters.device_id for row in merged.rows] == ["e0"] * 3
    assert not merged.warnings


def test_without_a_profiler_the_reason_is_written(start, profiler):
    profiler(there=False)
    run = start()
    run.take_counters()
    report = finish(run)
    assert report.partial is None
    for counters in report.counters.values():
        assert counters.functions == {}
        assert counters.tool == "Nsight Compute (ncu) is not installed"
        assert counters.nulls["functions"].endswith("put ncu on the PATH")
    (warning,) = run.warnings
    assert warning.startswith("3 cells have no hardware counters: Nsight Compute (ncu) is not installed; install it")


def test_the_profiler_of_a_run_that_ends_before_its_counters_ends_with_it(start):
    run = start()
    begun = run._begun._process.pid
    assert Path("/proc", str(begun)).exists()
    finish(run)
    assert not Path("/proc", str(begun)).exists()


def test_off_writes_none_and_the_run_is_whole(start):
    run = start(counters=Choice.OFF)
    assert run._begun is None
    run.take_counters()
    assert run.whole
    assert finish(run).counters == {}


def test_required_and_not_installed_is_refused_before_any_cell(start, profiler, tmp_path):
    profiler(there=False)
    with pytest.raises(HostError, match="is not installed"):
        start(counters=Choice.REQUIRE)
    assert not list(tmp_path.glob("reports/*.jsonl"))


def test_required_where_nothing_is_measured_is_refused(start):
    with pytest.raises(HostError, match="no chosen cell is measured"):
        start(devices=(), counters=Choice.REQUIRE)


def test_required_and_not_permitted_fails_after_the_reason_is_written(start, profiler):
    profiler(says="==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n", rows=False)
    run = start(counters=Choice.REQUIRE)
    with pytest.raises(HostError, match="3 cells have no hardware counters: no permission"):
        run.take_counters()
    report = finish(run)
    assert report.partial is None
    assert all("--cap-add=SYS_ADMIN" in each.nulls["functions"] for each in report.counters.values())


def test_interrupted_with_what_was_counted_kept_and_resumed_with_the_rest(start, profiler):
    """The signal comes while the second cell hangs."""
    profiler(tasks={"1": "hang"})
    interruptions = Interruptions()
    interruptions.install()
    try:
        watch = Watching(lambda done: os.kill(os.getpid(), signal.SIGINT) if done else None)
        run = start(watch=watch, interruptions=interruptions)
        with pytest.raises(KeyboardInterrupt):
            run.take_counters()
    finally:
        interruptions.restore()
    report = finish(run)
    assert report.end.exit == "interrupted"
    (counted,) = report.counters

    profiler()
    run = start(resume=run.journal.path, watch=(watch := Watching()))
    assert not run.whole
    run.take_counters()
    report = finish(run)
    assert report.partial is None
    assert len(report.counters) == 3
    assert counted in report.counters
    assert watch.told[-1] == (2, 2)


def test_counters_that_were_off_are_taken_when_the_run_is_resumed(start):
    run = start(counters=Choice.OFF)
    run.take_counters()
    assert finish(run).counters == {}
    run = start(resume=run.journal.path, watch=(watch := Watching()))
    assert not run.whole
    run.take_counters()
    assert run.whole
    assert len(finish(run).counters) == 3
    assert watch.told[-1] == (3, 3)
