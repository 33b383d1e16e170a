"""A run and its devices: which are used, who else uses them, what is written of them."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path

import pytest
from factories import host, result

from portkit.analysis.roofline import MEASURED, probe_of, roofline
from portkit.analysis.rows import comparison
from portkit.errors import HostError
from portkit.model import CaseDeclaration, CaseSource, Device, DeviceProbe, Direction, Evidence, Outcome, Status
from portkit.plan.cases import Introspection
from portkit.plan.expand import Selection
from portkit.render.table import render
from portkit.run import benchmark
from portkit.run.benchmark import Choices, Run, prepare
from portkit.run.devices import choose_devices, parse_devices, partitions_of
from portkit.run.interrupt import Interruptions
from portkit.run.neighbours.use import Use
from portkit.run.probes import OFF, keep_probe
from portkit.store.journal import read_report
from portkit.store.merge import merge

H200S = tuple(Device(index, "NVIDIA H200", "h200", "sm_90", 150_000_000_000, 132, f"d{index}") for index in (0, 1))
ODD = Device(2, "NVIDIA Z100", "z100", "sm_150", 64 << 30, 200, "d2")
MATRIX = "version: 1\nkernels:\n  softmax: {path: softmax.py}\ntargets: [h200]\n"


class Played:
    """A session that answers every cell on the devices in turn, and probes what it is asked to."""

    def __init__(self):
        self.probed = []

    def results(self, chains, watch=None, probes=(), measuring=lambda: None):
        for job in probes:
            self.probed.append(job.devices[0].device_id)
            yield DeviceProbe(
                "",
                job.devices[0].device_id,
                job.target.name,
                datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                copy_gbs=4000.0,
                matmul_tflops={"float32": 40.0},
            )
        for chain in chains:
            for job in chain:
                for number, cell in enumerate(job.cells):
                    if job.evidence is Evidence.COMPILED:
                        yield result(cell=cell)
                    else:
                        device = job.devices[number % len(job.devices)].device_id
                        yield dataclasses.replace(result(Evidence.MEASURED, device=device), cell=cell)

    def close(self):
        pass


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr("portkit.run.probes.user_cache_path", lambda name: tmp_path / "cache")
    return tmp_path / "cache" / "ceilings"


@pytest.fixture
def uses(monkeypatch):
    """Who else is on the devices; nobody unless a test says so."""
    known = {}
    monkeypatch.setattr(
        benchmark,
        "check_alone",
        lambda devices, **given: {x.device_id: known.get(x.device_id, Use(0)) for x in devices},
    )
    return known


@pytest.fixture
def carry_out(tmp_path, monkeypatch, uses):
    """Prepares and carries out a matrix on given devices; the report, and the session."""
    (tmp_path / "matrix.yaml").write_text(MATRIX)
    (tmp_path / "softmax.py").touch()
    source = CaseSource("softmax", path=str(tmp_path / "softmax.py"))
    shapes = ((4096, 4096), (4096, 8192))
    case = CaseDeclaration(source, shapes, ((4, 64),), ("float32",), {"w8": {}}, (Direction.FORWARD,), "5" * 16)

    def run(*devices, chosen=None, **choices):
        here = host(devices=devices)
        monkeypatch.setattr(benchmark, "introspect", lambda *given: Introspection(here, {"softmax": case}, {}))
        prepared = prepare(tmp_path / "matrix.yaml", tier=None, selection=Selection(), devices=chosen)
        session = Played()
        done = Run(prepared, prepared.plan.cells, session, Choices(tmp_path / "reports", **choices), Interruptions())
        for planned in prepared.plan.cells:
            done.record_of(planned)
        done.finish("complete")
        assert done.failure is None
        return done, read_report(done.journal.path), session

    return run


def test_each_record_has_the_device_that_ran_it_and_each_device_its_line(carry_out):
    done, report, session = carry_out(*H200S)
    measured = [record for record in report.records if record.evidence is Evidence.MEASURED]
    assert [record.device_id for record in measured] == ["d0", "d1"]
    assert session.probed == ["d0", "d1"]
    assert [(probe.device_id, probe.run_id, probe.other_processes) for probe in report.probes] == [
        ("d0", done.header.run_id, 0),
        ("d1", done.header.run_id, 0),
    ]


def test_the_next_run_takes_ceilings_over_and_a_fresh_one_measures_anew(carry_out):
    _, first, _ = carry_out(*H200S)
    _, second, session = carry_out(*H200S)
    assert session.probed == []
    assert [probe.copy_gbs for probe in second.probes] == [4000.0, 4000.0]
    assert second.probes[0].measured == first.probes[0].measured
    assert second.probes[0].run_id == second.header.run_id
    _, _, session = carry_out(*H200S, probing="fresh")
    assert session.probed == ["d0", "d1"]


def test_ceilings_that_are_not_asked_for_have_that_reason(carry_out):
    _, report, session = carry_out(H200S[0], probing=OFF)
    assert session.probed == []
    assert report.probes[0].nulls["copy_gbs"] == "not asked for: --portkit-probe off"
    assert report.probes[0].other_processes == 0


def test_a_shared_device_is_said_in_report_and_summary_and_keeps_no_ceilings(carry_out, uses, cache):
    uses["d0"] = Use(2)
    done, report, _ = carry_out(H200S[0], shared_device=True)
    assert report.probes[0].other_processes == 2
    assert done.warnings == ("GPU 0, NVIDIA H200: 2 other processes use it, so its times are disturbed",)
    assert merge([Path(report.path)]).warnings == (
        f"run {done.header.run_id} shared device d0 with others, so its times are disturbed (processes: 2)",
    )
    assert not cache.exists()


def test_users_of_a_device_that_can_not_be_seen_are_null_with_the_reason(carry_out, uses):
    uses["d0"] = Use(None, why="NVML can't be used")
    done, report, _ = carry_out(H200S[0])
    assert (report.probes[0].other_processes, report.probes[0].nulls["other_processes"]) == (None, "NVML can't be used")
    assert done.warnings == ()


def test_chosen_devices_alone_are_used(carry_out):
    _, report, session = carry_out(*H200S, ODD, chosen={1})
    assert session.probed == ["d1"]
    assert {record.cell.target for record in report.records} == {"h200"}
    assert report.header.host.devices == (H200S[1],)


def test_a_refused_device_leaves_no_report_and_no_lock(carry_out, monkeypatch, tmp_path):
    def refuse(devices, **given):
        raise HostError("GPU 0, NVIDIA H200: 1 other process uses it")

    monkeypatch.setattr(benchmark, "check_alone", refuse)
    with pytest.raises(HostError, match="1 other process uses it"):
        carry_out(H200S[0])
    assert not list(tmp_path.glob("reports/*"))
    monkeypatch.setattr(benchmark, "check_alone", lambda devices, **given: {"d0": Use(0)})
    carry_out(H200S[0])


def test_a_device_that_no_catalogue_knows_goes_from_the_plan_to_the_table(carry_out):
    """Its architecture, too, is known to nobody."""
    _, report, _ = carry_out(ODD)
    measured = next(record for record in report.records if record.evidence is Evidence.MEASURED)
    assert (measured.cell.target, measured.architecture, measured.outcome.status) == ("z100", "sm_150", Status.PASSED)
    line = roofline(measured, probe_of(measured, report.probes), None)
    assert (line.ceilings, line.ridge, line.attainment_datasheet) == (MEASURED, 10.0, None)
    assert line.attainment_measured is not None
    table = render(comparison(merge([Path(report.path)])), "plain")
    assert "z100" in table


def test_a_kept_probe_of_another_device_is_none_of_ours(carry_out, cache):
    old = DeviceProbe("", "d9", "h200", datetime.datetime.now(datetime.UTC).isoformat(), copy_gbs=1.0)
    keep_probe(host(), H200S[0], dataclasses.replace(old, matmul_tflops={"x": 1.0}, other_processes=0))
    assert list(cache.iterdir())
    assert carry_out(H200S[0])[2].probed == ["d0"]


@pytest.mark.parametrize(("options", "chosen"), [([], None), (["0,2"], {0, 2}), (["1", " 3 , 1"], {1, 3})])
def test_devices_are_chosen_by_index(options, chosen):
    assert parse_devices(options) == chosen


@pytest.mark.parametrize("text", ["h200", "-1", "0,", "0x1", "1.0"])
def test_what_is_no_index_is_refused(text):
    with pytest.raises(HostError, match=r"--portkit-devices: not the index of a GPU: .*\n.*such as 0,2"):
        parse_devices([text])


def test_a_gpu_that_is_not_here_is_refused_with_those_that_are():
    with pytest.raises(HostError, match=r"no GPU 5, 7 is here\n.*those here are 0: NVIDIA H200; 1: NVIDIA H200"):
        choose_devices(host(devices=H200S), {0, 5, 7})
    with pytest.raises(HostError, match="those here are none"):
        choose_devices(host(devices=()), {0})


def test_an_outcome_without_a_worker_has_no_device(carry_out, monkeypatch):
    monkeypatch.setattr(Played, "results", lambda self, *given: iter(()))
    _, report, _ = carry_out(H200S[0])
    assert {record.device_id for record in report.records} == {None}
    assert {record.outcome for record in report.records} == {
        Outcome(Status.WORKER_LOST, report.records[0].outcome.stage, "no worker answered for this cell")
    }


def mi300x(index, partition, target="mi300x"):
    return Device(index, "AMD Instinct MI300X", target, "gfx942", 192 << 30, 304, f"m{index}", partition=partition)


@pytest.mark.parametrize(
    ("modes", "found"),
    [
        (("SPX/NPS1", "SPX/NPS1"), {}),
        (("SPX", "SPX/NPS1"), {}),
        ((None, None), {}),
        (("CPX/NPS4", "CPX/NPS4"), {"mi300x": "CPX/NPS4"}),
        (("DPX/NPS2",), {"mi300x": "DPX/NPS2"}),
    ],
)
def test_modes_of_devices_that_are_not_whole(modes, found):
    assert partitions_of([mi300x(index, mode) for index, mode in enumerate(modes)]) == found


def test_each_target_may_have_its_own_mode():
    part = mi300x(1, "CPX/NPS1", target="mi300x38units")
    assert partitions_of([mi300x(0, "SPX/NPS1"), part, *H200S]) == {"mi300x38units": "CPX/NPS1"}


def test_one_target_in_two_modes_is_refused_with_what_to_choose():
    with pytest.raises(HostError, match="the GPUs of target mi300x are partitioned in different ways") as caught:
        partitions_of([mi300x(0, "CPX/NPS1"), mi300x(1, "CPX/NPS4")])
    assert caught.value.remedy == "choose those of one mode with --portkit-devices: 0: CPX/NPS1; 1: CPX/NPS4"
