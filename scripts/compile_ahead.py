#!/usr/bin/env python3
"""Fills the caches with what the measured cells of a tier compile, on many cores, before a run that times them.

    python scripts/compile_ahead.py --tier full [--report REPORT] [--seconds 120]    # on a GPU host
    python scripts/compile_ahead.py --tier full --own --target h200                  # anywhere

A run calls each baseline for the first time where it has the GPU to itself, on one core. With max-autotune
that call compiles dozens of configurations: half a minute for some backward passes. Here each core has a process
that makes such first calls, into the caches of Inductor and Triton, where the run finds what they compiled. Which
configuration is the fastest is not decided here, since processes share the GPU: such choices are thrown away, and
the run makes its own. Cells that differ in their variant alone compile the same chain, so one of them is called.
Cells that ``--report`` has, which is to be gone on with, are left out.

With ``--own`` portkit's own kernels are built instead, and those of the input families; that needs no GPU. It is what
a run does by itself for its cells (``run/ahead.py``).
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

import torch
from given import reports
from tier_table import has_word
from told import seconds, told

from portkit.errors import HostError
from portkit.model import CaseSource, Cell, Direction, Evidence, KernelCase, Stage
from portkit.plan.baselines import COMPILE, MAX_AUTOTUNE, baselines_of
from portkit.plan.expand import Emulate, Selection
from portkit.run.ahead import build_all
from portkit.run.baselines import calls_of
from portkit.run.benchmark import Prepared, prepare
from portkit.run.calls import Upstream, upstream_for
from portkit.run.inputs import InputMaker
from portkit.run.jobs import Job
from portkit.run.limits import STAGE_SECONDS
from portkit.run.load import load_case
from portkit.run.preload import keep_caches, load_compiler
from portkit.run.reference import unfused
from portkit.store.journal import read_report

MATRIX = Path(__file__).resolve().parent.parent / "matrix.yaml"
CHOICES = "*.best_config"
"""Files in which Inductor keeps the configuration that was fastest."""

_FORK = multiprocessing.get_context("fork")

T = TypeVar("T")


@dataclass(frozen=True)
class Task:
    """A first call."""

    source: CaseSource
    cell: Cell
    baseline: str

    @property
    def label(self) -> str:
        """As it is told."""
        return f"{self.baseline} of {self.cell.label(Evidence.MEASURED)}"


def tasks(prepared: Prepared, options: argparse.Namespace) -> list[Task]:
    """First calls of torch.compile that differ, in the order of the plan."""
    found: dict[tuple[Cell, str], Task] = {}
    for cell in _cells(prepared, options, Evidence.MEASURED):
        declared = prepared.declarations[cell.case]
        for name in baselines_of(declared.baselines, prepared.plan.tier):
            if name in (COMPILE, MAX_AUTOTUNE):
                found.setdefault((replace(cell, variant=""), name), Task(declared.source, cell, name))
    return list(found.values())


def jobs(prepared: Prepared, options: argparse.Namespace) -> list[Job]:
    """Builds, a job a shape and dtype of each case, the first of each kind before the second of any.

    Jobs of a kind build the same input families: side by side, each of them would.
    """
    grouped: dict[Cell, list[Cell]] = {}
    for cell in _cells(prepared, options, Evidence.COMPILED):
        grouped.setdefault(replace(cell, variant=""), []).append(cell)
    by_kind: dict[tuple[str, Direction, str], list[list[Cell]]] = {}
    for cell, cells in grouped.items():
        by_kind.setdefault((cell.case, cell.direction, cell.dtype), []).append(cells)
    in_turn = (cells for turn in zip_longest(*by_kind.values()) for cells in turn if cells)
    return [
        Job(
            Evidence.COMPILED,
            prepared.declarations[cells[0].case].source,
            tuple(cells),
            prepared.targets[cells[0].target],
        )
        for cells in in_turn
    ]


def _cells(prepared: Prepared, options: argparse.Namespace, evidence: Evidence) -> Iterator[Cell]:
    """Cells of a kind of evidence that are asked for, and have no record yet."""
    done = {
        record.cell
        for path in reports(options.report)
        for record in read_report(path).records
        if record.evidence is evidence
    }
    kernels = options.kernel or prepared.declarations
    for planned in prepared.plan.cells:
        cell = planned.cell
        wanted = planned.evidence is evidence and planned.excluded is None and cell.case in kernels
        if wanted and cell not in done and (not options.k or has_word(options.k, cell, evidence)):
            yield cell


def call(task: Task) -> tuple[str, float]:
    """Make a first call on the GPU here; its label, and the seconds it took."""
    start = time.perf_counter()
    case, cell = _case(task.source), task.cell
    make = InputMaker(0, "cuda")
    inputs = case.inputs(make, cell.shape, cell.dtype)
    with torch.no_grad():
        calls_of(case, cell, task.baseline, _upstream(case, cell, inputs, make))(inputs)()
    torch.cuda.synchronize()
    del inputs
    torch.cuda.empty_cache()
    return task.label, time.perf_counter() - start


_case = cache(load_case)


def _upstream(case: KernelCase, cell: Cell, inputs: dict[str, torch.Tensor], make: InputMaker) -> Upstream:
    if cell.direction is Direction.FORWARD:
        return ()
    forward = replace(cell, direction=Direction.FORWARD)
    return upstream_for([tensor for _, tensor in unfused(case, forward, inputs).named], make)


def attempt(task: Task) -> tuple[str, float]:
    """The same; a call that fails is left to the run, which says why."""
    start = time.perf_counter()
    try:
        return call(task)
    except Exception as error:
        return f"{task.label}: {type(error).__name__}", time.perf_counter() - start


def build(job: Job) -> tuple[str, float]:
    """Build the kernels of a job's cells and of their input families, in a process that does nothing else."""
    start = time.perf_counter()
    build_all([job], lambda seconds_of: None)
    return job.cells[0].label(Evidence.COMPILED), time.perf_counter() - start


