"""Builds of the kernels on which compilers part ways, all that a run selects together."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("torch", reason="builds need torch")
pytest.importorskip("triton", reason="builds need Triton")

from cells import MATRIX, cell_of

from portkit.model import Evidence, PlannedCell, Stage
from portkit.plan.cases import introspect
from portkit.plan.matrix import read_matrix
from portkit.run.jobs import Limits
from portkit.run.limits import STAGE_SECONDS
from portkit.run.session import Session, chains_for
from portkit.targets.catalog import load_catalog

HASTY, PATIENT = 20.0, 200.0  # seconds of one kernel; rows took up to 55 on two idle cores, the timeout over 100

BY_ROW = ("test_status", "test_findings")
"""Tests of which each takes one row of the table."""


@pytest.fixture(scope="session")
def declarations():
    """Kernel of the matrix → its case, read in a child process as a run does."""
    found = introspect([kernel.source for kernel in read_matrix(MATRIX).kernels], ())
    assert not found.failures
    return found.cases


@pytest.fixture(scope="session")
def results(request, declarations):
    """What became of every cell that this run selects, all built together."""
    chosen = dict.fromkeys(x.callspec.params["row"] for x in request.session.items if x.originalname in BY_ROW)
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
