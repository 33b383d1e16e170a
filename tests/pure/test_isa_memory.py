"""Loads, stores, atomics and shared memory: every format, offset and mask, against plain byte arithmetic."""

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from assembly import computed, edge_rows, execute

NEW = {"gfx1100", "gfx1201"}
LANES = {"gfx942": 64, "gfx950": 64, "gfx1100": 32, "gfx1201": 32}
WAIT = {
    "gfx942": "s_waitcnt vmcnt(0) lgkmcnt(0)",
    "gfx1100": "s_waitcnt vmcnt(0) lgkmcnt(0)",
    "gfx1201": "s_wait_loadcnt_dscnt 0x0",
}
ADDRESS = "v_lshlrev_b32 v20, 5, v0\n"
"""v20: byte offset of a lane's row in the input."""


def raw(ran, lane, start, size, row=32):
    """Bytes of the input as an integer; ``start`` counts from the lane's row."""
    return int.from_bytes(ran.inputs.tobytes()[lane * row + start :][:size], "little")


def extended(x, bits):
    return (x - (1 << bits) if x >> (bits - 1) else x) & 0xFFFF_FFFF


LOADS = [
    ("ubyte", "u8", 1, lambda x, old: x),
    ("sbyte", "i8", 1, lambda x, old: extended(x, 8)),
    ("ushort", "u16", 2, lambda x, old: x),
    ("sshort", "i16", 2, lambda x, old: extended(x, 16)),
    ("short_d16", "d16_b16", 2, lambda x, old: old & 0xFFFF_0000 | x),
    ("short_d16_hi", "d16_hi_b16", 2, lambda x, old: old & 0xFFFF | x << 16),
    ("ubyte_d16", "d16_u8", 1, lambda x, old: old & 0xFFFF_0000 | x),
    ("ubyte_d16_hi", "d16_hi_u8", 1, lambda x, old: old & 0xFFFF | x << 16),
    ("sbyte_d16", "d16_i8", 1, lambda x, old: old & 0xFFFF_0000 | extended(x, 8) & 0xFFFF),
    ("sbyte_d16_hi", "d16_hi_i8", 1, lambda x, old: old & 0xFFFF | (extended(x, 8) & 0xFFFF) << 16),
]


@pytest.mark.parametrize("load", LOADS, ids=lambda row: row[0])
@pytest.mark.parametrize("architecture", ["gfx942", "gfx1201"])
@pytest.mark.parametrize("offset", [0, 3, 6])
def test_narrow_loads(load, architecture, offset):
    name, size, meaning = load[architecture in NEW], load[2], load[3]
    ran = computed(architecture, f"{ADDRESS}global_load_{name} v10, v20, s[4:5] offset:{offset}\n{WAIT[architecture]}")
    for lane, result in enumerate(ran.outputs[:, 0].tolist()):
        assert result == meaning(raw(ran, lane, offset, size), int(ran.inputs[lane, 6]))


@pytest.mark.parametrize(("old", "new", "words"), [("dword", "b32", 1), ("dwordx2", "b64", 2), ("dwordx3", "b96", 3)])
@pytest.mark.parametrize("architecture", ["gfx942", "gfx1201"])
@pytest.mark.parametrize("offset", [0, 4, 5])
def test_wide_loads_at_any_address(old, new, words, architecture, offset):
    name = new if architecture in NEW else old
    target = "v10" if words == 1 else f"v[10:{9 + words}]"
    ran = computed(architecture, f"{ADDRESS}global_load_{name} {target}, v20, s[4:5] offset:{offset}")
    for lane in range(LANES[architecture]):
        expected = [raw(ran, lane, offset + 4 * word, 4) for word in range(words)]
        assert ran.outputs[lane, :words].tolist() == expected


