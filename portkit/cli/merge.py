"""``portkit merge``: reports of all hosts into one comparison."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from portkit.analysis.choice import choose
from portkit.analysis.expected import expect
from portkit.analysis.rows import Comparison, comparison
from portkit.cli.expected import told_missing
from portkit.cli.names import names
from portkit.cli.options import (
    PATH,
    expect_option,
    findings_option,
    kernels_option,
    output_option,
    paths_argument,
    reference_option,
    targets_option,
    triton_option,
)
from portkit.cli.outputs import TABLE_SUFFIXES, check_output, layout_of, rows_of, terminal_width, write
from portkit.cli.reading import read_reports, under_way
from portkit.cli.summaries import compacted, is_summary, merged_summaries, missing, parquet
from portkit.cli.waiting import said_while
from portkit.errors import ReportError
from portkit.render.findings import SHOWN
from portkit.render.summary import render_summary
from portkit.render.table import LAYOUTS, render
from portkit.store.summary import ENDING, summary


@click.command("merge", short_help="Merge reports into one table of kernels × targets.")
@paths_argument
@output_option(".md, .txt, .csv, .tex, .json, .xml (JUnit), of summaries .parquet too")
@click.option("--format", "layout", type=click.Choice(sorted(LAYOUTS)), help="Layout; by default of the file's ending.")
@kernels_option
@targets_option
@triton_option
@expect_option
@reference_option
@findings_option("shown", SHOWN, "How many findings to show, or all; with 0 none are looked for.")
@click.option("--summary", "summary_file", type=PATH, help="Parquet file to write: one row for every record.")
def command(  # noqa: PLR0913, PLR0917 (click hands each option over)
    paths: tuple[Path, ...],
    output: Path | None,
    layout: str | None,
    kernels: str,
    targets: str,
    triton: str | None,
    expected: str,
    reference: str | None,
    shown: int | None,
    summary_file: Path | None,
) -> int:
    """Merge reports into one table of kernels × targets.

    PATHS are reports, archives of reports (zip, tar), folders searched for *.jsonl, or
    summaries that --summary wrote (.parquet); reports/local by default. Red cells do not
    change the exit code; a report that can't be read does, and a target that --expect
    names (h200, or h200:measured) without a row.
    """
    _check_outputs(paths, output, summary_file)
    if any(is_summary(path) for path in paths):
        _refuse_of_summaries("reference", "shown")
        return _merge_summaries(paths, output, layout, (triton, kernels, targets), names(expected), summary_file)
    layout = layout or layout_of(output, TABLE_SUFFIXES)
    dataset = read_reports(paths, triton)
    gc.freeze()  # the records stay to the end: no search for garbage among them
    if summary_file is not None:
        write(summary_file, parquet(summary(dataset)))
    with said_while(under_way("comparing")):
        whole = expect(comparison(dataset, reference, explain=shown != 0), names(expected))
    merged = choose(whole, names(kernels), names(targets))
    _put(render(merged, layout, shown, None if output else terminal_width()), output, merged)
    return told_missing(merged.missing, {row.target for row in whole.rows})


def _put(text: str, output: Path | None, merged: Comparison) -> None:
    if output is None:
        click.echo(text, nl=False)
        return
    write(output, text)
    for warning in merged.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"{output}: {rows_of(len(merged.rows), len(merged.runs))}", err=True)


def _merge_summaries(
    paths: Sequence[Path],
    output: Path | None,
    layout: str | None,
    choice: tuple[str | None, str, str],
    expected: Sequence[str],
    summary_file: Path | None,
) -> int:
    rows = merged_summaries(paths, *choice)
    if summary_file is not None:
        write(summary_file, compacted(paths))
    if output is None:
        click.echo(render_summary(rows, layout or "plain", terminal_width()), nl=False)
    else:
        write(output, parquet(rows) if is_summary(output) else render_summary(rows, layout or layout_of(output)))
        click.echo(f"{output}: {rows.height} rows", err=True)
    return told_missing(missing(rows, expected), set(rows["target"]))


def _refuse_of_summaries(*options: str) -> None:
    """Refuse options that were given and need what summaries have not."""
    context = click.get_current_context()
    given = [name for name in options if context.get_parameter_source(name) is not ParameterSource.DEFAULT]
    if given:
        raise ReportError(
            "summaries have no baselines, signals or counters, so neither ratios nor findings are made of them",
            place=next(param.opts[0] for param in context.command.params if param.name == given[0]),
            remedy="leave the option out, or name the reports",
        )


def _check_outputs(paths: Sequence[Path], *outputs: Path | None) -> None:
    """Refuse to write over what is read, and a summary of another ending."""
    for output in outputs:
        if output is not None:
            check_output(output, paths)
    if outputs[-1] is not None and not is_summary(outputs[-1]):
        raise ReportError("a summary is Parquet", place=str(outputs[-1]), remedy=f"end its name in {ENDING}")
