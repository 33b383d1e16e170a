"""Floating-point entries of 32 and 64 bits on zeros, denormals, extremes, infinities, NaN and random bits.

Expected values come from integers and fractions (``float_references``), those of approximate functions from
Python's ``math``, from which the bits may lie the one step that the table declares.
"""

import math
import operator
from dataclasses import dataclass

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from assembly import computed, edge_rows, everywhere, names_of
from float_references import (
    extreme,
    fraction,
    fractional,
    fused,
    mantissa,
    median,
    power_of_two,
    product,
    rounded,
    scaled,
    strict,
    then,
    to_integer,
)
from formats import F32, F64, signed

F32_LIMIT = 2.0**-126
LOW32, HIGH32, LOW64, HIGH64 = extreme(F32, min), extreme(F32, max), extreme(F64, min), extreme(F64, max)
SIGNED, UNSIGNED = (-(2**31), 2**31 - 1), (0, 2**32 - 1)

DOUBLE_EDGES = np.array(
    [
        *(0x0000_0000_0000_0000, 0x8000_0000_0000_0000, 0x3FF0_0000_0000_0000, 0xBFF0_0000_0000_0000),
        *(0x7FF0_0000_0000_0000, 0xFFF0_0000_0000_0000, 0x7FF8_0000_0000_0000, 0x7FF8_0000_DEAD_BEEF),
        *(0x0000_0000_0000_0001, 0x800F_FFFF_FFFF_FFFF, 0x0010_0000_0000_0000, 0x7FEF_FFFF_FFFF_FFFF),
        *(0xFFEF_FFFF_FFFF_FFFF, 0x3FE0_0000_0000_0000, 0x3FEF_FFFF_FFFF_FFFF, 0x4340_0000_0000_0001),
        *(0x41DF_FFFF_FFC0_0000, 0xC1E0_0000_0000_0000, 0x41EF_FFFF_FFE0_0000, 0xC1E0_0000_0020_0000),
        *(0x47EF_FFFF_E000_0000, 0x47EF_FFFF_F000_0000, 0x36A0_0000_0000_0000, 0x3690_0000_0000_0000),
    ],
    np.uint64,
)
"""Doubles at the ends of their own range, of float32's and of 32-bit integers'."""


@dataclass(frozen=True)
class Case:
    """An entry: words of each operand and of the result, its meaning, and the format to compare NaN by."""

    operands: tuple[int, ...]
    result: int
    meaning: object
    kind: object = None


def f32(count, meaning):
    return Case((1,) * count, 1, meaning, F32)


def f64(count, meaning):
    return Case((2,) * count, 2, meaning, F64)


