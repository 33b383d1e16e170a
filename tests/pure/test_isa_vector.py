"""Every entry of the vector table, on edges and random bits, against Python's integers and exact fractions."""

import math
from fractions import Fraction

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from assembly import computed, execute

WORD = 0xFFFF_FFFF
EVERY = ("gfx942", "gfx1100", "gfx1201")
OLD, NEW = ("gfx942",), ("gfx1100", "gfx1201")


def signed(x, bits=32):
    return x - (1 << bits) if x >> (bits - 1) & 1 else x


def byte(n):
    return lambda a: float32(float(a >> 8 * n & 255))


def float32(x):
    """Bits of the float32 that a float or fraction rounds to."""
    with np.errstate(all="ignore"):
        return int(np.float32(x).view(np.uint32)) if isinstance(x, float) else _nearest(x)


def _nearest(x):
    """Bits of the float32 nearest to a fraction, ties to even, by integer arithmetic alone."""
    if x == 0:
        return 0
    sign, size = (1 << 31 if x < 0 else 0), abs(x)
    power = max(math.floor(math.log2(size.numerator) - math.log2(size.denominator)) - 1, -126)
    while size >= Fraction(2) ** (power + 1):
        power += 1
    unit = Fraction(2) ** (power - 23)
    whole, rest = divmod(size, unit)
    whole = int(whole) + (2 * rest > unit or (2 * rest == unit and int(whole) & 1))
    bits = whole if whole < 1 << 23 else (power + 126 << 23) + whole
    return sign | min(bits, 0x7F80_0000)


def value(bits):
    return float(np.uint32(bits).view(np.float32))


def permute(a, b, selector):
    pair, result = a << 32 | b, 0
    for place in range(4):
        code = selector >> 8 * place & 255
        if code < 8:
            part = pair >> 8 * code & 255
        elif code < 12:
            part = 255 * (pair >> (16 * (code - 8) + 15) & 1)
        else:
            part = 0 if code == 12 else 255
        result |= part << 8 * place
    return result


def field(x, offset, width, extend=False):
    offset, width = offset & 31, width & 31
    part = ((signed(x) if extend else x) >> offset) & ((1 << width) - 1)
    return signed(part, width) & WORD if extend and width else part


def low24(x):
    return x & 0xFF_FFFF


def signed24(x):
    return signed(x & 0xFF_FFFF, 24)


def zeros_above(x):
    return 32 - x.bit_length() if x else WORD


def zeros_below(x):
    return (x & -x).bit_length() - 1 if x else WORD


def middle(a, b, c):
    return sorted((a, b, c))[1]


