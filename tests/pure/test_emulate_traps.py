"""What bites an interpreter of AMD code: one test a trap."""

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import math

import numpy as np
from assembly import computed, edge_rows, execute, kernel

from portkit.emulate import Options, Order, run


def filled(lanes, **columns):
    """Rows of zeros with some registers set: ``v1=…``."""
    rows = np.zeros((lanes, 8), np.uint32)
    for name, value in columns.items():
        rows[:, int(name[1:]) - 1] = value
    return rows


# -- entry and initial state


def with_second_entry(text):
    """The kernel with preloaded arguments: firmware without preloading runs the head, the rest enters behind it."""
    head = "\ts_load_dwordx4 s[4:7], s[0:1], 0x0\n\ts_waitcnt lgkmcnt(0)\n\ts_branch .Lbody\n\t.p2align\t8\n.Lbody:\n"
    body = text.replace("\ts_load_dwordx4 s[4:7], s[0:1], 0x0\n\ts_waitcnt vmcnt(0) lgkmcnt(0)\n", head, 1)
    preload = "\t\t.amdhsa_user_sgpr_kernarg_preload_length 4\n\t\t.amdhsa_user_sgpr_kernarg_preload_offset 0\n"
    return body.replace("\t\t.amdhsa_user_sgpr_count 2\n", "\t\t.amdhsa_user_sgpr_count 8\n" + preload)


def test_preloaded_arguments_and_the_second_entry():
    """Arguments come in s2 to s5, and the head that would load them to s4 to s7 is not run."""
    text = with_second_entry(kernel("gfx942", "\tv_mov_b32_e32 v12, s2\n\tv_mov_b32_e32 v13, s3"))
    text = (
        text.replace("s[4:5]", "s[2:3]")
        .replace("s[6:7]", "s[4:5]")
        .replace("s_load_dwordx4 s[4:7]", "s_load_dwordx4 s[2:5]")
    )
    text = text.replace("s_branch .Lbody", "s_trap 2")
    inputs, outputs = edge_rows(64), np.zeros((64, 4), np.uint32)
    done = run(text, "gfx942", (1,), [inputs, outputs])
    assert done.outcome.status == "passed", done.outcome
    assert np.array_equal(outputs[:, 0], inputs[:, 6])
    assert len(set(outputs[:, 2])) == 1


IDS = {
    "gfx942": ("s2", "s3", "s4"),
    "gfx1100": ("s2", "s3", "s4"),
}


def ids_kernel(architecture, body):
    flags = "".join(f"\t\t.amdhsa_system_sgpr_workgroup_id_{axis} 1\n" for axis in "xyz")
    keep = "\ts_mov_b32 s20, s2\n\ts_mov_b32 s21, s3\n\ts_mov_b32 s22, s4\n"
    text = kernel(architecture, body, directives=flags)
    return text.replace("k:\n", "k:\n" + keep, 1)


ROW = "\ts_mul_i32 s23, s22, 6\n\ts_mul_i32 s24, s21, 2\n\ts_add_i32 s23, s23, s24\n\ts_add_i32 s23, s23, s20\n"
STORE = """\tv_mov_b32_e32 v21, s23
\tv_lshlrev_b32_e32 v21, 4, v21
\tv_mov_b32_e32 v10, s20
\tv_mov_b32_e32 v11, s21
\tv_mov_b32_e32 v12, s22
\tv_mov_b32_e32 v13, 1
"""


@pytest.mark.parametrize("architecture", ["gfx942", "gfx1100", "gfx1201"])
def test_workgroup_ids(architecture):
    """In scalar registers behind the user's; on gfx12 in ttmp9 and the halves of ttmp7."""
    body, wide = ROW + STORE, "x4" if architecture == "gfx942" else ""
    store = "global_store_dwordx4" if wide else "global_store_b128"
    body += f"\t{store} v21, v[10:13], s[6:7]\n\ts_endpgm"
    if architecture == "gfx1201":
        moves = "\ts_mov_b32 s20, ttmp9\n\ts_and_b32 s21, ttmp7, 0xffff\n\ts_lshr_b32 s22, ttmp7, 16\n"
        body = (moves + body).replace("s_add_i32", "s_add_co_i32")
        text = kernel(architecture, body)
    else:
        text = ids_kernel(architecture, body)
    lanes = 64 if wide else 32
    inputs, outputs = edge_rows(lanes), np.zeros((12, 4), np.uint32)
    done = run(text, architecture, (2, 3, 2), [inputs, outputs])
    assert done.outcome.status == "passed", done.outcome
    assert outputs.tolist() == [[x, y, z, 1] for z in range(2) for y in range(3) for x in range(2)]


