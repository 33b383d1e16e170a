"""Refuses to measure on a GPU that somebody else uses, unless told to."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from portkit.errors import HostError
from portkit.model import Device
from portkit.run.neighbours import amd, nvidia
from portkit.run.neighbours.use import Use

PATIENCE_S: Final = 2.0
"""Time for a process that is ending to be gone."""

_STEP_S = 0.1

Look = Callable[[Sequence[Device]], dict[str, Use]]


_LOOKERS: Mapping[str, Look] = {"sm_": nvidia.look, "gfx": amd.look}
"""How the architectures of a vendor begin → who looks."""


def look(devices: Sequence[Device]) -> dict[str, Use]:
    """Who else uses each device, by ``device_id``."""
    groups: dict[str, list[Device]] = defaultdict(list)
    for device in devices:
        groups[next((prefix for prefix in _LOOKERS if device.architecture.startswith(prefix)), "")].append(device)
    found: dict[str, Use] = {}
    for prefix, group in groups.items():
        found |= _LOOKERS[prefix](group) if prefix else {x.device_id: Use(None, why="unknown vendor") for x in group}
    return found


def check_alone(
    devices: Sequence[Device], *, shared: bool, wait_seconds: float = 0.0, look: Look = look
) -> dict[str, Use]:
    """Who else uses each device; waits a moment for those that are ending.

    Args:
        devices: that are to be measured on.
        shared: whether the user has said that others may use them.
        wait_seconds: how long to wait for others, :data:`PATIENCE_S` at least.
        look: finds out.

    Raises:
        HostError: somebody else uses one, and the user has not said that they may.
    """
    until = time.monotonic() + max(PATIENCE_S, wait_seconds)
    while True:
        uses = look(devices)
        busy = [device for device in devices if uses[device.device_id].shared]
        if not busy or shared:
            return uses
        if time.monotonic() >= until:
            raise HostError(
                "; ".join(f"GPU {device.index}, {device.name}: {uses[device.device_id]}" for device in busy),
                remedy="wait for their end (--portkit-wait SECONDS) or stop them; "
                "to measure beside them, which the report then says, --portkit-shared-device",
            )
        time.sleep(_STEP_S)
