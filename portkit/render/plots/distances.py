"""How far outputs of other targets lie from those of a first one, in units in the last place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from portkit.analysis.rows import Comparison
from portkit.analysis.views.apart import Apart, Pair, apart
from portkit.render.plots.plot import Plot, Spec
from portkit.store.merge import Dataset

SPEC: Final[Spec] = {
    "data": {"name": "pairs"},
    "encoding": {
        "x": {
            "field": "ulp",
            "type": "quantitative",
            "title": "largest distance over samples, ulp",
            "scale": {"type": "symlog", "constant": 1, "domainMin": 0},
            "axis": {"tickCount": 6},
        },
        "y": {"field": "other", "type": "nominal", "title": None, "sort": None, "axis": {"labelLimit": 220}},
    },
    "layer": [
        {
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
            "encoding": {
                "color": {"field": "output", "type": "nominal", "title": "output", "legend": {"orient": "top"}},
                "shape": {
                    "field": "kind",
                    "type": "nominal",
                    "title": None,
                    "scale": {
                        "domain": ["equal bit by bit", "differs", "NaN or Inf differ"],
                        "range": ["circle", "diamond", "cross"],
                    },
                    "legend": {"orient": "top"},
                },
                "tooltip": [
                    {"field": name}
                    for name in ("other", "output", "kind", "ulp", "absolute", "relative", "differing", "samples")
                ],
            },
        },
    ],
}


def plots(comparison: Comparison, dataset: Dataset) -> Iterator[Plot]:
    """One plot an operation and first run."""
    del dataset
    yield from map(_plot, apart(comparison))


def _plot(view: Apart) -> Plot:
    others = ", ".join(dict.fromkeys(pair.other for pair in view.pairs))
    return Plot(
        kind="distances",
        page=view.operation.page,
        operation=view.operation.label,
        title=f"Distance of outputs to {view.one}",
        alt=f"Largest distance in ulp over sampled elements between outputs of {view.one} and of {others}.",
        height=20 * len({pair.other for pair in view.pairs}),
        datasets={"pairs": [_value(pair) for pair in view.pairs]},
    )


def _value(pair: Pair) -> dict[str, Any]:
    kind = "equal bit by bit" if pair.identical else "differs" if pair.ulp is not None else "NaN or Inf differ"
    return {**vars(pair), "kind": kind, "ulp": pair.ulp if pair.ulp is not None else 0}
