"""What the vendor's management library says about the device of this process; it changes nothing.

One file a vendor; a device that nobody can read says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from portkit.model import DeviceState, Platform
from portkit.run import amd_smi
from portkit.run.device_state import amd, nvidia

STATES = "timing.states"
"""Name under which a record's ``nulls`` say why no state is known."""


class Monitor(Protocol):
    """Reads one device."""

    @property
    def nulls(self) -> Mapping[str, str]:
        """What could not be read so far, and why, by the names of a record's ``nulls``."""

    def read(self) -> DeviceState | None:
        """Its state now; None where nothing can be read."""


@dataclass(frozen=True)
class Unread:
    """Stands for a device that nobody can read."""

    why: str

    @property
    def nulls(self) -> Mapping[str, str]:
        """The one reason."""
        return {STATES: self.why}

    def read(self) -> DeviceState | None:
        """Nothing."""
        return None


def open_monitor() -> Monitor:
    """The monitor of torch's current device; one that only says why, where it can't be read."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    try:
        return _OPENERS[Platform.ROCM if torch.version.hip else Platform.CUDA](properties)
    except (nvidia.UnreadableError, amd_smi.UnreadableError) as error:
        return Unread(str(error))


_OPENERS: Mapping[Platform, Callable[[Any], Monitor]] = {
    Platform.CUDA: nvidia.open_monitor,
    Platform.ROCM: amd.open_monitor,
}
