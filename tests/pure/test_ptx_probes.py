"""Instructions as they are recorded on a device: all of them; products of whole numbers, laid out by the document."""

import numpy as np
import pytest

from portkit.emulate.core.operands import operands_for
from portkit.emulate.core.vectors import kind_of
from portkit.emulate.ptx.architecture import ARCHITECTURES
from portkit.emulate.ptx.isa.families import FAMILIES
from portkit.emulate.ptx.matrix.formats import FORMATS
from portkit.emulate.ptx.matrix_probes import lanes_of, products_of, rows_of
from portkit.emulate.ptx.probes import probes_of
from portkit.emulate.ptx.replay import results_of

HOPPER = ARCHITECTURES["sm_90"]
PRODUCTS = {probe.name: probe for each in ("sm_90", "sm_120") for probe in products_of(ARCHITECTURES[each])}
RESULTS = {"f32": np.float32, "f16": np.float16, "s32": np.int32, "f64": np.float64}
SMALL = (0, 1, 2, 3)


ARITHMETIC = {
    *("integer", "logic, moves and selection", "floating point", "halves and pairs", "comparison", "conversion"),
    *("warp matrices", "warpgroup matrices"),
}
UNRECORDED = {
    "mov": "moves",
    **dict.fromkeys(("ldmatrix", "stmatrix", "movmatrix"), "moves between lanes and memory"),
}
"""Names in families of arithmetic → why nothing of them is recorded."""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_arithmetic_entry_has_a_probe_or_a_reason(architecture):
    device = ARCHITECTURES[architecture]
    probed = {probe.mnemonic.split(".")[0] for probe in probes_of(device)} | {"wgmma"}  # sm_90's alone
    known = {
        name.split(".")[0]
        for family in ARITHMETIC
        for name, entries in FAMILIES[family].items()
        if any(entry.since <= device.number for entry in entries)
    }
    assert known - probed == {each for each in UNRECORDED if each in known}
    assert probed - {"wgmma"} <= known


def codes_of(kind):
    """Codes of the numbers 0, 1, 2 and 3."""
    if kind == "f64":
        return np.array(SMALL, np.float64).view(np.uint64)
    if kind == "tf32":
        return np.array(SMALL, np.float32).view(np.uint32)
    form = FORMATS[kind]
    every = np.arange(1 << min(form.bits, 16)).astype(f"u{form.bits // 8}")
    with np.errstate(invalid="ignore"):
        values = np.asarray(form.values(every)).astype(np.float64)
    return np.array([every[np.argmax(values == each)] for each in SMALL])


def words(codes):
    """Codes ``[lanes, elements]`` side by side."""
    return np.ascontiguousarray(codes).view(np.uint32)


def places_of_left(rows, depth, per, lanes):
    """Row and place in the depth of each element that a lane holds, ``[lanes, elements]``."""
    lane = np.arange(lanes)[:, None]
    element = np.arange(rows * depth // lanes)[None, :]
    register, part = element // per, element % per
    halves = 1 if rows == 8 else 2
    row = lane // 32 * 16 + lane % 32 // 4 + 8 * (register % halves)
    return row, 4 * per * (register // halves) + lane % 4 * per + part


def places_of_result(rows, columns, lanes):
    lane = np.arange(lanes)[:, None]
    element = np.arange(rows * columns // lanes)[None, :]
    return lane // 32 * 16 + lane % 32 // 4 + 8 * (element // 2), lane % 4 * 2 + element % 2


def places_of_shared(depth, bits):
    """Of B as wgmma reads it: eight rows of 16 bytes, and behind them the second half of each."""
    at = np.arange(depth * 8).reshape(64, -1) * bits // 8
    return at % 128 // 16, (at // 128 * 16 + at % 16) * 8 // bits


def parts_of(name):
    """Shape and types: result, A and B."""
    parts = name.split(".")
    shape = next(part for part in parts if part.startswith("m") and part[1].isdigit())
    kinds = [part for part in parts[parts.index(shape) + 1 :] if part in RESULTS or part in FORMATS]
    return [int(part) for part in shape.translate(str.maketrans("mnk", "   ")).split()], kinds[:3]


@pytest.mark.parametrize("name", [name for name in PRODUCTS if "block_scale" not in name])
def test_products_of_whole_numbers(name):
    probe, lanes = PRODUCTS[name], lanes_of(PRODUCTS[name])
    (rows, columns, depth), (result, left, right) = parts_of(name)
    rng = np.random.default_rng(0)
    a, b, c = (
        rng.integers(0, 4, (rows, depth)),
        rng.integers(0, 4, (columns, depth)),
        rng.integers(0, 9, (rows, columns)),
    )
    per = max(1, 32 // kind_of(probe.sources[0]).bits)
    of_result = places_of_result(rows, columns, lanes)
    if lanes == 128:
        held = codes_of(right)[b[places_of_shared(depth, 32 // per)]]
        held = np.concatenate([words(held), np.full((64, 1), 0xFFFF_FFFF, np.uint32)])  # that nothing stores
    else:
        held = words(codes_of(right)[b[places_of_left(columns, depth, per, lanes)]])
    given = [words(codes_of(left)[a[places_of_left(rows, depth, per, lanes)]]), held]
    given.append(words(c[of_result].astype(RESULTS[result])))
    found = results_of(probe, np.concatenate(given, axis=1), HOPPER).view(RESULTS[result])
    assert np.array_equal(found, (a @ b.T + c)[of_result].astype(RESULTS[result]))


def test_scales_of_a_product():
    """All elements 1: the depth by blocks of 32, times the scales that its lanes' bytes hold."""
    name = "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0"
    lane = np.arange(32, dtype=np.uint32)
    ones = np.full((32, 6), 0x3838_3838, np.uint32)
    of_rows = (120 + lane) << 16  # byte 2
    of_columns = 100 + lane  # byte 0
    row = np.concatenate([ones, np.zeros((32, 4), np.uint32), of_rows[:, None], of_columns[:, None]], axis=1)
    found = results_of(PRODUCTS[name], row, ARCHITECTURES["sm_120"]).view(np.float32)
    at, column = places_of_result(16, 8, 32)
    rows_lane = 4 * (at % 8) + 2 + at // 8  # the second pair of each four lanes: rows g and g + 8
    exponents = (120 + rows_lane - 127) + (100 + 4 * column + 3 - 127)  # the last lane of the column's four
    assert np.array_equal(found, np.ldexp(np.float32(32), exponents))


def test_products_that_are_recorded():
    """What Triton emits for each generation, and only on sm_90 wgmma."""
    found = {each: [probe.name for probe in probes_of(ARCHITECTURES[each])] for each in ARCHITECTURES}
    for architecture, names in found.items():
        assert len(set(names)) == len(names)
        assert any(name.startswith("wgmma") for name in names) == (architecture == "sm_90")
        assert not any(name.startswith("tcgen05") for name in names)
    counts = {each: sum("mma" in name for name in names) for each, names in found.items()}
    assert [counts[each] for each in ("sm_75", "sm_80", "sm_89", "sm_90", "sm_120")] == [4, 17, 33, 52, 41]
    assert "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32" in found["sm_89"]
    assert "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32" not in found["sm_80"]


def test_operands_fill_whole_products():
    for probe in PRODUCTS.values():
        rows = rows_of(probe)
        assert rows % lanes_of(probe) == 0
        first = operands_for(probe.sources, rows)
        assert first.shape == (rows, sum(kind_of(each).words for each in probe.sources))
        assert not np.array_equal(first, operands_for(probe.sources, rows, seed=1))
        assert np.array_equal(first, operands_for(probe.sources, rows))
