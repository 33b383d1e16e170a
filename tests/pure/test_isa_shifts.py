"""Every shift count, and every offset and width of a bit field, of the entries that have one."""

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from assembly import computed, everywhere, names_of
from formats import signed

WORD, LONG = 0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF
VALUES = (0x8000_0001, 0x7FFF_FFFE, 0xDEAD_BEEF)
COUNTS = (*range(66), 127, 128, 255, 256, 0x8000_0000, WORD)
"""All counts of 64-bit words and more, of which only the low bits count."""

SHIFTS = {
    "v_lshlrev_b32": ("{by}, {x}", lambda x, by, c: x << (by & 31)),
    "v_lshrrev_b32": ("{by}, {x}", lambda x, by, c: x >> (by & 31)),
    "v_ashrrev_i32": ("{by}, {x}", lambda x, by, c: signed(x, 32) >> (by & 31)),
    "v_lshl_add_u32": ("{x}, {by}, {c}", lambda x, by, c: (x << (by & 31)) + c),
    "v_add_lshl_u32": ("{x}, {c}, {by}", lambda x, by, c: (x + c) << (by & 31)),
    "v_lshl_or_b32": ("{x}, {by}, {c}", lambda x, by, c: x << (by & 31) | c),
    "v_alignbit_b32": ("{x}, {c}, {by}", lambda x, by, c: (x << 32 | c) >> (by & 31)),
    "v_alignbyte_b32": ("{x}, {c}, {by}", lambda x, by, c: (x << 32 | c) >> 8 * (by & 3)),
}
HALVES = {
    "v_lshlrev_b16": lambda x, by: x << (by & 15),
    "v_lshrrev_b16": lambda x, by: (x & 0xFFFF) >> (by & 15),
    "v_ashrrev_i16": lambda x, by: signed(x, 16) >> (by & 15),
}
WIDE = {
    "v_lshlrev_b64": lambda x, by: x << (by & 63),
    "v_lshrrev_b64": lambda x, by: x >> (by & 63),
    "v_ashrrev_i64": lambda x, by: signed(x, 64) >> (by & 63),
}


def rows_of(cases, lanes):
    """Kernels' inputs: one case a lane, its words from v1 on."""
    for start in range(0, len(cases), lanes):
        part, rows = cases[start : start + lanes], np.zeros((lanes, 8), np.uint32)
        rows[: len(part), : len(part[0])] = part
        yield part, rows


@pytest.mark.parametrize(("architecture", "name"), everywhere(SHIFTS))
def test_words(architecture, name):
    form, meaning = SHIFTS[name]
    line = f"{name} v12, {form.format(x='v1', by='v2', c='v3')}"
    cases = [(x, by, 0x1234_5678) for x in VALUES for by in COUNTS]
    for part, rows in rows_of(cases, names_of(architecture).lanes):
        got = computed(architecture, line, rows).outputs[: len(part), 2].tolist()
        assert got == [meaning(*case) & WORD for case in part]


@pytest.mark.parametrize(("architecture", "name"), everywhere(HALVES))
def test_halves(architecture, name):
    cases = [(x, by & 0xFFFF) for x in (0x8001, 0x7FFE, 0xBEEF) for by in COUNTS]
    for part, rows in rows_of(cases, names_of(architecture).lanes):
        got = computed(architecture, f"{name} v12, v2, v1", rows).outputs[: len(part), 2]
        assert [int(x) & 0xFFFF for x in got] == [HALVES[name](*case) & 0xFFFF for case in part]


@pytest.mark.parametrize(("architecture", "name"), everywhere(WIDE))
def test_long_words(architecture, name):
    cases = [(0x0000_0001, 0x8000_0000, by) for by in COUNTS] + [(0xDEAD_BEEF, 0x7FFF_0000, by) for by in COUNTS]
    for part, rows in rows_of(cases, names_of(architecture).lanes):
        outputs = computed(architecture, f"{name} v[12:13], v3, v[1:2]", rows).outputs[: len(part), 2:]
        want = [WIDE[name](low | high << 32, by) & LONG for low, high, by in part]
        assert [int(low) | int(high) << 32 for low, high in outputs] == want


def field(x, offset, width, extend):
    offset, width = offset & 31, width & 31
    part = ((signed(x, 32) if extend else x) >> offset) & ((1 << width) - 1)
    return signed(part, width) & WORD if extend and width else part


@pytest.mark.parametrize(("architecture", "name"), everywhere(["v_bfe_u32", "v_bfe_i32"]))
def test_every_field(architecture, name):
    cases = [(0xA5C3_96F1, offset, width) for offset in range(0, 34) for width in (*range(0, 34, 3), 31, 32)]
    for part, rows in rows_of(cases, names_of(architecture).lanes):
        got = computed(architecture, f"{name} v12, v1, v2, v3", rows).outputs[: len(part), 2].tolist()
        assert got == [field(*case, name == "v_bfe_i32") for case in part]


@pytest.mark.parametrize(("architecture", "name"), everywhere(["v_bfm_b32"]))
def test_every_mask(architecture, name):
    cases = [(width, offset) for width in (*range(0, 34, 3), 31, 32, 33) for offset in range(34)]
    for part, rows in rows_of(cases, names_of(architecture).lanes):
        got = computed(architecture, f"{name} v12, v1, v2", rows).outputs[: len(part), 2].tolist()
        assert got == [((1 << (width & 31)) - 1 << (offset & 31)) & WORD for width, offset in part]


@pytest.mark.parametrize(("architecture", "name"), everywhere(["v_perm_b32"]))
def test_every_selector_of_a_byte(architecture, name):
    """Codes 0 to 7 a byte of the second and the first source, 8 to 11 a sign, 12 zero, from 13 on all ones."""
    high, low = 0x8012_7FA5, 0x00C3_9681
    data = low.to_bytes(4, "little") + high.to_bytes(4, "little")

    def byte(code):
        if code < 8:
            return data[code]
        return 255 * (data[2 * (code - 8) + 1] >> 7) if code < 12 else 0 if code == 12 else 255

    cases = [(high, low, code | code << 8 | 0x0706_0000) for code in range(256)]
    for part, rows in rows_of(cases, names_of(architecture).lanes):
        got = computed(architecture, f"{name} v12, v1, v2, v3", rows).outputs[: len(part), 2].tolist()
        want = [byte(code & 255) | byte(code & 255) << 8 | data[6] << 16 | data[7] << 24 for _, _, code in part]
        assert got == want
