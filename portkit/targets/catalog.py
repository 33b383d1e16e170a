"""The catalogue of targets: GPU SKUs, and architectures that stand for an unknown SKU.

The catalogue's own data is in ``data/``; users add SKUs in files of their own, see
:mod:`portkit.targets.userfile`. Needs no torch and no Triton.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from portkit.errors import CatalogError, nearest
from portkit.model import Architecture, Platform, Target
from portkit.targets import tables
from portkit.targets.tables import PEAKS, VENDORS, Sku, without_brand

_ARCHITECTURE = re.compile(r"(?:sm_?)?(?P<cuda>\d{2,3})[af]?|(?P<rocm>gfx[0-9a-f]{3,5})")
_MEMORY_SHARE = (0.85, 1.02)  # of the nominal size: drivers and ECC keep a part, some names count in 10^9


class Catalog:
    """Targets by name.

    Iteration gives the SKUs in the order of the tables, users' own last. A bare
    architecture is found by :meth:`get` too, but is not among them.
    """

    def __init__(self, skus: Mapping[str, Sku], architectures: Mapping[str, Architecture]) -> None:
        self._skus = dict(skus)
        self._architectures = dict(architectures)

    def __iter__(self) -> Iterator[Target]:
        return (sku.target for sku in self._skus.values())

    def __len__(self) -> int:
        return len(self._skus)

    def __contains__(self, name: object) -> bool:
        return name in self._skus or (isinstance(name, str) and self._find_architecture(name) is not None)

    @property
    def architectures(self) -> tuple[Architecture, ...]:
        """All architectures whose limits are sourced."""
        return tuple(self._architectures.values())

    def get(self, name: str) -> Target:
        """A target by name: ``h200``, or a bare architecture such as ``gfx1032`` or ``sm_86``.

        Raises:
            CatalogError: no such target; the remedy has the nearest names. Or an
                architecture whose limits no source gave.
        """
        if name in self._skus:
            return self._skus[name].target
        if _ARCHITECTURE.fullmatch(name):
            return bare(self.architecture(name))
        raise CatalogError(f"unknown target {name!r}", remedy=nearest(name, self._names()))

    def architecture(self, name: str) -> Architecture:
        """Limits of an architecture: ``sm_90``, ``sm90``, ``90``, ``gfx942:sramecc+:xnack-``.

        Raises:
            CatalogError: its limits are not in the catalogue.
        """
        found = self._find_architecture(name)
        if found is None:
            raise CatalogError(
                f"architecture {name!r} has no sourced limits in the catalogue",
                remedy=nearest(name, self._architectures),
            )
        return found

    def match_device(self, *, name: str, architecture: str, units: int | None, memory_bytes: int | None) -> Target:
        """The target that a device seen on a host is.

        Args:
            name: as the runtime gives it, ``NVIDIA A100-SXM4-80GB``.
            architecture: ``sm_80``, ``gfx942:sramecc+:xnack-``.
            units: the runtime's ``multi_processor_count``.
            memory_bytes: total memory as the runtime gives it.

        Returns:
            The SKU whose name, architecture, units and memory agree. A device that
            is none of the catalogue's, or a part of one (MIG, CPX), is a target of
            its own: what the runtime says of it, the limits of its architecture. Where
            the catalogue has no limits of that, the architecture is not ``sourced``.

        Raises:
            CatalogError: that is no name of an architecture.
        """
        arch = self._find_architecture(architecture) or unsourced(architecture)
        users_first = [sku for sku in reversed(self._skus.values()) if sku.target.architecture == arch]
        known = (sku.target for sku in users_first if _same_name(sku, name))
        match = next((target for target in known if _same_size(target, units, memory_bytes)), None)
        if match is None and _NAMELESS.fullmatch(without_brand(name)):
            match = _only_one(sku.target for sku in users_first if _is_size(sku.target, units, memory_bytes))
        return match or self._own_target(name, arch, units, memory_bytes)

    def _own_target(self, name: str, arch: Architecture, units: int | None, memory_bytes: int | None) -> Target:
        told = without_brand(name)
        slug = _slug(arch.name if _NAMELESS.fullmatch(told) else told) or _slug(arch.name)
        if slug in self:
            slug += f"{units}units" if units else "unknown"
        return Target(
            name=slug,
            title=name,
            vendor=VENDORS[arch.platform],
            architecture=arch,
            units=None if arch.unit == "WGP" else units,  # the vendor counts CUs there
            runtime_unit_count=units,
            memory_bandwidth_gbs=None,
            memory_bytes=memory_bytes,
            l2_mib=None,
            last_level_cache_mib=None,
            peak_tflops=dict.fromkeys(PEAKS),
            source=f"as the device's runtime says; {'' if arch.sourced else 'no '}limits of its architecture",
            notes="not an SKU of the catalogue",
        )

    def _find_architecture(self, name: str) -> Architecture | None:
        match = _ARCHITECTURE.fullmatch(name.partition(":")[0])
        if match is None:
            return None
        return self._architectures.get(match["rocm"] or f"sm_{match['cuda']}")

    def _names(self) -> list[str]:
        return [*self._skus, *(_slug(name) for name in self._architectures)]


def load_catalog(extra: Sequence[Path] = ()) -> Catalog:
    """The catalogue with the users' own target files, in order.

    Args:
        extra: YAML files, see :mod:`portkit.targets.userfile`.

    Raises:
        CatalogError: a file is missing or wrong: file, line, key and remedy.
    """
    known = dict(tables.skus())
    for path in extra:
        from portkit.targets.userfile import read_targets  # noqa: PLC0415 (pydantic and YAML only where needed)

        known |= read_targets(path, tables.architectures(), known)
    return Catalog(known, tables.architectures())


def bare(arch: Architecture) -> Target:
    """An architecture as a target, the figures of its SKU unknown."""
    return Target(
        name=_slug(arch.name),
        title=f"{arch.name} ({arch.family}), SKU unknown",
        vendor=VENDORS[arch.platform],
        architecture=arch,
        units=None,
        runtime_unit_count=None,
        memory_bandwidth_gbs=None,
        memory_bytes=None,
        l2_mib=None,
        last_level_cache_mib=None,
        peak_tflops=dict.fromkeys(PEAKS),
        source=arch.source,
        notes="a bare architecture",
    )


def unsourced(name: str) -> Architecture:
    """An architecture of which only the name is known: it can be measured on, and nothing else.

    Raises:
        CatalogError: that is no name of an architecture.
    """
    match = _ARCHITECTURE.fullmatch(name.partition(":")[0])
    if match is None:
        raise CatalogError(f"{name!r} is no architecture", remedy="one is written as sm_90 or gfx942")
    platform = Platform.ROCM if match["rocm"] else Platform.CUDA
    unknown: dict[str, Any] = {each.name: 0 for each in fields(Architecture) if each.type == "int"}
    unknown |= dict.fromkeys(("family", "unit", "check", "source"), "unknown")
    return Architecture(
        name=match["rocm"] or f"sm_{match['cuda']}",
        platform=platform,
        barriers_per_block_slot=None,
        tensor_memory_columns=None,
        carveout_kib=(),
        sourced=False,
        **unknown,
    )


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _same_name(sku: Sku, name: str) -> bool:
    return re.fullmatch(sku.device_name, without_brand(name), re.IGNORECASE) is not None


_NAMELESS = re.compile(r"(graphics)?", re.IGNORECASE)
"""What ROCm calls a device whose name its tables lack: nothing, or ``AMD Radeon Graphics``."""


def _only_one(targets: Iterable[Target]) -> Target | None:
    """The target, if it is one alone."""
    found = list(targets)
    return found[0] if len(found) == 1 else None


def _is_size(target: Target, units: int | None, memory_bytes: int | None) -> bool:
    """Whether units and memory are known on both sides, and agree."""
    known = None not in (units, memory_bytes, target.runtime_unit_count, target.memory_bytes)
    return known and _same_size(target, units, memory_bytes)


def _same_size(target: Target, units: int | None, memory_bytes: int | None) -> bool:
    if units is not None and target.runtime_unit_count not in (None, units):
        return False
    if memory_bytes is None or target.memory_bytes is None:
        return True
    low, high = _MEMORY_SHARE
    return low <= memory_bytes / target.memory_bytes <= high
