"""The kinds of plots, each by its module: a specification, and the plots of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from portkit.analysis.rows import Comparison
from portkit.render.plots import cascade, depth, distances, heat, roofline, speedups, variants
from portkit.render.plots.plot import Plot, Spec
from portkit.store.merge import Dataset


@dataclass(frozen=True)
class Kind:
    """One kind of plot."""

    spec: Spec  # Vega-Lite, without its data
    plots: Callable[[Comparison, Dataset], Iterator[Plot]]
    in_page: bool = True  # whether the HTML report draws it


KINDS: Final[Mapping[str, Kind]] = {
    "heat": Kind(heat.SPEC, heat.plots, in_page=False),
    "cascade": Kind(cascade.SPEC, cascade.plots),
    "roofline": Kind(roofline.SPEC, roofline.plots),
    "speedups": Kind(speedups.SPEC, speedups.plots),
    "depth": Kind(depth.SPEC, depth.plots),
    "variants": Kind(variants.SPEC, variants.plots),
    "transfers": Kind(variants.TRANSFERS, variants.transfers),
    "distances": Kind(distances.SPEC, distances.plots),
}


def plots(comparison: Comparison, dataset: Dataset, *, in_page: bool = False) -> Iterator[Plot]:
    """Every plot that the comparison has values for.

    Args:
        comparison: what to draw.
        dataset: the merged reports that it was made from.
        in_page: only those that the HTML report draws.
    """
    for kind in KINDS.values():
        if kind.in_page or not in_page:
            yield from kind.plots(comparison, dataset)
