"""NaNs that float32 instructions of PTX give."""

import pytest
from ptx_probe import pairs, results_of


@pytest.mark.parametrize("name", ["add.f32", "mul.rn.f32", "max.NaN.f32", "div.full.f32"])
def test_nans_of_float32_have_the_devices_bits(name):
    """Whichever operand is one, and where neither is: warps that compute one value twice store equal bits."""
    got = results_of(f"{name} %o0, %a0, %a1;", pairs())[:, 0]
    nans = is_nan_word(got)
    assert nans.sum() > 50
    assert (got[nans] == 0x7FFF_FFFF).all()


def is_nan_word(words):
    return (words & 0x7FFF_FFFF) > 0x7F80_0000
