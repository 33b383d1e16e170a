"""Figures that no run can have taken: no number, infinite, less than nothing, or beyond any machine.

A checksum says that a line is as it was written, a type that a figure is a number; neither
says that it can be. A time of 0 can: a call that launches nothing has it on the trace.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from portkit.model import Counters, DeviceProbe, Header, Record, Work

MOST: Final = 2**63 - 1
"""Greatest figure that there is: what the 64-bit counters of devices and of tables can hold."""

LEAST: Final = 1e-99
"""Least figure that there is beside 0: under it quotients leave the range of numbers."""

_ABOVE_ZERO: Final[Mapping[type, tuple[str, ...]]] = {Work: ("fused_bytes", "unfused_bytes")}
_EITHER_SIDE: Final = ("temperature_c", "event_overhead_us")  # °C; a difference of two clocks


_JUDGED_PARTS: Final[Mapping[type, tuple[str, ...]]] = {
    Header: ("cells",),
    Record: ("cell", "build", "baselines", "timing", "work", "seconds", "stage_seconds"),
}
"""Parts whose figures must be possible, where not all must: a verdict may be what a wrong kernel made of it."""

_ANYTHING: Final = re.compile(r"^baselines\..*\.(error|limit)$|\.(options|raw)(\.|$)")
"""Figures that a wrong baseline, a compiler or a vendor chose."""

_FOLDED: Final = bytes.maketrans(b"0123456789[,}NI", b"0000000000:::--")
"""Digits are one, what stands before a value or after it is one, and so is what a value less than 0, NaN or infinite
begins with: then few searches find them."""

_SUSPECT: Final = (b":-", b":" + b"0" * 19, b"e-000", b'fused_bytes":0:')
"""What the folded text of a line has in it where a figure can't be, though not only there."""

_LARGE: Final = re.compile(r"e\+")
_OF_A_VERDICT: Final = frozenset({"error", "limit", "fused_error", "unfused_error"})
"""Figures that may be as large as they like, and often are."""


def impossible(value: object, text: str) -> tuple[str, str] | None:
    """The first figure of a line that can't be, as its field and what is wrong with it; None where all can.

    Args:
        value: of the line.
        text: its canonical JSON; one without a suspicious place spares the walk over a record.
    """
    if not isinstance(value, Header | Record | Counters | DeviceProbe) or not _suspicious(text):
        return None
    names = _JUDGED_PARTS.get(type(value))
    parts = {name: getattr(value, name) for name in names} if names else {"": value}
    return next((found for name, part in parts.items() for found in _wrong(part, name)), None)


def _suspicious(text: str) -> bool:
    folded = text.encode().translate(_FOLDED)
    if any(mark in folded for mark in _SUSPECT):
        return True
    return "e+" in text and any(_name(text, found.start()) not in _OF_A_VERDICT for found in _LARGE.finditer(text))


def _name(text: str, place: int) -> str:
    """Name of the field whose value stands at a place."""
    end = text.rfind('":', 0, place)
    return text[text.rfind('"', 0, end) + 1 : end]


def _wrong(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, float | int):
        if (why := _why(value, place)) and not _ANYTHING.search(place):
            yield place, why
    elif isinstance(value, tuple | list):
        for index, each in enumerate(value):
            yield from _wrong(each, _under(place, str(index)))
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
    if abs(value) > MOST:
        return f"is more than {MOST}"
    if 0 < abs(value) < LEAST:
        return f"is {value}, nearer to 0 than {LEAST}"
    return f"is {value}, less than 0" if value < 0 and not place.endswith(_EITHER_SIDE) else None


def _under(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
