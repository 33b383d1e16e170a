"""64-bit products with a sum, whose 65th bit is a carry or a sign, and the float32 division sequence."""

import math
from fractions import Fraction

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from assembly import EDGES, computed, edge_rows, everywhere, names_of
from float_references import fractional, fused
from formats import F32, exactly, signed

LONGS = (
    0,
    1,
    0xFFFF_FFFF,
    1 << 31,
    1 << 63,
    (1 << 63) - 1,
    (1 << 64) - 1,
    0x8000_0000_0000_0001,
    0xDEAD_BEEF_0000_0001,
)
WORDS = (0, 1, 2, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 0x0001_0000, 0xDEAD_BEEF)


def mask_of(architecture):
    return "vcc" if names_of(architecture).lanes == 64 else "vcc_lo"


PRODUCTS = ["v_mad_u64_u32", "v_mad_co_u64_u32", "v_mad_i64_i32", "v_mad_co_i64_i32"]


@pytest.mark.parametrize(("architecture", "name"), everywhere(PRODUCTS))
def test_product_and_sum(architecture, name):
    """The mask has bit 64 of the exact result: its carry, or where it is signed, its sign."""
    lanes = names_of(architecture).lanes
    cases = [(a, b, c) for a in WORDS for b in WORDS for c in LONGS]
    for start in range(0, len(cases), lanes):
        part = cases[start : start + lanes]
        rows = np.zeros((lanes, 8), np.uint32)
        for lane, (a, b, c) in enumerate(part):
            rows[lane, :4] = a, b, c & 0xFFFF_FFFF, c >> 32
        mask = mask_of(architecture)
        ran = computed(architecture, f"{name} v[10:11], {mask}, v1, v2, v[3:4]\nv_cndmask_b32 v12, 0, 1, {mask}", rows)
        for (a, b, c), out in zip(part, ran.outputs.tolist(), strict=False):
            exact = a * b + c if "u64" in name else signed(a, 32) * signed(b, 32) + signed(c, 64)
            assert (out[0] | out[1] << 32, out[2]) == (exact % 2**64, exact >> 64 & 1), (hex(a), hex(b), hex(c))


# -- division of float32: v_div_scale, estimate, refinement, v_div_fmas, v_div_fixup

SEQUENCE = """v_div_scale_f32 v20, {null}, v2, v2, v1
v_rcp_f32 v21, v20
v_fma_f32 v22, -v20, v21, 1.0
v_fma_f32 v21, v22, v21, v21
v_div_scale_f32 v22, {mask}, v1, v2, v1
v_mul_f32 v23, v22, v21
v_fma_f32 v24, -v20, v23, v22
v_fma_f32 v23, v24, v21, v23
v_fma_f32 v20, -v20, v23, v22
v_div_fmas_f32 v20, v20, v21, v23
v_div_fixup_f32 v12, v20, v2, v1"""


def quotient(a, b):
    """Bits of the correctly rounded quotient of two float32."""
    x, y = F32.value(a), F32.value(b)
    if math.isfinite(x) and math.isfinite(y) and x and y:
        return F32.bits(Fraction(x) / Fraction(y))
    with np.errstate(all="ignore"):
        return F32.bits(float(np.float64(x) / np.float64(y)))


@pytest.mark.instructions("v_div_scale_f32", "v_div_fmas_f32", "v_div_fixup_f32")
@pytest.mark.parametrize("architecture", ["gfx942", "gfx1100", "gfx1201"])
def test_quotients(architecture):
    """All pairs of edges and as many random bits: what the three instructions are for."""
    lanes = names_of(architecture).lanes
    edges = [int(x) for x in EDGES]
    pairs = [(a, b) for a in edges for b in edges]
    pairs += [(int(a), int(b)) for a, b in np.random.default_rng(1).integers(0, 2**32, (512, 2))]
    null = "s[8:9]" if lanes == 64 else "null"
    for start in range(0, len(pairs), lanes):
        part = pairs[start : start + lanes]
        rows = np.zeros((lanes, 8), np.uint32)
        rows[: len(part), :2] = part
        ran = computed(architecture, SEQUENCE.format(null=null, mask=mask_of(architecture)), rows)
        for (a, b), got in zip(part, ran.outputs[:, 2].tolist(), strict=False):
            assert F32.same(got, quotient(a, b)), (hex(a), hex(b), hex(got), hex(quotient(a, b)))


