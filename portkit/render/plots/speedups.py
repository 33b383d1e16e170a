"""Speedup bars with intervals against each baseline, by target; a plot a clock, for clocks never mix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from portkit.analysis.rows import Comparison
from portkit.analysis.views.speedups import Speedup, Speedups, speedups
from portkit.render.plots.plot import Plot, Spec
from portkit.store.merge import Dataset

CLOCKS: Final[Mapping[str, str]] = {
    "events": "end to end, device events",
    "trace": "kernels alone, device trace",
}

_PLACE: Final = {
    "y": {"field": "target", "type": "nominal", "title": None, "sort": None},
    "yOffset": {"field": "baseline", "sort": None},
}

_FASTER: Final = "times as fast as the baseline, with 95 % interval"

SPEC: Final[Spec] = {
    "data": {"name": "speedups"},
    "encoding": _PLACE,
    "layer": [
        {
            "data": {"values": [{"x": 1}]},
            "mark": {"type": "rule", "strokeDash": [4, 3]},
            "encoding": {"x": {"field": "x", "type": "quantitative", "title": _FASTER}, "y": None, "yOffset": None},
        },
        {
            "mark": {"type": "bar", "cornerRadiusEnd": 2, "height": {"band": 0.8}},
            "encoding": {
                "x": {
                    "field": "value",
                    "type": "quantitative",
                    "title": _FASTER,
                    "scale": {"zero": True, "nice": True},
                    "axis": {"tickCount": 6},
                },
                "color": {
                    "field": "baseline",
                    "type": "nominal",
                    "title": None,
                    "sort": None,
                    "legend": {"orient": "top"},
                },
                "tooltip": [{"field": name} for name in ("target", "baseline", "value", "low", "high")],
            },
        },
        {
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}},
        },
        {
            "mark": {"type": "text", "align": "left", "dx": 6, "fontSize": 11},
            "encoding": {
                "x": {"field": "end", "type": "quantitative"},
                "text": {"field": "value", "type": "quantitative", "format": ".2f"},
            },
        },
    ],
}


def plots(comparison: Comparison, dataset: Dataset) -> Iterator[Plot]:
    """One plot an operation, variant and clock that was timed."""
    del dataset
    for view in speedups(comparison):
        for clock in CLOCKS:
            if found := [each for each in view.speedups if each.clock == clock]:
                yield _plot(view, clock, found)


def _plot(view: Speedups, clock: str, found: list[Speedup]) -> Plot:
    targets = dict.fromkeys(each.target for each in found)
    baselines = dict.fromkeys(each.baseline for each in found)
    return Plot.of(
        view.operation,
        "speedups",
        detail=clock,
        title=f"Speedup, {CLOCKS[clock]}",
        alt=f"Bars of how many times faster {view.operation.page} is than {', '.join(baselines)} "
        f"on {', '.join(targets)}, with 95 % intervals.",
        height=16 * len(targets) * (len(baselines) + 1),
        datasets={"speedups": [{**vars(each), "end": each.high or each.value} for each in found]},
    )
