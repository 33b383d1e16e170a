#!/usr/bin/env python3
"""How many cells of a tier are judged by emulation at today's source; runs those that are not.

    python scripts/emulated_tier.py reports/emulated-suite-2026-11-30.csv reports/local/*.jsonl [-o CSV]
    python scripts/emulated_tier.py --run reports/local/emulated --seconds 3600 … [-- PYTEST OPTIONS]

A cell is judged once a report, or a table that this script wrote of reports, has a verdict of it from the kernel's
source of today (``source_hash``: comments and docstrings do not count), the variant's parameters of today
(``params``) and by the verdict's rule of today (``rule``). It is right where every such verdict, one a version of
Triton, is ``passed`` or what the matrix expects; where host code asked for what the catalogue does not know of that
target, none can be had. Of several from one version the last counts: tables first, then reports by their time. A
later emulator makes no verdict older.

``--run`` runs what is left, and what was wrong, and may be interrupted: what it judged stands in the folder's
reports, which it reads next time. Exit code 1 where a cell is wrong, with ``--check`` also where one is not judged.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bounded import split, until
from given import reports
from packaging.version import Version
from tabulate import tabulate
from tier_table import (
    FIRST_RULE,
    LEFT,
    Keys,
    State,
    add_options,
    counts,
    expected,
    is_of,
    keys_of,
    read_lines,
    state_of_today,
    write_lines,
)
from told import told

from portkit.errors import ReportError
from portkit.model import VERDICT_RULE, Cell, Direction, Evidence, PlannedCell, Record, Status, digest
from portkit.plan.expand import Emulate, Selection
from portkit.plan.matrix_format import parse_shape
from portkit.run.benchmark import Prepared, prepare
from portkit.run.jobs import KEPT_LAUNCHES
from portkit.store.journal import read_blob, read_report

TARGETS = "mi300x,mi355x,rx7900xtx,rx9070xt,t4,a100,rtx3090,rtx4090,h200,b200,b300,rtx5090"
UNANSWERED = "UnknownPropertyError"
"""What begins the message where host code asked for what the catalogue does not know of a target."""
PARAMS, VERDICT = "variant_params", "verdict"
"""Blobs of what has no room in a record."""
MESSAGE = 100
"""Characters of a message that a table keeps."""


@dataclass(frozen=True)
class Judged:
    """What became of a cell: its status, from which source of the kernel, parameters and rule, with which Triton."""

    status: str
    source_hash: str
    params: str  # of the variant, as a digest; empty where nothing tells them
    rule: str  # version of the verdict's
    triton: str
    message: str = ""  # where it did not pass, as far as it fits

    @property
    def keys(self) -> Keys:
        """What must be of today."""
        return self.source_hash, self.params, self.rule


Found = dict[Cell, dict[tuple[str, str, str, str], Judged]]
"""Cell → source, parameters, rule and version of Triton → what became of it."""


WORST_FIRST = (State.WRONG, State.UNKNOWN, State.EXPECTED, State.PASSED)
"""Of what several versions of Triton gave, what decides."""


@dataclass(frozen=True)
class Line:
    """A line of the table: one verdict of a cell on the targets that share it, by their names."""

    case: str
    direction: str
    shape: str
    dtype: str
    variant: str
    evidence: str
    status: str
    source_hash: str
    params: str
    rule: str
    triton: str
    message: str
    targets: str

    @property
    def cells(self) -> Iterator[Cell]:
        """The cells, one a target."""
        axes = (self.case, Direction(self.direction), parse_shape(self.shape), self.dtype, self.variant)
        return (Cell(*axes, target=name) for name in self.targets.split())


def read(paths: Iterable[Path]) -> Found:
    """Verdicts of tables and reports; of one cell, source, parameters and version of Triton the last one."""
    found: Found = {}
    tables = [path for path in paths if path.suffix == ".csv"]
    reports = sorted((path for path in paths if path.suffix != ".csv"), key=lambda path: path.stem)
    for path in (*tables, *reports):
        for cell, judged in _of_table(path) if path in tables else _of_report(path):
            found.setdefault(cell, {})[*judged.keys, judged.triton] = judged
    return found


def _of_table(path: Path) -> Iterator[tuple[Cell, Judged]]:
    for line in read_lines(path, Line, "emulated_tier.py"):
        for cell in line.cells:
            yield cell, Judged(line.status, line.source_hash, line.params, line.rule, line.triton, line.message)


def _of_report(path: Path) -> Iterator[tuple[Cell, Judged]]:
    for record in read_report(path).records:
        if record.evidence is Evidence.EMULATED and record.outcome.status is not Status.EXCLUDED:
            yield record.cell, _judged(path, record)


def _judged(path: Path, record: Record) -> Judged:
    keys = record.keys.source_hash, _params(path, record), _rule(path, record)
    return Judged(record.outcome.status.value, *keys, record.triton or "", _told(record.outcome.message))


def _rule(path: Path, record: Record) -> str:
    """Version of the rule that judged; empty without the blob that has it. What ended before a verdict is of any."""
    if VERDICT in record.blobs:
        return _of_blob(path, record, VERDICT, lambda verdict: str(verdict.get("rule_version", FIRST_RULE)))
    return str(record.verdict.rule_version if record.verdict else VERDICT_RULE)


def _params(path: Path, record: Record) -> str:
    """The digest of a record's parameters, which are in a blob where they are long; empty without that blob."""
    return _of_blob(path, record, PARAMS, digest) if PARAMS in record.blobs else digest(record.variant_params)


