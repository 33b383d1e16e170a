"""``portkit fleet``: the matrix on many hosts, through ReFrame."""

from __future__ import annotations

import gc
import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from portkit.analysis.expected import expect
from portkit.analysis.rows import comparison
from portkit.cli.names import names
from portkit.cli.options import PATH, fleet_option
from portkit.cli.outputs import TABLE_SUFFIXES, check_output, layout_of, rows_of, terminal_width, write
from portkit.errors import FleetError
from portkit.fleet.conclude import JobState, causes, exit_code, expected_targets, job_states, red_records
from portkit.fleet.drive import Driver, fleet_of, open_jobs
from portkit.fleet.engine import check_engine
from portkit.fleet.reframe_site import site, site_text
from portkit.fleet.runs import DEFAULT_FOLDER, LATEST, FleetRun, create_run, find_run
from portkit.fleet.site import Fleet, chosen, read_fleet
from portkit.fleet.source import check_source, collect_source
from portkit.fleet.starter import starter
from portkit.fleet.status import COLUMNS, lines
from portkit.render.table import render
from portkit.store.merge import Dataset, merge

SITE_FILE = "reframe-site.yaml"
CELLS_SHOWN = 5
folder_option = click.option(
    "--folder", type=PATH, default=DEFAULT_FOLDER, show_default=True, help="Folder of the runs of fleets."
)
output_option = click.option("-o", "--output", type=PATH, help="File to write the merged table to.")


@click.group("fleet", short_help="The matrix on many hosts, merged.")
def command() -> None:
    """Run the matrix on a Slurm cluster, over ssh and on this host, and merge the reports.

    Exit code of run and resume: 0, all is there and good. 1: a cell failed. 3: none did, but
    a job or a cell came to no verdict, as where a SKU is absent. 2: a mistake.
    """


@command.command("init")
@fleet_option
@click.option("--site", "site_file", type=PATH, help=f"ReFrame's site file to write.  [default: {SITE_FILE} beside it]")
def init(fleet_file: Path, site_file: Path | None) -> None:
    """Check the fleet file and write ReFrame's site file of it; where there is none, write one to begin with."""
    if not fleet_file.exists():
        write(fleet_file, starter(fleet_file.parent))
        click.echo(f"{fleet_file}: written, for this host; add your places and call this again")
    fleet = read_fleet(fleet_file)
    check_source(fleet)
    click.echo(tabulate(_places(fleet), ("place", "target", "GPUs", "reached by", "optional")))
    site_file = site_file or fleet_file.parent / SITE_FILE
    write(site_file, site_text(site(fleet)))
    click.echo(f"{site_file}: written")


@command.command("run")
@fleet_option
@folder_option
@click.option(
    "-t", "--targets", default="", metavar="NAMES", help="Targets, or names of places, with commas.  [default: all]"
)
@output_option
def run_(fleet_file: Path, folder: Path, targets: str, output: Path | None) -> int:
    """Send a job to every place, merge what comes back, and say what is missing and why."""
    check_engine()
    layout = _layout(output)
    fleet = read_fleet(fleet_file)
    places = list(chosen(fleet, names(targets)))
    if not places:
        raise FleetError("no place is reached without a CI system", place=str(fleet_file), remedy="add a place")
    check_source(fleet)  # before there is a run
    run = create_run(folder, fleet, places)
    collect_source(fleet, run.source)
    click.echo(f"run {run.name}: {len(run.jobs())} jobs", err=True)
    with _stoppable(run):
        Driver(run, fleet, _say).carry_out(run.jobs())
    return _conclude(run, fleet, output, layout)


@command.command("resume")
@click.argument("run_id", metavar="RUN", default=LATEST)
@folder_option
@click.option("-t", "--targets", default="", metavar="NAMES", help="Of the jobs that are not done, these alone.")
@output_option
def resume(run_id: str, folder: Path, targets: str, output: Path | None) -> int:
    """Go on with RUN: take up what its jobs did meanwhile, and send those again that are not done."""
    check_engine()
    layout = _layout(output)
    run = find_run(folder, run_id)
    fleet = fleet_of(run)
    driver = Driver(run, fleet, _say)
    with _stoppable(run):
        driver.take_up()
        driver.carry_out(list(open_jobs(run, names(targets))))
    return _conclude(run, fleet, output, layout)


@command.command("status")
@click.argument("run_id", metavar="RUN", default=LATEST)
@folder_option
@click.option("--json", "as_json", is_flag=True, help="Every attempt, as JSON.")
def status(run_id: str, folder: Path, as_json: bool) -> None:
    """How RUN stands, also while it goes on: each job, its attempt and its cause."""
    run = find_run(folder, run_id)
    if as_json:
        click.echo("[" + ",\n".join(json.dumps(asdict(attempt)) for attempt in run.attempts()) + "]")
        return
    states = job_states(run, fleet_of(run))
    click.echo(f"run {run.name}")
    click.echo(_job_table(run, states))
    if any(state.failed for state in states):
        click.echo(f"go on with: portkit fleet resume {run.name}")


def _say(text: str) -> None:
    click.echo(text, err=True)


@contextmanager
def _stoppable(run: FleetRun) -> Iterator[None]:
    """SIGTERM stops as Ctrl-C does: jobs are cancelled and what they did is kept."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"stopped; go on with: portkit fleet resume {run.name}", err=True)
        raise click.Abort from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _places(fleet: Fleet) -> Iterator[tuple[str, str, int, str, str]]:
    backends = {each["name"]: each["scheduler"] for each in site(fleet)["systems"][0]["partitions"]}
    for place in fleet.places:
        reached = backends.get(place.name, "CI alone")
        yield place.name, place.target, place.count, reached, "optional" if place.optional else ""


def _layout(output: Path | None) -> str:
    if output is not None:
        check_output(output, ())
    return layout_of(output, TABLE_SUFFIXES)


def _job_table(run: FleetRun, states: Sequence[JobState]) -> str:
    rows = [astuple(line) for line in lines(run, states)]
    return tabulate(rows, COLUMNS, disable_numparse=True, maxcolwidths=[None] * 5 + [70])


def _conclude(run: FleetRun, fleet: Fleet, output: Path | None, layout: str) -> int:
    """Merge, show, and give the exit code."""
    states = job_states(run, fleet)
    dataset = merge([run.reports]) if any(run.reports.rglob("*.jsonl")) else None
    gc.freeze()  # the records stay to the end: no search for garbage among them
    if dataset is None:
        click.echo("no report came back, so there is no table")
    else:
        _put_table(dataset, expected_targets(states), output, layout)
    click.echo(f"\n{_job_table(run, states)}")
    red = red_records(states, dataset)
    for cause, labels in causes(red).items():
        more = f" and {len(labels) - CELLS_SHOWN} more" if len(labels) > CELLS_SHOWN else ""
        click.echo(f"{cause}: {', '.join(labels[:CELLS_SHOWN])}{more}")
    code = exit_code(states, red)
    click.echo(f"reports: {run.reports}   exit code {code}")
    return code


def _put_table(dataset: Dataset, expected: tuple[str, ...], output: Path | None, layout: str) -> None:
    merged = expect(comparison(dataset), expected)
    text = render(merged, layout, None, None if output else terminal_width())
    if output is None:
        click.echo(text, nl=False)
    else:
        write(output, text)
        click.echo(f"{output}: {rows_of(len(merged.rows), len(merged.runs))}", err=True)
    if merged.missing:
        click.echo(f"MISSING: no row of {', '.join(merged.missing)}", err=True)
