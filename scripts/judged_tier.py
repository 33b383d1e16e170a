#!/usr/bin/env python3
"""How many cells of a tier are judged on a GPU at today's source; judges those that are not, and times nothing.

    python scripts/judged_tier.py reports/judged-h200-2026-11-30.csv
    python scripts/judged_tier.py --run reports/local/judged.csv --seconds 3600 reports/judged-h200-2026-11-30.csv

A cell is judged once a table that this script wrote has a verdict of it from the kernel's source of today
(``source_hash``: comments and docstrings do not count), the variant's parameters of today (``params``) and by the
verdict's rule of today (``rule``). It is right where the last such verdict is ``passed`` or what the matrix expects.

``--run`` judges what is left, and what was wrong, on the first GPU of this process, and adds a line a cell to its
table as soon as that is known: it may be interrupted or killed, and goes on from there next time. The verdict is that
of a measured cell: fused function, unfused chain and float64 reference, negative controls, input families, three
runs bit by bit. An autotuner calls each of its configurations and takes the one that was fastest once, beside
others. Exit code 1 where a cell is wrong, with ``--check`` also where one is not judged.

Two GPUs of a host share the work by two runs with tables of their own and one ``--beside`` folder, which is new: what
an earlier run named in it is left out, and that is told at the end. Most of the time goes into builds:
``compile_ahead.py --own`` makes them on cores that this run leaves.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import math
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import forked
from tabulate import tabulate
from tier_table import (
    LEFT,
    Keys,
    Lines,
    State,
    add_options,
    counts,
    expected,
    has_word,
    is_of,
    keys_of,
    read_lines,
    state_of_today,
    write_lines,
)
from told import seconds, told

from portkit.errors import HostError
from portkit.model import Cell, Device, Direction, Evidence, Outcome, PlannedCell, Status
from portkit.plan.expand import Emulate, Selection
from portkit.plan.matrix_format import parse_shape
from portkit.run.benchmark import Prepared, prepare

TARGET = "h200"
SCRIPT = "judged_tier.py"
MESSAGE = 200
"""Characters of a message that a table keeps."""
STATES = tuple(state for state in State if state is not State.UNKNOWN)
WORST_FIRST = (State.WRONG, State.EXPECTED, State.PASSED)


@dataclass(frozen=True)
class Line:
    """A line of the table: one verdict of a cell."""

    case: str
    direction: str
    shape: str
    dtype: str
    variant: str
    status: str
    source_hash: str
    params: str  # of the variant, as a digest
    rule: str  # version of the verdict's
    triton: str
    device: str
    message: str

    @property
    def keys(self) -> Keys:
        """What must be of today."""
        return self.source_hash, self.params, self.rule

    def cell(self, target: str) -> Cell:
        """The cell, of a target."""
        axes = (self.case, Direction(self.direction), parse_shape(self.shape), self.dtype, self.variant)
        return Cell(*axes, target=target)


Found = dict[Cell, list[Line]]
"""Cell → its verdicts, the last one last."""


def read(paths: Iterable[Path], target: str) -> Found:
    """Verdicts of tables, in their order."""
    found: Found = {}
    for path in paths:
        for line in read_lines(path, Line, SCRIPT):
            found.setdefault(line.cell(target), []).append(line)
    return found


def planned_cells(prepared: Prepared, target: str) -> dict[Cell, PlannedCell]:
    """Cells of a target that the plan does not leave out."""
    own = (each for each in prepared.plan.cells if each.cell.target == target and each.excluded is None)
    return {each.cell: each for each in own}


def states(prepared: Prepared, target: str, found: Found) -> dict[Cell, State]:
    """Where each cell of the plan stands."""
    return {
        cell: _state(planned, found.get(cell, []), prepared)
        for cell, planned in planned_cells(prepared, target).items()
    }


def _state(planned: PlannedCell, lines: list[Line], prepared: Prepared) -> State:
    now = keys_of(planned.cell, prepared)
    every = [(is_of(now, line), _state_of(planned, line, prepared)) for line in lines]
    today = [state for is_today, state in every if is_today]
    return state_of_today(today[-1:], every[-1][1] if every else None, WORST_FIRST)


def _state_of(planned: PlannedCell, line: Line, prepared: Prepared) -> State:
    if line.status == Status.PASSED.value:
        return State.PASSED
    known = expected(planned, Evidence.MEASURED, line.triton, prepared.matrix)
    return State.EXPECTED if line.status == known else State.WRONG


def table(of: Mapping[Cell, State]) -> str:
    """A table in Markdown, a row a case, then the sum."""
    names = dict.fromkeys(cell.case for cell in of)
    rows = [(name, *counts((s for cell, s in of.items() if cell.case == name), STATES)) for name in names]
    return tabulate([*rows, ("all", *counts(of.values(), STATES))], ["", "cells", *STATES], tablefmt="github")


def wrong(of: Mapping[Cell, State], found: Found) -> Iterator[str]:
    """A line a cell that is wrong, with its last verdict."""
    for cell, state in of.items():
        if state is State.WRONG:
            last = found[cell][-1]
            yield f"{cell.label(Evidence.MEASURED)}: {last.status} with Triton {last.triton}: {last.message}"


def kept(of: Mapping[Cell, State], found: Found, prepared: Prepared) -> Iterator[Line]:
    """The last verdict of each cell, of today's source where there is one, as the plan orders cells."""
    for cell in of:
        lines, now = found.get(cell, []), keys_of(cell, prepared)
        yield from ([line for line in lines if is_of(now, line)] or lines)[-1:]


