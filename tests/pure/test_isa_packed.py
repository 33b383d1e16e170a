"""Packed arithmetic, mixed precision and dot products: every entry against exact arithmetic."""

import math
import operator
from fractions import Fraction

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from assembly import computed, edge_rows, execute
from formats import BF16, F16, F32, exactly, signed
from test_isa_halves import (
    fractional,
    fused,
    highest,
    inputs,
    lowest,
    product,
    strict,
    then,
)

EVERY, OLD, NEW = ("gfx90a", "gfx942", "gfx1100", "gfx1201"), ("gfx942",), ("gfx1100", "gfx1201")
BEFORE_RDNA4, RDNA4, CDNA4 = ("gfx942", "gfx1100"), ("gfx1201",), ("gfx950",)


def lanes_of(architecture):
    return 64 if architecture.startswith("gfx9") else 32


def s16(function):
    return lambda *bits: function(*(signed(b, 16) for b in bits))


PAIRS = {
    "v_pk_add_f16": (EVERY, fractional(operator.add)),
    "v_pk_mul_f16": (EVERY, fractional(product)),
    "v_pk_fma_f16": (EVERY, fractional(fused)),
    "v_pk_max_f16": (BEFORE_RDNA4, highest),
    "v_pk_min_f16": (BEFORE_RDNA4, lowest),
    "v_pk_max_num_f16": (RDNA4, highest),
    "v_pk_min_num_f16": (RDNA4, lowest),
    "v_pk_minimum3_f16": (CDNA4, strict(then(lowest, lowest))),
    "v_pk_maximum3_f16": (CDNA4, strict(then(highest, highest))),
    "v_pk_add_u16": (EVERY, operator.add),
    "v_pk_add_i16": (EVERY, operator.add),
    "v_pk_sub_u16": (EVERY, operator.sub),
    "v_pk_sub_i16": (EVERY, operator.sub),
    "v_pk_mul_lo_u16": (EVERY, product),
    "v_pk_mad_u16": (EVERY, fused),
    "v_pk_mad_i16": (EVERY, fused),
    "v_pk_max_u16": (EVERY, max),
    "v_pk_min_u16": (EVERY, min),
    "v_pk_max_i16": (EVERY, s16(max)),
    "v_pk_min_i16": (EVERY, s16(min)),
    "v_pk_lshlrev_b16": (EVERY, lambda a, b: b << (a & 15)),
    "v_pk_lshrrev_b16": (EVERY, lambda a, b: b >> (a & 15)),
    "v_pk_ashrrev_i16": (EVERY, lambda a, b: signed(b, 16) >> (a & 15)),
}
THREE = ("fma", "mad", "minimum3", "maximum3")


def cases(table):
    return [
        pytest.param(architecture, name, row[1], id=f"{architecture}-{name}")
        for name, row in table.items()
        for architecture in row[0]
    ]


def same(name, got, want):
    return F16.same(got, want) if name.endswith("f16") else got == want & 0xFFFF


def check_pair(architecture, name, function, modifiers, low, high, signs=(0, 0)):
    """Both halves of a result; ``low`` and ``high`` say which half of each source makes them."""
    count = 3 if any(word in name for word in THREE) else 2
    texts = ", ".join(f"v{n}" for n in range(1, count + 1))
    ran = computed(architecture, f"{name} v12, {texts} {modifiers}", inputs(lanes_of(architecture)))
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        for place, halves, sign in ((0, low, signs[0]), (16, high, signs[1])):
            bits = [int(x) >> 16 * halves[n] & 0xFFFF for n, x in enumerate(row[:count])]
            bits[0] ^= sign << 15
            got = int(out[2]) >> place & 0xFFFF
            assert same(name, got, function(*bits)), (bits, hex(got))


@pytest.mark.parametrize(("architecture", "name", "function"), cases(PAIRS))
def test_pairs(architecture, name, function):
    check_pair(architecture, name, function, "", (0, 0, 0), (1, 1, 1))


@pytest.mark.parametrize("architecture", ["gfx942", "gfx1201"])
@pytest.mark.parametrize("name", ["v_pk_add_f16", "v_pk_sub_i16", "v_pk_lshlrev_b16"])
def test_selection_of_halves(architecture, name):
    check_pair(architecture, name, PAIRS[name][1], "op_sel:[1,0] op_sel_hi:[0,1]", (1, 0), (0, 1))


