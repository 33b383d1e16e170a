"""Every load and store of every address space and of LDS: widths, signs, halves, offsets and masks, by bytes."""

import re

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from assembly import computed, edge_rows, everywhere, names_of

from portkit.emulate.amdgcn.isa import lds, memory

ODD = "0xaaaaaaaa"
OLD = 0x7FC0_1234
"""What v10 holds before a narrow load."""


def is_old(architecture):
    return architecture.startswith("gfx9")


def size_of(form):
    """Bytes of a datum, by the name of its form."""
    if match := re.search(r"dword(?:x(\d+))?", form):
        return 4 * int(match[1] or 1)
    if "byte" in form or re.search(r"[ui]8|b8", form):
        return 1
    if "short" in form or "16" in re.sub(r"d16", "", form):
        return 2
    return int(re.search(r"b(\d+)", form)[1]) // 8


def loaded(form, data, old=OLD):
    """What a load of these bytes leaves in its first register."""
    size, x = len(data), int.from_bytes(data[:4], "little")
    if size >= 4:
        return x
    if re.search(r"sbyte|sshort|i8|i16", form) and x >> (8 * size - 1):
        x -= 1 << 8 * size
    if "d16" not in form:
        return x & 0xFFFF_FFFF
    return old & 0xFFFF | (x & 0xFFFF) << 16 if "hi" in form else old & 0xFFFF_0000 | x & 0xFFFF


def registers(first, size):
    return f"v{first}" if size <= 4 else f"v[{first}:{first + size // 4 - 1}]"


def flat_address(architecture):
    """The lane's row as 64 bits in v[22:23]."""
    carry = "vcc" if is_old(architecture) else "vcc_lo"
    with_carry = "v_addc_co_u32" if is_old(architecture) else "v_add_co_ci_u32"
    return f"v_mov_b32 v23, s5\nv_add_co_u32 v22, {carry}, s4, v20\n{with_carry} v23, {carry}, 0, v23, {carry}\n"


RESOURCE = "s_mov_b32 s8, s4\ns_and_b32 s9, s5, 0xffff\ns_mov_b32 s10, 2048\ns_mov_b32 s11, 0x27000\n"
ROW = "v_lshlrev_b32 v20, 5, v0\n"


def operands(space, offset, architecture):
    """Address operands of a load behind its register, or of a store around it."""
    add, none = f" offset:{offset}" if offset else "", "null" if architecture == "gfx1201" else "0"
    return {
        "global": ("v20, {}, s[4:5]" + add, "v20, s[4:5]" + add),
        "flat": ("v[22:23], {}" + add, "v[22:23]" + add),
        "buffer": (f"{{}}, v20, s[8:11], {none} offen{add}", f"v20, s[8:11], {none} offen{add}"),
        "scratch": ("off, {}, off" + add, "off, off" + add),
    }[space]


def set_up(space, architecture):
    return ROW + {"flat": flat_address(architecture), "buffer": RESOURCE}.get(space, "")


def offsets(size):
    return (0, 1, 3, 13) if size == 1 else (0, 2, 6, 14) if size == 2 else (0, 4, 12)


VECTOR_LOADS = [name for name in memory.TABLE if re.match(r"(global|flat|buffer|scratch)_load_", name)]
VECTOR_STORES = [name for name in memory.TABLE if "_store_" in name]


