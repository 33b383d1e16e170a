"""Others on NVIDIA GPUs, through NVML; no torch, and no context on a device.

The rule: processes that compute count, clients of MPS among them. Those that only draw
(a display server) do not. NVML does not list processes of other PID namespaces in every
container; where it lists none but more memory is in use than an idle device's, somebody
unseen holds it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from portkit.model import Device
from portkit.run.host import device_id_of
from portkit.run.neighbours.use import Use, all_unknown

HIDDEN_BYTES: Final = 256 << 20
"""Memory in use that no idle device shows; the context of one process takes more."""


def look(devices: Sequence[Device]) -> dict[str, Use]:
    """Use of each device, by ``device_id``."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception as error:  # the module raises ImportError, the library its own
        return all_unknown(devices, f"NVML can't be used: {error}; pip install nvidia-ml-py")
    try:
        handles = _handles(nvml)
        return {x.device_id: _use(nvml, handles.get(x.device_id)) for x in devices}
    except Exception as error:  # NVML's own, or a version of the package that lacks a function
        return all_unknown(devices, f"NVML: {error}")
    finally:
        with contextlib.suppress(Exception):
            nvml.nvmlShutdown()


def _handles(nvml: Any) -> Mapping[str, Any]:
    """NVML's handles by ``device_id``, which is the salted hash of the UUID: order and visibility don't matter."""
    found = {}
    for handle in _every_handle(nvml):
        uuid = nvml.nvmlDeviceGetUUID(handle)
        text = uuid.decode() if isinstance(uuid, bytes) else str(uuid)
        found[device_id_of(text.removeprefix("GPU-").removeprefix("MIG-"))] = handle
    return found


def _every_handle(nvml: Any) -> Iterator[Any]:
    """GPUs, and the MIG slices of those that are cut up."""
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        yield handle
        with contextlib.suppress(nvml.NVMLError):
            for slot in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
                with contextlib.suppress(nvml.NVMLError):  # an empty slot
                    yield nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot)


def _use(nvml: Any, handle: Any) -> Use:
    if handle is None:
        return Use(None, why="NVML lists no device of that UUID")
    try:
        computing = _pids(nvml.nvmlDeviceGetComputeRunningProcesses, handle)
    except nvml.NVMLError as error:
        return Use(None, why=f"NVML: {error}")
    with contextlib.suppress(nvml.NVMLError, AttributeError):  # a driver without MPS
        computing |= _pids(nvml.nvmlDeviceGetMPSComputeRunningProcesses, handle)
    if others := computing - {os.getpid()}:
        return Use(len(others))
    if computing:  # what memory is in use is this process's
        return Use(0)
    hidden = _hidden_bytes(nvml, handle)
    return Use(None, hidden, "its processes can't be seen from here, the memory they hold can") if hidden else Use(0)


def _pids(ask: Callable[[Any], Any], handle: Any) -> set[int]:
    return {process.pid for process in ask(handle)}


def _hidden_bytes(nvml: Any, handle: Any) -> int:
    """Memory in use that no process is seen to hold; the driver's own part does not count."""
    try:
        if nvml.nvmlDeviceGetGraphicsRunningProcesses(handle):
            return 0
        used = int(nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2).used)
    except (nvml.NVMLError, AttributeError, TypeError):  # an old NVML tells it with the driver's part
        return 0
    return used if used > HIDDEN_BYTES else 0
