"""Targets that a user adds: a YAML file of SKUs on known architectures.

    targets:
      h20:
        title: NVIDIA H20
        architecture: sm_90
        units: 78
        memory_bandwidth_gbs: 4000
        source: the vendor's datasheet, read 2025-01-31

Every figure but ``title``, ``architecture`` and ``source`` may be left out and is
then unknown. ``replaces: true`` lets an entry stand in for one of the same name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from portkit.document import Document, Kind, read_document
from portkit.errors import CatalogError, nearest
from portkit.model import INTERPRETER, Architecture, Target
from portkit.targets.tables import PEAKS, VENDORS, Sku, memory_bytes, without_brand

Peak = Literal["float32", "tf32", "float16", "bfloat16", "fp8"]
Count = Annotated[int, Field(gt=0, le=100_000)]
Figure = Annotated[float, Field(gt=0, le=1_000_000)]  # a hundred times what any GPU has: more is a wrong unit

RESERVED = ("all", INTERPRETER)
"""Names that have another meaning where targets are named."""

_TARGETS = Kind("targets file", CatalogError, "`targets:`")


class Entry(BaseModel):
    """One SKU as a user writes it; fields as in :class:`portkit.model.Target`."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    title: str = Field(min_length=1)
    architecture: str
    source: str = Field(min_length=1)
    units: Count | None = None
    runtime_unit_count: Count | None = None
    memory_bandwidth_gbs: Figure | None = None
    memory_gib: Figure | None = None
    l2_mib: Figure | None = None
    last_level_cache_mib: Figure | None = None
    peak_tflops: dict[Peak, Figure] = Field(default_factory=dict)
    device_name: str | None = None
    notes: str = ""
    replaces: bool = False

    @field_validator("device_name")
    @classmethod
    def _is_pattern(cls, text: str | None) -> str | None:
        try:
            re.compile(text or "")
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from error
        return text


class File(BaseModel):
    """A whole targets file."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    targets: dict[str, Entry] = Field(min_length=1)


def read_targets(path: Path, architectures: Mapping[str, Architecture], known: Mapping[str, Sku]) -> dict[str, Sku]:
    """The SKUs that a file adds.

    Args:
        path: the file.
        architectures: those an entry may name.
        known: SKUs that are there already.

    Raises:
        CatalogError: the file can't be read, is no YAML, has a wrong, missing or
            doubled key, an unknown architecture, or a name that is taken.
    """
    document = read_document(path, _TARGETS)
    try:
        file = File.model_validate(document.data)
    except ValidationError as error:
        raise _mistake(document, error) from error
    for name, entry in file.targets.items():
        _check_name(document, name, architectures)
        _check_architecture(document, name, entry, architectures)
        if name in known and not entry.replaces:
            remedy = "choose another name, or say replaces: true"
            raise _error(document, f"target {name!r} is known already", remedy, "targets", name)
    return {name: _sku(name, entry, architectures) for name, entry in file.targets.items()}


def _error(document: Document, message: str, remedy: str, *keys: str | int) -> CatalogError:
    return CatalogError(message, place=document.place(keys), remedy=remedy)


def _mistake(document: Document, error: ValidationError) -> CatalogError:
    first = error.errors()[0]
    keys = tuple(key for key in first["loc"] if key != "[key]")
    if first["type"] == "extra_forbidden":
        known = Entry.model_fields if len(keys) > 1 else File.model_fields
        return _error(document, f"unknown key {str(keys[-1])!r}", nearest(str(keys[-1]), known), *keys)
    if first["type"] == "missing":
        return _error(document, f"key {str(keys[-1])!r} is missing", f"add {keys[-1]}", *keys)
    remedy = "docs/targets.md has the keys and their types"
    return _error(document, f"{first['msg']}, got {first['input']!r}", remedy, *keys)


def _check_name(document: Document, name: str, architectures: Mapping[str, Architecture]) -> None:
    if not re.fullmatch(r"[a-z0-9]*[a-z][a-z0-9]*", name):
        raise _error(
            document, f"{name!r} is no target name", "use lower-case letters and digits, such as h20", "targets", name
        )
    if name in RESERVED:
        raise _error(document, f"{name!r} is a reserved name", "choose another name", "targets", name)
    if name in {arch.replace("_", "") for arch in architectures}:
        raise _error(document, f"{name!r} is the name of an architecture", "choose another name", "targets", name)


def _check_architecture(document: Document, name: str, entry: Entry, architectures: Mapping[str, Architecture]) -> None:
    if entry.architecture not in architectures:
        remedy = nearest(entry.architecture, architectures)
        raise _error(document, f"unknown architecture {entry.architecture!r}", remedy, "targets", name, "architecture")


def _sku(name: str, entry: Entry, architectures: Mapping[str, Architecture]) -> Sku:
    arch = architectures[entry.architecture]
    target = Target(
        name=name,
        title=entry.title,
        vendor=VENDORS[arch.platform],
        architecture=arch,
        units=entry.units,
        runtime_unit_count=entry.runtime_unit_count or _runtime_units(entry.units, arch),
        memory_bandwidth_gbs=entry.memory_bandwidth_gbs,
        memory_bytes=memory_bytes(entry.memory_gib),
        l2_mib=entry.l2_mib,
        last_level_cache_mib=entry.last_level_cache_mib,
        peak_tflops={kind: entry.peak_tflops.get(kind) for kind in PEAKS},  # type: ignore[call-overload]
        source=entry.source,
        notes=entry.notes,
    )
    return Sku(target, entry.device_name or re.escape(without_brand(entry.title)))


def _runtime_units(units: int | None, arch: Architecture) -> int | None:
    """ROCm counts WGPs of two CUs on RDNA, all others count as the vendor does."""
    return units // 2 if units is not None and arch.unit == "WGP" else units