ADD, SUB = operator.add, operator.sub
CASES = {
    "v_add_f32": f32(2, fractional(F32, ADD)),
    "v_sub_f32": f32(2, fractional(F32, SUB)),
    "v_subrev_f32": f32(2, lambda a, b: fractional(F32, SUB)(b, a)),
    "v_mul_f32": f32(2, fractional(F32, product)),
    "v_fma_f32": f32(3, fractional(F32, fused)),
    "v_max_f32": f32(2, HIGH32),
    "v_min_f32": f32(2, LOW32),
    "v_max_num_f32": f32(2, HIGH32),
    "v_min_num_f32": f32(2, LOW32),
    "v_max3_f32": f32(3, then(HIGH32, HIGH32)),
    "v_min3_f32": f32(3, then(LOW32, LOW32)),
    "v_max3_num_f32": f32(3, then(HIGH32, HIGH32)),
    "v_min3_num_f32": f32(3, then(LOW32, LOW32)),
    "v_maxmin_f32": f32(3, then(HIGH32, LOW32)),
    "v_minmax_f32": f32(3, then(LOW32, HIGH32)),
    "v_maxmin_num_f32": f32(3, then(HIGH32, LOW32)),
    "v_minmax_num_f32": f32(3, then(LOW32, HIGH32)),
    "v_med3_f32": f32(3, median(F32)),
    "v_med3_num_f32": f32(3, median(F32)),
    "v_minimum_f32": f32(2, strict(F32, LOW32)),
    "v_maximum_f32": f32(2, strict(F32, HIGH32)),
    "v_minimum3_f32": f32(3, strict(F32, then(LOW32, LOW32))),
    "v_maximum3_f32": f32(3, strict(F32, then(HIGH32, HIGH32))),
    "v_minimummaximum_f32": f32(3, strict(F32, then(LOW32, HIGH32))),
    "v_maximumminimum_f32": f32(3, strict(F32, then(HIGH32, LOW32))),
    "v_rndne_f32": f32(1, rounded(F32, round)),
    "v_floor_f32": f32(1, rounded(F32, math.floor)),
    "v_ceil_f32": f32(1, rounded(F32, math.ceil)),
    "v_trunc_f32": f32(1, rounded(F32, math.trunc)),
    "v_fract_f32": f32(1, fraction(F32)),
    "v_ldexp_f32": f32(2, scaled(F32)),
    "v_frexp_mant_f32": f32(1, mantissa(F32)),
    "v_frexp_exp_i32_f32": Case((1,), 1, power_of_two(F32)),
    "v_cvt_i32_f32": Case((1,), 1, to_integer(F32, *SIGNED)),
    "v_cvt_u32_f32": Case((1,), 1, to_integer(F32, *UNSIGNED)),
    "v_cvt_f32_i32": f32(1, lambda a: F32.bits(float(signed(a, 32)))),
    "v_cvt_f32_u32": f32(1, lambda a: F32.bits(float(a))),
    "v_add_f64": f64(2, fractional(F64, ADD)),
    "v_mul_f64": f64(2, fractional(F64, product)),
    "v_fma_f64": f64(3, fractional(F64, fused)),
    "v_max_f64": f64(2, HIGH64),
    "v_min_f64": f64(2, LOW64),
    "v_max_num_f64": f64(2, HIGH64),
    "v_min_num_f64": f64(2, LOW64),
    "v_minimum_f64": f64(2, strict(F64, LOW64)),
    "v_maximum_f64": f64(2, strict(F64, HIGH64)),
    "v_rndne_f64": f64(1, rounded(F64, round)),
    "v_floor_f64": f64(1, rounded(F64, math.floor)),
    "v_ceil_f64": f64(1, rounded(F64, math.ceil)),
    "v_trunc_f64": f64(1, rounded(F64, math.trunc)),
    "v_ldexp_f64": Case((2, 1), 2, scaled(F64), F64),
    "v_frexp_mant_f64": f64(1, mantissa(F64)),
    "v_frexp_exp_i32_f64": Case((2,), 1, power_of_two(F64)),
    "v_cvt_i32_f64": Case((2,), 1, to_integer(F64, *SIGNED)),
    "v_cvt_u32_f64": Case((2,), 1, to_integer(F64, *UNSIGNED)),
    "v_cvt_f32_f64": Case((2,), 1, lambda a: F32.bits(F64.value(a)), F32),
    "v_cvt_f64_f32": Case((1,), 2, lambda a: F64.bits(F32.value(a)), F64),
    "v_cvt_f64_i32": Case((1,), 2, lambda a: F64.bits(float(signed(a, 32))), F64),
    "v_cvt_f64_u32": Case((1,), 2, lambda a: F64.bits(float(a)), F64),
}


def registers(first, count):
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


def rows_of(lanes, operands):
    """Words of the operands one behind the other in v1 to v8: edges of their width, and any bits."""
    rows, place = edge_rows(lanes, seed=len(operands)), 0
    random = np.random.default_rng(7)
    for words in operands:
        if words == 2:
            edges = random.choice(DOUBLE_EDGES, lanes).view(np.uint32).reshape(lanes, 2)
            chosen = random.random((lanes, 1)) < 0.8
            rows[:, place : place + 2] = np.where(chosen, edges, rows[:, place : place + 2])
        place += words
    return rows


def values(row, operands):
    """The operands of a lane as integers."""
    found, place = [], 0
    for words in operands:
        found.append(sum(int(word) << 32 * n for n, word in enumerate(row[place : place + words])))
        place += words
    return found


