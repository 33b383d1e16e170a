"""Comparisons, selection, carries, and all that moves values between lanes."""

import math

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from assembly import computed, edge_rows, execute

from portkit.emulate.amdgcn.isa.compare import RELATIONS

BOTH = ("gfx942", "gfx1100")
LANES = {"gfx942": 64, "gfx950": 64, "gfx1100": 32, "gfx1201": 32}


def vcc(architecture):
    return "vcc" if LANES[architecture] == 64 else "vcc_lo"


def bits(ran, column, lanes):
    """A mask that was moved to v12 and v13, as a list."""
    word = (
        int(ran.outputs[0, column]) | int(ran.outputs[0, column + 1]) << 32
        if lanes == 64
        else int(ran.outputs[0, column])
    )
    return [word >> lane & 1 for lane in range(lanes)]


def compare(architecture, line, inputs=None):
    body = f"{line}\nv_mov_b32 v12, vcc_lo\nv_mov_b32 v13, vcc_hi"
    ran = computed(architecture, body, inputs)
    return ran, bits(ran, 2, LANES[architecture])


def truth(condition, a, b):
    """By the words of the ISA documents, with Python's own comparisons."""
    unordered = isinstance(a, float) and (math.isnan(a) or math.isnan(b))
    plain = {"lt": a < b, "eq": a == b, "le": a <= b, "gt": a > b, "ge": a >= b, "ne": a != b, "lg": a < b or a > b}
    if condition in plain:
        return plain[condition]
    if condition in {"o", "u"}:
        return unordered == (condition == "u")
    return not plain[condition[1:]]


FLOAT_CONDITIONS = [name for name in RELATIONS if name != "ne"]
INTEGER_CONDITIONS = ["lt", "eq", "le", "gt", "ne", "ge"]


@pytest.mark.parametrize("condition", FLOAT_CONDITIONS)
@pytest.mark.parametrize("architecture", BOTH)
def test_float_comparisons(condition, architecture):
    ran, mask = compare(architecture, f"v_cmp_{condition}_f32 {vcc(architecture)}, v1, v2")
    values = ran.inputs[:, :2].view(np.float32).tolist()
    assert mask == [int(truth(condition, a, b)) for a, b in values]


