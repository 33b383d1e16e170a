"""Plots as files: SVG, PNG, or the Vega-Lite specification with its data."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Collection, Container, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from portkit.analysis.rows import Comparison
from portkit.errors import HostError, ReportError
from portkit.render.plots.kinds import KINDS, plots
from portkit.render.plots.plot import Plot
from portkit.render.plots.style import LIGHT
from portkit.store.merge import Dataset

SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v6.json"


WIDTH: Final = 480
"""Pixels of a plot that has no width of its own."""


COLUMNS: Final = 3
"""Entries of a legend beside each other in that width."""


LONGEST: Final = 200
"""Characters of a file's name without number and ending; file systems take 255 bytes."""


def export(
    comparison: Comparison, dataset: Dataset, folder: Path, layout: str = "svg", kinds: Collection[str] = ()
) -> tuple[Path, ...]:
    """Write every plot of a comparison to a file of its own.

    Args:
        comparison: what to draw; :func:`portkit.analysis.choice.choose` narrows it.
        dataset: the merged reports that it was made from.
        folder: where the files go, made if absent; files of the same name are replaced.
        layout: one of :data:`FORMATS`: ``svg`` or ``png`` for papers, ``vega`` for the
            Vega-Lite specification with its data as JSON, to change or to draw elsewhere.
        kinds: only plots of these kinds; none means all.

    Returns:
        The files, in the order of kinds, kernels and operations; none where the comparison
        has no figure that a plot shows.

    Raises:
        HostError: vl-convert is not installed (``pip install 'portkit[report]'``).
        ReportError: the layout is none, or the folder can't be written.
    """
    if layout not in FORMATS:
        raise ReportError(f"no format of plots {layout!r}", remedy=f"name one of {', '.join(FORMATS)}")
    ending, rendered = FORMATS[layout]
    written: dict[str, Path] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for plot in plots(comparison, dataset, kinds=kinds):
            name = _free_name(plot.name, written)
            written[name] = folder / f"{name}{ending}"
            written[name].write_bytes(_drawn(plot, rendered))
    except OSError as error:
        raise ReportError(
            f"a plot can't be written: {error.strerror}", place=str(folder), remedy="name a folder that you may write"
        ) from error
    return tuple(written.values())


def _free_name(name: str, taken: Container[str]) -> str:
    """The name, short enough for a file, with a number where kernels differ only in what file names leave out."""
    short = name[:LONGEST].strip("-")
    numbered = (f"{short}-{number}" for number in itertools.count(2))
    return next(each for each in itertools.chain([short], numbered) if each not in taken)


def _drawn(plot: Plot, rendered: Callable[[dict[str, Any]], bytes]) -> bytes:
    """A plot in a format.

    Raises:
        ReportError: Vega does not take it.
    """
    try:
        return rendered(specification(plot))
    except ValueError as error:
        raise ReportError(
            f"can't be drawn: {str(error).splitlines()[0]}",
            place=f"plot {plot.name[:LONGEST]}",
            remedy="--plot-format vega writes its specification; -k draws other kernels",
        ) from error


def specification(plot: Plot) -> dict[str, Any]:
    """The whole Vega-Lite specification of a plot, its data and the light style in it."""
    kind = KINDS[plot.kind]
    return {
        "$schema": SCHEMA,
        "title": {"text": plot.title, "subtitle": " ".join(part for part in (plot.page, plot.operation) if part)},
        "description": plot.alt,
        "config": {**LIGHT, "legend": {**LIGHT["legend"], "columns": COLUMNS}},
        **({} if "width" in kind.spec or "facet" in kind.spec else {"width": WIDTH}),
        "datasets": {name: list(values) for name, values in plot.datasets.items()},
        **sized(plot),
    }


def sized(plot: Plot) -> dict[str, Any]:
    """The specification of a plot's kind with the plot's height, in the panel where there are several."""
    spec = KINDS[plot.kind].spec
    if "facet" in spec:
        return {**spec, "spec": {**spec["spec"], "height": plot.height}}
    return {**spec, "height": plot.height}


def converter() -> ModuleType:
    """The library that draws Vega-Lite and has its JavaScript.

    Raises:
        HostError: it is not installed.
    """
    try:
        import vl_convert  # noqa: PLC0415 (an extra: only plots need it)
    except ImportError:
        raise HostError(
            "plots need vl-convert-python, which is not installed", remedy="pip install 'portkit[report]'"
        ) from None
    return vl_convert


def _svg(spec: dict[str, Any]) -> bytes:
    text: str = converter().vegalite_to_svg(spec)
    return text.encode()


def _png(spec: dict[str, Any]) -> bytes:
    content: bytes = converter().vegalite_to_png(spec, scale=2)
    return content


def _vega(spec: dict[str, Any]) -> bytes:
    return (json.dumps(spec, indent=1, allow_nan=False) + "\n").encode()


FORMATS: Final[Mapping[str, tuple[str, Callable[[dict[str, Any]], bytes]]]] = {
    "svg": (".svg", _svg),
    "png": (".png", _png),
    "vega": (".vl.json", _vega),
}
"""Format → ending of its files, and how a specification is written in it."""
