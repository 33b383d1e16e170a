"""Deletes single instructions of ten kernels and counts how many of the deletions the emulator notices.

Barriers and waits are all deleted, other instructions by a sample. Detected is what the checker finds, or what changes
the bits of a result on one of six kinds of inputs. Of what is not detected the script says why: whether a barrier or
wait is needed at all (``tests/emulated/needed.py``), and what became of the other instructions
(``tests/emulated/survivors.py``).

    python scripts/mutate_emulated.py [MUTANTS_A_KERNEL [CASE...]]
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "emulated"))

from mutants import ARCHITECTURES, CASES, Mutant, mutants, rates
from survivors import CLASSES


def main(count: int, names: list[str]) -> None:
    """Print one line a kernel, then the sums, then the survivors."""
    every: list[Mutant] = []
    for number, (name, make) in enumerate(CASES.items()):
        if names and name not in names:
            continue
        started = time.perf_counter()
        architecture = ARCHITECTURES[number % len(ARCHITECTURES)]
        found = list(mutants(make(architecture), count))
        every += found
        print(f"{name:14s} {architecture:8s} {rates(found)}  {time.perf_counter() - started:.0f} s", flush=True)
    print(f"all {rates(every)}\n")
    print(tabulate(_table(every), ["deleted", "of them", "detected", "by the verdict alone"], tablefmt="github"))
    print(f"\ndetected by: {dict(Counter(item.by for item in every if item.by).most_common())}")
    survivors = [item for item in every if not item.by]
    print(f"survivors: {_classes(survivors)}\n")
    for item in sorted(survivors, key=_why):
        print(f"{_why(item):16s} {item.case} {item.architecture} line {item.line}: {item.instruction}")


def _table(every: Sequence[Mutant]) -> list[list[str | int]]:
    """Barriers and waits that are needed, the other instructions, and all."""
    needed = [item for item in every if item.needed is not False]
    parts = {
        "needed barriers": [item for item in needed if item.kind == "barrier"],
        "needed waits": [item for item in needed if item.kind == "wait"],
        "other instructions": [item for item in needed if item.kind == "other"],
        "all": needed,
    }
    return [[name, len(items), *_shares(items)] for name, items in parts.items()]


def _shares(items: Sequence[Mutant]) -> list[str]:
    counts = sum(bool(item.by) for item in items), sum(item.verdict for item in items)
    return [f"{count} ({100 * count / max(1, len(items)):.1f} %)" for count in counts]


def _classes(survivors: Sequence[Mutant]) -> str:
    counts = Counter(map(_why, survivors))
    return ", ".join(f"{counts[name]} {name}" for name in ("MISSED", "not needed", *CLASSES) if counts[name])


def _why(item: Mutant) -> str:
    if item.kind == "other":
        return item.explained
    return "MISSED" if item.needed else "not needed"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200, sys.argv[2:])