INTEGERS = {
    "v_mov_b32": (EVERY, lambda a: a),
    "v_not_b32": (EVERY, lambda a: ~a),
    "v_bfrev_b32": (EVERY, lambda a: int(f"{a:032b}"[::-1], 2)),
    "v_ffbh_u32": (OLD, zeros_above),
    "v_clz_i32_u32": (NEW, zeros_above),
    "v_ffbl_b32": (OLD, zeros_below),
    "v_ctz_i32_b32": (NEW, zeros_below),
    "v_cvt_f32_i32": (EVERY, lambda a: float32(Fraction(signed(a)))),
    "v_cvt_f32_u32": (EVERY, lambda a: float32(Fraction(a))),
    "v_cvt_f32_ubyte0": (EVERY, byte(0)),
    "v_cvt_f32_ubyte1": (EVERY, byte(1)),
    "v_cvt_f32_ubyte2": (EVERY, byte(2)),
    "v_cvt_f32_ubyte3": (EVERY, byte(3)),
    "v_add_u32": (OLD, lambda a, b: a + b),
    "v_sub_u32": (OLD, lambda a, b: a - b),
    "v_subrev_u32": (OLD, lambda a, b: b - a),
    "v_add_nc_u32": (NEW, lambda a, b: a + b),
    "v_sub_nc_u32": (NEW, lambda a, b: a - b),
    "v_subrev_nc_u32": (NEW, lambda a, b: b - a),
    "v_add_nc_i32": (NEW, lambda a, b: a + b),
    "v_sub_nc_i32": (NEW, lambda a, b: a - b),
    "v_mul_u32_u24": (EVERY, lambda a, b: low24(a) * low24(b)),
    "v_mul_i32_i24": (EVERY, lambda a, b: signed24(a) * signed24(b)),
    "v_and_b32": (EVERY, lambda a, b: a & b),
    "v_or_b32": (EVERY, lambda a, b: a | b),
    "v_xor_b32": (EVERY, lambda a, b: a ^ b),
    "v_xnor_b32": (EVERY, lambda a, b: ~(a ^ b)),
    "v_lshlrev_b32": (EVERY, lambda a, b: b << (a & 31)),
    "v_lshrrev_b32": (EVERY, lambda a, b: b >> (a & 31)),
    "v_ashrrev_i32": (EVERY, lambda a, b: signed(b) >> (a & 31)),
    "v_min_u32": (EVERY, min),
    "v_max_u32": (EVERY, max),
    "v_min_i32": (EVERY, lambda a, b: min(signed(a), signed(b))),
    "v_max_i32": (EVERY, lambda a, b: max(signed(a), signed(b))),
    "v_mul_lo_u32": (EVERY, lambda a, b: a * b),
    "v_mul_hi_u32": (EVERY, lambda a, b: a * b >> 32),
    "v_mul_hi_i32": (EVERY, lambda a, b: signed(a) * signed(b) >> 32),
    "v_bfm_b32": (EVERY, lambda a, b: ((1 << (a & 31)) - 1) << (b & 31)),
    "v_bcnt_u32_b32": (EVERY, lambda a, b: a.bit_count() + b),
    "v_max3_u32": (EVERY, max),
    "v_min3_u32": (EVERY, min),
    "v_max3_i32": (EVERY, lambda *x: max(map(signed, x))),
    "v_min3_i32": (EVERY, lambda *x: min(map(signed, x))),
    "v_med3_i32": (EVERY, lambda *x: middle(*map(signed, x))),
    "v_med3_u32": (EVERY, middle),
    "v_maxmin_u32": (NEW, lambda a, b, c: min(max(a, b), c)),
    "v_minmax_u32": (NEW, lambda a, b, c: max(min(a, b), c)),
    "v_maxmin_i32": (NEW, lambda a, b, c: min(max(signed(a), signed(b)), signed(c))),
    "v_minmax_i32": (NEW, lambda a, b, c: max(min(signed(a), signed(b)), signed(c))),
    "v_add3_u32": (EVERY, lambda a, b, c: a + b + c),
    "v_lshl_add_u32": (EVERY, lambda a, b, c: (a << (b & 31)) + c),
    "v_add_lshl_u32": (EVERY, lambda a, b, c: (a + b) << (c & 31)),
    "v_lshl_or_b32": (EVERY, lambda a, b, c: (a << (b & 31)) | c),
    "v_and_or_b32": (EVERY, lambda a, b, c: (a & b) | c),
    "v_or3_b32": (EVERY, lambda a, b, c: a | b | c),
    "v_xad_u32": (EVERY, lambda a, b, c: (a ^ b) + c),
    "v_xor3_b32": (NEW, lambda a, b, c: a ^ b ^ c),
    "v_bfi_b32": (EVERY, lambda a, b, c: (a & b) | (~a & c)),
    "v_bfe_u32": (EVERY, field),
    "v_bfe_i32": (EVERY, lambda a, b, c: field(a, b, c, extend=True)),
    "v_perm_b32": (EVERY, permute),
    "v_alignbit_b32": (EVERY, lambda a, b, c: (a << 32 | b) >> (c & 31)),
    "v_alignbyte_b32": (EVERY, lambda a, b, c: (a << 32 | b) >> 8 * (c & 3)),
    "v_mad_u32_u24": (EVERY, lambda a, b, c: low24(a) * low24(b) + c),
    "v_mad_i32_i24": (EVERY, lambda a, b, c: signed24(a) * signed24(b) + c),
    "v_sad_u32": (EVERY, lambda a, b, c: abs(a - b) + c),
}
"""Mnemonic → architectures that have it, and its meaning on integers, modulo 2^32."""


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_entries(name):
    architectures, meaning = INTEGERS[name]
    count = meaning.__code__.co_argcount if hasattr(meaning, "__code__") and meaning.__code__.co_argcount else None
    count = min(count or (3 if "3_" in name else 2), 3)
    for architecture in architectures:
        operands = ", ".join(f"v{n}" for n in range(1, count + 1))
        ran = computed(architecture, f"{name} v10, {operands}")
        expected = [meaning(*(int(x) for x in row[:count])) & WORD for row in ran.inputs]
        assert ran.outputs[:, 0].tolist() == expected, architecture


