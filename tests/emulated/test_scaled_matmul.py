"""Block-scaled matrix products of gfx950 (OCP microscaling), against float64."""

import numpy as np
import pytest
import triton
import triton.language as tl
from compiled import build

from portkit.emulate.core.smallfloats import E2M1, E4M3, E5M2, scale_of, unpack

SIDES = [(128, 128, 4, {}, "32x32x64"), (64, 128, 4, {"matrix_instr_nonkdim": 16}, "16x16x128")]
FORMATS = {"e4m3": (E4M3, 1), "e5m2": (E5M2, 1), "e2m1": (E2M1, 2)}  # format, codes a byte


@triton.jit
def scaled_dot(
    a_ptr,
    as_ptr,
    b_ptr,
    bs_ptr,
    c_ptr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    A: tl.constexpr,
    B: tl.constexpr,
    A_CODES: tl.constexpr,
    B_CODES: tl.constexpr,
):
    row, column, scale = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // 32)
    a_depth, b_depth = tl.arange(0, K // A_CODES), tl.arange(0, K // B_CODES)
    a = tl.load(a_ptr + row[:, None] * (K // A_CODES) + a_depth[None, :])
    b = tl.load(b_ptr + b_depth[:, None] * N + column[None, :])
    a_scale = tl.load(as_ptr + row[:, None] * (K // 32) + scale[None, :])
    b_scale = tl.load(bs_ptr + column[:, None] * (K // 32) + scale[None, :])
    c = tl.dot_scaled(a, a_scale, A, b, b_scale, B)
    tl.store(c_ptr + row[:, None] * N + column[None, :], c)


def operand(rng, name, rows, depth):
    """Codes of finite numbers, their scales and their values, ``[rows, depth]``."""
    small, codes = FORMATS[name]
    raw = rng.integers(0, 256, (rows, depth // codes)).astype(np.uint8)
    if codes == 1:
        raw = np.where(np.abs(np.nan_to_num(small.table[raw], nan=1e9, posinf=1e9)) > 1e3, 0x38, raw).astype(np.uint8)
    values = small.decode(unpack(raw.view(np.uint32), small.bits)).astype(np.float64)
    scales = rng.integers(120, 134, (rows, depth // 32)).astype(np.uint8)
    return raw, scales, values * np.repeat(scale_of(scales), 32, axis=1)


@pytest.mark.parametrize("side", SIDES, ids=["32x32", "16x16"])
@pytest.mark.parametrize(("a", "b"), [("e4m3", "e4m3"), ("e2m1", "e2m1"), ("e4m3", "e2m1"), ("e5m2", "e4m3")])
def test_scaled_product(a, b, side):
    size, depth, waves, options, shape = side
    rng = np.random.default_rng(5)
    a_raw, a_scales, a_values = operand(rng, a, size, depth)
    b_raw, b_scales, b_values = operand(rng, b, size, depth)
    signature = dict.fromkeys(("a_ptr", "as_ptr", "b_ptr", "bs_ptr"), "*u8") | {"c_ptr": "*fp32"}
    constants = {"M": size, "N": size, "K": depth, "A": a, "B": b}
    constants |= {"A_CODES": FORMATS[a][1], "B_CODES": FORMATS[b][1]}
    built = build(scaled_dot, "gfx950", signature, constants, waves=waves, **options)
    assert f"v_mfma_scale_f32_{shape}" in built.text
    c = np.zeros((size, size), np.float32)
    built.passes((1,), a_raw, a_scales, np.ascontiguousarray(b_raw.T), b_scales, c)
    reference = a_values @ b_values.T
    assert np.abs(c - reference).max() <= 1e-6 * np.abs(reference).max()
