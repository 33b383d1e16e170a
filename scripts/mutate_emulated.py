"""Deletes and changes single instructions of kernels and counts how many of these mutants the emulator notices.

What orders (barriers, waits, arrivals, commits, fences) is all deleted, and made weaker in each way that there is: a
wait for one operation or group less, other numbers of arrivals and bytes, another parity. Other instructions are
deleted by a sample. Noticed is what the checker finds, or what changes the bits of a result on one of six kinds of
inputs. Of what is not noticed the script says why: whether a barrier or wait is needed at all
(``tests/emulated/needed.py``, ``tests/emulated/survivors_ptx.py``), and what became of the other instructions
(``tests/emulated/survivors.py``).

    python scripts/mutate_emulated.py [MUTANTS_A_KERNEL [CASE[:ARCHITECTURE]...]] [--vendor nvidia] [-o FILE]

Half an hour of one core a vendor for 100 others a kernel. The result depends neither on the number of processes
nor on whether the run was interrupted: with ``-o`` each mutant is kept as soon as it is known, and a later run with the
same file, emulator and Triton goes on there. ``mutants_table.py`` makes the tables of the file anew.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import os
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import mutants_table
import triton
from mutants_table import Line
from told import output

from portkit.emulate.kept import emulator_digest

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "emulated"))

from mutant_cases import AMD_ARCHITECTURES, PTX_ARCHITECTURES, PTX_CASES
from mutants import Mutant, Prepared, mutant_of, prepare, rates

VENDORS = {"amd": AMD_ARCHITECTURES, "nvidia": PTX_ARCHITECTURES}

PARTS = 6
"""Of each kernel's mutants: what a process takes at a time."""

Done = frozenset[tuple[str, ...]]
"""What is known of a kernel: digest of its source, line and change."""


@dataclass(frozen=True)
class Kernel:
    """One on one architecture, with the number of other instructions that are deleted."""

    case: str
    architecture: str
    count: int

    @functools.cached_property
    def prepared(self) -> Prepared:
        """Built, run and its mutants chosen."""
        return prepare(PTX_CASES[self.case](self.architecture), self.count)

    @functools.cached_property
    def source(self) -> str:
        """What its mutants' outcome follows from."""
        text = self.prepared.case.built.text
        return hashlib.blake2b((emulator_digest() + text).encode(), digest_size=4).hexdigest()

    def line(self, found: Mutant) -> Line:
        """A mutant for the file."""
        axes = (triton.__version__, self.source, found.case, found.architecture, found.kind, found.change)
        verdict = "yes" if found.verdict else ""
        return Line(*axes, str(found.line), found.instruction.strip()[:80], found.by, verdict, found.why)


@functools.lru_cache(maxsize=4)
def _kernel(case: str, architecture: str, count: int) -> Kernel:
    """One of the last few of a process."""
    return Kernel(case, architecture, count)


def _part(kernel: tuple[str, str, int], part: int, done: Done) -> tuple[list[Line], list[tuple[str, ...]], float]:
    """Every so many-th mutant of a kernel but those that are known; the keys of all; the CPU time that they took."""
    started, known = time.process_time(), _kernel(*kernel)
    changes = known.prepared.changes[part::PARTS]
    sites = [known.prepared.code.compiled[change.index].instruction.site for change in changes]
    keys = [(known.source, str(site.line), change.name) for site, change in zip(sites, changes, strict=True)]
    left = [change for change, key in zip(changes, keys, strict=True) if key not in done]
    lines = [known.line(mutant_of(known.prepared, change)) for change in left]
    return lines, keys, time.process_time() - started


def _key(line: Line) -> tuple[str, ...]:
    return line.source, line.line, line.change


def run(kernels: Sequence[Kernel], processes: int, path: Path | None) -> Iterator[Line]:
    """All mutants of all kernels, kernel by kernel, as their lines stand in the text."""
    before = mutants_table.read(path) if path and path.exists() and path.stat().st_size else []
    if path and not before:
        mutants_table.write(path, [])
    with ProcessPoolExecutor(processes) as pool:
        futures = {kernel: _submitted(pool, kernel, before) for kernel in kernels}
        for kernel, parts in futures.items():
            yield from _collected(kernel, parts, before, path)


def _submitted(pool: ProcessPoolExecutor, kernel: Kernel, before: Sequence[Line]) -> list[Future]:
    axes = (kernel.case, kernel.architecture)
    done = frozenset(_key(line) for line in before if (line.case, line.architecture) == axes)
    return [pool.submit(_part, (*axes, kernel.count), part, done) for part in range(PARTS)]


def _collected(kernel: Kernel, parts: Sequence[Future], before: Sequence[Line], path: Path | None) -> Iterator[Line]:
    """One kernel's lines, kept in the file part by part."""
    found, keys, seconds = [], set(), 0.0
    for future in as_completed(parts):
        lines, part_keys, spent = future.result()
        found += lines
        keys |= set(part_keys)
        seconds += spent
        if path:
            mutants_table.write(path, lines, more=True)
    axes = (kernel.case, kernel.architecture)
    found += [line for line in before if _key(line) in keys and (line.case, line.architecture) == axes]
    print(f"{kernel.case:16s} {kernel.architecture:8s} {rates(found)}  {seconds:.0f} s of CPU time", flush=True)
    yield from sorted(found, key=lambda line: (int(line.line), line.change))


def _kernels(count: int, names: Collection[str], vendor: str) -> Iterator[Kernel]:
    """Those that are named, or all of a vendor or of both.

    Raises:
        ValueError: a name is none of them.
    """
    tables = VENDORS.values() if vendor == "all" else [VENDORS[vendor]]
    every = [(case, name) for table in tables for case, names in table.items() for name in names]
    known = {label for case, name in every for label in (case, f"{case}:{name}")}
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"no kernels are called {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    for case, name in every:
        if not names or case in names or f"{case}:{name}" in names:
            yield Kernel(case, name, count)


def main() -> None:
    """Print one line a kernel, then the tables and what was missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("count", nargs="?", type=int, default=100, help="other instructions a kernel (%(default)s)")
    parser.add_argument("cases", nargs="*", metavar="CASE[:ARCHITECTURE]", help="kernels (all)")
    parser.add_argument("--vendor", choices=["all", *VENDORS], default="all", help="whose instructions (%(default)s)")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), help="(%(default)s)")
    parser.add_argument("-o", "--output", type=output, help="a CSV file to keep the mutants in, and to go on with")
    options = parser.parse_args()
    try:
        kernels = list(_kernels(options.count, options.cases, options.vendor))
    except ValueError as error:
        parser.error(str(error))
    lines = list(run(kernels, options.processes, options.output))
    if options.output:
        mutants_table.write(options.output, lines)
    print("", *mutants_table.report(lines), *map(mutants_table.told_of, mutants_table.missed(lines)), sep="\n")


if __name__ == "__main__":
    main()
