"""Entries of the scalar table, on edges, against Python's integers; SCC beside each result."""

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from assembly import computed

WORD, LONG = 0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF
EDGES = (0, 1, 2, 31, 32, 33, 0x7FFF_FFFF, 0x8000_0000, 0x8000_0001, WORD, 0xDEAD_BEEF, 0x0010_0004)
PAIRS = [(a, b) for a in EDGES for b in EDGES]
OLD, NEW, EVERY = ("gfx942",), ("gfx1201",), ("gfx942", "gfx1201")
MIDDLE = ("gfx942", "gfx1100")


def signed(x, bits=32):
    return x - (1 << bits) if x >> (bits - 1) & 1 else x


def sign_run(x):
    """Length of the run of bits at the top that are alike; -1 where all are."""
    text = f"{x:032b}"
    run = len(text) - len(text.lstrip(text[0]))
    return -1 if run == 32 else run


def field(x, packed, extend=False):
    offset, width = packed & 31, packed >> 16 & 127
    part = (signed(x) if extend else x) >> offset
    if width >= 32:
        return part
    part &= (1 << width) - 1
    return signed(part, width) if extend and width else part


def if_not_zero(function):
    def meaning(a, b):
        result = function(a, b) & WORD
        return result, int(result != 0)

    return meaning


def keeps(function):
    return lambda a, b: (function(a, b) & WORD, None)


def adds(function, low, high):
    def meaning(a, b):
        exact = function(a, b)
        return exact & WORD, int(not low <= exact <= high)

    return meaning