def exact(function):
    """A function of finite values by fractions; None where an operand is not finite, which others test."""

    def meaning(*bits):
        values = [value(x) for x in bits]
        if not all(map(math.isfinite, values)):
            return None
        result = function(*map(Fraction, values))
        return None if result == 0 else float32(result)

    return meaning


FLOATS = {
    "v_add_f32": exact(lambda a, b: a + b),
    "v_sub_f32": exact(lambda a, b: a - b),
    "v_subrev_f32": exact(lambda a, b: b - a),
    "v_mul_f32": exact(lambda a, b: a * b),
    "v_max_f32": exact(max),
    "v_min_f32": exact(min),
    "v_fma_f32": exact(lambda a, b, c: a * b + c),
    "v_max3_f32": exact(max),
    "v_min3_f32": exact(min),
    "v_med3_f32": exact(middle),
    "v_rndne_f32": exact(lambda a: Fraction(round(a))),
    "v_floor_f32": exact(lambda a: Fraction(math.floor(a))),
    "v_ceil_f32": exact(lambda a: Fraction(math.ceil(a))),
    "v_trunc_f32": exact(lambda a: Fraction(math.trunc(a))),
}
COUNTS = {"v_add_f32": 2, "v_sub_f32": 2, "v_subrev_f32": 2, "v_mul_f32": 2, "v_max_f32": 2, "v_min_f32": 2}
COUNTS |= dict.fromkeys(("v_fma_f32", "v_max3_f32", "v_min3_f32", "v_med3_f32"), 3)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("architecture", ["gfx942", "gfx1100"])
def test_float_entries_round_exactly(name, architecture):
    operands = ", ".join(f"v{n}" for n in range(1, COUNTS.get(name, 1) + 1))
    ran = computed(architecture, f"{name} v10, {operands}")
    judged = 0
    for row, result in zip(ran.inputs, ran.outputs[:, 0], strict=True):
        expected = FLOATS[name](*(int(x) for x in row[: COUNTS.get(name, 1)]))
        if expected is not None:
            assert int(result) == expected, [hex(x) for x in row[:3]]
            judged += 1
    assert judged >= 8


