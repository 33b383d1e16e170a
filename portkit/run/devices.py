"""Which GPUs of the host a run uses."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from portkit.errors import HostError
from portkit.model import Device, Evidence, Host, PlannedCell

OPTION = "--portkit-devices"


def choose_devices(host: Host, chosen: Collection[int] | None) -> Host:
    """The host with the chosen GPUs alone.

    Raises:
        HostError: it has no such GPU.
    """
    if chosen is None:
        return host
    known = {device.index: device for device in host.devices}
    if missing := sorted(set(chosen) - known.keys()):
        have = "; ".join(f"{each.index}: {each.name}" for each in host.devices) or "none"
        raise HostError(f"no GPU {', '.join(map(str, missing))} is here", place=OPTION, remedy=f"those here are {have}")
    return replace(host, devices=tuple(known[index] for index in sorted(set(chosen))))


def parse_devices(options: Sequence[str]) -> frozenset[int] | None:
    """Indices of ``["0,2", "3"]``; None where nothing was chosen.

    Raises:
        HostError: not an index.
    """
    words = [word.strip() for option in options for word in option.split(",")]
    if wrong := [word for word in words if not word.isdecimal()]:
        raise HostError(f"not the index of a GPU: {wrong[0]!r}", place=OPTION, remedy="write some such as 0,2")
    return frozenset(int(word) for word in words) or None


def measured_devices(devices: Sequence[Device], cells: Sequence[PlannedCell]) -> tuple[Device, ...]:
    """Devices that cells are to be measured on."""
    measured = (planned for planned in cells if planned.evidence is Evidence.MEASURED and not planned.excluded)
    targets = {planned.cell.target for planned in measured}
    return tuple(device for device in devices if device.target in targets)
