"""Conversions of PTX on edge operands, against exact numbers rounded once."""

import itertools
import math

import numpy as np
import pytest
from ptx_probe import EDGES, NAN, as_float, bits_of, execute, is_nan, pairs, results_of, signed, value

FORMS = {"f16": 16, "bf16": 16, "f32": 32}
CODES = {"e4m3": (4, 3, 7), "e5m2": (5, 2, 15)}


def nearest(x, mode):
    """A float as a whole number."""
    return {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}[mode](x)


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64", "s16", "u16"])
def test_floats_to_integers(kind, mode):
    width = int(kind[1:])
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if kind[0] == "s" else (0, (1 << width) - 1)
    target, after = {64: ("%l2", "mov.b64 {%o0, %o1}, %l2;"), 16: ("%h8", "cvt.u32.u16 %o0, %h8;")}.get(
        width, ("%o0", "")
    )
    rows = pairs()[::32, :1]
    got = results_of(f"cvt.{mode}.{kind}.f32 {target}, %a0;\n{after}", rows)
    for (bits,), found in zip(rows.tolist(), got.tolist(), strict=True):
        x = as_float(bits)
        whole = found[0] | found[1] << 32 if width == 64 else found[0]
        if math.isnan(x):
            assert whole == (1 << 63 if width == 64 else 0)
        else:
            held = high if x == math.inf else low if x == -math.inf else max(low, min(high, nearest(x, mode)))
            assert whole == held & (1 << width) - 1, (kind, mode, x)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64"])
def test_integers_to_floats(kind, mode):
    rows = pairs()[:, :2]
    source = "%l0" if kind.endswith("64") else "%a0"
    got = results_of(f"cvt.{mode}.f32.{kind} %o0, {source};", rows)[:, 0].tolist()
    for (low, high), found in zip(rows.tolist(), got, strict=True):
        whole = low | high << 32 if kind.endswith("64") else low
        number = signed(whole, int(kind[1:])) if kind[0] == "s" else whole
        from_fraction = bits_of(value(0x3F80_0000, "f32") * number, "f32", mode)
        assert found == from_fraction, (kind, mode, number)


@pytest.mark.parametrize("mode", ["rn", "rz"])
@pytest.mark.parametrize("form", ["f16", "bf16"])
def test_float32_to_halves(form, mode):
    rows = pairs()[:, :2]
    body = f"cvt.{mode}.{form}.f32 %h8, %a0;\ncvt.u32.u16 %o0, %h8;\ncvt.{mode}.{form}x2.f32 %o1, %a0, %a1;"
    for (a, b), found in zip(rows.tolist(), results_of(body, rows).tolist(), strict=True):
        wanted = [bits_of(value(x, "f32"), form, mode, negative_zero=bool(x >> 31)) for x in (a, b)]
        for got, expected in zip((found[0], found[1] >> 16, found[1] & 0xFFFF), (wanted[0], *wanted), strict=True):
            assert got == expected or (expected is NAN and is_nan(got, form)), (form, mode, hex(a), hex(b))


@pytest.mark.parametrize("form", ["f16", "bf16"])
def test_halves_to_float32(form):
    every = np.arange(0x1_0000, dtype=np.uint32)[::17]
    rows = np.resize(every, (4096, 1)).astype(np.uint32)
    got = results_of(f"cvt.f32.{form} %o0, %h0;", rows)[:, 0].tolist()
    for (bits,), found in zip(rows.tolist(), got, strict=True):
        exact = value(bits, form)
        wanted = bits_of(exact, "f32", negative_zero=bool(bits >> 15))
        assert found == wanted or (exact is NAN and is_nan(found, "f32")), hex(bits)


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
def test_whole_floats(mode):
    rows = pairs()[::32, :1]
    got = results_of(f"cvt.{mode}.f32.f32 %o0, %a0;", rows)[:, 0].tolist()
    for (bits,), found in zip(rows.tolist(), got, strict=True):
        x = as_float(bits)
        if math.isfinite(x):
            assert as_float(found) == nearest(x, mode)
        else:
            assert as_float(found) == x or (math.isnan(x) and is_nan(found, "f32"))