def test_wave_number_of_gfx12():
    """Bits 25 to 29 of ttmp8."""
    body = "s_bfe_u32 s8, ttmp8, 0x50019\nv_mov_b32 v10, s8\nv_mov_b32 v11, v0"
    ran = computed("gfx1201", body, waves=4)
    assert ran.outputs[:, 0].tolist() == [lane // 32 for lane in range(128)]
    assert ran.outputs[:, 1].tolist() == list(range(128))


# -- constants and halves

CONSTANTS = [
    ("v_add_f32 v10, 1, v1", 0x0000_0001),  # an integer is bits, also of a float operand
    ("v_add_f32 v10, 1.0, v1", 0x3F80_0000),
    ("v_or_b32 v10, 1.0, v1", 0x3F80_0000),  # a float is bits of a float32, also of an integer operand
    ("v_or_b32 v10, -16, v1", 0xFFFF_FFF0),
    ("v_or_b32 v10, 0.15915494, v1", 0x3E22_F983),
    ("v_or_b32 v10, 0xdeadbeef, v1", 0xDEAD_BEEF),
]


@pytest.mark.parametrize(("line", "expected"), CONSTANTS)
def test_inline_constants_by_operand_type(line, expected):
    assert int(computed("gfx942", line, filled(64)).outputs[0, 0]) == expected


WIDE_CONSTANTS = [
    ("v_add_f64 v[10:11], 1.0, v[1:2]", np.array(1.0).view(np.uint64)),
    ("v_add_f64 v[10:11], 0x3ff80000, v[1:2]", np.array(1.5).view(np.uint64)),  # the upper half
    ("v_lshlrev_b64 v[10:11], 1, -1", 0xFFFF_FFFF_FFFF_FFFE),
]


@pytest.mark.parametrize(("line", "expected"), WIDE_CONSTANTS)
def test_inline_constants_of_64_bits(line, expected):
    low, high = computed("gfx942", line, filled(64)).outputs[0, :2]
    assert int(low) | int(high) << 32 == int(expected)


def test_constants_of_packed_floats():
    """Both halves of zero are zero however a constant is widened; of others only the low half is known."""
    zero = computed("gfx942", "v_pk_add_f32 v[10:11], v[1:2], 0 neg_lo:[1,1] neg_hi:[1,1]", filled(64, v2=0x3F80_0000))
    assert zero.outputs[0, :2].tolist() == [0x8000_0000, 0xBF80_0000]
    other = execute("gfx942", "v_pk_add_f32 v[10:11], v[1:2], 1.0").emulation.outcome
    assert (other.status, "high half of a constant" in other.message) == ("unsupported", True)


@pytest.mark.parametrize(("architecture", "kept"), [("gfx942", 0), ("gfx1100", 0xABCD_0000)])
def test_upper_half_of_a_16_bit_result(architecture, kept):
    """CDNA clears it, RDNA leaves it."""
    lanes = 64 if architecture == "gfx942" else 32
    ran = computed(architecture, "v_cvt_f16_f32 v10, v1", filled(lanes, v1=0x3F80_0000, v7=0xABCD_1234))
    assert set(ran.outputs[:, 0].tolist()) == {kept | 0x3C00}


def test_named_halves():
    ran = computed("gfx1201", "v_cvt_f16_f32 v10.h, v1", filled(32, v1=0x3F80_0000, v7=0xABCD_1234))
    assert set(ran.outputs[:, 0].tolist()) == {0x3C00_1234}
    ran = computed("gfx1201", "v_cvt_f32_f16 v10, v1.h", filled(32, v1=0x4000_3C00))
    assert set(ran.outputs[:, 0].tolist()) == {0x4000_0000}


def test_sums_with_carry_of_permuted_lanes():
    """DPP moves the first source within rows of 16, and lanes without one add 0; the carry is that of the moved sum."""
    line = "v_add_co_u32_e64_dpp v10, vcc_lo, v1, v2 row_shr:8 row_mask:0xf bank_mask:0xf bound_ctrl:1"
    ran = computed("gfx1201", f"{line}\nv_cndmask_b32_e64 v11, 0, 1, vcc_lo")
    moved = [int(ran.inputs[lane - 8, 0]) if lane % 16 >= 8 else 0 for lane in range(32)]
    sums = [a + int(b) for a, b in zip(moved, ran.inputs[:, 1], strict=True)]
    assert ran.outputs[:, 0].tolist() == [total % 2**32 for total in sums]
    assert ran.outputs[:, 1].tolist() == [total >> 32 for total in sums]
    partly = execute("gfx1201", line.replace("bank_mask:0xf", "bank_mask:0xe")).emulation.outcome
    assert (partly.status, "carries of lanes" in partly.message) == ("unsupported", True)


# -- dual issue


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("v_dual_mov_b32 v10, v11 :: v_dual_mov_b32 v11, v10", lambda a, b: (b, a)),
        ("v_dual_mov_b32 v10, v11 :: v_dual_add_nc_u32 v11, v10, v10", lambda a, b: (b, 2 * a % 2**32)),
        (
            "v_dual_add_nc_u32 v10, v10, v11 :: v_dual_lshlrev_b32 v11, 1, v10",
            lambda a, b: ((a + b) % 2**32, 2 * a % 2**32),
        ),
    ],
)
def test_dual_issue_reads_before_it_writes(line, expected):
    # A dual move has no second form of v_add_nc_u32 with itself twice in hardware terms; the semantics are the point.
    ran = computed("gfx1100", line)
    for row, out in zip(ran.inputs.tolist(), ran.outputs.tolist(), strict=True):
        assert tuple(out[:2]) == expected(row[6], row[7])