BINARY = {
    "s_and_b32": (EVERY, if_not_zero(lambda a, b: a & b)),
    "s_or_b32": (EVERY, if_not_zero(lambda a, b: a | b)),
    "s_xor_b32": (EVERY, if_not_zero(lambda a, b: a ^ b)),
    "s_nand_b32": (EVERY, if_not_zero(lambda a, b: ~(a & b))),
    "s_nor_b32": (EVERY, if_not_zero(lambda a, b: ~(a | b))),
    "s_xnor_b32": (EVERY, if_not_zero(lambda a, b: ~(a ^ b))),
    "s_andn2_b32": (OLD, if_not_zero(lambda a, b: a & ~b)),
    "s_orn2_b32": (OLD, if_not_zero(lambda a, b: a | ~b)),
    "s_and_not1_b32": (NEW, if_not_zero(lambda a, b: a & ~b)),
    "s_or_not1_b32": (NEW, if_not_zero(lambda a, b: a | ~b)),
    "s_lshl_b32": (EVERY, if_not_zero(lambda a, b: a << (b & 31))),
    "s_lshr_b32": (EVERY, if_not_zero(lambda a, b: a >> (b & 31))),
    "s_ashr_i32": (EVERY, if_not_zero(lambda a, b: signed(a) >> (b & 31))),
    "s_bfe_u32": (EVERY, if_not_zero(field)),
    "s_bfe_i32": (EVERY, if_not_zero(lambda a, b: field(a, b, extend=True))),
    "s_mul_i32": (EVERY, keeps(lambda a, b: a * b)),
    "s_mul_hi_u32": (EVERY, keeps(lambda a, b: a * b >> 32)),
    "s_mul_hi_i32": (EVERY, keeps(lambda a, b: signed(a) * signed(b) >> 32)),
    "s_pack_ll_b32_b16": (EVERY, keeps(lambda a, b: a & 0xFFFF | b << 16)),
    "s_pack_lh_b32_b16": (EVERY, keeps(lambda a, b: a & 0xFFFF | b & 0xFFFF_0000)),
    "s_pack_hh_b32_b16": (EVERY, keeps(lambda a, b: a >> 16 | b & 0xFFFF_0000)),
    "s_bfm_b32": (EVERY, keeps(lambda a, b: ((1 << (a & 31)) - 1) << (b & 31))),
    "s_add_u32": (MIDDLE, adds(lambda a, b: a + b, 0, WORD)),
    "s_add_co_u32": (NEW, adds(lambda a, b: a + b, 0, WORD)),
    "s_sub_u32": (MIDDLE, adds(lambda a, b: a - b, 0, WORD)),
    "s_sub_co_u32": (NEW, adds(lambda a, b: a - b, 0, WORD)),
    "s_add_i32": (MIDDLE, adds(lambda a, b: signed(a) + signed(b), -(2**31), 2**31 - 1)),
    "s_add_co_i32": (NEW, adds(lambda a, b: signed(a) + signed(b), -(2**31), 2**31 - 1)),
    "s_sub_i32": (MIDDLE, adds(lambda a, b: signed(a) - signed(b), -(2**31), 2**31 - 1)),
    "s_sub_co_i32": (NEW, adds(lambda a, b: signed(a) - signed(b), -(2**31), 2**31 - 1)),
    "s_lshl1_add_u32": (EVERY, adds(lambda a, b: (a << 1) + b, 0, WORD)),
    "s_lshl2_add_u32": (EVERY, adds(lambda a, b: (a << 2) + b, 0, WORD)),
    "s_lshl3_add_u32": (EVERY, adds(lambda a, b: (a << 3) + b, 0, WORD)),
    "s_lshl4_add_u32": (EVERY, adds(lambda a, b: (a << 4) + b, 0, WORD)),
    "s_min_u32": (EVERY, lambda a, b: (min(a, b), int(a < b))),
    "s_max_u32": (EVERY, lambda a, b: (max(a, b), int(a > b))),
    "s_min_i32": (EVERY, lambda a, b: (min(signed(a), signed(b)) & WORD, int(signed(a) < signed(b)))),
    "s_max_i32": (EVERY, lambda a, b: (max(signed(a), signed(b)) & WORD, int(signed(a) > signed(b)))),
    "s_absdiff_i32": (EVERY, if_not_zero(lambda a, b: abs(signed(a) - signed(b)))),
}
UNARY = {
    "s_mov_b32": (EVERY, keeps(lambda a, b: a)),
    "s_not_b32": (EVERY, if_not_zero(lambda a, b: ~a)),
    "s_brev_b32": (EVERY, keeps(lambda a, b: int(f"{a:032b}"[::-1], 2))),
    "s_sext_i32_i8": (EVERY, keeps(lambda a, b: signed(a & 255, 8))),
    "s_sext_i32_i16": (EVERY, keeps(lambda a, b: signed(a & 0xFFFF, 16))),
    "s_abs_i32": (EVERY, if_not_zero(lambda a, b: abs(signed(a)))),
    "s_bcnt0_i32_b32": (EVERY, if_not_zero(lambda a, b: 32 - a.bit_count())),
    "s_bcnt1_i32_b32": (EVERY, if_not_zero(lambda a, b: a.bit_count())),
    "s_ff1_i32_b32": (OLD, keeps(lambda a, b: (a & -a).bit_length() - 1)),
    "s_ctz_i32_b32": (NEW, keeps(lambda a, b: (a & -a).bit_length() - 1)),
    "s_flbit_i32_b32": (OLD, keeps(lambda a, b: 32 - a.bit_length() if a else -1)),
    "s_flbit_i32": (OLD, keeps(lambda a, b: sign_run(a))),
    "s_cls_i32": (NEW, keeps(lambda a, b: sign_run(a))),
    "s_clz_i32_u32": (NEW, keeps(lambda a, b: 32 - a.bit_length() if a else -1)),
}


def run_pairs(architecture, line, pairs, *, scc=0):
    """Result and SCC of a line that reads s8 and s9 and writes s10, for each pair of operands, in one kernel.

    Each pair has its own lane of the output.
    """
    body = []
    for lane, (a, b) in enumerate(pairs):
        body += [f"s_mov_b32 s8, {a:#x}", f"s_mov_b32 s9, {b:#x}", "s_mov_b32 s10, 0x5a5a", f"s_cmp_eq_u32 1, {scc}"]
        body += [
            line,
            "s_cselect_b32 s11, 1, 0",
            f"v_writelane_b32 v10, s10, {lane}",
            f"v_writelane_b32 v11, s11, {lane}",
        ]
    ran = computed(architecture, "\n".join(body))
    return [(int(x), int(y)) for x, y in ran.outputs[: len(pairs), :2]]


def in_parts(architecture, line, pairs, **more):
    lanes = 64 if architecture.startswith("gfx9") else 32
    parts = [pairs[start : start + lanes] for start in range(0, len(pairs), lanes)]
    return [result for part in parts for result in run_pairs(architecture, line, part, **more)]


