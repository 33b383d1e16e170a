"""Floating-point instructions of PTX on edge operands, against exact arithmetic that is rounded once."""

import math

import numpy as np
import pytest
from ptx_probe import (
    EDGES,
    FORMATS,
    NAN,
    add,
    as_float,
    bits_of,
    execute,
    is_nan,
    multiply,
    pairs,
    results_of,
    sign,
    value,
)

from portkit.emulate.core import floats

SMALLEST = 2.0**-126


def flushed(bits):
    """A float32 denormal as a zero of its sign."""
    return bits & 0x8000_0000 if bits & 0x7F80_0000 == 0 else bits


def total(a, b, form, *, subtract=False):
    """Exact sum, and whether a zero of it is negative."""
    width = FORMATS[form][2]
    top = 1 << (width - 1)
    b = b ^ top if subtract else b
    return add(value(a, form), value(b, form)), sign(a, width) and sign(b, width)


def product(a, b, form):
    """Exact product, and whether a zero of it is negative."""
    width = FORMATS[form][2]
    return multiply(value(a, form), value(b, form)), sign(a, width) != sign(b, width)


def fused(a, b, c, form):
    """Exact a·b + c, and whether a zero of it is negative."""
    first, negative = product(a, b, form)
    width = FORMATS[form][2]
    whole = add(first, value(c, form))
    both_zero = first == 0 and value(c, form) == 0
    return whole, negative and sign(c, width) if both_zero else False


def rounded(exact, form, mode="rn"):
    """Bits of what ``total`` and the like give."""
    number, negative_zero = exact
    if number == 0 and mode == "rm" and not negative_zero:
        return None if number is NAN else bits_of(number, form, mode)
    return bits_of(number, form, mode, negative_zero=negative_zero)


def compare(got, wanted, form, what):
    """Bits alike, or NaN both."""
    if wanted is NAN:
        assert is_nan(got, form), (what, hex(got))
    else:
        assert got == wanted, (what, hex(got), hex(wanted))


OPERATIONS = {
    "add": lambda row, form: total(row[0], row[1], form),
    "sub": lambda row, form: total(row[0], row[1], form, subtract=True),
    "mul": lambda row, form: product(row[0], row[1], form),
    "fma": lambda row, form: fused(*row, form),
}


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_float32(name, mode):
    rows = pairs()
    operands = "%a0, %a1, %a2" if name == "fma" else "%a0, %a1"
    got = results_of(f"{name}.{mode}.f32 %o0, {operands};", rows)[:, 0]
    for row, found in zip(rows.tolist(), got.tolist(), strict=True):
        exact = OPERATIONS[name](row, "f32")
        if exact[0] == 0 and mode == "rm":
            assert found & 0x7FFF_FFFF == 0  # the sign of an exact zero is of its own rule there
            continue
        compare(found, rounded(exact, "f32", mode), "f32", (name, mode, [hex(each) for each in row]))


@pytest.mark.parametrize("name", OPERATIONS)
def test_denormals_are_flushed_where_asked(name):
    rows = pairs()
    operands = "%a0, %a1, %a2" if name == "fma" else "%a0, %a1"
    suffix = "rn.ftz.f32" if name == "fma" else "ftz.f32"
    got = results_of(f"{name}.{suffix} %o0, {operands};", rows)[:, 0]
    for row, found in zip(rows.tolist(), got.tolist(), strict=True):
        wanted = rounded(OPERATIONS[name]([flushed(each) for each in row], "f32"), "f32")
        compare(found, wanted if wanted is NAN else flushed(wanted), "f32", (name, [hex(each) for each in row]))


def test_results_are_held_between_0_and_1():
    rows = pairs()
    got = results_of("add.sat.f32 %o0, %a0, %a1;\nmul.sat.f32 %o1, %a0, %a1;", rows)
    for (a, b, _), found in zip(rows.tolist(), got.tolist(), strict=True):
        for (exact, _), bits in zip((total(a, b, "f32"), product(a, b, "f32")), found, strict=False):
            held = 0 if exact is NAN else min(max(exact, 0), 1)
            assert bits & 0x7FFF_FFFF == bits_of(held, "f32") or bits == bits_of(held, "f32")


