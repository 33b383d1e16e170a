"""What differs between targets, in words: rules over merged rows, one file each.

``PK1xx`` resources, ``PK2xx`` lowering, ``PK3xx`` numerics, ``PK4xx`` performance, ``PK5xx``
measurement. A module ``pk…`` holds one rule in ``RULE``; nothing else names it. Rules are pure:
they read merged rows and the catalogue. A finding about a target that was only built says so.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterable, Mapping, Sequence

from portkit.analysis.distance import Distance, distances
from portkit.analysis.findings.rule import Finding, Rule, Severity
from portkit.analysis.points import Context, points_of
from portkit.analysis.spread import Spread, cell_spread
from portkit.errors import ReportError, nearest
from portkit.store.merge import Dataset
from portkit.targets.catalog import Catalog, load_catalog

__all__ = ["Finding", "Rule", "Severity", "findings", "rule", "rules"]


@functools.cache
def rules() -> tuple[Rule, ...]:
    """All rules, by id."""
    modules = (each.name for each in pkgutil.iter_modules(__path__) if each.name.startswith("pk"))
    return tuple(importlib.import_module(f"{__name__}.{name}").RULE for name in sorted(modules))


def rule(name: str) -> Rule:
    """A rule by its id, in upper or lower case.

    Raises:
        ReportError: there is none; the remedy has the nearest ids.
    """
    known: Mapping[str, Rule] = {each.id: each for each in rules()}
    if name.upper() not in known:
        raise ReportError(f"no rule {name!r}", remedy=nearest(name, known))
    return known[name.upper()]


def findings(
    dataset: Dataset,
    *,
    catalog: Catalog | None = None,
    apart: Sequence[Distance] | None = None,
    spreads: Sequence[Spread] | None = None,
    only: Iterable[Rule] | None = None,
) -> tuple[Finding, ...]:
    """What the rules find in merged reports: the gravest first, then by rule and operation.

    Args:
        dataset: merged reports.
        catalog: of targets; the built-in one and the user's unless given.
        apart: distances of outputs, where they are known already.
        spreads: between devices of one SKU, likewise.
        only: rules to ask; all unless given.
    """
    context = Context(
        dataset=dataset,
        points=points_of(dataset.rows),
        catalog=catalog or load_catalog(),
        distances=tuple(distances(dataset) if apart is None else apart),
        spreads=tuple(cell_spread(dataset) if spreads is None else spreads),
    )
    found = [finding for each in only or rules() for finding in each.found(context)]
    return tuple(sorted(found, key=_place))


def _place(finding: Finding) -> tuple[object, ...]:
    return (
        finding.severity.rank,
        finding.rule,
        finding.kernel,
        finding.direction.value,
        finding.shape,
        finding.dtype,
        finding.variant or "",
        finding.targets,
    )