@pytest.mark.parametrize(("architecture", "name"), everywhere(VECTOR_LOADS))
def test_loads(architecture, name):
    """Odd lanes load, even ones keep what they had."""
    space, _, form = name.partition("_load_")
    size, wide = size_of(form), "dwordx4" if is_old(architecture) else "b128"
    save = f"scratch_store_{wide} off, v[1:4], off\nscratch_store_{wide} off, v[5:8], off offset:16\n"
    mask = f"s_mov_b32 exec_lo, {ODD}\n" + f"s_mov_b32 exec_hi, {ODD}\n" * is_old(architecture)
    every = "s_mov_b32 exec_lo, -1\ns_mov_b32 exec_hi, -1\n"
    for offset in offsets(size):
        line = f"{name} {registers(10, size)}, {operands(space, offset, architecture)[1]}\n"
        body = set_up(space, architecture) + save * (space == "scratch") + f"v_mov_b32 v10, {OLD:#x}\n"
        ran = computed(architecture, body + mask + line + every, scratch=64)
        for lane, (row, out) in enumerate(zip(ran.inputs, ran.outputs, strict=True)):
            data = row.tobytes()[offset : offset + size]
            assert int(out[0]) == (loaded(form, data) if lane % 2 else OLD), (offset, lane)
            if lane % 2 and size > 4:
                assert out[: size // 4].tobytes() == data


def stored(form, words):
    """The bytes that a store puts down."""
    data, size = np.ascontiguousarray(words).tobytes(), size_of(form)
    return data[2 : 2 + size] if "hi" in form else data[:size]


@pytest.mark.parametrize(("architecture", "name"), everywhere(VECTOR_STORES))
def test_stores(architecture, name):
    """Odd lanes store into their rows, or over what they had in scratch memory; nothing else changes."""
    space, _, form = name.partition("_store_")
    size, wide = size_of(form), "dwordx4" if is_old(architecture) else "b128"
    mask = f"s_mov_b32 exec_lo, {ODD}\n" + f"s_mov_b32 exec_hi, {ODD}\n" * is_old(architecture)
    every = "s_mov_b32 exec_lo, -1\ns_mov_b32 exec_hi, -1\n"
    for offset in [x for x in offsets(size) if x + size <= 16]:
        line = f"{name} {operands(space, offset, architecture)[0].format(registers(5, size))}\n"
        before = f"scratch_store_{wide} off, v[1:4], off\n" * (space == "scratch")
        after = f"scratch_load_{wide} v[10:13], off, off\n" * (space == "scratch")
        rows = edge_rows(names_of(architecture).lanes, seed=offset)
        body = set_up(space, architecture) + before + mask + line + every + after
        ran = computed(architecture, body, rows.copy(), scratch=64)
        left = ran.outputs if space == "scratch" else ran.inputs[:, :4]
        for lane, (row, got) in enumerate(zip(rows, left, strict=True)):
            want = bytearray(row[:4].tobytes())
            if lane % 2:
                want[offset : offset + size] = stored(form, row[4:])
            assert np.ascontiguousarray(got).tobytes() == bytes(want), (offset, lane)


# -- scalar loads


@pytest.mark.parametrize(("architecture", "name"), everywhere([n for n in memory.TABLE if n.startswith("s_load_")]))
def test_scalar_loads(architecture, name):
    """An immediate and a register are added; the low two bits of an address of words do not count."""
    form = name.removeprefix("s_load_")
    size = size_of(form)
    count = max(1, size // 4)
    target = "s16" if count == 1 else f"s[16:{15 + count}]"
    for register, offset in ((0, 0), (32, 16), (5, 3), (64, 0x40)):
        moves = "\n".join(f"v_writelane_b32 v10, s{16 + n}, {n}" for n in range(count))
        line = f"s_mov_b32 s8, {register}\n{name} {target}, s[4:5], s8 offset:{offset:#x}\n{moves}"
        ran = computed(architecture, line)
        start = register + offset if size < 4 else register + offset & ~3
        data = ran.inputs.tobytes()[start : start + size]
        want = [loaded(form, data)] if size < 4 else np.frombuffer(data, np.uint32).tolist()
        assert ran.outputs[:count, 0].tolist() == want


# -- LDS

READS = [name for name in lds.TABLE if re.match(r"ds_(read|load)_[ubi]", name)]
WRITES = [name for name in lds.TABLE if re.match(r"ds_(write|store)_b", name)]
TWO = [name for name in lds.TABLE if re.match(r"ds_(read2|load_2addr|write2|store_2addr)", name)]


def lds_names(architecture):
    return ("ds_write_b128", "ds_read_b128") if is_old(architecture) else ("ds_store_b128", "ds_load_b128")


@pytest.mark.parametrize(("architecture", "name"), everywhere(READS))
def test_reads_of_lds(architecture, name):
    form = re.sub(r"ds_(read|load)_", "", name)
    size, write = size_of(form), lds_names(architecture)[0]
    for offset in offsets(size):
        body = f"{ROW}{write} v20, v[1:4] offset:32\n{write} v20, v[5:8] offset:48\nv_mov_b32 v10, {OLD:#x}\n"
        line = f"{name} {registers(10, size)}, v20 offset:{32 + offset}"
        ran = computed(architecture, body + line, shared=4096)
        for row, out in zip(ran.inputs, ran.outputs, strict=True):
            data = row.tobytes()[offset : offset + size]
            assert int(out[0]) == loaded(form, data)
            assert size <= 4 or out[: size // 4].tobytes() == data


@pytest.mark.parametrize(("architecture", "name"), everywhere(WRITES))
def test_writes_of_lds(architecture, name):
    form = re.sub(r"ds_(write|store)_", "", name)
    size, (write, read) = size_of(form), lds_names(architecture)
    for offset in [x for x in offsets(size) if x + size <= 16]:
        body = f"{ROW}{write} v20, v[1:4]\n{name} v20, {registers(5, size)} offset:{offset}\n{read} v[10:13], v20"
        ran = computed(architecture, body, shared=2048)
        for row, out in zip(ran.inputs, ran.outputs, strict=True):
            want = bytearray(row[:4].tobytes())
            want[offset : offset + size] = stored(form, row[4:])
            assert out.tobytes() == bytes(want)


@pytest.mark.parametrize(("architecture", "name"), everywhere(TWO))
def test_two_elements_of_lds(architecture, name):
    """Offsets count elements, or 64 of them."""
    bits, far = int(name[-2:]), "64_" in name
    words, reads = bits // 32, re.match("ds_(read|load)", name)
    old, stride = is_old(architecture), 64 if far else 1
    step = bits // 8 * stride
    single = f"ds_{'write' if old else 'store'}_b{bits}" if reads else f"ds_{'read' if old else 'load'}_b{bits}"
    address = f"v_lshlrev_b32 v20, {2 + words if not far else 1 + words}, v0\n"
    first, second = (0, 1)
    low, high = registers(1, 4 * words), registers(1 + words, 4 * words)
    if reads:
        puts = [f"{single} v20, {reg} offset:{n * step}" for n, reg in ((first, low), (second, high))]
        lines = [*puts, f"{name} {registers(10, 8 * words)}, v20 offset1:1"]
    else:
        puts = [f"{single} {registers(10 + n * words, 4 * words)}, v20 offset:{n * step}" for n in (first, second)]
        lines = [f"{name} v20, {low}, {high} offset1:1", *puts]
    ran = computed(architecture, address + "\n".join(lines), shared=16384)
    assert np.array_equal(ran.outputs[:, : 2 * words], ran.inputs[:, : 2 * words])
