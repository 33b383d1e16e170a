"""State of a device, read from a stand-in of NVML; no GPU needed."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

from portkit.model import DeviceState
from portkit.run import device_state
from portkit.run.device_state import nvidia, open_monitor

UUIDS = ["GPU-aaaaaaaa-0000", "GPU-bbbbbbbb-1111"]


class NVMLError(Exception):
    """What pynvml raises."""


class Nvml:
    """Two devices, the second of which is hot."""

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, *, refuses=None, lacks=()):
        self.refuses = refuses
        self.lacks = lacks

    def nvmlInit(self):  # noqa: N802
        if self.refuses:
            raise NVMLError(self.refuses)

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        if uuid.decode() not in UUIDS:
            raise NVMLError("Not Found")
        return UUIDS.index(uuid.decode())

    def nvmlDeviceGetClockInfo(self, handle, clock):  # noqa: N802
        return {1: 1980 - 500 * handle, 2: 3201}[clock]

    def nvmlDeviceGetPowerUsage(self, handle):  # noqa: N802
        if "power" in self.lacks:
            raise NVMLError("Not Supported")
        return 699_500

    def nvmlDeviceGetTemperature(self, handle, sensor):  # noqa: N802
        return 40 + 50 * handle

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):  # noqa: N802
        return 0x44 if handle else 0x1


@pytest.fixture
def device(monkeypatch):
    def use(nvml, *, uuid="aaaaaaaa-0000", hip=None):
        monkeypatch.setitem(sys.modules, "pynvml", nvml)
        monkeypatch.setattr(torch.version, "hip", hip)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: SimpleNamespace(uuid=uuid))
        return open_monitor()

    return use


def test_figures_are_in_the_units_of_the_record(device):
    monitor = device(Nvml())
    assert monitor.read() == DeviceState(1980, 3201, 699.5, 40, ())
    assert monitor.nulls == {}


def test_the_device_is_that_of_the_uuid_and_not_of_the_index(device):
    monitor = device(Nvml(), uuid="bbbbbbbb-1111")  # torch's device 0, NVML's 1
    assert monitor.read().temperature_c == 90
    assert monitor.read().throttle == ("SwPowerCap", "HwThermalSlowdown")


@pytest.mark.parametrize(
    ("bits", "names"),
    [
        (0x0, ()),
        (0x1, ()),  # idle
        (0x2, ()),  # clocks that an application set
        (0x10, ()),  # kept level with other devices
        (0x4, ("SwPowerCap",)),
        (0x8, ("HwSlowdown",)),
        (0x20 | 0x1, ("SwThermalSlowdown",)),
        (0x40 | 0x8, ("HwSlowdown", "HwThermalSlowdown")),
        (0x80, ("HwPowerBrakeSlowdown",)),
    ],
)
def test_only_what_slows_kernels_is_throttling(bits, names):
    assert nvidia.reasons(bits) == names


def test_the_bits_are_those_of_nvml():
    nvml = pytest.importorskip("pynvml", reason="needs nvidia-ml-py")
    given = {name: getattr(nvml, f"nvmlClocksEventReason{name}", None) for name in nvidia.THROTTLE_REASONS}
    older = {name: getattr(nvml, f"nvmlClocksThrottleReason{name}", None) for name in nvidia.THROTTLE_REASONS}
    assert {name: given[name] or older[name] for name in given} == nvidia.THROTTLE_REASONS


def test_a_figure_that_a_device_lacks_is_null_with_the_reason(device):
    monitor = device(Nvml(lacks=("power",)))
    state = monitor.read()
    assert (state.power_w, state.sm_clock_mhz) == (None, 1980)
    assert monitor.nulls == {"timing.states.power_w": "NVML: Not Supported"}


@pytest.mark.parametrize("error", [AttributeError("no such function"), TypeError("unknown type")])
def test_another_version_of_the_package_costs_a_figure_and_not_the_cell(device, monkeypatch, error):
    def fails(*given):
        raise error

    monitor = device(Nvml())
    monkeypatch.setattr(Nvml, "nvmlDeviceGetTemperature", fails)
    monkeypatch.delattr(Nvml, "nvmlDeviceGetCurrentClocksThrottleReasons")
    assert monitor.read() == DeviceState(1980, 3201, 699.5, None, ())
    assert monitor.nulls["timing.states.temperature_c"] == f"NVML: {error}"
    assert "nvmlDeviceGetCurrentClocksThrottleReasons" in monitor.nulls["timing.states.throttle"]
    monkeypatch.setattr(Nvml, "nvmlDeviceGetHandleByUUID", fails)
    assert str(error) in device(Nvml()).nulls[device_state.STATES]


@pytest.mark.parametrize(
    ("nvml", "words"),
    [
        (None, "pip install nvidia-ml-py"),  # as when the import fails
        (Nvml(refuses="Insufficient Permissions"), "NVML can't be used: Insufficient Permissions"),
    ],
)
def test_without_nvml_there_is_a_reason_and_a_remedy(device, nvml, words):
    monitor = device(nvml)
    assert monitor.read() is None
    assert words in monitor.nulls[device_state.STATES]


def test_a_device_that_nvml_does_not_know_is_said(device):
    monitor = device(Nvml(), uuid="cccccccc-2222")
    assert monitor.nulls[device_state.STATES].startswith("NVML knows no device of the UUID")
