"""The judgement on values computed by hand."""

from __future__ import annotations

import math

import pytest
import torch

from portkit.model import Cell, Direction, KernelCase, Status, Work
from portkit.run import verify
from portkit.run.calls import Results
from portkit.run.controls import _one_element_off, controls, visible
from portkit.run.inputs import hash_tensors
from portkit.run.reference import Reference
from portkit.run.scale import by_place
from portkit.run.verify import Run, Tolerance, compare, judge, root_mean_square

NAN, INF = float("nan"), float("inf")


def case(**special):
    given = {
        "name": "rows",
        "fused": None,
        "reference": None,
        "inputs": None,
        "work": lambda shape, dtype: Work(1, 1, 1),
        "shapes": ((2, 1024),),
        "small_shapes": ((2, 1024),),
        "dtypes": ("float32", "float16", "bfloat16"),
        "variants": {"default": {}},
    }
    return KernelCase(**{**given, **special})


def cell(dtype="float32"):
    return Cell("rows", Direction.FORWARD, (2, 1024), dtype, "default", "interpreter")


def one(tensor, name="0"):
    return Results((name,), (tensor,))


def run(fused, unfused, reference64, **special):
    return Run("inputs", one(fused), one(unfused), Reference(one(reference64)), **special)


def f64(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_error_is_relative_to_element_plus_root_mean_square():
    reference = f64(3.0, -4.0, 0.0, 0.0)
    assert root_mean_square(reference) == 2.5
    found = compare(f64(3.0, -3.0, 0.5, 0.0), reference, 2.5)
    assert found.error == pytest.approx(0.5 / 2.5)  # the third: 1 / 6.5 of the second is less
    assert found.index == 2


@pytest.mark.parametrize(("special", "against"), [({}, "unfused chain"), ({"work": None}, "reference")])
def test_a_wrong_form_is_told_with_what_it_is_held_against(special, against):
    """A checked call has no work model, and nothing but its reference to be held against."""
    values = f64(3.0, -4.0)
    _, outcome = judge(case(**special), cell(), run(values, values.float(), values))
    assert outcome.status is Status.WRONG_RESULT
    assert outcome.message == f"output 0: torch.float64, the {against}'s is torch.float32"
    _, outcome = judge(case(**special), cell(), run(values[:1], values, values))
    assert outcome.message == f"output 0: shape (1,), the {against}'s is (2,)"


def test_worst_element_is_found_across_chunks(monkeypatch):
    monkeypatch.setattr(verify, "_CHUNK", 3)
    reference = torch.ones(10, dtype=torch.float64)
    result = reference.clone()
    result[2], result[7] = 1.5, 0.0
    found = compare(result, reference, root_mean_square(reference))
    assert (found.error, found.index) == (0.5, 7)


def test_scale_of_a_zero_reference_is_one():
    assert root_mean_square(f64(0.0, 0.0)) == 1.0
    assert root_mean_square(f64(NAN, INF)) == 1.0


@pytest.mark.parametrize(
    ("result", "reference", "agree"),
    [
        ([1.0, NAN, INF], [1.0, NAN, INF], True),
        ([1.0, NAN, INF], [1.0, NAN, -INF], False),
        ([1.0, 2.0, INF], [1.0, NAN, INF], False),
        ([NAN, 1.0, 1.0], [1.0, 1.0, 1.0], False),
    ],
)
def test_nan_and_inf_must_stand_where_the_reference_has_them(result, reference, agree):
    assert compare(f64(*result), f64(*reference), 1.0).nonfinite_agree is agree


def test_overflow_of_the_dtype_is_no_fault():
    found = compare(torch.tensor([1.0, INF], dtype=torch.float16), f64(1.0, 1e6), 1.0)
    assert (found.error, found.nonfinite_agree) == (0.0, True)


def test_limit_by_the_rule():
    limit = Tolerance(case(), cell()).limit(torch.float32, 1e-6, scale=1.0)
    # 2 e, half an epsilon, and 2^-24 (16 + 4 log2 1024)
    assert limit.value == pytest.approx(2e-6 + 2**-24 + 2**-24 * 56, rel=1e-9)
    assert limit.rule == "2 x unfused 1.0e-06 + rounding to float32 6.0e-08 + float32 6.0e-08 x 56"


def test_limit_of_bfloat16_doubles_its_rounding_where_it_is_cut():
    rounded, cut = (Tolerance(case(), cell(), truncates=t).limit(torch.bfloat16, 0.0, 1.0).value for t in (False, True))
    assert cut - rounded == pytest.approx(2**-8, rel=1e-9)


def test_limit_counts_subnormal_spacing_against_small_outputs():
    tolerance = Tolerance(case(), cell())
    extra = tolerance.limit(torch.float16, 0.0, 1e-5).value - tolerance.limit(torch.float16, 0.0, math.inf).value
    assert extra == pytest.approx(2**-25 / 1e-5, rel=1e-9)


def test_limit_with_tf32_and_of_integers_and_of_the_case():
    assert "tf32 4.9e-04 x 56" in Tolerance(case(allow_tf32=True), cell()).limit(torch.float32, 0.0, 1.0).rule
    assert Tolerance(case(), cell()).limit(torch.int32, 0.0, 1.0).value == 0.0
    assert Tolerance(case(limits={"float32": 0.01}), cell()).limit(torch.float32, 1.0, 1.0).value == 0.01
    rule = Tolerance(case(), cell()).limit(torch.float32, 1.0, 1.0)
    of_shapes = Tolerance(case(limits={"float32": {cell().shape: 0.02}.get}), cell())
    assert of_shapes.limit(torch.float32, 1.0, 1.0).value == 0.02
    assert Tolerance(case(limits={"float32": lambda shape: None}), cell()).limit(torch.float32, 1.0, 1.0) == rule


def test_right_result_passes_with_all_controls_refused():
    reference = f64(1.0, 2.0, 3.0, 4.0).view(2, 2)
    verdict, outcome = judge(case(), cell(), run(reference.float(), reference.float(), reference))
    assert outcome.status is Status.PASSED
    assert verdict.controls == {"all_zeros": True, "one_element_off": True, "rows_swapped": True}
    assert verdict.outputs[0].fused_error == 0.0


class _SeesOnly:
    """A check that looks at the first rows alone."""

    def __init__(self, seen: int) -> None:
        self.seen = seen

    def refuses(self, wrong, at=None) -> bool:
        return at is None or bool((at < self.seen).any())

    def firm(self, at):
        return at


def test_rows_are_swapped_from_first_to_last_and_each_pair_must_be_refused():
    reference = torch.arange(40.0, dtype=torch.float64).view(20, 2)
    assert controls(_SeesOnly(40), torch.float32, reference, 1.0, None)["rows_swapped"] is True
    assert controls(_SeesOnly(2), torch.float32, reference, 1.0, None)["rows_swapped"] is False
    # Equal rows are none that can change places, and where some differ, those do.
    assert "rows_swapped" not in controls(_SeesOnly(40), torch.float32, torch.ones(9, 3), 1.0, None)
    reference = torch.ones(9, 3)
    reference[8] = 2.0
    assert controls(_SeesOnly(1), torch.float32, reference, 1.0, None)["rows_swapped"] is False
    assert controls(_SeesOnly(27), torch.float32, reference, 1.0, None)["rows_swapped"] is True


def test_wrong_element_is_named():
    reference = f64(1.0, 2.0, 3.0, 4.0).view(2, 2)
    fused = reference.float()
    fused[1, 0] = 3.25
    _, outcome = judge(case(), cell(), run(fused, reference.float(), reference))
    assert outcome.status is Status.WRONG_RESULT
    assert "worst at (1, 0): 3.25, not 3" in outcome.message


def test_unfused_chain_may_be_inaccurate_but_not_hide_a_wrong_result():
    reference = torch.linspace(1, 2, 8, dtype=torch.float64).view(2, 4)
    coarse = (reference * 1.2).float()  # an error of about 0.1: the limit would let a sixteenth pass
    verdict, outcome = judge(case(), cell(), run(coarse, coarse, reference))
    assert outcome.status is Status.WEAK_CHECK
    assert outcome.message == "the check would let pass: one element off, rows swapped"
    assert verdict.controls["all_zeros"] is True


def test_a_result_that_needs_no_excuse_is_judged_though_the_unfused_chain_is_bad():
    reference = torch.linspace(1, 2, 8, dtype=torch.float64).view(2, 4)
    coarse = (reference * 1.2).float()
    verdict, outcome = judge(case(), cell(), run((reference * 1.05).float(), coarse, reference))
    assert outcome.status is Status.PASSED
    assert all(verdict.controls.values())
    assert verdict.outputs[0].limit == 15 / 256
    assert verdict.outputs[0].rule.endswith("drawn in to 5.9e-02")


def _early_large():
    """Reference (4 heads, 64 places, 32): the first place is 64 times as large as all others."""
    signs = torch.where(torch.arange(4 * 64 * 32) % 3 == 0, -1.0, 1.0).view(4, 64, 32).to(torch.float64)
    signs[:, 0] *= 64.0
    signs[0, 0, :16] = 1e-3  # parts that cancel
    return signs


def _off(reference, by):
    """A result whose first place is off by an amount, as by roundings of the parts that cancel."""
    wrong = reference.clone()
    wrong[:, 0] += by
    return wrong.float()


def test_a_large_place_has_a_scale_of_its_own_where_that_of_all_says_nothing():
    reference = _early_large()
    whole = root_mean_square(reference)
    assert compare(_off(reference, 0.6), reference, whole).error > 1 / 16  # of what cancels, beside the whole
    verdict, outcome = judge(case(), cell(), run(_off(reference, 0.5), _off(reference, 0.6), reference))
    assert outcome.status is Status.PASSED
    assert all(verdict.controls.values())
    output = verdict.outputs[0]
    assert output.rule.endswith("scale by place")
    place = by_place(reference, whole)
    assert output.fused_error == pytest.approx(0.5 / (float(place.at(torch.tensor(0))) + 1e-3), rel=1e-3)
    assert output.unfused_error == pytest.approx(0.6 / (float(place.at(torch.tensor(0))) + 1e-3), rel=1e-3)
    verdict, outcome = judge(case(), cell(), run(_off(reference, 2.0), _off(reference, 0.6), reference))
    assert outcome.status is Status.WRONG_RESULT
    assert "worst at (0, 0, 0)" in outcome.message


def test_a_scale_of_all_that_says_something_stays():
    reference = _early_large()
    verdict, _ = judge(case(), cell(), run(_off(reference, 0.05), _off(reference, 0.05), reference))
    assert "scale by place" not in verdict.outputs[0].rule
    verdict, outcome = judge(case(), cell(), run(_off(reference, 30.0), _off(reference, 30.0), reference))
    assert "scale by place" not in verdict.outputs[0].rule  # which would say nothing either
    assert outcome.status is Status.WEAK_CHECK


def test_scale_of_a_place():
    reference = torch.zeros(2, 3, 2, dtype=torch.float64)
    reference[:, 1] = 4.0
    reference[1, 2] = NAN
    place = by_place(reference, 1.0)
    assert place.places.tolist() == [1.0, 4.0, 1.0]  # the whole's at least; what is not finite is left out
    assert place.at(torch.tensor([0, 2, 3, 4, 6, 9])).tolist() == [1.0, 4.0, 4.0, 1.0, 1.0, 4.0]
    reference *= 1e200
    assert by_place(reference, 1e200).places.tolist() == [1e200, 4e200, 1e200]  # squares that would overflow
    assert by_place(torch.ones(3, 2), 1.0) is None
    assert by_place(torch.ones(3, 1, 2), 1.0) is None
    assert by_place(torch.ones(0, 3, 2), 1.0) is None


def test_elements_that_are_picked_have_the_scales_of_their_places():
    reference = torch.zeros(2, 3, 2, dtype=torch.float64)
    reference[:, 1] = 4.0
    place, at = by_place(reference, 1.0), torch.tensor([2, 5])
    assert compare(f64(5.0, 1.0), reference.reshape(-1)[at], place, at=at).error == 1.0
    assert compare(f64(5.0, 0.0), reference.reshape(-1)[at], place, at=at).error == 1 / 8


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float32])
def test_an_element_is_never_less_off_than_it_should_be(dtype):
    scale = float(torch.finfo(dtype).smallest_normal) / 90  # its steps are larger than what a check must see
    ((wrong, at),) = _one_element_off(_SeesOnly(0), dtype, torch.full((4,), scale / 100, dtype=torch.float64), scale)
    assert at.tolist() == [0]
    assert wrong.dtype is dtype
    assert wrong.double().item() >= scale / 100 + visible(dtype) * 1.01 * scale


