"""One copy of what many records of a report have alike: compiler options, constants, resources, reasons.

A record read from JSON has a dict of its own for each of its mappings, which is most of its memory; those of
a launch and the reasons for what is unknown differ little from cell to cell. Records are never changed, so
what is equal may be one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final

from portkit.model import Launch, Occupancy, Record, Resources

_OF_A_RECORD: Final = ("variant_params", "nulls", "asked")
_OFTEN_EMPTY: Final = ("stage_seconds", "blobs", "baselines")
_OF_A_LAUNCH: Final = ("specialization", "constants", "options", "signals")
_RESOURCES: Final = attrgetter(*(each.name for each in fields(Resources) if each.name != "raw"))
_OCCUPANCY: Final = attrgetter(*(each.name for each in fields(Occupancy) if each.name != "limits"))
_EMPTY: Final[Mapping[str, Any]] = {}


class Sharing:
    """Mappings seen so far."""

    def __init__(self) -> None:
        self._known: dict[Any, Mapping[str, Any]] = {}
        self._parts: dict[tuple[Any, ...], object] = {}

    def record(self, record: Record) -> None:
        """Let the record have the mappings of earlier ones where they are equal."""
        self._fields(record, _OF_A_RECORD)
        for name in _OFTEN_EMPTY:
            if not getattr(record, name):
                object.__setattr__(record, name, _EMPTY)
        if record.verdict is not None:
            self._fields(record.verdict, ("families",))
        for launch in record.build.launches if record.build else ():
            self._launch(launch)

    def _launch(self, launch: Launch) -> None:
        self._fields(launch, _OF_A_LAUNCH)
        self._fields(launch.resources, ("raw",))
        self._fields(launch.occupancy, ("limits",))
        self._part(launch, "resources", _RESOURCES(launch.resources), launch.resources.raw)
        self._part(launch, "occupancy", _OCCUPANCY(launch.occupancy), launch.occupancy.limits)

    def _part(self, launch: Launch, name: str, figures: tuple[Any, ...], mapping: Mapping[str, Any]) -> None:
        """Let the launch have the first part with these figures and this very mapping."""
        first = self._parts.setdefault((name, id(mapping), *figures), getattr(launch, name))
        object.__setattr__(launch, name, first)

    def _fields(self, value: object, names: tuple[str, ...]) -> None:
        for name in names:
            mapping: Mapping[str, Any] | None = getattr(value, name)
            if mapping is not None:
                object.__setattr__(value, name, self._first(mapping))

    def _first(self, mapping: Mapping[str, Any]) -> Mapping[str, Any]:
        """The first mapping with these keys and values, in this order; 1 and True are two values."""
        values = mapping.values()
        try:
            return self._known.setdefault((*mapping, *values, *map(type, values)), mapping)
        except TypeError:  # it holds a list or a mapping, which have no hash
            return mapping