@pytest.mark.parametrize("offset", [-16, 0, 16])
def test_64_bit_addresses(offset):
    body = f"""{ADDRESS}v_mov_b32 v22, s5
    v_add_co_u32 v21, vcc, s4, v20
    v_addc_co_u32 v22, vcc, 0, v22, vcc
    s_mov_b64 exec, 0xfffffffffffffffe
    global_load_dword v10, v[21:22], off offset:{offset}
    flat_load_dword v12, v[21:22] offset:{max(offset, 0)}
    s_mov_b64 exec, -1"""
    ran = computed("gfx942", body)
    words = ran.inputs.reshape(-1)
    assert ran.outputs[1:, 0].tolist() == [int(words[lane * 8 + offset // 4]) for lane in range(1, 64)]
    assert ran.outputs[1:, 2].tolist() == [int(words[lane * 8 + max(offset, 0) // 4]) for lane in range(1, 64)]
    assert ran.outputs[0, 0] == ran.inputs[0, 6]


STORES = [
    ("byte", "b8", 1, lambda x: x & 255),
    ("short", "b16", 2, lambda x: x & 0xFFFF),
    ("byte_d16_hi", "d16_hi_b8", 1, lambda x: x >> 16 & 255),
    ("short_d16_hi", "d16_hi_b16", 2, lambda x: x >> 16),
    ("dword", "b32", 4, lambda x: x),
]


@pytest.mark.parametrize("store", STORES, ids=lambda row: row[0])
@pytest.mark.parametrize("architecture", ["gfx942", "gfx1201"])
def test_stores(store, architecture):
    """Odd lanes store to the input's rows, which are read back whole."""
    name, size, meaning = store[architecture in NEW], store[2], store[3]
    before = edge_rows(LANES[architecture])
    high = "s_mov_b32 exec_hi, 0xaaaaaaaa\n" if LANES[architecture] == 64 else ""
    back = "s_mov_b32 exec_hi, -1\n" if high else ""
    body = f"{ADDRESS}s_mov_b32 exec_lo, 0xaaaaaaaa\n{high}global_store_{name} v20, v2, s[4:5] offset:8\n"
    ran = computed(architecture, f"{body}s_mov_b32 exec_lo, -1\n{back}", before.copy())
    for lane in range(LANES[architecture]):
        expected = bytearray(before[lane].tobytes())
        if lane % 2:
            expected[8 : 8 + size] = meaning(int(before[lane, 1])).to_bytes(size, "little")
        assert ran.inputs[lane].tobytes() == bytes(expected)


def test_half_registers_are_stored_by_name():
    before = edge_rows(32)
    ran = computed("gfx1201", f"{ADDRESS}global_store_b16 v20, v2.h, s[4:5]", before.copy())
    expected = before.copy()
    expected[:, 0] = before[:, 0] & np.uint32(0xFFFF_0000) | before[:, 1] >> np.uint32(16)
    assert np.array_equal(ran.inputs, expected)


RESOURCE = """s_mov_b32 s8, s4
s_and_b32 s9, s5, 0xffff
s_mov_b32 s10, {records}
s_mov_b32 s11, 0x27000
"""


def buffer(body, records=2048, **parts):
    """On gfx942, with a buffer over ``records`` bytes of the input."""
    return execute("gfx942", RESOURCE.format(records=records) + ADDRESS + body, **parts)


def test_buffer_loads_in_bounds():
    ran = buffer("s_mov_b32 s12, 4\nbuffer_load_dwordx2 v[10:11], v20, s[8:11], s12 offen offset:8")
    assert ran.emulation.outcome.status == "passed"
    assert np.array_equal(ran.outputs[:, :2], ran.inputs[:, 3:5])


def test_masked_lanes_of_a_buffer_read_zero_without_a_finding():
    body = """v_cmp_gt_u32 vcc, 10, v0
    v_bfrev_b32 v21, 1
    v_cndmask_b32 v20, v21, v20, vcc
    buffer_load_dword v10, v20, s[8:11], 0 offen
    buffer_store_dword v0, v20, s[8:11], 0 offen"""
    before = edge_rows(64)
    ran = buffer(body, inputs=before.copy())
    assert ran.emulation.outcome.status == "passed"
    assert ran.outputs[:, 0].tolist() == [*before[:10, 0].tolist(), *[0] * 54]
    assert ran.inputs[:10, 0].tolist() == list(range(10))
    assert np.array_equal(ran.inputs[10:], before[10:])


def test_a_lane_beyond_num_records_that_is_not_masked_is_named():
    ran = buffer("buffer_load_dword v10, v20, s[8:11], 0 offen", records=1024)
    outcome, (finding,) = ran.emulation.outcome, ran.emulation.findings
    assert outcome.status == "out_of_bounds"
    assert (finding.kind, finding.count, finding.place.lane, finding.offset) == ("beyond_records", 32, 32, 1024)
    assert finding.buffer == "x"
    assert ran.outputs[:, 0].tolist() == [*ran.inputs[:32, 0].tolist(), *[0] * 32]


def test_strided_buffers_are_refused():
    ran = buffer("s_mov_b32 s9, 0x100000\nbuffer_load_dword v10, v1, s[8:11], 0 offen")
    assert ran.emulation.outcome.status == "unsupported"


@pytest.mark.parametrize(
    ("body", "kind", "lane", "offset"),
    [
        (ADDRESS + "global_load_dword v10, v20, s[4:5] offset:32", "out_of_bounds", 63, 2048),
        (ADDRESS + "global_load_dwordx2 v[10:11], v20, s[4:5] offset:28", "out_of_bounds", 63, 2044),
        (ADDRESS + "global_store_byte v20, v1, s[4:5] offset:-1", "out_of_bounds", 0, -1),
        (ADDRESS + "s_mov_b32 s4, 0\ns_mov_b32 s5, 0\nglobal_load_dword v10, v20, s[4:5]", "out_of_bounds", 0, None),
        ("v_lshlrev_b32 v20, 2, v0\nds_write_b32 v20, v1 offset:8", "shared_out_of_bounds", 62, 256),
        ("v_mov_b32 v20, -4\nds_read_b32 v10, v20", "shared_out_of_bounds", 0, 0xFFFF_FFFC),
        (ADDRESS + "global_atomic_add v20, v1, s[4:5] offset:2", "misaligned", 0, 2),
        ("v_lshlrev_b32 v20, 2, v0\nv_and_b32 v20, 60, v20\nds_add_u32 v20, v1 offset:6", "misaligned", 0, 6),
    ],
)
def test_accesses_outside_are_named(body, kind, lane, offset):
    ran = execute("gfx942", body, shared=256)
    (finding,) = ran.emulation.findings
    assert (finding.kind, finding.place.lane) == (kind, lane)
    assert offset is None or finding.offset == offset
    assert finding.site.text == body.splitlines()[-1].strip()


SHARED = {
    "gfx942": ("ds_write_{}", "ds_read_{}", "ds_write2{}_b{}", "ds_read2{}_b{}", "st64"),
    "gfx1201": ("ds_store_{}", "ds_load_{}", "ds_store_2addr{}_b{}", "ds_load_2addr{}_b{}", "_stride64"),
}


@pytest.mark.parametrize("architecture", SHARED)
@pytest.mark.parametrize("words", [1, 2, 3, 4])
@pytest.mark.parametrize("offset", [0, 16, 20])
def test_shared_memory_keeps_what_is_written(architecture, words, offset):
    write, read = SHARED[architecture][:2]
    source, target = ("v1", "v10") if words == 1 else (f"v[1:{words}]", f"v[10:{9 + words}]")
    name = f"b{32 * words}"
    body = f"{write.format(name)} v20, {source} offset:{offset}\n{read.format(name)} {target}, v20 offset:{offset}"
    ran = computed(architecture, ADDRESS + body, shared=4096)
    assert np.array_equal(ran.outputs[:, :words], ran.inputs[:, :words])


@pytest.mark.parametrize("architecture", SHARED)
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("far", [False, True])
def test_two_addresses_of_shared_memory(architecture, bits, far):
    """Elements apart by their own size, or by 64 of them."""
    _, _, write, read, suffix = SHARED[architecture]
    suffix = suffix if far else ""
    count = bits // 32
    first, second = ("v1", "v2") if count == 1 else ("v[1:2]", "v[3:4]")
    body = f"v_lshlrev_b32 v20, {3 if bits == 64 else 2}, v0\n"
    if not far:
        body = ADDRESS
    body += f"{write.format(suffix, bits)} v20, {first}, {second} offset0:1 offset1:3\n"
    body += f"{read.format(suffix, bits)} v[10:{9 + 2 * count}], v20 offset0:1 offset1:3"
    ran = computed(architecture, body, shared=8192)
    assert np.array_equal(ran.outputs[:, : 2 * count], ran.inputs[:, : 2 * count])


@pytest.mark.parametrize(
    ("store", "load", "meaning"),
    [
        ("b8", "u8", lambda x, old: x & 255),
        ("b8", "i8", lambda x, old: extended(x & 255, 8)),
        ("b16", "u16", lambda x, old: x & 0xFFFF),
        ("b16", "i16", lambda x, old: extended(x & 0xFFFF, 16)),
        ("b16", "u16_d16", lambda x, old: old & 0xFFFF_0000 | x & 0xFFFF),
        ("b16", "u16_d16_hi", lambda x, old: old & 0xFFFF | (x & 0xFFFF) << 16),
        ("b16_d16_hi", "u16", lambda x, old: x >> 16),
        ("b8_d16_hi", "u8", lambda x, old: x >> 16 & 255),
        ("b8", "u8_d16", lambda x, old: old & 0xFFFF_0000 | x & 255),
        ("b8", "i8_d16_hi", lambda x, old: old & 0xFFFF | (extended(x & 255, 8) & 0xFFFF) << 16),
    ],
)
@pytest.mark.parametrize("architecture", SHARED)
def test_narrow_shared_memory(architecture, store, load, meaning):
    write, read = SHARED[architecture][:2]
    body = f"{ADDRESS}{write.format(store)} v20, v1 offset:6\n{read.format(load)} v10, v20 offset:6"
    ran = computed(architecture, body, shared=4096)
    for row, result in zip(ran.inputs.tolist(), ran.outputs[:, 0].tolist(), strict=True):
        assert result == meaning(row[0], row[6])


@pytest.mark.parametrize(("old", "new", "words"), [("dword", "b32", 1), ("dwordx2", "b64", 2), ("dwordx4", "b128", 4)])
@pytest.mark.parametrize("architecture", ["gfx942", "gfx1201"])
def test_scratch_is_each_lanes_own(old, new, words, architecture):
    name = new if architecture in NEW else old
    source, target = ("v1", "v10") if words == 1 else (f"v[1:{words}]", f"v[10:{9 + words}]")
    body = f"scratch_store_{name} off, {source}, off offset:16\nscratch_load_{name} {target}, off, off offset:16"
    ran = computed(architecture, body, scratch=64)
    assert np.array_equal(ran.outputs[:, :words], ran.inputs[:, :words])


def test_scratch_through_registers():
    body = """s_mov_b32 s8, 8
    v_and_b32 v21, 3, v0
    scratch_store_byte off, v1, s8
    scratch_store_dword v21, v2, s8 offset:4
    scratch_load_ubyte v10, off, s8
    scratch_load_dword v11, v21, s8 offset:4"""
    aligned = body.replace("v_and_b32 v21, 3, v0", "v_and_b32 v21, 12, v0")
    ran = computed("gfx942", aligned, scratch=64)
    assert ran.outputs[:, 0].tolist() == [int(x) & 255 for x in ran.inputs[:, 0]]
    assert np.array_equal(ran.outputs[:, 1], ran.inputs[:, 1])
    assert execute("gfx942", body, scratch=64).emulation.outcome.status == "unsupported"
    assert execute("gfx942", aligned, scratch=8).emulation.outcome.status == "out_of_bounds"


@pytest.mark.parametrize(
    ("old", "new", "words"), [("dwordx2", "b64", 2), ("dwordx4", "b128", 4), ("dwordx8", "b256", 8)]
)
@pytest.mark.parametrize("architecture", ["gfx942", "gfx1201"])
def test_scalar_loads(old, new, words, architecture):
    name = new if architecture in NEW else old
    moves = "\n".join(f"v_writelane_b32 v10, s{16 + n}, {n}" for n in range(words))
    body = f"s_mov_b32 s8, 32\ns_load_{name} s[16:{15 + words}], s[4:5], s8 offset:16\n{moves}"
    ran = computed(architecture, body)
    assert ran.outputs[:words, 0].tolist() == ran.inputs.reshape(-1)[12 : 12 + words].tolist()


def test_narrow_scalar_loads():
    body = """s_load_u8 s8, s[4:5], 0x5
    s_load_i8 s9, s[4:5], 0x5
    s_load_u16 s10, s[4:5], 0x6
    s_load_i16 s11, s[4:5], 0x6
    v_mov_b32 v10, s8
    v_mov_b32 v11, s9
    v_mov_b32 v12, s10
    v_mov_b32 v13, s11"""
    ran = computed("gfx1201", body)
    byte, short = raw(ran, 0, 5, 1), raw(ran, 0, 6, 2)
    assert ran.outputs[0].tolist() == [byte, extended(byte, 8), short, extended(short, 16)]


def signed(x):
    return x - (1 << 32) if x >> 31 else x


ATOMICS = {
    "add": lambda old, x: old + x,
    "sub": lambda old, x: old - x,
    "smin": lambda old, x: min(signed(old), signed(x)),
    "smax": lambda old, x: max(signed(old), signed(x)),
    "umin": min,
    "umax": max,
    "and": lambda old, x: old & x,
    "or": lambda old, x: old | x,
    "xor": lambda old, x: old ^ x,
    "swap": lambda old, x: x,
}


def in_lane_order(ran, before, meaning, targets):
    """Memory after, and the values each lane saw."""
    memory, seen = before.reshape(-1).tolist(), []
    for lane, target in enumerate(targets):
        seen.append(memory[target])
        memory[target] = meaning(memory[target], int(before[lane, 1])) % 2**32
    return memory, seen


@pytest.mark.parametrize("name", ATOMICS)
@pytest.mark.parametrize("returns", [False, True])
def test_global_atomics_in_lane_order(name, returns):
    """All 64 lanes on three words of the input."""
    before = edge_rows(64)
    returned = "v10, " if returns else ""
    body = f"v_and_b32 v20, 4, v0\nglobal_atomic_{name} {returned}v20, v2, s[4:5] offset:4" + " sc0" * returns
    ran = computed("gfx942", body, before.copy())
    memory, seen = in_lane_order(ran, before, ATOMICS[name], [1 + (lane >> 2 & 1) for lane in range(64)])
    assert ran.inputs.reshape(-1).tolist() == memory
    assert ran.outputs[:, 0].tolist() == (seen if returns else before[:, 6].tolist())


RENAMED = {"add": "add_u32", "smin": "min_i32", "umax": "max_u32", "xor": "xor_b32", "swap": "swap_b32"}


@pytest.mark.parametrize("name", RENAMED)
def test_names_of_rdna(name):
    before = edge_rows(32)
    body = f"v_and_b32 v20, 4, v0\nglobal_atomic_{RENAMED[name]} v10, v20, v2, s[4:5] th:TH_ATOMIC_RETURN"
    ran = computed("gfx1201", body, before.copy())
    memory, seen = in_lane_order(ran, before, ATOMICS[name], [lane >> 2 & 1 for lane in range(32)])
    assert ran.inputs.reshape(-1).tolist() == memory
    assert ran.outputs[:, 0].tolist() == seen


@pytest.mark.parametrize("kind", ["global", "buffer", "shared"])
def test_compare_and_swap_one_lane_after_another(kind):
    """Each lane expects what the lane before it leaves, so all succeed; but lane 9 expects another value."""
    before = np.zeros((64, 8), np.uint32)
    before[:, 1] = np.arange(1, 65)
    before[:, 2] = np.arange(64)
    before[9, 2] = 77
    lines = {
        "global": "v_mov_b32 v20, 0\nglobal_atomic_cmpswap v10, v20, v[2:3], s[4:5] sc0",
        "buffer": RESOURCE.format(records=2048)
        + "v_mov_b32 v12, v2\nv_mov_b32 v13, v3\nv_mov_b32 v20, 0\n"
        + "buffer_atomic_cmpswap v[12:13], v20, s[8:11], 0 offen sc0\nv_mov_b32 v10, v12",
        "shared": "v_mov_b32 v20, 0\nds_write_b32 v20, v20\nds_cmpst_rtn_b32 v10, v20, v3, v2\nds_read_b32 v11, v20",
    }
    ran = computed("gfx942", lines[kind], before.copy(), shared=64)
    assert ran.outputs[:, 0].tolist() == [*range(10), *[9] * 54]
    final = ran.outputs[0, 1] if kind == "shared" else ran.inputs[0, 0]
    assert int(final) == 9


def test_shared_compare_and_swap_of_rdna_names_data_first():
    before = np.zeros((32, 8), np.uint32)
    before[:, 1], before[:, 2] = 5, 0
    body = "v_mov_b32 v20, 0\nds_store_b32 v20, v20\nds_cmpstore_rtn_b32 v10, v20, v2, v3\nds_load_b32 v11, v20"
    ran = computed("gfx1201", body, before, shared=64)
    assert ran.outputs[:, 0].tolist() == [0, *[5] * 31]
    assert set(ran.outputs[:, 1].tolist()) == {5}


@pytest.mark.parametrize("returns", [False, True])
def test_float_atomics_add_in_lane_order(returns):
    rows = np.zeros((64, 8), np.uint32)
    rows[:, 1] = np.random.default_rng(0).normal(size=64).astype(np.float32).view(np.uint32)
    returned, flag = ("v10, ", " sc0") if returns else ("", "")
    ran = computed("gfx942", f"v_mov_b32 v20, 0\nglobal_atomic_add_f32 {returned}v20, v2, s[4:5]{flag}", rows.copy())
    total, seen = np.float32(0), []
    for value in rows[:, 1].view(np.float32):
        seen.append(total)
        total = np.float32(total + value)
    assert ran.inputs[0, :1].view(np.float32)[0] == total
    if returns:
        assert ran.outputs[:, 0].view(np.float32).tolist() == seen


def test_packed_atomics_add_each_half():
    rows = np.zeros((64, 8), np.uint32)
    rows[:, 1] = 0x3C00_4000  # 1.0 above 2.0 in float16
    ran = computed("gfx942", "v_mov_b32 v20, 0\nglobal_atomic_pk_add_f16 v20, v2, s[4:5]", rows.copy())
    assert np.ascontiguousarray(ran.inputs[0, :1]).view(np.float16).tolist() == [128.0, 64.0]
    rows[:, 1] = 0x3F80_4000  # 1.0 above 2.0 in bfloat16
    ran = computed("gfx942", "v_mov_b32 v20, 0\nglobal_atomic_pk_add_bf16 v20, v2, s[4:5]", rows.copy())
    halves = np.ascontiguousarray(ran.inputs[0, :1]).view(np.uint16).astype(np.uint32) << 16
    assert halves.view(np.float32).tolist() == [128.0, 64.0]


def test_64_bit_atomics():
    rows = np.zeros((64, 8), np.uint32)
    rows[:, 2] = 0x8000_0000
    ran = computed("gfx942", "v_mov_b32 v20, 0\nglobal_atomic_add_x2 v[10:11], v20, v[3:4], s[4:5] sc0", rows.copy())
    seen = [int(low) | int(high) << 32 for low, high in ran.outputs[:, :2]]
    assert seen == [lane * 0x8000_0000 for lane in range(64)]


@pytest.mark.parametrize(
    ("name", "meaning"),
    [("add_u32", ATOMICS["add"]), ("max_i32", ATOMICS["smax"]), ("min_u32", min), ("or_b32", ATOMICS["or"])],
)
def test_shared_atomics(name, meaning):
    stem, kind = name.split("_")
    body = f"""v_and_b32 v20, 4, v0
    ds_write_b32 v20, v7
    ds_{stem}_rtn_{kind} v10, v20, v2
    ds_{name} v20, v3
    ds_read_b32 v11, v20"""
    ran = computed("gfx942", body, shared=64)
    start = {}
    for lane in range(64):
        start[lane >> 2 & 1] = int(ran.inputs[lane, 6])
    seen, memory = [], dict(start)
    for lane in range(64):
        seen.append(memory[lane >> 2 & 1])
        memory[lane >> 2 & 1] = meaning(memory[lane >> 2 & 1], int(ran.inputs[lane, 1])) % 2**32
    for lane in range(64):
        memory[lane >> 2 & 1] = meaning(memory[lane >> 2 & 1], int(ran.inputs[lane, 2])) % 2**32
    assert ran.outputs[:, 0].tolist() == seen
    assert ran.outputs[:, 1].tolist() == [memory[lane >> 2 & 1] for lane in range(64)]
