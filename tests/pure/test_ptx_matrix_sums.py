"""Sums of tensor cores against exact rational arithmetic, one element at a time."""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from portkit.emulate.ptx.architecture import architecture_of
from portkit.emulate.ptx.matrix import fragments
from portkit.emulate.ptx.matrix.formats import FORMATS, Terms, least_of
from portkit.emulate.ptx.matrix.models import group_model, tensor_model, through_halves, warp_model
from portkit.emulate.ptx.matrix.scales import BlockScales
from portkit.emulate.ptx.matrix.sums import (
    Model,
    Result,
    cut_to_float32,
    multiply,
    multiply_integers,
    multiply_through_halves,
)

HOPPER = architecture_of("sm_90a")
FLOATS = ("f16", "bf16", "tf32", "e4m3", "e5m2")
SMALLEST = {"f16": -14, "bf16": -126, "tf32": -126, "e4m3": -6, "e5m2": -14}


def exponent(x, smallest):
    return max(math.frexp(x)[1] - 1, smallest)


def cut(x, unit):
    """Towards zero to a multiple of a power of two."""
    return Fraction(int(Fraction(x) / unit)) * unit


def one_sum(a, b, c, kind, model, smallest_addend=-126):
    """One element, by the rule that the module's text states."""
    for start in range(0, len(a), model.group):
        pairs = [
            (x, y) for x, y in zip(a[start : start + model.group], b[start : start + model.group], strict=True) if x * y
        ]
        tops = [exponent(x, SMALLEST[kind]) + exponent(y, SMALLEST[kind]) for x, y in pairs]
        tops += [exponent(c, smallest_addend)] if c else []
        if not tops:
            continue
        unit = Fraction(2) ** (max(tops) - model.fraction)
        total = sum((cut(Fraction(x) * Fraction(y), unit) for x, y in pairs), cut(c, unit))
        c = rounded(total, model.result)
    return c


def rounded(total, result):
    if result is Result.F16:
        return float(np.float64(total).astype(np.float16))
    if not total:
        return 0.0
    places = 13 if result is Result.SHORT else 23
    top = max(math.frexp(float(total))[1] - 1, -126)
    return float(cut(total, Fraction(2) ** (top - places)))


def codes(rng, kind, shape, spread):
    """Random codes, whose exponents lie around the middle."""
    bits, mantissa = {"f16": (5, 10), "bf16": (8, 7), "tf32": (8, 23), "e4m3": (4, 3), "e5m2": (5, 2)}[kind]
    bias = (1 << bits - 1) - 1
    field = np.clip(rng.integers(bias - spread, bias + spread + 1, shape), 0, (1 << bits) - 2)
    code = rng.integers(0, 2, shape) << (bits + mantissa) | field << mantissa | rng.integers(0, 1 << mantissa, shape)
    return np.where(rng.integers(0, 9, shape) == 0, 0, code).astype(f"u{FORMATS[kind].bits // 8}")


def assert_sums(kind, model, spread, seed=0, addend_spread=3):
    rng, form = np.random.default_rng(seed), FORMATS[kind]
    a, b = (codes(rng, kind, (32, rows, 2), spread) for rows in (4, 3))
    c = np.ldexp(rng.standard_normal((4, 3, 2)), rng.integers(-addend_spread, addend_spread + 1, (4, 3, 2)))
    c = c.astype(np.float16 if model.result is Result.F16 else np.float32)
    found = multiply(form.terms(a), form.terms(b), c, model)
    x, y = form.values(a).astype(float), form.values(b).astype(float)
    smallest = -14 if model.result is Result.F16 else -126
    for i, j, n in np.ndindex(found.shape):
        assert found[i, j, n] == one_sum(x[:, i, n], y[:, j, n], float(c[i, j, n]), kind, model, smallest)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize(
    "model", [Model(16, 25), Model(8, 24), Model(4, 24), Model(32, 13, Result.SHORT), Model(16, 25, Result.F16)]
)
def test_sums_are_cut_at_the_largest_exponent(kind, model):
    assert_sums(kind, model, 3)