@pytest.mark.parametrize("architecture", ["gfx942", "gfx1100"])
def test_signs(architecture):
    check_pair(architecture, "v_pk_mul_f16", fractional(product), "neg_lo:[1,0]", (0, 0), (1, 1), (1, 0))
    check_pair(architecture, "v_pk_mul_f16", fractional(product), "neg_hi:[1,0]", (0, 0), (1, 1), (0, 1))


@pytest.mark.parametrize(
    ("line", "low", "high"),
    [
        ("v_pk_add_u16 v12, v1, -1", 0xFFFF, 0xFFFF),
        ("v_pk_add_u16 v12, v1, 5", 5, 0),
        ("v_pk_add_u16 v12, v1, 5 op_sel_hi:[1,0]", 5, 5),
        ("v_pk_add_u16 v12, v1, 1.0", 0x0000, 0x3F80),
    ],
)
def test_constants_of_integers(line, low, high):
    ran = computed("gfx942", line)
    want = (ran.inputs[:, 0] + low & 0xFFFF) | ((ran.inputs[:, 0] >> 16) + high & 0xFFFF) << 16
    assert np.array_equal(ran.outputs[:, 2], want)


@pytest.mark.parametrize(("modifiers", "high"), [("", 0x0000), ("op_sel_hi:[1,0]", 0x4000)])
def test_constants_of_floats(modifiers, high):
    ran = computed("gfx942", f"v_pk_mul_f16 v12, v1, 2.0 {modifiers}", inputs(64))
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        for place, factor in ((0, 0x4000), (16, high)):
            want = fractional(product)(int(row[0]) >> place & 0xFFFF, factor)
            assert F16.same(int(out[2]) >> place & 0xFFFF, want)


def test_clamped():
    ran = computed("gfx942", "v_pk_add_f16 v12, v1, v2 clamp", inputs(64))
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        for place in (0, 16):
            free = F16.value(fractional(operator.add)(*(int(x) >> place & 0xFFFF for x in row[:2])))
            want = 0 if math.isnan(free) else min(1, max(0, free))
            assert F16.value(int(out[2]) >> place & 0xFFFF) == want


@pytest.mark.parametrize("name", ["v_pk_add_u16", "v_pk_sub_u16", "v_pk_add_i16", "v_pk_sub_i16"])
@pytest.mark.parametrize("architecture", ["gfx942", "gfx1201"])
def test_saturating_pairs(architecture, name):
    operation, is_signed = getattr(operator, name[5:8]), name.endswith("i16")
    low, high = (-(2**15), 2**15 - 1) if is_signed else (0, 2**16 - 1)
    ran = computed(architecture, f"{name} v12, v1, v2 clamp", inputs(lanes_of(architecture)))
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        for place in (0, 16):
            bits = [int(x) >> place & 0xFFFF for x in row[:2]]
            exact = operation(*(signed(b, 16) if is_signed else b for b in bits))
            assert int(out[2]) >> place & 0xFFFF == max(low, min(high, exact)) & 0xFFFF


@pytest.mark.parametrize(
    ("architecture", "name", "bits", "is_signed"),
    [
        ("gfx942", "v_sub_u16", 16, False),
        ("gfx942", "v_add_i16", 16, True),
        ("gfx1100", "v_add_nc_u16", 16, False),
        ("gfx1201", "v_sub_nc_i16", 16, True),
        ("gfx942", "v_add_u32", 32, False),
        ("gfx1100", "v_sub_nc_u32", 32, False),
        ("gfx1201", "v_add_nc_i32", 32, True),
    ],
)
def test_saturating_integers(architecture, name, bits, is_signed):
    operation = getattr(operator, name[2:5])
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    ran = computed(architecture, f"{name}_e64 v12, v1, v2 clamp", edge_rows(lanes_of(architecture)))
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        words = [int(x) & ((1 << bits) - 1) for x in row[:2]]
        exact = operation(*(signed(w, bits) if is_signed else w for w in words))
        assert int(out[2]) & ((1 << bits) - 1) == max(low, min(high, exact)) & ((1 << bits) - 1)


# -- pairs of float32

