"""Codes, indices and flags: equal, or near a tie."""

from __future__ import annotations

import pytest
import torch

from portkit.run.discrete import DiscreteRule, codes


def f64(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_without_a_margin_every_element_must_be_equal():
    rule = DiscreteRule(None, 0.0, 1)
    reference = torch.tensor([3, 5, 7, 9], dtype=torch.int64)
    assert rule.wrong(reference.to(torch.int32), reference) == (0.0, 0)
    assert rule.wrong(torch.tensor([3, 5, 8, 8], dtype=torch.int32), reference) == (0.5, 2)
    assert (rule.text, rule.band_share) == ("exact", None)


def test_within_the_band_a_code_may_be_off_by_one_step():
    rule = DiscreteRule(f64(0.5, 1e-7, 1e-7, 1e-3), band=1e-6, step=1)
    reference = torch.tensor([10, 10, 10, 10], dtype=torch.int8)
    assert rule.wrong(torch.tensor([10, 11, 9, 10], dtype=torch.int8), reference) == (0.0, 0)
    assert rule.wrong(torch.tensor([10, 12, 10, 10], dtype=torch.int8), reference) == (0.25, 1)
    assert rule.wrong(torch.tensor([10, 10, 10, 11], dtype=torch.int8), reference) == (0.25, 3)
    assert rule.band_share == 0.5


def test_an_index_within_the_band_may_be_any():
    rule = DiscreteRule(f64(0.0, 1.0), band=1e-6, step=None)
    reference = torch.tensor([4, 7])
    assert rule.wrong(torch.tensor([4000, 7]), reference)[0] == 0.0
    assert rule.wrong(torch.tensor([4, 8]), reference)[0] == 0.5


def test_a_byte_that_is_neither_true_nor_false_is_wrong():
    flags = torch.tensor([1, 0xF5], dtype=torch.uint8).view(torch.bool)
    assert DiscreteRule(None, 0.0, 1).wrong(flags, torch.tensor([True, True])) == (0.5, 1)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_codes_of_fp8_follow_its_order(dtype):
    smallest = torch.finfo(dtype).smallest_normal / 8
    values = torch.tensor([-2.0, -1.0, -smallest, 0.0, smallest, 1.0, 2.0]).to(dtype)
    found = codes(values).tolist()
    assert found == sorted(found)
    assert found[3] == 0
    assert found[5] == -found[1]
