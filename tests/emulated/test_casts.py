"""Casts between 8-bit floats and wider ones: every finite code, and every rounding edge."""

import numpy as np
import pytest
import triton
import triton.language as tl
from compiled import build, from_bf16, to_bf16

from portkit.emulate.core.smallfloats import E4M3, E4M3_FNUZ, E5M2, E5M2_FNUZ

FORMATS = {"fp8e4nv": E4M3, "fp8e5": E5M2, "fp8e4b8": E4M3_FNUZ, "fp8e5b16": E5M2_FNUZ}
PAIRS = [
    *(
        (architecture, kind)
        for architecture in ("gfx942", "gfx950", "gfx1100", "gfx1201")
        for kind in ("fp8e4nv", "fp8e5")
    ),
    ("gfx942", "fp8e4b8"),
    ("gfx942", "fp8e5b16"),
]
COUNT = 1008


@triton.jit
def cast(x_ptr, y_ptr, n, B: tl.constexpr):
    place = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + place, mask=place < n, other=0.0)
    tl.store(y_ptr + place, x.to(y_ptr.dtype.element_ty), mask=place < n)


@triton.jit
def quantize(x_ptr, y_ptr, scale_ptr, n, B: tl.constexpr, LARGEST: tl.constexpr):
    row, place = tl.program_id(0), tl.arange(0, B)
    x = tl.load(x_ptr + row * n + place, mask=place < n, other=0.0).to(tl.float32)
    largest = tl.max(tl.abs(x), 0)
    scale = tl.where(largest > 0, largest / LARGEST, 1.0)
    tl.store(y_ptr + row * n + place, (x / scale).to(y_ptr.dtype.element_ty), mask=place < n)
    tl.store(scale_ptr + row, scale)


def empty(kind, *shape):
    return np.zeros(shape, {"fp32": np.float32, "fp16": np.float16, "bf16": np.uint16}.get(kind, np.uint8))


def numbers(kind, raw):
    """Float64 of what a buffer holds."""
    if kind in FORMATS:
        return FORMATS[kind].decode(raw).astype(np.float64)
    return from_bf16(raw) if kind == "bf16" else raw.astype(np.float64)


def as_kind(kind, x):
    return to_bf16(x) if kind == "bf16" else x.astype({"fp32": np.float32, "fp16": np.float16}[kind])


def run_cast(architecture, source, target, raw):
    built = build(cast, architecture, {"x_ptr": f"*{source}", "y_ptr": f"*{target}", "n": "i32"}, {"B": 1024})
    result = empty(target, COUNT)
    built.passes((1,), raw, result, COUNT)
    return numbers(target, result)


@pytest.mark.parametrize("wide", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize(("architecture", "small"), PAIRS)
def test_widening(architecture, small, wide):
    table = FORMATS[small].table.astype(np.float64)
    codes = np.resize(np.flatnonzero(np.isfinite(table)), COUNT).astype(np.uint8)
    assert np.array_equal(run_cast(architecture, small, wide, codes), table[codes])


@pytest.mark.parametrize("wide", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize(("architecture", "small"), PAIRS)
def test_narrowing(architecture, small, wide):
    form = FORMATS[small]
    middle = ((form.magnitudes[1:] + form.magnitudes[:-1]) / 2).astype(np.float32)
    points = [form.magnitudes, middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(1e9))]
    x = np.concatenate([*points, *(-p for p in points)])
    raw = as_kind(wide, np.resize(x[np.abs(x) <= form.largest], COUNT))
    exact = np.clip(numbers(wide, raw), -form.largest, form.largest)
    want = form.decode(form.encode(exact, saturate=True))
    assert np.array_equal(run_cast(architecture, wide, small, raw), want)


@pytest.mark.parametrize(("architecture", "small"), PAIRS)
@pytest.mark.parametrize("columns", [512, 500])
def test_quantization(architecture, small, columns):
    form, rows = FORMATS[small], 3
    x = to_bf16(np.random.default_rng(1).standard_normal((rows, columns)) * 5)
    signature = {"x_ptr": "*bf16", "y_ptr": f"*{small}", "scale_ptr": "*fp32", "n": "i32"}
    built = build(quantize, architecture, signature, {"B": 512, "LARGEST": form.largest}, aligned=columns % 16 == 0)
    codes, scales = empty(small, rows, columns), empty("fp32", rows)
    built.passes((rows,), x, codes, scales, columns)
    exact = from_bf16(x)
    want = np.abs(exact).max(1) / form.largest
    assert np.allclose(scales, want, rtol=1e-6)
    ideal = form.decode(form.encode((exact / scales[:, None].astype(np.float64)).astype(np.float32), saturate=True))
    differing = np.count_nonzero(form.decode(codes) != ideal)
    assert differing <= rows * columns // 100  # a quotient one bit off may round the other way
