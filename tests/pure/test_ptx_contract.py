"""Sums that take in quotients before these are rounded, held against exact products."""

import numpy as np
import pytest
from contracted import APART, AT_ONCE, QUOTIENT
from ptx_probe import results_of

LARGE, SMALL = 2.0**127, 2.0**-130


def rows():
    """Dividends, divisors of all sizes, the quotient and its negative."""
    given = np.zeros((96, 5), np.float32)
    given[:, 0] = np.linspace(0.3, 9.7, 96)
    given[:, 1] = np.linspace(1.1, 2000.3, 96)
    given[:4, 1], given[:4, 0] = (
        (LARGE, -LARGE, SMALL, -SMALL),
        (2.0**100 / 3, 2.0**101 / 7, 2.0**-40 / 3, 2.0**-41 / 7),
    )
    given[:, 2] = results_of(QUOTIENT + "mov.b32 %o0, %r2;", given.view(np.uint32))[:, 0].view(np.float32)
    given[:, 3] = -given[:, 2]
    return given


def lost(given):
    """What rounding takes from quotients: exact products of dividend and reciprocal, both scaled as the device does."""
    size = np.abs(given[:, 1])
    scale = np.select([size > 2.0**126, size < 2.0**-126], [np.float32(0.25), np.float32(2.0**24)], np.float32(1))
    divisors = np.zeros_like(given)
    divisors[:, 0] = given[:, 1] * scale
    inverse = results_of("rcp.approx.ftz.f32 %o0, %a0;", divisors.view(np.uint32))[:, 0].view(np.float32)
    exact = (given[:, 0] * scale).astype(np.float64) * inverse
    return exact - given[:, 2].astype(np.float64)


@pytest.mark.parametrize("name", AT_ONCE)
def test_sums_that_take_in_quotients(name):
    given = rows()
    found = results_of(AT_ONCE[name], given.view(np.uint32))[:, :2].view(np.float32)
    wanted = lost(given).astype(np.float32)
    assert np.count_nonzero(wanted) > 80
    assert np.array_equal(found[:, 0], -wanted if name == "from" else wanted)
    if name == "in two sums":
        assert np.array_equal(found[:, 1], -wanted)


@pytest.mark.parametrize("name", APART)
def test_sums_of_rounded_quotients(name):
    given = rows()
    if name == "a quotient that rounds":
        given[:, 3] = -(given[:, 0] / given[:, 1])
    assert not results_of(APART[name], given.view(np.uint32))[:, 0].view(np.float32).any()


def test_operands_that_are_others_by_then():
    """The divisor is written between quotient and sum, and the quotient a second time."""
    given = rows()
    for between in ("mov.b32 %a1, 0f40000000;", "mov.b32 %r2, %a2;"):
        found = results_of(QUOTIENT + between + "add.f32 %o0, %r2, %a3;", given.view(np.uint32))[:, 0]
        assert not found.view(np.float32).any()


def test_no_text_names_the_form():
    with pytest.raises(AssertionError, match="unsupported"):
        results_of("div.full.+added.f32 %o0, %a0, %a1, %a2;", rows().view(np.uint32))