@pytest.mark.parametrize("kind", ["bf16", "tf32"])
def test_wide_exponents_leave_float32_in_between(kind):
    assert_sums(kind, Model(8, 25), 60, addend_spread=100)


@pytest.mark.parametrize("width", [1, 3, 64, 1024])
def test_parts_of_factors_are_multiplied_as_if_alone(width):
    rng, form, model = np.random.default_rng(width), FORMATS["bf16"], Model(8, 24)
    a, b = (codes(rng, "bf16", (16, rows, 2 * width), 3) for rows in (4, 8))
    c = rng.standard_normal((4, 8, 3 * width)).astype(np.float32)
    parts = (0, 1, 1), (1, 1, 0)
    found = multiply(form.terms(a), form.terms(b), c, model, parts)
    for number, (i, j) in enumerate(zip(*parts, strict=True)):
        left, right = (form.terms(x[..., width * y : width * (y + 1)]) for x, y in ((a, i), (b, j)))
        place = slice(width * number, width * (number + 1))
        assert np.array_equal(found[..., place], multiply(left, right, c[..., place], model))


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
@pytest.mark.parametrize(
    "model", [Model(16, 25), Model(32, 25), Model(32, 13, Result.SHORT), Model(32, 25, Result.F16)]
)
@pytest.mark.parametrize(("spread", "scale"), [(3, 1.0), (3, 300.0), (8, 1.0), (3, 2.0**-30), (1, float("nan"))])
def test_sums_that_may_be_cut_nowhere_are_no_others(kind, model, spread, scale):
    rng, form = np.random.default_rng(5), FORMATS[kind]
    a, b = (form.terms(codes(rng, kind, (64, rows, 3), spread)) for rows in (40, 33))
    c = (rng.integers(-9, 10, (40, 33, 3)) * scale).astype(np.float16 if model.result is Result.F16 else np.float32)
    known = multiply(a, b, c, model, least=least_of(form, form))
    assert known.tobytes() == multiply(a, b, c, model).tobytes()


def test_the_least_bit_of_products_is_known_of_small_formats():
    assert least_of(FORMATS["e4m3"], FORMATS["e5m2"]) == -9 - 16
    assert least_of(FORMATS["e2m3 in units"], FORMATS["padded e2m1"]) == -3 - 1
    assert least_of(FORMATS["e4m3"], FORMATS["f16"]) is None


def test_of_sums_that_are_cut_nowhere_only_results_are():
    one, kind = FORMATS["e4m3"].terms(np.full((32, 1, 1), 0x38, np.uint8)), FORMATS["e4m3"]
    least = least_of(kind, kind)
    for addend, expected in ((1.5, 33.5), (2.0**-18, 32 + 2.0**-18), (2.0**-20, 32.0), (2.0**8, 288.0)):
        c = np.full((1, 1, 1), addend, np.float32)
        assert multiply(one, one, c, Model(32, 25), least=least) == expected
    minus = np.full((1, 1, 1), -32.0, np.float32)
    assert multiply(one, one, minus, Model(32, 25), least=least).tobytes() == np.float32(0).tobytes()


def test_subnormal_factors_have_the_smallest_exponent():
    for kind in FLOATS[:1] + FLOATS[3:]:
        assert_sums(kind, Model(16, 25), SMALLEST[kind] * -1 + 3, seed=4)


def test_small_products_vanish_beside_a_large_one():
    kind = FORMATS["e4m3"]
    one, tiny = kind.terms(np.full((32, 1, 1), 0x38, np.uint8)), np.full((32, 1, 1), 0x20, np.uint8)
    tiny[0, 0, 0] = 0x7E
    wide = multiply(one, kind.terms(tiny), np.zeros((1, 1, 1), np.float32), Model(32, 25))
    narrow = multiply(one, kind.terms(tiny), np.zeros((1, 1, 1), np.float32), Model(32, 13, Result.SHORT))
    assert wide[0, 0, 0] == 448 + 31 * 0.125
    assert narrow[0, 0, 0] == 448 + 31 * 0.125
    tiny[1:] = 1  # 2^-9, below 448's last kept bit
    assert multiply(one, kind.terms(tiny), np.zeros((1, 1, 1), np.float32), Model(32, 13, Result.SHORT)) == 448
    assert multiply(one, kind.terms(tiny), np.zeros((1, 1, 1), np.float32), Model(32, 25)) == 448 + 31 / 512