def _of_blob(path: Path, record: Record, name: str, told: Callable[[Any], str]) -> str:
    """What a blob of a record tells; nothing where it is not there."""
    try:
        return told(json.loads(read_blob(path, record.blobs[name])))
    except ReportError:
        return ""


def _told(message: str) -> str:
    """The part of a message that a table keeps."""
    first = max(0, message.find(UNANSWERED))
    return message[first : first + MESSAGE]


def states(prepared: Prepared, found: Found) -> dict[PlannedCell, State]:
    """Where each emulated cell of the plan stands."""
    planned = [each for each in prepared.plan.cells if each.evidence is Evidence.EMULATED and each.excluded is None]
    return {each: _state(each, found.get(each.cell, {}).values(), prepared) for each in planned}


def _state(planned: PlannedCell, judged: Iterable[Judged], prepared: Prepared) -> State:
    now = keys_of(planned.cell, prepared)
    every = [(is_of(now, each), _state_of(planned, each, prepared)) for each in judged]
    earlier = every[-1][1] if every else None
    return state_of_today({state for is_today, state in every if is_today}, earlier, WORST_FIRST)


def _state_of(planned: PlannedCell, judged: Judged, prepared: Prepared) -> State:
    if judged.status == Status.PASSED.value:
        return State.PASSED
    if judged.status == expected(planned, planned.evidence, judged.triton, prepared.matrix):
        return State.EXPECTED
    return State.UNKNOWN if judged.message.startswith(UNANSWERED) else State.WRONG


def table(of: Mapping[PlannedCell, State], prepared: Prepared) -> str:
    """A table in Markdown, a row a target, then the sum."""
    names = dict.fromkeys(each.cell.target for each in of)
    rows = [(f"{name} ({prepared.targets[name].architecture.name})", *_counts(of, {name})) for name in names]
    return tabulate([*rows, ("all", *_counts(of, set(names)))], ["", "cells", *State], tablefmt="github")


def _counts(of: Mapping[PlannedCell, State], targets: set[str]) -> tuple[int, ...]:
    return counts(state for planned, state in of.items() if planned.cell.target in targets)


def version_table(of: Iterable[PlannedCell], found: Found, prepared: Prepared) -> str:
    """The same of today's verdicts, a row a version of Triton."""
    given = [(planned, each) for planned in of for each in found.get(planned.cell, {}).values()]
    today = [(planned, each) for planned, each in given if is_of(keys_of(planned.cell, prepared), each)]
    versions = sorted({each.triton for _, each in today}, key=Version)
    rows = [
        (name, *counts((_state_of(*each, prepared) for each in today if each[1].triton == name), WORST_FIRST[::-1]))
        for name in versions
    ]
    return tabulate(rows, ["Triton", "cells", *WORST_FIRST[::-1]], tablefmt="github")


