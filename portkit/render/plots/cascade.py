"""Cascades: efficiency and performance portability as targets join, the best first."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

from portkit.analysis.rows import Comparison
from portkit.analysis.views.cascade import Cascade, cascades, worst_of_each
from portkit.render.plots.plot import Plot, Spec
from portkit.store.merge import Dataset

_X: Final = {
    "field": "place",
    "type": "ordinal",
    "title": "targets, from the most efficient on",
    "axis": {"labelAngle": 0},
}
_PERCENT: Final = {"type": "quantitative", "scale": {"domain": [0, 1]}, "axis": {"format": ".0%"}}

SPEC: Final[Spec] = {
    "data": {"name": "steps"},
    "encoding": {
        "x": _X,
        "color": {
            "field": "line",
            "type": "nominal",
            "title": None,
            "sort": None,
            "legend": {"orient": "top", "labelLimit": 260},
        },
    },
    "layer": [
        {
            "mark": {"type": "line", "strokeWidth": 1.5},
            "encoding": {"y": {"field": "portability", "title": "portability so far", **_PERCENT}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 0.9},
            "encoding": {
                "y": {"field": "portability", **_PERCENT},
                "tooltip": [
                    {"field": name} for name in ("line", "operation", "place", "target", "efficiency", "portability")
                ],
            },
        },
        {
            "mark": {"type": "tick", "thickness": 2, "width": 18, "opacity": 0.6},
            "encoding": {"y": {"field": "efficiency", **_PERCENT}},
        },
        {
            "transform": [{"filter": "datum.labelled"}],
            "mark": {"type": "text", "dy": 14, "fontSize": 11},
            "encoding": {"y": {"field": "portability", **_PERCENT}, "text": {"field": "target"}},
        },
    ],
}

KERNELS: Final = 12
"""Kernels at most that the plot of all of them shows, those with the lowest portability."""

LABELLED: Final = 1
"""Lines at most whose points have the names of their targets beside them: more would overlap."""


def plots(comparison: Comparison, dataset: Dataset) -> Iterator[Plot]:
    """One of the worst operation of every kernel, then one an operation with all of its variants."""
    del dataset
    found = cascades(comparison)
    if found:
        worst = worst_of_each(found)[:KERNELS]
        shown = _plot(None, None, worst, [each.operation.page for each in worst])
        yield dataclasses.replace(shown, candidates=list(_candidates(found)), most=KERNELS)
    for (page, label), group in itertools.groupby(found, key=_operation):
        variants = list(group)
        yield _plot(page, label, variants, [each.operation.variant or "" for each in variants])


def _operation(each: Cascade) -> tuple[str, str]:
    return each.operation.page, f"{each.operation.shape_text} {each.operation.dtype}"


def _plot(page: str | None, label: str | None, found: Sequence[Cascade], names: Sequence[str]) -> Plot:
    about = (
        f"{page} {label}"
        if page
        else f"{len(found)} kernels, the lowest first, each in the best variant of its worst operation,"
    )
    joined = any(len(each.steps) > 1 for each in found)
    return Plot(
        kind="cascade",
        page=page,
        operation=label,
        dtype=found[0].operation.dtype if page else None,
        title="Performance portability, cascade",
        alt=f"Performance portability of {about} as targets join, the most efficient first; ticks are each target's "
        "efficiency against the best known time there." + ("" if joined else " Only one target was measured so far."),
        height=240 if joined else 140,
        datasets={"steps": list(_steps(found, names))},
    )


def _steps(found: Sequence[Cascade], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    for each, name in zip(found, names, strict=True):
        for step in each.steps:
            yield {"line": name, **_about(each), **vars(step), "labelled": len(found) <= LABELLED}


def _candidates(found: Sequence[Cascade]) -> Iterator[dict[str, Any]]:
    """Efficiencies of every variant; which of them are shown, and their portability, is the filters' matter."""
    for each in found:
        told = {"line": each.operation.page, "problem": _operation(each)[1], **_about(each), "labelled": False}
        for step in each.steps:
            yield {**told, "target": step.target, "efficiency": step.efficiency}


def _about(each: Cascade) -> dict[str, Any]:
    operation = each.operation
    return {"page": operation.page, "dtype": operation.dtype, "operation": operation.label}
