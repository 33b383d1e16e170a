"""Performance portability of both sides, over sets of targets that both measured with one toolchain."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace

from portkit.analysis.gate.figures import Figures
from portkit.analysis.points import points_of
from portkit.analysis.portability import Portability, Share, portabilities
from portkit.model import Evidence
from portkit.store.merge import Dataset, Row
from portkit.targets.catalog import Catalog

Found = dict[tuple[str, str], tuple[float, tuple[str, ...]]]
"""Kernel and figure → PP, and the toolchain of each target in it."""


def portability_figures(
    baseline: Dataset, current: Dataset, catalog: Catalog
) -> tuple[Mapping[str, Figures], Mapping[str, Figures]]:
    """PP of each kernel over each set of two targets or more, baseline first.

    A set over which a target's toolchain changed is in neither side, nor is one of which either side lacks
    a target: its PP would speak of the change. Of one target PP is a ratio of its own times, which the
    gate judges as such.
    """
    runs = {header.run_id for header in current.headers}
    before, now = _found(_without(baseline.rows, runs), catalog), _found(current.rows, catalog)
    alike = [key for key in now if key in before and before[key][1] == now[key][1]]
    return _figures(before, alike), _figures(now, alike)


def _without(rows: Sequence[Row], runs: Container[str]) -> list[Row]:
    """The rows as they were before those runs."""
    kept = []
    for row in rows:
        records = [each for each in row.records if each.run_id not in runs]
        if records:
            kept.append(replace(row, record=records[0], other_runs=tuple(records[1:])))
    return kept


def _found(rows: Sequence[Row], catalog: Catalog) -> Found:
    toolchains = {
        (cell.case, cell.direction, cell.shape, cell.dtype, cell.variant, cell.target): row.record.keys.env_key
        for row in rows
        if row.record.evidence is Evidence.MEASURED
        for cell in [row.record.cell]
    }
    found: Found = {}
    for each in portabilities(points_of(rows), catalog):
        operation = each.kernel, each.direction, each.shape, each.dtype, each.variant
        for share in _of_several(each):
            toolchain = tuple(toolchains.get((*operation, target), "") for target in share.targets)
            found[_label(each), _name(share)] = share.portability, toolchain
    return found


def _of_several(each: Portability) -> Iterator[Share]:
    return (share for share in each.shares if len(share.targets) > 1)


def _label(each: Portability) -> str:
    shape = "x".join(map(str, each.shape))
    return f"{each.kernel} {shape} {each.dtype} {each.variant} {each.direction}"


def _name(share: Share) -> str:
    return f"pp.{share.over} ({', '.join(share.targets)})"


def _figures(found: Found, keys: Sequence[tuple[str, str]]) -> dict[str, dict[str, float | None]]:
    figures: dict[str, dict[str, float | None]] = {}
    for kernel, name in keys:
        figures.setdefault(kernel, {})[name] = found[kernel, name][0]
    return figures
