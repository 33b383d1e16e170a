"""Every status that a cell may have is caused in some test."""

import re
from pathlib import Path

import pytest

from portkit.model import Status

TESTS = Path(__file__).parents[1]
TEXT = "\n".join(
    path.read_text(encoding="utf-8")
    for folder in ("compiled", "gpu", "interpreted", "diverging", "faults", "emulated")
    for path in sorted(TESTS.glob(f"{folder}/**/*.py"))
)
"""Tests that run kernels: there a status is caused, elsewhere it is only made up."""


@pytest.mark.parametrize("status", Status)
def test_a_test_that_runs_kernels_names_the_status(status):
    assert re.search(rf"\bStatus\.{status.name}\b|[\"'*]{status.value}\b", TEXT), f"no test causes {status.value}"
