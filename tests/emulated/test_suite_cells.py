"""Cells of suite.yaml, emulated in the processes of a run: right, on every architecture that is emulated whole.

A selection by default; ``-m slow`` runs the whole tier of small shapes. Every shape and variant is the tier ``full``:
``pytest --benchmark --portkit-matrix suite.yaml --portkit-tier full --portkit-target mi300x -k emulated``.
"""

import os
from pathlib import Path

import pytest

from portkit.model import Evidence, Status
from portkit.plan.expand import Emulate, Selection
from portkit.run.benchmark import prepare
from portkit.run.jobs import Limits
from portkit.run.session import Session, chains_for

SUITE = Path(__file__).parents[2] / "suite.yaml"
TARGETS = ("mi300x", "mi355x", "rx7900xtx", "rx9070xt", "h100", "b200")
SELECTED = {
    "rms_norm_fp8[mi300x-4x2880-bfloat16-w4-emulated]",  # another 8-bit format than elsewhere
    "rms_norm_fp8[rx9070xt-4x2880-bfloat16-w4-emulated]",
    "scatter_add[rx7900xtx-9x20x1024x1-bfloat16-w4-emulated]",  # atomics by compare-and-swap
    "fused_moe_gate[mi355x-70x8x2-bfloat16-w4-emulated]",
    "sampling[mi300x-3x1000-bfloat16-w16-emulated]",
    "scatter_add[h100-9x20x1024x1-bfloat16-w4-emulated]",
    "sampling[b200-3x1000-bfloat16-w16-emulated]",
}


@pytest.fixture(scope="module")
def emulated():
    """The plan's emulated cells, and a function that runs some or all: label → result."""
    prepared = prepare(SUITE, tier="small", selection=Selection(TARGETS), emulate=Emulate.ALL)
    sources = {name: declaration.source for name, declaration in prepared.declarations.items()}
    cells = {each.label: each for each in prepared.plan.cells if each.evidence is Evidence.EMULATED}
    session = Session(Limits(workers=len(os.sched_getaffinity(0))))

    def run(labels):
        found = session.results(chains_for([cells[label] for label in labels], sources, prepared.targets))
        return {result.cell.label(Evidence.EMULATED): result for result in found}

    yield cells, run
    session.close()


def assert_right(cells, results):
    """As passed, or as the matrix expects with this version of Triton."""
    wanted = {
        label: each.expectation.status if each.expectation else Status.PASSED
        for label, each in cells.items()
        if label in results
    }
    assert {label: result.outcome.status for label, result in results.items()} == wanted
    passed = [result for result in results.values() if result.outcome.status is Status.PASSED]
    assert all("nothing found" in result.verdict.sanitizer for result in passed)


def test_a_selection_is_right(emulated):
    cells, run = emulated
    found = run(sorted(SELECTED))
    assert found.keys() == SELECTED
    assert {each.outcome.status for each in found.values()} == {Status.PASSED}
    assert_right(cells, found)


@pytest.mark.slow
def test_the_tier_of_small_shapes_is_right(emulated):
    cells, run = emulated
    found = run(list(cells))
    assert len(found) >= 300
    assert_right(cells, found)
