"""``portkit gate``: last night's reports against those before."""

from __future__ import annotations

from pathlib import Path

import click

from portkit.analysis.gate.judge import GateResult, gate
from portkit.analysis.gate.over_targets import portability_figures
from portkit.analysis.gate.thresholds import CLOCKS, Thresholds
from portkit.analysis.gate.times import Level
from portkit.cli.outputs import check_output, layout_of, terminal_width, write
from portkit.cli.reading import read_reports
from portkit.errors import ReportError
from portkit.render.gate import LAYOUTS, headline, junit, render_gate
from portkit.store.merge import Dataset
from portkit.targets.catalog import load_catalog

EXIT_REGRESSION = 1
EXIT_NO_VERDICT = 3

PATHS = click.Path(path_type=Path)
DEFAULT = Thresholds()


@click.command("gate", short_help="Fail where a kernel became slower or worse.")
@click.option("--baseline", type=PATHS, multiple=True, required=True, help="Reports, folder or archive of before.")
@click.option("--current", type=PATHS, multiple=True, required=True, help="The same of now.")
@click.option("-o", "--output", type=PATHS, help="File to write: .md, .json or .txt.")
@click.option("--format", "layout", type=click.Choice(sorted(LAYOUTS)), help="Layout; by default of the file's ending.")
@click.option("--junit", "junit_file", type=PATHS, help="JUnit file to write for CI.")
@click.option("--warn", type=float, default=DEFAULT.warn_ratio, show_default=True, help="Ratio of times that warns.")
@click.option("--fail", type=float, default=DEFAULT.fail_ratio, show_default=True, help="Ratio of times that fails.")
@click.option("--short-us", type=float, default=DEFAULT.short_us, show_default=True, help="Below, µs must grow.")
@click.option("--level", type=float, default=DEFAULT.level, show_default=True, help="Chance of a false alarm.")
@click.option(
    "--clock", type=click.Choice(CLOCKS), default=DEFAULT.clock, show_default=True, help="auto: trace, else events."
)
@click.option("--strict", is_flag=True, help="A warning fails too.")
def command(  # noqa: PLR0913, PLR0917 (click hands each option over)
    baseline: tuple[Path, ...],
    current: tuple[Path, ...],
    output: Path | None,
    layout: str | None,
    junit_file: Path | None,
    warn: float,
    fail: float,
    short_us: float,
    level: float,
    clock: str,
    strict: bool,
) -> int:
    """Compare current reports with a baseline, each target within one toolchain.

    Exit code 0: nothing got worse. 1: something did. 3: nothing did that is known, but the
    infrastructure kept cells from a verdict, or no cell could be compared. 2: a mistake.
    """
    layout = layout or layout_of(output)
    for file in (output, junit_file):
        if file is not None:
            check_output(file, (*baseline, *current))
    thresholds = Thresholds(warn, fail, short_us, level, clock)
    before, now = _merged("--baseline", baseline), _merged("--current", current)
    result = gate(before, now, thresholds, portability_figures(before, now, load_catalog()))
    if junit_file is not None:
        write(junit_file, junit(result))
    if output is None:
        click.echo(render_gate(result, layout, terminal_width()), nl=False)
    else:
        write(output, render_gate(result, layout))
        click.echo(f"{output}: {headline(result)}", err=True)
    return exit_code(result, strict=strict)


def exit_code(result: GateResult, *, strict: bool = False) -> int:
    """What a CI system reads."""
    if result.level is Level.FAIL or (strict and result.level is Level.WARN):
        return EXIT_REGRESSION
    return EXIT_NO_VERDICT if result.infrastructure or not result.compared else 0


def _merged(option: str, paths: tuple[Path, ...]) -> Dataset:
    try:
        return read_reports(paths)
    except ReportError as error:
        raise ReportError(error.message, place=f"{option}: {error.place}", remedy=error.remedy) from error
