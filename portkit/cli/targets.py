"""``portkit targets``: the catalogue as a table or JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from portkit.cli.outputs import terminal_width
from portkit.model import Platform
from portkit.render.columns import wrapped
from portkit.render.targets import targets_plain
from portkit.targets.catalog import load_catalog

targets_file = click.option(
    "--targets-file",
    "files",
    type=click.Path(path_type=Path),
    multiple=True,
    help="YAML file with targets of your own; may be repeated.",
)


@click.command("targets")
@click.option("--platform", type=click.Choice([each.value for each in Platform]), help="Only this platform.")
@click.option("--json", "as_json", is_flag=True, help="All fields, with sources.")
@targets_file
def command(platform: str | None, as_json: bool, files: tuple[Path, ...]) -> None:
    """The catalogue of GPUs.

    A bare architecture such as gfx1032 or sm86 is a target too; the last line lists them.
    """
    catalog = load_catalog(files)
    targets = [each for each in catalog if platform in (None, each.architecture.platform)]
    if as_json:
        click.echo(json.dumps([asdict(each) for each in targets], indent=2))
        return
    width = terminal_width()
    click.echo(targets_plain(targets, width))
    bare = [arch.name.replace("_", "") for arch in catalog.architectures if platform in (None, arch.platform)]
    click.echo(wrapped([f"Bare architectures: {' '.join(bare)}"], width))
