"""Runs every operation of Liger-Kernel, forward and backward, emulated on some architectures, and prints a table.

    python scripts/liger_table.py [ARCHITECTURE...] [--dtype NAME] [--seconds N] [--processes N] [-o CSV]
    python scripts/liger_table.py --kept reports/liger-2026-11-30.csv

Each figure is cells that agree with float64, of all of that operation: two directions, two dtypes. Below the table
stand both directions' sums and what kept the others from it. With ``--seconds`` it ends after so long, with what is
judged by then. ``-o`` keeps a line an operation, direction and architecture, beside what the file has of others;
``--kept`` prints what such files have, and runs nothing. Exit code 1 where a direction agrees in fewer than 95 %.
Needs liger-kernel.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from importlib.metadata import version
from pathlib import Path

import triton
from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "emulated"))

from liger_cells import TARGETS, agrees, cells_of, emulate, liger_cases, why
from tier_table import write_lines
from told import output, told

from portkit.errors import ReportError
from portkit.model import CellResult, Direction

SOME = ("gfx942", "gfx950", "gfx1100", "gfx1201")
LEAST = 0.95


@dataclass(frozen=True)
class Line:
    """Cells of an operation in one direction on one architecture: how many, how many agree, and why others do not."""

    operation: str
    direction: str
    architecture: str
    triton: str
    liger: str
    cells: str
    agree: str
    others: str

    @property
    def key(self) -> tuple[str, ...]:
        """What one line of a table is of."""
        return self.operation, self.direction, self.architecture, self.triton


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, the sums, and what did not agree."""
    options = _options(arguments)
    lines = [line for path in options.kept for line in read(path)] if options.kept else _run(options)
    if options.output:
        earlier = {line.key: line for line in (read(options.output) if options.output.exists() else ())}
        write_lines(options.output, Line, (earlier | {line.key: line for line in lines}).values())
    versions = dict.fromkeys(line.triton for line in lines)
    print(*(table([line for line in lines if line.triton == name]) for name in versions), sep="\n\n")
    return int(not all(enough(lines, name) for name in versions))


def read(path: Path) -> list[Line]:
    """Lines of a table.

    Raises:
        ReportError: the file is no such table.
    """
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        if rows.fieldnames != [each.name for each in fields(Line)]:
            raise ReportError("is no table of liger_table.py", place=str(path), remedy="name one that it wrote")
        return [Line(**row) for row in rows]


def table(lines: Sequence[Line]) -> str:
    """The lines of one version of Triton: a row an operation, the sums of both directions, what does not agree."""
    architectures = dict.fromkeys(line.architecture for line in lines)
    names = dict.fromkeys(line.operation for line in lines)
    rows = [[name, *_shares([line for line in lines if line.operation == name], architectures)] for name in names]
    for way in Direction:
        mine = [line for line in lines if line.direction == way.value]
        rows += [[f"all, {way.value}", *_shares(mine, architectures)]] if mine else []
    texts = [f"{line.operation} {line.direction} {line.architecture}: {line.others}" for line in lines if line.others]
    words = f"Triton {lines[0].triton}, Liger-Kernel {lines[0].liger}: {_share(lines)} cells agree"
    return "\n".join([tabulate(rows, ["operation", *architectures], tablefmt="github"), "", words, *texts])


def enough(lines: Iterable[Line], name: str) -> bool:
    """Whether each direction agrees in 95 % of its cells with a version of Triton."""
    mine = [line for line in lines if line.triton == name]
    return all(_agreeing(mine, way) >= LEAST for way in {line.direction for line in mine})


def _agreeing(lines: Sequence[Line], direction: str) -> float:
    mine = [line for line in lines if line.direction == direction]
    return sum(int(line.agree) for line in mine) / sum(int(line.cells) for line in mine)


def _shares(lines: Sequence[Line], architectures: Iterable[str]) -> list[str]:
    return [_share(line for line in lines if line.architecture == on) for on in architectures]


def _share(lines: Iterable[Line]) -> str:
    mine = list(lines)
    return f"{sum(int(line.agree) for line in mine)} of {sum(int(line.cells) for line in mine)}" if mine else "-"


def _run(options: argparse.Namespace) -> list[Line]:
    cells = cells_of(liger_cases(), options.architectures, options.dtype)
    results = list(emulate(cells, options.processes, options.seconds).values())
    print(f"{len(results)} of {len(cells)} cells are judged")
    return list(lines_of(results, options.architectures))


def lines_of(results: Sequence[CellResult], architectures: Iterable[str]) -> Iterator[Line]:
    """A line an operation, direction and architecture that has results, in the order of the operations."""
    versions = triton.__version__, version("liger-kernel")
    for name in dict.fromkeys(result.cell.case for result in results):
        for on in architectures:
            for way in Direction:
                mine = [each for each in results if _of(each) == (name, TARGETS[on], way)]
                if mine:
                    counted = str(len(mine)), str(sum(map(agrees, mine)))
                    others = "; ".join(text for text in map(why, mine) if text)
                    yield Line(name, way.value, on, *versions, *counted, others)


def _of(result: CellResult) -> tuple[str, str, Direction]:
    return result.cell.case, result.cell.target, result.cell.direction


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("architectures", nargs="*", metavar="ARCHITECTURE", help=f"({' '.join(SOME)})")
    parser.add_argument("--dtype", action="append", help="of the cells (all that an operation has)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which it ends (no limit)")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), help="(%(default)s)")
    parser.add_argument("--kept", type=Path, action="append", default=[], metavar="CSV", help="print this, run nothing")
    parser.add_argument("-o", "--output", type=output, metavar="CSV", help="keep the lines here")
    options = parser.parse_args(arguments)
    options.architectures = options.architectures or list(SOME)
    if unknown := [name for name in options.architectures if name not in TARGETS]:
        parser.error(f"no architectures are called {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    return options


if __name__ == "__main__":
    sys.exit(told(partial(main, sys.argv[1:])))
