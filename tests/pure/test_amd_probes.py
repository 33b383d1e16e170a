"""Probes of AMD instructions: none is forgotten, and each lays out its operands as the instruction reads them."""

import re

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np

from portkit.emulate.amdgcn.architecture import ARCHITECTURES
from portkit.emulate.amdgcn.isa.families import FAMILIES
from portkit.emulate.amdgcn.probes import probes_of
from portkit.emulate.amdgcn.replay import results_of
from portkit.emulate.core.operands import operands_for, without_signs

NO_ARITHMETIC = {"control", "crosslane", "lds", "memory", "transfer", "atomics"}
UNRECORDED = {
    r"v_accvgpr_.*|v_pk_mov_b32|s_movk_i32": "moves",
    r"s_.*_saveexec_.*": "control of lanes",
}
"""Names in families of arithmetic → why nothing of them is recorded."""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_entry_has_a_probe_or_a_reason(architecture):
    generation = ARCHITECTURES[architecture].generation
    tables = [table for family, table in FAMILIES.items() if family not in NO_ARITHMETIC]
    known = {name for table in tables for name, entry in table.items() if generation in entry.generations}
    probed = {probe.mnemonic for probe in probes_of(ARCHITECTURES[architecture])}
    excused = {name for name in known if re.fullmatch("|".join(UNRECORDED), name)}
    assert known - probed == excused
    assert probed <= known


@pytest.mark.parametrize("architecture", ["gfx90a", "gfx950", "gfx1201"])
def test_names_are_unique(architecture):
    names = [probe.name for probe in probes_of(ARCHITECTURES[architecture])]
    assert len(names) == len(set(names))


def test_families_without_arithmetic_exist():
    assert set(FAMILIES) >= NO_ARITHMETIC


def recorded(architecture, name, rows=64):
    """Operands of a probe, and what the emulator makes of them."""
    device = ARCHITECTURES[architecture]
    probe = next(each for each in probes_of(device) if each.name == name)
    operands = operands_for(probe.sources)[-rows:]
    return operands, results_of(probe, operands, device)


# -- scalars


def signed(words):
    return words.view(np.int32).astype(np.int64)


@pytest.mark.parametrize(
    ("architecture", "name", "wanted"),
    [
        ("gfx90a", "s_cmp_lt_i32", lambda x: signed(x[:, 0]) < signed(x[:, 1])),
        ("gfx1201", "s_cmp_nge_f32", lambda x: ~(x[:, 0].view("f4") >= x[:, 1].view("f4"))),
        ("gfx942", "s_cmpk_gt_i32.0xffff", lambda x: signed(x[:, 0]) > -1),
        ("gfx1100", "s_cmpk_gt_u32.0xffff", lambda x: x[:, 0] > 0xFFFF),
        ("gfx1100", "s_bitcmp1_b64", lambda x: x[:, :2].copy().view("u8")[:, 0] >> (x[:, 2] & 63).astype("u8") & 1),
    ],
)
def test_scalar_comparisons_leave_scc(architecture, name, wanted):
    operands, results = recorded(architecture, name, 1024)
    assert results[:, 0].tolist() == wanted(operands).astype(int).tolist()
    assert len(set(results[:, 0].tolist())) == 2


@pytest.mark.parametrize(("architecture", "name"), [("gfx90a", "s_addc_u32"), ("gfx1201", "s_add_co_ci_u32")])
def test_scalar_sums_take_a_carry_in(architecture, name):
    operands, results = recorded(architecture, name)
    wide = operands.astype(object)
    total = wide[:, 0] + wide[:, 1] + (wide[:, 0] > wide[:, 2])
    assert results.tolist() == [[each % 2**32, each >> 32] for each in total]


def test_sums_with_an_immediate():
    operands, results = recorded("gfx942", "s_addk_i32.0xffff")
    total = signed(operands[:, 0]) - 1
    assert signed(results[:, 0].copy()).tolist() == [(x + 2**31) % 2**32 - 2**31 for x in total.tolist()]
    assert results[:, 1].tolist() == (total < -(2**31)).astype(int).tolist()


@pytest.mark.parametrize("name", ["s_cselect_b64", "s_cmov_b64"])
def test_selections(name):
    operands, results = recorded("gfx942", name)
    first = operands[:, 0] > operands[:, 2]
    assert results[:, :2].tolist() == np.where(first[:, None], operands[:, :2], operands[:, 2:]).tolist()
    assert results[:, 2].tolist() == first.astype(int).tolist()


