"""Which runs go on, which cells are run again, and which device is whose."""

import dataclasses
import subprocess
import sys
import textwrap
import time

import pytest
from factories import header, host, record

from portkit.errors import HostError, ReportError
from portkit.model import CaseDeclaration, CaseSource, Direction, Evidence, Outcome, Stage, Status
from portkit.run.locks import hold_devices
from portkit.run.resume import check_resumable, find_report, is_repeated
from portkit.store.journal import Report

GPU = host().devices[0]
OTHER_GPU = dataclasses.replace(GPU, device_id="e1e1")


OURS = {"backend_missing", "capture_failed", "reference_failed", "baseline_failed", "weak_check", "worker_lost"}


@pytest.mark.parametrize("status", [each for each in Status if each is not Status.TIMEOUT])
def test_what_is_no_verdict_on_the_kernel_is_run_again(status):
    assert is_repeated(record(outcome=Outcome(status))) is (status.value in OURS)


@pytest.mark.parametrize(
    ("stage", "repeated"), [(Stage.IMPORT, True), (Stage.REFERENCE, True), (Stage.COMPILE, False), (Stage.RUN, False)]
)
def test_a_time_limit_is_the_hosts_fault_outside_kernel_and_compiler(stage, repeated):
    assert is_repeated(record(outcome=Outcome(Status.TIMEOUT, stage))) is repeated


def test_what_the_matrix_expects_is_not_run_again():
    found = dataclasses.replace(record(outcome=Outcome(Status.CAPTURE_FAILED)), expected=Status.CAPTURE_FAILED)
    assert not is_repeated(found)


RECORDS = (record(),)


def check(then=None, now=None, *, records=RECORDS, devices=(GPU,), same_device=False, source="5" * 16):
    report = Report("reports/local/r.jsonl", then or header(), records, None, None)
    directions = (Direction.FORWARD,)
    declared = CaseDeclaration(
        CaseSource("softmax"), ((1,),), (), ("float32",), {"w8": {}}, directions, source_hash=source
    )
    check_resumable(report, now or header(), {"softmax": declared}, devices, same_device=same_device)


def on(**changes):
    return header(host=host(**changes))


def test_the_same_again_goes_on_whatever_the_hosts_name_and_choice_of_device():
    check(now=on(host_id="other", devices=(OTHER_GPU,), settings={"CUDA_VISIBLE_DEVICES": "1"}), devices=(OTHER_GPU,))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"now": header(matrix_hash="1")}, "matrix.yaml was edited"),
        ({"now": header(matrix="other.yaml")}, "the matrix matrix.yaml → other.yaml"),
        ({"now": header(tier="full")}, "tier quick → full"),
        ({"now": header(plan_hash="1", cells=9)}, r"other cells are chosen \(1 then, 9 now\)"),
        ({"now": header(plan_hash="1", host=host(devices=()))}, "GPUs of the host: h200 → none"),
        ({"now": header(portkit="0.2.0")}, "portkit 0.1.0 → 0.2.0"),
        ({"now": header(modes=("warm",))}, "modes of timing none → warm"),
        ({"now": header(baselines=("eager", "torch"))}, "baselines those of the tier → eager, torch"),
        ({"then": header(baselines=()), "now": header()}, "baselines none → those of the tier"),
        ({"now": on(triton="3.8.0", driver=None)}, "triton 3.7.1 → 3.8.0; driver 570.86 → none"),
        ({"now": on(settings={"TRITON_F32_DEFAULT": "ieee"})}, "TRITON_F32_DEFAULT none → ieee"),
        ({"source": "6" * 16}, "the source of softmax changed"),
    ],
)
def test_what_differs_is_named(changes, words):
    with pytest.raises(ReportError, match=words):
        check(**changes)


def test_another_device_is_refused_only_where_the_user_says_so():
    measured = (record(Evidence.MEASURED),)
    check(records=measured, devices=(OTHER_GPU,))
    check(records=measured, devices=(GPU,), same_device=True)
    with pytest.raises(ReportError, match="--portkit-same-device forbids"):
        check(records=measured, devices=(OTHER_GPU,), same_device=True)


def test_the_report_to_go_on_with(tmp_path):
    with pytest.raises(ReportError, match="no report is here"):
        find_report(tmp_path, "latest")
    for name in ("20260101T000000Z-aaaaaaaa", "20260102T000000Z-00000000"):
        (tmp_path / f"{name}.jsonl").touch()
    newest = tmp_path / "20260102T000000Z-00000000.jsonl"
    assert find_report(tmp_path, "latest") == find_report(tmp_path, newest.stem) == newest
    assert find_report(tmp_path / "elsewhere", str(newest)) == newest
    with pytest.raises(ReportError, match="did you mean 20260101T000000Z-aaaaaaaa"):
        find_report(tmp_path, "20260101T000000Z-aaaaaaab")


HOLD = """
    import dataclasses, sys, time
    from factories import host
    from portkit.run.locks import hold_devices

    with hold_devices(host().devices):
        print("held", flush=True)
        time.sleep(float(sys.argv[1]))
"""


@pytest.fixture
def holder(monkeypatch, tmp_path):
    """Starts another process that holds the GPU for so many seconds."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    started = []

    def start(seconds):
        command = [sys.executable, "-c", textwrap.dedent(HOLD), str(seconds)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout.readline() == "held\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_device_in_use_is_refused_or_waited_for(holder):
    process = holder(60)
    with pytest.raises(HostError, match=r"another run measures on GPU 0, NVIDIA H200\n.*--portkit-wait"):
        hold_devices([GPU])
    with hold_devices([OTHER_GPU]):
        pass
    with pytest.raises(HostError, match=r"waited 0\.2 s"):
        hold_devices([GPU], wait_seconds=0.2)
    process.kill()  # a run that dies leaves no lock
    process.wait()
    with hold_devices([GPU]):
        pass


def test_a_device_that_is_waited_for_is_had_in_the_end(holder):
    holder(0.5)
    begin = time.monotonic()
    with hold_devices([GPU, OTHER_GPU], wait_seconds=20):
        assert time.monotonic() - begin < 10