def test_float64():
    rows = np.array([[0x5555_5555, 0x3FD5_5555], [1, 0], [0, 0x7FF8_0000], [0xE000_0001, 0x47EF_FFFF]] * 8, np.uint32)
    body = "cvt.rn.f32.f64 %o0, %l0;\ncvt.rz.f32.f64 %o1, %l0;\ncvt.f64.f32 %l2, %o1;\nmov.b64 {%o2, %o3}, %l2;"
    for (low, high), found in zip(rows.tolist(), results_of(body, rows).tolist(), strict=True):
        exact = value(high << 32 | low, "f64")
        if exact is NAN:
            assert is_nan(found[0], "f32")
            continue
        assert found[:2] == [bits_of(exact, "f32"), bits_of(exact, "f32", "rz")]
        assert value(found[3] << 32 | found[2], "f64") == value(found[1], "f32")


def code_values(name):
    """Numbers of all codes without a sign, of an 8-bit format."""
    exponents, mantissas, bias = CODES[name]
    values = []
    for code in range(0x7F if name == "e4m3" else 0x7C):
        power, mantissa = code >> mantissas, code & (1 << mantissas) - 1
        whole = mantissa + (1 << mantissas if power else 0)
        values.append(whole * 2.0 ** (max(power, 1) - bias - mantissas))
    assert exponents + mantissas == 7
    return values


def encoded(x, name):
    """The nearest code, even at ties; NaN is 0x7f, and what is too large the largest."""
    values = code_values(name)
    if math.isnan(x):
        return 0x7F
    size = abs(x)
    best = (
        min(range(len(values)), key=lambda code: (abs(values[code] - size), code & 1))
        if size < values[-1]
        else len(values) - 1
    )
    return best | (0x80 if math.copysign(1, x) < 0 else 0)


@pytest.mark.parametrize("name", CODES)
def test_8_bit_codes(name):
    values = code_values(name)
    middles = [(low + high) / 2 for low, high in itertools.pairwise(values)]
    x = np.float32(
        [*values, *middles, *np.nextafter(np.float32(middles), np.float32(np.inf)), 1e9, np.inf, -np.inf, np.nan]
    )
    signs = np.where(np.arange(512) % 2, -1, 1)
    rows = (np.resize(x, 512) * signs).astype(np.float32).reshape(-1, 2).view(np.uint32)[:256]
    body = f"cvt.rn.satfinite.{name}x2.f32 %h8, %a0, %a1;\ncvt.u32.u16 %o0, %h8;\ncvt.rn.f16x2.{name}x2 %o1, %h8;"
    for (a, b), found in zip(rows.tolist(), results_of(body, rows).tolist(), strict=True):
        high, low = encoded(as_float(a), name), encoded(as_float(b), name)
        assert found[0] == high << 8 | low, (as_float(a), as_float(b))
        for code, half in ((low, found[1] & 0xFFFF), (high, found[1] >> 16)):
            number = value(half, "f16")
            if code & 0x7F == 0x7F:
                assert number is NAN
            else:
                assert number == values[code & 0x7F] * (-1 if code >> 7 else 1)


def test_tf32():
    rows = pairs()[::32, :1]
    got = results_of("cvt.rna.tf32.f32 %o0, %a0;", rows)[:, 0].tolist()
    for (bits,), found in zip(rows.tolist(), got, strict=True):
        if is_nan(bits, "f32"):
            assert is_nan(found, "f32")
        else:
            assert found == (bits + 0x1000) & 0xFFFF_E000


def test_codes_of_4_bits_and_scales():
    rows = np.float32([[0.25, -0.75], [6.0, 7.0], [-0.2, 1.25], [2.5, 5.0]] * 8).view(np.uint32)
    body = """cvt.rn.satfinite.e2m1x2.f32 %h8, %a0, %a1;
    cvt.u32.u16 %o0, %h8;
    cvt.rz.ue8m0x2.f32 %h9, %a0, %a1;
    cvt.u32.u16 %o1, %h9;"""
    got = results_of(body, rows, target="sm_100a")
    assert (got[:4, 0] & 0xFF).tolist() == [0x0A, 0x77, 0x82, 0x46]
    assert got[:4, 1].tolist() == [125 << 8 | 126, 129 << 8 | 129, 124 << 8 | 127, 128 << 8 | 129]


def test_what_is_not_there_is_refused():
    for line, target, words in (
        ("cvt.rn.satfinite.e4m3x2.f32 %h8, %a0, %a1;", "sm_80", "sm_80 has no conversion to .e4m3x2"),
        ("cvt.rs.f16x2.f32 %o0, %a0, %a1, %a2;", "sm_100a", "none of .rn, .rz"),
        ("cvt.rn.f32.s32.frob %o0, %a0;", "sm_90", "modifier .frob"),
    ):
        done, _ = execute(line, np.stack([EDGES, EDGES], axis=1), target=target)
        assert (done.outcome.status, words in done.outcome.message) == ("unsupported", True), done.outcome
