"""``portkit findings``: what differs between targets, as text or as data."""

from __future__ import annotations

from pathlib import Path

import click

from portkit.analysis.choice import any_matches, check_known, matches
from portkit.analysis.findings import Finding, Severity, findings, rules
from portkit.cli.names import names
from portkit.cli.options import kernels_option, paths_argument, targets_option, triton_option
from portkit.cli.outputs import terminal_width
from portkit.cli.reading import read_reports
from portkit.errors import ReportError
from portkit.render.findings import LAYOUTS


@click.command("findings", short_help="What differs between targets, why, what it costs and what to change.")
@paths_argument
@click.option("--format", "layout", type=click.Choice(sorted(LAYOUTS)), default="plain", show_default=True)
@click.option("-r", "--rule", "wanted", metavar="IDS", default="", help="Rules by id or pattern (PK2*), with commas.")
@kernels_option
@targets_option
@click.option(
    "--severity",
    type=click.Choice([each.value for each in Severity]),
    default=Severity.INFO.value,
    show_default=True,
    help="The least grave to show.",
)
@triton_option
def command(  # one option each
    paths: tuple[Path, ...], layout: str, wanted: str, kernels: str, targets: str, severity: str, triton: str | None
) -> None:
    """What differs between targets, why, what it costs and what to change.

    PATHS are reports, archives of reports, or folders of them; reports/local by default.
    """
    dataset = read_reports(paths, triton)
    chosen = [each for each in rules() if matches(each.id, names(wanted.upper()))]
    if not chosen:
        raise ReportError(f"no rule {wanted!r}", remedy="`portkit explain` lists the rules")
    cells = [row.record.cell for row in dataset.rows]
    check_known("kernel", names(kernels), {cell.case for cell in cells})
    check_known("target", names(targets), {cell.target for cell in cells})
    most = Severity(severity).rank
    found = [
        each
        for each in findings(dataset, only=chosen)
        if each.severity.rank <= most and _is_of(each, names(kernels), names(targets))
    ]
    text = LAYOUTS[layout](found, None, terminal_width())
    click.echo(text or "no findings")


def _is_of(found: Finding, kernels: list[str], targets: list[str]) -> bool:
    return matches(found.kernel, kernels) and (not targets or any_matches(found.targets, targets))
