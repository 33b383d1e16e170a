"""16-bit floats and integers: every entry of their tables on edges and random bits, against exact arithmetic."""

import math
import operator
from fractions import Fraction

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from assembly import computed, execute
from formats import BF16, F16, F32, exactly, signed

EVERY, OLD, NEW = ("gfx90a", "gfx942", "gfx1100", "gfx1201"), ("gfx942",), ("gfx1100", "gfx1201")
RDNA3, RDNA4, CDNA4 = ("gfx1100",), ("gfx1201",), ("gfx950",)
EDGES = np.array(
    [
        *(0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x3BFF, 0x3C01, 0x4000, 0x3800, 0xB800),
        *(0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7FFF, 0xFFFF, 0x4900, 0x6400, 0x63FF, 0x3555, 15, 16, 17),
    ],
    np.uint32,
)


def inputs(lanes, seed=0):
    """Words of which both halves are edges or any bits."""
    rng = np.random.default_rng(seed)
    parts = np.where(
        rng.random((2, lanes, 8)) < 0.6, rng.choice(EDGES, (2, lanes, 8)), rng.integers(0, 1 << 16, (2, lanes, 8))
    )
    return (parts[0] | parts[1] << 16).astype(np.uint32)


# -- references: bits of the operands → bits of the result


def fractional(operation, kind=F16):
    """An operation on numbers, rounded once."""
    return lambda *bits: kind.bits(exactly(operation, *(kind.value(b) for b in bits)))


def product(a, b):
    return a * b


def fused(a, b, c):
    return a * b + c


def whole(function):
    """A rounding to whole numbers."""

    def operation(bits):
        x = F16.value(bits)
        return F16.bits(math.copysign(float(function(x)), x) if math.isfinite(x) else x)

    return operation


def fraction(bits):
    x = F16.value(bits)
    if not math.isfinite(x):
        return F16.bits(math.nan)
    return min(F16.bits(Fraction(x) - math.floor(x)), F16.bits(1 - 2.0**-11))


def transcendental(function):
    """Computed in float64; poles and domains by hand."""

    def operation(bits):
        return F16.bits(function(F16.value(bits)))

    return operation


def reciprocal(x):
    return math.copysign(math.inf, x) if x == 0 else 1 / x


def root(x):
    return x if x == 0 else math.nan if x < 0 or math.isnan(x) else math.sqrt(x)


def reciprocal_root(x):
    return math.copysign(math.inf, x) if x == 0 else 0.0 if x == math.inf else 1 / root(x)


def logarithm(x):
    return -math.inf if x == 0 else math.nan if x < 0 or math.isnan(x) else x if math.isinf(x) else math.log2(x)


def power(x):
    return 2.0**x if abs(x) < 100 or math.isnan(x) else math.inf if x > 0 else 0.0


def turns(function):
    return lambda x: function(2 * math.pi * x) if math.isfinite(x) else math.nan


def pick(better, negative_zero_wins):
    """Of two numbers; the other one where one is NaN."""

    def operation(a, b):
        x, y = F16.value(a), F16.value(b)
        if math.isnan(x) or math.isnan(y):
            return b if math.isnan(x) else a
        if x == y == 0:
            return 0x8000 if (0x8000 in (a, b)) == negative_zero_wins and 0x8000 in (a, b) else max(min(a, b), 0)
        return a if better(x, y) else b

    return operation


def lowest(a, b):
    if F16.value(a) == F16.value(b) == 0:
        return 0x8000 if 0x8000 in (a, b) else 0
    return pick(operator.lt, True)(a, b)


def highest(a, b):
    if F16.value(a) == F16.value(b) == 0:
        return 0 if 0 in (a, b) else 0x8000
    return pick(operator.gt, False)(a, b)


def median(a, b, c):
    if any(math.isnan(F16.value(x)) for x in (a, b, c)):
        return lowest(lowest(a, b), c)
    return highest(lowest(a, b), lowest(highest(a, b), c))


def strict(function):
    """NaN where one operand is NaN."""
    return lambda *bits: 0x7E00 if any(math.isnan(F16.value(b)) for b in bits) else function(*bits)


def then(first, second):
    return lambda a, b, c: second(first(a, b), c)


def to_integer(low, high):
    def operation(bits):
        x = F16.value(bits)
        return 0 if math.isnan(x) else (int(max(low, min(high, x))) if math.isfinite(x) else high if x > 0 else low)

    return operation


