"""Formats of 4, 6 and 8 bits, against exact rational arithmetic over all their codes."""

from fractions import Fraction

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np

from portkit.emulate.core.smallfloats import (
    E2M1,
    E2M3,
    E3M2,
    E4M3,
    E4M3_FNUZ,
    E5M2,
    E5M2_FNUZ,
    pack,
    scale_of,
    unpack,
)

FORMATS = {
    "E4M3": (E4M3, 448, {0x7F: "nan", 0xFF: "nan"}),
    "E5M2": (E5M2, 57344, {0x7C: "inf", 0xFC: "-inf", 0x7D: "nan", 0x7F: "nan", 0xFE: "nan"}),
    "E4M3_FNUZ": (E4M3_FNUZ, 240, {0x80: "nan"}),
    "E5M2_FNUZ": (E5M2_FNUZ, 57344, {0x80: "nan"}),
    "E2M3": (E2M3, 7.5, {}),
    "E3M2": (E3M2, 28, {}),
    "E2M1": (E2M1, 6, {}),
}


def nearest(small, x):
    """Code of the nearest number, ties to the even code; by exact comparison with every number of that sign."""
    numbers = [(code, Fraction(float(v))) for code, v in enumerate(small.table[: 1 << (small.bits - 1)]) if v < 1e9]
    return min(numbers, key=lambda pair: (abs(pair[1] - abs(x)), pair[0] & 1))[0]


@pytest.mark.parametrize("name", FORMATS)
def test_table(name):
    small, largest, specials = FORMATS[name]
    assert small.largest == largest
    for code, value in specials.items():
        assert str(small.table[code]) in {value, "nan"} if value == "nan" else str(small.table[code]) == value
    odd = [code for code, value in enumerate(small.table) if not np.isfinite(value)]
    assert set(specials) <= set(odd)
    assert len(odd) == {"E4M3": 2, "E5M2": 8, "E4M3_FNUZ": 1, "E5M2_FNUZ": 1}.get(name, 0)


@pytest.mark.parametrize(
    ("small", "code", "value"),
    [
        (E4M3, 0x01, 2.0**-9),
        (E4M3, 0x08, 2.0**-6),
        (E4M3, 0x38, 1.0),
        (E4M3, 0xB9, -1.125),
        (E5M2, 0x01, 2.0**-16),
        (E5M2, 0x3D, 1.25),
        (E4M3_FNUZ, 0x01, 2.0**-10),
        (E4M3_FNUZ, 0x40, 1.0),
        (E5M2_FNUZ, 0x01, 2.0**-17),
        (E2M1, 0x1, 0.5),
        (E2M1, 0xF, -6.0),
        (E2M3, 0x01, 0.125),
        (E3M2, 0x01, 0.0625),
    ],
)
def test_published_values(small, code, value):
    assert small.table[code] == value


@pytest.mark.parametrize("name", FORMATS)
def test_every_number_is_its_own_code(name):
    small = FORMATS[name][0]
    codes = np.arange(1 << small.bits, dtype=np.uint32)[np.isfinite(small.table)]
    values = small.table[codes]
    back = small.encode(values, saturate=False)
    assert np.array_equal(small.decode(back), values)
    assert np.array_equal(np.signbit(small.decode(back)), np.signbit(values))


@pytest.mark.parametrize("name", FORMATS)
def test_rounds_to_nearest_even(name):
    small = FORMATS[name][0]
    known = small.magnitudes
    middle = (known[1:] + known[:-1]) / 2
    points = np.concatenate([middle, np.nextafter(middle, 0), np.nextafter(middle, 1e9), known * 1.01, known * 0.99])
    points = points[points <= small.largest]
    got = small.encode(points, saturate=False)
    assert got.tolist() == [nearest(small, Fraction(float(x))) for x in points]
    negative = small.encode(-points, saturate=False)
    assert np.array_equal(small.decode(negative), -small.decode(got))


@pytest.mark.parametrize("name", FORMATS)
def test_beyond_the_largest(name):
    small = FORMATS[name][0]
    top = small.magnitudes[-1]
    half = top + (top - small.magnitudes[-2]) / 2
    far = np.array([half * 1.001, 1e9, np.inf, -1e9, -np.inf])
    held = small.decode(small.encode(far, saturate=True))
    assert held.tolist() == [top, top, top, -top, -top]
    free = small.decode(small.encode(far, saturate=False))
    if name == "E5M2":
        assert free.tolist() == [np.inf, np.inf, np.inf, -np.inf, -np.inf]
    elif small.specials.name == "NONE":
        assert free.tolist() == held.tolist()
    else:
        assert np.isnan(free).all()
    below = small.decode(small.encode(np.array([np.nextafter(half, 0)]), saturate=False))
    assert below[0] == top


@pytest.mark.parametrize("small", [E4M3, E5M2, E4M3_FNUZ, E5M2_FNUZ])
def test_nan(small):
    assert np.isnan(small.decode(small.encode(np.array([np.nan, -np.nan]), saturate=True))).all()


def test_saturation_by_element():
    got = E4M3.decode(E4M3.encode(np.array([1e6, 1e6]), saturate=np.array([True, False])))
    assert got[0] == 448
    assert np.isnan(got[1])


def test_scale():
    assert scale_of(np.array([0, 126, 127, 128, 254])).tolist() == [2.0**-127, 0.5, 1, 2, 2.0**127]
    assert np.isnan(scale_of(np.array(255)))


@pytest.mark.parametrize("bits", [4, 6, 8])
def test_packing(bits):
    words = np.random.default_rng(bits).integers(0, 2**32, (5, 2, 6), dtype=np.uint64).astype(np.uint32)
    codes = unpack(words, bits)
    whole = [sum(int(word) << 32 * n for n, word in enumerate(row)) for row in words.reshape(-1, 6)]
    expected = [[number >> bits * n & ((1 << bits) - 1) for n in range(192 // bits)] for number in whole]
    assert codes.reshape(len(whole), -1).tolist() == expected
    assert np.array_equal(pack(codes, bits), words)
