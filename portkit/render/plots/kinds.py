"""The kinds of plots, each by its module: a specification, and the plots of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from portkit.analysis.rows import Comparison
from portkit.render.plots import cascade, chains, depth, distances, heat, roofline, sizes, speedups, trend, variants
from portkit.render.plots.plot import Plot, Spec
from portkit.store.merge import Dataset


@dataclass(frozen=True)
class Kind:
    """One kind of plot."""

    spec: Spec  # Vega-Lite, without its data
    plots: Callable[[Comparison, Dataset], Iterator[Plot]]
    in_page: bool = True  # whether the HTML report draws it
    targets: tuple[str, ...] = ("target",)  # fields of a value that name a target, by which the page filters
    runs: tuple[str, ...] = ()  # likewise of target and evidence: "h200 measured"


KINDS: Final[Mapping[str, Kind]] = {
    "heat": Kind(heat.SPEC, heat.plots, in_page=False),
    "cascade": Kind(cascade.SPEC, cascade.plots),
    "roofline": Kind(roofline.SPEC, roofline.plots),
    "speedups": Kind(speedups.SPEC, speedups.plots),
    "depth": Kind(depth.SPEC, depth.plots),
    "chains": Kind(chains.SPEC, chains.plots, in_page=False),
    "sizes": Kind(sizes.SPEC, sizes.plots, in_page=False),
    "variants": Kind(variants.SPEC, variants.plots),
    "transfers": Kind(variants.TRANSFERS, variants.transfers, targets=("of", "on")),
    "trend": Kind(trend.SPEC, trend.plots),
    "distances": Kind(distances.SPEC, distances.plots, targets=(), runs=("one", "other")),
}


def plots(
    comparison: Comparison, dataset: Dataset, *, in_page: bool = False, kinds: Collection[str] = ()
) -> Iterator[Plot]:
    """Every plot that the comparison has values for.

    Args:
        comparison: what to draw.
        dataset: the merged reports that it was made from.
        in_page: only those that the HTML report draws.
        kinds: only these; none means all.
    """
    for name, kind in KINDS.items():
        if (kind.in_page or not in_page) and (not kinds or name in kinds):
            yield from kind.plots(comparison, dataset)
