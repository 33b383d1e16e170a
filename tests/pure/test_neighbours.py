"""Who else uses a device, by NVML's answers, and what a run makes of it."""

from __future__ import annotations

import dataclasses
import os
import sys
from types import SimpleNamespace

import pytest
from factories import host

from portkit.errors import HostError
from portkit.run import host as host_module
from portkit.run.neighbours import check, nvidia
from portkit.run.neighbours.use import Use

UUID = "4cfeed86-432f-9c51-3930-c09297f114c7"
MIB = 1 << 20


class NVMLError(Exception):
    """As pynvml has it."""


def fake_nvml(computing=(), drawing=(), clients=(), used=0, uuid=f"GPU-{UUID}", fails=""):
    """NVML of a host with one GPU that is not cut up; the named function fails."""

    def refuse(*given, **named):
        raise NVMLError("Not Supported")

    def processes(pids):
        return lambda handle: [SimpleNamespace(pid=pid) for pid in pids]

    answers = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: "gpu",
        "nvmlDeviceGetMaxMigDeviceCount": refuse,
        "nvmlDeviceGetUUID": lambda handle: uuid,
        "nvmlDeviceGetComputeRunningProcesses": processes(computing),
        "nvmlDeviceGetMPSComputeRunningProcesses": processes(clients),
        "nvmlDeviceGetGraphicsRunningProcesses": processes(drawing),
        "nvmlDeviceGetMemoryInfo": lambda handle, version: SimpleNamespace(used=used),
    }
    return SimpleNamespace(NVMLError=NVMLError, nvmlMemory_v2=2, **(answers | ({fails: refuse} if fails else {})))


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setenv(host_module.SALT_VARIABLE, "a fleet")
    return dataclasses.replace(host().devices[0], device_id=host_module.device_id_of(UUID))


@pytest.fixture
def look(gpu, monkeypatch):
    def asked(**state):
        monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(**state))
        return check.look([gpu])[gpu.device_id]

    return asked


@pytest.mark.parametrize(
    ("state", "processes"),
    [
        ({}, 0),
        ({"used": 4 * MIB}, 0),
        ({"computing": [11, 12]}, 2),
        ({"computing": [11], "clients": [11, 12]}, 2),
        ({"computing": [os.getpid()], "used": 900 * MIB}, 0),
        ({"drawing": [21], "used": 900 * MIB}, 0),
        ({"drawing": [21], "computing": [21]}, 1),
        ({"computing": [11], "fails": "nvmlDeviceGetMPSComputeRunningProcesses"}, 1),
        ({"fails": "nvmlDeviceGetMemoryInfo"}, 0),
        ({"uuid": f"GPU-{UUID}".encode(), "computing": [11]}, 1),
        ({"uuid": f"MIG-{UUID}", "computing": [11]}, 1),
    ],
)
def test_processes_that_compute_count(look, state, processes):
    assert look(**state) == Use(processes)


def test_memory_that_nobody_seen_holds_is_a_sign(look):
    use = look(used=792 * MIB)
    assert (use.processes, use.hidden_bytes, use.shared) == (None, 792 * MIB, True)
    assert str(use) == "792 MiB of its memory are in use by processes that can't be seen from here"


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"uuid": "GPU-another"}, "NVML lists no device of that UUID"),
        ({"fails": "nvmlDeviceGetComputeRunningProcesses"}, "NVML: Not Supported"),
        ({"fails": "nvmlInit"}, "NVML can't be used: Not Supported; pip install nvidia-ml-py"),
        ({"fails": "nvmlDeviceGetCount"}, "NVML: Not Supported"),
    ],
)
def test_what_can_not_be_known_has_its_reason_and_stops_no_run(look, state, why):
    use = look(**state)
    assert (use.processes, use.why, use.shared) == (None, why, False)


def test_another_version_of_the_package_stops_no_run(gpu, monkeypatch):
    nvml = fake_nvml()
    del nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlShutdown
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert "nvmlDeviceGetComputeRunningProcesses" in nvidia.look([gpu])[gpu.device_id].why


def test_without_the_package(gpu, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "pip install nvidia-ml-py" in nvidia.look([gpu])[gpu.device_id].why


def test_each_vendor_has_its_own_look(gpu, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    amd = dataclasses.replace(gpu, architecture="gfx942", device_id="amd")
    other = dataclasses.replace(gpu, architecture="xe2", device_id="other")
    uses = check.look([gpu, amd, other])
    assert uses[gpu.device_id] == Use(0)
    assert uses["amd"].why.startswith("amd-smi can't be used")
    assert uses["other"].why == "unknown vendor"


def test_a_device_that_others_use_is_refused_with_count_and_remedy(gpu, monkeypatch):
    monkeypatch.setattr(check, "PATIENCE_S", 0.0)
    with pytest.raises(HostError) as caught:
        check.check_alone([gpu], shared=False, look=lambda devices: {gpu.device_id: Use(2)})
    assert caught.value.message == "GPU 0, NVIDIA H200: 2 other processes use it"
    assert "--portkit-shared-device" in caught.value.remedy
    assert "--portkit-wait" in caught.value.remedy


def test_a_user_may_share_and_the_run_knows_it(gpu):
    uses = check.check_alone([gpu], shared=True, look=lambda devices: {gpu.device_id: Use(1)})
    assert uses == {gpu.device_id: Use(1)}
    assert str(uses[gpu.device_id]) == "1 other process uses it"


def test_a_process_that_is_ending_is_waited_for(gpu):
    answers = iter([Use(1), Use(1), Use(0)])
    uses = check.check_alone([gpu], shared=False, look=lambda devices: {gpu.device_id: next(answers)})
    assert uses == {gpu.device_id: Use(0)}
