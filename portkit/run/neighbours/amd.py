"""Others on AMD GPUs, through amd-smi; no torch, and no context on a device.

The rule is that of NVIDIA's: processes that compute count, those that only draw do not. The
library lists whoever has opened a device; of these compute who has a queue of the kernel's
compute driver (KFD) and holds memory of the device, or occupies compute units: the runtime
opens all GPUs of a host, whichever it then uses. The library cannot see processes of other PID
namespaces or, in part, of other users; where more memory is in use than an idle device's and
than those that it lists hold, somebody unseen holds it. Partitions of one package share
memory and power, so that who computes on one counts on all.

Written from the library's source (``amdsmi_get_gpu_process_list`` with entries from ROCm 6.1
on); not yet run on AMD hardware.
"""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from portkit.model import Device
from portkit.run.amd_smi import UnreadableError, address_of, open_library, serial, uuid_of
from portkit.run.host import device_id_of, machine
from portkit.run.neighbours.use import Use, all_unknown

HIDDEN_BYTES: Final = 1 << 30
"""Memory in use that no idle device shows: the firmware of an MI300X takes about 300 MB."""

IDLE_BYTES: Final = 16 << 20
"""Memory below which a process has opened a device and not used it: code and first tensors take more."""

_KFD: Final = "/dev/kfd"
_PROC: Final = Path("/proc")


def look(devices: Sequence[Device]) -> dict[str, Use]:
    """Use of each device, by ``device_id``."""
    try:
        library = open_library()
    except UnreadableError as error:
        return all_unknown(devices, str(error))
    try:
        handles = _handles(library)
        return {x.device_id: _use(library, handles.get(_package(x.device_id), ())) for x in devices}
    except Exception as error:  # the library's own, or a version of the package that lacks a function
        return all_unknown(devices, f"amd-smi: {error}")
    finally:
        with contextlib.suppress(Exception):
            library.amdsmi_shut_down()


def _package(device_id: str) -> str:
    """The id that partitions of one package have in common: all but the first have a number behind it."""
    return device_id.partition(".")[0]


def _handles(library: Any) -> Mapping[str, list[Any]]:
    """The library's handles by ``device_id``: order and visibility don't matter."""
    found: dict[str, list[Any]] = defaultdict(list)
    for handle in library.amdsmi_get_processor_handles():
        told = serial(uuid_of(library, handle), address_of(library, handle), machine())
        found[device_id_of(told)].append(handle)
    return found


def _use(library: Any, handles: Sequence[Any]) -> Use:
    if not handles:
        return Use(None, why="amd-smi lists no device of the address and unique number that HIP gives")
    listed = [process for handle in handles for process in library.amdsmi_get_gpu_process_list(handle)]
    computing = _computing(library, listed)
    if others := computing - {os.getpid()}:
        return Use(len(others))
    if computing:  # what memory is in use is this process's
        return Use(0)
    hidden = max(_used_bytes(library, handle) for handle in handles) - sum(map(_device_memory, listed))
    if hidden > HIDDEN_BYTES:
        return Use(None, hidden, "its processes can't be seen from here, the memory they hold can")
    return Use(0)


def _computing(library: Any, listed: Iterable[Mapping[str, Any]]) -> set[int]:
    """Processes that compute. Older libraries list each on every device, of which it uses one."""
    using = {int(process["pid"]) for process in listed if _uses(process)}
    of_driver = _compute_pids(library) if using else set()
    return {pid for pid in using if pid in of_driver or _has_opened_kfd(pid)}


def _uses(process: Mapping[str, Any]) -> bool:
    """Whether a process that has opened the device uses it; the units that it occupies are told from ROCm 7.0 on."""
    units = process.get("cu_occupancy")
    return _memory(process) >= IDLE_BYTES or (isinstance(units, int) and units > 0)


def _compute_pids(library: Any) -> set[int]:
    """Processes of the compute driver, on whichever device; of the host's PID namespace."""
    with contextlib.suppress(Exception):  # the library's own: it may not read the driver's list
        return {int(process["process_id"]) for process in library.amdsmi_get_gpu_compute_process_info()}
    return set()


def _has_opened_kfd(pid: int, proc: Path = _PROC) -> bool:
    """Whether a process of this PID namespace has opened the compute driver; False where it may not be looked at."""
    with contextlib.suppress(OSError):
        return any(str(link.readlink()) == _KFD for link in (proc / str(pid) / "fd").iterdir())
    return False


def _memory(process: Mapping[str, Any]) -> int:
    """Bytes that a process holds for the device, the host's among them: an APU has no others."""
    return sum(size for size in process["memory_usage"].values() if isinstance(size, int))


def _device_memory(process: Mapping[str, Any]) -> int:
    size = process["memory_usage"].get("vram_mem")
    return size if isinstance(size, int) else 0


def _used_bytes(library: Any, handle: Any) -> int:
    """Memory of the device that is in use, which the library tells in MiB; 0 where it does not."""
    with contextlib.suppress(Exception):  # the library's own
        return int(library.amdsmi_get_gpu_vram_usage(handle)["vram_used"]) << 20
    return 0