def run_case(architecture, name, case, seed=0):
    """Rows of (operands, result) of an entry."""
    lanes, texts, place = names_of(architecture).lanes, [], 1
    for words in case.operands:
        texts.append(registers(place, words))
        place += words
    rows = np.roll(rows_of(lanes, case.operands), seed, axis=0)
    ran = computed(architecture, f"{name} {registers(12, case.result)}, {', '.join(texts)}", rows)
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        yield values(row, case.operands), values(out[2:], (case.result,))[0]


@pytest.mark.parametrize(("architecture", "name"), everywhere(CASES))
def test_edges(architecture, name):
    case = CASES[name]
    for bits, got in run_case(architecture, name, case):
        want = case.meaning(*bits) & ((1 << 32 * case.result) - 1)
        assert case.kind.same(got, want) if case.kind else got == want, ([*map(hex, bits)], hex(got), hex(want))


def test_every_pair_of_edges_of_doubles():
    """Sums, products and extremes of all 24 × 24."""
    pairs = np.array([(a, b) for a in DOUBLE_EDGES for b in DOUBLE_EDGES], np.uint64)
    for part in np.array_split(pairs, 9):
        rows = np.zeros((64, 8), np.uint32)
        rows[:, :4] = part.view(np.uint32).reshape(64, 4)
        for name in ("v_add_f64", "v_mul_f64", "v_max_f64"):
            out = computed("gfx942", f"{name} v[12:13], v[1:2], v[3:4]", rows).outputs
            for (a, b), words in zip(part.tolist(), out[:, 2:], strict=True):
                assert F64.same(values(words, (2,))[0], CASES[name].meaning(a, b)), (name, hex(a), hex(b))


# -- two operations that keep the destination, and moves


@pytest.mark.parametrize(("architecture", "name"), everywhere(["v_fmac_f32", "v_fmac_f64"]))
def test_sum_in_the_destination(architecture, name):
    words, kind = (1, F32) if name.endswith("32") else (2, F64)
    rows = rows_of(names_of(architecture).lanes, (words,) * 3)
    moves = [f"v_mov_b32 v{12 + n}, v{1 + 2 * words + n}" for n in range(words)]
    line = f"{name} {registers(12, words)}, {registers(1, words)}, {registers(1 + words, words)}"
    ran = computed(architecture, "\n".join([*moves, line]), rows)
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        a, b, c = values(row, (words,) * 3)
        assert kind.same(values(out[2:], (words,))[0], fractional(kind, fused)(a, b, c))


@pytest.mark.parametrize(("architecture", "name"), everywhere(["v_fmaak_f32", "v_fmamk_f32"]))
@pytest.mark.parametrize("literal", [0x3F80_0001, 0x8000_0000, 0x7F7F_FFFF, 0x0000_0001, 0xFF80_0000])
def test_literal(architecture, name, literal):
    last = name == "v_fmaak_f32"
    texts = ("v1", "v2", f"{literal:#x}") if last else ("v1", f"{literal:#x}", "v2")
    ran = computed(architecture, f"{name} v12, {', '.join(texts)}")
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        a, b = int(row[0]), int(row[1])
        want = fractional(F32, fused)(*((a, b, literal) if last else (a, literal, b)))
        assert F32.same(int(out[2]), want)


@pytest.mark.parametrize(("architecture", "name"), everywhere(["v_mov_b64", "v_lshl_add_u64"]))
def test_words_of_64_bits(architecture, name):
    third = ", v3, v[4:5]" if "add" in name else ""
    ran = computed(architecture, f"{name} v[12:13], v[1:2]{third}")
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        x = values(row, (2,))[0]
        want = (x << (int(row[2]) & 7)) + values(row[3:], (2,))[0] if third else x
        assert values(out[2:], (2,))[0] == want % 2**64


# -- multiply and add with two roundings, denormals flushed on the way


def zero_below_normal(bits):
    return bits & 0x8000_0000 if abs(F32.value(bits)) < F32_LIMIT else bits


def two_roundings(a, b, c):
    a, b, c = (zero_below_normal(bits) for bits in (a, b, c))
    return zero_below_normal(fractional(F32, ADD)(zero_below_normal(fractional(F32, product)(a, b)), c))