@pytest.mark.parametrize("name", [*BINARY, *UNARY])
def test_results_and_scc(name):
    architectures, meaning = (BINARY | UNARY)[name]
    operands = "s8" if name in UNARY else "s8, s9"
    for architecture in architectures:
        results = in_parts(architecture, f"{name} s10, {operands}", PAIRS)
        for (a, b), (result, scc) in zip(PAIRS, results, strict=True):
            expected, flag = meaning(a, b)
            assert (result, scc) == (expected & WORD, flag or 0), (architecture, hex(a), hex(b))


COMPARISONS = {
    "eq": lambda a, b: a == b,
    "lg": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
}


@pytest.mark.parametrize("condition", COMPARISONS)
@pytest.mark.parametrize("kind", ["i32", "u32"])
def test_comparisons(condition, kind):
    convert = signed if kind == "i32" else int
    expected = [int(COMPARISONS[condition](convert(a), convert(b))) for a, b in PAIRS]
    assert [scc for _, scc in in_parts("gfx942", f"s_cmp_{condition}_{kind} s8, s9", PAIRS)] == expected


@pytest.mark.parametrize("scc", [0, 1])
@pytest.mark.parametrize(
    ("name", "architecture", "sign"),
    [("s_addc_u32", "gfx942", 1), ("s_add_co_ci_u32", "gfx1201", 1), ("s_subb_u32", "gfx942", -1),
     ("s_sub_co_ci_u32", "gfx1201", -1)],
)  # fmt: skip
def test_carry_in_and_out(name, architecture, sign, scc):
    for (a, b), (result, flag) in zip(
        PAIRS, in_parts(architecture, f"{name} s10, s8, s9", PAIRS, scc=scc), strict=True
    ):
        exact = a + sign * (b + scc)
        assert (result, flag) == (exact & WORD, int(not 0 <= exact <= WORD))


@pytest.mark.parametrize("scc", [0, 1])
def test_selection(scc):
    pairs = PAIRS[:32]
    expected = [(a if scc else b, scc) for a, b in pairs]
    assert in_parts("gfx942", "s_cselect_b32 s10, s8, s9", pairs, scc=scc) == expected
    expected = [(a if scc else 0x5A5A, scc) for a, b in pairs]
    assert in_parts("gfx942", "s_cmov_b32 s10, s8", pairs, scc=scc) == expected


@pytest.mark.parametrize("immediate", [0, 1, 0x7FFF, 0x8000, 0xFFFF, -3])
def test_immediates_are_sign_extended(immediate):
    value = signed(immediate & 0xFFFF, 16)
    pairs = PAIRS[:40]
    moved = in_parts("gfx942", f"s_movk_i32 s10, {immediate:#x}", pairs)
    assert {result for result, _ in moved} == {value & WORD}
    added = in_parts("gfx942", f"s_mov_b32 s10, s8\n\ts_addk_i32 s10, {immediate:#x}", pairs)
    exact = [signed(a) + value for a, _ in pairs]
    assert added == [(x & WORD, int(not -(2**31) <= x < 2**31)) for x in exact]
    product = in_parts("gfx942", f"s_mov_b32 s10, s8\n\ts_mulk_i32 s10, {immediate:#x}", pairs)
    assert [result for result, _ in product] == [signed(a) * value & WORD for a, _ in pairs]


WIDE = {
    "s_and_b64": (EVERY, lambda a, b: a & b),
    "s_or_b64": (EVERY, lambda a, b: a | b),
    "s_xor_b64": (EVERY, lambda a, b: a ^ b),
    "s_andn2_b64": (OLD, lambda a, b: a & ~b),
    "s_lshl_b64": (EVERY, lambda a, b: a << (b & 63)),
    "s_lshr_b64": (EVERY, lambda a, b: a >> (b & 63)),
    "s_ashr_i64": (EVERY, lambda a, b: signed(a, 64) >> (b & 63)),
    "s_add_nc_u64": (NEW, lambda a, b: a + b),
    "s_sub_nc_u64": (NEW, lambda a, b: a - b),
    "s_mul_u64": (NEW, lambda a, b: a * b),
}
LONGS = (0, 1, 63, LONG, 1 << 63, 0x0123_4567_89AB_CDEF)


