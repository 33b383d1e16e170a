"""Kernels × targets by one figure, for papers; the HTML report draws the same as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from portkit.analysis.rows import Comparison
from portkit.analysis.views.heat import METRICS, STATUS, HeatCell, Metric, heat
from portkit.analysis.views.standing import Standing
from portkit.analysis.views.targets import targets
from portkit.render.plots.plot import Plot, Spec
from portkit.store.merge import Dataset

_STANDINGS: Final = {
    Standing.BAD: "#f4b183",
    Standing.NO_VERDICT: "#d9d2e9",
    Standing.EXPECTED: "#fff2cc",
    Standing.EXCLUDED: "#ededed",
    Standing.GOOD: "#cfe6f5",
}

SPEC: Final[Spec] = {
    "data": {"name": "cells"},
    "width": {"step": 76},
    "encoding": {
        "x": {
            "field": "target",
            "type": "nominal",
            "title": None,
            "sort": None,
            "axis": {"orient": "top", "labelAngle": 0},
        },
        "y": {"field": "page", "type": "nominal", "title": None, "sort": None, "axis": {"labelLimit": 240}},
    },
    "layer": [
        {
            "mark": {"type": "rect", "stroke": "white"},
            "encoding": {"color": {"field": "colour", "type": "nominal", "scale": None}},
        },
        {
            "mark": {"type": "text", "fontSize": 10},
            "encoding": {"text": {"field": "words"}, "color": {"value": "#1f2328"}},
        },
    ],
}


def plots(comparison: Comparison, dataset: Dataset) -> Iterator[Plot]:
    """One map a figure that any row has."""
    del dataset
    order = [target.name for target in targets(comparison)]
    for metric in METRICS:
        cells = heat(comparison.rows, metric)
        if any(cell.rows for cell in cells):
            yield _plot(metric, sorted(cells, key=lambda cell: order.index(cell.target)))


def _plot(metric: Metric, cells: Sequence[HeatCell]) -> Plot:
    unit = f", {metric.unit}" if metric.unit else ""
    return Plot(
        kind="heat",
        page=None,
        operation=metric.title,
        title=f"Kernels by target{unit}",
        alt=f"Kernels by targets: {metric.means}. Marks: ● measured, ◐ emulated, ○ compiled, ◇ interpreted.",
        height=22 * len({cell.page for cell in cells}),
        datasets={"cells": list(_values(metric, cells))},
    )


def _values(metric: Metric, cells: Sequence[HeatCell]) -> Iterator[dict[str, Any]]:
    known = [cell.value for cell in cells if cell.value is not None]
    ends = (min(known), max(known)) if known else (0.0, 1.0)
    for cell in cells:
        yield {
            "page": cell.page,
            "target": cell.target,
            "words": f"{MARKS[cell.evidence]} {_words(metric, cell)}",
            "colour": _STANDINGS[cell.standing] if metric.name == STATUS else _colour(cell.value, *ends, metric),
        }


MARKS: Final = {"measured": "●", "emulated": "◐", "compiled": "○", "interpreted": "◇"}
"""How evidence is marked beside a figure."""


def _words(metric: Metric, cell: HeatCell) -> str:
    if metric.name == STATUS:
        return cell.text
    return "–" if cell.value is None else f"{cell.value:.3g}"


def _colour(value: float | None, low: float, high: float, metric: Metric) -> str:
    """From pale to blue as a figure gets better; grey where it is unknown."""
    if value is None:
        return "#f3f4f6"
    share = 0.5 if high == low else (value - low) / (high - low)
    better = 1 - share if metric.highest else share
    pale, strong = (0xF7, 0xFB, 0xFF), (0x9E, 0xCA, 0xE9)
    return "#" + "".join(f"{round(a + (b - a) * better):02x}" for a, b in zip(pale, strong, strict=True))
