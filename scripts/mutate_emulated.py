"""Deletes single instructions of ten kernels and counts how many of the deletions the emulator notices.

Barriers and waits are all deleted, other instructions by a sample. Survivors are listed with their line.

    python scripts/mutate_emulated.py [MUTANTS_A_KERNEL [CASE...]]
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "emulated"))

from mutants import ARCHITECTURES, CASES, Mutant, mutants, rates


def main(count: int, names: list[str]) -> None:
    """Print one line a kernel, then the survivors."""
    every: list[Mutant] = []
    for number, (name, make) in enumerate(CASES.items()):
        if names and name not in names:
            continue
        started = time.perf_counter()
        architecture = ARCHITECTURES[number % len(ARCHITECTURES)]
        found = list(mutants(make(architecture), count))
        every += found
        print(f"{name:14s} {architecture:8s} {rates(found)}  {time.perf_counter() - started:.0f} s", flush=True)
    print(f"all {rates(every)}")
    print("detected by:", dict(Counter(item.by for item in every if item.by).most_common()))
    for item in (item for item in every if not item.by):
        print(f"survivor {item.kind:8s}{item.case} {item.architecture} line {item.line}: {item.instruction}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200, sys.argv[2:])
