"""Kernels on which compilers part ways: what portkit says of each cell, against the table of what was seen."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from cells import MATRIX, ROWS, cell_of
from table import Row, rows

from portkit.plan.matrix import read_matrix


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
