"""Kernels on which compilers part ways: what portkit says of each cell, against the table of what was seen."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import pytest
import triton
from table import Row, rows

from portkit.model import Cell, Direction, Evidence, PlannedCell, Stage
from portkit.plan.cases import introspect
from portkit.plan.matrix import read_matrix
from portkit.run.jobs import Limits
from portkit.run.limits import STAGE_SECONDS
from portkit.run.session import Session, chains_for
from portkit.targets.catalog import load_catalog

MATRIX = Path(__file__).parent / "matrix.yaml"
HASTY, PATIENT = 20.0, 200.0  # seconds of one kernel; rows took up to 55 on two idle cores, the timeout over 100

ROWS = [row for row in rows() if row.triton == triton.__version__.partition("+")[0]]


@pytest.fixture(scope="session")
def declarations():
    """Kernel of the matrix → its case, read in a child process as a run does."""
    found = introspect([kernel.source for kernel in read_matrix(MATRIX).kernels], ())
    assert not found.failures
    return found.cases


def cell_of(row: Row, declarations) -> Cell:
    """The cell that a row speaks of: exactly one kernel of its case has the variant."""
    (declared,) = (
        case
        for name, case in declarations.items()
        if name.partition("_")[0] == row.case and row.variant in case.variants
    )
    (shape,), (dtype,) = declared.shapes, declared.dtypes
    return Cell(declared.source.name, Direction.FORWARD, shape, dtype, row.variant, row.target)


@pytest.fixture(scope="session")
def results(request, declarations):
    """What became of every cell that this run selects, all built together."""
    chosen = [item.callspec.params["row"] for item in request.session.items if item.originalname == "test_status"]
    cells = {cell_of(row, declarations): row for row in chosen}
    catalog = load_catalog()
    chains = chains_for(
        [PlannedCell(cell, Evidence.COMPILED) for cell in cells],
        {name: case.source for name, case in declarations.items()},
        {row.target: catalog.get(row.target) for row in chosen},
    )
    seconds = PATIENT if any(row.slow for row in chosen) else HASTY
    limits = Limits(len(os.sched_getaffinity(0)), stage_seconds={**STAGE_SECONDS, Stage.COMPILE: seconds})
    session = Session(limits)
    try:
        yield {cells[result.cell]: result for result in session.results(chains)}
    finally:
        session.close()


@pytest.mark.parametrize(
    "row", [pytest.param(row, marks=pytest.mark.slow) if row.slow else row for row in ROWS], ids=str
)
def test_status(row, results, record_property):
    outcome = results[row].outcome
    record_property("cell", f"{row.case} {row.variant} {row.target}")
    record_property("status", outcome.status.value)
    assert outcome.status == row.status, outcome.message
    assert words(row) <= set(WORD.findall(outcome.message)), outcome.message


WORD = re.compile(r"[A-Za-z]{3,}")


def words(row: Row) -> set[str]:
    """Words of the reason as it was seen, the last one cut off; what the message must have of it."""
    if row.status in ("built", "timeout", "miscompiled"):
        return set()
    told = re.sub(r"AMD LLVM \S+|case\d+\w*\.py", "", row.reason).rsplit(maxsplit=1)[0]
    return set(WORD.findall(told))


def test_the_matrix_has_every_row(declarations):
    matrix = read_matrix(MATRIX)
    assert {row.target for row in rows()} == set(matrix.targets)
    for row in rows():
        cell_of(row, declarations)


def test_the_whole_table_is_there():
    counts = Counter(row.triton for row in rows())
    assert counts == {"3.5.1": 138, "3.6.0": 208, "3.7.1": 851, "3.8.0": 332, "3.9.0": 332}
    assert len({(row.triton, str(row)) for row in rows()}) == counts.total() == 1861