@pytest.mark.parametrize(
    ("a", "b", "c", "expected"),
    [
        (np.inf, 1, 0, np.inf),
        (np.inf, -1, 0, -np.inf),
        (np.inf, 0, 0, np.nan),
        (np.nan, 1, 0, np.nan),
        (1, 1, np.inf, np.inf),
        (np.inf, 1, -np.inf, np.nan),
        (1, 1, np.nan, np.nan),
    ],
)
def test_infinities_and_nans(a, b, c, expected):
    kind = FORMATS["f16"]
    left, right = (np.full((16, 1, 1), value, np.float16).view(np.uint16) for value in (a, b))
    found = multiply(kind.terms(left), kind.terms(right), np.full((1, 1, 1), c, np.float32), Model(16, 25))
    assert np.array_equal(found[0, 0, 0], np.float32(expected), equal_nan=True)
    if np.isnan(expected):
        assert found.view(np.uint32)[0, 0, 0] == 0x7FFF_FFFF


def test_results_are_cut_towards_zero():
    assert cut_to_float32(np.array([1 + 2.0**-24, -1 - 2.0**-24])).tolist() == [1, -1]
    assert cut_to_float32(np.array([1 + 2.0**-13 + 2.0**-14]), 13).tolist() == [1 + 2.0**-13]
    tiny = 2.0**-149
    assert cut_to_float32(np.array([tiny * 1.9, -tiny * 0.9])).tolist() == [tiny, 0]


def whole(*numbers):
    return [Terms(each, np.zeros(each.shape, np.int16)) for each in numbers]


def test_integers_wrap_or_saturate():
    a, b = np.full((32, 1, 1), 127, np.float32), np.full((32, 1, 1), 127, np.float32)
    c = np.array([[[2**31 - 5]]], np.int32)
    assert multiply_integers(*whole(a, b), c, saturate=True)[0, 0, 0] == 2**31 - 1
    assert multiply_integers(*whole(a, b), c)[0, 0, 0] == 2**31 - 5 + 127 * 127 * 32 - 2**32
    assert multiply_integers(*whole(a, -b), -c, saturate=True)[0, 0, 0] == -(2**31)


def test_models_of_the_generations():
    turing, ampere, ada, hopper, consumer = map(architecture_of, ("sm_75", "sm_80", "sm_89", "sm_90a", "sm_120a"))
    half, tf32, eight = FORMATS["f16"], FORMATS["tf32"], FORMATS["e4m3"]
    assert [warp_model(each, half) for each in (turing, ampere, ada)] == [Model(8, 24)] * 3
    assert warp_model(hopper, half) == group_model(half) == tensor_model(half) == Model(16, 25)
    assert warp_model(ampere, tf32) == Model(4, 24)
    assert warp_model(ada, eight) == Model(16, 13, Result.SHORT)
    assert (warp_model(hopper, eight), warp_model(hopper, eight, 16)) == (Model(16, 25), Model(8, 25))
    assert group_model(eight) == Model(32, 13, Result.SHORT)
    assert warp_model(consumer, eight) == tensor_model(eight) == Model(32, 25)