def wrong(of: Mapping[PlannedCell, State], found: Found, prepared: Prepared) -> Iterator[str]:
    """A line a cell that is wrong, with its verdicts."""
    for planned, state in of.items():
        if state is State.WRONG:
            now = keys_of(planned.cell, prepared)
            every = [each for each in found[planned.cell].values() if is_of(now, each)]
            told = (f"{each.status} with Triton {each.triton}: {each.message}" for each in every)
            yield f"{planned.label}: {'; '.join(told)}"


def lines(of: Mapping[PlannedCell, State], found: Found, prepared: Prepared) -> Iterator[Line]:
    """Lines of the table, as the plan orders cells: today's verdicts, of cells without any the last earlier one."""
    grouped: dict[Line, list[str]] = {}
    for planned in of:
        every = list(found.get(planned.cell, {}).values())
        now = keys_of(planned.cell, prepared)
        for judged in [each for each in every if is_of(now, each)] or every[-1:]:
            grouped.setdefault(_line(planned, judged), []).append(planned.cell.target)
    return (replace(line, targets=" ".join(names)) for line, names in grouped.items())


def _line(planned: PlannedCell, judged: Judged) -> Line:
    cell = planned.cell
    axes = (cell.case, cell.direction.value, cell.shape_text, cell.dtype, cell.variant, planned.evidence.value)
    return Line(*axes, judged.status, *judged.keys, judged.triton, judged.message, "")


def write(path: Path, rows: Iterable[Line]) -> None:
    """The table as CSV."""
    write_lines(path, Line, rows)


def left(of: Mapping[PlannedCell, State]) -> list[PlannedCell]:
    """Cells that are to run."""
    return [planned for planned, state in of.items() if state in LEFT]


def run(cells: Sequence[PlannedCell], arguments: argparse.Namespace, options: Sequence[str]) -> None:
    """Run cells by ``pytest --benchmark`` until the time is over; of launches that are equal one is executed."""
    with (
        tempfile.TemporaryDirectory() as kept,
        tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as names,
    ):
        names.writelines(f"{arguments.matrix.resolve()}::{planned.label}\n" for planned in cells)
        names.flush()
        command = [sys.executable, "-m", "pytest", "--benchmark", f"@{names.name}", "-q", "-p", "no:cacheprovider"]
        chosen = ["--portkit-tier", arguments.tier, "--portkit-target", arguments.target]
        folder = ["--portkit-report", str(arguments.run.resolve()), "--portkit-no-texts", "--portkit-emulate", "all"]
        until(command + chosen + folder + list(options), arguments.seconds, {KEPT_LAUNCHES: kept})


def main(arguments: Sequence[str]) -> int:
    """Run what is left if asked to, and tell where the tier stands."""
    own, options = split(arguments)
    chosen = _parser().parse_args(own)
    found = _found(chosen)  # before the plan takes its time: whether they can be read
    selection = Selection(tuple(chosen.target.split(",")))
    prepared = prepare(chosen.matrix, tier=chosen.tier, selection=selection, emulate=Emulate.ALL)
    if chosen.run:
        cells = left(states(prepared, found))
        if cells:
            run(cells, chosen, options)
            found = _found(chosen)
    of = states(prepared, found)
    print(table(of, prepared))
    if chosen.versions:
        print(version_table(of, found, prepared))
    print(*wrong(of, found, prepared), sep="\n")
    if chosen.output:
        write(chosen.output, lines(of, found, prepared))
    return int(State.WRONG in of.values() or (chosen.check and bool(left(of))))


def _found(chosen: argparse.Namespace) -> Found:
    """Verdicts of the files and of the folder of the run as it is now."""
    tables = [path for path in chosen.files if path.suffix == ".csv"]
    named = reports(path for path in chosen.files if path not in tables)
    return read([*tables, *named, *(chosen.run.glob("*.jsonl") if chosen.run else ())])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "reports, and tables of this script")
    parser.add_argument("--target", default=TARGETS, help="names, with commas between (%(default)s)")
    parser.add_argument("--versions", action="store_true", help="tell the verdicts of each version of Triton, too")
    parser.add_argument("--run", type=Path, metavar="FOLDER", help="run what is left; where the reports go")
    return parser


if __name__ == "__main__":
    sys.exit(told(partial(main, sys.argv[1:])))