# -- vectors


@pytest.mark.parametrize("architecture", ["gfx90a", "gfx1201"])
def test_comparisons_that_write_exec_let_every_lane_run_again(architecture):
    """The mask is recorded of all lanes, and is that of the comparison that writes VCC."""
    (_, results), (_, wanted) = (recorded(architecture, f"v_cmp{x}_lt_i32", 1024) for x in ("x", ""))
    assert np.array_equal(results, wanted)
    assert set(results[:, 0].tolist()) == {0, 1}


def test_bit_functions():
    operands, results = recorded("gfx950", "v_bitop3_b32.0x1d")
    a, b, c = operands.T
    places = [(number >> 2 & 1, number >> 1 & 1, number & 1) for number in range(8) if 0x1D >> number & 1]
    every = [np.bitwise_and.reduce([x if bit else ~x for x, bit in zip((a, b, c), p, strict=True)]) for p in places]
    assert results[:, 0].tolist() == np.bitwise_or.reduce(every).tolist()


@pytest.mark.parametrize("architecture", ["gfx90a", "gfx1100"])
@pytest.mark.parametrize(("name", "shift"), [("v_fma_mixlo_f16.high", 0), ("v_fma_mixhi_f16.high", 16)])
def test_mixed_sums_take_halves_and_keep_one(architecture, name, shift):
    operands, results = recorded(architecture, name, 512)
    a, c = ((operands[:, n] >> 16).astype("u2").view("f2").astype("f8") for n in (0, 2))
    with np.errstate(all="ignore"):
        exact = a * operands[:, 1].view("f4").astype("f8") + c
        wanted = exact.astype("f2")
    got = (results[:, 0] >> shift).astype("u2").view("f2")
    assert np.array_equal(got, wanted, equal_nan=True)
    assert ((results[:, 0] ^ operands[:, 3]) & (0xFFFF0000 >> shift)).max() == 0


def test_sums_of_products_add_to_what_the_last_operand_says():
    operands, results = recorded("gfx90a", "v_dot4c_i32_i8")
    a, b = (operands[:, n].copy().view("i1").reshape(-1, 4).astype(int) for n in (0, 1))
    assert results[:, 0].tolist() == (((a * b).sum(axis=1) + signed(operands[:, 2].copy())) % 2**32).tolist()


def test_dual_form_computes_as_the_single_one():
    """RDNA4 has v_dot2acc as a half of a pair alone."""
    assert np.array_equal(*(recorded(each, "v_dot2acc_f32_f16")[1] for each in ("gfx1100", "gfx1201")))


def test_narrow_conversions_keep_the_rest():
    operands, results = recorded("gfx950", "v_cvt_scalef32_pk_fp4_bf16")
    assert ((results[:, 0] ^ operands[:, 2]) >> 8).max() == 0


FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def test_pairs_of_four_bits_times_a_scale():
    operands, results = recorded("gfx950", "v_cvt_scalef32_pk_bf16_fp4")
    scale = operands[:, 1] >> 23 & 255
    values = FP4[operands[:, 0] & 15] * 2.0 ** (scale.astype(float) - 127)
    usual = (scale > 2) & (scale < 252)
    got = (results[:, 0] << 16).view("f4")
    assert usual.sum() > 10
    assert got[usual].tolist() == values[usual].tolist()


# -- matrices


def floats(words, dtype="f4"):
    return np.ascontiguousarray(words).view(dtype).astype("f8")


