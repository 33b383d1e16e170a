"""One run at a time on a device, since two would disturb each other's clocks, and one process at a time at a build."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

from filelock import FileLock, Timeout

from portkit.errors import HostError
from portkit.model import Device

_LOCK_DIGITS = 3
"""Hexadecimal, of a kernel's hash: so many locks that two kernels at work seldom share one, and few files."""


def hold_devices(devices: Iterable[Device], wait_seconds: float = 0.0) -> ExitStack:
    """Lock devices for this process until the returned stack is closed or the process ends.

    Args:
        devices: those that will be measured on.
        wait_seconds: how long to wait for another run, over all of them.

    Raises:
        HostError: another run holds one of them all that time.
    """
    until = time.monotonic() + wait_seconds
    with ExitStack() as stack:
        for device in sorted(devices, key=lambda each: each.device_id):  # one order, so that no two runs wait in a ring
            lock = FileLock(lock_path(device), mode=0o666)
            try:
                lock.acquire(timeout=max(0.0, until - time.monotonic()))
            except Timeout:
                raise HostError(
                    f"another run measures on GPU {device.index}, {device.name}" + _waited(wait_seconds),
                    remedy="wait for its end with --portkit-wait SECONDS, or choose other targets",
                ) from None
            stack.callback(lock.release)
        return stack.pop_all()


def lock_path(device: Device) -> Path:
    """The file that stands for a device on this host."""
    return Path(tempfile.gettempdir(), f"portkit-device-{device.device_id}.lock")


@contextlib.contextmanager
def one_builder(kernel: str) -> Iterator[None]:
    """Wait until no other process of this user builds a kernel; what it built is then in Triton's cache.

    Args:
        kernel: its source, target and options in words. Of a few thousand, some share a lock.
    """
    name = hashlib.sha256(kernel.encode()).hexdigest()[:_LOCK_DIGITS]
    with ExitStack() as held:
        with contextlib.suppress(OSError):  # no folder for locks: two may build the same, which is slow and right
            folder = Path(tempfile.gettempdir(), f"portkit-builds-{os.getuid()}")
            folder.mkdir(exist_ok=True)
            held.enter_context(FileLock(folder / f"{name}.lock"))
        yield


def _waited(seconds: float) -> str:
    return f" (waited {seconds:g} s)" if seconds else ""
