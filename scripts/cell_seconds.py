#!/usr/bin/env python3
"""What measured cells cost a GPU host, by stage: seconds in all and a cell.

    .venv/bin/python scripts/cell_seconds.py REPORT... [--most 3]
    .venv/bin/python scripts/cell_seconds.py REPORT --wall 95.2    # seconds that the whole command took

Stages are those of the records; ``counters`` is the profiler's runs, start and reading
included. The first calls of torch.compile stand apart, since how long its compiler takes
says nothing of portkit, and those of libraries, which build their kernels then, beside them. Where
a report has measured cells alone and was not resumed, ``around cells`` is what is left of its
GPUs' time from start to end: processes that start, and the ceilings of the devices; it knows
whole seconds only, and begins when the cells are known. With ``--wall``, which the shell's ``time``
tells, it has all of the command, from its first moment. The exit code is 1 where a cell takes
more than ``--most`` seconds, torch.compile apart, and 2 where no cell was measured.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from given import reports
from tabulate import tabulate
from told import seconds, told

from portkit.errors import ReportError
from portkit.model import Evidence, Record, Stage
from portkit.plan.baselines import COMPILE, MAX_AUTOTUNE
from portkit.run.counters.taking import is_counted
from portkit.store.journal import Report, read_report

MOST = 3.0
"""Seconds a cell."""

COMPILERS = (COMPILE, MAX_AUTOTUNE)
APART = "torch.compile, first calls"
LIBRARIES = "other baselines, first calls"
COUNTERS = "counters"
AROUND = "around cells"
"""Lines beside the stages."""


def seconds_of(report: Report, wall: float | None = None) -> tuple[dict[str, float], int]:
    """Seconds of the measured cells by stage, and how many cells that are.

    Args:
        report: of the run.
        wall: seconds that its command took, if known.

    Raises:
        ReportError: it is asked what is left of them, and the report has other cells or was resumed; or
            only some cells have counters, which took what time nobody knows.
    """
    _check_counters(report)
    measured = [record for record in report.records if record.evidence is Evidence.MEASURED and record.stage_seconds]
    spent = summed(map(_of_cell, measured))
    spent[COUNTERS] = sum(each.seconds or 0.0 for each in report.counters.values())
    if (whole := _whole(report, len(measured), wall)) is not None:
        spent[AROUND] = max(0.0, whole - sum(spent.values()))
    return spent, len(measured)


def _check_counters(report: Report) -> None:
    wanted = {record.keys.cell_key for record in filter(is_counted, report.records)}
    counted = {key for key, evidence in report.counters if evidence == Evidence.MEASURED.value}
    if counted and (missing := len(wanted - counted)):
        raise ReportError(
            f"{missing} of {len(wanted)} measured cells have no counters yet",
            place=report.path,
            remedy="go on with the run (--portkit-resume), or give the report of one that was not broken off",
        )


def summed(each: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Seconds of all by stage."""
    spent: dict[str, float] = {}
    for stages in each:
        for stage, took in stages.items():
            spent[stage] = spent.get(stage, 0.0) + took
    return spent


def _of_cell(record: Record) -> dict[str, float]:
    first = {name: found.first_call_seconds or 0.0 for name, found in record.baselines.items()}
    apart = sum(seconds for name, seconds in first.items() if name in COMPILERS)
    spent = {str(stage): seconds for stage, seconds in record.stage_seconds.items()}
    spent[Stage.BASELINE] = max(0.0, spent.get(Stage.BASELINE, 0.0) - sum(first.values()))
    return {**spent, APART: apart, LIBRARIES: sum(first.values()) - apart}


def _whole(report: Report, measured: int, wall: float | None) -> float | None:
    """The time of all GPUs that were used; None where the report can't tell."""
    if report.end is None or report.resumes or measured != len(report.records):
        if wall is not None:
            raise ReportError(
                "has cells that were not measured, was resumed or has no end",
                place=report.path,
                remedy="drop --wall, or give the report of a run of measured cells alone",
            )
        return None
    start, end = (datetime.datetime.fromisoformat(each) for each in (report.header.started, report.end.finished))
    gpus = len({record.device_id for record in report.records})
    return gpus * ((end - start).total_seconds() if wall is None else wall)


def _rows(spent: Mapping[str, float], cells: int) -> Iterable[tuple[str, float, float]]:
    order = [*(stage for stage in Stage if stage in spent), LIBRARIES, COUNTERS, AROUND]
    for name in (name for name in order if name in spent):
        yield name, spent[name], spent[name] / cells
    own = sum(spent.values()) - spent[APART]
    yield "together", own, own / cells
    yield APART, spent[APART], spent[APART] / cells


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", type=Path, help="reports, folders or archives of them")
    parser.add_argument("--most", type=float, default=MOST, help="seconds that a cell may take (%(default)s)")
    parser.add_argument("--wall", type=seconds, help="seconds that the command of the one report took")
    options = parser.parse_args()
    paths = reports(options.reports)
    if options.wall is not None and len(paths) > 1:
        parser.error("--wall goes with one report")
    found = [seconds_of(read_report(path), options.wall) for path in paths]
    spent, cells = summed(each for each, _ in found), sum(counted for _, counted in found)
    if not cells:
        print("no cell was measured, or by a portkit that did not time its stages", file=sys.stderr)
        return 2
    print(tabulate(_rows(spent, cells), ["stage", "s", "s a cell"], floatfmt=("", ".2f", ".2f")))
    a_cell = (sum(spent.values()) - spent[APART]) / cells
    print(f"{cells} cells, {a_cell:.2f} s a cell apart from torch.compile; at most {options.most:g} s wanted")
    return 0 if a_cell <= options.most else 1


if __name__ == "__main__":
    sys.exit(told(main))
