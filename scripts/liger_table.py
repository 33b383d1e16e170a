"""Runs every operation of Liger-Kernel, forward and backward, emulated on some architectures, and prints a table.

    python scripts/liger_table.py [ARCHITECTURE...] [--dtype NAME] [--seconds N] [--processes N]

Each figure is cells that agree with float64, of all of that operation: two directions, two dtypes. Below the table
stands what kept the others from it. With ``--seconds`` it ends after so long, with what is judged by then.
Needs liger-kernel.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
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
    cells = cells_of(liger_cases(), options.architectures, options.dtype)
    results = list(emulate(cells, options.processes, options.seconds).values())
    rows = [[name, *(_share(results, name, each) for each in options.architectures)] for name in liger_cases()]
    print(tabulate(rows, ["operation", *options.architectures], tablefmt="github"))
    agreeing = sum(map(agrees, results))
    print(f"\nTriton {triton.__version__}: {agreeing} of {len(results)} agree, of {len(cells)} cells")
    print("\n".join(text for text in map(why, results) if text))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("architectures", nargs="*", metavar="ARCHITECTURE", help=f"({' '.join(SOME)})")
    parser.add_argument("--dtype", action="append", help="of the cells (all that an operation has)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which it ends (no limit)")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), help="(%(default)s)")
    options = parser.parse_args(arguments)
    options.architectures = options.architectures or list(SOME)
    if unknown := [name for name in options.architectures if name not in TARGETS]:
        parser.error(f"no architectures are called {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    return options


def _share(results: Sequence[CellResult], name: str, architecture: str) -> str:
    mine = [item for item in results if (item.cell.case, item.cell.target) == (name, TARGETS[architecture])]
    return f"{sum(map(agrees, mine))} of {len(mine)}" if mine else "-"


if __name__ == "__main__":
    main()
