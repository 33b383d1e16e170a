"""Occupancy against registers over the depth that a kernel is unrolled to, a panel a target."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from portkit.analysis.rows import Comparison
from portkit.analysis.views.depth import Depth, depths
from portkit.render.plots.plot import Plot, Spec
from portkit.store.merge import Dataset

_X: Final = {
    "field": "registers",
    "type": "quantitative",
    "title": "registers a thread",
    "scale": {"zero": False, "nice": True},
}
_Y: Final = {
    "field": "occupancy_pct",
    "type": "quantitative",
    "title": "occupancy, %",
    "scale": {"domain": [0, 105]},
    "axis": {"values": [0, 25, 50, 75, 100]},
}

SPEC: Final[Spec] = {
    "data": {"name": "steps"},
    "facet": {"field": "target", "type": "nominal", "title": None, "sort": {"field": "place", "op": "min"}},
    "columns": 4,
    "spec": {
        "width": 140,
        "encoding": {"x": _X, "y": _Y},
        "layer": [
            {
                "mark": {"type": "line", "strokeWidth": 1},
                "encoding": {"order": {"field": "depth", "type": "quantitative"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 40, "opacity": 1},
                "encoding": {
                    "tooltip": [
                        {"field": name}
                        for name in ("target", "depth", "registers", "occupancy_pct", "spill_bytes", "evidence")
                    ],
                },
            },
            {
                "mark": {"type": "text", "dy": -9, "fontSize": 10},
                "encoding": {"text": {"field": "depth"}},
            },
        ],
    },
}


def plots(comparison: Comparison, dataset: Dataset) -> Iterator[Plot]:
    """One plot a kernel, axis, other axes, dtype and variant."""
    lines = sorted(depths(comparison, dataset), key=_key)
    for (page, axis, label), group in itertools.groupby(lines, key=_key):
        yield _plot(page, axis, label, list(group))


def _key(line: Depth) -> tuple[str, str, str]:
    return line.page, line.axis, line.label


def _plot(page: str, axis: str, label: str, lines: list[Depth]) -> Plot:
    targets = dict.fromkeys(line.target for line in lines)
    return Plot(
        kind="depth",
        page=page,
        operation=label,
        dtype=lines[0].dtype,
        title=f"Occupancy against registers over {axis}",
        alt=f"Theoretical occupancy over registers a thread as {axis} grows, on {', '.join(targets)}.",
        height=110,
        datasets={
            "steps": [
                {"target": line.target, "place": place, **vars(step)}
                for place, line in enumerate(lines)
                for step in line.steps
            ]
        },
    )