def scaled(a, b):
    x, n = F16.value(a), signed(b, 16)
    if not math.isfinite(x) or x == 0:
        return a
    return F16.bits(math.ldexp(x, max(-80, min(80, n))))


def middle(a, b, c):
    return sorted((a, b, c))[1]


def s16(function):
    return lambda *bits: function(*(signed(b, 16) for b in bits))


FLOATS = {
    "v_add_f16": (EVERY, fractional(operator.add)),
    "v_sub_f16": (EVERY, fractional(operator.sub)),
    "v_subrev_f16": (EVERY, lambda a, b: fractional(operator.sub)(b, a)),
    "v_mul_f16": (EVERY, fractional(product)),
    "v_ldexp_f16": (EVERY, scaled),
    "v_fma_f16": (EVERY, fractional(fused)),
    "v_max_f16": (("gfx942", "gfx1100"), highest),
    "v_min_f16": (("gfx942", "gfx1100"), lowest),
    "v_max3_f16": (("gfx942", "gfx1100"), then(highest, highest)),
    "v_min3_f16": (("gfx942", "gfx1100"), then(lowest, lowest)),
    "v_med3_f16": (("gfx942", "gfx1100"), median),
    "v_maxmin_f16": (RDNA3, then(highest, lowest)),
    "v_minmax_f16": (RDNA3, then(lowest, highest)),
    "v_max_num_f16": (RDNA4, highest),
    "v_min_num_f16": (RDNA4, lowest),
    "v_max3_num_f16": (RDNA4, then(highest, highest)),
    "v_min3_num_f16": (RDNA4, then(lowest, lowest)),
    "v_med3_num_f16": (RDNA4, median),
    "v_maxmin_num_f16": (RDNA4, then(highest, lowest)),
    "v_minmax_num_f16": (RDNA4, then(lowest, highest)),
    "v_minimum_f16": (RDNA4, strict(lowest)),
    "v_maximum_f16": (RDNA4, strict(highest)),
    "v_minimum3_f16": (RDNA4, strict(then(lowest, lowest))),
    "v_maximum3_f16": (RDNA4, strict(then(highest, highest))),
    "v_minimummaximum_f16": (RDNA4, strict(then(lowest, highest))),
    "v_maximumminimum_f16": (RDNA4, strict(then(highest, lowest))),
    "v_floor_f16": (EVERY, whole(math.floor)),
    "v_ceil_f16": (EVERY, whole(math.ceil)),
    "v_trunc_f16": (EVERY, whole(math.trunc)),
    "v_rndne_f16": (EVERY, whole(round)),
    "v_fract_f16": (EVERY, fraction),
    "v_cvt_f16_u16": (EVERY, lambda a: F16.bits(float(a))),
    "v_cvt_f16_i16": (EVERY, lambda a: F16.bits(float(signed(a, 16)))),
    "v_rcp_f16": (EVERY, transcendental(reciprocal)),
    "v_sqrt_f16": (EVERY, transcendental(root)),
    "v_rsq_f16": (EVERY, transcendental(reciprocal_root)),
    "v_log_f16": (EVERY, transcendental(logarithm)),
    "v_exp_f16": (EVERY, transcendental(power)),
    "v_sin_f16": (EVERY, transcendental(turns(math.sin))),
    "v_cos_f16": (EVERY, transcendental(turns(math.cos))),
}

INTEGERS = {
    "v_mov_b16": (NEW, lambda a: a),
    "v_cvt_u16_f16": (EVERY, to_integer(0, 65535)),
    "v_cvt_i16_f16": (EVERY, to_integer(-32768, 32767)),
    "v_mul_lo_u16": (EVERY, product),
    "v_lshlrev_b16": (EVERY, lambda a, b: b << (a & 15)),
    "v_lshrrev_b16": (EVERY, lambda a, b: b >> (a & 15)),
    "v_ashrrev_i16": (EVERY, lambda a, b: signed(b, 16) >> (a & 15)),
    "v_max_u16": (EVERY, max),
    "v_min_u16": (EVERY, min),
    "v_max_i16": (EVERY, s16(max)),
    "v_min_i16": (EVERY, s16(min)),
    "v_mad_u16": (EVERY, fused),
    "v_mad_i16": (EVERY, fused),
    "v_max3_u16": (EVERY, max),
    "v_min3_u16": (EVERY, min),
    "v_med3_u16": (EVERY, middle),
    "v_max3_i16": (EVERY, s16(max)),
    "v_min3_i16": (EVERY, s16(min)),
    "v_med3_i16": (EVERY, s16(middle)),
    "v_add_u16": (OLD, operator.add),
    "v_sub_u16": (OLD, operator.sub),
    "v_subrev_u16": (OLD, lambda a, b: b - a),
    "v_add_i16": (OLD, operator.add),
    "v_sub_i16": (OLD, operator.sub),
    "v_add_nc_u16": (NEW, operator.add),
    "v_sub_nc_u16": (NEW, operator.sub),
    "v_add_nc_i16": (NEW, operator.add),
    "v_sub_nc_i16": (NEW, operator.sub),
    "v_and_b16": (NEW, operator.and_),
    "v_or_b16": (NEW, operator.or_),
    "v_xor_b16": (NEW, operator.xor),
    "v_not_b16": (NEW, operator.invert),
}

