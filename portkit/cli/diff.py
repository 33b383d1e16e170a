"""``portkit diff``: source, IR, assembly and resources of one kernel on two targets."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from portkit.analysis.lowering import STAGES, pair
from portkit.cli.names import names
from portkit.cli.options import paths_argument, triton_option
from portkit.cli.reading import read_reports
from portkit.errors import ReportError
from portkit.render.terminal.console import make_console
from portkit.render.terminal.lowering import RESOURCES, Wanted, print_pair

EVERYTHING: Final = "all"
SHOWN: Final = (RESOURCES, "source", "ttir", "ttgir")
"""Stages unless asked for others: the later ones are long, and are the compiler's own."""


@click.command("diff", short_help="Source, IR, assembly and resources of a kernel on two targets.")
@click.argument("kernel")
@paths_argument
@click.option("-t", "--targets", metavar="ONE,OTHER", required=True, help="The two targets.")
@click.option("-k", "words", metavar="WORDS", default="", help="Shape, dtype, variant or direction of the operation.")
@click.option(
    "--stage",
    "stages",
    type=click.Choice([RESOURCES, *STAGES, EVERYTHING]),
    multiple=True,
    help="What to show; may be repeated.  [default: resources, source, ttir, ttgir]",
)
@click.option("--raw", is_flag=True, help="Compare lines as they are, numbers and locations too.")
@click.option(
    "--context", type=click.IntRange(min=0), default=3, show_default=True, help="Equal lines around a change."
)
@click.option("--side-by-side/--unified", "beside", default=None, help="Layout.  [default: by the terminal's width]")
@triton_option
def command(  # noqa: PLR0913 (click hands each option over)
    kernel: str,
    paths: tuple[Path, ...],
    targets: str,
    words: str,
    stages: tuple[str, ...],
    *,
    raw: bool,
    context: int,
    beside: bool | None,
    triton: str | None,
) -> None:
    """Source, IR, assembly and resources of one kernel on two targets.

    KERNEL is a kernel of the matrix. PATHS are reports, archives of reports, or folders of them
    with their side folders; reports/local by default. Lines are compared without what differs without
    meaning (numbers of SSA values and registers, names and order of constants, source locations,
    debug information), unless --raw is given.
    """
    two = names(targets)
    if len(two) != 2:
        raise ReportError(f"two targets are compared, not {len(two)}", place="--targets", remedy="such as h200,mi300x")
    dataset = read_reports(paths, triton)
    found = pair(dataset, kernel, (two[0], two[1]), words.split())
    shown = (RESOURCES, *STAGES) if EVERYTHING in stages else stages or SHOWN
    print_pair(make_console(), found, Wanted(shown, raw=raw, context=context, beside=beside))
