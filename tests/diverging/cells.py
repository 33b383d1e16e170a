"""Rows of this Triton, and the cell that each speaks of."""

from __future__ import annotations

from pathlib import Path

import triton
from table import Row, rows

from portkit.model import Cell, Direction

MATRIX = Path(__file__).parent / "matrix.yaml"

ROWS = [row for row in rows() if row.triton == triton.__version__.partition("+")[0]]


def cell_of(row: Row, declarations) -> Cell:
    """The cell that a row speaks of: exactly one kernel of its case has the variant."""
    (declared,) = (
        case
        for name, case in declarations.items()
        if name.partition("_")[0] == row.case and row.variant in case.variants
    )
    (shape,), (dtype,) = declared.shapes, declared.dtypes
    return Cell(declared.source.name, Direction.FORWARD, shape, dtype, row.variant, row.target)
