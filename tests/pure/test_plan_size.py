"""A plan too large for one run is refused before it fills memory."""

import tracemalloc

import pytest
from test_expand import CASES, KNOWN, matrix

from portkit.errors import MatrixError
from portkit.model import Axes
from portkit.plan import expand as expanding
from portkit.plan.expand import Selection, expand

EVERY = {"targets": Selection(("all",)), "present": ("h200",)}


def test_ten_million_cells_are_refused_at_once():
    shapes = tuple((8, n) for n in range(1, 833_001))  # x 2 dtypes, 2 variants, 2 targets, one of them present
    tracemalloc.start()
    try:
        with pytest.raises(MatrixError, match="the plan has 9,996,004 cells, 100,000 are the most") as caught:
            expand(matrix(kernels={"softmax": Axes(shapes=shapes)}), CASES, KNOWN, **EVERY)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()
    assert caught.value.place == "matrix.yaml"
    assert "narrow it with a tier" in caught.value.remedy


def test_the_count_is_that_of_the_plan(monkeypatch):
    plan = expand(matrix(), CASES, KNOWN, **EVERY)
    assert len(plan.cells) == 2 * 2 * 2 * 3 + 2 * 2
    monkeypatch.setattr(expanding, "MOST_CELLS", len(plan.cells))
    assert expand(matrix(), CASES, KNOWN, **EVERY) == plan
    monkeypatch.setattr(expanding, "MOST_CELLS", len(plan.cells) - 1)
    with pytest.raises(MatrixError, match="the plan has 28 cells, 27 are the most"):
        expand(matrix(), CASES, KNOWN, **EVERY)
