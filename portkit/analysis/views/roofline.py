"""Points under the roofs of the devices that measured them.

A point is where a variant stands: arithmetic intensity against the rate it reached. Beside it
stands the unfused chain, which moves more bytes for the same arithmetic: its intensity is that of the
fused kernel ÷ the fusion bound, its rate the fused one's ÷ how many times faster that is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from portkit.analysis.roofline import Ceilings, datasheet_ceilings, measured_ceilings
from portkit.analysis.rows import Comparison, ComparisonRow
from portkit.analysis.views.operations import operation_of
from portkit.errors import CatalogError
from portkit.model import DeviceProbe, Target
from portkit.targets.catalog import Catalog, load_catalog


@dataclass(frozen=True)
class Point:
    """One function of one measured row."""

    target: str
    function: str  # fused or eager
    label: str  # shape, dtype and variant
    dtype: str
    intensity: float  # flop per byte
    tflops: float  # reached
    gbs: float  # GB/s reached
    attainment: float | None  # of the bounding ceiling as measured there
    clock: str  # trace or events


@dataclass(frozen=True)
class Roof:
    """Ceilings of one device for one kind of arithmetic, from ``low`` to ``high`` flop per byte."""

    target: str
    arithmetic: str
    origin: str  # measured or datasheet
    memory_gbs: float
    compute_tflops: float
    corners: tuple[tuple[float, float], ...]  # (flop per byte, TFLOP/s)


@dataclass(frozen=True)
class RooflineView:
    """One kernel over all devices that measured it."""

    page: str
    points: tuple[Point, ...]
    roofs: tuple[Roof, ...]


def rooflines(comparison: Comparison) -> tuple[RooflineView, ...]:
    """Every kernel with a point, in the table's order."""
    catalog = load_catalog()
    groups = itertools.groupby(comparison.rows, key=lambda row: operation_of(row).page)
    made = (_view(page, list(rows), comparison.probes, catalog) for page, rows in groups)
    return tuple(view for view in made if view.points)


def _view(page: str, rows: Sequence[ComparisonRow], probes: Sequence[DeviceProbe], catalog: Catalog) -> RooflineView:
    points = tuple(point for row in rows for point in _points(row))
    measured = [row for row in rows if row.roofline and row.roofline.achieved_tflops]
    found = dict.fromkeys(each for row in measured for each in _ceilings(row, probes, catalog))
    ends = _ends(points, [ceilings for *_, ceilings in found])
    roofs = (_roof(target, kind, ceilings, *ends) for target, kind, ceilings in found)
    return RooflineView(page, points, tuple(roof for roof in roofs if roof))


def _points(row: ComparisonRow) -> Iterator[Point]:
    roof = row.roofline
    if roof is None or not roof.intensity or not roof.achieved_tflops or roof.achieved_gbs is None or not roof.clock:
        return
    place = (operation_of(row).label, row.dtype)
    reached = (roof.intensity, roof.achieved_tflops, roof.achieved_gbs)
    yield Point(row.target, "fused", *place, *reached, roof.attainment_measured, roof.clock)
    gain = row.speedup_kernel if roof.clock == "trace" else row.speedup
    if gain and row.fusion_bound:
        more = row.fusion_bound  # bytes that the unfused chain moves for one of the fused kernel
        of_eager = (roof.intensity / more, roof.achieved_tflops / gain, roof.achieved_gbs * more / gain)
        yield Point(row.target, "eager", *place, *of_eager, None, roof.clock)


def _ceilings(
    row: ComparisonRow, probes: Iterable[DeviceProbe], catalog: Catalog
) -> Iterator[tuple[str, str, Ceilings]]:
    """Those measured on the row's device; its datasheet's where they were not."""
    kind = row.roofline.arithmetic if row.roofline else None
    if kind is None:
        return
    probe = next((each for each in probes if (each.run_id, each.device_id) == (row.run_id, row.device_id)), None)
    measured = measured_ceilings(probe, kind)
    yield row.target, kind, measured if measured.ridge else datasheet_ceilings(_target(row.target, catalog), kind)


def _target(name: str, catalog: Catalog) -> Target | None:
    try:
        return catalog.get(name)
    except CatalogError:
        return None


def _ends(points: Sequence[Point], ceilings: Sequence[Ceilings]) -> tuple[float, float]:
    """From a fourth of the least intensity to four times the most, every ridge within."""
    places = [each.intensity for each in points] + [each.ridge for each in ceilings if each.ridge]
    return (min(places) / 4, max(places) * 4) if places else (1.0, 1.0)


def _roof(target: str, kind: str, ceilings: Ceilings, low: float, high: float) -> Roof | None:
    memory, compute, ridge = ceilings.memory_gbs, ceilings.compute_tflops, ceilings.ridge
    if memory is None or compute is None or ridge is None:
        return None
    corners = ((low, low * memory / 1e3), (ridge, compute), (high, compute))
    return Roof(target, kind, ceilings.origin, memory, compute, corners)
