"""The float64 reference within the memory that is free, and gradients."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

from portkit.model import Cell, Direction, Discrete, KernelCase, Outcome, Stage, Status, Work
from portkit.run.evaluate import evaluate
from portkit.run.inputs import InputMaker
from portkit.run.reference import ReferenceMaker, ReferenceTooLargeError
from portkit.run.watched import Runner

ROWS, COLUMNS = 64, 100


def softmax(x):
    shifted = x - x.amax(dim=-1, keepdim=True)
    weights = shifted.exp()
    return weights / weights.sum(dim=-1, keepdim=True)


CASE = KernelCase(
    name="softmax",
    fused=softmax,
    reference=softmax,
    inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype, low=-4.0, high=4.0)},
    work=lambda shape, dtype: Work(2 * ROWS * COLUMNS * 4, 8 * ROWS * COLUMNS * 4, 1),
    shapes=((ROWS, COLUMNS),),
    small_shapes=((4, COLUMNS),),
    dtypes=("float32",),
    variants={"default": {}},
    row_inputs=("x",),
)
CELL = Cell("softmax", Direction.FORWARD, (ROWS, COLUMNS), "float32", "default", "interpreter")
MOVED = 8 * ROWS * COLUMNS * 8  # bytes by the work model: eight for each element
HELD = 8 * ROWS * (4 * COLUMNS + 1)  # x, shifted, weights, the result, and the sum of each row
INPUTS = CASE.inputs(InputMaker(0), CELL.shape, "float32")


def made(free, case=CASE, cell=CELL, upstream=()):
    return ReferenceMaker(case, cell, lambda device: free).make(INPUTS, upstream)


@pytest.mark.parametrize(
    ("free", "how", "judged"),
    [
        (2 * MOVED, "whole", ROWS),
        (2 * HELD, "whole", ROWS),
        (2 * HELD - 2, "slices of 31 rows", ROWS),
        (HELD, "slices of 16 rows", ROWS),
        (HELD // 4, "4 of 64 rows", 4),
        (1, "1 of 64 rows", 1),
    ],
)
def test_what_fits_is_judged_and_said(free, how, judged):
    found = made(free)
    assert found.how == how
    tensor = found.results.tensors[0]
    assert tensor.shape == (judged, COLUMNS)
    assert torch.equal(tensor, found.part_of(softmax(INPUTS["x"].double())))


def test_sampled_rows_reach_from_the_first_to_the_last():
    rows = made(HELD // 4).rows.tolist()
    assert (rows[0], rows[-1], len(set(rows))) == (0, ROWS - 1, 4)


def test_a_function_that_asks_for_values_is_taken_by_its_work_model():
    case = replace(CASE, reference=lambda x: softmax(x) if float(x.sum()) < 1e9 else x)
    assert made(2 * MOVED, case).how == "whole"
    assert made(2 * MOVED - 2, case).how == "slices of 31 rows"


def test_what_a_gradient_holds():
    backward = replace(CELL, direction=Direction.BACKWARD)
    assert made(7 * HELD, cell=backward, upstream=(INPUTS["x"],)).how == "whole"  # 24 × by what is moved, tripled
    with pytest.raises(ReferenceTooLargeError):
        made(HELD, replace(CASE, row_inputs=()), cell=backward, upstream=(INPUTS["x"],))


def scaled(x, w):
    return softmax(x) * w


SCALED = replace(
    CASE,
    reference=scaled,
    inputs=lambda make, shape, dtype: {
        "x": make.uniform(shape, dtype, low=-4.0, high=4.0),
        "w": make.uniform(shape[-1:], dtype),
    },
)


def test_gradients_by_rows_are_those_of_the_whole():
    backward = replace(CELL, direction=Direction.BACKWARD)
    inputs = SCALED.inputs(InputMaker(0), CELL.shape, "float32")
    whole, sliced = (
        ReferenceMaker(SCALED, backward, lambda device, free=free: free).make(inputs, (INPUTS["x"],))
        for free in (1 << 40, 2 * HELD)
    )
    assert (whole.how, sliced.rows) == ("whole", None)
    assert sliced.how.startswith("slices of ")
    for one, other in zip(whole.results.tensors, sliced.results.tensors, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


def test_a_gradient_summed_over_slices_is_rounded_once():
    """Of rows that give 2²⁴, 1 and -2²⁴: float32 loses the 1 in some of their orders, whichever way it adds."""
    rows = torch.tensor(list(itertools.permutations([2.0**24, 1.0, -(2.0**24)]))).T
    case = replace(CASE, reference=lambda x, w: x * w)
    backward = Cell("case", Direction.BACKWARD, tuple(rows.shape), "float32", "default", "interpreter")
    maker = ReferenceMaker(case, backward, lambda device: 4)  # a slice of one row
    found = dict(maker.chain({"x": rows, "w": torch.ones(6)}, (torch.ones(3, 6),)).named)
    assert found["grad w"].dtype == torch.float32
    assert found["grad w"].tolist() == [1.0] * 6
    assert torch.equal(found["grad x"], torch.ones(3, 6))


def test_gradients_whose_single_row_does_not_fit_are_refused():
    backward = replace(CELL, direction=Direction.BACKWARD)
    with pytest.raises(ReferenceTooLargeError):
        made(2, cell=backward, upstream=(INPUTS["x"],))


def test_without_independent_rows_it_fits_wholly_or_not_at_all():
    with pytest.raises(ReferenceTooLargeError, match="name the case's row_inputs"):
        made(HELD, replace(CASE, row_inputs=()))


def judged(case, cell=CELL, free=1 << 40):
    runner = Runner("cpu", lambda error, stage: None, free_bytes=lambda device: free)
    return evaluate(case, cell, runner, seed=0)


@pytest.mark.parametrize(("row", "status"), [(0, Status.WRONG_RESULT), (1, Status.PASSED)])
def test_a_verdict_on_sampled_rows_is_of_those_rows(row, status):
    def fused(x):
        y = softmax(x)
        if x.shape[0] == ROWS:
            y[row] = 0.0
        return y

    done = judged(replace(CASE, fused=fused), free=HELD // 4)
    assert (done.outcome.status, done.verdict.reference) == (status, "4 of 64 rows")


def test_a_gradient_is_held_against_autograd_in_float64():
    backward = replace(CELL, direction=Direction.BACKWARD)
    done = judged(CASE, backward)
    assert done.outcome.status is Status.PASSED
    (output,) = done.verdict.outputs
    assert (output.name, output.dtype) == ("grad x", "float32")
    assert output.limit < 1e-5


class _ScaledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return softmax(x)

    @staticmethod
    def backward(ctx, upstream):
        y = softmax(ctx.saved_tensors[0])
        return 1.01 * y * (upstream - (upstream * y).sum(dim=-1, keepdim=True))


def test_a_gradient_off_by_a_hundredth_is_wrong():
    done = judged(replace(CASE, fused=_ScaledGradient.apply), replace(CELL, direction=Direction.BACKWARD))
    assert done.outcome.status is Status.WRONG_RESULT
    assert done.outcome.message.startswith("output grad x: error")


def test_differentiable_says_which_gradients_are_results():
    case = replace(
        CASE,
        fused=lambda x, bias: softmax(x) + bias,
        reference=lambda x, bias: softmax(x) + bias,
        inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype), "bias": make.uniform(shape[-1:], dtype)},
        differentiable=("bias",),
    )
    done = judged(case, replace(CELL, direction=Direction.BACKWARD))
    assert [output.name for output in done.verdict.outputs] == ["grad bias"]


def test_share_of_the_band_is_in_the_record():
    case = replace(
        CASE,
        fused=lambda x: (x > 0).to(torch.int8),
        reference=lambda x: (x > 0).to(torch.int8),
        discrete={0: Discrete(margin=lambda x: x.abs() / 4.0, band=0.25)},
    )
    done = judged(case)
    assert done.outcome.status is Status.PASSED, done.outcome
    (output,) = done.verdict.outputs
    assert output.band_share == pytest.approx(float((INPUTS["x"].abs() <= 1.0).double().mean()))
    assert (output.fused_error, output.limit) == (0.0, 0.0)


def test_a_reference_that_fits_nowhere_fails_the_reference():
    from portkit.run.watched import StageFailed

    with pytest.raises(StageFailed) as caught:
        judged(replace(CASE, row_inputs=()), free=1)
    outcome: Outcome = caught.value.outcome
    assert (outcome.status, outcome.stage) == (Status.REFERENCE_FAILED, Stage.REFERENCE)
    assert "row_inputs" in outcome.message
