"""How emulated cells are spread over processes."""

from __future__ import annotations

import itertools

import pytest
from factories import cell

from portkit.model import CaseSource, Evidence
from portkit.run.jobs import Job
from portkit.run.portions import cut, divide

SHAPES, VARIANTS = ((1, 64), (3, 64)), tuple(f"w{n}" for n in range(16))


def chain(*targets, evidence=Evidence.EMULATED):
    """Shapes in the outer loop, as a plan has them."""
    return tuple(
        Job(
            evidence,
            CaseSource("softmax"),
            tuple(cell(shape=shape, variant=variant, target=target) for shape in SHAPES for variant in VARIANTS),
        )
        for target in targets
    )


def variants(part, number=0):
    return [each.variant for each in part[number].cells]


def test_cells_that_differ_in_shape_alone_stay_together():
    first, rest = cut(chain("mi300x"), 8)
    assert variants(first) == [*VARIANTS[:4]] * 2
    assert variants(rest) == [*VARIANTS[4:]] * 2
    assert cut(chain("mi300x"), 7)[0] == first


def test_skus_of_one_architecture_are_cut_alike():
    first, rest = cut(chain("mi300x", "mi325x"), 30)
    assert variants(first) == variants(first, 1) == [*VARIANTS[:15]] * 2
    assert variants(rest) == variants(rest, 1) == ["w15"] * 2


def test_nothing_is_left_of_a_chain_that_is_taken_whole():
    whole = chain("mi300x", "mi325x")
    assert cut(whole, 32) == cut(whole, 500) == (whole, ())


@pytest.mark.parametrize(("workers", "taken"), [(1, 32), (2, 8), (4, 4), (100, 2)])
def test_more_processes_take_smaller_parts(workers, taken):
    whole = chain("mi300x")
    others = [chain("rx7900xtx"), chain("h200", evidence=Evidence.COMPILED)]
    first, rest = divide(whole, [whole, *others], workers)
    assert len(first[0].cells) == taken
    assert sorted(map(str, itertools.chain(*(job.cells for job in (*first, *rest))))) == sorted(
        map(str, whole[0].cells)
    )


def test_other_evidence_is_not_divided():
    whole = chain("mi300x", evidence=Evidence.COMPILED)
    assert divide(whole, [whole], 8) == (whole, ())
