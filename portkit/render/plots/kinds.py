"""The kinds of plots, each by its module: a specification, and the plots of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from portkit.analysis.rows import Comparison
from portkit.render.plots import speedups
from portkit.render.plots.plot import Plot, Spec
from portkit.store.merge import Dataset

KINDS: Final[Mapping[str, tuple[Spec, Callable[[Comparison, Dataset], Iterator[Plot]]]]] = {
    "speedups": (speedups.SPEC, speedups.plots),
}


def plots(comparison: Comparison, dataset: Dataset) -> Iterator[Plot]:
    """Every plot that the comparison has values for."""
    for _, made in KINDS.values():
        yield from made(comparison, dataset)
