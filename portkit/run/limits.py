"""Bounds of time and memory: what a user may write, and what holds without."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from portkit.errors import HostError, nearest
from portkit.model import Stage

GIB: Final = 2**30

CELL_SECONDS: Final = 900.0
"""Time of one cell, all stages together."""

STAGE_SECONDS: Final[Mapping[Stage, float]] = MappingProxyType(
    {
        Stage.IMPORT: 120.0,  # of a kernel file, once per process
        Stage.INPUTS: 120.0,
        Stage.REFERENCE: 300.0,
        Stage.CAPTURE: 120.0,  # host code between two kernels
        Stage.COMPILE: 180.0,  # one kernel
        Stage.RUN: 180.0,
        Stage.VERIFY: 300.0,
        Stage.BASELINE: 180.0,  # first call of one, imports and compilation included
        Stage.TIMING: 300.0,
    }
)
"""Time of each stage."""

DEVICE_SECONDS: Final = 60.0
"""Until a GPU answers a new process."""

MEMORY_BYTES: Final = 8 * GIB
"""Resident memory of one worker; less on a small host, see :func:`default_memory`."""

LANE_INSTRUCTIONS: Final = 1_000_000_000
"""Of one emulated launch: lanes of all waves × instructions. More would take minutes."""

BUDGET_OPTION: Final = "--portkit-emulate-budget"

_OPTION = "--portkit-limit"
_UNITS: Final[Mapping[str, int]] = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_stages(options: Iterable[str]) -> dict[Stage, float]:
    """Limits of all stages, with those of ``["compile=60,run=20", …]`` put in.

    Raises:
        HostError: no such stage, or no time.
    """
    limits = dict(STAGE_SECONDS)
    for entry in (part.strip() for option in options for part in option.split(",")):
        name, _, seconds = entry.partition("=")
        if name not in limits:
            raise HostError(f"no stage {name!r} has a time limit", place=_OPTION, remedy=nearest(name, limits))
        limits[Stage(name)] = _seconds(seconds, entry)
    return limits


def _seconds(text: str, entry: str) -> float:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", text) or not float(text):
        raise HostError(f"not a time limit: {entry!r}", place=_OPTION, remedy="write seconds, such as compile=60")
    return float(text)


def check_seconds(value: float, option: str, *, zero: bool = False) -> float:
    """A time that a user gave as a number, above 0.

    Args:
        value: seconds.
        option: where it was given, for the message.
        zero: whether 0 is a time, too.

    Raises:
        HostError: negative, endless or not a number.
    """
    if not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        raise HostError(f"not a time in seconds: {value:g}", place=option, remedy="write one such as 60")
    return value


def parse_memory(text: str) -> int:
    """Bytes of ``8G``, ``512M`` or ``8GiB``.

    Raises:
        HostError: not a size.
    """
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if match is None or float(match[1]) * _UNITS[match[2].upper()] < 1:
        raise HostError(f"not a size of memory: {text!r}", place="--portkit-memory", remedy="write one such as 8G")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def default_memory() -> int:
    """:data:`MEMORY_BYTES`, or three quarters of the memory of a host that has not much more."""
    return min(MEMORY_BYTES, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4)


_THOUSANDS: Final[Mapping[str, int]] = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def parse_lane_instructions(text: str) -> int:
    """A number of lane-instructions such as ``2G``, ``500M`` or ``1000000``.

    Raises:
        HostError: no such number.
    """
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]+)?)\s*([KMGT]?)", text.strip(), re.IGNORECASE)
    if match is None or float(match[1]) * _THOUSANDS[match[2].upper()] < 1:
        raise HostError(
            f"not a number of lane-instructions: {text!r}", place=BUDGET_OPTION, remedy="write one such as 2G"
        )
    return int(float(match[1]) * _THOUSANDS[match[2].upper()])