@pytest.mark.parametrize(
    ("vector", "kind", "scale"),
    [
        ("scale_vec::1X", "e4m3", "ue8m0"),
        ("scale_vec::2X", "e2m1", "ue8m0"),
        ("scale_vec::4X", "e2m1", "ue4m3"),
    ],
)
def test_block_scales_multiply_their_runs(vector, kind, scale):
    rng, form = np.random.default_rng(1), FORMATS[kind]
    depth = 64 if kind == "e2m1" else 32
    scales = BlockScales.of(vector, form, depth)
    a, b = (rng.integers(0, 12 if kind == "e2m1" else 64, (1, rows, depth)).astype(np.uint8) for rows in (4, 3))
    low, high = (120, 134) if scale == "ue8m0" else (48, 72)
    p, q = (rng.integers(low, high, (1, rows, scales.count)).astype(np.uint8) for rows in (4, 3))
    value = (lambda code: 2.0 ** (code - 127.0)) if scale == "ue8m0" else FORMATS["e4m3"].values
    x = form.values(a).astype(float) * np.repeat(value(p).astype(float), scales.run, axis=-1)
    y = form.values(b).astype(float) * np.repeat(value(q).astype(float), scales.run, axis=-1)
    c = rng.standard_normal((1, 4, 3)).astype(np.float32)
    found = scales.multiply(form.values(a), form.values(b), p, q, scale, c)
    assert np.allclose(found, x @ y.swapaxes(1, 2) + c, rtol=1e-5, atol=1e-4)
    p[0, 1, 0] = 255
    if scale == "ue8m0":
        found = scales.multiply(form.values(a), form.values(b), p, q, scale, c)
        assert np.isnan(found[0, 1]).all()
        assert np.isfinite(found[0, 0]).all()


RECORDED = Path(__file__).parents[1] / "records" / "nvidia_h200_sums.npz"
"""Operands of matrix products of depth 512 and their results, bit for bit, as wgmma of an H200 gave them."""


@pytest.mark.parametrize("kind", ["f16", "bf16", "tf32", "e4m3"])
def test_sums_are_those_of_an_h200(kind):
    with np.load(RECORDED) as recorded:
        a, b, expected = (recorded[f"{kind}_{name}"] for name in "abd")
    form = FORMATS[kind]
    model = group_model(form)
    total = np.zeros((*expected.shape, 1), np.float32)
    left, right = (form.terms(each.T[:, :, None]) for each in (a, b))
    found = multiply(left, right, total, model)
    assert np.array_equal(found[..., 0].view(np.uint32), expected)
    if kind != "e4m3":  # those of the warp's instruction are the same
        assert warp_model(architecture_of("sm_90a"), form) == model


INSTRUCTIONS = RECORDED.with_name("nvidia_h200_matrix.npz")
"""Words that single matrix instructions of an H200 took and gave: of ``wgmma`` those of the first of four warps.

Of each there are ten rows of operands: of like sizes, of many sizes, a large one among small ones, any bits with NaN
and infinities, a large addend, subnormal ones, positive ones, sums that cancel, and others.
"""


def recorded_instructions():
    with np.load(INSTRUCTIONS) as recorded:
        return sorted({name.rpartition("/")[0] for name in recorded.files})


@pytest.mark.parametrize("instruction", recorded_instructions())
def test_single_instructions_are_those_of_an_h200(instruction):
    with np.load(INSTRUCTIONS) as recorded:
        a, b, c, d = (recorded[f"{instruction}/{name}"] for name in "abcd")
    names = instruction.split(".")
    result, kind = names[5:7] if names[0] == "wgmma" else names[6:8]
    group, form = instruction.startswith("wgmma"), FORMATS[kind]
    left = fragments.rows_of_left(a.reshape(10, 32, -1).transpose(2, 0, 1), form, 16)
    words = b.reshape(10, 32, -1).transpose(2, 0, 1)
    right = group_columns(b, form) if group else fragments.columns_of_right(words, form)
    half = result == "f16"
    tile = fragments.tile_of_halves if half else fragments.tile
    addend, expected = (tile(each.reshape(10, 32, -1).transpose(2, 0, 1), 16) for each in (c, d))
    model = group_model(form) if group else warp_model(HOPPER, form)
    total = multiply_through_halves if not group and through_halves(HOPPER, form) else multiply
    value = addend if half else np.ascontiguousarray(addend).view(np.float32)
    found = total(form.terms(left), form.terms(right), value, model.into_half() if half else model)
    bits = np.uint16 if half else np.uint32
    assert np.array_equal(found.view(bits), np.ascontiguousarray(expected).view(bits))


def group_columns(words, form):
    """B of ``wgmma`` as it lay in shared memory: two parts of 16 bytes of each of eight columns."""
    parts = words.reshape(10, 2, 8, 4)
    codes = np.concatenate([form.codes(parts[:, 0]), form.codes(parts[:, 1])], axis=-1)
    return np.ascontiguousarray(codes.transpose(2, 1, 0))
