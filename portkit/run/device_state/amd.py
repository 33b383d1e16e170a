"""State of an AMD device, through amd-smi's library.

Newer firmware (MI300 and later) counts how long each cause has slowed the device down;
what grew since the last look was in force. Older tells what is in force now, in bits that
are alike on all devices. Not yet run on AMD hardware.

Sources: amd-smi's Python interface; ``drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h`` of
Linux for the bits, ``gpu_metrics_v1_5`` and later of ``kgd_pp_interface.h`` for the counters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from portkit.model import DeviceState
from portkit.run.amd_smi import NO_VALUE, handle_of, open_library

RESIDENCIES: Final[Mapping[str, str]] = {
    "PROCHOT": "prochot_residency_acc",
    "PPT": "ppt_residency_acc",
    "THM_SOCKET": "socket_thm_residency_acc",
    "THM_VR": "vr_thm_residency_acc",
    "THM_HBM": "hbm_thm_residency_acc",
}
"""Cause → counter of the time that it has slowed the device down."""

BITS: Final[Mapping[str, int]] = {
    **{f"PPT{n}": n for n in range(4)},
    **{"SPL": 4, "FPPT": 5, "SPPT": 6, "SPPT_APU": 7},
    **{"TDC_GFX": 16, "TDC_SOC": 17, "TDC_MEM": 18, "TDC_VDD": 19, "TDC_CVIP": 20},
    **{"EDC_CPU": 21, "EDC_GFX": 22, "APCC": 23},
    **{"TEMP_GPU": 32, "TEMP_CORE": 33, "TEMP_MEM": 34, "TEMP_EDGE": 35, "TEMP_HOTSPOT": 36, "TEMP_SOC": 37},
    **{"TEMP_VR_GFX": 38, "TEMP_VR_SOC": 39, "TEMP_VR_MEM0": 40, "TEMP_VR_MEM1": 41},
    **{"TEMP_LIQUID0": 42, "TEMP_LIQUID1": 43, "VRHOT0": 44, "VRHOT1": 45, "PROCHOT_CPU": 46, "PROCHOT_GFX": 47},
}
"""Cause → its bit of the status that does not depend on the device."""

_POWERS = ("socket_power", "current_socket_power", "average_socket_power")
"""Names of the power by version of the library and by device, the best first."""

_CLOCKS = ("clk", "cur_clk")
_HOTTEST_C = 1000  # more is meant in thousandths


class _NoValueError(Exception):
    """The library has no value of a figure for this device."""


class AmdSmiMonitor:
    """Reads one device through amd-smi.

    Args:
        library: the module ``amdsmi``, initialised.
        handle: its handle of the device.
    """

    def __init__(self, library: Any, handle: Any) -> None:
        self._library = library
        self._handle = handle
        self._residencies: dict[str, int] = {}  # at the last look
        self.nulls: dict[str, str] = {}
        self._throttle()  # what was before the first look is no matter

    def read(self) -> DeviceState:
        """Clocks in MHz, power in W, temperature in °C, and what has slowed it down."""
        kinds = getattr(self._library, "AmdSmiClkType", None)
        return DeviceState(
            sm_clock_mhz=self._ask("sm_clock_mhz", lambda: self._clock(kinds.GFX)),  # type: ignore[union-attr]
            memory_clock_mhz=self._ask("memory_clock_mhz", lambda: self._clock(kinds.MEM)),  # type: ignore[union-attr]
            power_w=self._ask("power_w", self._power),
            temperature_c=self._ask("temperature_c", self._temperature),
            throttle=self._throttle(),
        )

    def _clock(self, kind: Any) -> float:
        return _first(self._library.amdsmi_get_clock_info(self._handle, kind), _CLOCKS)

    def _power(self) -> float:
        watts = _first(self._library.amdsmi_get_power_info(self._handle), _POWERS)
        if not watts:
            raise _NoValueError("0 W, as the second device of an MI250X says, whose power the first one has")
        return watts

    def _temperature(self) -> float:
        kinds, metrics = self._library.AmdSmiTemperatureType, self._library.AmdSmiTemperatureMetric
        told = self._library.amdsmi_get_temp_metric(self._handle, kinds.HOTSPOT, metrics.CURRENT)
        degrees = _number(told, "temperature")
        return degrees / 1000 if degrees > _HOTTEST_C else degrees

    def _throttle(self) -> tuple[str, ...]:
        return self._ask("throttle", self._causes) or ()

    def _causes(self) -> tuple[str, ...]:
        metrics = self._library.amdsmi_get_gpu_metrics_info(self._handle)
        now = {cause: metrics[name] for cause, name in RESIDENCIES.items() if isinstance(metrics.get(name), int)}
        if now:
            before, self._residencies = self._residencies, now
            return tuple(cause for cause, time in now.items() if time > before.get(cause, time))
        bits = int(_number(metrics.get("indep_throttle_status", NO_VALUE), "the status of throttling"))
        return tuple(cause for cause, bit in BITS.items() if bits >> bit & 1)

    def _ask(self, figure: str, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except Exception as error:  # the library's own, or a version of the package without the function
            self.nulls[f"timing.states.{figure}"] = f"amd-smi: {error}"
            return None


def open_monitor(properties: Any) -> AmdSmiMonitor:
    """The monitor of a device.

    Args:
        properties: torch's properties of the device; its PCI address or UUID finds it.

    Raises:
        UnreadableError: the package, the library, the permission or the device is missing.
    """
    library = open_library()
    return AmdSmiMonitor(library, handle_of(library, properties))


def _first(told: Mapping[str, Any], names: tuple[str, ...]) -> float:
    """The first of the names that has a number."""
    value = next((told[name] for name in names if isinstance(told.get(name), int | float)), NO_VALUE)
    return _number(value, names[0])


def _number(value: Any, what: str) -> float:
    if not isinstance(value, int | float):
        raise _NoValueError(f"no value of {what} for this device")
    return value
