"""``portkit savings``: what fusion saves of a forward pass, in time, GPU-hours and money."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from portkit.analysis.choice import check_known, matches
from portkit.analysis.functions import FUSED
from portkit.analysis.rows import Comparison, comparison
from portkit.analysis.savings import BILLION, Place, Question, measured_places, measured_works, savings
from portkit.cli.names import names
from portkit.cli.options import PATH, paths_argument, targets_option
from portkit.cli.outputs import check_output, write
from portkit.cli.reading import under_way
from portkit.cli.waiting import said_while
from portkit.errors import PricesError, ReportError, WorkloadError, nearest
from portkit.plan.baselines import EAGER
from portkit.plan.prices import Price, load_prices
from portkit.plan.workloads import LARGEST, Declaration, Workload, load_workloads
from portkit.render.savings import as_json, listed, matrix, text
from portkit.store.merge import merge
from portkit.targets.catalog import load_catalog


@click.command("savings", short_help="What fusion saves of a model's forward pass: time, GPU-hours, money.")
@paths_argument
@click.option("-w", "--workload", "wanted", metavar="NAMES", default="", help="Workloads by name, with commas.")
@click.option("--list", "only_list", is_flag=True, help="List the workloads that are known, and their parameters.")
@click.option("--set", "given", metavar="NAME=N", multiple=True, help="Parameter of the workloads; may be repeated.")
@click.option("--workloads", "workload_files", type=PATH, multiple=True, help="YAML file with workloads of your own.")
@click.option("--prices", "price_files", type=PATH, multiple=True, help="YAML file with your prices; it goes first.")
@targets_option
@click.option("--baseline", metavar="NAME", default=EAGER, show_default=True, help="What fused kernels stand against.")
@click.option(
    "--tokens",
    type=click.IntRange(1, LARGEST),
    default=BILLION,
    show_default=True,
    help="Size of the job that is billed.",
)
@click.option("--missing", type=PATH, help="File to write: a matrix of the cells that are not measured.")
@click.option("--json", "wants_json", is_flag=True, help="All figures as JSON.")
def command(  # noqa: PLR0913, PLR0917 (click hands each option over)
    paths: tuple[Path, ...],
    wanted: str,
    only_list: bool,
    given: tuple[str, ...],
    workload_files: tuple[Path, ...],
    price_files: tuple[Path, ...],
    targets: str,
    baseline: str,
    tokens: int,
    missing: Path | None,
    wants_json: bool,
) -> None:
    """What fusion saves of a model's forward pass: time, launches, bytes, GPU-hours and money.

    PATHS are reports, archives of reports, or folders of them; reports/local by default. Only their
    measured rows count, and only those of the very shapes that the workload has.
    """
    declared = load_workloads(workload_files)
    if only_list:
        click.echo(listed(declared))
        return
    workloads = _workloads(declared, names(wanted), _parameters(given, declared, names(wanted)))
    if missing is not None:
        _check_matrix_name(missing, paths)
    with said_while(under_way("reading reports")):
        dataset = merge(paths)
        compared = comparison(dataset, explain=False)
    places = _places(compared, names(targets))
    _check_baseline(compared, baseline)
    prices, works = _prices(price_files, compared), measured_works(dataset)
    questions = [Question(each, baseline, tokens) for each in workloads]
    found = [savings(compared, works, prices, question, place) for question in questions for place in places]
    if missing is not None:
        _write_missing(missing, matrix(found) if any(each.missing for each in found) else None)
    click.echo(as_json(found) if wants_json else text(found, str(missing) if missing else None))


def _workloads(
    declared: Mapping[str, Declaration], wanted: Sequence[str], given: Mapping[str, int]
) -> Sequence[Workload]:
    if not wanted:
        raise WorkloadError("no workload is named", place="--workload", remedy=f"name one of {', '.join(declared)}")
    return [declared[name].workload(given) for name in wanted]


def _parameters(given: Sequence[str], declared: Mapping[str, Declaration], wanted: Sequence[str]) -> Mapping[str, int]:
    for name in wanted:
        if name not in declared:
            raise WorkloadError(f"unknown workload {name!r}", place="--workload", remedy=nearest(name, declared))
    known = {parameter for name in wanted for parameter in declared[name].entry.parameters}
    return dict(_parameter(each, known) for each in given)


def _parameter(text: str, known: set[str]) -> tuple[str, int]:
    name, _, value = text.partition("=")
    if name not in known:
        raise WorkloadError(f"no such parameter {name!r}", place="--set", remedy=nearest(name, known))
    if not (value.isascii() and value.isdigit()) or not 0 < int(value) <= LARGEST:
        raise WorkloadError(f"{text!r} sets no positive whole number", place="--set", remedy=f"write {name}=64")
    return name, int(value)


def _places(compared: Comparison, wanted: Sequence[str]) -> Sequence[Place]:
    """Targets with measured rows, or those that were asked for."""
    check_known("target", wanted, {row.target for row in compared.rows})
    measured = measured_places(compared.rows)
    if not wanted:
        if not measured:
            raise ReportError(
                "no row is measured, and compiled or emulated rows have no time and give no money",
                remedy="run pytest --benchmark on a host with the GPU, and name its report",
            )
        return measured
    others = ((row.target, row.partition) for row in compared.rows)
    return [place for place in dict.fromkeys((*measured, *others)) if matches(place[0], wanted)]


def _check_baseline(compared: Comparison, baseline: str) -> None:
    timed = {each.name for row in compared.rows for each in row.functions if each.events is not None}
    known = timed - {FUSED}
    if timed and baseline not in known:
        raise ReportError(f"no baseline {baseline!r} was timed", place="--baseline", remedy=nearest(baseline, known))


def _prices(files: Sequence[Path], compared: Comparison) -> Mapping[str, Price]:
    prices = load_prices(files)
    known = {row.target for row in compared.rows} | {each.name for each in load_catalog()}
    for name, price in prices.items():
        if name not in known:
            raise PricesError(f"no target is named {name!r}", place=price.place, remedy=nearest(name, known))
    return prices


def _check_matrix_name(file: Path, paths: Sequence[Path]) -> None:
    if file.suffix not in (".yaml", ".yml"):
        raise ReportError("a matrix is a YAML file", place=str(file), remedy="end its name in .yaml")
    check_output(file, paths)


def _write_missing(file: Path, cells: str | None) -> None:
    if cells is None:
        click.echo(f"{file}: not written, for nothing is missing", err=True)
        return
    write(file, cells)
    click.echo(f"{file}: a matrix of what is not measured", err=True)