EDGES64 = np.array(
    [
        *(0, 1 << 63, 0x3FF0 << 48, 0xBFF0 << 48, 0x7FF0 << 48, 0x7FF8 << 48, 1, (1 << 52) - 1, 1 << 52),
        *(0x7FEF_FFFF_FFFF_FFFF, 0x3FE5_5555_5555_5555, 0x4340_0000_0000_0001, 0x3CA0 << 48, 0xC0F1_2345_6789_ABCD),
    ],
    np.uint64,
)


@pytest.mark.parametrize("name", OPERATIONS)
def test_float64(name):
    first, second = np.meshgrid(EDGES64, EDGES64, indexing="ij")
    wide = np.stack([first.reshape(-1), second.reshape(-1), np.resize(EDGES64[::-1], first.size)], axis=1)[:192]
    rows = np.ascontiguousarray(wide).view(np.uint32)
    body = "mov.b64 %l2, {%a4, %a5};\n" + f"{name}.rn.f64 %l3, %l0, %l1{', %l2' if name == 'fma' else ''};"
    got = results_of(body + "\nmov.b64 {%o0, %o1}, %l3;", rows)
    for row, found in zip(wide.tolist(), np.ascontiguousarray(got[:, :2]).view(np.uint64)[:, 0].tolist(), strict=True):
        compare(found, rounded(OPERATIONS[name](row, "f64"), "f64"), "f64", (name, [hex(each) for each in row]))