WIDENING = {
    "v_cvt_f32_f16": (EVERY, lambda a: F32.bits(F16.value(a))),
    "v_cvt_u32_u16": (NEW, lambda a: a),
    "v_cvt_i32_i16": (NEW, lambda a: signed(a, 16)),
}


def cases(table):
    return [
        pytest.param(architecture, name, function, id=f"{architecture}-{name}")
        for name, (architectures, function) in table.items()
        for architecture in architectures
    ]


ONE = {
    "floor",
    "ceil",
    "trunc",
    "rndne",
    "fract",
    "cvt",
    "rcp",
    "sqrt",
    "rsq",
    "log",
    "exp",
    "sin",
    "cos",
    "mov",
    "not",
}
THREE = {"fma", "mad", "maxmin", "minmax", "minimummaximum", "maximumminimum"}


def count_of(name):
    """Sources of an entry."""
    operation = name.split("_")[1]
    return 1 if operation in ONE else 3 if operation in THREE or operation.endswith("3") else 2


def results(architecture, name, function):
    """Rows of (operand bits, got bits, expected bits)."""
    sources = count_of(name)
    texts = ", ".join(f"v{n}" for n in range(1, sources + 1))
    ran = computed(architecture, f"{name} v12, {texts}", inputs(64 if architecture.startswith("gfx9") else 32))
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        bits = [int(x) & 0xFFFF for x in row[:sources]]
        yield bits, int(out[2]), function(*bits)


@pytest.mark.parametrize(("architecture", "name", "function"), cases(FLOATS))
def test_floats(architecture, name, function):
    for bits, got, want in results(architecture, name, function):
        assert F16.same(got & 0xFFFF, want), (bits, hex(got), hex(want))


@pytest.mark.parametrize(("architecture", "name", "function"), cases(INTEGERS))
def test_integers(architecture, name, function):
    for bits, got, want in results(architecture, name, function):
        assert got & 0xFFFF == want & 0xFFFF, (bits, hex(got), hex(want))


@pytest.mark.parametrize(("architecture", "name", "function"), cases(WIDENING))
def test_widening(architecture, name, function):
    for bits, got, want in results(architecture, name, function):
        assert F32.same(got, want & 0xFFFF_FFFF) if "f32" in name else got == want & 0xFFFF_FFFF, (bits, hex(got))


@pytest.mark.parametrize("architecture", EVERY)
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("v_mad_u32_u16", lambda a, b, c: a * b + c),
        ("v_mad_i32_i16", lambda a, b, c: signed(a, 16) * signed(b, 16) + c),
    ],
)
def test_wide_sums(architecture, name, function):
    ran = computed(architecture, f"{name} v12, v1, v2, v3")
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        a, b, c = (int(x) for x in row[:3])
        assert out[2] == function(a & 0xFFFF, b & 0xFFFF, c) & 0xFFFF_FFFF


@pytest.mark.parametrize("architecture", EVERY)
@pytest.mark.instructions("v_cvt_f16_f32")
def test_narrowing(architecture):
    ran = computed(architecture, "v_cvt_f16_f32 v12, v1")
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        assert F16.same(int(out[2]) & 0xFFFF, F16.bits(F32.value(int(row[0]))))


PACKING = {
    "v_cvt_pk_f16_f32": (CDNA4, F16, False),
    "v_cvt_pkrtz_f16_f32": (OLD, F16, True),
    "v_cvt_pk_rtz_f16_f32": (NEW, F16, True),
    "v_cvt_pk_bf16_f32": (CDNA4, BF16, False),
}


