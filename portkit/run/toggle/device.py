"""The device of an experiment: which it is, its name, and when it is done."""

from __future__ import annotations

from collections.abc import Callable

import torch

from portkit.errors import HostError


def chosen(asked: str | None) -> str:
    """``cuda`` or ``cpu``.

    Raises:
        HostError: a GPU was asked for and there is none.
    """
    there = torch.cuda.is_available()
    if asked == "cuda" and not there:
        raise HostError("PyTorch sees no GPU here", remedy="leave --device out, or give --device cpu")
    return asked or ("cuda" if there else "cpu")


def finish_on(device: str) -> Callable[[], object]:
    """What waits until the device has done all that was enqueued; nothing on a CPU."""
    return torch.cuda.synchronize if device == "cuda" else lambda: None


def name_of(device: str) -> str:
    """The device in words."""
    if device == "cuda":
        return str(torch.cuda.get_device_name())
    return f"CPU ({torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads)"