@pytest.mark.parametrize("form", ["f16", "bf16"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_halves_and_pairs(name, form):
    rows = pairs()
    two = "%a0, %a1, %a2" if name == "fma" else "%a0, %a1"
    one = "%h0, %h1, %h2" if name == "fma" else "%h0, %h1"
    body = f"{name}.rn.{form}x2 %o0, {two};\n{name}.rn.{form} %h8, {one};\ncvt.u32.u16 %o1, %h8;"
    for row, found in zip(rows.tolist(), results_of(body, rows).tolist(), strict=True):
        low, high = ([each >> shift & 0xFFFF for each in row] for shift in (0, 16))
        wanted = [rounded(OPERATIONS[name](half, form), form) for half in (low, high)]
        compare(found[0] & 0xFFFF, wanted[0], form, (name, [hex(each) for each in low]))
        compare(found[0] >> 16, wanted[1], form, (name, [hex(each) for each in high]))
        compare(found[1], wanted[0], form, name)


def smaller(a, b, form, *, quiet=True, greatest=False):
    """Bits of the extreme of two."""
    left, right = value(a, form), value(b, form)
    if left is NAN or right is NAN:
        return (NAN if not quiet else b if left is NAN else a) if not (left is NAN and right is NAN) else NAN
    if left == right:
        zero_first = sign(a, FORMATS[form][2]) != greatest
        return a if zero_first else b
    return a if (left < right) != greatest else b


@pytest.mark.parametrize("form", ["f32", "f16x2", "bf16x2"])
@pytest.mark.parametrize("name", ["min", "max", "min.NaN", "max.NaN"])
def test_extremes(name, form):
    rows = pairs()
    got = results_of(f"{name}.{form} %o0, %a0, %a1;", rows)[:, 0].tolist()
    single, shifts = (form, (0,)) if form == "f32" else (form.removesuffix("x2"), (0, 16))
    mask = 0xFFFF_FFFF if form == "f32" else 0xFFFF
    for (a, b, _), found in zip(rows.tolist(), got, strict=True):
        for shift in shifts:
            parts = a >> shift & mask, b >> shift & mask
            wanted = smaller(*parts, single, quiet="NaN" not in name, greatest=name.startswith("max"))
            compare(found >> shift & mask, wanted, single, (name, *map(hex, parts)))


def test_signs():
    rows = pairs()
    body = "neg.f32 %o0, %a0;\nabs.f32 %o1, %a0;\ncopysign.f32 %o2, %a0, %a1;\nneg.f16x2 %o3, %a0;"
    for (a, b, _), found in zip(rows.tolist(), results_of(body, rows).tolist(), strict=True):
        plain = [a ^ 0x8000_0000, a & 0x7FFF_FFFF, a & 0x8000_0000 | b & 0x7FFF_FFFF]
        for got, wanted in zip(found, plain, strict=False):
            assert got == wanted or (is_nan(got, "f32") and is_nan(wanted, "f32"))
        halves = [half ^ 0x8000 if not is_nan(half, "f16") else 0x7FFF for half in (a & 0xFFFF, a >> 16)]
        assert found[3] == halves[0] | halves[1] << 16


def test_what_kind_of_number_it_is():
    rows = np.stack([EDGES, EDGES], axis=1)
    names = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    for name in names:
        got = results_of(f"testp.{name}.f32 %p0, %a0;\nselp.b32 %o0, 1, 0, %p0;", rows)[:, 0].tolist()
        for bits, found in zip(EDGES.tolist(), got, strict=True):
            x = as_float(bits)
            wanted = {
                "finite": math.isfinite(x),
                "infinite": math.isinf(x),
                "number": not math.isnan(x),
                "notanumber": math.isnan(x),
                "normal": math.isfinite(x) and (abs(x) >= SMALLEST or x == 0),  # zeros too, on an H200
                "subnormal": 0 < abs(x) < SMALLEST,
            }[name]
            assert found == wanted, (name, hex(bits))


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("eq", lambda a, b: a == b),
        ("ne", lambda a, b: a < b or a > b),
        ("lt", lambda a, b: a < b),
        ("ge", lambda a, b: a >= b),
        ("equ", lambda a, b: not (a < b or a > b)),
        ("neu", lambda a, b: a != b),
        ("ltu", lambda a, b: not a >= b),
        ("leu", lambda a, b: not a > b),
        ("gtu", lambda a, b: not a <= b),
        ("geu", lambda a, b: not a < b),
        ("num", lambda a, b: not (math.isnan(a) or math.isnan(b))),
        ("nan", lambda a, b: math.isnan(a) or math.isnan(b)),
    ],
)
def test_comparisons(test, expected):
    rows = pairs()
    body = f"""setp.{test}.f32 %p0, %a0, %a1;
    selp.b32 %o0, 1, 0, %p0;
    setp.{test}.ftz.f32 %p1, %a0, %a1;
    selp.b32 %o1, 1, 0, %p1;
    setp.{test}.f16x2 %p2|%p3, %a0, %a1;
    selp.b32 %o2, 1, 0, %p2;
    selp.b32 %o3, 1, 0, %p3;"""
    for (a, b, _), found in zip(rows.tolist(), results_of(body, rows).tolist(), strict=True):
        half = [np.array([x, x >> 16], np.uint32).astype(np.uint16).view(np.float16).tolist() for x in (a, b)]
        wanted = [expected(as_float(a), as_float(b)), expected(as_float(flushed(a)), as_float(flushed(b)))]
        assert found == [
            *map(int, wanted),
            int(expected(half[0][0], half[1][0])),
            int(expected(half[0][1], half[1][1])),
        ]


BOUNDS = {
    "ex2.approx.f32": (lambda x: 2.0**x if x < 128 else math.inf, 2, 0),
    "ex2.approx.ftz.f32": (lambda x: 2.0**x if x < 128 else math.inf, 2, 0),
    "lg2.approx.f32": (lambda x: math.log2(x) if x > 0 else -math.inf if x == 0 else math.nan, 2, 2.0**-22),
    "rcp.approx.ftz.f32": (lambda x: 1 / x if x else math.copysign(math.inf, x), 1, 0),
    "rcp.rn.f32": (lambda x: 1 / x if x else math.copysign(math.inf, x), 0, 0),
    "sqrt.approx.f32": (lambda x: math.sqrt(x) if x >= 0 else math.nan, 1, 0),
    "sqrt.rn.f32": (lambda x: math.sqrt(x) if x >= 0 else math.nan, 0, 0),
    "rsqrt.approx.f32": (
        lambda x: 1 / math.sqrt(x) if x > 0 else math.nan if x < 0 else math.copysign(math.inf, x),
        *(2, 0),
    ),
    "sin.approx.f32": (math.sin, 0, 2.0**-20.5),
    "cos.approx.f32": (math.cos, 0, 2.0**-20.5),
    "tanh.approx.f32": (math.tanh, 0, 2.0**-16),
}
"""Instruction → function, units in the last place that it may be off, or what it may be off at all."""