def spread(function: Callable[[T], tuple[str, float]], work: Sequence[T], options: argparse.Namespace) -> int:
    """Work on many processes until all is done or the time is over; how many are done.

    Args:
        function: one piece of work.
        work: all pieces, in the order in which they are begun.
        options: of the command.
    """
    until, done = time.monotonic() + options.seconds, 0
    pieces = 1 if options.own else None  # a process that built looks like a host of that target for good
    with _FORK.Pool(options.processes, maxtasksperchild=pieces) as pool:
        results = pool.imap_unordered(function, work)
        with contextlib.suppress(StopIteration, multiprocessing.TimeoutError):
            while True:
                label, took = results.next(max(0.0, until - time.monotonic()))
                print(f"{took:6.1f} s  {label}", flush=True)
                done += 1
    return done


def forget_choices(folder: Path, since: float) -> int:
    """Throw away which configurations were the fastest in processes that shared a GPU; how many."""
    ours = [path for path in folder.rglob(CHOICES) if path.stat().st_mtime >= since]
    for path in ours:
        path.unlink()
    return len(ours)


def call_ahead(prepared: Prepared, options: argparse.Namespace) -> str:
    """Make first calls of torch.compile; what is told of it.

    Raises:
        HostError: no measured cell, or no process may share the GPU.
    """
    if not (work := tasks(prepared, options)):
        raise HostError("the plan has no measured cell", place="this host", remedy="run on a host with a GPU")
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # there are as many processes as cores
    if not load_compiler(STAGE_SECONDS[Stage.IMPORT]):
        raise HostError("PyTorch's compiler started CUDA when it was loaded", place="this host", remedy="do without")
    since = time.time()
    try:
        done = spread(attempt, work, options)
    finally:
        forgotten = forget_choices(Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]), since)
    return f"{done} of {len(work)} first calls; {forgotten} choices thrown away"


def build_ahead(prepared: Prepared, options: argparse.Namespace) -> str:
    """Build portkit's own kernels; what is told of it."""
    work = jobs(prepared, options)
    keep_caches()
    return f"{spread(build, work, options)} of {len(work)} builds"


def main() -> int:
    """Fill the caches."""
    options = _parser().parse_args()
    selection = Selection((options.target,) if options.target else ())
    prepared = prepare(options.matrix, tier=options.tier, selection=selection, emulate=Emulate.OFF)
    print((build_ahead if options.own else call_ahead)(prepared, options))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matrix", type=Path, default=MATRIX, help="(matrix.yaml)")
    parser.add_argument("--tier", help="the default one of the matrix unless given")
    parser.add_argument("--target", help="one target; the GPUs of this host unless given")
    parser.add_argument("--kernel", action="append", default=[], help="this one alone; may be repeated")
    parser.add_argument("-k", action="append", default=[], metavar="WORD", help="only cells whose label has it")
    parser.add_argument("--report", action="append", type=Path, default=[], help="whose cells are left out")
    parser.add_argument("--own", action="store_true", help="build portkit's kernels instead")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), help="(%(default)s)")
    parser.add_argument("--seconds", type=seconds, default=3600.0, help="how long at most (%(default)g)")
    return parser


if __name__ == "__main__":
    sys.exit(told(main))
