"""``portkit trend``: a kernel over the nights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from portkit.analysis.trend import FIGURES, Choice, Line, lines
from portkit.cli.history import place_option
from portkit.cli.names import names
from portkit.cli.outputs import terminal_width, write
from portkit.errors import ReportError
from portkit.model import Evidence
from portkit.render.trend import trend_json, trend_text
from portkit.store.history import reading, scan


@click.command("trend")
@click.argument("kernels", metavar="KERNELS")
@click.argument("words", nargs=-1, metavar="[WORDS]...")
@click.option("-t", "--target", "targets", metavar="NAMES", default="", help="Targets by name or pattern, with commas.")
@click.option("--figure", type=click.Choice(list(FIGURES)), help="What to show.  [default: a time, else registers]")
@click.option(
    "--evidence",
    type=click.Choice([each.value for each in Evidence]),
    help="Of which rows.  [default: measured where there are any]",
)
@click.option("--last", type=click.IntRange(1), default=30, show_default=True, help="Newest nights of each line.")
@click.option("--json", "as_json", is_flag=True, help="All of it as JSON.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Plot to write: .svg, .png or .json (Vega-Lite).")
@place_option
def command(  # noqa: PLR0913, PLR0917 (click hands each option over)
    kernels: str,
    words: tuple[str, ...],
    targets: str,
    figure: str | None,
    evidence: str | None,
    last: int,
    as_json: bool,
    output: Path | None,
    place: str,
) -> None:
    """A kernel over the nights, with what changed between them: Triton, torch, driver, portkit, the source.

    KERNELS are names or patterns, with commas. WORDS narrow the cells: a shape, a dtype, a variant, forward or
    backward.
    """
    choice = Choice(names(kernels), names(targets), Evidence(evidence) if evidence else None, words, figure, last)
    history = scan(place)
    with reading(place):
        found = lines(history, choice)
    if not found:
        raise ReportError(f"no such row has {figure!r}", place="--figure", remedy="leave it out to see what there is")
    if output is not None:
        _draw(found, output)
    elif as_json:
        click.echo(trend_json(found), nl=False)
    else:
        click.echo(trend_text(found, terminal_width()), nl=False)


def _draw(found: Sequence[Line], output: Path) -> None:
    from portkit.render.plots.export import FORMATS, specification  # noqa: PLC0415 (only plots need an extra)
    from portkit.render.plots.trend import trend_plots  # noqa: PLC0415

    formats = {".svg": "svg", ".png": "png", ".json": "vega"}
    drawn = list(trend_plots(found))
    if output.suffix not in formats or len(drawn) != 1:
        raise ReportError(
            f"is to hold {len(drawn)} plots, or ends in {output.suffix!r}",
            place=str(output),
            remedy="narrow the choice to one cell by WORDS, and end the name in .svg, .png or .json",
        )
    write(output, FORMATS[formats[output.suffix]][1](specification(drawn[0])))
    click.echo(output, err=True)
