"""Numeric distance of every two targets, as squares: those of different vendors first."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping
from typing import Any, Final

from portkit.analysis.rows import Comparison
from portkit.analysis.views.apart import Apart, Pair, apart
from portkit.render.plots.plot import Plot, Spec
from portkit.store.merge import Dataset

_TOLD: Final = ("one", "other", "words", "absolute", "relative", "differing", "samples", "outputs")

SPEC: Final[Spec] = {
    "data": {"name": "pairs"},
    "encoding": {
        "x": {
            "field": "other",
            "type": "nominal",
            "title": None,
            "sort": None,
            "axis": {"labelAngle": 35, "labelAlign": "right", "orient": "top", "labelLimit": 180},
        },
        "y": {"field": "one", "type": "nominal", "title": None, "sort": None, "axis": {"labelLimit": 180}},
    },
    "layer": [
        {
            "mark": {"type": "rect", "cornerRadius": 2, "opacity": 0.95},
            "encoding": {
                "color": {
                    "condition": [
                        {"test": "datum.words === '='", "value": "#cfe6f5"},
                        {"test": "datum.ulp === null", "value": "#f2b8b5"},
                    ],
                    "field": "ulp",
                    "type": "quantitative",
                    "title": None,
                    "legend": None,
                    "scale": {
                        "type": "symlog",
                        "constant": 1,
                        "domainMin": 0,
                        "range": ["#f1f3f5", "#f0a36b"],
                        "interpolate": "rgb",
                    },
                },
                "tooltip": [{"field": name} for name in _TOLD],
            },
        },
        {
            "mark": {"type": "text", "fontSize": 11},
            "encoding": {"text": {"field": "words"}, "color": {"value": "#1f2328"}},
        },
    ],
}

LINE: Final = 24
"""Pixels of a line of squares."""

HEADS: Final = 100
"""Pixels of the names above them."""


def plots(comparison: Comparison, dataset: Dataset) -> Iterator[Plot]:
    """One plot an operation, variant and inputs."""
    views = apart(comparison, dataset)
    several = collections.Counter(view.operation for view in views)
    for view in views:
        yield _plot(view, f"inputs {view.inputs[:8]}" if several[view.operation] > 1 else "")


def _plot(view: Apart, detail: str) -> Plot:
    runs = ", ".join(dict.fromkeys(name for pair in view.pairs for name in (pair.one, pair.other)))
    return Plot.of(
        view.operation,
        "distances",
        title="Distance of outputs on the same inputs, ulp",
        alt=f"Largest distance in units of the last place, over sampled elements, between the outputs of {runs}; "
        "= is equal bit by bit, 0 equal in all samples. Pairs of different vendors come first.",
        height=LINE * len({pair.one for pair in view.pairs}) + HEADS,
        detail=detail,
        datasets={"pairs": [_value(pair) for pair in view.pairs]},
    )


def _value(pair: Pair) -> dict[str, Any]:
    return {**vars(pair), "words": _words(pair), "outputs": _outputs(pair.outputs)}


def _words(pair: Pair) -> str:
    if pair.identical:
        return "="
    return "NaN" if pair.ulp is None else f"{pair.ulp:.3g}" if pair.ulp < 1000 else f"{pair.ulp:.0e}"


def _outputs(outputs: Mapping[str, int | None]) -> str:
    return "; ".join(f"{name}: {'NaN or Inf' if ulp is None else f'{ulp} ulp'}" for name, ulp in outputs.items())
