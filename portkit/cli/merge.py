"""``portkit merge``: reports of all hosts into one comparison."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from portkit.analysis.rows import comparison
from portkit.errors import ReportError
from portkit.render.table import LAYOUTS, render
from portkit.store.merge import merge

LAYOUT_OF_SUFFIX = {".md": "github", ".json": "json", ".txt": "plain"}


@click.command("merge", short_help="Merge reports into one table of kernels × targets.")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write: .md, .json or .txt.")
@click.option("--format", "layout", type=click.Choice(sorted(LAYOUTS)), help="Layout; by default of the file's ending.")
def command(paths: tuple[Path, ...], output: Path | None, layout: str | None) -> None:
    """Merge reports into one table of kernels × targets.

    PATHS are reports, or folders searched for *.jsonl; reports/local by default.
    Red cells do not change the exit code; a report that can't be read does.
    """
    layout = layout or _layout_of(output)
    merged = comparison(merge(paths or (Path("reports/local"),)))
    text = render(merged, layout)
    if output is None:
        sys.stdout.write(text)
        return
    _write(output, text)
    for warning in merged.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"{output}: {len(merged.rows)} rows of {len(merged.runs)} reports", err=True)


def _layout_of(output: Path | None) -> str:
    if output is None:
        return "plain"
    if output.suffix not in LAYOUT_OF_SUFFIX:
        raise ReportError(
            f"no layout is known for the ending {output.suffix!r}",
            place=str(output),
            remedy=f"end the name in {', '.join(LAYOUT_OF_SUFFIX)}, or give --format",
        )
    return LAYOUT_OF_SUFFIX[output.suffix]


def _write(output: Path, text: str) -> None:
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ReportError(
            f"can't be written: {error.strerror}", place=str(output), remedy="name a file that you may write, with -o"
        ) from error
