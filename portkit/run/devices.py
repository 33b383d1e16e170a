"""Which GPUs of the host a run uses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from portkit.errors import HostError
from portkit.model import Device, Evidence, Host, PlannedCell

OPTION = "--portkit-devices"

DRIVERS: Final = (Path("/dev/nvidiactl"), Path("/dev/kfd"), Path("/dev/dxg"))
"""Files of the drivers: NVIDIA's, AMD's, and that of either in Windows' Linux."""


def may_have_gpus(environment: Mapping[str, str]) -> bool:
    """Whether a driver is here, and its GPUs are not hidden; asks neither driver nor torch, so a guess.

    Args:
        environment: of this process.
    """
    return environment.get("CUDA_VISIBLE_DEVICES") not in ("", "-1") and any(path.exists() for path in DRIVERS)


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


WHOLE: Final = frozenset({"SPX", "SPX/NPS1"})
"""Modes of an AMD package that is not partitioned."""


def partitions_of(devices: Sequence[Device]) -> dict[str, str]:
    """Target → partition modes of its devices; without those that are whole, or whose modes nobody knows.

    Raises:
        HostError: devices of one target have different modes, so that its cells would be of neither.
    """
    modes: dict[str, set[str | None]] = defaultdict(set)
    for device in devices:
        modes[device.target].add(None if device.partition in WHOLE else device.partition)
    for target, found in modes.items():
        if len(found) > 1:
            have = "; ".join(f"{x.index}: {x.partition}" for x in devices if x.target == target)
            raise HostError(
                f"the GPUs of target {target} are partitioned in different ways",
                place=OPTION,
                remedy=f"choose those of one mode with {OPTION}: {have}",
            )
    return {target: mode for target, (mode,) in modes.items() if mode}


def measured_devices(devices: Sequence[Device], cells: Sequence[PlannedCell]) -> tuple[Device, ...]:
    """Devices that cells are to be measured on."""
    measured = (planned for planned in cells if planned.evidence is Evidence.MEASURED and not planned.excluded)
    targets = {planned.cell.target for planned in measured}
    return tuple(device for device in devices if device.target in targets)
