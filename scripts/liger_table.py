"""Runs every operation of Liger-Kernel, forward and backward, emulated on four architectures, and prints a table.

    python scripts/liger_table.py [ARCHITECTURE...]

Each figure is cells that agree with float64, of all of that operation: two directions, two dtypes. Below the table
stands what kept the others from it. Needs liger-kernel.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "emulated"))

from liger_cells import TARGETS, agrees, cells_of, emulate, liger_cases, why

from portkit.model import CellResult


def main(architectures: Sequence[str]) -> None:
    """Print the table, the sum, and what did not agree."""
    results = list(emulate(cells_of(liger_cases(), architectures)).values())
    rows = [[name, *(_share(results, name, architecture) for architecture in architectures)] for name in liger_cases()]
    print(tabulate(rows, ["operation", *architectures], tablefmt="github"))
    print(f"\n{sum(map(agrees, results))} of {len(results)} agree")
    print("\n".join(text for text in map(why, results) if text))


def _share(results: Sequence[CellResult], name: str, architecture: str) -> str:
    mine = [item for item in results if (item.cell.case, item.cell.target) == (name, TARGETS[architecture])]
    return f"{sum(map(agrees, mine))} of {len(mine)}"


if __name__ == "__main__":
    main(sys.argv[1:] or list(TARGETS))
