"""A race that a compiler made is found where it made it, and is gone where it is mended.

Triton's schedule for AMD that has two groups of waves take turns (block ping-pong) let one group write to LDS while
loads of the other were still out: https://github.com/triton-lang/triton/issues/11696, wrong numbers on gfx942, mended
in Triton 3.9 by https://github.com/triton-lang/triton/pull/11765. Emulated, the numbers are right: nothing is late.
"""

from pathlib import Path

import numpy as np
import pytest
import triton
import triton.language as tl
from compiled import build

from portkit.emulate import Kind

SOURCE = Path(__file__).read_text().splitlines()
VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])
SIDE, DEPTH = 128, 256


@triton.jit
def _product(a_ptr, b_ptr, c_ptr, K: tl.constexpr, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    row, column, depth = tl.arange(0, SIDE), tl.arange(0, SIDE), tl.arange(0, BLOCK)
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for start in range(0, K, BLOCK):
        a = tl.load(a_ptr + row[:, None] * K + start + depth[None, :])  # a tile that races
        b = tl.load(b_ptr + (start + depth)[:, None] * SIDE + column[None, :])  # a tile that races
        total = tl.dot(a, b, total, input_precision="ieee")
    tl.store(c_ptr + row[:, None] * SIDE + column[None, :], total)


@pytest.mark.parametrize("architecture", ["gfx942", "gfx950"])
def test_waves_that_take_turns(architecture):
    pointers = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp32")
    constants = {"K": DEPTH, "SIDE": SIDE, "BLOCK": 64}
    kernel = build(_product, architecture, pointers, constants, waves=8, num_stages=2)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((SIDE, DEPTH), (DEPTH, SIDE)))
    c = np.zeros((SIDE, SIDE), np.float32)
    found = kernel.launch((1,), a, b, c).findings
    races = architecture == "gfx942" and VERSION < (3, 9)
    assert {item.kind for item in found} == ({Kind.MISSING_WAIT} if races else set())
    tiles = [number for number, text in enumerate(SOURCE, 1) if text.endswith("# a tile that races")]
    assert {item.site.source for item in found} <= {f"{Path(__file__).name}:{line}" for line in tiles}
    assert np.allclose(c, a.astype(np.float64) @ b, atol=1e-4)
