#!/usr/bin/env python3
"""Wall time and peak memory of the driver of a fleet, when the reports of all hosts are there, against its budget.

    .venv/bin/python scripts/measure_fleet.py [--hosts 50] [--cells 2000] [--keep FOLDER]

A run of a fleet is laid out as its jobs leave it: a job a host, each with a report of so many cells (lines as
the real writer makes them, of the kept report's records, measured and compiled, with other cells and times).
``portkit fleet resume`` then has no job to send, and does the rest: it merges, shows the table and each job,
and gives the exit code. Five hosts have one SKU.

The exit code is 1 where the budget is exceeded. The time for which the driver waited for a core that other processes
had is shown, and does not count; a busy machine slows the rest down, too.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

from measure_merge import FIGURES, Measured, Template, content, figures, kept_records, kept_report, measure, place
from ruamel.yaml import YAML
from tabulate import tabulate

from portkit.fleet.runs import Attempt, Cause, FleetRun, create_run, new_nonce
from portkit.fleet.site import Fleet, read_fleet
from portkit.model import Header
from portkit.targets.catalog import load_catalog

SECONDS, GIB = 60.0, 1.0
"""Budget of the driver: 50 hosts of 2,000 cells each."""

HOSTS_OF_A_SKU = 5


def fleet_of(folder: Path, hosts: int) -> Fleet:
    """A fleet of so many hosts, five a SKU."""
    skus = [target.name for target in load_catalog()]
    entries = [
        {"target": skus[number // HOSTS_OF_A_SKU % len(skus)], "name": f"host{number:03}", "host": f"host{number:03}"}
        for number in range(hosts)
    ]
    path = folder / "fleet.yaml"
    with path.open("w") as file:
        YAML(typ="safe").dump({"places": entries}, file)
    return read_fleet(path)


def lay_out(folder: Path, hosts: int, cells: int) -> FleetRun:
    """The folder of a run whose jobs are all done."""
    fleet = fleet_of(folder, hosts)
    run = create_run(folder / "runs", fleet, fleet.reachable)
    templates = [Template.of(record) for record in kept_records()]
    for number, job in enumerate(run.jobs()):
        header = _header(number, cells, job.target)
        report = run.reports / f"{job.name}.1" / f"{header.run_id}.jsonl"
        report.parent.mkdir()
        night, machine = number % HOSTS_OF_A_SKU, number // HOSTS_OF_A_SKU  # hosts of a SKU have the same cells
        report.write_bytes(content(header, templates, night, machine))
        name = f"{report.parent.name}/{report.name}"
        when = header.started
        run.add(Attempt(job.name, 1, new_nonce(), when, when, Cause.DONE, records=cells, cells=cells, reports=(name,)))
    return run


def _header(number: int, cells: int, target: str) -> Header:
    kept = kept_report().header
    host = dataclasses.replace(kept.host, host_id=f"host{number:04}")
    started = f"2026-01-01T00:00:{number % 60:02}+00:00"
    changes = {"run_id": f"run-{number:05}", "started": started, "cells": cells, "host": host, "targets": (target,)}
    return dataclasses.replace(kept, failures={}, **changes)


def conclude(run: FleetRun) -> Measured:
    """What the driver does when all jobs are done, in a process of its own."""
    return measure("conclude", ["fleet", "resume", str(run.folder), "-o", str(run.folder / "merged.md")])


def main() -> int:
    """Print the figures and whether the budget is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--cells", type=int, default=2000, help="of each host")
    parser.add_argument("--keep", type=Path, help="folder for what is written; by default it is removed")
    options = parser.parse_args()
    with place(options.keep) as folder:
        run = lay_out(folder, options.hosts, options.cells)
        found = conclude(run)
        size = sum(path.stat().st_size for path in run.reports.rglob("*.jsonl"))
    row = (options.hosts, options.cells, size >> 20, *figures(found))
    print(tabulate([row], ["hosts", "cells of each", "MiB", *FIGURES], disable_numparse=True))
    return 0 if found.exit_code in (0, 1) and found.alone_seconds <= SECONDS and found.peak_gib <= GIB else 1


if __name__ == "__main__":
    sys.exit(main())
