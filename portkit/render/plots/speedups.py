"""Speedup bars with intervals against each baseline, a row a target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from portkit.analysis.rows import Comparison
from portkit.analysis.views.speedups import Speedups, speedups
from portkit.render.plots.plot import Plot, Spec
from portkit.store.merge import Dataset

_Y: Final = {"field": "baseline", "type": "nominal", "title": None}

SPEC: Final[Spec] = {
    "data": {"name": "speedups"},
    "facet": {"row": {"field": "target", "type": "nominal", "title": None, "sort": None}},
    "spec": {
        "height": {"step": 16},
        "layer": [
            {
                "mark": {"type": "bar"},
                "encoding": {
                    "x": {"field": "value", "type": "quantitative", "title": "times as fast as the baseline"},
                    "y": _Y,
                    "yOffset": {"field": "clock"},
                    "color": {"field": "clock", "type": "nominal", "title": "clock"},
                },
            },
            {
                "mark": {"type": "rule", "strokeWidth": 1.5},
                "encoding": {
                    "x": {"field": "low", "type": "quantitative"},
                    "x2": {"field": "high"},
                    "y": _Y,
                    "yOffset": {"field": "clock"},
                },
            },
        ],
    },
}


def plots(comparison: Comparison, dataset: Dataset) -> Iterator[Plot]:
    """One plot an operation and variant that was timed."""
    del dataset
    yield from map(_plot, speedups(comparison))


def _plot(view: Speedups) -> Plot:
    names = list(dict.fromkeys(each.target for each in view.speedups))
    baselines = list(dict.fromkeys(each.baseline for each in view.speedups))
    return Plot(
        kind="speedups",
        page=view.operation.page,
        operation=view.operation.label,
        title=f"Speedup of {view.operation.page} {view.operation.label}",
        alt=f"Bars of the speedup over {', '.join(baselines)} on {', '.join(names)}, with 95 % intervals.",
        datasets={"speedups": [vars(each) for each in view.speedups]},
    )
