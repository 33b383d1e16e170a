"""Puts templates, assets and data together."""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.resources
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, Final

from portkit.analysis.findings.summary import alike, top
from portkit.analysis.rows import Comparison
from portkit.analysis.views.kernels import KernelSummary, kernel_summaries
from portkit.errors import HostError
from portkit.model import Evidence
from portkit.render.html import sections
from portkit.render.html.data import kernel_chunks, main_chunk, packed
from portkit.render.plots.export import converter
from portkit.render.plots.plot import Plot
from portkit.render.table import EVIDENCE_MEANS
from portkit.render.verdict import verdict
from portkit.store.merge import Dataset

TITLE: Final = "portkit: comparison of targets"

SCRIPTS: Final = ("dom", "data", "filters", "grid", "table", "heat", "plots", "findings", "views", "main")
"""The page's own scripts in the order in which they build on each other."""

SHOWN: Final = 6
"""Findings that the summary tells of."""

MOST_KERNELS: Final = 12
"""Kernels that the summary names; the map has all."""


def page(comparison: Comparison, dataset: Dataset, *, title: str = TITLE, nights: Iterable[Plot] = ()) -> str:
    """The report as one HTML file, to be written as UTF-8.

    Args:
        comparison: what to show; :func:`portkit.analysis.choice.choose` narrows it.
        dataset: the merged reports that it was made from: raw fields of cells, and what lies
            in the side folders of reports, come from there.
        title: of the page.
        nights: plots of what one merge does not know: figures over earlier nights.

    Raises:
        HostError: Jinja2 or vl-convert is not installed (``pip install 'portkit[report]'``).
    """
    jinja2 = _jinja2()
    kernels = kernel_summaries(comparison)
    scripts = (_vega(), _own_scripts())
    text: str = (
        _environment(jinja2)
        .get_template("page.html.j2")
        .render(
            title=title,
            comparison=comparison,
            hosts=sections.hosts(comparison),
            policy=policy(scripts),
            style=jinja2.utils.markupsafe.Markup(_asset("page.css")),
            scripts=[jinja2.utils.markupsafe.Markup(script) for script in scripts],
            **_summary(comparison, kernels),
            **_data(comparison, kernels, kernel_chunks(comparison, dataset, kernels, nights)),
        )
    )
    return text


def _summary(comparison: Comparison, kernels: Sequence[KernelSummary]) -> dict[str, Any]:
    """What stands on top and needs no script."""
    shown, more = top(alike(comparison.findings), SHOWN)
    return {
        "kernels": kernels,
        "headlines": list(verdict(kernels)),
        "top_findings": shown,
        "more": more,
        "means": {evidence: EVIDENCE_MEANS[evidence] for evidence in Evidence},
    }


def _data(comparison: Comparison, kernels: Sequence[KernelSummary], chunks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the scripts read: a chunk for every view, one a kernel, and one of what is about all kernels."""
    pages = (*(kernel.page for kernel in kernels), None)
    whole = [[name, chunk["cells"]["rows"]] for name, chunk in zip(pages, chunks, strict=True)]
    return {
        "main": packed({**main_chunk(comparison, kernels), "whole_cells": whole}),
        "chunks": [packed(chunk) for chunk in chunks],
    }


def policy(scripts: Sequence[str]) -> str:
    """What the page may do: run these scripts and no other, and load nothing."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    sources = " ".join(f"'sha256-{each}'" for each in hashes)
    return (
        f"default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _jinja2() -> ModuleType:
    try:
        import jinja2  # noqa: PLC0415 (an extra: only this report needs it)
    except ImportError:
        raise HostError(
            "the HTML report needs Jinja2, which is not installed", remedy="pip install 'portkit[report]'"
        ) from None
    return jinja2


def _environment(jinja2: ModuleType) -> Any:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("portkit.render.html"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        sections.FUNCTIONS, most_kernels=MOST_KERNELS, signs=sections.SIGNS, version=sections.version()
    )
    return environment


@functools.cache
def _vega() -> str:
    """Vega, Vega-Lite and Vega-Embed out of the wheel of vl-convert."""
    return _inline(str(converter().javascript_bundle("window.vegaEmbed = vegaEmbed;")))


@functools.cache
def _own_scripts() -> str:
    parts = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    return _inline(f'(() => {{\n"use strict";\n{parts}\n}})();')


def _asset(name: str) -> str:
    return (importlib.resources.files("portkit.render.html") / "assets" / name).read_text(encoding="utf-8")


def _inline(script: str) -> str:
    """A script that can't end its element, nor begin a comment of HTML in it."""
    return script.replace("</script", r"<\/script").replace("<!--", r"<\!--")
