"""Deletes single instructions of kernels and counts how many of the deletions the emulator notices.

Barriers and waits are all deleted, other instructions by a sample. Detected is what the checker finds, or what changes
the bits of a result on one of six kinds of inputs. Of what is not detected the script says why: whether a barrier or
wait is needed at all (``tests/emulated/needed.py``), and what became of the other instructions
(``tests/emulated/survivors.py``).

    python scripts/mutate_emulated.py [MUTANTS_A_KERNEL [CASE...]] [--vendor nvidia] [--processes N]

About an hour of one core for 200 mutants a kernel; the counts do not depend on the number of processes.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "emulated"))

from mutants import CASES, PTX_CASES, Mutant, chosen, first_architecture, mutants, rates
from survivors import CLASSES

VENDORS = {"amd": CASES, "nvidia": PTX_CASES}

PARTS = 24
"""Of each kernel's mutants: what a process takes at a time."""


def main() -> None:
    """Print one line a kernel, then the sums, then the survivors."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("count", nargs="?", type=int, default=200, help="other instructions a kernel (%(default)s)")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="kernels (all)")
    parser.add_argument("--vendor", choices=list(VENDORS), default="amd", help="whose instructions (%(default)s)")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), help="(%(default)s)")
    options = parser.parse_args()
    cases = VENDORS[options.vendor]
    if unknown := [name for name in options.cases if name not in cases]:
        parser.error(f"no kernels are called {', '.join(unknown)}; there are {', '.join(cases)}")
    every = list(_deleted(options.count, options.cases or list(cases), options.vendor, options.processes))
    print(f"all {rates(every)}\n")
    print(tabulate(_table(every), ["deleted", "of them", "detected", "by the verdict alone"], tablefmt="github"))
    print(f"\ndetected by: {dict(Counter(item.by for item in every if item.by).most_common())}")
    survivors = [item for item in every if not item.by]
    print(f"survivors: {_classes(survivors)}\n")
    for item in sorted(survivors, key=_why):
        print(f"{_why(item):16s} {item.case} {item.architecture} line {item.line}: {item.instruction}")


def _deleted(count: int, names: Sequence[str], vendor: str, processes: int) -> Iterator[Mutant]:
    """All mutants of all kernels, kernel by kernel."""
    with ProcessPoolExecutor(processes) as pool:
        parts = {name: [pool.submit(_part, name, vendor, count, part) for part in range(PARTS)] for name in names}
        for name, futures in parts.items():
            done = [future.result() for future in futures]
            found = sorted((item for items, _ in done for item in items), key=lambda item: item.line)
            seconds = sum(spent for _, spent in done)
            print(
                f"{name:14s} {first_architecture(name, vendor):8s} {rates(found)}  {seconds:.0f} s of CPU time",
                flush=True,
            )
            yield from found


def _part(name: str, vendor: str, count: int, part: int) -> tuple[list[Mutant], float]:
    """Every so many-th mutant of a kernel, and the CPU time that they took."""
    started = time.process_time()
    case = VENDORS[vendor][name](first_architecture(name, vendor))
    found = list(mutants(case, count, lambda code, reached, most: chosen(code, reached, most)[part::PARTS]))
    return found, time.process_time() - started


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
    main()
