"""``portkit history``: nights kept as Parquet."""

from __future__ import annotations

from pathlib import Path

import click
import polars as pl
from tabulate import tabulate

from portkit.cli.options import paths_argument
from portkit.cli.reading import read_reports
from portkit.store import history

place_option = click.option(
    "--history",
    "place",
    metavar="PLACE",
    default="history",
    show_default=True,
    envvar="PORTKIT_HISTORY",
    show_envvar=True,
    help="Folder, or path of an object store: s3://bucket/path, gs://, az://, abfss://.",
)


@click.group("history")
def command() -> None:
    """Nights kept as Parquet, one file a run, in a folder or an object store."""


@command.command("add")
@paths_argument
@place_option
def add(paths: tuple[Path, ...], place: str) -> None:
    """Add every run of some reports.

    PATHS are reports, archives of reports, or folders of them; reports/local by default. A run that is there
    already stays as it is, unless it has more rows by now.
    """
    for line in history.told(history.add(place, read_reports(paths))):
        click.echo(line)


@command.command("list")
@place_option
def listed(place: str) -> None:
    """The nights that are kept, the oldest first."""
    found = history.scan(place)
    with history.reading(place):
        nights = (
            found.group_by("run_id", "started", "portkit", "torch", "driver")
            .agg(
                pl.col("triton").drop_nulls().unique().sort().str.join(", "),
                pl.len().alias("rows"),
                pl.col("case").n_unique().alias("kernels"),
                pl.col("target").n_unique().alias("targets"),
                pl.col("target")
                .filter(pl.col("evidence") == "measured")
                .unique()
                .sort()
                .str.join(" ")
                .alias("measured"),
            )
            .sort("started", "run_id")
            .select("run_id", "rows", "kernels", "targets", "measured", "triton", "torch", "driver", "portkit")
            .collect()
        )
    click.echo(tabulate(nights.rows(), headers=nights.columns, missingval="–", disable_numparse=True))
