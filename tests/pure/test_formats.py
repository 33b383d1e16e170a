"""The reference formats themselves, against NumPy's and Python's own conversions."""

import math
import struct

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from formats import BF16, F16, F32


def test_float16_both_ways():
    for bits in range(0, 1 << 16, 7):
        value = struct.unpack("<e", struct.pack("<H", bits))[0]
        got = F16.value(bits)
        assert got == value or (math.isnan(got) and math.isnan(value))
        assert F16.same(F16.bits(value), bits)


@pytest.mark.parametrize("kind", [F16, BF16, F32])
def test_rounding(kind):
    rng = np.random.default_rng(1)
    for bits in rng.integers(0, 1 << 64, 400, dtype=np.uint64):
        x = float(np.uint64(int(bits) & ~(0x3F << 57) | 0x3F << 56).view(np.float64))
        want = int(np.float16(x).view(np.uint16)) if kind is F16 else int(np.float32(x).view(np.uint32))
        if kind is not BF16:
            assert kind.same(kind.bits(x), want)
        near = kind.value(kind.bits(x))
        if math.isfinite(near):
            assert abs(near - x) <= abs(kind.value(kind.bits(x) + 1) - x) or near == x
            assert abs(kind.value(kind.bits(x, cut=True))) <= abs(x)