def test_unfused_chain_that_overflows_has_no_error_and_lends_no_tolerance():
    reference = f64(1.0, 2.0, 3.0, 4.0).view(2, 2)
    unfused = reference.float()
    unfused[0, 0] = INF
    verdict, outcome = judge(case(), cell(), run(reference.float(), unfused, reference))
    assert outcome.status is Status.PASSED
    assert verdict.outputs[0].unfused_error is None
    assert verdict.outputs[0].rule.startswith("unfused not finite + rounding")


def test_integer_outputs_must_be_exact():
    reference = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    right = reference.to(torch.int32)
    assert judge(case(), cell(), run(right, right, reference))[1].status is Status.PASSED
    assert judge(case(), cell(), run(right + 1, right, reference))[1].status is Status.WRONG_RESULT


def test_equal_rows_have_nothing_to_swap():
    reference = torch.ones(3, 4, dtype=torch.float64)
    verdict, outcome = judge(case(), cell(), run(reference.float(), reference.float(), reference))
    assert outcome.status is Status.PASSED
    assert set(verdict.controls) == {"all_zeros", "one_element_off"}


def test_judging_leaves_its_inputs_alone():
    reference = f64(1.0, NAN, 3.0, 4.0).view(2, 2)
    given = run(reference.float(), reference.float(), reference)
    tensors = {"f": given.fused.tensors[0], "r": given.reference.results.tensors[0]}
    before = hash_tensors(tensors)
    judge(case(), cell(), given)
    assert hash_tensors(tensors) == before
