"""Conversions of 8-, 6- and 4-bit floats: all codes, rounding, overflow and scales, by formats written out here."""

import bisect
import functools
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from assembly import computed, execute
from formats import BF16, F16, F32
from wide_assembly import passed

# -- formats


@dataclass(frozen=True)
class Code:
    """A small format: bits of exponent and mantissa, bias, and the codes that are no numbers."""

    exponent: int
    mantissa: int
    bias: int
    nans: tuple = ()
    infinities: tuple = ()

    @property
    def width(self):
        return 1 + self.exponent + self.mantissa

    def value(self, bits):
        if bits in self.nans:
            return math.nan
        sign = -1.0 if bits >> (self.width - 1) else 1.0
        if bits in self.infinities:
            return sign * math.inf
        exponent = bits >> self.mantissa & ((1 << self.exponent) - 1)
        fraction = bits & ((1 << self.mantissa) - 1)
        whole = fraction + (1 << self.mantissa if exponent else 0)
        return sign * math.ldexp(whole, max(exponent, 1) - self.bias - self.mantissa)

    @functools.cached_property
    def finite(self):
        """Numbers that are not negative, ascending, with their codes."""
        numbers = [(self.value(bits), bits) for bits in range(1 << (self.width - 1))]
        return [(value, bits) for value, bits in numbers if math.isfinite(value)]

    def nearest(self, x, saturate):
        """The value that a conversion of ``x`` gives."""
        if math.isnan(x):
            return math.nan
        finite = self.finite
        (below, _), (largest, last) = finite[-2:]
        size, limit = abs(x), largest + (largest - below) / 2
        if size > limit or (size == limit and last & 1):
            beyond = math.inf if self.infinities else math.nan if self.nans else largest
            return math.copysign(largest if saturate else beyond, x)
        at = bisect.bisect([value for value, _ in finite], size)
        near = finite[max(0, at - 1) : at + 1]
        best = min(near, key=lambda pair: (abs(Fraction(pair[0]) - Fraction(size)), pair[1] & 1))
        return math.copysign(best[0], x)


OCP = {
    "fp8": Code(4, 3, 7, nans=(0x7F, 0xFF)),
    "bf8": Code(5, 2, 15, nans=(0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF), infinities=(0x7C, 0xFC)),
    "fp6": Code(2, 3, 1),
    "bf6": Code(3, 2, 3),
    "fp4": Code(2, 1, 1),
}
FNUZ = {"fp8": Code(4, 3, 8, nans=(0x80,)), "bf8": Code(5, 2, 16, nans=(0x80,))}
FORMATS = {"gfx942": FNUZ, "gfx950": OCP, "gfx1201": OCP}
WIDE = {"f32": F32, "f16": F16, "bf16": BF16}
HAVE = ("gfx942", "gfx950", "gfx1201")


def lanes_of(architecture):
    return 64 if architecture.startswith("gfx9") else 32


def equal(x, y):
    return (math.isnan(x) and math.isnan(y)) or (x == y and math.copysign(1, x) == math.copysign(1, y))


def every_code(lanes):
    """Words that hold all 256 codes in every byte, lane by lane."""
    base = np.arange(lanes * 8).reshape(lanes, 8) % 256
    return sum((base + 37 * n) % 256 << 8 * n for n in range(4)).astype(np.uint32)


# -- to float32


@pytest.mark.parametrize("architecture", HAVE)
@pytest.mark.parametrize("name", ["fp8", "bf8"], ids=lambda n: f"v_cvt_f32_{n}")
def test_single_codes(architecture, name):
    select = "byte_sel" if architecture == "gfx1201" else "src0_sel"
    form = "_e64" if architecture == "gfx1201" else "_sdwa"
    which = [f"{select}:{n if select == 'byte_sel' else f'BYTE_{n}'}" for n in (1, 2, 3)]
    lines = [f"v_cvt_f32_{name}_e32 v10, v1"]
    lines += [f"v_cvt_f32_{name}{form} v{11 + n}, v1 {which[n]}" for n in range(3)]
    rows = np.repeat(every_code(lanes_of(architecture)).reshape(-1, 1), 8, axis=1)
    for start in range(0, 256, lanes_of(architecture)):
        ran = computed(architecture, "\n".join(lines), rows[start : start + lanes_of(architecture)])
        for row, out in zip(ran.inputs, ran.outputs, strict=True):
            for n in range(4):
                want = FORMATS[architecture][name].value(int(row[0]) >> 8 * n & 255)
                assert equal(F32.value(int(out[n])), want)


