"""Plots of a comparison, as Vega-Lite specifications: drawn in the HTML report, exported for papers.

A plot is a :class:`Plot`: a kind, whose specification is one constant, and its values. The
same specification is what a browser draws, what SVG and PNG are rendered from (vl-convert, no
browser and no network), and what the Vega file holds.
"""

from portkit.render.plots.export import FORMATS, export
from portkit.render.plots.plot import Plot

__all__ = ["FORMATS", "Plot", "export"]
