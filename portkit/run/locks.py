"""One run at a time on a device, since two would disturb each other's clocks, and one process at a time at a build."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

from filelock import FileLock, Timeout

from portkit.errors import HostError
from portkit.model import Device

_LOCK_DIGITS = 3
"""Hexadecimal, of a kernel's hash: so many locks that two kernels at work seldom share one, and few files."""

BUILDER_SECONDS = 60.0
"""Longest wait for another builder, below the limit of each stage that builds; then both build, which is right too."""


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

    Where no lock can be had, or none in :data:`BUILDER_SECONDS`, the kernel is built beside others: slower, and right.

    Args:
        kernel: its source, target and options in words. Of a few thousand, some share a lock.
    """
    name = hashlib.sha256(kernel.encode()).hexdigest()[:_LOCK_DIGITS]
    with ExitStack() as held:
        if name not in _own.names:  # else a build within a build would wait for itself
            with contextlib.suppress(OSError, RuntimeError, NotImplementedError):  # filelock's, Timeout too
                held.enter_context(_build_lock(name))
        yield


class _Own(threading.local):
    """A thread's builds."""

    def __init__(self) -> None:
        self.names: set[str] = set()  # of the locks that it holds
        self.seconds = BUILDER_SECONDS  # that it waits for one


_own = _Own()


@contextlib.contextmanager
def _build_lock(name: str) -> Iterator[None]:
    folder = Path(tempfile.gettempdir(), f"portkit-builds-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    lock = FileLock(folder / f"{name}.lock")
    try:
        lock.acquire(timeout=_own.seconds)
    except Timeout:
        _own.seconds = 0.0  # a file system whose locks are never free would cost as much again with each kernel
        raise
    _own.names.add(name)
    try:
        yield
    finally:
        _own.names.discard(name)
        lock.release()


def _waited(seconds: float) -> str:
    return f" (waited {seconds:g} s)" if seconds else ""