@pytest.mark.parametrize("architecture", HAVE)
@pytest.mark.parametrize("name", ["fp8", "bf8"], ids=lambda n: f"v_cvt_pk_f32_{n}")
def test_pairs_of_codes(architecture, name):
    high = f"v_cvt_pk_f32_{name}_sdwa v[12:13], v1 src0_sel:WORD_1"
    if architecture == "gfx1201":
        high = f"v_cvt_pk_f32_{name}_e64 v[12:13], v1 op_sel:[1,0]"
    rows = every_code(lanes_of(architecture))
    ran = computed(architecture, f"v_cvt_pk_f32_{name}_e32 v[10:11], v1\n{high}", rows)
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        for n in range(4):
            assert equal(F32.value(int(out[n])), FORMATS[architecture][name].value(int(row[0]) >> 8 * n & 255))


def test_pair_of_a_named_half():
    ran = computed("gfx1201", "v_cvt_pk_f32_fp8_e32 v[12:13], v1.h", every_code(32))
    for row, out in zip(ran.inputs, ran.outputs, strict=True):
        assert equal(F32.value(int(out[3])), OCP["fp8"].value(int(row[0]) >> 24))


# -- from float32

MODE = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1\n"


def points(code, lanes, seed=0):
    """Float32 values around every rounding edge of a format, and beyond it: ``[rows of lanes, 8]``."""
    known = sorted({abs(code.value(c)) for c in range(1 << code.width) if math.isfinite(code.value(c))})
    middle = [(a + b) / 2 for a, b in itertools.pairwise(known)]
    top = known[-1] + (known[-1] - known[-2]) / 2
    edges = np.array([*middle, top, 1e30, *known], np.float32)
    around = np.concatenate([edges, np.nextafter(edges, np.float32(0)), np.nextafter(edges, np.float32(3e38))])
    special = np.array([np.inf, np.nan, 1e-45, 0, 3e38], np.float32)
    both = np.concatenate([around, -around, special, -special])
    count = -(-both.size // (8 * lanes)) * 8 * lanes
    rng = np.random.default_rng(seed)
    padded = np.concatenate([both, rng.choice(both, count - both.size)]).astype(np.float32)
    return rng.permutation(padded).reshape(-1, lanes, 8)


@pytest.mark.parametrize("architecture", HAVE)
@pytest.mark.parametrize("name", ["fp8", "bf8"], ids=lambda n: f"v_cvt_pk_{n}_f32")
@pytest.mark.parametrize("saturate", [False, True])
def test_from_float32(architecture, name, saturate):
    code = FORMATS[architecture][name]
    body = (
        f"{MODE if saturate else ''}v_mov_b32_e32 v12, v3\nv_cvt_pk_{name}_f32 v12, v1, -v2\n"
        f"v_mov_b32_e32 v13, v3\nv_cvt_pk_{name}_f32 v13, |v1|, v2 op_sel:[0,0,1]"
    )
    for rows in points(code, lanes_of(architecture)):
        ran = computed(architecture, body, rows.view(np.uint32))
        for row, raw, out in zip(rows, ran.inputs, ran.outputs, strict=True):
            a, b = float(row[0]), float(row[1])
            check_code(code, int(out[2]) & 255, a, saturate)
            check_code(code, int(out[2]) >> 8 & 255, -b, saturate)
            check_code(code, int(out[3]) >> 16 & 255, abs(a), saturate)
            check_code(code, int(out[3]) >> 24, b, saturate)
            assert int(out[2]) >> 16 == int(raw[2]) >> 16
            assert int(out[3]) & 0xFFFF == int(raw[2]) & 0xFFFF


def check_code(code, bits, x, saturate):
    want = code.nearest(x, saturate)
    got = code.value(bits)
    if code.nans == (0x80,) and want == 0:
        assert bits == 0  # there is no negative zero
    else:
        assert equal(got, want) or (math.isnan(got) and math.isnan(want)), (x, hex(bits), want)


def test_named_half_of_the_result():
    ran = computed("gfx1201", "v_mov_b32_e32 v12, v3\nv_cvt_pk_fp8_f32 v12.h, 1.0, 2.0")
    assert np.array_equal(ran.outputs[:, 2], ran.inputs[:, 2] & 0xFFFF | 0x4038_0000)


# -- with a scale (gfx950)

SCALES = np.array([0x3F800000, 0x40000000, 0x3F000000, 0x41FFFFFF, 0xC0000000, 0x3D800000], np.uint32)
"""1, 2, 1/2, almost 32 and -2, of which only the exponent counts, and 1/16."""


def scale_value(bits):
    exponent = int(bits) >> 23 & 255
    return math.nan if exponent == 255 else math.ldexp(1.0, exponent - 127)


def with_scales(rows):
    rows = rows.copy()
    rows[:, 3] = np.resize(SCALES, len(rows))
    return rows


@pytest.mark.parametrize(
    ("wide", "name"), [pytest.param(w, n, id=f"v_cvt_scalef32_pk_{w}_{n}") for w in WIDE for n in ("fp8", "bf8", "fp4")]
)
def test_scaled_pair_of_codes(wide, name):
    code, kind = OCP[name], WIDE[wide]
    places = [(0, ""), (1, "op_sel:[1,0,0]")]
    if name == "fp4":
        places += [(2, "op_sel:[0,1,0]"), (3, "op_sel:[1,1,0]")]
    for place, modifiers in places:
        target = "v[12:13]" if wide == "f32" else "v12"
        ran = computed(
            "gfx950", f"v_cvt_scalef32_pk_{wide}_{name} {target}, v1, v4 {modifiers}", with_scales(every_code(64))
        )
        for row, out in zip(ran.inputs, ran.outputs, strict=True):
            for n in (0, 1):
                bits = int(row[0]) >> (2 * place + n) * code.width & ((1 << code.width) - 1)
                got = int(out[2 + n]) if wide == "f32" else int(out[2]) >> 16 * n & 0xFFFF
                want = code.value(bits) * scale_value(row[3])
                assert kind.same(got, kind.bits(want))


@pytest.mark.parametrize("name", ["fp8", "bf8", "fp4"], ids=lambda n: f"v_cvt_scalef32_pk_{n}_f32")
@pytest.mark.parametrize("saturate", [False, True])
def test_scaled_from_float32(name, saturate):
    code = OCP[name]
    last = 4 if name == "fp4" else 2
    for place in range(last):
        flags = f"{place & 1},{place >> 1}" if name == "fp4" else f"0,{place}"
        body = (
            f"{MODE if saturate else ''}v_mov_b32_e32 v12, v3\n"
            f"v_cvt_scalef32_pk_{name}_f32 v12, v1, v2, v4 op_sel:[0,0,{flags}]"
        )
        width = 2 * code.width
        for rows in points(code, 64, place)[:2]:
            raw = with_scales(rows.view(np.uint32))
            ran = computed("gfx950", body, raw)
            for row, out in zip(raw, ran.outputs, strict=True):
                part = int(out[2]) >> width * place & ((1 << width) - 1)
                check_scaled(code, part, [F32.value(int(x)) for x in row[:2]], row[3], saturate)
                kept = 0xFFFF_FFFF & ~(((1 << width) - 1) << width * place)
                assert int(out[2]) & kept == int(row[2]) & kept


def check_scaled(code, part, values, scale, saturate):
    for n, x in enumerate(values):
        bits = part >> n * code.width & ((1 << code.width) - 1)
        if math.isnan(x) and not code.nans:
            assert abs(code.value(bits)) == max(code.value(c) for c in range(1 << (code.width - 1)))
        else:
            check_code(code, bits, x / scale_value(scale), saturate)


@pytest.mark.parametrize(
    ("wide", "name"),
    [pytest.param(w, n, id=f"v_cvt_scalef32_pk_{n}_{w}") for w in ("f16", "bf16") for n in ("fp8", "bf8", "fp4")],
)
def test_scaled_from_sixteen_bits(wide, name):
    code, kind = OCP[name], WIDE[wide]
    rng = np.random.default_rng(6)
    rows = with_scales(rng.integers(0, 2**32, (64, 8), dtype=np.uint64).astype(np.uint32))
    flags = "op_sel:[0,0,1,1]" if name == "fp4" else "op_sel:[0,0,1]"
    ran = computed("gfx950", f"v_mov_b32_e32 v12, v3\nv_cvt_scalef32_pk_{name}_{wide} v12, v1, v4 {flags}", rows)
    for row, out in zip(rows, ran.outputs, strict=True):
        part = int(out[2]) >> (24 if name == "fp4" else 16)
        values = [kind.value(int(row[0]) >> 16 * n & 0xFFFF) for n in (0, 1)]
        check_scaled(code, part, values, row[3], saturate=False)


def test_scale_that_is_nan():
    ran = computed("gfx950", "v_mov_b32_e32 v4, 0x7f800000\nv_cvt_scalef32_pk_f32_fp8 v[12:13], v1, v4")
    assert np.isnan(ran.outputs[:, 2:].view(np.float32)).all()


@pytest.mark.parametrize(
    ("wide", "name"), [pytest.param(w, n, id=f"v_cvt_scalef32_pk32_{w}_{n}") for w in WIDE for n in ("fp6", "bf6")]
)
def test_many_codes(wide, name):
    code, kind = OCP[name], WIDE[wide]
    words = np.random.default_rng(3).integers(0, 2**32, (64, 6), dtype=np.uint64).astype(np.uint32)
    inputs = np.concatenate([words, np.resize(SCALES, 64)[:, None]], axis=1)
    count = 32 if wide == "f32" else 16
    body = f"v_cvt_scalef32_pk32_{wide}_{name} v[48:{47 + count}], v[32:37], v38"
    got = passed("gfx950", body, inputs, (48, count))
    for row, out in zip(inputs, got, strict=True):
        whole = sum(int(word) << 32 * n for n, word in enumerate(row[:6]))
        for n in range(32):
            bits = int(out[n]) if wide == "f32" else int(out[n // 2]) >> 16 * (n % 2) & 0xFFFF
            assert kind.same(bits, kind.bits(code.value(whole >> 6 * n & 63) * scale_value(row[6])))


@pytest.mark.parametrize(
    ("wide", "name"),
    [pytest.param(w, n, id=f"v_cvt_scalef32_pk32_{n}_{w}") for w in ("f16", "bf16") for n in ("fp6", "bf6")],
)
def test_many_values(wide, name):
    code, kind = OCP[name], WIDE[wide]
    rng = np.random.default_rng(5)
    values = (rng.standard_normal((64, 32)) * 8).astype(np.float32)
    values[0, :4] = [0, -0.0, 1e4, -1e4]
    bits = np.array([[kind.bits(float(x)) for x in row] for row in values], np.uint32)
    inputs = np.concatenate([bits[:, 0::2] | bits[:, 1::2] << 16, np.resize(SCALES, 64)[:, None]], axis=1)
    got = passed("gfx950", f"v_cvt_scalef32_pk32_{name}_{wide} v[56:61], v[32:47], v48", inputs, (56, 6))
    for row, out, scale in zip(bits, got, inputs[:, 16], strict=True):
        whole = sum(int(word) << 32 * n for n, word in enumerate(out))
        for n in range(32):
            want = code.nearest(kind.value(int(row[n])) / scale_value(scale), saturate=True)
            assert equal(code.value(whole >> 6 * n & 63), want)


@pytest.mark.parametrize(
    ("architecture", "line", "cause"),
    [
        ("gfx1100", "v_cvt_pk_fp8_f32 v12, v1, v2", "gfx1100 has no"),
        ("gfx90a", "v_cvt_f32_fp8_e32 v12, v1", "gfx90a has no"),
        ("gfx942", "v_cvt_scalef32_pk_f32_fp8 v[12:13], v1, v4", "gfx942 has no"),
        ("gfx942", "v_cvt_f32_fp8_sdwa v12, v1 src0_sel:WORD_1", "selection WORD_1"),
        ("gfx1201", "v_cvt_f32_fp8_e64 v12, v1 op_sel:[1,0]", "modifier op_sel"),
        ("gfx942", "v_cvt_sr_fp8_f32 v12, v1, v2", "not known"),
    ],
)
def test_refused(architecture, line, cause):
    ran = execute(architecture, line)
    assert ran.emulation.outcome.status == "unsupported"
    assert cause in ran.emulation.outcome.message
