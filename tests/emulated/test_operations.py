"""Kernels around what Triton's operations become: functions, arithmetic of 8, 16 and 64 bits, random numbers."""

import math

import numpy as np
import pytest
import triton
import triton.language as tl
from compiled import build, from_bf16, to_bf16


@triton.jit
def functions(x_ptr, y_ptr, n, B: tl.constexpr):
    place = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + place, mask=place < n, other=0.0)
    y = tl.sin(x) + tl.cos(x) + tl.erf(x) + tl.floor(x) + tl.exp2(x) + tl.log2(tl.abs(x) + 1) + tl.sqrt(tl.abs(x))
    tl.store(y_ptr + place, y, mask=place < n)


@triton.jit
def half_arithmetic(x_ptr, y_ptr, z_ptr, n, B: tl.constexpr):
    place = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + place, mask=place < n, other=0.0)
    y = tl.load(y_ptr + place, mask=place < n, other=0.0)
    z = x * y + x - tl.maximum(x, y) + tl.minimum(x, y) * 2
    tl.store(z_ptr + place, z.to(x.dtype), mask=place < n)


@triton.jit
def byte_arithmetic(x_ptr, y_ptr, z_ptr, n, B: tl.constexpr):
    place = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + place, mask=place < n, other=0)
    y = tl.load(y_ptr + place, mask=place < n, other=1)
    z = x.to(tl.int32) // (y.to(tl.int32) | 1) + x.to(tl.int32) % 7
    tl.store(z_ptr + place, (z.to(tl.int8) ^ (x << 1)) + (y >> 2), mask=place < n)


@triton.jit
def short_arithmetic(x_ptr, y_ptr, z_ptr, n, B: tl.constexpr):
    place = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + place, mask=place < n, other=0)
    y = tl.load(y_ptr + place, mask=place < n, other=0)
    z = tl.where(x > y, x * y, x - y) ^ (x >> 3) | tl.minimum(x, y) & 0x55
    tl.store(z_ptr + place, z.to(tl.int16), mask=place < n)


@triton.jit
def double_arithmetic(x_ptr, y_ptr, n, B: tl.constexpr):
    place = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + place, mask=place < n, other=0.0).to(tl.float64)
    tl.store(y_ptr + place, x * x + 1.0 / (x * x + 0.5), mask=place < n)


@triton.jit
def random_numbers(y_ptr, seed, B: tl.constexpr):
    place = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y_ptr + place, tl.rand(seed, place))


RNG = np.random.default_rng(12)


def test_functions(architecture):
    x = (RNG.standard_normal(1000) * 3).astype(np.float32)
    y = np.zeros_like(x)
    built = build(functions, architecture, {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}, {"B": 1024}, aligned=False)
    built.passes((1,), x, y, 1000)
    wide = x.astype(np.float64)
    erf = np.array([math.erf(v) for v in wide])
    want = np.sin(wide) + np.cos(wide) + erf + np.floor(wide) + np.exp2(wide) + np.log2(np.abs(wide) + 1)
    want += np.sqrt(np.abs(wide))
    assert np.abs(y - want).max() < 2e-5 * np.abs(want).max()


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
def test_half_arithmetic(architecture, kind):
    x, y = RNG.standard_normal((2, 1000))
    x, y = (to_bf16(v) if kind == "bf16" else v.astype(np.float16) for v in (x, y))
    z = np.zeros_like(x)
    signature = {"x_ptr": f"*{kind}", "y_ptr": f"*{kind}", "z_ptr": f"*{kind}", "n": "i32"}
    build(half_arithmetic, architecture, signature, {"B": 1024}, aligned=False).passes((1,), x, y, z, 1000)
    a, b, got = (from_bf16(v) if kind == "bf16" else v.astype(np.float64) for v in (x, y, z))
    want = a * b + a - np.maximum(a, b) + np.minimum(a, b) * 2
    assert np.abs(got - want).max() < 4 * {"fp16": 2**-11, "bf16": 2**-8}[kind] * np.abs(want).max()


def test_byte_arithmetic(architecture):
    x, y = RNG.integers(-128, 128, (2, 1000)).astype(np.int8)
    z = np.zeros_like(x)
    signature = {"x_ptr": "*i8", "y_ptr": "*i8", "z_ptr": "*i8", "n": "i32"}
    build(byte_arithmetic, architecture, signature, {"B": 1024}, aligned=False).passes((1,), x, y, z, 1000)
    a, divisor = x.astype(int), y.astype(int) | 1
    quotient = np.trunc(a / divisor).astype(int) + np.fmod(a, 7)
    want = (quotient.astype(np.int8) ^ (x << 1)) + (y >> 2)
    assert np.array_equal(z, want.astype(np.int8))


def test_short_arithmetic(architecture):
    x, y = RNG.integers(-(2**15), 2**15, (2, 1000)).astype(np.int16)
    z = np.zeros_like(x)
    signature = {"x_ptr": "*i16", "y_ptr": "*i16", "z_ptr": "*i16", "n": "i32"}
    build(short_arithmetic, architecture, signature, {"B": 1024}, aligned=False).passes((1,), x, y, z, 1000)
    assert np.array_equal(z, np.where(x > y, x * y, x - y) ^ (x >> 3) | np.minimum(x, y) & 0x55)


def test_double_arithmetic(architecture):
    x = RNG.standard_normal(500).astype(np.float32)
    y = np.zeros(500)
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp64", "n": "i32"}
    build(double_arithmetic, architecture, signature, {"B": 512}, aligned=False).passes((1,), x, y, 500)
    square = x.astype(np.float64) ** 2
    assert np.allclose(y, square + 1 / (square + 0.5), rtol=1e-14)


def test_random_numbers_are_the_same_everywhere(architecture):
    """Philox is integer arithmetic, so the numbers depend on no architecture."""
    got, known = np.zeros(512, np.float32), np.zeros(512, np.float32)
    for name, into in ((architecture, got), ("gfx942", known)):
        build(random_numbers, name, {"y_ptr": "*fp32", "seed": "i32"}, {"B": 256}).passes((2,), into, 42)
    assert np.array_equal(got, known)
    assert 0 <= got.min() < 0.02
    assert 0.98 < got.max() < 1
    assert abs(got.mean() - 0.5) < 0.05
