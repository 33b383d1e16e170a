"""The kernel that instruction tests are written around hands values through unchanged."""

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from assembly import computed


@pytest.mark.parametrize("architecture", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1200", "gfx1201"])
def test_values_pass_through(architecture):
    ran = computed(architecture, "v_mov_b32_e32 v12, v1\nv_mov_b32_e32 v13, v6")
    assert np.array_equal(ran.outputs, ran.inputs[:, [6, 7, 0, 5]])
