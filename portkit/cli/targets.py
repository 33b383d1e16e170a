"""``portkit targets``: the catalogue as a table or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from portkit.model import Platform, Target
from portkit.targets.catalog import load_catalog
from portkit.targets.tables import GIB, PEAKS

UNKNOWN = "–"

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
    click.echo(tabulate([_row(each) for each in targets], headers="keys", missingval=UNKNOWN))
    bare = [arch.name.replace("_", "") for arch in catalog.architectures if platform in (None, arch.platform)]
    click.echo(f"\n{UNKNOWN} unknown or without a source. Dense peaks in TFLOP/s.")
    click.echo(f"Bare architectures: {' '.join(bare)}")


def _row(target: Target) -> Mapping[str, Any]:
    memory = target.memory_bytes
    return {
        "name": target.name,
        "title": target.title,
        "vendor": target.vendor,
        "arch": target.architecture.name,
        "units": target.units,
        "GB/s": target.memory_bandwidth_gbs,
        "memory GiB": None if memory is None else round(memory / GIB),
        "L2 MiB": target.l2_mib,
        **{kind: target.peak_tflops.get(kind) for kind in PEAKS},
    }
