"""Figures that no run can have taken: no number, infinite, or less than nothing.

A checksum says that a line is as it was written, a type that a figure is a number; neither
says that it can be. A time of 0 can: a call that launches nothing has it on the trace.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from portkit.model import Counters, DeviceProbe, Record, Work

_ABOVE_ZERO: Final[Mapping[type, tuple[str, ...]]] = {Work: ("fused_bytes", "unfused_bytes")}
_EITHER_SIDE: Final = ("temperature_c", "event_overhead_us")  # °C; a difference of two clocks


def impossible(value: object) -> tuple[str, str] | None:
    """The first figure of a line that can't be, as its field and what is wrong with it; None where all can."""
    parts = {"timing": value.timing, "work": value.work} if isinstance(value, Record) else {"": value}
    if not isinstance(value, Record | Counters | DeviceProbe):
        return None
    return next((found for name, part in parts.items() for found in _wrong(part, name)), None)


def _wrong(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, float | int):
        if why := _why(value, place):
            yield place, why
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _wrong(each, _under(place, name))
    elif dataclasses.is_dataclass(value):
        above = _ABOVE_ZERO.get(type(value), ())
        for field in dataclasses.fields(value):
            given = getattr(value, field.name)
            if field.name in above and given == 0:
                yield _under(place, field.name), "is 0"
            yield from _wrong(given, _under(place, field.name))


def _why(value: float, place: str) -> str | None:
    if isinstance(value, float) and not math.isfinite(value):
        return f"is {value}"
    return f"is {value}, less than 0" if value < 0 and not place.endswith(_EITHER_SIDE) else None


def _under(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
