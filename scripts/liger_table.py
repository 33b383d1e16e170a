"""Runs every operation of Liger-Kernel, forward and backward, emulated on some architectures, and prints a table.

    python scripts/liger_table.py [ARCHITECTURE...] [--dtype NAME] [--seconds N] [--processes N]

Each figure is cells that agree with float64, of all of that operation: two directions, two dtypes. Below the table
stands what kept the others from it. With ``--seconds`` no operation is begun after so long; those have a dash.
Needs liger-kernel.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import triton
from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "emulated"))

from liger_cells import TARGETS, agrees, cells_of, emulate, liger_cases, why

from portkit.model import CellResult

SOME = ("gfx942", "gfx950", "gfx1100", "gfx1201")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, the sum, and what did not agree."""
    options = _options(arguments)
    results = list(_results(options))
    rows = [[name, *(_share(results, name, each) for each in options.architectures)] for name in liger_cases()]
    print(tabulate(rows, ["operation", *options.architectures], tablefmt="github"))
    agreeing = sum(map(agrees, results))
    print(f"\nTriton {triton.__version__}: {agreeing} of {len(results)} agree on {', '.join(options.architectures)}")
    print("\n".join(text for text in map(why, results) if text))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("architectures", nargs="*", metavar="ARCHITECTURE", help=f"({' '.join(SOME)})")
    parser.add_argument("--dtype", action="append", help="of the cells (all that an operation has)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no operation is begun")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), help="(%(default)s)")
    options = parser.parse_args(arguments)
    options.architectures = options.architectures or list(SOME)
    if unknown := [name for name in options.architectures if name not in TARGETS]:
        parser.error(f"no architectures are called {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    return options


def _results(options: argparse.Namespace) -> Iterator[CellResult]:
    """Of the operations in order; all at once where there is no limit."""
    names = list(liger_cases())
    limited = options.seconds < float("inf")
    started = time.monotonic()
    for group in [[name] for name in names] if limited else [names]:
        if time.monotonic() - started < options.seconds:
            cells = cells_of(group, options.architectures, options.dtype)
            yield from emulate(cells, options.processes).values()


def _share(results: Sequence[CellResult], name: str, architecture: str) -> str:
    mine = [item for item in results if (item.cell.case, item.cell.target) == (name, TARGETS[architecture])]
    return f"{sum(map(agrees, mine))} of {len(mine)}" if mine else "-"


if __name__ == "__main__":
    main()
