"""Reads the catalogue's own tables: ``data/arch_limits.csv`` and ``data/skus.csv``.

One row is one value of the model, one column one of its fields, an empty cell is
unknown. A field that a row lists under ``unsourced`` was recalled and not read
anywhere: its number stays in the file for whoever finds the source, and is never
handed out.
"""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, get_type_hints

from portkit.model import Architecture, Platform, Target

PEAKS = ("float32", "tf32", "float16", "bfloat16", "fp8")
"""Kinds of arithmetic that have a peak, in the order of the tables."""

GIB = 2**30

_BRANDS = re.compile(r"^(?:(?:nvidia|amd|tesla|geforce|instinct|radeon)\s+)+", re.IGNORECASE)

VENDORS: Mapping[Platform, str] = {Platform.CUDA: "nvidia", Platform.ROCM: "amd"}

_READERS: Mapping[Any, Callable[[str], Any]] = {
    str: str,
    int: int,
    int | None: lambda text: int(text) if text else None,
    Platform: Platform,
    tuple[int, ...]: lambda text: tuple(int(word) for word in text.split()),
    tuple[str, ...]: lambda text: tuple(text.split(" | ")) if text else (),
}


@dataclass(frozen=True)
class Sku:
    """A target with the pattern that a device's own name matches."""

    target: Target
    device_name: str  # regular expression of the whole name, vendor and brand left out


@functools.cache
def architectures() -> Mapping[str, Architecture]:
    """Architectures by their own name, such as ``sm_90``, in the order of the table."""
    types = get_type_hints(Architecture)
    rows = ({key: _READERS[types[key]](text) for key, text in row.items()} for row in _rows("arch_limits.csv"))
    return {row["name"]: Architecture(**row) for row in rows}


@functools.cache
def skus() -> Mapping[str, Sku]:
    """The catalogue's own SKUs by name, in the order of the table."""
    return {row["name"]: _sku(row) for row in _rows("skus.csv")}


def memory_bytes(nominal_gib: float | None) -> int | None:
    """Bytes of a nominal size; a device reports some per cent less."""
    return None if nominal_gib is None else int(nominal_gib * GIB)


def without_brand(device_name: str) -> str:
    """A device's name without vendor and brand, which runtimes write in various ways."""
    return _BRANDS.sub("", device_name.strip())


def _rows(name: str) -> Iterator[dict[str, str]]:
    text = (resources.files("portkit.targets") / "data" / name).read_text(encoding="utf-8")
    yield from csv.DictReader(text.splitlines())


def _sku(row: Mapping[str, str]) -> Sku:
    unsourced = tuple(row["unsourced"].split())
    fact = {key: "" if key in unsourced else text for key, text in row.items()}
    target = Target(
        name=row["name"],
        title=row["title"],
        vendor=row["vendor"],
        architecture=architectures()[row["architecture"]],
        units=_whole(fact["units"]),
        runtime_unit_count=_whole(fact["runtime_unit_count"]),
        memory_bandwidth_gbs=_number(fact["memory_bandwidth_gbs"]),
        memory_bytes=memory_bytes(_number(fact["memory_gib"])),
        l2_mib=_number(fact["l2_mib"]),
        last_level_cache_mib=_number(fact["last_level_cache_mib"]),
        peak_tflops={kind: _number(fact[f"peak_tflops.{kind}"]) for kind in PEAKS},
        source=row["source"],
        unsourced=unsourced,
        notes=row["notes"],
    )
    return Sku(target, row["device_name"])


def _whole(text: str) -> int | None:
    return int(text) if text else None


def _number(text: str) -> float | None:
    return float(text) if text else None
