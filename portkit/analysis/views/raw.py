"""Every raw field of a value with its unit, and of each that is unknown the reason."""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

NO_REASON: Final = "no reason was recorded"

_UNITS: Final[Mapping[str, str]] = {
    # how a field's name ends → its unit, the longest first
    "_bytes_per_thread": "B/thread",
    "_bytes_per_block": "B/block",
    "_stack_bytes": "B",
    "compile_seconds": "s",
    "_seconds": "s",
    "_bytes": "B",
    "_pct": "%",
    "_gbs": "GB/s",
    "_tflops": "TFLOP/s",
    "_mhz": "MHz",
    "_ms": "ms",
    "_us": "µs",
    "_w": "W",
    "_c": "°C",
}

_UNIT_OF: Final[Mapping[str, str]] = {
    "seconds": "s",
    "percent": "%",
    "flops": "FLOP",
    "tflops": "TFLOP/s",
    "registers_per_thread": "registers",
    "intensity": "FLOP/B",
    "ridge": "FLOP/B",
    **dict.fromkeys(("fusion_bound", "speedup_low", "speedup_high", "error_over_limit", "counted_over_model"), "×"),
    **dict.fromkeys(("attainment_measured", "attainment_datasheet", "share_of_bound", "share_of_fusion_bound"), "of 1"),
}
"""Units of whole names."""

_MAPPING_UNITS: Final[Mapping[str, str]] = {
    "matmul_tflops": "TFLOP/s",
    "occupancy.limits": "blocks/unit",
    "counted_gbs": "GB/s",
}
"""Units of all values of a mapping."""

_PLAIN_REASONS: Final[Mapping[str, str]] = {
    # last part of a path → why it is None where nothing went wrong
    "partition": "the whole device, or not known",
    "expected": "the matrix expects nothing of this cell",
    "expected_reason": "the matrix expects nothing of this cell",
    "tuning": "no autotuned kernel whose configuration is open",
    "loaded": "no device of this host loaded it",
    "compile_seconds": "taken from Triton's cache",
    "warm": "the mode was not asked for",
    "graph": "the mode was not asked for",
    "repeatable": "run once",
    "guards_intact": "not watched",
    "sanitizer": "not asked for",
    "families_shape": "no input family ran",
    "error": "nothing finite was to compare",
    "band_share": "no output of codes, indices or flags",
    "device_id": "no device ran it",
    "build_key": "nothing was built",
    "version": "no library's own",
    "architecture": "the interpreter has none",
    "samples_ref": "no samples were kept",
    "first_call_seconds": "it was not called by itself",
    "clock": "nothing was timed",
    "signals": "the texts of the build were not read",
    "largest_elements": "no tensor argument says so",
    "largest_bytes": "no tensor argument says so",
}


class Field(NamedTuple):
    """One value of a record; a tuple, since a page of thousands of cells makes a million."""

    path: str  # build.launches[0].resources.registers_per_thread
    value: Any  # a number, a text, a list of them; None where it is unknown
    unit: str
    reason: str | None  # of a value that is None


def raw_fields(value: Any, nulls: Mapping[str, str], path: str = "") -> list[Field]:
    """The fields of a dataclass in their order, those inside of it in place.

    Args:
        value: a dataclass, or what one may hold.
        nulls: path, part or figure → why it is unknown, as a record has them.
        path: of the value.
    """
    found: list[Field] = []
    _collect(value, nulls, path, found.append)
    return found


def _collect(value: Any, nulls: Mapping[str, str], path: str, put: Callable[[Field], None]) -> None:
    parts = None if isinstance(value, _PLAIN) else _parts(value)
    if not parts:
        unit = unit_of(path) if isinstance(value, _NUMBER) else ""
        put(Field(path, _leaf(value), unit, _why(path, nulls) if value is None else None))
        return
    if own := _own_reasons(value):
        nulls = {**nulls, **{_joined(path, name): why for name, why in own.items()}}
    for name, part in parts:
        _collect(part, nulls, _joined(path, name), put)


_NUMBER: Final = (int, float)
_PLAIN: Final = (str, *_NUMBER, type(None))


def _parts(value: Any) -> Sequence[tuple[str, Any]]:
    """What a value is made of; nothing of a leaf."""
    if names := _fields_of(value):
        reasons = _own_reasons(value).items()
        untold = [(f"nulls.{name}", why) for name, why in reasons if not _is_null(value, name)]
        return [*((name, getattr(value, name)) for name in names), *untold]
    if isinstance(value, Mapping):
        return [(str(name), part) for name, part in value.items()]
    if isinstance(value, tuple | list) and any(_fields_of(part) for part in value):
        return [(f"[{number}]", part) for number, part in enumerate(value)]
    return []


def _fields_of(value: object) -> tuple[str, ...]:
    """Names of a dataclass's fields but its reasons; none of another value."""
    return _fields_of_type(type(value))  # type: ignore[arg-type]  # mypy takes no type for hashable


@functools.cache
def _fields_of_type(kind: type[Any]) -> tuple[str, ...]:
    if not dataclasses.is_dataclass(kind):
        return ()
    return tuple(each.name for each in dataclasses.fields(kind) if each.name != "nulls")


def _own_reasons(value: Any) -> Mapping[str, str]:
    """Reasons that a value carries with it."""
    return getattr(value, "nulls", {}) if _fields_of(value) else {}


def _is_null(value: Any, name: str) -> bool:
    """Whether the name is of a field that is None, which tells the reason itself."""
    return hasattr(value, name) and getattr(value, name) is None


def _joined(path: str, name: str) -> str:
    return f"{path}{name}" if name.startswith("[") or not path else f"{path}.{name}"


def _leaf(value: Any) -> Any:
    if isinstance(value, enum.Enum):  # of texts, so before them
        return value.value
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Mapping | tuple | list):
        return list(value)
    return value


@functools.lru_cache(maxsize=1 << 14)
def unit_of(path: str) -> str:
    """The unit of a field, by its name; empty of what has none.

    >>> unit_of("timing.fused.events.median_ms"), unit_of("device.matmul_tflops.fp8"), unit_of("keys.cell_key")
    ('ms', 'TFLOP/s', '')
    """
    group, _, name = _LIST_PLACE.sub("", path).rpartition(".")
    for ending, unit in _MAPPING_UNITS.items():
        if group.endswith(ending):
            return unit
    if _SPEEDUPS.search(path):
        return "×"
    found = (unit for ending, unit in _UNITS.items() if name.endswith(ending))
    return _UNIT_OF.get(name) or next(found, "")


_LIST_PLACE: Final = re.compile(r"\[\d+\]")
_SPEEDUPS: Final = re.compile(r"(?:^|\.)speedup(?:_kernel)?(?:\.|$)")


def _why(path: str, nulls: Mapping[str, str]) -> str:
    """The most special reason there is."""
    parts = _LIST_PLACE.sub("", path).split(".")
    above = [parts[:length] for length in range(len(parts) - 1, 0, -1)]
    names = [path, *_endings(parts), f"{parts[0]}.{parts[-1]}", *(name for each in above for name in _endings(each))]
    given = next((nulls[name] for name in names if name in nulls), None)
    return given or _PLAIN_REASONS.get(parts[-1], NO_REASON)


def _endings(parts: Sequence[str]) -> list[str]:
    """A path and what is left of it without its first parts: reasons are told by either."""
    return [".".join(parts[start:]) for start in range(len(parts))]
