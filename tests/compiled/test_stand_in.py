"""Files that ask for a device run in Triton's interpreter on a host that has none."""

from __future__ import annotations

import pytest
import torch
from workshop import CASES

from portkit.model import INTERPRETER, CaseSource, Cell, Direction, Evidence, PlannedCell, Status
from portkit.run.session import chains_for

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a host with a GPU needs no stand-in")

FILES = {
    "import_time_branch": "traps.py",
    "scaled": "traps.py",
    "persistent": "platform_branches.py",
    "all_four": "tuned.py",
}
SHAPES = {"persistent": (4096,), "all_four": (8192,)}


def test_interpreted_cells_see_a_platform(workshop):
    cells = [
        Cell(name, direction, SHAPES.get(name, (256,)), "float32", "default", INTERPRETER)
        for name in FILES
        for direction in ((Direction.FORWARD, Direction.BACKWARD) if name == "scaled" else (Direction.FORWARD,))
    ]
    planned = [PlannedCell(cell, Evidence.INTERPRETED) for cell in cells]
    sources = {name: CaseSource(name, path=str(CASES / file)) for name, file in FILES.items()}
    results = list(workshop.session.results(chains_for(planned, sources, {})))
    assert {r.cell: r.outcome.message for r in results if r.outcome.status is not Status.PASSED} == {}
    assert len(results) == 5
