"""Prints how far the emulator's results lie from those that an H200 gave, which are kept in ``tests/records``.

    python scripts/recorded_vectors.py

Nothing in the emulator was fitted to them. ``differing`` counts results of other bits, NaN apart; ``furthest`` are
steps between neighbouring numbers, of which there are many near 0; ``by size`` is the largest difference itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "pure"))

import h200_vectors


def main() -> None:
    """Print one line an instruction, then one a buffer that a kernel writes."""
    print(tabulate(_rows(_instructions()), _HEAD, tablefmt="github"), "\n")
    found = (each for name in h200_vectors.kernels() for each in h200_vectors.kernel(name))
    print(tabulate(_rows(found), _HEAD, tablefmt="github"))


_HEAD = ("emulated beside an H200", "results", "differing", "furthest, ulp", "by size")


def _instructions() -> Iterator[h200_vectors.Apart]:
    """Those of sines and cosines by the size of the argument, in units of π."""
    for name in h200_vectors.functions():
        if name.startswith(("sin", "cos")):
            for least, most in ((0, 1), (1, 2), (2, 100)):
                found = h200_vectors.function(name, (least * np.pi, most * np.pi))
                yield replace(found, name=f"{name}, {least}π to {most}π")
        else:
            yield h200_vectors.function(name)


def _rows(found: Iterable[h200_vectors.Apart]) -> Iterator[tuple[str, int, str, str, str]]:
    for each in found:
        share = f"{each.differing / each.ulp.size:.1%}" if each.differing else "none"
        size = "" if each.size is None or not each.differing else f"{np.nanmax(each.size):.1e}"
        yield each.name, each.ulp.size, share, f"{each.ulp.max()}" if each.differing else "", size


if __name__ == "__main__":
    main()
