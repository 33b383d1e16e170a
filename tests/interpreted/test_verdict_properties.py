"""What holds of every verdict, over generated outputs."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from portkit.model import Cell, Direction, KernelCase, Status, Work
from portkit.run.calls import Results
from portkit.run.reference import Reference
from portkit.run.verify import Run, judge

CASE = KernelCase(
    name="rows",
    fused=None,
    reference=None,
    inputs=None,
    work=lambda shape, dtype: Work(1, 1, 1),
    shapes=((8, 64),),
    small_shapes=((8, 64),),
    dtypes=("float32",),
    variants={"default": {}},
)
CELL = Cell("rows", Direction.FORWARD, (8, 64), "float32", "default", "interpreter")

ELEMENTS = st.floats(-4, 4, width=32).filter(lambda x: abs(x) > 1e-3)
few = settings(max_examples=40, deadline=None)


@st.composite
def references(draw):
    """Float64 outputs of some unequal rows."""
    rows, columns = draw(st.integers(2, 8)), draw(st.integers(1, 24))
    values = draw(st.lists(ELEMENTS, min_size=rows * columns, max_size=rows * columns))
    reference = torch.tensor(values, dtype=torch.float64).view(rows, columns)
    reference[0] += 8.0  # unequal to every other row by far
    return reference


def status(fused, reference, **special):
    one = [Results(("0",), (tensor,)) for tensor in (fused, reference.float(), reference)]
    return judge(CASE, CELL, Run("inputs", one[0], one[1], Reference(one[2]), **special))[1].status


@few
@given(references())
def test_the_rounded_reference_passes(reference):
    assert status(reference.float(), reference) is Status.PASSED


@few
@given(references(), st.integers(-60, 60))
def test_a_power_of_two_on_everything_changes_nothing(reference, power):
    right, wrong = reference.float(), reference.float()
    wrong.view(-1)[-1] += 0.25
    scaled = reference * 2.0**power
    assert status((right.double() * 2.0**power).float(), scaled) is Status.PASSED
    assert status((wrong.double() * 2.0**power).float(), scaled) is Status.WRONG_RESULT


@few
@given(references())
def test_zeros_never_pass(reference):
    assert status(torch.zeros_like(reference, dtype=torch.float32), reference) is not Status.PASSED


@few
@given(references(), st.randoms(use_true_random=False))
def test_a_permutation_of_unequal_rows_never_passes(reference, random):
    order = list(range(reference.shape[0]))
    random.shuffle(order)
    moved = reference[order]
    expected = Status.PASSED if torch.equal(moved, reference) else Status.WRONG_RESULT
    small = (moved - reference).abs().max() / (reference.abs().max() + 1)
    if 0 < small < 1e-3:  # rows that differ by less than what must be seen
        return
    assert status(moved.float(), reference) is expected


@few
@given(references(), st.integers(0, 10**6), st.sampled_from([float("nan"), float("inf"), float("-inf")]))
def test_a_lone_nan_or_infinity_never_passes(reference, index, value):
    wrong = reference.float()
    wrong.view(-1)[index % wrong.numel()] = value
    assert status(wrong, reference) is Status.WRONG_RESULT


@few
@given(references(), st.integers(1, 200))
def test_the_reference_for_other_inputs_is_stale_and_refused(reference, shift):
    other = reference + shift / 10
    stale = Results(("0",), (other,))
    assert status(reference.float(), reference, stale=stale) is Status.PASSED
    assert status(other.float(), reference, stale=stale) is Status.WRONG_RESULT


@few
@given(references())
def test_a_stale_output_that_the_check_accepts_is_a_weak_check(reference):
    near = reference * (1 + 1e-9)
    assert status(reference.float(), reference, stale=Results(("0",), (near,))) is Status.WEAK_CHECK