FULL = {
    "v_pk_add_f32": (2, operator.add),
    "v_pk_mul_f32": (2, product),
    "v_pk_fma_f32": (3, fused),
}


def full(operation, *bits):
    return F32.bits(exactly(operation, *(F32.value(b) for b in bits)))


@pytest.mark.parametrize("architecture", ["gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize("name", FULL)
@pytest.mark.parametrize(
    ("modifiers", "low", "high"),
    [("", (0, 0, 0), (1, 1, 1)), ("op_sel:[1,0,0] op_sel_hi:[0,1,1]", (1, 0, 0), (0, 1, 1))],
)
def test_float32_pairs(architecture, name, modifiers, low, high):
    count, operation = FULL[name]
    sources = ["v[1:2]", "v[3:4]", "v[5:6]"][:count]
    if count == 2:
        modifiers = modifiers.replace(",0]", "]", 1).replace(",1]", "]", 1) if modifiers else ""
    ran = computed(architecture, f"{name} v[12:13], {', '.join(sources)} {modifiers}")
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        for place, halves in ((2, low), (3, high)):
            bits = [int(row[2 * n + halves[n]]) for n in range(count)]
            assert F32.same(int(out[place]), full(operation, *bits)), [hex(b) for b in bits]


@pytest.mark.instructions("v_pk_mov_b32")
def test_moved_pair():
    ran = computed("gfx942", "v_pk_mov_b32 v[12:13], v[1:2], v[3:4] op_sel:[1,0]")
    assert np.array_equal(ran.outputs[:, 2:], ran.inputs[:, [1, 2]])


# -- mixed precision


@pytest.mark.parametrize("architecture", EVERY)
@pytest.mark.parametrize(
    ("modifiers", "kinds"),
    [
        ("", "fff"),
        ("op_sel_hi:[1,0,0]", "lff"),
        ("op_sel:[1,0,1] op_sel_hi:[1,1,1]", "hlh"),
        ("op_sel_hi:[0,0,1]", "ffl"),
    ],
)
@pytest.mark.instructions("v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16")
def test_mixed(architecture, modifiers, kinds):
    lines = [f"v_fma_mix_f32 v12, v1, -v2, |v3| {modifiers}", f"v_fma_mixlo_f16 v13, v1, -v2, |v3| {modifiers}"]
    start = "v_mov_b32_e32 v13, v4\nv_mov_b32_e32 v11, v4"
    last = f"v_fma_mixhi_f16 v11, v1, -v2, |v3| {modifiers}"
    rows = np.where(np.arange(8) % 2, edge_rows(lanes_of(architecture)), inputs(lanes_of(architecture), seed=2))
    ran = computed(architecture, "\n".join([start, *lines, last]), rows)
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        values = [mixed(int(x), kind) for x, kind in zip(row, kinds, strict=False)]
        exact = exactly(fused, values[0], -values[1], abs(values[2]))
        assert F32.same(int(out[2]), F32.bits(exact))
        assert F16.same(int(out[3]) & 0xFFFF, F16.bits(exact))
        assert F16.same(int(out[1]) >> 16, F16.bits(exact))
        assert int(out[3]) >> 16 == int(row[3]) >> 16
        assert int(out[1]) & 0xFFFF == int(row[3]) & 0xFFFF


def mixed(word, kind):
    return F32.value(word) if kind == "f" else F16.value(word >> 16 if kind == "h" else word & 0xFFFF)


# -- dot products


def within(kind, got, exact, largest):
    """The nearest number, or one no farther than that but for what a sum in float64 rounds off."""
    if isinstance(exact, float) and not math.isfinite(exact):
        return kind.same(got, kind.bits(exact))
    value = kind.value(got)
    if math.isinf(value):
        return got == kind.bits(exact)
    nearest = kind.value(kind.bits(exact))
    slack = Fraction(largest) / 2**50
    return got == kind.bits(exact) or abs(Fraction(value) - exact) <= abs(Fraction(nearest) - exact) + slack


def total(terms, addend):
    """Exact sum of products and an addend; a float where one is not finite."""
    flat = [x for pair in terms for x in pair] + [addend]
    if all(math.isfinite(x) for x in flat):
        exact = sum((Fraction(a) * Fraction(b) for a, b in terms), Fraction(addend))
        return exact if exact != 0 else sum((a * b for a, b in terms), addend)
    return sum((a * b for a, b in terms), addend)


def biggest(terms, addend):
    return max([abs(Fraction(a) * Fraction(b)) for a, b in terms] + [abs(Fraction(addend))])


PAIRS_TO_F32 = {
    "v_dot2_f32_f16": (("gfx942", "gfx1100", "gfx1201"), F16),
    "v_dot2_f32_bf16": (("gfx950", "gfx1100", "gfx1201"), BF16),
}


def check_dot(kind, addend_kind, row, got, addend):
    words = [int(x) for x in row[:2]]
    terms = [tuple(kind.value(word >> place & 0xFFFF) for word in words) for place in (0, 16)]
    exact = total(terms, addend)
    flat = [x for pair in terms for x in pair] + [addend]
    largest = biggest(terms, addend) if all(map(math.isfinite, flat)) else 0
    assert within(addend_kind, got, exact, largest), (terms, addend, hex(got))


@pytest.mark.parametrize(("architecture", "name", "kind"), cases(PAIRS_TO_F32))
def test_pair_to_float32(architecture, name, kind):
    rows = inputs(lanes_of(architecture), seed=6)
    rows[:, 2] = edge_rows(len(rows))[:, 2]
    ran = computed(architecture, f"{name} v12, v1, v2, v3\n{name} v13, v1, v2, v3 neg_lo:[1,0,1]", rows)
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        addend = F32.value(int(row[2]))
        check_dot(kind, F32, row, int(out[2]), addend)
        flipped = row.copy()
        flipped[0] ^= 0x8000
        check_dot(kind, F32, flipped, int(out[3]), -addend)


ACCUMULATING = {
    "v_dot2c_f32_f16": (("gfx942",), F16),
    "v_dot2acc_f32_f16": (("gfx1100",), F16),
    "v_dot2c_f32_bf16": (("gfx950",), BF16),
}


@pytest.mark.parametrize(("architecture", "name", "kind"), cases(ACCUMULATING))
def test_pair_accumulated(architecture, name, kind):
    rows = inputs(lanes_of(architecture), seed=6)
    rows[:, 2] = edge_rows(len(rows))[:, 2]
    ran = computed(architecture, f"v_mov_b32_e32 v12, v3\n{name} v12, v1, v2", rows)
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        check_dot(kind, F32, row, int(out[2]), F32.value(int(row[2])))


TO_HALF = {"v_dot2_f16_f16": (NEW, F16), "v_dot2_bf16_bf16": (NEW, BF16)}


@pytest.mark.parametrize(("architecture", "name", "kind"), cases(TO_HALF))
def test_pair_to_half(architecture, name, kind):
    body = (
        f"v_mov_b32_e32 v12, v4\n{name} v12, v1, v2, v3\nv_mov_b32_e32 v13, v4\n{name} v13, v1, v2, v3 op_sel:[0,0,1,1]"
    )
    ran = computed(architecture, body, inputs(32, seed=7))
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        check_dot(kind, kind, row, int(out[2]) & 0xFFFF, kind.value(int(row[2]) & 0xFFFF))
        check_dot(kind, kind, row, int(out[3]) >> 16, kind.value(int(row[2]) >> 16))
        assert int(out[2]) >> 16 == int(row[3]) >> 16
        assert int(out[3]) & 0xFFFF == int(row[3]) & 0xFFFF


def test_bfloat_constant():
    """LLVM writes a bfloat16 sum of one register as a dot product with ones."""
    ran = computed("gfx1100", "v_dot2_bf16_bf16 v12, v1, 1.0, 0", inputs(32))
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        word = int(row[0])
        low = BF16.value(word & 0xFFFF)
        want = total([(low, 1.0), (BF16.value(word >> 16), 0.0)], 0.0)
        assert BF16.same(int(out[2]) & 0xFFFF, BF16.bits(want))


INTEGER_DOTS = {
    "v_dot2_i32_i16": (OLD, (16, True, True, False)),
    "v_dot2_u32_u16": (OLD, (16, False, False, False)),
    "v_dot4_i32_i8": (OLD, (8, True, True, False)),
    "v_dot4_u32_u8": (("gfx942", "gfx1100", "gfx1201"), (8, False, False, False)),
    "v_dot8_i32_i4": (OLD, (4, True, True, False)),
    "v_dot8_u32_u4": (("gfx942", "gfx1100", "gfx1201"), (4, False, False, False)),
    "v_dot4c_i32_i8": (OLD, (8, True, True, True)),
    "v_dot8c_i32_i4": (OLD, (4, True, True, True)),
    "v_dot4_i32_iu8": (NEW, (8, True, False, False)),
    "v_dot8_i32_iu4": (NEW, (4, True, False, False)),
}


def integer_dot(row, bits, first_signed, second_signed):
    result = 0
    for place in range(0, 32, bits):
        a, b = (int(x) >> place & ((1 << bits) - 1) for x in row[:2])
        result += (signed(a, bits) if first_signed else a) * (signed(b, bits) if second_signed else b)
    return result


@pytest.mark.parametrize(("architecture", "name", "shape"), cases(INTEGER_DOTS))
def test_integer_dots(architecture, name, shape):
    bits, first, second, accumulates = shape
    line = f"v_mov_b32_e32 v12, v3\n{name} v12, v1, v2" if accumulates else f"{name} v12, v1, v2, v3"
    ran = computed(architecture, line + (" neg_lo:[1,0,0]" if "iu" in name else ""))
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        assert int(out[2]) == integer_dot(row, bits, first, second) + int(row[2]) & 0xFFFF_FFFF


@pytest.mark.parametrize("name", ["v_dot4_i32_i8", "v_dot4_u32_u8"])
def test_saturating_dots(name):
    rows = edge_rows(64)
    rows[:, 2] = np.resize([0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF], 64)
    ran = computed("gfx942", f"{name} v12, v1, v2, v3 clamp", rows)
    is_signed = "i32" in name
    low, high = (-(2**31), 2**31 - 1) if is_signed else (0, 2**32 - 1)
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        addend = signed(int(row[2]), 32) if is_signed else int(row[2])
        want = max(low, min(high, integer_dot(row, 8, is_signed, is_signed) + addend))
        assert int(out[2]) == want & 0xFFFF_FFFF


@pytest.mark.parametrize(
    ("first", "second"),
    [pytest.param(a, b, id=f"v_dot4_f32_{a}_{b}") for a in ("fp8", "bf8") for b in ("fp8", "bf8")],
)
def test_small_float_dots(first, second):
    ran = computed("gfx1201", f"v_dot4_f32_{first}_{second} v12, v1, v2, v3")
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        terms = [(code(int(row[0]) >> n & 255, first), code(int(row[1]) >> n & 255, second)) for n in (0, 8, 16, 24)]
        addend = F32.value(int(row[2]))
        exact = total(terms, addend)
        flat = [x for pair in terms for x in pair] + [addend]
        largest = biggest(terms, addend) if all(map(math.isfinite, flat)) else 0
        assert within(F32, int(out[2]), exact, largest)


def code(bits, name):
    """OCP's E4M3 and E5M2; E5M2 is the upper byte of float16."""
    if name == "bf8":
        return F16.value(bits << 8)
    if bits & 0x7F == 0x7F:
        return math.nan
    exponent, mantissa = bits >> 3 & 15, bits & 7
    size = math.ldexp(mantissa + (8 if exponent else 0), max(exponent, 1) - 10)
    return -size if bits >> 7 else size


@pytest.mark.parametrize(
    ("architecture", "line", "cause"),
    [
        ("gfx1100", "v_pk_add_f32 v[12:13], v[1:2], v[3:4]", "gfx1100 has no"),
        ("gfx942", "v_pk_add_u16 v12, v1, v2 neg_lo:[1,0]", "modifier neg_lo"),
        ("gfx942", "v_dot2_f32_f16 v12, v1, v2, v3 neg_hi:[0,0,1]", "absolute value"),
        ("gfx942", "v_pk_mul_lo_u16 v12, v1, v2 clamp", "clamp of an integer"),
        ("gfx1100", "v_dot2_f16_f16 v12, v1, v2, v3 op_sel:[1,0,0,0]", "op_sel of a packed source"),
    ],
)
def test_refused(architecture, line, cause):
    ran = execute(architecture, line)
    assert ran.emulation.outcome.status == "unsupported"
    assert cause in ran.emulation.outcome.message