@pytest.mark.parametrize("name", WIDE)
def test_64_bits(name):
    architectures, meaning = WIDE[name]
    right = "s10" if "sh" in name else "s[10:11]"
    pairs = [(a, b) for a in LONGS for b in LONGS]
    for architecture in architectures:
        for start in (0, 18):
            part, body = pairs[start : start + 18], []
            for lane, (a, b) in enumerate(part):
                body += [f"s_mov_b32 s{8 + n}, {word:#x}" for n, word in enumerate(_words(a) + _words(b))]
                body += [f"{name} s[12:13], s[8:9], {right}"]
                body += [f"v_writelane_b32 v{10 + n}, s{12 + n}, {lane}" for n in (0, 1)]
            ran = computed(architecture, "\n".join(body))
            results = [int(low) | int(high) << 32 for low, high in ran.outputs[: len(part), :2]]
            assert results == [meaning(a, b) & LONG for a, b in part]


def _words(x):
    return [x & WORD, x >> 32]


@pytest.mark.parametrize("bit", [0, 4, 31, 32, 36])
def test_bits_by_number(bit):
    pairs = [(a, bit) for a in EDGES]
    one = [int(bool(a >> (bit & 31) & 1)) for a, _ in pairs]
    assert [scc for _, scc in in_parts("gfx942", "s_bitcmp1_b32 s8, s9", pairs)] == one
    assert [scc for _, scc in in_parts("gfx942", "s_bitcmp0_b32 s8, s9", pairs)] == [1 - x for x in one]
    set_ = in_parts("gfx942", "s_mov_b32 s10, s8\n\ts_bitset1_b32 s10, s9", pairs)
    assert [result for result, _ in set_] == [a | 1 << (bit & 31) for a, _ in pairs]
    cleared = in_parts("gfx942", "s_mov_b32 s10, s8\n\ts_bitset0_b32 s10, s9", pairs)
    assert [result for result, _ in cleared] == [a & ~(1 << (bit & 31)) for a, _ in pairs]


def test_scalar_floats():
    body = """
    s_mov_b32 s8, 2.0
    s_mov_b32 s9, 0.5
    s_add_f32 s10, s8, s9
    v_mov_b32 v10, s10
    s_mul_f32 s10, s8, -s9
    v_mov_b32 v11, s10
    s_fmac_f32 s10, s8, s8
    v_mov_b32 v12, s10
    s_cmp_gt_f32 s8, s9
    s_cselect_b32 s11, 1, 0
    v_mov_b32 v13, s11
    """
    ran = computed("gfx1201", body)
    assert ran.outputs[0, :3].view(np.float32).tolist() == [2.5, -1.0, 3.0]
    assert ran.outputs[0, 3] == 1


@pytest.mark.parametrize(
    ("name", "architecture", "meaning"),
    [
        ("and", "gfx942", lambda s, e: s & e),
        ("or", "gfx942", lambda s, e: s | e),
        ("xor", "gfx942", lambda s, e: s ^ e),
        ("andn2", "gfx942", lambda s, e: s & ~e),
        ("and_not1", "gfx1201", lambda s, e: s & ~e),
        ("nor", "gfx942", lambda s, e: ~(s | e)),
    ],
)
def test_saveexec_reads_before_it_writes(name, architecture, meaning):
    """Source and destination are one register, and EXEC is read in its old state."""
    wide = architecture == "gfx942"
    bits, mask, start = (64, LONG, 0x00FF_00FF_0F0F_F0F0) if wide else (32, WORD, 0x0F0F_F0F0)
    source = 0x0123_4567_89AB_CDEF & mask
    registers = ("s[8:9]", "exec") if wide else ("s8", "exec_lo")
    words = [f"s_mov_b32 s{8 + n}, {source >> 32 * n & WORD:#x}" for n in range(bits // 32)]
    masks = [
        f"s_mov_b32 {register}, {start >> 32 * n & WORD:#x}"
        for n, register in enumerate(("exec_lo", "exec_hi")[: bits // 32])
    ]
    body = [*words, *masks, f"s_{name}_saveexec_b{bits} {registers[0]}, {registers[0]}"]
    body += ["v_mov_b32 v12, 7", f"s_mov_b{bits} {registers[1]}, -1", "v_mov_b32 v10, s8"]
    ran = computed(architecture, "\n".join(body))
    assert int(ran.outputs[0, 0]) == start & WORD
    expected = meaning(source, start) & mask
    assert [int(x) for x in ran.outputs[:, 2]] == [7 * (expected >> lane & 1) for lane in range(bits)]
