"""What a host says of itself where HIP does not say it as CUDA does.

Everything else goes through torch's CUDA-named API, which HIP serves. Written from
documentation and property printouts; not yet run on AMD hardware.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from portkit.model import Device
from portkit.run.amd_smi import hip_uuid, partitions, pci_address, serial

_MODULE: Final = Path("/sys/module/amdgpu")


def is_amd(properties: Any) -> bool:
    """Whether torch's properties are of an AMD device."""
    return str(getattr(properties, "gcnArchName", "")).startswith("gfx")


def architecture(properties: Any) -> str:
    """``gfx942`` of ``gfx942:sramecc+:xnack-``."""
    return str(properties.gcnArchName).partition(":")[0]


def features(properties: Any) -> tuple[str, ...]:
    """What the runtime adds to the architecture: ``sramecc+``, ``xnack-``. Code may be built for them."""
    return tuple(part for part in str(properties.gcnArchName).split(":")[1:] if part)


def serial_of(properties: Any, machine: str) -> str:
    """What tells a device from all others, as :func:`~portkit.run.amd_smi.serial` writes it.

    Args:
        properties: torch's properties of the device.
        machine: its host, for a device without a unique number.
    """
    return serial(hip_uuid(properties), pci_address(properties), machine)


def of_rocm(devices: Sequence[Device], properties: Sequence[Any]) -> tuple[Device, ...]:
    """Devices with what ROCm alone has: features of the architecture and partition modes.

    Partitions of one package have one UUID and one address, so each gets a number of its own.
    """
    seen: Counter[str] = Counter()
    found = []
    for device, each, mode in zip(devices, properties, partitions(properties), strict=True):
        seen[device.device_id] += 1
        number = seen[device.device_id]
        name = device.device_id if number == 1 else f"{device.device_id}.{number}"
        found.append(replace(device, device_id=name, features=features(each), partition=mode))
    return tuple(found)


def toolkit(version: Any) -> str:
    """HIP's version, with that of the ROCm that torch was built with where torch tells it."""
    rocm = getattr(version, "rocm", None)
    return f"HIP {version.hip}" + (f", ROCm {rocm}" if rocm else "")


def driver(module: Path = _MODULE) -> str | None:
    """Version of the kernel driver: its own where it was installed apart, else that of the Linux it came with."""
    file = module / "version"
    if file.is_file():
        return file.read_text(encoding="utf-8", errors="replace").strip() or None
    return f"amdgpu of Linux {platform.release().partition('-')[0]}" if module.is_dir() else None