NAN, INF, ONE, MINUS_ZERO = 0x7FC0_0000, 0x7F80_0000, 0x3F80_0000, 0x8000_0000
SPECIAL = [
    ("v_max_f32 v10, v1, v2", (NAN, ONE), ONE),
    ("v_min_f32 v10, v1, v2", (ONE, NAN), ONE),
    ("v_max_f32 v10, v1, v2", (MINUS_ZERO, 0), 0),
    ("v_max_f32 v10, v1, v2", (0, MINUS_ZERO), 0),
    ("v_min_f32 v10, v1, v2", (0, MINUS_ZERO), MINUS_ZERO),
    ("v_min_f32 v10, v1, v2", (MINUS_ZERO, 0), MINUS_ZERO),
    ("v_med3_f32 v10, v1, v2, v3", (NAN, ONE, 0x4000_0000), ONE),
    ("v_add_f32 v10, -v1, |v2|", (ONE, 0xBF80_0000), 0),
    ("v_mul_f32 v10, v1, v2", (0x0080_0000, 0x3F00_0000), 0x0040_0000),
    ("v_rcp_f32 v10, v1", (0,), INF),
    ("v_rcp_f32 v10, v1", (MINUS_ZERO,), 0xFF80_0000),
    ("v_rcp_f32 v10, v1", (INF,), 0),
    ("v_rcp_f32 v10, v1", (0x0000_0001,), INF),
    ("v_rsq_f32 v10, v1", (0x4080_0000,), 0x3F00_0000),
    ("v_sqrt_f32 v10, v1", (0x4080_0000,), 0x4000_0000),
    ("v_exp_f32 v10, v1", (0x4000_0000,), 0x4080_0000),
    ("v_exp_f32 v10, v1", (0xFF80_0000,), 0),
    ("v_exp_f32 v10, v1", (0xC300_0000,), 0),
    ("v_log_f32 v10, v1", (0x4100_0000,), 0x4040_0000),
    ("v_log_f32 v10, v1", (0,), 0xFF80_0000),
    ("v_sin_f32 v10, v1", (0x3E80_0000,), ONE),
    ("v_cos_f32 v10, v1", (0x3F00_0000,), 0xBF80_0000),
    ("v_fract_f32 v10, v1", (0xBE80_0000,), 0x3F40_0000),
    ("v_fract_f32 v10, v1", (0xA000_0000,), 0x3F7F_FFFF),
    ("v_ldexp_f32 v10, v1, v2", (ONE, 0xFFFF_FF6B), 0x0000_0001),
    ("v_ldexp_f32 v10, v1, v2", (ONE, 128), INF),
    ("v_ldexp_f32 v10, v1, v2", (0x0000_0001, 149), ONE),
    ("v_cvt_i32_f32 v10, v1", (0x4F00_0000,), 0x7FFF_FFFF),
    ("v_cvt_i32_f32 v10, v1", (0xFF80_0000,), 0x8000_0000),
    ("v_cvt_i32_f32 v10, v1", (NAN,), 0),
    ("v_cvt_i32_f32 v10, v1", (0xBFC0_0000,), 0xFFFF_FFFF),
    ("v_cvt_u32_f32 v10, v1", (0xBF80_0000,), 0),
    ("v_cvt_u32_f32 v10, v1", (0x5F00_0000,), 0xFFFF_FFFF),
    ("v_cvt_u32_f32 v10, v1", (0x4F7F_FFFF,), 0xFFFF_FF00),
    ("v_add_f32 v10, v1, v2 clamp", (ONE, ONE), ONE),
    ("v_add_f32 v10, v1, v2 clamp", (NAN, ONE), 0),
    ("v_add_f32 v10, v1, v2 clamp", (0xBF80_0000, 0), 0),
    ("v_fmac_f32 v10, v1, v2", (0x4000_0000, 0x4040_0000), 0x40E0_0000),
    ("v_fmaak_f32 v10, v1, v2, 0x3f800000", (0x4000_0000, 0x4040_0000), 0x40E0_0000),
    ("v_fmamk_f32 v10, v1, 0x40400000, v2", (0x4000_0000, ONE), 0x40E0_0000),
]


@pytest.mark.parametrize(("text", "operands", "expected"), SPECIAL)
@pytest.mark.parametrize("architecture", ["gfx942", "gfx1100"])
def test_special_values(text, operands, expected, architecture):
    lanes = 64 if architecture == "gfx942" else 32
    inputs = np.zeros((lanes, 8), np.uint32)
    inputs[:, : len(operands)] = operands
    inputs[:, 6] = ONE  # v10 before
    ran = computed(architecture, text, inputs)
    assert hex(int(ran.outputs[5, 0])) == hex(expected)


def pair(row, at):
    return int(row[at]) | int(row[at + 1]) << 32


DOUBLES = np.array(
    [0.0, -0.0, 1.0, -1.5, 1 / 3, 5e-324, -2.2e-308, 1.7e308, -1.7e308, math.inf, -math.inf, math.nan, 2.0**53, 1e-17],
    np.float64,
)


def double_rows(lanes, seed=3):
    random = np.random.default_rng(seed)
    words = random.choice(DOUBLES, (lanes, 4))
    return np.where(random.random((lanes, 4)) < 0.4, random.normal(size=(lanes, 4)), words).view(np.uint32)


WIDE = {
    "v_lshlrev_b64": (OLD, lambda a, b: b << (a & 63)),
    "v_lshrrev_b64": (EVERY, lambda a, b: b >> (a & 63)),
    "v_ashrrev_i64": (EVERY, lambda a, b: signed(b, 64) >> (a & 63)),
}


@pytest.mark.parametrize("name", WIDE)
def test_64_bit_shifts(name):
    architectures, meaning = WIDE[name]
    for architecture in architectures:
        ran = computed(architecture, f"{name} v[10:11], v1, v[2:3]")
        for row, out in zip(ran.inputs, ran.outputs, strict=True):
            assert pair(out, 0) == meaning(int(row[0]), pair(row, 1)) & (2**64 - 1)


