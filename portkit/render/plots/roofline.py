"""Rooflines: fused kernel and unfused chain under the roofs of the devices that measured them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from portkit.analysis.rows import Comparison
from portkit.analysis.views.roofline import RooflineView, rooflines
from portkit.render.plots.plot import Plot, Spec
from portkit.store.merge import Dataset

_X: Final = {
    "field": "intensity",
    "type": "quantitative",
    "title": "arithmetic intensity, flop per byte",
    "scale": {"type": "log", "nice": False},
    "axis": {"tickCount": 5, "grid": False},
}
_Y: Final = {
    "field": "tflops",
    "type": "quantitative",
    "title": "TFLOP/s",
    "scale": {"type": "log", "nice": True},
    "axis": {"tickCount": 4, "grid": False},
}
_TARGET: Final = {"field": "target", "type": "nominal", "title": None, "sort": None}

SPEC: Final[Spec] = {
    "layer": [
        {
            "data": {"name": "roofs"},
            "mark": {"type": "line", "strokeWidth": 1.5},
            "encoding": {
                "x": _X,
                "y": _Y,
                "color": _TARGET,
                "detail": {"field": "arithmetic"},
                "order": {"field": "intensity", "type": "quantitative"},
                "strokeDash": {
                    "field": "origin",
                    "type": "nominal",
                    "title": None,
                    "legend": {"orient": "top"},
                    "scale": {"domain": ["measured", "datasheet"], "range": [[1, 0], [5, 4]]},
                },
            },
        },
        {
            "data": {"name": "ends"},
            "mark": {"type": "text", "align": "center", "dy": -7, "fontSize": 11},
            "encoding": {"x": _X, "y": _Y, "text": {"field": "target"}, "color": _TARGET},
        },
        {
            "data": {"name": "points"},
            "mark": {"type": "point", "filled": True, "size": 80, "opacity": 0.9},
            "encoding": {
                "x": _X,
                "y": _Y,
                "color": {**_TARGET, "legend": {"orient": "top"}},
                "shape": {
                    "field": "function",
                    "type": "nominal",
                    "title": None,
                    "scale": {"domain": ["fused", "eager"], "range": ["circle", "diamond"]},
                    "legend": {"orient": "top"},
                },
                "tooltip": [
                    {"field": name} for name in ("target", "function", "label", "intensity", "tflops", "gbs", "clock")
                ],
            },
        },
    ],
    "resolve": {"legend": {"color": "shared"}},
}


def plots(comparison: Comparison, dataset: Dataset) -> Iterator[Plot]:
    """One plot a kernel and direction that was measured."""
    del dataset
    yield from map(_plot, rooflines(comparison))


def _plot(view: RooflineView) -> Plot:
    targets = dict.fromkeys(point.target for point in view.points)
    return Plot(
        kind="roofline",
        page=view.page,
        operation=None,
        title="Roofline",
        alt=f"Rate reached over arithmetic intensity on {', '.join(targets)}, fused and eager, under the roofs of "
        "each device's memory and arithmetic.",
        height=300,
        datasets={
            "points": [vars(point) for point in view.points],
            "roofs": list(_roofs(view)),
            "ends": list(_ends(view)),
        },
    )


def _roofs(view: RooflineView) -> Iterator[dict[str, Any]]:
    for roof in view.roofs:
        for intensity, tflops in roof.corners:
            yield {
                "target": roof.target,
                "arithmetic": roof.arithmetic,
                "origin": roof.origin,
                "intensity": intensity,
                "tflops": tflops,
                "memory_gbs": roof.memory_gbs,
                "compute_tflops": roof.compute_tflops,
            }


def _ends(view: RooflineView) -> Iterator[dict[str, Any]]:
    """Where the names of targets stand: spread along the flat parts, so that those of one height do not overlap."""
    names = {roof.target: roof for roof in view.roofs}
    for place, (target, roof) in enumerate(names.items()):
        (ridge, tflops), (end, _) = roof.corners[1:]
        share = (place + 0.5) / len(names)
        yield {"target": target, "intensity": ridge * (end / ridge) ** share, "tflops": tflops}
