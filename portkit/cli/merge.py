"""``portkit merge``: reports of all hosts into one comparison."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from portkit.analysis.choice import choose
from portkit.analysis.expected import expect
from portkit.analysis.rows import comparison
from portkit.errors import ReportError
from portkit.render.findings import SHOWN
from portkit.render.table import LAYOUTS, render
from portkit.store.journal import write_whole
from portkit.store.merge import merge

LAYOUT_OF_SUFFIX = {".md": "github", ".json": "json", ".txt": "plain"}


def _count(context: click.Context, option: click.Parameter, value: str) -> int | None:
    """A number; None for ``all``."""
    if value != "all" and not value.isdecimal():
        raise click.BadParameter(f"{value!r} is neither a number nor all", context, option)
    return None if value == "all" else int(value)


@click.command("merge", short_help="Merge reports into one table of kernels × targets.")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write: .md, .json or .txt.")
@click.option("--format", "layout", type=click.Choice(sorted(LAYOUTS)), help="Layout; by default of the file's ending.")
@click.option("-k", "--kernel", "kernels", metavar="NAMES", default="", help="Kernels by name or pattern, with commas.")
@click.option("-t", "--target", "targets", metavar="NAMES", default="", help="Targets by name or pattern, with commas.")
@click.option("--triton", metavar="VERSION", help="Triton of the compiled and emulated rows.  [default: the newest]")
@click.option("--expect", "expected", metavar="TARGETS", default="", help="Exit with 1 where a target has no row.")
@click.option("--reference", metavar="TARGET", help="Take ratios of all measured rows to this target.")
@click.option(
    "--findings",
    "shown",
    metavar="N|all",
    callback=_count,
    default=str(SHOWN),
    show_default=True,
    help="How many findings to show, or all.",
)
def command(  # noqa: PLR0913, PLR0917 — one option each
    paths: tuple[Path, ...],
    output: Path | None,
    layout: str | None,
    kernels: str,
    targets: str,
    triton: str | None,
    expected: str,
    reference: str | None,
    shown: int | None,
) -> int:
    """Merge reports into one table of kernels × targets.

    PATHS are reports, archives of reports (zip, tar), or folders searched for *.jsonl;
    reports/local by default. Red cells do not change the exit code; a report that can't
    be read does, and a target that --expect names (h200, or h200:measured) without a row.
    """
    layout = layout or _layout_of(output)
    if output is not None:
        _refuse_report(output, paths)
    dataset = merge(paths or (Path("reports/local"),), triton)
    whole = expect(comparison(dataset, reference), _names(expected))
    merged = choose(whole, _names(kernels), _names(targets))
    text = render(merged, layout, shown)
    if output is None:
        click.echo(text, nl=False)
    else:
        _write(output, text)
        for warning in merged.warnings:
            click.echo(f"warning: {warning}", err=True)
        click.echo(f"{output}: {len(merged.rows)} rows of {len(merged.runs)} reports", err=True)
    if merged.missing:
        click.echo(f"MISSING: no row of {', '.join(merged.missing)}", err=True)
    return 1 if merged.missing else 0


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


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


def _refuse_report(output: Path, paths: Sequence[Path]) -> None:
    """A report is never written over: it may be the only one of a run."""
    names = (output.suffix, Path(os.path.realpath(output)).suffix)
    if ".jsonl" in names or any(path.exists() and output.exists() and path.samefile(output) for path in paths):
        raise ReportError(
            "a comparison is not written over a report, nor under a report's ending",
            place=str(output),
            remedy=f"name another file with -o, ending in {', '.join(LAYOUT_OF_SUFFIX)}",
        )


def _write(output: Path, text: str) -> None:
    content = text.encode(errors="replace")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        if output.exists() and not output.is_file():  # a device or a pipe
            output.write_bytes(content)
        else:
            write_whole(Path(os.path.realpath(output)), content)
    except OSError as error:
        raise ReportError(
            f"can't be written: {error.strerror}", place=str(output), remedy="name a file that you may write, with -o"
        ) from error