def test_product_of_cdna2():
    """One element of A and B a lane, four rows of the result."""
    operands, results = recorded("gfx90a", "v_mfma_f32_16x16x4f32")
    lanes = np.arange(64)
    a, b = (floats(operands[:, n]).reshape(4, 16).T for n in (0, 1))
    rows = 4 * (lanes // 16)[:, None] + np.arange(4)
    wanted = (a @ b.T)[rows, (lanes % 16)[:, None]] + floats(operands[:, 2:])
    np.testing.assert_allclose(floats(results), wanted, rtol=1e-6, atol=1e-4)
    assert np.isfinite(wanted).all()


def test_product_of_two_blocks_lies_over_its_own_addend():
    """36 words of operands: the result takes the addend's place, then moves to the results."""
    operands, results = recorded("gfx942", "v_mfma_f32_32x32x4_2b_f16")
    lanes, registers = np.arange(64)[:, None], np.arange(32)
    a, b = (floats(operands[:, n : n + 2], "f2").reshape(2, 32, 4) for n in (0, 2))
    products = a @ b.swapaxes(1, 2)
    within = registers % 16
    rows = 8 * (within // 4) + 4 * (lanes // 32) + within % 4
    wanted = products[registers // 16, rows, lanes % 32] + floats(operands[:, 4:])
    np.testing.assert_allclose(floats(results), wanted, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("shape", ["16x16x128", "32x32x64"])
def test_scaled_product(shape):
    """Scales of A lie in bytes 1, those of B in bytes 2; one lane holds 32 elements, which share a scale."""
    operands, results = recorded("gfx950", f"v_mfma_scale_f32_{shape}_f8f6f4.fp4.fp4")
    rows, words = (16, 4) if shape == "16x16x128" else (32, 16)
    lanes, registers = np.arange(64)[:, None], np.arange(words)
    sides = []
    for place, shift in ((0, 8), (4, 16)):
        codes = operands[:, place : place + 4, None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15
        exponents = operands[:, -2 if shift == 8 else -1] >> shift & 255
        scale = np.where(exponents == 255, np.nan, 2.0 ** (exponents.astype("f8") - 127))
        values = FP4[codes].reshape(64, 32) * scale[:, None]
        sides.append(values.reshape(64 // rows, rows, 32).swapaxes(0, 1).reshape(rows, -1))
    product = sides[0] @ sides[1].T
    places = 4 * (lanes // 16) + registers if rows == 16 else 8 * (registers // 4) + 4 * (lanes // 32) + registers % 4
    wanted = product[places, lanes % rows] + floats(operands[:, 8 : 8 + words])
    np.testing.assert_allclose(floats(results), wanted, rtol=1e-6, atol=1e-3)


# -- operands


def test_third_operands_have_edges_and_more():
    """Pairs of edges stand in the first rows; what a third operand holds is not only its first edges."""
    words = operands_for(("F32", "F32", "F32"))
    assert len({tuple(row[:2]) for row in words[:484].tolist()}) == 484
    third = set(words[:, 2].tolist())
    assert len(third) > 400
    assert {0, 0x7F80_0000, 0x7FC0_0000, 0x7F7F_FFFF} <= third
    assert len(set(words[484:, 0].tolist())) > 200


@pytest.mark.parametrize("sources", [("F32x1", "F32x1", "F32x4"), ("B16x2", "B16x2", "F32x4"), ("F64x1",) * 3])
def test_elements_of_matrices_are_numbers_of_moderate_size(sources):
    widths = {"F": 4, "B": 2}
    words = operands_for(sources)
    if sources[0] == "F64x1":
        sizes = np.abs(words.view("f8"))
    elif widths[sources[0][0]] == 4:
        sizes = np.abs(words.view("f4"))
    else:
        sizes = np.abs((words[:, :2] << 16).view("f4"))
    assert sizes.min() >= 1 / 16
    assert sizes.max() < 16


def test_small_floats_of_matrices_are_no_nan():
    """Whatever the format: the negative zero is gfx942's NaN, codes from 0x7d on are NaNs of the others."""
    codes = operands_for(("FP8x8", "FP8x8", "F32x4"))[:, :4].copy().view("u1")
    assert set((codes & 0x7F).flat) == set(range(1, 0x50))
    assert set((codes >> 7).flat) == {0, 1}


def test_scales_are_moderate_but_for_edges():
    words = operands_for(("FP4x32", "FP4x32", "F32x4", "E8x4", "E8x4"))
    scales = words[:, 12:].copy().view("u1")
    assert {0, 255} <= set(scales.flat)
    assert ((scales >= 0x77) & (scales < 0x87)).mean() > 0.95


def test_signs_of_six_bits_are_taken_off():
    """Codes lie across the ends of words."""
    words = operands_for(("FP6x32", "F32"))
    bits = np.unpackbits(without_signs(words, ("FP6x32", "F32"))[:, :6].copy().view("u1"), axis=1, bitorder="little")
    before = np.unpackbits(words[:, :6].copy().view("u1"), axis=1, bitorder="little")
    assert bits[:, 5::6].max() == 0
    assert before[:, 5::6].max() == 1
    for place in range(5):
        assert np.array_equal(bits[:, place::6], before[:, place::6])