def left(of: Mapping[Cell, State], words: Iterable[str]) -> list[Cell]:
    """Cells that are to be judged; where words are given, those whose label has one of them."""
    some = list(words)
    return [cell for cell, state in of.items() if state in LEFT and (not some or has_word(some, cell))]


def run(cells: list[Cell], chosen: argparse.Namespace, prepared: Prepared, until: float) -> None:
    """Judge cells until the time is over, of the monotonic clock, and add each verdict to the table."""
    from judged_groups import GIB, Claims, Queue, grouped  # noqa: PLC0415 - loads PyTorch and Triton
    from judging import Judges, room  # noqa: PLC0415

    device = device_of(prepared, chosen.target)
    free = room(min(0.96 * device.memory_bytes, chosen.memory * GIB), chosen.workers)
    sources = {name: declaration.source for name, declaration in prepared.declarations.items()}
    lines = Lines(chosen.run, Line, SCRIPT)
    begun = time.monotonic()

    def add(cell: Cell, outcome: Outcome) -> None:
        _add(lines, prepared, device.name, cell, outcome)
        if chosen.verbose:
            after = time.monotonic() - begun
            print(f"{after:8.1f} s  {cell.label(Evidence.MEASURED)}: {outcome.status}", file=sys.stderr)

    groups = grouped(cells, sources, partial(has_word, chosen.last))
    claims = Claims(chosen.beside) if chosen.beside else None
    queue = Queue(free, claims) if claims else Queue(free)
    try:
        Judges(queue, add, chosen.workers, limit=chosen.limit).run(groups, until - time.monotonic())
    finally:
        lines.close()
        if claims and claims.told:
            print(claims.told, file=sys.stderr)


def _add(lines: Lines, prepared: Prepared, device: str, cell: Cell, outcome: Outcome) -> None:
    message = "" if outcome.status is Status.PASSED else " ".join(outcome.message.split())[:MESSAGE]
    axes = (cell.case, cell.direction.value, cell.shape_text, cell.dtype, cell.variant, outcome.status.value)
    lines.add(Line(*axes, *keys_of(cell, prepared), importlib.metadata.version("triton"), device, message))


def device_of(prepared: Prepared, target: str) -> Device:
    """The GPU of this host that cells are judged on.

    Raises:
        HostError: there is none of the target.
    """
    for device in prepared.devices:
        if device.target == target:
            return device
    here = ", ".join(device.target for device in prepared.devices)
    if not here:
        raise HostError(
            "no GPU is here to judge on", remedy="run it on a host with one; without --run it tells the table"
        )
    raise HostError(f"no GPU of the target {target} is here, but {here}", remedy="name another with --target")


def main(arguments: list[str]) -> int:
    """Judge what is left if asked to, and tell where the tier stands."""
    chosen = _parser().parse_args(arguments)
    until = time.monotonic() + (chosen.seconds or math.inf)
    found = _found(chosen)  # before the plan takes its time: whether they can be read
    if chosen.run:
        forked.begin()
    prepared = prepare(chosen.matrix, tier=chosen.tier, selection=Selection((chosen.target,)), emulate=Emulate.OFF)
    if chosen.run and (cells := left(states(prepared, chosen.target, found), chosen.k)):
        run(cells, chosen, prepared, until)
        found = _found(chosen)
    of = states(prepared, chosen.target, found)
    print(table(of), *wrong(of, found), sep="\n")
    if chosen.output:
        write_lines(chosen.output, Line, list(kept(of, found, prepared)))
    return int(State.WRONG in of.values() or (chosen.check and any(state in LEFT for state in of.values())))


def _found(chosen: argparse.Namespace) -> Found:
    """Verdicts of the files, and of the table of the run as it is now."""
    own = [chosen.run] if chosen.run and chosen.run.exists() else []
    return read([*chosen.files, *own], chosen.target)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "tables of this script")
    parser.add_argument("--target", default=TARGET, help="whose cells; with --run, that of the GPU (%(default)s)")
    parser.add_argument("--run", type=Path, metavar="TABLE", help="judge what is left; where lines are added")
    parser.add_argument("-k", action="append", default=[], metavar="WORD", help="only cells whose label has it")
    parser.add_argument("--last", action="append", default=[], metavar="WORD", help="cells that are judged last")
    parser.add_argument("--memory", type=float, default=math.inf, metavar="GIB", help="of the GPU, at most")
    parser.add_argument("--limit", type=seconds, default=300.0, help="seconds a verdict may take (%(default)g)")
    parser.add_argument(
        "--beside", type=Path, metavar="FOLDER", help="of two runs on GPUs of one host, each judges what it names first"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="tell each verdict, and when it was known")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--workers", type=int, default=cores, help="processes that judge (one a core)")
    return parser


if __name__ == "__main__":
    sys.exit(told(partial(main, sys.argv[1:])))