def test_dual_issue_is_refused_elsewhere():
    assert (
        execute("gfx942", "v_dual_mov_b32 v10, v1 :: v_dual_mov_b32 v11, v2").emulation.outcome.status == "unsupported"
    )


# -- division


@pytest.mark.parametrize("architecture", ["gfx942", "gfx1201"])
def test_division_is_exact_over_all_exponents(architecture):
    """The sequence that LLVM emits, on random bits: exponents of all sizes, denormals, infinities, NaN."""
    name, lanes = ("vcc", 64) if architecture == "gfx942" else ("vcc_lo", 32)
    other = "s[8:9]" if lanes == 64 else "s8"
    body = f"""v_div_scale_f32 v21, {other}, v2, v2, v1
    v_div_scale_f32 v22, {name}, v1, v2, v1
    v_rcp_f32 v23, v21
    v_fma_f32 v24, -v21, v23, 1.0
    v_fmac_f32 v23, v24, v23
    v_mul_f32 v24, v22, v23
    v_fma_f32 v25, -v21, v24, v22
    v_fmac_f32 v24, v25, v23
    v_fma_f32 v22, -v21, v24, v22
    v_div_fmas_f32 v22, v22, v23, v24
    v_div_fixup_f32 v10, v22, v2, v1"""
    for seed in range(256 * 64 // lanes // 16):
        ran = computed(architecture, body, edge_rows(lanes * 16, seed), waves=16)
        with np.errstate(all="ignore"):
            values = ran.inputs[:, :2].view(np.float32)
            quotient = values[:, 0] / values[:, 1]
        assert np.array_equal(ran.outputs[:, 0].view(np.float32), quotient, equal_nan=True)
        same = ~np.isnan(quotient)
        assert np.array_equal(ran.outputs[same, 0], quotient.view(np.uint32)[same])  # signs of zeros too


# -- denormals


def test_denormal_mode_of_the_directives():
    rows = filled(64, v1=0x0040_0000, v2=0x3F80_0000)
    kept = computed("gfx942", "v_mul_f32 v10, v1, v2", rows)
    assert set(kept.outputs[:, 0].tolist()) == {0x0040_0000}
    flushing = "\t\t.amdhsa_float_denorm_mode_32 0\n"
    flushed = computed(
        "gfx942",
        "v_mul_f32 v10, v1, v2\nv_mul_f32 v11, v3, v4",
        filled(64, v1=0x0040_0000, v2=0x3F80_0000, v3=0x0080_0000, v4=0x3F00_0000),
        directives=flushing,
    )
    assert set(flushed.outputs[:, 0].tolist()) == {0}
    assert set(flushed.outputs[:, 1].tolist()) == {0}  # the result is denormal
    moved = computed("gfx942", "v_mov_b32 v10, v1", rows, directives=flushing)
    assert set(moved.outputs[:, 0].tolist()) == {0x0040_0000}


@pytest.mark.parametrize(
    "directive",
    ["float_round_mode_32 1", "float_round_mode_16_64 3", "float_denorm_mode_32 1", "float_denorm_mode_16_64 0"],
)
def test_other_modes_are_refused(directive):
    outcome = execute("gfx942", "v_nop", directives=f"\t\t.amdhsa_{directive}\n").emulation.outcome
    assert outcome.status == "unsupported"
    assert directive in outcome.message


# -- control

LOOP = """s_mov_b32 s8, 0
    v_mov_b32 v10, 0
    .Lagain:
    v_add_u32 v10, v10, v1
    s_add_u32 s8, s8, 1
    s_cmp_lt_u32 s8, 5
    s_cbranch_scc1 .Lagain"""


def test_loops():
    ran = computed("gfx942", LOOP)
    assert ran.outputs[:, 0].tolist() == [5 * int(x) % 2**32 for x in ran.inputs[:, 0]]


def test_waves_part_and_meet():
    """Waves with an odd number double; all meet at a barrier and read what the wave before wrote."""
    body = """v_lshrrev_b32 v21, 6, v0
    v_readfirstlane_b32 s8, v21
    s_bitcmp1_b32 s8, 0
    s_cbranch_scc0 .Leven
    v_add_u32 v1, v1, v1
    .Leven:
    v_lshlrev_b32 v20, 2, v0
    ds_write_b32 v20, v1
    s_waitcnt lgkmcnt(0)
    s_barrier
    v_xor_b32 v20, 0x100, v20
    ds_read_b32 v10, v20"""
    expected = None
    for order in Order:
        ran = computed("gfx942", body, waves=4, shared=1024, options=Options(order=order, seed=3))
        doubled = ran.inputs[:, 0] * np.where(np.arange(256) // 64 % 2, 2, 1).astype(np.uint32)
        expected = doubled.reshape(4, 64)[[1, 0, 3, 2]].reshape(-1)
        assert np.array_equal(ran.outputs[:, 0], expected), order


SPLIT = """v_lshlrev_b32 v20, 2, v0
    ds_store_b32 v20, v1
    s_wait_dscnt 0x0
    s_barrier_signal -1
    v_mov_b32 v12, 7
    s_barrier_wait -1
    v_xor_b32 v20, 0x80, v20
    ds_load_b32 v10, v20"""


def test_split_barriers():
    ran = computed("gfx1201", SPLIT, waves=4, shared=512, options=Options(order=Order.FORWARD))
    assert np.array_equal(ran.outputs[:, 0], ran.inputs[:, 0].reshape(4, 32)[[1, 0, 3, 2]].reshape(-1))


def test_a_barrier_that_was_not_signalled():
    ran = execute("gfx1201", SPLIT.replace("s_barrier_signal -1", "s_nop 0"), waves=4, shared=512)
    assert [finding.kind for finding in ran.emulation.findings] == ["deadlock"]


def test_a_barrier_that_half_of_the_waves_skip_without_ending():
    body = """v_lshrrev_b32 v21, 6, v0
    v_readfirstlane_b32 s8, v21
    s_cmp_eq_u32 s8, 0
    s_cbranch_scc1 .Lspin
    s_barrier
    .Lspin:
    s_cmp_eq_u32 s8, 0
    s_cbranch_scc1 .Lspin"""
    ran = execute("gfx942", body, waves=2, options=Options(budget=1_000_000))
    assert "1000000 lane-instructions" in ran.emulation.outcome.message


def test_a_wave_that_has_ended_is_not_waited_for():
    body = """v_lshrrev_b32 v21, 6, v0
    v_readfirstlane_b32 s8, v21
    s_cmp_eq_u32 s8, 0
    s_cbranch_scc0 .Lon
    s_endpgm
    .Lon:
    s_barrier"""
    assert computed("gfx942", body, waves=2).outputs[64:, 0].tolist() != [0] * 64


LOCK = """v_mov_b32 v20, 0
    v_mov_b32 v21, 1
    v_mov_b32 v22, 0
    s_mov_b64 exec, 1
    .Ltry:
    global_atomic_cmpswap v23, v20, v[21:22], s[4:5] sc0
    s_waitcnt vmcnt(0)
    v_cmp_ne_u32 vcc, 0, v23
    s_cbranch_vccnz .Ltry
    global_load_dword v24, v20, s[4:5] offset:4
    s_waitcnt vmcnt(0)
    v_add_u32 v24, v24, v21
    global_store_dword v20, v24, s[4:5] offset:4
    s_waitcnt vmcnt(0)
    global_store_dword v20, v20, s[4:5]
    s_mov_b64 exec, -1"""


@pytest.mark.parametrize("order", Order)
def test_waves_that_spin_on_a_lock_let_its_holder_on(order):
    inputs = np.zeros((64 * 8, 8), np.uint32)
    ran = computed("gfx942", LOCK, inputs, waves=8, options=Options(order=order, budget=50_000_000))
    assert ran.inputs[0, :2].tolist() == [0, 8]


def test_arguments_of_the_runtime():
    """tl.num_programs reads the grid from hidden arguments."""
    hidden = "".join(
        f"      - .offset:         {offset}\n        .size:           {size}\n        .value_kind:     hidden_{name}\n"
        for offset, size, name in ((16, 4, "block_count_x"), (20, 4, "block_count_y"), (28, 2, "group_size_x"))
    )
    text = kernel(
        "gfx942",
        "\ts_load_dwordx4 s[8:11], s[0:1], 0x10\n\ts_waitcnt lgkmcnt(0)\n\tv_mov_b32_e32 v10, s8\n"
        "\tv_mov_b32_e32 v11, s9\n\tv_mov_b32_e32 v12, s11",
    )
    text = text.replace("    .group_segment_fixed_size", hidden + "    .group_segment_fixed_size").replace(
        "segment_size: 16", "segment_size: 32"
    )
    inputs, outputs = edge_rows(64), np.zeros((64, 4), np.uint32)
    assert run(text, "gfx942", (3, 2), [inputs, outputs]).outcome.status == "passed"
    assert outputs[0, :3].tolist() == [3, 2, 64]


# -- arithmetic that float64 alone would get wrong


def test_fused_multiply_add_rounds_once():
    """1 + 2^-24 + 2^-60: float64 drops the last term, and the tie that is left goes the other way."""
    a, c = np.float32(2.0**-30), np.float32(1.0 + 2.0**-23)
    rows = filled(
        64, v1=np.float32(2.0**-24 + 2.0**-47).view(np.uint32), v2=np.float32(1.0).view(np.uint32), v3=c.view(np.uint32)
    )
    result = computed("gfx942", "v_fma_f32 v10, v1, v2, v3", rows).outputs[0, 0]
    assert result == np.float32(1.0 + 2.0**-22).view(np.uint32)
    tie = filled(64, v1=a.view(np.uint32), v2=a.view(np.uint32), v3=np.float32(1.0).view(np.uint32))
    assert computed("gfx942", "v_fma_f32 v10, v1, v2, v3", tie).outputs[0, 0] == 0x3F80_0000
    assert math.isclose(float(a) ** 2, 2.0**-60)


def test_dual_issue_of_a_dot_product():
    one_and_two = 0x4000_3C00  # float16 2.0 above 1.0
    rows = filled(32, v1=one_and_two, v2=one_and_two, v7=np.float32(0.5).view(np.uint32), v8=3)
    ran = computed("gfx1100", "v_dual_dot2acc_f32_f16 v10, v1, v2 :: v_dual_lshlrev_b32 v11, 2, v8", rows)
    assert ran.outputs[0, :1].view(np.float32)[0] == 5.5
    assert ran.outputs[0, 1] == 12
