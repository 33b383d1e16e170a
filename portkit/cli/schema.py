"""``portkit schema``: the form of files that users write, for editors."""

from __future__ import annotations

import json
from pathlib import Path

import click

from portkit.cli.outputs import write
from portkit.plan.matrix import matrix_schema

SCHEMAS = {"matrix": matrix_schema}
"""Kind of file → its JSON schema."""


@click.command("schema", short_help="The JSON schema of a matrix, for editors.")
@click.argument("kind", type=click.Choice(sorted(SCHEMAS)))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write.  [default: standard output]")
def command(kind: str, output: Path | None) -> None:
    """The JSON schema of a matrix, for editors: keys, values and what they mean.

    It is made of the same models that read the file. An editor takes it from a first line
    `# yaml-language-server: $schema=matrix.schema.json`.
    """
    text = json.dumps(SCHEMAS[kind](), indent=1) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        write(output, text)
