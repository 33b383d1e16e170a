"""Puts templates, assets and data together."""

from __future__ import annotations

from typing import Any

from portkit.analysis.findings.summary import alike, top
from portkit.analysis.rows import Comparison
from portkit.errors import HostError
from portkit.render.findings import SHOWN
from portkit.store.merge import Dataset


def page(comparison: Comparison, dataset: Dataset, *, title: str = "portkit: comparison of targets") -> str:
    """The report as one HTML file, to be written as UTF-8.

    Args:
        comparison: what to show; :func:`portkit.analysis.choice.choose` narrows it.
        dataset: the merged reports that it was made from: raw fields of cells, and what lies
            in the side folders of reports, come from there.
        title: of the page.

    Raises:
        HostError: Jinja2 or vl-convert is not installed (``pip install 'portkit[report]'``).
    """
    del dataset
    shown, more = top(alike(comparison.findings), SHOWN)
    text: str = _environment().get_template("page.html.j2").render(title=title, findings=shown, more=more)
    return text


def _environment() -> Any:
    try:
        import jinja2  # noqa: PLC0415 (an extra: only this report needs it)
    except ImportError:
        raise HostError(
            "the HTML report needs Jinja2, which is not installed", remedy="pip install 'portkit[report]'"
        ) from None
    loader = jinja2.PackageLoader("portkit.render.html")
    return jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
