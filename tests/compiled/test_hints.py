"""Hints that a compiler did without are in the record of the launch."""

from pathlib import Path

import pytest

from portkit.model import CaseSource, Cell, Direction
from portkit.run.hints import ignored_hints

NAME = "producer_consumer_gemm"
SOURCE = CaseSource(NAME, path=str(Path(__file__).parents[2] / "kernels" / f"{NAME}.py"))
WARPS = "warp_specialize: all warps run the whole loop"
TILES = "tensor descriptors: tiles are loaded and stored through masked pointers"


@pytest.mark.parametrize(("target", "ignored"), [("h200", ()), ("a100", (WARPS, TILES)), ("mi300x", (WARPS, TILES))])
def test_a_launch_says_what_its_target_ignores(workshop, target, ignored):
    asked, plain = (
        Cell(NAME, Direction.FORWARD, (130, 136, 128), "bfloat16", variant, target)
        for variant in ("ws128x128", "p128x128")
    )
    results = workshop.build(SOURCE, [asked, plain])
    assert [x.ignored for x in results[asked].build.launches] == [ignored]
    assert [x.ignored for x in results[plain].build.launches] == [()]


def test_a_build_without_hints_ignores_none():
    assert ignored_hints({"source": "scf.for", "ttir": "scf.for", "ttgir": "scf.for"}) == ()
