"""Code that jumps by address: functions that are not inlined, loops longer than a branch reaches; and float modes."""

import numpy as np
import pytest
import triton
import triton.language as tl
from compiled import build

POINTERS = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}


@triton.jit(noinline=True)
def _scaled(a, b):
    return a * b + 1


@triton.jit
def _called(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    shift = _scaled(_scaled(n, tl.program_id(0) + 2), n)
    tl.store(y_ptr + i, tl.load(x_ptr + i) + shift)


def test_functions_that_are_not_inlined(architecture):
    kernel = build(_called, architecture, POINTERS, {"BLOCK": 256})
    assert "s_swappc_b64" in kernel.text
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    kernel.passes((1,), x, y, 7)
    assert np.array_equal(y, x + (7 * 2 + 1) * 7 + 1)


@triton.jit
def _quotients(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(y_ptr + i, tl.div_rn(x, x * x + n) + x * 0)


def test_division_in_a_kernel_that_flushes_denormals(architecture):
    """LLVM keeps denormals within the division: it is rounded right, and its result and operands are flushed."""
    kernel = build(_quotients, architecture, POINTERS, {"BLOCK": 256}, allow_flush_denorm=True)
    if ".amdhsa_float_denorm_mode_32 3" in kernel.text:
        pytest.skip("this release of Triton keeps denormals whatever the option says")
    assert "s_denorm_mode" in kernel.text or "hwreg(HW_REG_MODE, 4, 2)" in kernel.text
    x = np.random.default_rng(2).uniform(-50, 50, 256).astype(np.float32)
    x[:4] = 1e-40, -1e-40, 0, 2e-38
    y = np.zeros_like(x)
    kernel.passes((1,), x, y, 7)
    kept = np.where(np.abs(x) < 2.0**-126, 0, x).astype(np.float32)
    sums = (kept.astype(np.float64) ** 2 + 7).astype(np.float32)  # fused
    expected = (kept / sums).astype(np.float32)
    expected[np.abs(expected) < 2.0**-126] = 0
    assert np.array_equal(y, expected)


@triton.jit
def _unrolled(x_ptr, y_ptr, n, BLOCK: tl.constexpr, TIMES: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    for _ in range(n):
        for number in tl.static_range(TIMES):
            x = tl.where(x > number, x - number * 0.5, x + 1.0)
    tl.store(y_ptr + i, x)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["gfx942", "gfx1201"])
def test_a_loop_longer_than_a_branch_reaches(architecture):
    """128 KiB; LLVM jumps by s_setpc_b64."""
    kernel = build(_unrolled, architecture, POINTERS, {"BLOCK": 2048, "TIMES": 240}, waves=1)
    assert "s_setpc_b64" in kernel.text
    x = np.random.default_rng(3).uniform(0, 300, 2048).astype(np.float32)
    y, expected = np.zeros_like(x), x.copy()
    kernel.passes((1,), x, y, 2)
    for _ in range(2):
        for number in range(240):
            expected = np.where(expected > number, expected - np.float32(number * 0.5), expected + 1)
    assert np.array_equal(y, expected)
