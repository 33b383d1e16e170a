"""AMD's management library (the Python package ``amdsmi``), and the device of torch's in it.

It comes with ROCm, and by itself from PyPI; without it what it tells is null with that reason.
Torch hides and reorders devices (``HIP_VISIBLE_DEVICES``, ``ROCR_VISIBLE_DEVICES``), the
library does not, so a device is found by its PCI address, else by its UUID, and never by its index.
Partitions of one package share both.

Written from the library's source; not yet run on AMD hardware.
"""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

REMEDY: Final = (
    "for clocks, power, temperature, partitions and other processes: pip install /opt/rocm/share/amd_smi,"
    " which is the amdsmi of the ROCm that is installed"
)

NO_VALUE: Final = "N/A"
"""What the library says where a device has no such figure."""


class UnreadableError(Exception):
    """The library can't read the device; the message says why, and what helps."""


def open_library() -> Any:
    """The library, initialised.

    Raises:
        UnreadableError: package, library or permission are missing.
    """
    try:
        library = importlib.import_module("amdsmi")
        library.amdsmi_init()
    except Exception as error:  # the module raises ImportError or KeyError, the library its own
        raise UnreadableError(f"amd-smi can't be used: {error}; {REMEDY}") from error
    return library


def handle_of(library: Any, properties: Any) -> Any:
    """The library's handle of a device.

    Args:
        library: as :func:`open_library` gives it.
        properties: torch's properties of the device.

    Raises:
        UnreadableError: it lists no such device, or several that can't be told apart.
    """
    same = handles_of(library, properties)
    if len(same) == 1:
        return same[0]
    found = f"lists {len(same)} devices of" if same else "lists no device of"
    total = len(library.amdsmi_get_processor_handles())
    raise UnreadableError(f"amd-smi {found} the address and UUID that torch gives; {total} in all")


def handles_of(library: Any, properties: Any) -> list[Any]:
    """The library's handles at a device's address and of its UUID: several where a package is partitioned."""
    handles = list(library.amdsmi_get_processor_handles())
    address, uuid = pci_address(properties), hip_uuid(properties)
    same = [handle for handle in handles if address and address_of(library, handle) == address]
    if len(same) == 1:
        return same
    return [handle for handle in same or handles if uuid and uuid_of(library, handle) == uuid] or same


def pci_address(properties: Any) -> str | None:
    """Domain, bus and device of torch's properties, such as ``0000:c1:00``; None where torch does not tell."""
    numbers = [getattr(properties, f"pci_{name}_id", None) for name in ("domain", "bus", "device")]
    if not all(isinstance(number, int) for number in numbers):
        return None
    domain, bus, device = numbers
    return f"{domain:04x}:{bus:02x}:{device:02x}"


def hip_uuid(properties: Any) -> str | None:
    """The unique number of a GPU as HIP writes it, ``de8287300da37c72``: torch has its characters as bytes.

    None where the device has none: HIP then writes ``XX`` or zeros.
    """
    text = str(getattr(properties, "uuid", "")).removeprefix("GPU-").replace("-", "")
    try:
        return _unique(bytes.fromhex(text).decode("ascii"))
    except ValueError:
        return None


def address_of(library: Any, handle: Any) -> str | None:
    """Domain, bus and device of a handle, as :func:`pci_address` has them; None where it has no address."""
    return _text(lambda: library.amdsmi_get_gpu_device_bdf(handle)).lower().partition(".")[0] or None


def uuid_of(library: Any, handle: Any) -> str | None:
    """The unique number of a handle, as :func:`hip_uuid` has it; the serial number of older libraries is the same."""
    told = _text(lambda: library.amdsmi_get_gpu_enumeration_info(handle)["hip_uuid"])
    return _unique(told) or _unique(_text(lambda: library.amdsmi_get_gpu_asic_info(handle)["asic_serial"]))


def serial(uuid: str | None, address: str | None, machine: str) -> str:
    """What tells a device from all others: GCDs of a package may have one UUID, and lie at two addresses."""
    return f"{uuid or machine} {address}" if address else uuid or machine


def partition_of(library: Any, handle: Any) -> str | None:
    """Modes of compute and memory partitions, such as ``SPX/NPS1``; None where there are none."""
    modes = [
        _text(lambda: library.amdsmi_get_gpu_compute_partition(handle)),
        _text(lambda: library.amdsmi_get_gpu_memory_partition(handle)),
    ]
    return "/".join(mode for mode in modes if mode) or None


def partitions(properties: Sequence[Any]) -> list[str | None]:
    """Partition modes of devices; None of those that nobody can read."""
    try:
        library = open_library()
    except UnreadableError:
        return [None] * len(properties)
    return [_partition(library, each) for each in properties]


def _partition(library: Any, properties: Any) -> str | None:
    """The modes of a package are told by the first of its partitions alone, or by all alike."""
    with contextlib.suppress(Exception):  # the library's own, or a version of the package without the function
        told = {partition_of(library, handle) for handle in handles_of(library, properties)} - {None}
        return told.pop() if len(told) == 1 else None
    return None


_UNIQUE = re.compile(r"(?:gpu-|0x)?((?!0+$)[0-9a-f]{16})")


def _unique(told: str) -> str | None:
    match = _UNIQUE.fullmatch(told.strip().lower())
    return match[1] if match else None


def _text(ask: Callable[[], Any]) -> str:
    """An answer, empty where there is none."""
    with contextlib.suppress(Exception):  # the library's own, or a version of the package without the function
        told = str(ask())
        return "" if told == NO_VALUE else told
    return ""
