"""Every pair of types that PTX's cvt has, in every mode, on any bits: against whole numbers and fractions."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from ptx_probe import FORMATS, bits_of, results_of, sign, signed, value

INTEGERS = [kind + width for kind in "us" for width in ("8", "16", "32", "64")]
WIDTHS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
REGISTERS = {8: ("%h0", "%h8"), 16: ("%h0", "%h8"), 32: ("%a0", "%r8"), 64: ("%l0", "%l3")}
WHOLE = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}
NOT_A_NUMBER = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFF_FFFF}
BESIDE = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0x80_0001, 1 << 24, 0x7FFF_FFFF, 1 << 31, 1 << 53, 1 << 62, 1 << 63]
EDGES = [(each + by) % (1 << 64) for each in BESIDE for by in (-1, 0, 1)]
WORDS = [*EDGES, *np.random.default_rng(12).integers(0, 1 << 64, 192 - len(EDGES), np.uint64).tolist()]
"""64 bits each, of which narrower types take the low ones; as many as fill whole warps."""


def converted(name, source, result):
    """Bits of the results, as wide as the type."""
    target = REGISTERS[result][1]
    after = {
        8: f"cvt.u32.u16 %o0, {target};\nand.b32 %o0, %o0, 255;",
        16: f"cvt.u32.u16 %o0, {target};",
        32: f"mov.b32 %o0, {target};",
        64: f"mov.b64 {{%o0, %o1}}, {target};",
    }[result]
    rows = np.array([[word & 0xFFFF_FFFF, word >> 32] for word in WORDS], np.uint32)
    got = results_of(f"{name} {target}, {REGISTERS[source][0]};\n{after}", rows, target="sm_90")
    return [low | high << 32 for low, high in got[:, :2].tolist()]


def number(word, kind):
    word &= (1 << int(kind[1:])) - 1
    return signed(word, int(kind[1:])) if kind[0] == "s" else word


def limits(kind):
    width = int(kind[1:])
    return (-(1 << width - 1), (1 << width - 1) - 1) if kind[0] == "s" else (0, (1 << width) - 1)


def held(x, low, high):
    return min(max(x, low), high)


@pytest.mark.parametrize(("result", "source"), list(itertools.product(INTEGERS, INTEGERS)))
def test_integers_to_integers(result, source):
    width = int(result[1:])
    for saturates in ("", ".sat"):
        got = converted(f"cvt{saturates}.{result}.{source}", int(source[1:]), width)
        numbers = [number(word, source) for word in WORDS]
        whole = [held(each, *limits(result)) if saturates else each for each in numbers]
        assert got == [each % (1 << width) for each in whole]


@pytest.mark.parametrize(("result", "source"), list(itertools.product(WIDTHS, INTEGERS)))
def test_integers_to_floats(result, source):
    for mode, saturates in itertools.product(("rn", "rz", "rm", "rp"), ("", ".sat")):
        got = converted(f"cvt.{mode}{saturates}.{result}.{source}", int(source[1:]), WIDTHS[result])
        numbers = [Fraction(number(word, source)) for word in WORDS]
        assert got == [bits_of(held(each, 0, 1) if saturates else each, result, mode) for each in numbers]


@pytest.mark.parametrize(("result", "source"), list(itertools.product(INTEGERS, WIDTHS)))
def test_floats_to_integers(result, source):
    width = int(result[1:])
    nothing = 1 << (width - 1) if source == "f64" or width == 64 else 0
    for mode, rounded in WHOLE.items():
        got = converted(f"cvt.{mode}.{result}.{source}", WIDTHS[source], width)
        for word, found in zip(WORDS, got, strict=True):
            x = value(word & (1 << WIDTHS[source]) - 1, source)
            whole = x if x is None or isinstance(x, float) else rounded(x)
            assert found == (nothing if x is None else int(held(whole, *limits(result))) % (1 << width))


def flushed(bits):
    return bits & 0x8000_0000 if bits & 0x7F80_0000 == 0 else bits


def expected(word, source, result, mode, extra):
    """Bits of a float, first rounded to a whole number where the mode says so, held, and rounded."""
    word = flushed(word) if "ftz" in extra and source == "f32" else word
    x, negative = value(word, source), sign(word, WIDTHS[source])
    if x is None:
        return 0 if "sat" in extra else NOT_A_NUMBER.get(result)
    if mode in WHOLE and not isinstance(x, float):
        x = Fraction(WHOLE[mode](x))
    if "sat" in extra or ("relu" in extra and x <= 0):
        x, negative = (held(x, 0, 1) if "sat" in extra else 0), False
    bits = bits_of(
        x if isinstance(x, float) and math.isinf(x) else Fraction(x), result, "rn" if mode in WHOLE else mode
    )
    if bits == 0 and negative:
        bits = 1 << (WIDTHS[result] - 1)
    return flushed(bits) if "ftz" in extra and result == "f32" else bits


@pytest.mark.parametrize(("result", "source"), list(itertools.product(WIDTHS, WIDTHS)))
def test_floats_to_floats(result, source):
    """NaN that a plain move, or a wider type, keeps is left out."""
    modes = list(WHOLE) + (["rn", "rz", "rm", "rp"] if FORMATS[result][0] < FORMATS[source][0] else [])
    for mode, extra in itertools.product(modes, ("", ".sat", ".ftz", ".ftz.sat", ".relu")):
        name = f"cvt.{mode}{extra}.{result}.{source}"
        got = converted(name, WIDTHS[source], WIDTHS[result])
        for word, found in zip(WORDS, got, strict=True):
            wanted = expected(word & (1 << WIDTHS[source]) - 1, source, result, mode, extra)
            kept = wanted is None or (source == "f64" and wanted == NOT_A_NUMBER.get(result))
            assert found == wanted or kept, (name, hex(word), hex(found))


@pytest.mark.parametrize("finite", [True, False])
def test_scales_of_what_is_too_large_or_too_small(finite):
    """Powers of two from 2^-127 to 2^127; beyond, the largest one, or NaN."""
    words = [0x7F80_0000, 0xFF80_0000, 0x7F7F_FFFF, 0x7F00_0000, 0x7FC0_0000, 0, 1, 0x0040_0001]
    rows = np.array([[word, word] for word in words] * 4, np.uint32)
    extra = ".satfinite" if finite else ""
    body = "".join(
        f"cvt.{mode}{extra}.ue8m0x2.f32 %h8, %a0, %a1;\ncvt.u32.u16 %o{n}, %h8;\n"
        for n, mode in enumerate(("rz", "rp"))
    )
    got = results_of(body, rows, target="sm_100a")[: len(words), :2] & 0xFF
    over = 254 if finite else 255
    assert got[:, 0].tolist() == [over, over, 254, 254, 255, 0, 0, 0]
    assert got[:, 1].tolist() == [over, over, over, 254, 255, 0, 0, 1]
