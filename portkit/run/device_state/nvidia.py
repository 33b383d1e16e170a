"""State of an NVIDIA device, through NVML.

Source of the reasons: NVML API reference, group "Clocks Event Reasons". Only those that
slow a kernel below what its user may expect count: an idle device, a clock that an
application set, or one kept level with other devices is no fault of cooling or power.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Mapping
from typing import Any

from portkit.model import DeviceState

THROTTLE_REASONS: Mapping[str, int] = {
    "SwPowerCap": 0x04,
    "HwSlowdown": 0x08,
    "SwThermalSlowdown": 0x20,
    "HwThermalSlowdown": 0x40,
    "HwPowerBrakeSlowdown": 0x80,
}
"""Bits of NVML's clocks event reasons that slow kernels down, by NVML's names."""

_REMEDY = "for clocks, power and temperature: pip install nvidia-ml-py, and a driver whose NVML this process may use"


class UnreadableError(Exception):
    """NVML can't read the device; the message says why, and what helps."""


class NvmlMonitor:
    """Reads one device through NVML.

    Args:
        nvml: the module ``pynvml``, initialised.
        handle: NVML's handle of the device.
    """

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self.nulls: dict[str, str] = {}

    def read(self) -> DeviceState:
        """Clocks in MHz, power in W, temperature in °C, and what slows it down now."""
        ask = self._ask
        return DeviceState(
            sm_clock_mhz=ask("sm_clock_mhz", lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM)),
            memory_clock_mhz=ask(
                "memory_clock_mhz", lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM)
            ),
            power_w=ask("power_w", lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu) / 1e3),
            temperature_c=ask(
                "temperature_c", lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU)
            ),
            throttle=ask("throttle", lambda nvml, gpu: reasons(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)))
            or (),
        )

    def _ask(self, figure: str, question: Callable[[Any, Any], Any]) -> Any:
        try:
            return question(self._nvml, self._handle)
        except Exception as error:  # NVML's own, or a version of the package without the function: no fault of the cell
            self.nulls[f"timing.states.{figure}"] = f"NVML: {error}"
            return None


def open_monitor(properties: Any) -> NvmlMonitor:
    """The monitor of a device.

    Args:
        properties: torch's properties of the device; its UUID finds it in NVML.

    Raises:
        UnreadableError: the Python package, the library, the permission or the device is missing.
    """
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        return NvmlMonitor(nvml, _handle(nvml, properties))
    except UnreadableError:
        raise
    except Exception as error:  # the module raises ImportError, the library its own
        raise UnreadableError(f"NVML can't be used: {error}; {_REMEDY}") from error


def reasons(bits: int) -> tuple[str, ...]:
    """Names of the reasons in force that slow kernels down."""
    return tuple(name for name, bit in THROTTLE_REASONS.items() if bits & bit)


def _handle(nvml: Any, properties: Any) -> Any:
    # Not by index: CUDA_VISIBLE_DEVICES hides and reorders devices for torch alone.
    uuid = str(getattr(properties, "uuid", ""))
    if not uuid:
        raise UnreadableError(f"this torch does not tell the device's UUID, by which NVML would find it; {_REMEDY}")
    for prefix in ("GPU-", "MIG-"):  # torch leaves the kind out
        with contextlib.suppress(nvml.NVMLError):
            return nvml.nvmlDeviceGetHandleByUUID(f"{prefix}{uuid.removeprefix(prefix)}".encode())
    raise UnreadableError(
        "NVML knows no device of the UUID that torch gives; in a container, it may be hidden from NVML"
    )