@pytest.mark.parametrize("condition", INTEGER_CONDITIONS)
@pytest.mark.parametrize("kind", ["i32", "u32", "i16", "u16"])
@pytest.mark.parametrize("architecture", BOTH)
def test_integer_comparisons(condition, kind, architecture):
    inputs = edge_rows(LANES[architecture])
    inputs[::3, 1] = inputs[::3, 0]
    ran, mask = compare(architecture, f"v_cmp_{condition}_{kind} {vcc(architecture)}, v1, v2", inputs)
    dtype = np.dtype({"i": "<i", "u": "<u"}[kind[0]] + str(int(kind[1:]) // 8))
    values = np.ascontiguousarray(ran.inputs[:, :2]).view(dtype).reshape(len(mask), 2, -1)[:, :, 0].tolist()
    assert mask == [int(truth(condition, a, b)) for a, b in values]


@pytest.mark.parametrize("condition", INTEGER_CONDITIONS)
@pytest.mark.parametrize("kind", ["i64", "u64", "f64"])
def test_64_bit_comparisons(condition, kind):
    condition = "lg" if kind == "f64" and condition == "ne" else condition
    inputs = edge_rows(64)
    inputs[::3, 2:4] = inputs[::3, 0:2]
    ran, mask = compare("gfx942", f"v_cmp_{condition}_{kind} vcc, v[1:2], v[3:4]", inputs)
    values = np.ascontiguousarray(ran.inputs[:, :4]).view(kind.replace("64", "8")).tolist()
    assert mask == [int(truth(condition, a, b)) for a, b in values]


CLASSES = [
    (0x7F81_0000, 0), (0x7FC0_0000, 1), (0xFF80_0000, 2), (0xBF80_0000, 3), (0x8000_0001, 4),
    (0x8000_0000, 5), (0, 6), (1, 7), (0x3F80_0000, 8), (0x7F80_0000, 9),
]  # fmt: skip


@pytest.mark.parametrize(("word", "number"), CLASSES)
def test_classes(word, number):
    inputs = np.zeros((64, 8), np.uint32)
    inputs[:, 0] = word
    inputs[:, 1] = 1 << np.arange(64, dtype=np.uint32) % 10
    _, mask = compare("gfx942", "v_cmp_class_f32 vcc, v1, v2", inputs)
    assert mask == [int(lane % 10 == number) for lane in range(64)]


@pytest.mark.parametrize("architecture", BOTH)
def test_comparison_clears_disabled_lanes(architecture):
    body = f"s_mov_b32 exec_lo, 0xff\ns_mov_b32 vcc_lo, -1\nv_cmp_eq_u32 {vcc(architecture)}, v1, v1"
    restore = "s_mov_b32 exec_lo, -1"
    _, mask = compare(architecture, f"{body}\n{restore}")
    assert mask[:32] == [1] * 8 + [0] * 24


@pytest.mark.parametrize(
    ("architecture", "line", "old_destination"),
    [
        ("gfx942", "v_cmpx_gt_u32 s[8:9], v1, v2", True),
        ("gfx942", "v_cmpx_gt_u32 vcc, v1, v2", True),
        ("gfx1100", "v_cmpx_gt_u32 v1, v2", False),
    ],
)
def test_cmpx_writes_exec(architecture, line, old_destination):
    """On CDNA the named mask too; an RDNA one leaves VCC alone."""
    wide = LANES[architecture] == 64
    every = "s_mov_b64 exec, -1" if wide else "s_mov_b32 exec_lo, -1"
    source = "s8" if "s[8:9]" in line else "vcc_lo"
    body = f"s_mov_b32 vcc_lo, 0x1234\n{line}\nv_mov_b32 v12, 9\n{every}\nv_mov_b32 v13, {source}"
    ran = computed(architecture, body)
    expected = [int(a > b) for a, b in ran.inputs[:, :2].tolist()]
    assert ran.outputs[:, 2].tolist() == [9 * flag for flag in expected]
    low = sum(flag << lane for lane, flag in enumerate(expected[:32]))
    assert int(ran.outputs[0, 3]) == (low if old_destination else 0x1234)


@pytest.mark.parametrize("architecture", BOTH)
def test_selection(architecture):
    name = vcc(architecture)
    ran = computed(architecture, f"v_cmp_gt_u32 {name}, v1, v2\nv_cndmask_b32 v10, v3, v4, {name}")
    chosen = np.where(ran.inputs[:, 0] > ran.inputs[:, 1], ran.inputs[:, 3], ran.inputs[:, 2])
    assert np.array_equal(ran.outputs[:, 0], chosen)
    ran = computed(architecture, f"v_cmp_gt_u32 {name}, v1, v2\nv_cndmask_b32 v10, -v3, |v4|, {name}")
    greater = ran.inputs[:, 0] > ran.inputs[:, 1]
    chosen = np.where(greater, ran.inputs[:, 3] & 0x7FFF_FFFF, ran.inputs[:, 2] ^ 0x8000_0000)
    assert np.array_equal(ran.outputs[:, 0], chosen)


CARRIES = [
    ("gfx942", "v_add_co_u32 v10, vcc, v1, v2", lambda a, b, c: a + b),
    ("gfx942", "v_sub_co_u32 v10, vcc, v1, v2", lambda a, b, c: a - b),
    ("gfx942", "v_subrev_co_u32 v10, vcc, v1, v2", lambda a, b, c: b - a),
    ("gfx942", "v_addc_co_u32 v10, vcc, v1, v2, vcc", lambda a, b, c: a + b + c),
    ("gfx942", "v_subb_co_u32 v10, vcc, v1, v2, vcc", lambda a, b, c: a - b - c),
    ("gfx942", "v_subbrev_co_u32 v10, vcc, v1, v2, vcc", lambda a, b, c: b - a - c),
    ("gfx1100", "v_add_co_u32 v10, vcc_lo, v1, v2", lambda a, b, c: a + b),
    ("gfx1100", "v_add_co_ci_u32 v10, vcc_lo, v1, v2, vcc_lo", lambda a, b, c: a + b + c),
    ("gfx1100", "v_sub_co_ci_u32 v10, vcc_lo, v1, v2, vcc_lo", lambda a, b, c: a - b - c),
    ("gfx1100", "v_subrev_co_ci_u32 v10, vcc_lo, v1, v2, vcc_lo", lambda a, b, c: b - a - c),
]


@pytest.mark.parametrize(("architecture", "line", "meaning"), CARRIES)
def test_carries(architecture, line, meaning):
    ran, mask = compare(architecture, f"v_cmp_gt_u32 {vcc(architecture)}, v3, v4\n{line}")
    rows = [[int(x) for x in row[:4]] for row in ran.inputs]
    exact = [meaning(a, b, int(c > d)) for a, b, c, d in rows]
    assert ran.outputs[:, 0].tolist() == [x % 2**32 for x in exact]
    assert mask == [int(not 0 <= x < 2**32) for x in exact]


def test_64_bit_multiply_add():
    ran, mask = compare("gfx942", "v_mad_u64_u32 v[10:11], vcc, v1, v2, v[3:4]")
    exact = [int(a) * int(b) + (int(c) | int(d) << 32) for a, b, c, d in ran.inputs[:, :4]]
    assert [int(low) | int(high) << 32 for low, high in ran.outputs[:, :2]] == [x % 2**64 for x in exact]
    assert mask == [int(x >= 2**64) for x in exact]
    ran = computed("gfx1201", "v_mad_co_i64_i32 v[10:11], null, v1, v2, v[3:4]")
    signed = [a * b + (c | d << 32) for a, b, c, d in _mixed(ran)]
    assert [int(low) | int(high) << 32 for low, high in ran.outputs[:, :2]] == [x % 2**64 for x in signed]


def _mixed(ran):
    """Signed factors with the unsigned words of the addend."""
    return [(*row[:2].view(np.int32).tolist(), *row[2:4].tolist()) for row in ran.inputs]


def source_lane(control, lane):  # noqa: PLR0911 - one picture a control
    """Lane that DPP reads, None outside the row: by the pictures of the ISA document."""
    row, place = lane // 16 * 16, lane % 16
    name, _, value = control.partition(":")
    if name == "quad_perm":
        return lane // 4 * 4 + [int(x) for x in value[1:-1].split(",")][lane % 4]
    if name == "row_shl":
        return row + place + int(value) if place + int(value) < 16 else None
    if name == "row_shr":
        return row + place - int(value) if place >= int(value) else None
    if name == "row_ror":
        return row + (place - int(value)) % 16
    if name == "row_mirror":
        return row + 15 - place
    if name == "row_half_mirror":
        return row + place // 8 * 8 + 7 - place % 8
    if name in {"row_share", "row_newbcast"}:
        return row + int(value)
    if name == "row_xmask":
        return row + (place ^ int(value))
    return {"15": lane // 16 * 16 - 1 if lane >= 16 else None, "31": 31 if lane >= 32 else None}[value]


DPP = [
    *(("gfx942", f"quad_perm:[{q}]") for q in ("0,0,0,0", "3,2,1,0", "1,0,3,2")),
    *(("gfx942", f"{name}:{by}") for name in ("row_shl", "row_shr", "row_ror") for by in (1, 8, 15)),
    *((architecture, name) for architecture in BOTH for name in ("row_mirror", "row_half_mirror")),
    *(("gfx942", f"row_bcast:{n}") for n in (15, 31)),
    *(("gfx1100", f"{name}:{n}") for name in ("row_share", "row_xmask") for n in (0, 5, 15)),
    ("gfx942", "row_newbcast:7"),
]


@pytest.mark.parametrize(("architecture", "control"), DPP)
@pytest.mark.parametrize("bound", [False, True])
def test_dpp(architecture, control, bound):
    """Without bound_ctrl a lane that reads outside its row keeps its value; with it, it reads 0."""
    ran = computed(
        architecture, f"v_mov_b32_dpp v10, v1 {control} row_mask:0xf bank_mask:0xf" + " bound_ctrl:1" * bound
    )
    for lane, result in enumerate(ran.outputs[:, 0].tolist()):
        source = source_lane(control, lane)
        outside = 0 if bound else int(ran.inputs[lane, 6])
        assert result == (outside if source is None else int(ran.inputs[source, 0])), lane


@pytest.mark.parametrize(("rows", "banks"), [(0x1, 0xF), (0xA, 0xF), (0xF, 0x3), (0x5, 0x9)])
def test_dpp_masks_leave_lanes_alone(rows, banks):
    ran = computed("gfx942", f"v_add_u32_dpp v10, v1, v2 row_ror:4 row_mask:{rows:#x} bank_mask:{banks:#x}")
    for lane, result in enumerate(ran.outputs[:, 0].tolist()):
        written = rows >> lane // 16 & 1 and banks >> lane % 16 // 4 & 1
        total = (int(ran.inputs[source_lane("row_ror:4", lane), 0]) + int(ran.inputs[lane, 1])) % 2**32
        assert result == (total if written else int(ran.inputs[lane, 6]))


@pytest.mark.parametrize(("modifiers", "expected"), [("", "kept"), ("bound_ctrl:1", "zero"), ("fi:1", "read")])
def test_dpp_of_disabled_lanes(modifiers, expected):
    """Half of the lanes are off: to read one is invalid, unless fi is set."""
    body = f"""s_mov_b32 exec_lo, 0x55555555
    v_mov_b32_dpp v10, v1 row_xmask:1 row_mask:0xf bank_mask:0xf {modifiers}
    s_mov_b32 exec_lo, -1"""
    ran = computed("gfx1100", body)
    for lane in range(0, 32, 2):
        choices = {"kept": ran.inputs[lane, 6], "zero": 0, "read": ran.inputs[lane ^ 1, 0]}
        assert int(ran.outputs[lane, 0]) == int(choices[expected])
        assert ran.outputs[lane + 1, 0] == ran.inputs[lane + 1, 6]


def test_dpp8():
    ran = computed("gfx1100", "v_mov_b32_dpp v10, v1 dpp8:[7,6,5,4,3,2,1,0]")
    assert ran.outputs[:, 0].tolist() == [int(ran.inputs[lane ^ 7, 0]) for lane in range(32)]


@pytest.mark.parametrize(
    ("select", "unused", "expected"),
    [
        ("BYTE_1", "UNUSED_PAD", lambda x, old: (x & 255) << 8),
        ("WORD_1", "UNUSED_PAD", lambda x, old: (x & 0xFFFF) << 16),
        ("WORD_0", "UNUSED_PRESERVE", lambda x, old: x & 0xFFFF | old & 0xFFFF_0000),
        ("BYTE_3", "UNUSED_PRESERVE", lambda x, old: (x & 255) << 24 | old & 0x00FF_FFFF),
        ("DWORD", "UNUSED_PAD", lambda x, old: x),
    ],
)
@pytest.mark.parametrize(("source", "part"), [("BYTE_2", lambda x: x >> 16 & 255), ("WORD_1", lambda x: x >> 16)])
def test_sdwa(select, unused, expected, source, part):
    line = f"v_or_b32_sdwa v10, v1, v2 dst_sel:{select} dst_unused:{unused} src0_sel:{source} src1_sel:DWORD"
    ran = computed("gfx942", line)
    for row, result in zip(ran.inputs.tolist(), ran.outputs[:, 0].tolist(), strict=True):
        assert result == expected(part(row[0]) | row[1], row[6])


def test_sdwa_sign_extension():
    line = "v_add_u32_sdwa v10, sext(v1), v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_0 src1_sel:DWORD"
    ran = computed("gfx942", line)
    expected = [(int(np.int8(np.uint8(a & 255))) + b) % 2**32 for a, b in ran.inputs[:, :2].tolist()]
    assert ran.outputs[:, 0].tolist() == expected


@pytest.mark.parametrize("architecture", BOTH)
@pytest.mark.instructions("v_readfirstlane_b32", "v_readlane_b32", "v_writelane_b32")
def test_lanes_to_scalars_and_back(architecture):
    body = """s_mov_b32 exec_lo, 0xf0
    v_readfirstlane_b32 s8, v1
    v_readlane_b32 s9, v1, 17
    s_mov_b32 s10, 67
    v_readlane_b32 s11, v1, s10
    v_writelane_b32 v11, s8, 2
    s_mov_b32 exec_lo, -1
    v_mov_b32 v10, s8
    v_mov_b32 v12, s9
    v_mov_b32 v13, s11"""
    high = "s_mov_b32 exec_hi, 0\n" if LANES[architecture] == 64 else ""
    back = "\ns_mov_b32 exec_hi, -1" if high else ""
    ran = computed(architecture, high + body.replace("s_mov_b32 exec_lo, -1", "s_mov_b32 exec_lo, -1" + back))
    first, other = int(ran.inputs[4, 0]), int(ran.inputs[67 % LANES[architecture], 0])
    assert set(ran.outputs[:, 0].tolist()) == {first}
    assert set(ran.outputs[:, 2].tolist()) == {int(ran.inputs[17, 0])}
    assert set(ran.outputs[:, 3].tolist()) == {other}
    changed = np.flatnonzero(ran.outputs[:, 1] != ran.inputs[:, 7])
    assert changed.tolist() == [2]
    assert int(ran.outputs[2, 1]) == first


def test_first_lane_where_none_is_enabled():
    body = "s_mov_b64 exec, 0\nv_readfirstlane_b32 s8, v1\ns_mov_b64 exec, -1\nv_mov_b32 v10, s8"
    ran = computed("gfx942", body)
    assert int(ran.outputs[0, 0]) == int(ran.inputs[0, 0])


@pytest.mark.parametrize(("name", "flip"), [("v_permlane16_b32", 0), ("v_permlanex16_b32", 16)])
def test_row_permutes(name, flip):
    body = f"s_mov_b32 s8, 0x76543210\ns_mov_b32 s9, 0x0f1e2d3c\n{name} v10, v1, s8, s9"
    ran = computed("gfx1100", body)
    codes = 0x0F1E_2D3C_7654_3210
    expected = [int(ran.inputs[(lane & 16 ^ flip) + (codes >> 4 * (lane & 15) & 15), 0]) for lane in range(32)]
    assert ran.outputs[:, 0].tolist() == expected


@pytest.mark.parametrize("width", [16, 32], ids=lambda width: f"v_permlane{width}_swap_b32")
def test_row_swaps(width):
    ran = computed("gfx950", f"v_mov_b32 v12, v1\nv_mov_b32 v13, v2\nv_permlane{width}_swap_b32 v12, v13")
    for lane in range(64):
        odd = bool(lane & width)
        first = ran.inputs[lane ^ width, 1] if odd else ran.inputs[lane, 0]
        second = ran.inputs[lane, 1] if odd else ran.inputs[lane ^ width, 0]
        assert ran.outputs[lane, 2:].tolist() == [int(first), int(second)]


@pytest.mark.instructions("v_swap_b32")
def test_swap():
    ran = computed("gfx942", "v_mov_b32 v12, v1\nv_mov_b32 v13, v2\nv_swap_b32 v12, v13")
    assert np.array_equal(ran.outputs[:, 2:], ran.inputs[:, [1, 0]])


@pytest.mark.parametrize("architecture", BOTH)
@pytest.mark.instructions("v_mbcnt_lo_u32_b32", "v_mbcnt_hi_u32_b32")
def test_bits_below_a_lane(architecture):
    body = """s_mov_b32 s8, 0xf00f1234
    s_mov_b32 s9, 0x8765abcd
    v_mbcnt_lo_u32_b32 v10, s8, v1
    v_mbcnt_hi_u32_b32 v10, s9, v10"""
    ran = computed(architecture, body)
    mask = 0x8765_ABCD_F00F_1234
    expected = [(int(x) + (mask & (1 << lane) - 1).bit_count()) % 2**32 for lane, x in enumerate(ran.inputs[:, 0])]
    assert ran.outputs[:, 0].tolist() == expected


SWIZZLES = [
    ('swizzle(SWAP,16)', lambda lane: lane ^ 16),
    ('swizzle(SWAP,1)', lambda lane: lane ^ 1),
    ('swizzle(REVERSE,8)', lambda lane: lane // 8 * 8 + 7 - lane % 8),
    ('swizzle(BROADCAST,4,1)', lambda lane: lane // 4 * 4 + 1),
    ('swizzle(QUAD_PERM,3,0,1,2)', lambda lane: lane // 4 * 4 + (3, 0, 1, 2)[lane % 4]),
    ('swizzle(BITMASK_PERM,"0p1i0")', lambda lane: lane & 32 | lane & 8 | 4 | (lane & 2 ^ 2)),
    ("0x401f", lambda lane: lane & 32 | lane & 31 ^ 16),
    ("0x80e4", lambda lane: lane),
]  # fmt: skip


@pytest.mark.parametrize(("offset", "source"), SWIZZLES)
@pytest.mark.parametrize("architecture", BOTH)
@pytest.mark.instructions("ds_swizzle_b32")
def test_swizzles(offset, source, architecture):
    ran = computed(architecture, f"ds_swizzle_b32 v10, v1 offset:{offset}")
    assert ran.outputs[:, 0].tolist() == [int(ran.inputs[source(lane), 0]) for lane in range(LANES[architecture])]


@pytest.mark.parametrize("architecture", BOTH)
@pytest.mark.instructions("ds_bpermute_b32", "ds_permute_b32")
def test_crossbar_permutes(architecture):
    lanes = LANES[architecture]
    inputs = edge_rows(lanes)
    inputs[:, 1] = np.arange(lanes) * 20 + 4 * 7 * lanes
    ran = computed(architecture, "ds_bpermute_b32 v10, v2, v1 offset:4\nds_permute_b32 v11, v2, v1", inputs)
    pulled = [int(ran.inputs[(int(a) + 4) // 4 % lanes, 0]) for a in inputs[:, 1]]
    assert ran.outputs[:, 0].tolist() == pulled
    pushed = [0] * lanes
    for lane, address in enumerate(inputs[:, 1].tolist()):
        pushed[address // 4 % lanes] = int(ran.inputs[lane, 0])
    assert ran.outputs[:, 1].tolist() == pushed


@pytest.mark.parametrize(
    ("architecture", "line", "cause"),
    [
        ("gfx942", "v_add_nc_u32 v10, v1, v2", "gfx942 has no v_add_nc_u32"),
        ("gfx1100", "v_add_u32 v10, v1, v2", "gfx1100 has no v_add_u32"),
        ("gfx942", "v_frobnicate_b32 v10, v1", "instruction v_frobnicate_b32 is not known"),
        ("gfx942", "v_add_f32 v10, v1, v2 blink:1", "modifier blink is not known"),
        ("gfx942", "v_add_f32 v10, v1, v2 offset:4", "modifier offset on v_add_f32"),
        ("gfx942", "v_add_f32 v10, v1", "2 operands"),
        ("gfx942", "v_add_f32 v10, v1, t3", "operand t3"),
        ("gfx942", "v_add_u32 v10, -v1, v2", "sign modifier on an integer operand v1"),
        ("gfx942", "s_add_u32 s8, v1, s9", "operand v1 where a scalar one is needed"),
        ("gfx942", "v_mov_b32_dpp v10, v1 row_shl:1 row_mask:0xf bank_mask:0xf wave_ror:1", "lane permutation"),
        ("gfx942", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 3", "register field"),
        ("gfx942", "s_memtime s[8:9]", "instruction s_memtime is not known"),
        ("gfx942", "s_sendmsg sendmsg(MSG_INTERRUPT)", "message"),
    ],
)
def test_what_is_not_modelled_is_refused_by_name_and_line(architecture, line, cause):
    outcome = execute(architecture, line).emulation.outcome
    assert outcome.status == "unsupported"
    assert cause in outcome.message
    assert "line 16" in outcome.message
