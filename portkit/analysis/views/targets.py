"""The targets of a comparison in the order of its tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from portkit.analysis.rows import Comparison, ComparisonRow
from portkit.errors import CatalogError
from portkit.model import Evidence, Platform
from portkit.targets.catalog import Catalog, load_catalog
from portkit.targets.markets import market

NO_VENDOR = "no GPU"
"""Vendor of the interpreter."""

_VENDORS = {Platform.CUDA: "NVIDIA", Platform.ROCM: "AMD", None: NO_VENDOR}


@dataclass(frozen=True)
class TargetView:
    """One target."""

    name: str
    title: str  # as the vendor writes it; the name where the catalogue does not know it
    vendor: str
    architecture: str | None
    market: str | None  # data centre, workstation, consumer; None: not known
    evidence: tuple[Evidence, ...]  # of its rows


def targets(comparison: Comparison) -> tuple[TargetView, ...]:
    """All targets with a row: the newest plan's order, those of a vendor together, the interpreter last."""
    rows: dict[str, list[ComparisonRow]] = {}
    for row in comparison.rows:
        rows.setdefault(row.target, []).append(row)
    planned = [name for header in reversed(comparison.runs) for name in header.targets if name in rows]
    catalog = load_catalog()
    found = [_target(name, rows[name], catalog) for name in dict.fromkeys([*planned, *sorted(rows)])]
    vendors = [*dict.fromkeys(each.vendor for each in found if each.vendor != NO_VENDOR), NO_VENDOR]
    return tuple(sorted(found, key=lambda each: vendors.index(each.vendor)))


def _target(name: str, rows: Iterable[ComparisonRow], catalog: Catalog) -> TargetView:
    rows = list(rows)
    evidence = tuple(each for each in Evidence if any(row.evidence is each for row in rows))
    title, kind = name, None
    try:
        target = catalog.get(name)
    except CatalogError:
        pass
    else:
        title, kind = target.title, market(target)
    return TargetView(name, title, _VENDORS[rows[0].platform], rows[0].architecture, kind, evidence)
