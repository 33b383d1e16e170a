"""``portkit report``: which kernels do not carry over and why, for a terminal, a page, a paper or CI."""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import click

from portkit.analysis.choice import choose
from portkit.analysis.expected import expect
from portkit.analysis.findings.rule import Finding
from portkit.analysis.rows import Comparison, ComparisonRow, comparison
from portkit.analysis.views.marks import gaps
from portkit.analysis.views.standing import Standing
from portkit.cli.expected import told_missing
from portkit.cli.names import names
from portkit.cli.options import (
    PATH,
    STANDARD_OUTPUT,
    expect_option,
    findings_option,
    kernels_option,
    output_option,
    paths_argument,
    plot_format_option,
    reference_option,
    targets_option,
    triton_option,
)
from portkit.cli.outputs import TABLE_SUFFIXES, check_output, layout_of, rows_of, write
from portkit.cli.reading import read_reports, under_way
from portkit.cli.waiting import said_while
from portkit.plan.places import KernelPlaces, kernel_places
from portkit.render.github import Annotation, annotate, annotation_commands, job_summary, pull_request_comment
from portkit.render.gitlab import code_quality
from portkit.render.plots import FORMATS as PLOT_FORMATS
from portkit.render.plots.plot import Plot
from portkit.render.table import LAYOUTS, render
from portkit.render.terminal.console import PIPED_WIDTH, make_console
from portkit.render.terminal.overview import FINDINGS, print_overview
from portkit.store.merge import Dataset

OVERVIEW: Final = "overview"
TABLES: Final = tuple(name for name in sorted(LAYOUTS) if name not in ("github", "plain"))
LAYOUT_NAMES: Final = (OVERVIEW, *TABLES, "github", "github-comment", "github-annotations", "gitlab-code-quality")


@dataclass(frozen=True)
class Shown:
    """What a report is made of."""

    paths: tuple[Path, ...]
    dataset: Dataset
    comparison: Comparison
    findings: int | None  # the most that are told
    matrix: Path | None  # of the kernels' places
    history: str | None  # earlier nights, for the page


@click.command("report", short_help="Which kernels do not carry over and why, at a glance.")
@paths_argument
@kernels_option
@targets_option
@click.option("--html", type=PATH, help="File to write, or -: one page with all plots and cells, for a browser.")
@click.option("--plots", type=PATH, help="Folder to write every plot to.")
@plot_format_option(PLOT_FORMATS)
@output_option(".txt, .md, .tex, .csv, .json, .xml (JUnit)")
@click.option(
    "--format",
    "layout",
    type=click.Choice(LAYOUT_NAMES),
    help="Layout; by default of the file's ending, else the overview.",
)
@findings_option("told", FINDINGS, "How many findings to tell, or all.")
@expect_option
@reference_option
@triton_option
@click.option("--history", metavar="PLACE", help="Earlier nights for --html: a folder, or a path of an object store.")
@click.option("--matrix", type=PATH, help="Matrix file that says where kernels stand.  [default: that of the reports]")
def command(  # noqa: PLR0913, PLR0917 (click hands each option over)
    paths: tuple[Path, ...],
    kernels: str,
    targets: str,
    html: Path | None,
    plots: Path | None,
    plot_format: str,
    output: Path | None,
    layout: str | None,
    told: int | None,
    expected: str,
    reference: str | None,
    triton: str | None,
    history: str | None,
    matrix: Path | None,
) -> int:
    """Which kernels do not carry over and why, at a glance.

    PATHS are reports, archives of reports, or folders of them; reports/local by default.

    Of the layouts, github is a job's summary (>> $GITHUB_STEP_SUMMARY), github-comment the text of a
    pull request's comment, and github-annotations are remarks on the kernels' lines for a step to print;
    gitlab-code-quality are the same remarks for a merge request; the tables are those of portkit merge.

    With --html or --plots nothing else is shown unless asked for. Red cells do not change the exit code.
    """
    for file in (output, html):
        if file not in (None, STANDARD_OUTPUT):
            check_output(file, paths)
    layout = _layout(layout, output)
    dataset = read_reports(paths, triton)
    with said_while(under_way("comparing")):
        whole = expect(comparison(dataset, reference, explain=told != 0), names(expected))
    shown = Shown(paths, dataset, choose(whole, names(kernels), names(targets)), told, matrix, history)
    if html is not None:
        _write_page(shown, html)
    if plots is not None:
        _write_plots(shown, plots, plot_format)
    if output is not None:
        write(output, _text(shown, layout or OVERVIEW))
        click.echo(f"{output}: {rows_of(len(shown.comparison.rows), len(dataset.headers))}", err=True)
    elif layout is not None or (html is None and plots is None):
        _show(shown, layout or OVERVIEW)
    return told_missing(shown.comparison.missing, {row.target for row in whole.rows})


def _layout(asked: str | None, output: Path | None) -> str | None:
    """The layout asked for or that of the file's ending; None where neither says."""
    if asked is not None or output is None:
        return asked
    return layout_of(output, {**TABLE_SUFFIXES, ".md": "markdown", ".txt": OVERVIEW})


def _show(shown: Shown, layout: str) -> None:
    if layout == OVERVIEW:
        print_overview(make_console(), shown.comparison, shown.findings, _next_steps(shown))
    else:
        click.echo(_text(shown, layout), nl=False)


