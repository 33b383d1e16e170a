"""``portkit init``: a matrix and one case to start from, for who has installed the package alone."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click

from portkit.cli.new import filled, refuse_what_is_there, write_text
from portkit.errors import CaseError
from portkit.plan.matrix import matrix_schema

NAME = "bias_relu"
"""The case that one starts with."""


@click.command("init", short_help="Write a matrix and one case to start from.")
@click.argument("folder", type=click.Path(path_type=Path), default=Path(), required=False)
def command(folder: Path) -> None:
    """Write a matrix and one case to start from into FOLDER, or the current one.

    The case is right and passes as it is; its text says what to put in. Nothing is written over.
    """
    if folder.exists() and not folder.is_dir():
        raise CaseError("is no folder", place=str(folder), remedy="name one, or none for the current one")
    matrix = folder / "matrix.yaml"
    files = {
        folder / "kernels" / f"{NAME}.py": filled("kernel", NAME, matrix),
        folder / "tests" / f"test_{NAME}.py": filled("test", NAME, matrix),
        matrix: filled("start", NAME, matrix),
        folder / "matrix.schema.json": json.dumps(matrix_schema(), indent=1) + "\n",
    }
    refuse_what_is_there(files, remedy="`portkit new NAME` adds a case to a matrix; or name another folder")
    for path, text in files.items():
        write_text(path, text)
        click.echo(path)
    inside = "" if folder == Path() else f"cd {shlex.quote(str(folder))}; "
    click.echo(f"\nNow: {inside}pytest --benchmark, then portkit merge; portkit doctor says what this host can do.")