def test_shift_and_add_of_64_bits():
    ran = computed("gfx942", "v_lshl_add_u64 v[10:11], v[1:2], v3, v[4:5]")
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        assert pair(out, 0) == ((pair(row, 0) << (int(row[2]) & 7)) + pair(row, 3)) % 2**64


def test_move_of_64_bits():
    ran = computed("gfx942", "v_mov_b64 v[10:11], v[3:4]")
    assert np.array_equal(ran.outputs[:, :2], ran.inputs[:, 2:4])


def fused(a, b, c):
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c
    total = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return float(total) if total else a * b + c
    except OverflowError:
        return math.inf if total > 0 else -math.inf


@pytest.mark.parametrize("architecture", ["gfx90a", "gfx1100"])
def test_mantissa_and_exponent(architecture):
    ran = computed(architecture, "v_frexp_mant_f32 v10, v1\nv_frexp_exp_i32_f32 v11, v1")
    for word, part, power in zip(ran.inputs[:, 0], ran.outputs[:, 0], ran.outputs[:, 1].view(np.int32), strict=True):
        x, mantissa = value(word), value(part)
        if x == 0 or not math.isfinite(x):
            assert (int(part), int(power)) == (int(word), 0)
        else:
            assert 0.5 <= abs(mantissa) < 1
            assert math.ldexp(mantissa, int(power)) == x


def test_mantissa_and_exponent_of_doubles():
    ran = computed("gfx90a", "v_frexp_mant_f64 v[10:11], v[1:2]\nv_frexp_exp_i32_f64 v12, v[1:2]", double_rows(64))
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        x, part = (float(np.ascontiguousarray(words[:2]).view(np.float64)[0]) for words in (row, out))
        if math.isfinite(x):
            assert math.ldexp(part, int(out[2:3].view(np.int32)[0])) == x
        else:
            assert out.tolist()[:3] == [*row.tolist()[:2], 0]


@pytest.mark.parametrize(
    "line",
    [
        "v_mad_f32 v10, v1, v2, v3",
        "v_mov_b32 v10, v3\n\tv_mac_f32 v10, v1, v2",
    ],
)
def test_multiply_and_add_with_two_roundings(line):
    """A product that a fused operation would keep whole, and operands below the normal range."""
    third = np.float32(1 / 3)
    rows = np.zeros((64, 8), np.uint32)
    rows[:, :3] = np.array([third, 3.0, -1.0], np.float32).view(np.uint32)
    rows[1, :3] = np.array([1e-40, 1.0, 0.0], np.float32).view(np.uint32)
    rows[2, :3] = np.array([2.0**-100, 2.0**-40, 1.0], np.float32).view(np.uint32)
    results = computed("gfx90a", line, rows).outputs[:3, 0].view(np.float32).tolist()
    assert results == [0.0, 0.0, 1.0]
    assert execute("gfx942", line).emulation.outcome.status == "unsupported"


@pytest.mark.instructions("v_madmk_f32", "v_madak_f32")
def test_multiply_and_add_with_a_literal():
    rows = np.full((64, 8), np.float32(3).view(np.uint32))
    body = "v_madmk_f32 v10, v1, 0x40000000, v2\nv_madak_f32 v11, v1, v2, 0x40000000"
    assert computed("gfx90a", body, rows).outputs[0, :2].view(np.float32).tolist() == [9.0, 11.0]


DOUBLE = {
    "v_add_f64": (2, lambda a, b: a + b),
    "v_mul_f64": (2, lambda a, b: a * b),
    "v_fma_f64": (3, fused),
    "v_rndne_f64": (1, lambda a: float(np.rint(a))),
    "v_floor_f64": (1, lambda a: float(np.floor(a))),
    "v_ceil_f64": (1, lambda a: float(np.ceil(a))),
    "v_trunc_f64": (1, lambda a: float(np.trunc(a))),
}


@pytest.mark.parametrize("name", DOUBLE)
@pytest.mark.parametrize("architecture", ["gfx942", "gfx1100"])
def test_doubles(name, architecture):
    count, meaning = DOUBLE[name]
    lanes = 64 if architecture == "gfx942" else 32
    operands = ", ".join(f"v[{2 * n + 1}:{2 * n + 2}]" for n in range(count))
    ran = computed(architecture, f"{name} v[10:11], {operands}", double_rows(lanes))
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        values = np.ascontiguousarray(row).view(np.float64)[:count].tolist()
        result, expected = float(np.ascontiguousarray(out[:2]).view(np.float64)[0]), meaning(*values)
        assert result == expected or (math.isnan(result) and math.isnan(expected)), (values, result, expected)