def _text(shown: Shown, layout: str) -> str:
    return _WRITERS[layout](shown)


def _overview(shown: Shown) -> str:
    text = io.StringIO()
    print_overview(make_console(text, PIPED_WIDTH), shown.comparison, shown.findings, _next_steps(shown))
    return text.getvalue()


def _next_steps(shown: Shown) -> list[str]:
    """Commands that say more of the same reports."""
    paths = shlex.join(str(path) for path in shown.paths)
    rules = [finding.rule for finding in shown.comparison.findings[:1]]
    return (
        [
            f"portkit show {shlex.quote(_telling(shown.comparison).label)} {paths}",
            *(f"portkit explain {rule}" for rule in rules),
            f"portkit merge {paths}",
            f"portkit report {paths} --html report.html",
        ]
        if shown.comparison.rows
        else []
    )


def _telling(comparison: Comparison) -> ComparisonRow:
    """The row to look at first: of what is told first as not good, of the first finding, with a time, or the first."""
    if bad := [gap for gap in gaps(comparison.rows) if gap.standing in (Standing.BAD, Standing.NO_VERDICT)]:
        return bad[0].rows[0]
    tests: Sequence[Callable[[ComparisonRow], bool]] = (
        lambda row: any(_is_about(each, row) for each in comparison.findings[:1]),
        lambda row: row.median_ms is not None,
    )
    chosen = (row for test in tests for row in comparison.rows if test(row))
    return next(chosen, comparison.rows[0])


def _is_about(finding: Finding, row: ComparisonRow) -> bool:
    same = (finding.kernel, finding.direction, finding.shape, finding.dtype)
    return same == (row.kernel, row.direction, row.shape, row.dtype) and row.target in finding.targets


def _annotated(shown: Shown) -> list[Annotation]:
    return annotate(shown.comparison, _places(shown), partial(_kernel_names, shown.dataset))


def _annotations(shown: Shown) -> str:
    found = _annotated(shown)
    return annotation_commands(found) + "\n" if found else ""


def _places(shown: Shown) -> Mapping[str, KernelPlaces]:
    """Where kernels stand, by the matrix that is named, else by those here that the reports name."""
    named = dict.fromkeys(Path(header.matrix) for header in shown.dataset.headers)
    files = [shown.matrix] if shown.matrix is not None else [file for file in named if file.is_file()]
    places = {name: place for file in files for name, place in kernel_places(file).items()}
    if unknown := sorted({row.kernel for row in shown.comparison.rows} - places.keys()):
        read = f"{', '.join(map(str, files))} has none of them" if files else f"no {', '.join(map(str, named))} here"
        click.echo(f"warning: no line is named for {', '.join(unknown)}: {read}; --matrix names another", err=True)
    return places


def _kernel_names(dataset: Dataset, finding: Finding) -> Sequence[str]:
    """Triton kernels of the cells that a finding is about."""
    about = (finding.kernel, finding.direction, finding.shape, finding.dtype)
    launches = (
        launch.kernel
        for row in dataset.rows
        for cell in (row.record.cell,)
        if (cell.case, cell.direction, cell.shape, cell.dtype) == about and cell.target in finding.targets
        for launch in (row.record.build.counted if row.record.build else ())
    )
    return list(dict.fromkeys(launches))


def _of_table(layout: str) -> Callable[[Shown], str]:
    return lambda shown: render(shown.comparison, layout, shown.findings)


_WRITERS: Final[Mapping[str, Callable[[Shown], str]]] = {
    OVERVIEW: _overview,
    **{name: _of_table(name) for name in TABLES},
    "github": lambda shown: job_summary(shown.comparison),
    "github-comment": lambda shown: pull_request_comment(shown.comparison),
    "github-annotations": _annotations,
    "gitlab-code-quality": lambda shown: code_quality(_annotated(shown)) + "\n",
}


def _write_page(shown: Shown, file: Path) -> None:
    from portkit.render.html import page  # noqa: PLC0415 (templates are read when a page is asked for)

    with said_while(under_way("writing the page")):
        text = page(shown.comparison, shown.dataset, nights=_nights(shown))
    if file == STANDARD_OUTPUT:
        click.echo(text, nl=False)
        return
    write(file, text)
    click.echo(f"{file}: {file.stat().st_size / 1e6:.1f} MB, for a browser", err=True)


def _nights(shown: Shown) -> list[Plot]:
    """Plots of earlier nights of the kernels and targets that are shown."""
    if shown.history is None:
        return []
    from portkit.analysis.trend import telling  # noqa: PLC0415 (few pages have a history)
    from portkit.render.plots.trend import trend_plots  # noqa: PLC0415
    from portkit.store.history import reading, scan  # noqa: PLC0415

    with reading(shown.history):
        return list(trend_plots(telling(scan(shown.history), shown.comparison)))


def _write_plots(shown: Shown, folder: Path, layout: str) -> None:
    from portkit.render.plots import export  # noqa: PLC0415

    with said_while(under_way("drawing")):
        written = export(shown.comparison, shown.dataset, folder, layout)
    click.echo(f"{folder}: {len(written)} plots", err=True)
