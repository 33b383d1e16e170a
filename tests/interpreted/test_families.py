"""Input families are what they say, in any layout; kernels that fail on one are found."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from portkit.model import FAMILIES, Cell, Direction, Discrete, KernelCase, Status, Work
from portkit.run.families import _CHANGES, _apart, _flushed, nearest_small_shape, run_families
from portkit.run.inputs import InputMaker
from portkit.run.watched import Runner

INF = float("inf")
X = InputMaker(0).uniform((3, 40), "float32", low=-4.0, high=4.0)
LAYOUTS = {"rows": X, "columns": X.t().contiguous().t(), "halves": X.half(), "brain": X.bfloat16()}


@pytest.fixture(params=LAYOUTS)
def x(request):
    return LAYOUTS[request.param]


@pytest.mark.parametrize("name", _CHANGES)
def test_a_family_keeps_layout_and_dtype_and_leaves_the_input_alone(x, name):
    before = x.clone()
    changed = _CHANGES[name](x)
    assert (changed.shape, changed.stride(), changed.dtype) == (x.shape, x.stride(), x.dtype)
    assert torch.equal(x, before)
    assert not torch.equal(changed, x)


def test_each_family_by_its_definition(x):
    low = torch.finfo(x.dtype).smallest_normal
    power = 6 if x.dtype is torch.float16 else 40
    assert torch.equal(_CHANGES["large"](x).double(), x.double() * 2.0**power)
    assert 0 < float(_CHANGES["denormal"](x).double().abs().max()) < low
    assert torch.equal(_CHANGES["constant"](x), x[:, :1].expand_as(x))
    assert torch.equal(_CHANGES["ties"](x).double() * 2, (x.double() * 2).round())
    zeros = _CHANGES["zeros"](x)
    signs = [int(((zeros == 0) & (zeros.signbit() == negative)).sum()) for negative in (False, True)]
    assert all(20 < count < 60 for count in signs)
    assert torch.equal(zeros[zeros != 0], x[zeros != 0])
    assert _CHANGES["nan"](x).isnan().nonzero().tolist() == [[0, 13]]
    found = _CHANGES["inf"](x)
    assert [(tuple(at), float(found[tuple(at)])) for at in found.isinf().nonzero().tolist()] == [
        ((0, 13), INF),
        ((1, 13), -INF),
    ]


def test_strided_rows_hold_the_same_values():
    apart = _apart(X)
    assert torch.equal(apart, X)
    assert apart.stride() == (72, 1)


def test_flushing_takes_only_denormals():
    low = torch.finfo(torch.float32).smallest_normal
    assert _flushed(torch.tensor([low, low / 2, -low / 2, 1.0])).tolist() == [low, 0.0, 0.0, 1.0]


def rowwise(x):
    return (x - x.amax(dim=-1, keepdim=True)).exp()


CASE = KernelCase(
    name="rowwise",
    fused=rowwise,
    reference=rowwise,
    inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype)},
    work=lambda shape, dtype: Work(1, 1, 1),
    shapes=((64, 4096),),
    small_shapes=((4, 100), (3, 4000)),
    dtypes=("float32",),
    variants={"default": {}},
    strided_inputs=("x",),
)
CELL = Cell("rowwise", Direction.FORWARD, (64, 4096), "float32", "default", "interpreter")
RUNNER = Runner("cpu", lambda error, stage: None)


def families(fused, **special):
    return run_families(replace(CASE, fused=fused, **special), CELL, RUNNER, 0)


def test_a_right_function_passes_all_on_the_nearest_small_shape():
    found = families(rowwise)
    assert (found.shape, found.outcome.status) == ((3, 4000), Status.PASSED)
    assert set(found.lines) == set(FAMILIES)
    assert all(line.nonfinite_agree for line in found.lines.values())
    assert nearest_small_shape(CASE, (64, 64)) == (4, 100)


def flattened(x):
    """Takes rows for contiguous."""
    flat = x.as_strided((x.numel(),), (1,), x.storage_offset())
    return rowwise(flat.view(x.shape))


def even_only(x):
    y = rowwise(x)
    y[:, 4000:] = 0.0
    if x.shape[1] % 2:
        y[:, -1] = 0.5
    return y


def flushing(x):
    return torch.where(x.abs() < 1.2e-38, torch.zeros_like(x), x)


def denormals_doubled(x):
    return torch.where(x.abs() < 1.2e-38, 2 * x, x)


def numbers_for_nan(x):
    return rowwise(x).nan_to_num(nan=0.25)


@pytest.mark.parametrize(
    ("fused", "reference", "family", "status"),
    [
        (flattened, rowwise, "strided", Status.WRONG_RESULT),
        (even_only, rowwise, "tail", Status.WRONG_RESULT),
        (flushing, torch.clone, "denormal", Status.PASSED),
        (denormals_doubled, torch.clone, "denormal", Status.WRONG_RESULT),
        (lambda x: rowwise(x.half()).float(), rowwise, "large", Status.WRONG_RESULT),
    ],
)
def test_a_function_that_fails_on_one_family_is_named_with_it(fused, reference, family, status):
    found = families(fused, reference=reference)
    assert found.lines[family].status is status, found
    assert found.outcome.status is status


def test_nan_that_is_swallowed_is_recorded_and_decides_nothing():
    found = families(numbers_for_nan)
    line = found.lines["nan"]
    assert (line.status, line.nonfinite_agree) == (Status.PASSED, False)
    assert found.outcome.status is Status.PASSED


def coded(x):
    return rowwise(x).to(torch.float8_e4m3fn)


@pytest.mark.parametrize(
    ("fused", "status", "agree"),
    [
        (coded, Status.PASSED, True),
        (lambda x: numbers_for_nan(x).to(torch.float8_e4m3fn), Status.PASSED, False),
        (lambda x: coded(x.nan_to_num() * 2), Status.WRONG_RESULT, False),
    ],
)
def test_nan_among_codes_decides_nothing_and_the_other_codes_do(fused, status, agree):
    found = families(fused, reference=coded, discrete={0: Discrete()})
    line = found.lines["nan"]
    assert (line.status, line.nonfinite_agree) == (status, agree)


def test_a_gap_is_left_out_with_its_reason():
    found = families(even_only, family_gaps={"tail": "rows are even"})
    assert "tail" not in found.lines
    assert found.left_out["tail"] == "rows are even"
    assert found.outcome.status is Status.PASSED


def test_a_family_that_raises_costs_its_own_line():
    def fused(x):
        if x.shape[1] % 2:
            raise ValueError("even rows alone")
        return rowwise(x)

    found = families(fused)
    assert found.lines["tail"].status is Status.LAUNCH_ERROR
    assert (found.outcome.status, found.lines["ties"].status) == (Status.LAUNCH_ERROR, Status.PASSED)
    assert found.outcome.message.startswith("family tail: ValueError: even rows alone")