@pytest.mark.parametrize(
    ("name", "meaning"),
    [("v_max_f64", max), ("v_min_f64", min)],
)
def test_extremes_of_doubles(name, meaning):
    rows = np.array([[1.0, -2.0, 0, 0], [-0.0, 5.0, 0, 0], [math.inf, 1.0, 0, 0]], np.float64)
    ran = computed("gfx942", f"{name} v[10:11], v[1:2], v[3:4]", np.resize(rows, (64, 4)).view(np.uint32))
    outputs = np.ascontiguousarray(ran.outputs[:, :2]).view(np.float64)[:3, 0]
    assert outputs.tolist() == [meaning(row[0], row[1]) for row in rows]


def test_conversions_of_doubles():
    values = np.resize(np.array([1.5, -2.5, 3e9, -3e9, 5e9, math.nan, 1e-310, 1e300]), (64, 4))
    rows = values.view(np.uint32)
    body = "v_cvt_f32_f64 v10, v[1:2]\nv_cvt_i32_f64 v11, v[1:2]\nv_cvt_u32_f64 v12, v[1:2]"
    ran = computed("gfx942", body, rows)
    with np.errstate(over="ignore"):
        narrow = values[:, 0].astype(np.float32)
    assert np.array_equal(ran.outputs[:, 0].view(np.float32), narrow, equal_nan=True)
    clipped = [0 if math.isnan(x) else math.trunc(min(max(x, -(2.0**31)), 2.0**31 - 1)) for x in values[:, 0]]
    assert ran.outputs[:, 1].view(np.int32).tolist() == clipped
    unsigned = [0 if math.isnan(x) else math.trunc(min(max(x, 0), 2.0**32 - 1)) for x in values[:, 0]]
    assert ran.outputs[:, 2].tolist() == unsigned


def test_conversions_to_doubles():
    for name, convert in (
        ("v_cvt_f64_i32", lambda x: float(signed(int(x)))),
        ("v_cvt_f64_u32", float),
        ("v_cvt_f64_f32", value),
    ):
        ran = computed("gfx942", f"{name} v[10:11], v1")
        results = np.ascontiguousarray(ran.outputs[:, :2]).view(np.float64)[:, 0]
        assert np.array_equal(results, [convert(x) for x in ran.inputs[:, 0]], equal_nan=True)


def test_scaling_of_doubles():
    rows = np.zeros((64, 8), np.uint32)
    rows[:, :2] = np.array([1.5]).view(np.uint32)
    rows[:, 2] = np.arange(64) * 71 - 2200
    ran = computed("gfx942", "v_ldexp_f64 v[10:11], v[1:2], v3", rows)
    results = np.ascontiguousarray(ran.outputs[:, :2]).view(np.float64)[:, 0]
    powers = rows[:, 2].view(np.int32)
    with np.errstate(all="ignore"):
        assert np.array_equal(results, [float(np.ldexp(1.5, int(power))) for power in powers])


@pytest.mark.instructions("v_bitop3_b32")
def test_truth_table_of_three_bits():
    for table in (0, 1, 0x1E, 0x36, 0x6C, 0x80, 0xCA, 0xFF):
        ran = computed("gfx950", f"v_bitop3_b32 v10, v1, v2, v3 bitop3:{table:#x}")
        for row, result in zip(ran.inputs, ran.outputs[:, 0], strict=True):
            bits = [table >> (a << 2 | b << 1 | c) & 1 for a, b, c in zip(*(_bits(x) for x in row[:3]), strict=True)]
            assert _bits(result) == bits


def _bits(x):
    return [int(x) >> place & 1 for place in range(32)]


@pytest.mark.parametrize("name", ["v_accvgpr_write_b32 a3, v1\nv_accvgpr_mov_b32 a4, a3\nv_accvgpr_read_b32 v10, a4"])
@pytest.mark.instructions("v_accvgpr_write_b32", "v_accvgpr_mov_b32", "v_accvgpr_read_b32")
def test_accumulation_registers(name):
    ran = computed("gfx942", name)
    assert np.array_equal(ran.outputs[:, 0], ran.inputs[:, 0])
