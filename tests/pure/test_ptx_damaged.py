"""PTX that was edited by hand: a named status with the line, and no exception."""

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
import ptx_text

GOOD = ptx_text.text(f"{ptx_text.load(0, 0, 1)}\nadd.u32 %r10, %r0, 1;\n{ptx_text.store(1, 10, 1)}")


def outcome(text):
    return ptx_text.launch(text, *(np.zeros(64, np.uint32) for _ in range(6))).outcome


def test_the_good_text_runs():
    assert outcome(GOOD).status == "passed"


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ("[p4]", "[]", "`ld.param.u64 %rd4, []`: can't be read"),
        ("[%rd21+0]", "[%rd21+09]", "can't be read"),
        ("%h<20>", "%h<20>x<3>", "can't be read"),
        ("%h<20>", "%h<99999999999>", "declares 99999999999 registers"),
        (".param .u64 p2", ".param .u6x p2", "can't be read"),
        (".param .u64 p2", ".param .u64 p1", "can't be read"),
    ],
)
def test_damage(old, new, cause):
    assert old in GOOD
    found = outcome(GOOD.replace(old, new, 1))
    assert found.status in ("unsupported", "launch_error")
    assert cause in found.message