@pytest.mark.parametrize("name", PACKING)
def test_packing_of_float32(name):
    architectures, kind, cut = PACKING[name]
    random = np.random.default_rng(4)
    words = (random.standard_normal((64, 8)) * 10.0 ** random.integers(-9, 9, (64, 8))).astype(np.float32)
    words.reshape(-1)[:8] = [0, -0.0, np.inf, -np.inf, np.nan, 65504, 65520, -1e30]
    for architecture in architectures:
        ran = computed(
            architecture, f"{name} v12, v1, v2", words.view(np.uint32)[: 64 if "gfx9" in architecture else 32]
        )
        for row, out in zip(ran.inputs, ran.outputs, strict=True):
            for place, source in ((0, row[0]), (16, row[1])):
                want = kind.bits(F32.value(int(source)), cut=cut)
                assert kind.same(int(out[2]) >> place & 0xFFFF, want)


@pytest.mark.parametrize("architecture", EVERY)
@pytest.mark.instructions("v_pack_b32_f16")
def test_pack(architecture):
    ran = computed(architecture, "v_pack_b32_f16 v12, v1, v2\nv_pack_b32_f16 v13, v1, v2 op_sel:[1,0,0]")
    low, high = ran.inputs[:, 0] & 0xFFFF, ran.inputs[:, 1] << 16
    assert np.array_equal(ran.outputs[:, 2], low | high)
    assert np.array_equal(ran.outputs[:, 3], ran.inputs[:, 0] >> 16 | high)


@pytest.mark.parametrize("architecture", NEW)
@pytest.mark.instructions("v_fmaak_f16", "v_fmamk_f16", "v_fmac_f16")
def test_fused_with_constants(architecture):
    body = "v_mov_b32_e32 v12, v3\nv_fmac_f16_e32 v12, v1, v2\nv_fmaak_f16 v13, v1, v2, 0x4200"
    body += "\nv_fmamk_f16 v11, v1, 0x4200, v2"
    ran = computed(architecture, body, inputs(64 if architecture.startswith("gfx9") else 32))
    fma = fractional(fused)
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        a, b, c = (int(x) & 0xFFFF for x in row[:3])
        assert F16.same(int(out[2]) & 0xFFFF, fma(a, b, c))
        assert F16.same(int(out[3]) & 0xFFFF, fma(a, b, 0x4200))
        assert F16.same(int(out[1]) & 0xFFFF, fma(a, 0x4200, b))


@pytest.mark.parametrize("architecture", ["gfx942", "gfx1100"])
def test_modifiers(architecture):
    body = "v_add_f16_e64 v12, -v1, |v2|\nv_mul_f16_e64 v13, v1, v2 clamp"
    ran = computed(architecture, body, inputs(64 if architecture.startswith("gfx9") else 32))
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        a, b = (int(x) & 0xFFFF for x in row[:2])
        assert F16.same(int(out[2]) & 0xFFFF, fractional(operator.add)(a ^ 0x8000, b & 0x7FFF))
        free = F16.value(fractional(product)(a, b))
        assert F16.value(int(out[3]) & 0xFFFF) == (0 if math.isnan(free) else min(1, max(0, free)))


def test_halves_by_name():
    ran = computed("gfx1201", "v_mov_b32_e32 v12, v3\nv_add_f16_e64 v12.h, v1.l, v2.h", inputs(32))
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        want = fractional(operator.add)(int(row[0]) & 0xFFFF, int(row[1]) >> 16)
        assert F16.same(int(out[2]) >> 16, want)
        assert int(out[2]) & 0xFFFF == int(row[2]) & 0xFFFF


@pytest.mark.parametrize(
    ("architecture", "upper"), [("gfx90a", "cleared"), ("gfx942", "cleared"), ("gfx1100", "kept"), ("gfx1201", "kept")]
)
def test_upper_half(architecture, upper):
    ran = computed(architecture, "v_mov_b32_e32 v12, v3\nv_mul_lo_u16 v12, v1, v2")
    want = ran.inputs[:, 2] >> 16 if upper == "kept" else 0
    assert np.array_equal(ran.outputs[:, 2] >> 16, np.broadcast_to(want, ran.outputs[:, 2].shape))


@pytest.mark.parametrize("table", [0x00, 0xF8, 0x96, 0xE8, 0xFF])
@pytest.mark.instructions("v_bitop3_b16")
def test_truth_table(table):
    ran = computed("gfx950", f"v_bitop3_b16 v12, v1, v2, v3 bitop3:{table:#x}")
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        a, b, c = (int(x) & 0xFFFF for x in row[:3])
        bits = [table >> (4 * (a >> n & 1) + 2 * (b >> n & 1) + (c >> n & 1)) & 1 for n in range(16)]
        assert int(out[2]) & 0xFFFF == sum(bit << n for n, bit in enumerate(bits))


