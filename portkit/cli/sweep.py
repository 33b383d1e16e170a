"""``portkit sweep``: fusion over the depth of a chain and over the size of its tensors."""

from __future__ import annotations

from pathlib import Path

import click

from portkit.analysis.choice import choose
from portkit.analysis.rows import comparison
from portkit.analysis.sweep import chains, sizes
from portkit.cli.names import names
from portkit.cli.options import PATH, kernels_option, paths_argument, plot_format_option, targets_option
from portkit.cli.reading import under_way
from portkit.cli.waiting import said_while
from portkit.render.plots import FORMATS as PLOT_FORMATS
from portkit.render.sweep import as_json, text
from portkit.store.merge import merge

KINDS = ("chains", "sizes")
"""Kinds of plots that show it."""


@click.command("sweep", short_help="Fusion over the depth of a chain, and bytes against launches over size.")
@paths_argument
@kernels_option
@targets_option
@click.option("--plots", type=PATH, help="Folder to write the plots to.")
@plot_format_option(PLOT_FORMATS)
@click.option("--json", "wants_json", is_flag=True, help="All figures as JSON.")
def command(
    paths: tuple[Path, ...],
    kernels: str,
    targets: str,
    plots: Path | None,
    plot_format: str,
    wants_json: bool,
) -> None:
    """Fusion over the depth of a chain, and bytes against launches over the size of tensors.

    PATHS are reports, archives of reports, or folders of them; reports/local by default.
    """
    with said_while(under_way("reading reports")):
        dataset = merge(paths)
        compared = choose(comparison(dataset, explain=False), names(kernels), names(targets))
    found = chains(compared, dataset), sizes(compared, dataset)
    click.echo(as_json(*found) if wants_json else text(*found))
    if plots is not None:
        from portkit.render.plots import export  # noqa: PLC0415 (its library is loaded when plots are asked for)

        with said_while(under_way("drawing")):
            written = export(compared, dataset, plots, plot_format, KINDS)
        click.echo(f"{plots}: {len(written)} plots", err=True)
