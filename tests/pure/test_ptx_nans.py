"""NaNs that float32 instructions of PTX give."""

import numpy as np
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


@pytest.mark.parametrize("form", ["e4m3x2", "e5m2x2"])
def test_nans_of_float16_from_8_bits_have_the_devices_bits(form):
    rows = np.arange(1 << 16, dtype=np.uint32)[:, None] | np.zeros((1, 8), np.uint32)
    got = results_of(f"cvt.rn.f16x2.{form} %o0, %h0;", rows)[:, 0]
    low = got & 0xFFFF
    nans = (low & 0x7FFF) > 0x7C00
    assert nans.sum() == 256 * {"e4m3x2": 2, "e5m2x2": 6}[form]
    assert (low[nans] == 0x7FFF).all()
