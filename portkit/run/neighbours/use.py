"""What is known of a device's other users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from portkit.model import Device


@dataclass(frozen=True)
class Use:
    """Others on a device: processes that compute on it, or memory that somebody unseen holds."""

    processes: int | None  # None: not known
    hidden_bytes: int = 0  # in use though no process is seen, as in a container that hides the host's
    why: str = ""  # why the processes are not known

    @property
    def shared(self) -> bool:
        """Whether somebody else uses the device, as far as is known."""
        return bool(self.processes or self.hidden_bytes)

    def __str__(self) -> str:
        if self.hidden_bytes:
            return f"{self.hidden_bytes >> 20} MiB of its memory are in use by processes that can't be seen from here"
        return f"{self.processes} other {'process uses' if self.processes == 1 else 'processes use'} it"


def all_unknown(devices: Sequence[Device], why: str) -> dict[str, Use]:
    """What is known of devices that nobody can look at, by ``device_id``."""
    return {device.device_id: Use(None, why=why) for device in devices}
