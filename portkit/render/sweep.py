"""Sweeps over depth and size, as text or JSON; computes nothing."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tabulate import tabulate

from portkit.analysis.sweep.depth import Chain
from portkit.analysis.sweep.depth import Step as Depth
from portkit.analysis.sweep.size import Crossover, MeasuredCrossover, Side, Sizes
from portkit.model import Direction, Evidence, Ratio
from portkit.render.savings import interval

UNKNOWN: Final = "–"

MARKS: Final = {Evidence.MEASURED: "M", Evidence.COMPILED: "C"}


def text(chains: Sequence[Chain], sizes: Sequence[Sizes]) -> str:
    """Both tables and what they mean, or why one is not there."""
    parts = [_depths(chains), _sizes([each for each in sizes if len(each.steps) > 1])]
    return "\n\n".join([*parts, "\n".join(_more(chains, sizes))])


def as_json(chains: Sequence[Chain], sizes: Sequence[Sizes]) -> str:
    """All figures; times in ms, or µs where the name says so."""
    data: dict[str, Any] = {
        "chains": [dataclasses.asdict(each) for each in chains],
        "sizes": [dataclasses.asdict(each) for each in sizes],
    }
    return json.dumps(data, indent=2)


def _depths(chains: Sequence[Chain]) -> str:
    if not chains:
        return "Depth: no chain has two depths here."
    head = ["target", "depth", "speedup", "bound", "registers", "spill B", "occupancy %", "by"]
    rows = [
        [_chain(each) if first else "", each.target if first else "", *_depth(step)]
        for each in chains
        for first, step in zip([True, *[False] * len(each.steps)], each.steps, strict=False)
    ]
    table = tabulate(rows, headers=["chain", *head], tablefmt="plain", disable_numparse=True)
    return "\n".join(
        [
            "Depth: speedup over the operations one by one, on events. Registers, spills and occupancy are of the",
            "measured build (M) or of a compiled one (C).",
            table,
        ]
    )


def _chain(chain: Chain) -> str:
    backward = "" if chain.direction is Direction.FORWARD else f" {chain.direction}"
    return f"{chain.kernel}{backward} {chain.label}"


def _depth(step: Depth) -> Sequence[str]:
    figures = (step.registers_per_thread, step.spill_bytes_per_thread, step.occupancy_pct)
    speedup = step.why_none if step.speedup is None else _ratio(step.speedup)
    return [str(step.depth), speedup, _number(step.fusion_bound), *map(_number, figures), MARKS[step.evidence]]


def _sizes(sizes: Sequence[Sizes]) -> str:
    if not sizes:
        return "Size: no operation was measured at two sizes or more."
    head = ["operation", "target", "shape", "MB", "speedup", "by bytes ms", "by launches ms", "measured ms", "wins by"]
    rows = [
        [*([f"{each.kernel} {each.label}", each.target] if first else ["", ""]), *_size(each, position)]
        for each in sizes
        for position, first in enumerate([True, *[False] * (len(each.steps) - 1)])
    ]
    table = tabulate(rows, headers=head, tablefmt="plain", disable_numparse=True)
    met = "\n".join(_meeting(each) for each in sizes)
    told = "Size: what fusion saves of one call by bytes, by the host's launches, and as measured on events."
    return f"{told}\n{table}\n\n{met}"


def _size(each: Sizes, position: int) -> Sequence[str]:
    step = each.steps[position]
    shape, megabytes = "x".join(map(str, step.shape)), f"{step.fused_bytes / 1e6:.1f}"
    gains = [f"{step.bytes_ms:.4f}", f"{each.launch_ms:.4f}", interval(step.saved_ms)]
    return [shape, megabytes, _ratio(step.speedup), *gains, step.wins_by]


def _meeting(each: Sizes) -> str:
    launches = f"launches saved {each.launches_saved} of {each.launch_us:.3g} µs"
    head = f"{each.kernel} {each.label} on {each.target}, {launches}, {each.copy_gbs:.0f} GB/s:"
    if each.launches_saved <= 0:
        return f"{head}\n  no launches are saved: what is gained is gained by bytes."
    graph = (
        f"; from a graph ({each.graph_launch_us:.2g} µs) from {_from(each.graph_crossover)}"
        if each.graph_launch_us is not None
        else ""
    )
    return f"{head}\n  bytes win from {_from(each.crossover)}{graph}{_on_events(each.measured_crossover)}."


def _from(found: Crossover | None) -> str:
    return "no size: it saves no bytes" if found is None else _size_of(found)


def _size_of(found: Crossover) -> str:
    megabytes = f"{found.fused_bytes / 1e6:.1f} MB"
    return megabytes if found.side is Side.AMONG else f"{found.side} {megabytes}"


def _on_events(found: MeasuredCrossover | None) -> str:
    if found is None:
        return ""
    return f"; by the measured gain from {_size_of(found.value)} [{_size_of(found.low)}, {_size_of(found.high)}]"


def _more(chains: Sequence[Chain], sizes: Sequence[Sizes]) -> Iterator[str]:
    for each in chains:
        if each.missing:
            depths = ", ".join(map(str, each.missing))
            yield f"Not measured: {_chain(each)} at {depths} on {each.target}."
    kernels = dict.fromkeys(each.kernel for each in chains)
    if single := [each for each in sizes if len(each.steps) == 1 and each.kernel not in kernels]:
        names = ", ".join(dict.fromkeys(each.kernel for each in single))
        yield f"Measured at one size alone in some variant: {names}."
    wanted = dict.fromkeys([*kernels, *(each.kernel for each in sizes)])
    places = dict.fromkeys([*(each.target for each in chains), *(each.target for each in sizes)])
    targets = ",".join(places) or "TARGET"
    yield "More depths and sizes, on a host with that GPU:"
    chosen = " or ".join(wanted) or "pointwise"
    yield f"  pytest --benchmark suite.yaml --portkit-tier full --portkit-target {targets} -k '{chosen}'"


def _ratio(ratio: Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.3f}"
    return f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.4g}"
