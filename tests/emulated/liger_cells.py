"""Runs the operations of Liger-Kernel emulated, as a matrix would, and says in a word what came of each."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from portkit import KernelCase
from portkit.model import CaseSource, Cell, CellResult, Evidence, PlannedCell, Status
from portkit.run.jobs import Limits
from portkit.run.session import Session, chains_for
from portkit.targets.catalog import load_catalog

FILE = Path(__file__).parent / "cases" / "liger_ops.py"
TARGETS = {
    "gfx942": "mi300x",
    "gfx950": "mi355x",
    "gfx1100": "rx7900xtx",
    "gfx1201": "rx9070xt",
    "sm_75": "t4",
    "sm_80": "a100",
    "sm_86": "rtx3090",
    "sm_89": "l40s",
    "sm_90": "h100",
    "sm_100": "b200",
    "sm_103": "b300",
    "sm_120": "rtx5090",
}


@functools.cache
def liger_cases() -> Mapping[str, KernelCase]:
    """All operations, by name."""
    spec = importlib.util.spec_from_file_location("liger_ops", FILE)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {item.name: item for item in vars(module).values() if isinstance(item, KernelCase)}


def cells_of(names: Iterable[str], architectures: Iterable[str], dtypes: Sequence[str] | None = None) -> list[Cell]:
    """Both directions of each operation; ``dtypes``: None for all that it has."""
    architectures = list(architectures)
    return [
        Cell(name, direction, case.small_shapes[0], dtype, "default", TARGETS[architecture])
        for name, case in ((name, liger_cases()[name]) for name in names)
        for architecture in architectures
        for dtype in (case.dtypes if dtypes is None else [item for item in case.dtypes if item in dtypes])
        for direction in case.directions
    ]


def emulate(cells: Sequence[Cell], workers: int | None = None, seconds: float = float("inf")) -> dict[Cell, CellResult]:
    """Results by cell, of as many processes as there are cores for this one; after ``seconds`` those that there are."""
    catalog = load_catalog()
    sources = {cell.case: CaseSource(cell.case, path=str(FILE)) for cell in cells}
    targets = {cell.target: catalog.get(cell.target) for cell in cells}
    planned = [PlannedCell(cell, Evidence.EMULATED) for cell in cells]
    session = Session(Limits(workers or len(os.sched_getaffinity(0))))
    end, found = time.monotonic() + seconds, {}
    try:
        for result in session.results(chains_for(planned, sources, targets)):
            found[result.cell] = result
            if time.monotonic() > end:
                break
        return found
    finally:
        session.close()


def agrees(result: CellResult) -> bool:
    """Whether it ran, nothing was found, and every output is within its limit of float64."""
    return result.outcome.status is Status.PASSED


def why(result: CellResult) -> str:
    """What kept a cell from agreeing, with the cell; empty where it agrees."""
    if agrees(result):
        return ""
    cell = result.cell
    return f"{cell.case} {cell.direction} {cell.dtype} {cell.target}: {result.outcome.status}: {result.outcome.message}"
