"""Speedup over the depth of a fused chain, a line a target; dashed, what the bytes allow."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

from portkit.analysis.rows import Comparison
from portkit.analysis.sweep.depth import Chain, Step, chains
from portkit.model import Direction
from portkit.render.plots.plot import Plot, Spec
from portkit.store.merge import Dataset

_X: Final = {
    "field": "depth",
    "type": "quantitative",
    "title": "operations fused",
    "scale": {"type": "log", "base": 2, "nice": False},
    "axis": {"grid": False},
}
_Y: Final = {
    "field": "value",
    "type": "quantitative",
    "title": "times as fast as eager, with 95 % interval",
    "scale": {"type": "log", "base": 2},
}
_COLOUR: Final = {"field": "target", "type": "nominal", "title": None, "sort": None, "legend": {"orient": "top"}}

SPEC: Final[Spec] = {
    "data": {"name": "steps"},
    "encoding": {"x": _X},
    "layer": [
        {
            "mark": {"type": "line", "strokeDash": [4, 3], "strokeWidth": 1},
            "encoding": {"y": {**_Y, "field": "bound"}, "detail": {"field": "target"}},
        },
        {"mark": {"type": "line", "strokeWidth": 1.5}, "encoding": {"y": _Y, "color": _COLOUR}},
        {
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}, "color": _COLOUR},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 40, "opacity": 1},
            "encoding": {
                "y": _Y,
                "color": _COLOUR,
                "tooltip": [{"field": name} for name in ("target", "depth", "value", "registers", "occupancy_pct")],
            },
        },
        {
            "mark": {"type": "text", "dy": 14, "fontSize": 10},
            "encoding": {"y": _Y, "text": {"field": "note"}},
        },
    ],
}


def plots(comparison: Comparison, dataset: Dataset) -> Iterator[Plot]:
    """One plot a chain and variant with a measured speedup at two depths or more."""
    for (kernel, direction, label), group in itertools.groupby(sorted(chains(comparison, dataset), key=_key), key=_key):
        lines = [each for each in group if len(_timed(each)) > 1]
        if lines:
            yield _plot(kernel, direction, label, lines)


def _key(chain: Chain) -> tuple[str, Direction, str]:
    return chain.kernel, chain.direction, chain.label


def _timed(chain: Chain) -> list[Step]:
    return [step for step in chain.steps if step.speedup is not None]


def _plot(kernel: str, direction: Direction, label: str, lines: list[Chain]) -> Plot:
    targets = dict.fromkeys(line.target for line in lines)
    return Plot(
        kind="chains",
        page=kernel if direction is Direction.FORWARD else f"{kernel} {direction}",
        operation=label,
        title="Speedup over the depth of the chain; registers below",
        alt=f"How many times faster {kernel} is than its operations one by one as more of them are fused, "
        f"on {', '.join(targets)}, and how many registers a thread takes.",
        height=240,
        datasets={"steps": [_value(line, step) for line in lines for step in _timed(line)]},
    )


def _value(line: Chain, step: Step) -> dict[str, Any]:
    assert step.speedup is not None
    return {
        "target": line.target,
        "depth": step.depth,
        "value": step.speedup.value,
        "low": step.speedup.low,
        "high": step.speedup.high,
        "bound": step.fusion_bound,
        "registers": step.registers_per_thread,
        "occupancy_pct": step.occupancy_pct,
        "note": "" if step.registers_per_thread is None else f"{step.registers_per_thread:g}",
    }