@pytest.mark.parametrize("name", BOUNDS)
def test_functions_lie_within_their_bounds(name):
    function, ulps, most = BOUNDS[name]
    x = np.concatenate([np.linspace(-6, 6, 224), [0.0, -0.0, 1.0, 2.0, 0.5, 1.5, 100.0, np.inf]]).astype(np.float32)
    rows = np.resize(x, (256, 1)).astype(np.float32).view(np.uint32)
    got = results_of(f"{name} %o0, %a0;", rows)[:, 0].view(np.float32)
    for given, found in zip(rows.view(np.float32)[:, 0].tolist(), got.tolist(), strict=True):
        if math.isinf(given) and name.startswith(("sin", "cos")):
            assert math.isnan(found)
            continue
        wanted = function(given)
        if math.isnan(wanted) or math.isinf(wanted):
            assert found == wanted or (math.isnan(wanted) and math.isnan(found)), (given, found)
        else:
            unit = float(np.spacing(np.abs(np.float32(wanted)))) or 2.0**-149
            bound = max((ulps + 0.5001) * unit, most if abs(given) < 2 * math.pi else 2.0**-14)
            assert abs(found - wanted) <= bound, (given, found, wanted)


def test_what_rounds_to_the_smallest_normal_number_with_any_exponent_is_not_flushed():
    """As an H200 gave it: 2^-126 less 2^-188 is 2^-126 of 24 bits, 2^-126 less 2^-150 is not."""
    rows = np.array([[0x810E_70A9, 0x203D_69E3, 0x0080_0000], [0x3F7F_FFFF, 0x0080_0000, 0]], np.uint32)
    found = results_of("fma.rn.ftz.f32 %o0, %a0, %a1, %a2;", np.resize(rows, (256, 3)))[:2, 0]
    assert found.tolist() == [0x0080_0000, 0]


@pytest.mark.parametrize("name", ["div.rn.f32", "div.full.f32", "div.approx.f32", "div.rz.f32", "div.rp.f32"])
def test_quotients(name):
    rows = pairs()
    form = name.split(".")[1]
    for (a, b, _), found in zip(rows.tolist(), results_of(f"{name} %o0, %a0, %a1;", rows)[:, 0].tolist(), strict=True):
        left, right = value(a, "f32"), value(b, "f32")
        if NAN in (left, right) or right == 0 or isinstance(left, float) or isinstance(right, float) or left == 0:
            continue
        exact = left / right
        if form in {"full", "approx"}:
            moderate = 2.0**-120 < abs(exact) < 2.0**120 and 2.0**-120 < abs(right) < 2.0**120
            wanted = float(exact)
            if moderate:
                assert abs(as_float(found) - wanted) <= 3 * float(np.spacing(np.abs(np.float32(wanted)))), (
                    hex(a),
                    hex(b),
                )
        else:
            assert found == bits_of(exact, "f32", form, negative_zero=exact < 0), (name, hex(a), hex(b))


def test_the_ends_of_full_division():
    """As on an H200: both operands are scaled, where a reciprocal would be no normal number."""
    x = np.float32([-2.7188598e38, 1.1606693e38, 5.144419e36]).view(np.uint32)
    y = np.float32([9.349491e37, -2.6696598e38, 9.401049e37]).view(np.uint32)
    rows = np.zeros((32, 2), np.uint32)
    rows[:3] = np.stack([x, y], axis=1)
    rows[3:] = 0x3F80_0000
    got = results_of("div.full.f32 %o0, %a0, %a1;", rows)[:3, 0].view(np.float32)
    np.testing.assert_allclose(got, [-2.9080298, -0.43476298, 0.054721754], rtol=3e-7)