UNFUSED = {
    "v_mad_f32": ("v1, v2, v3", (0, 1, 2)),
    "v_mac_f32": ("v1, v2", (0, 1, 2)),
    "v_madak_f32": ("v1, v2, 0x40490fdb", (0, 1, None)),
    "v_madmk_f32": ("v1, 0x40490fdb, v3", (0, None, 2)),
}


@pytest.mark.parametrize("name", UNFUSED)
def test_unfused(name):
    texts, places = UNFUSED[name]
    ran = computed("gfx90a", f"v_mov_b32 v12, v3\n{name} v12, {texts}", rows_of(64, (1, 1, 1)))
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        a, b, c = (0x4049_0FDB if place is None else int(row[place]) for place in places)
        assert F32.same(int(out[2]), two_roundings(a, b, c))


# -- approximate functions


def flushed(function):
    """A function that takes denormals for zeros and gives none, as the documents say of these instructions."""

    def operation(x):
        result = function(math.copysign(0.0, x) if abs(x) < F32_LIMIT else x)
        return math.copysign(0.0, result) if abs(result) < F32_LIMIT else result

    return operation


def reciprocal(x):
    return math.copysign(math.inf, x) if x == 0 else 1 / x


def root(x):
    return x if x == 0 else math.nan if x < 0 or math.isnan(x) else math.sqrt(x)


def reciprocal_root(x):
    return reciprocal(root(x)) if x == 0 or x > 0 else math.nan


def logarithm(x):
    if x == 0:
        return -math.inf
    return math.nan if x < 0 or math.isnan(x) else x if math.isinf(x) else math.log2(x)


def power(x):
    if math.isnan(x):
        return x
    return 2.0**x if -1000 < x < 1000 else math.inf if x > 0 else 0.0


APPROXIMATE = {
    "v_exp_f32": power,
    "v_log_f32": logarithm,
    "v_rcp_f32": reciprocal,
    "v_rcp_iflag_f32": reciprocal,
    "v_rsq_f32": reciprocal_root,
    "v_sqrt_f32": root,
}


def steps(kind, a, b):
    """How many neighbours lie between two numbers of a format; 0 for two NaN, infinite for a NaN and none."""
    x, y = kind.value(a), kind.value(b)
    if math.isnan(x) or math.isnan(y):
        return 0 if math.isnan(x) and math.isnan(y) else math.inf
    half = 1 << (kind.width - 1)
    first, second = (-(bits - half) if bits & half else bits for bits in (a, b))
    return abs(first - second)


@pytest.mark.parametrize(("architecture", "name"), everywhere(APPROXIMATE))
def test_approximate_functions(architecture, name):
    for (a,), got in run_case(architecture, name, f32(1, None)):
        want = F32.bits(flushed(APPROXIMATE[name])(F32.value(a)))
        assert steps(F32, got, want) <= 1, (hex(a), hex(got), hex(want))


@pytest.mark.parametrize(("architecture", "name"), everywhere(["v_sin_f32", "v_cos_f32"]))
def test_angles_in_turns(architecture, name):
    """Of angles within ±256 turns, the range that the documents give; multiples of a quarter turn are exact."""
    function = math.sin if "sin" in name else math.cos
    lanes = names_of(architecture).lanes
    rows = np.zeros((lanes, 8), np.uint32)
    angles = np.concatenate([np.arange(-8, 8) / 4, [1e-3, 0.1, 255.75, -255.3, 1e-30, -0.0]]).astype(np.float32)
    rows[:, 0] = np.resize(angles, lanes).view(np.uint32)
    ran = computed(architecture, f"{name} v12, v1", rows)
    for x, got in zip(rows[:, 0].view(np.float32).tolist(), ran.outputs[:, 2].view(np.float32).tolist(), strict=True):
        assert got == pytest.approx(function(2 * math.pi * x), abs=2.0**-20)
    rows[:, 0] = 0x7F80_0000
    assert np.isnan(computed(architecture, f"{name} v12, v1", rows).outputs[:, 2].view(np.float32)).all()
