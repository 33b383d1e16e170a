"""What fusion saves by bytes and by launches over the size of the tensors, and where the two meet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from portkit.analysis.rows import Comparison
from portkit.analysis.sweep.size import Side, Sizes, sizes
from portkit.model import Direction
from portkit.render.plots.plot import Plot, Spec
from portkit.store.merge import Dataset

_X: Final = {
    "field": "megabytes",
    "type": "quantitative",
    "title": "MB that one fused call moves",
    "scale": {"type": "log"},
}
_Y: Final = {"field": "ms", "type": "quantitative", "title": "ms saved a call", "scale": {"type": "log"}}
_GAIN: Final = {"field": "gain", "type": "nominal", "title": None, "sort": None, "legend": {"orient": "top"}}

SPEC: Final[Spec] = {
    "encoding": {"x": _X},
    "layer": [
        {
            "data": {"name": "gains"},
            "mark": {"type": "line", "strokeWidth": 1.5},
            "encoding": {"y": _Y, "color": _GAIN},
        },
        {
            "data": {"name": "gains"},
            "mark": {"type": "point", "filled": True, "size": 40, "opacity": 1},
            "encoding": {"y": _Y, "color": _GAIN, "tooltip": [{"field": name} for name in ("gain", "shape", "ms")]},
        },
        {
            "data": {"name": "crossovers"},
            "mark": {"type": "rule", "strokeDash": [4, 3]},
            "encoding": {"tooltip": [{"field": "how"}]},
        },
    ],
}


def plots(comparison: Comparison, dataset: Dataset) -> Iterator[Plot]:
    """One plot an operation, variant and target that was measured at two sizes or more."""
    for line in sizes(comparison, dataset):
        if len(line.steps) > 1 and line.launches_saved > 0 and line.crossover is not None:
            yield _plot(line)


def _plot(line: Sizes) -> Plot:
    return Plot(
        kind="sizes",
        page=line.kernel if line.direction is Direction.FORWARD else f"{line.kernel} {line.direction}",
        operation=" ".join([line.dtype, line.variant]),
        title=f"What fusion saves by size, {line.target}",
        alt=f"Milliseconds that fusing {line.kernel} saves on {line.target} by bytes, by launches, and as measured, "
        "over the bytes that a fused call moves; a dashed line where bytes and launches save the same.",
        height=220,
        detail=" ".join(part for part in (line.target, line.partition, f"{line.launches_saved} launches") if part),
        datasets={"gains": list(_gains(line)), "crossovers": _crossovers(line)},
    )


def _gains(line: Sizes) -> Iterator[dict[str, Any]]:
    for step in line.steps:
        gains = {"by bytes": step.bytes_ms, "by launches": line.launch_ms, "measured, events": step.saved_ms.value}
        for gain, ms in gains.items():
            if ms > 0:  # a logarithm has no other
                shape = "x".join(map(str, step.shape))
                yield {"gain": gain, "megabytes": step.fused_bytes / 1e6, "ms": ms, "shape": shape}


def _crossovers(line: Sizes) -> list[dict[str, Any]]:
    found = line.crossover
    if found is None or found.side is not Side.AMONG:
        return []
    return [{"megabytes": found.fused_bytes / 1e6, "how": "bytes and launches save the same"}]