MODE = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1"


@pytest.mark.parametrize("architecture", ["gfx942", "gfx1100"])
@pytest.mark.parametrize("name", ["v_add_f16", "v_mul_f16", "v_pk_add_f16", "v_pk_mul_f16"])
def test_overflow_mode(architecture, name):
    """With FP16_OVFL set, overflow gives the largest number; an infinite operand still gives infinity."""
    operation = operator.add if "add" in name else product
    rows = inputs(64 if architecture.startswith("gfx9") else 32, seed=9)
    rows[0] = 0x7BFF
    ran = computed(architecture, f"{MODE}\n{name} v12, v1, v2", rows)
    held = 0
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        a, b = (int(x) & 0xFFFF for x in row[:2])
        want = fractional(operation)(a, b)
        finite = math.isfinite(F16.value(a)) and math.isfinite(F16.value(b))
        if finite and math.isinf(F16.value(want)):
            want, held = want - 1, held + 1
        assert F16.same(int(out[2]) & 0xFFFF, want)
    assert held


@pytest.mark.parametrize("architecture", ["gfx942", "gfx1100"])
def test_overflow_mode_of_conversions(architecture):
    rows = np.zeros((64 if architecture.startswith("gfx9") else 32, 8), np.float32)
    rows[:5, 0] = [70000, -70000, np.inf, 1, np.nan]
    ran = computed(architecture, f"{MODE}\nv_cvt_f16_f32 v12, v1", rows.view(np.uint32))
    assert [int(x) & 0xFFFF for x in ran.outputs[:4, 2]] == [0x7BFF, 0xFBFF, 0x7C00, 0x3C00]
    assert math.isnan(F16.value(int(ran.outputs[4, 2]) & 0xFFFF))


@pytest.mark.parametrize("name", ["minimum", "maximum"])
def test_strict_extremes_of_float32(name):
    keep = min if name == "minimum" else max
    ran = computed("gfx1201", f"v_{name}_f32 v12, v1, v2\nv_{name}3_f32 v13, v1, v2, v3")
    three = computed("gfx950", f"v_{name}3_f32 v13, v1, v2, v3")
    for outcome, places in ((ran, ((2, 2), (3, 3))), (three, ((3, 3),))):
        for row, out in zip(outcome.inputs, outcome.outputs, strict=True):
            for place, count in places:
                values = [F32.value(int(x)) for x in row[:count]]
                got = F32.value(int(out[place]))
                if any(math.isnan(x) for x in values):
                    assert math.isnan(got)
                else:
                    want = keep(values, key=lambda x: (x, math.copysign(1, x)))
                    assert (got, math.copysign(1, got)) == (want, math.copysign(1, want))


@pytest.mark.parametrize(("name", "outer", "inner"), [("minimummaximum", max, min), ("maximumminimum", min, max)])
def test_strict_chains_of_float32(name, outer, inner):
    ran = computed("gfx1201", f"v_{name}_f32 v12, v1, v2, v3")
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        values = [F32.value(int(x)) for x in row[:3]]
        got = F32.value(int(out[2]))
        assert math.isnan(got) if any(map(math.isnan, values)) else got == outer(inner(values[:2]), values[2])


@pytest.mark.parametrize(("name", "keep"), [("minimum", min), ("maximum", max)])
def test_strict_extremes_of_float64(name, keep):
    edges = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 5e-324])
    rows = np.random.default_rng(3).choice(edges, (32, 4))
    ran = computed("gfx1201", f"v_{name}_f64 v[12:13], v[1:2], v[3:4]", rows.view(np.uint32))
    got = np.ascontiguousarray(ran.outputs[:, 2:4]).view(np.float64)[:, 0]
    for (a, b), x in zip(rows[:, :2], got, strict=True):
        if math.isnan(a) or math.isnan(b):
            assert math.isnan(x)
        else:
            want = keep((a, b), key=lambda v: (v, math.copysign(1, v)))
            assert (x, math.copysign(1, x)) == (want, math.copysign(1, want))


def test_refused():
    ran = execute("gfx942", "v_add_nc_u16 v12, v1, v2")
    assert ran.emulation.outcome.status == "unsupported"
    assert "v_add_nc_u16" in ran.emulation.outcome.message
