"""A figure over the nights, a panel a target, with a dashed line where something changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from portkit.analysis.rows import Comparison
from portkit.analysis.trend import Line, Point
from portkit.model import Direction, Evidence
from portkit.render.plots.plot import Plot, Spec
from portkit.store.merge import Dataset

_X: Final = {
    "field": "started",
    "type": "temporal",
    "title": None,
    "axis": {"tickCount": 4},
    "scale": {"padding": 10},
}
_Y: Final = {"field": "value", "type": "quantitative", "title": None, "scale": {"zero": False, "nice": True}}
_TOLD: Final = [{"field": name} for name in ("target", "started", "value", "status", "changes", "remarks", "run")]


def _where(test: str, opacity: float) -> dict[str, Any]:
    """Seen where the test holds; a filter would leave a panel without values, of which Vega complains."""
    return {"condition": {"test": test, "value": opacity}, "value": 0}


SPEC: Final[Spec] = {
    "data": {"name": "nights"},
    "facet": {"field": "target", "type": "nominal", "title": None, "sort": {"field": "place", "op": "min"}},
    "columns": 2,
    "resolve": {"scale": {"y": "independent"}},
    "spec": {
        "width": 300,
        "encoding": {"x": _X},
        "layer": [
            {
                "mark": {"type": "rule", "strokeDash": [4, 3]},
                "encoding": {"opacity": _where("datum.changes", 0.6), "tooltip": _TOLD},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.4},
                "encoding": {"y": {**_Y, "field": "low"}, "y2": {"field": "high"}},
            },
            {"mark": {"type": "line", "strokeWidth": 1.5}, "encoding": {"y": _Y, "detail": {"field": "board"}}},
            {
                "mark": {"type": "point", "filled": True, "size": 40, "opacity": 1},
                "encoding": {"y": _Y, "tooltip": _TOLD},
            },
            {
                "mark": {"type": "text", "text": "✕", "fontSize": 13, "dy": -2},
                "encoding": {"y": {"value": 0}, "opacity": _where("!datum.good", 1), "tooltip": _TOLD},
            },
        ],
    },
}


def plots(comparison: Comparison, dataset: Dataset) -> Iterator[Plot]:
    """None: one merge knows no nights. :func:`trend_plots` draws a history."""
    del comparison, dataset
    yield from ()


def trend_plots(found: Iterable[Line]) -> Iterator[Plot]:
    """One plot a kernel, operation, evidence and figure, with a panel for each of its targets.

    Args:
        found: lines of a trend, as :func:`portkit.analysis.trend.lines` sorts them; those with one night or
            without a value are left out.
    """
    drawn = [line for line in found if len(line.points) > 1 and any(point.value is not None for point in line.points)]
    groups: dict[tuple[str, ...], list[Line]] = {}
    for line in drawn:
        operation = (line.kernel, line.direction, line.operation, line.evidence, line.figure.name)
        groups.setdefault(operation, []).append(line)
    yield from (_plot(group) for group in sorted(groups.values(), key=_evidence))


def _evidence(of: list[Line]) -> int:
    """What was measured first."""
    return list(Evidence).index(of[0].evidence)


def _plot(of: list[Line]) -> Plot:
    first = of[0]
    unit = f", {first.figure.unit}" if first.figure.unit else ""
    targets = ", ".join(dict.fromkeys(map(_target, of)))
    return Plot(
        kind="trend",
        page=first.kernel if first.direction is Direction.FORWARD else f"{first.kernel} {first.direction}",
        operation=first.operation,
        dtype=first.dtype,
        title=f"Over the nights: {first.figure.title}{unit}",
        alt=f"{first.kernel} on {targets}, {first.evidence}, a point a night; dashed lines where a version, the source "
        "or the device changed.",
        height=140,
        detail=f"{first.evidence} {first.figure.name}",
        datasets={"nights": [_value(line, point, place) for place, line in enumerate(of) for point in line.points]},
    )


def _target(line: Line) -> str:
    return " ".join(part for part in (line.target, line.partition) if part)


def _value(line: Line, point: Point, place: int) -> dict[str, Any]:
    return {
        "target": _target(line),
        "evidence": line.evidence.value,
        "started": point.started,
        "value": point.value,
        "low": point.value if point.low is None else point.low,
        "high": point.value if point.high is None else point.high,
        "status": point.status.value,
        "good": point.status.good,
        "changes": "; ".join(point.changes),
        "remarks": "; ".join(point.remarks),
        "board": point.node[:8] if line.evidence is Evidence.MEASURED else None,
        "run": point.run_id,
        "place": place,
    }