@pytest.mark.parametrize("name", ["ex2.approx.f32", "rcp.approx.f32", "sqrt.approx.f32", "rsqrt.approx.f32"])
def test_powers_of_two_are_exact(name):
    """Of 1 - 1/(1 + 0), as in gradients of sigmoids, nothing may be left."""
    powers = np.ldexp(np.float32(1), np.arange(-32, 32) // 2 * 2).astype(np.float32)
    given = np.float32(np.arange(-32, 32)) if name.startswith("ex2") else powers
    function = {"ex2": np.exp2, "rcp": np.reciprocal, "sqr": np.sqrt, "rsq": lambda x: 1 / np.sqrt(x)}[name[:3]]
    got = results_of(f"{name} %o0, %a0;\ndiv.full.f32 %o1, %a0, %a0;", given.view(np.uint32)[:, None]).view(np.float32)
    assert got[:, 0].tolist() == function(given).tolist()
    assert name.startswith("ex2") or (got[:, 1] == 1).all()


def test_pairs_of_float32():
    rows = np.concatenate([pairs(), pairs()[::-1, :1]], axis=1)
    body = (
        "add.rn.f32x2 %l2, %l0, %l1;\nmov.b64 {%o0, %o1}, %l2;\nmul.rn.f32x2 %l3, %l0, %l1;\nmov.b64 {%o2, %o3}, %l3;"
    )
    for row, found in zip(rows.tolist(), results_of(body, rows, target="sm_100a").tolist(), strict=True):
        for place in (0, 1):
            compare(found[place], rounded(total(row[place], row[place + 2], "f32"), "f32"), "f32", row)
            compare(found[place + 2], rounded(product(row[place], row[place + 2], "f32"), "f32"), "f32", row)


def test_arithmetic_that_an_architecture_lacks_is_refused():
    done, _ = execute("add.rn.f32x2 %l2, %l0, %l1;", pairs()[:32])
    assert done.outcome.status == "unsupported"
    assert "f32x2" in done.outcome.message or "sm_90 has no add" in done.outcome.message


def test_powers_of_two_in_bfloat16_flush_what_is_no_normal_number():
    """As an H200 does; in float16, where .ftz is not, they stay."""
    assert powers_of_two(
        "bf16", np.array([-125, -126, -126.5, -127, -133, -134], np.float32).view(np.uint32) >> 16
    ) == [
        (2**-125).hex(),
        (2**-126).hex(),
        *[(0.0).hex()] * 4,
    ]
    given = np.float16([-14, -15, -24]).view(np.uint16)
    assert powers_of_two("f16", given) == [(2.0**each).hex() for each in (-14, -15, -24)]


def powers_of_two(form, halves):
    name = {"bf16": "ex2.approx.ftz.bf16", "f16": "ex2.approx.f16"}[form]
    rows = np.resize(np.uint32(halves), 32)[:, None]
    got = results_of(f"{name} %h8, %h0;\ncvt.u32.u16 %o0, %h8;", rows)[: len(halves), 0]
    return [float(value(int(each), form)).hex() for each in got]


NANS = [0x7F80_0001, 0xFFA5_5A5A, 0x7FC0_0001, 0xFFFF_FFFF]
"""Of float32; the first two signal."""


@pytest.mark.parametrize("function", [floats.maximum, floats.minimum])
def test_extremes_do_not_depend_on_how_many_there_are(function):
    """NumPy takes some of an array at once, and the rest one by one."""
    edges = np.array([*NANS, 0, 0x8000_0000, 0x3F80_0000, 0xC000_0000], np.uint32)
    a, b = (each.reshape(-1).view(np.float32) for each in np.meshgrid(edges, edges))
    with np.errstate(invalid="ignore"):
        alone = np.concatenate([function(a[n : n + 1], b[n : n + 1]) for n in range(a.size)]).view(np.uint32)
        for size in range(1, a.size + 1):
            assert np.array_equal(function(a[:size], b[:size]).view(np.uint32), alone[:size])
    number = ~np.isnan(b) & np.isnan(a)
    assert np.array_equal(alone[number], b.view(np.uint32)[number])


def test_halves_that_are_no_numbers_have_one_pattern():
    nans = np.array([[0x7C01_FE55, 0xFD02_7D03], [0xFFFF_7E00, 0x7E01_FC01]], np.uint32)
    body = "add.f16x2 %o0, %a0, %a1;\nmax.f16x2 %o1, %a0, %a1;\nfma.rn.f16x2 %o2, %a0, %a1, %a0;"
    assert (results_of(body, np.resize(nans, (32, 2)))[:, :3] == 0x7FFF_7FFF).all()