@pytest.mark.parametrize(("architecture", "name"), everywhere(["v_div_scale_f32"]))
def test_scale_leaves_moderate_operands_alone(architecture, name):
    rows = edge_rows(names_of(architecture).lanes)
    rows[:, :2] = np.random.default_rng(2).uniform(1, 1000, (len(rows), 2)).astype(np.float32).view(np.uint32)
    mask = mask_of(architecture)
    ran = computed(architecture, f"{name} v12, {mask}, v2, v2, v1\nv_cndmask_b32 v13, 0, 1, {mask}", rows)
    assert np.array_equal(ran.outputs[:, 2], rows[:, 1])
    assert not ran.outputs[:, 3].any()


@pytest.mark.parametrize(("architecture", "name"), everywhere(["v_div_scale_f32"]))
def test_scale_of_far_operands(architecture, name):
    """A numerator 2^100 above the denominator: the denominator is scaled up by 2^64, to be undone."""
    rows = edge_rows(names_of(architecture).lanes)
    rows[:, 0], rows[:, 1] = F32.bits(2.0**100), F32.bits(3.0)
    mask = mask_of(architecture)
    body = f"{name} v12, {mask}, v2, v2, v1\nv_cndmask_b32 v13, 0, 1, {mask}\n{name} v11, {mask}, v1, v2, v1"
    out = computed(architecture, body, rows).outputs[0].tolist()
    assert (out[2], out[3], out[1]) == (F32.bits(3 * 2.0**64), 1, F32.bits(2.0**100))


@pytest.mark.parametrize(("architecture", "name"), everywhere(["v_div_fmas_f32"]))
@pytest.mark.parametrize("undone", [0, 1])
def test_fmas(architecture, name, undone):
    """a·b + c; where VCC is set, times 2^-64, or 2^64 where c is 2 or more."""
    rows = np.random.default_rng(3).normal(size=(names_of(architecture).lanes, 8)).astype(np.float32) * 8
    low = "vcc" if mask_of(architecture) == "vcc" else "vcc_lo"
    width = 64 if low == "vcc" else 32
    ran = computed(architecture, f"s_mov_b{width} {low}, {-undone}\n{name} v12, v1, v2, v3", rows.view(np.uint32))
    for row, got in zip(ran.inputs, ran.outputs[:, 2].tolist(), strict=True):
        a, b, c = (F32.value(int(x)) for x in row[:3])
        power = Fraction(2) ** (0 if not undone else 64 if abs(c) >= 2 else -64)
        exact = exactly(fused, a, b, c)
        assert F32.same(got, F32.bits(exact * power if isinstance(exact, Fraction) else exact))


@pytest.mark.parametrize(("architecture", "name"), everywhere(["v_div_fixup_f32"]))
def test_fixup(architecture, name):
    """Special operands settle the quotient whatever the estimate; elsewhere it keeps its size and gets the sign."""
    lanes = names_of(architecture).lanes
    specials = [F32.bits(x) for x in (0.0, -0.0, 1.0, -2.0, math.inf, -math.inf, math.nan)]
    pairs = [(a, b) for a in specials for b in specials]
    for start in range(0, len(pairs), lanes):
        part = pairs[start : start + lanes]
        rows = np.full((lanes, 8), F32.bits(5.0), np.uint32)
        rows[: len(part), 1:3] = part
        ran = computed(architecture, f"{name} v12, v1, v2, v3", rows)
        for (denominator, numerator), got in zip(part, ran.outputs[:, 2].tolist(), strict=False):
            want = quotient(numerator, denominator)
            if math.isfinite(F32.value(want)) and F32.value(want):
                want = F32.bits(math.copysign(5.0, F32.value(want)))
            assert F32.same(got, want)


@pytest.mark.parametrize("architecture", ["gfx942", "gfx1201"])
@pytest.mark.instructions("v_div_fmas_f32")
def test_fmas_rounds_once(architecture):
    rows = edge_rows(names_of(architecture).lanes, seed=5)
    zero = "s_mov_b64 vcc, 0" if mask_of(architecture) == "vcc" else "s_mov_b32 vcc_lo, 0"
    ran = computed(architecture, f"{zero}\nv_div_fmas_f32 v12, v1, v2, v3", rows)
    for row, got in zip(ran.inputs, ran.outputs[:, 2].tolist(), strict=True):
        assert F32.same(got, fractional(F32, fused)(*(int(x) for x in row[:3])))
