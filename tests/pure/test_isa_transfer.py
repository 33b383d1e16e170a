"""Transposing loads against the matrix they transpose, and loads that go straight to LDS."""

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from wide_assembly import passed, wide

WORDS = np.random.default_rng(2).integers(0, 2**32, (64, 4), dtype=np.uint64).astype(np.uint32)


def elements(words, bits):
    """The elements of a row of words, lowest first."""
    whole = sum(int(word) << 32 * n for n, word in enumerate(words))
    return [whole >> bits * n & ((1 << bits) - 1) for n in range(32 * len(words) // bits)]


@pytest.mark.parametrize(
    ("name", "count", "bits"),
    [
        ("ds_read_b64_tr_b16", 2, 16),
        ("ds_read_b64_tr_b8", 2, 8),
        ("ds_read_b64_tr_b4", 2, 4),
        ("ds_read_b96_tr_b6", 3, 6),
    ],
)
@pytest.mark.parametrize("offset", [0, 64])
def test_transposed(name, count, bits, offset):
    """16 lanes hold rows of 16 elements, one behind the other; lane n gets column n."""
    store = {2: "ds_write_b64 v40, v[32:33]", 3: "ds_write_b96 v40, v[32:34]"}[count]
    body = f"""v_mul_u32_u24_e32 v40, {4 * count}, v0
{store} offset:{offset}
s_waitcnt lgkmcnt(0)
{name} v[48:{47 + count}], v40 offset:{offset}
s_waitcnt lgkmcnt(0)"""
    inputs = WORDS[:, :count]
    got = passed("gfx950", body, inputs, (48, count), shared=1024)
    for group in range(4):
        flat = [x for row in inputs[16 * group : 16 * group + 16] for x in elements(row, bits)]
        rows = [flat[n : n + 16] for n in range(0, len(flat), 16)]
        for lane in range(16):
            assert elements(got[16 * group + lane], bits) == [row[lane] for row in rows]


def test_transposed_with_lanes_disabled_is_refused():
    body = "v_mov_b32_e32 v40, 0\ns_mov_b64 exec, 0xff\nds_read_b64_tr_b16 v[48:49], v40\ns_mov_b64 exec, -1"
    emulation, _ = wide("gfx950", body, WORDS, (48, 2), shared=1024)
    assert emulation.outcome.status == "unsupported"
    assert "lanes disabled" in emulation.outcome.message


# -- to LDS

RESOURCE = """s_mov_b32 s8, s4
s_and_b32 s9, s5, 0xffff
s_mov_b32 s10, {records}
s_mov_b32 s11, 0x27000
v_mov_b32_e32 v41, 0
v_lshlrev_b32_e32 v40, 2, v0
ds_write_b32 v40, v41 offset:128
ds_write_b32 v40, v41 offset:384
ds_write_b32 v40, v41 offset:640
ds_write_b32 v40, v41 offset:896
s_mov_b32 m0, 128
v_mul_u32_u24_e32 v40, 16, v0
"""
"""A buffer over the inputs, 1 KiB of zeros in LDS from byte 128 on, and each lane's row of four words."""


def read_back(size):
    """Each lane's data, as they lie one behind the other in LDS."""
    loads = [f"ds_read_b32 v{48 + n}, v42 offset:{128 + 4 * n}" for n in range(size // 4)]
    return "\n".join(
        ["s_waitcnt vmcnt(0) lgkmcnt(0)", f"v_mul_u32_u24_e32 v42, {size}, v0", *loads, "s_waitcnt lgkmcnt(0)"]
    )


FORMS = [("gfx942", "dword", 4), ("gfx950", "dword", 4), ("gfx950", "dwordx3", 12), ("gfx950", "dwordx4", 16)]


@pytest.mark.parametrize(("architecture", "width", "size"), FORMS)
def test_buffer_to_lds(architecture, width, size):
    body = RESOURCE.format(records=1024) + f"buffer_load_{width} v40, s[8:11], 0 offen lds\n" + read_back(size)
    got = passed(architecture, body, WORDS, (48, size // 4), shared=2048)
    assert np.array_equal(got, WORDS[:, : size // 4])


@pytest.mark.parametrize(
    ("architecture", "width", "size"),
    [pytest.param(*form, id=f"{form[0]}-global_load_lds_{form[1]}") for form in FORMS],
)
def test_global_to_lds(architecture, width, size):
    line = f"s_nop 0\nglobal_load_lds_{width} v40, s[4:5]\n"
    got = passed(architecture, RESOURCE.format(records=0) + line + read_back(size), WORDS, (48, size // 4), shared=2048)
    assert np.array_equal(got, WORDS[:, : size // 4])


def test_offset_counts_on_both_sides():
    """The instruction's offset is added to the address in memory and to that in LDS."""
    line = "s_mov_b32 m0, 124\nbuffer_load_dword v40, s[8:11], 0 offen offset:4 lds\n"
    got = passed("gfx950", RESOURCE.format(records=1024) + line + read_back(4), WORDS, (48, 1), shared=2048)
    assert np.array_equal(got[:, 0], WORDS[:, 1])


def test_lanes_beyond_the_records_write_zeros():
    """Lanes from 32 on are beyond num_records; Triton's mask offset keeps that from being a finding."""
    line = """v_mov_b32_e32 v43, 0x80000000
v_cmp_gt_u32_e32 vcc, 32, v0
v_cndmask_b32_e32 v40, v43, v40, vcc
v_mov_b32_e32 v41, -1
v_lshlrev_b32_e32 v44, 2, v0
ds_write_b32 v44, v41 offset:128
buffer_load_dword v40, s[8:11], 0 offen lds
"""
    got = passed("gfx950", RESOURCE.format(records=512) + line + read_back(4), WORDS, (48, 1), shared=2048)
    assert np.array_equal(got[:32, 0], WORDS[:32, 0])
    assert not got[32:].any()


def test_disabled_lanes_keep_their_place():
    line = "s_mov_b64 exec, 0xf0\nbuffer_load_dword v40, s[8:11], 0 offen lds\ns_mov_b64 exec, -1\n"
    got = passed("gfx950", RESOURCE.format(records=1024) + line + read_back(4), WORDS, (48, 1), shared=2048)
    want = np.where((np.arange(64) >= 4) & (np.arange(64) < 8), WORDS[:, 0], 0)
    assert np.array_equal(got[:, 0], want)


def test_beyond_the_end_of_lds_is_found():
    line = "s_mov_b32 m0, 2000\nbuffer_load_dword v40, s[8:11], 0 offen lds\n"
    emulation, _ = wide("gfx950", RESOURCE.format(records=1024) + line, WORDS, (48, 1), shared=2048)
    assert emulation.outcome.status == "out_of_bounds"
    assert emulation.findings[0].kind == "shared_out_of_bounds"


@pytest.mark.parametrize(
    ("architecture", "line", "cause"),
    [
        ("gfx942", "buffer_load_dwordx4 v40, s[8:11], 0 offen lds", "16 bytes"),
        ("gfx942", "global_load_lds_dwordx4 v40, s[4:5]", "gfx942 has no"),
        ("gfx942", "ds_read_b64_tr_b16 v[48:49], v40", "gfx942 has no"),
        ("gfx950", "buffer_load_ushort v40, s[8:11], 0 offen lds", "LDS"),
    ],
)
def test_refused(architecture, line, cause):
    emulation, _ = wide(architecture, line, WORDS, (48, 1), shared=1024)
    assert emulation.outcome.status == "unsupported"
    assert cause in emulation.outcome.message
