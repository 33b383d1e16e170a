#!/usr/bin/env python3
"""Compiles what torch.compile makes of a matrix's unfused chains on all cores, before a run times it.

    .venv/bin/python scripts/compile_ahead.py MATRIX [--tier TIER] [--without CASE …] [--seconds S] [--processes N]

Mode max-autotune tries one configuration after another, and building one takes longer than trying it. So each chain
is compiled and called here in each mode that the tier has, many at once on one GPU. What they choose here is thrown
away, since searches that share a GPU disturb each other; Triton's cache alone keeps what was built, and the run
chooses anew, alone on the GPU. A chain that fails or is not done in time costs the run what it would have cost anyway.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from portkit.model import CaseSource, Cell, Direction, KernelCase
from portkit.plan.baselines import COMPILE, MAX_AUTOTUNE, baselines_of
from portkit.plan.expand import Emulate, Selection
from portkit.run.baselines import calls_of
from portkit.run.benchmark import prepare
from portkit.run.calls import Upstream, upstream_for
from portkit.run.classify import describe
from portkit.run.inputs import InputMaker
from portkit.run.load import load_case
from portkit.run.preload import load_compiler
from portkit.run.reference import unfused

SECONDS = 60.0
SPARE_CORES = 2


@dataclass(frozen=True)
class Job:
    """One mode of one chain."""

    source: CaseSource
    cell: Cell
    mode: str


def jobs(matrix: Path, tier: str, target: str, without: Collection[str] = ()) -> list[Job]:
    """Each case, direction, shape and dtype of a tier once, in each of its modes; the matrix's last ones first."""
    prepared = prepare(matrix, tier=tier, selection=Selection((target,)), emulate=Emulate.OFF)
    sources = {name: declaration.source for name, declaration in prepared.declarations.items()}
    modes = [name for name in reversed(baselines_of((), tier)) if name in (COMPILE, MAX_AUTOTUNE)]
    cells = [planned.cell for planned in prepared.plan.cells if planned.cell.case not in without]
    chains = {replace(cell, variant=""): None for cell in cells}
    return [Job(sources[cell.case], cell, mode) for cell in reversed(chains) for mode in modes]


def compile_one(job: Job) -> str:
    """Compile a chain by calling it; what became of it."""
    start = time.perf_counter()
    try:
        case = load_case(job.source)
        make = InputMaker(0, "cuda")
        inputs = case.inputs(make, job.cell.shape, job.cell.dtype)
        calls_of(case, job.cell, job.mode, _upstream(case, job.cell, inputs, make))(inputs)()
        end = "done"
    except Exception as error:  # the run meets it again, and tells it in the chain's record
        end = describe(error)
    cell = job.cell
    shape = "x".join(map(str, cell.shape))
    return f"{cell.case} {cell.direction} {shape} {job.mode}: {end}, {time.perf_counter() - start:.1f} s"


def _upstream(case: KernelCase, cell: Cell, inputs: dict[str, object], make: InputMaker) -> Upstream:
    if cell.direction is Direction.FORWARD:
        return ()
    forward = replace(cell, direction=Direction.FORWARD)
    return upstream_for([tensor for _, tensor in unfused(case, forward, inputs).named], make)


def ahead(every: Sequence[Job], processes: int, seconds: float) -> Iterator[str]:
    """Compile these; a line of each as it ends, until the time is over."""
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="choices-") as choices:
        os.environ.update(TORCHINDUCTOR_CACHE_DIR=choices, TORCHINDUCTOR_COMPILE_THREADS="1")
        load_compiler()
        with multiprocessing.get_context("fork").Pool(processes) as pool:  # its end ends what still compiles
            ended = pool.imap_unordered(compile_one, every)
            for _ in every:
                try:
                    yield ended.next(max(0.0, end - time.monotonic()))
                except multiprocessing.TimeoutError:
                    return


def main(arguments: Sequence[str]) -> int:
    """Compile, and say what is done."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("matrix", type=Path)
    parser.add_argument("--tier", default="full")
    parser.add_argument("--target", default="h200")
    parser.add_argument("--without", nargs="*", default=(), metavar="CASE", help="cases that are left out")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="at most so long (%(default)s)")
    cores = max(1, len(os.sched_getaffinity(0)) - SPARE_CORES)
    parser.add_argument("--processes", type=int, default=cores, help="at once (%(default)s)")
    chosen = parser.parse_args(arguments)
    every = jobs(chosen.matrix, chosen.tier, chosen.target, chosen.without)
    done = 0
    for line in ahead(every, chosen.processes, chosen.seconds):
        done += 1
        print(line, flush=True)
    print(f"{done} of {len(every)} ended in time")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
