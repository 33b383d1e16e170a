"""Integer, logic and move instructions of PTX on edge operands, against Python's integers."""

import numpy as np
import pytest
from ptx_probe import pairs, results_of, signed

W = 0xFFFF_FFFF
Q = 0xFFFF_FFFF_FFFF_FFFF


def s(x):
    return signed(x, 32)


def toward_zero(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def byte(pair, code):
    found = pair >> 8 * (code & 7) & 0xFF
    return (0xFF if found >> 7 else 0) if code & 8 else found


def chosen(a, b, codes):
    return sum(byte(b << 32 | a, codes >> 4 * place & 15) << 8 * place for place in range(4))


def field(a, place, length, *, sign=False):
    place, length = place & 255, length & 255
    top = a >> 31 if sign else 0
    bits = [(a >> at & 1) if at < 32 else top for at in range(place, place + length)]
    low = sum(bit << number for number, bit in enumerate(bits[:32]))
    if sign and 0 < length < 32 and (a >> min(place + length - 1, 31)) & 1:
        low |= W << length
    return low & W


def placed(a, b, place, length):
    place, length = place & 255, length & 255
    mask = ((1 << length) - 1) << place & W
    return b & ~mask | a << place & mask


def table(a, b, c, code):
    return sum((code >> ((a >> n & 1) << 2 | (b >> n & 1) << 1 | (c >> n & 1)) & 1) << n for n in range(32))


def signs_off(a):
    return ~a & W if a >> 31 else a


def low24(x, sign):
    x &= 0xFF_FFFF
    return x - (1 << 24) if sign and x >> 23 else x


def four(x, sign):
    return [signed(x >> 8 * n & 255, 8) if sign else x >> 8 * n & 255 for n in range(4)]


WORDS = {
    "add.u32": lambda a, b, c: a + b,
    "add.sat.s32": lambda a, b, c: max(-(1 << 31), min((1 << 31) - 1, s(a) + s(b))),
    "sub.s32": lambda a, b, c: a - b,
    "sub.sat.s32": lambda a, b, c: max(-(1 << 31), min((1 << 31) - 1, s(a) - s(b))),
    "mul.lo.s32": lambda a, b, c: a * b,
    "mul.hi.s32": lambda a, b, c: s(a) * s(b) >> 32,
    "mul.hi.u32": lambda a, b, c: a * b >> 32,
    "mul24.lo.s32": lambda a, b, c: low24(a, True) * low24(b, True),
    "mul24.hi.u32": lambda a, b, c: low24(a, False) * low24(b, False) >> 16,
    "min.s32": lambda a, b, c: min(s(a), s(b)),
    "min.u32": lambda a, b, c: min(a, b),
    "max.s32": lambda a, b, c: max(s(a), s(b)),
    "max.u32": lambda a, b, c: max(a, b),
    "div.u32": lambda a, b, c: a // b if b else W,
    "div.s32": lambda a, b, c: toward_zero(s(a), s(b)) if b else W,
    "rem.u32": lambda a, b, c: a % b if b else 0xFFFF_FFFF,
    "rem.s32": lambda a, b, c: s(a) - toward_zero(s(a), s(b)) * s(b) if b else -1,
    "and.b32": lambda a, b, c: a & b,
    "or.b32": lambda a, b, c: a | b,
    "xor.b32": lambda a, b, c: a ^ b,
    "shl.b32": lambda a, b, c: a << b if b < 32 else 0,
    "shr.u32": lambda a, b, c: a >> b if b < 32 else 0,
    "shr.b32": lambda a, b, c: a >> b if b < 32 else 0,
    "shr.s32": lambda a, b, c: s(a) >> min(b, 31),
}
"""Instructions of two words."""

ONE = {
    "neg.s32": lambda a: -a,
    "abs.s32": lambda a: abs(s(a)),
    "not.b32": lambda a: ~a,
    "cnot.b32": lambda a: int(a == 0),
    "popc.b32": lambda a: a.bit_count(),
    "clz.b32": lambda a: 32 - a.bit_length(),
    "bfind.u32": lambda a: a.bit_length() - 1,
    "bfind.s32": lambda a: signs_off(a).bit_length() - 1,
    "bfind.shiftamt.u32": lambda a: 32 - a.bit_length() if a else W,
    "brev.b32": lambda a: int(f"{a:032b}"[::-1], 2),
    "mov.b32": lambda a: a,
    "cvt.u32.u32": lambda a: a,
    "cvt.sat.u32.s32": lambda a: max(s(a), 0),
    "cvt.sat.s32.u32": lambda a: min(a, (1 << 31) - 1),
    "cvt.s32.s8": lambda a: signed(a & 255, 8),
    "cvt.u32.u8": lambda a: a & 255,
    "cvt.s32.s16": lambda a: signed(a & 0xFFFF, 16),
    "cvt.u8.u32": lambda a: a & 255,
    "cvt.s8.s32": lambda a: signed(a & 255, 8),
    "cvt.sat.s8.s32": lambda a: max(-128, min(127, s(a))),
    "cvt.sat.u16.u32": lambda a: min(a, 0xFFFF),
}
"""Of one word."""

THREE = {
    "mad.lo.s32": lambda a, b, c: a * b + c,
    "mad.hi.s32": lambda a, b, c: (s(a) * s(b) >> 32) + c,
    "mad24.lo.u32": lambda a, b, c: low24(a, False) * low24(b, False) + c,
    "sad.s32": lambda a, b, c: c + abs(s(a) - s(b)),
    "sad.u32": lambda a, b, c: c + abs(a - b),
    "bfe.u32": field,
    "bfe.s32": lambda a, b, c: field(a, b, c, sign=True),
    "prmt.b32": chosen,
    "shf.l.wrap.b32": lambda a, b, c: (b << 32 | a) << (c & 31) >> 32,
    "shf.r.wrap.b32": lambda a, b, c: (b << 32 | a) >> (c & 31),
    "shf.l.clamp.b32": lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32,
    "shf.r.clamp.b32": lambda a, b, c: (b << 32 | a) >> min(c, 32),
    "dp4a.u32.u32": lambda a, b, c: sum(x * y for x, y in zip(four(a, False), four(b, False), strict=True)) + c,
    "dp4a.s32.u32": lambda a, b, c: sum(x * y for x, y in zip(four(a, True), four(b, False), strict=True)) + c,
    "dp4a.s32.s32": lambda a, b, c: sum(x * y for x, y in zip(four(a, True), four(b, True), strict=True)) + c,
    "slct.b32.s32": lambda a, b, c: a if s(c) >= 0 else b,
}
"""Of three."""


def hold(line, rows, expected):
    """Run one line, and compare its first result."""
    got = results_of(line, rows)[:, 0]
    wanted = np.array([expected(*map(int, row)) & W for row in rows], np.uint32)
    differing = np.flatnonzero(got != wanted)
    assert not differing.size, (line, *map(hex, rows[differing[0]]), hex(got[differing[0]]), hex(wanted[differing[0]]))


@pytest.mark.parametrize("name", WORDS)
def test_two_words(name):
    hold(f"{name} %o0, %a0, %a1;", pairs()[:, :2], lambda a, b: WORDS[name](a, b, 0))


@pytest.mark.parametrize("name", ONE)
def test_one_word(name):
    hold(f"{name} %o0, %a0;", pairs()[::32, :1], ONE[name])


@pytest.mark.parametrize("name", THREE)
def test_three_words(name):
    hold(f"{name} %o0, %a0, %a1, %a2;", pairs(), THREE[name])


@pytest.mark.parametrize(("place", "length"), [(0, 32), (4, 8), (31, 5), (32, 1), (0, 0), (200, 200)])
def test_bits_put_into_others(place, length):
    hold(f"bfi.b32 %o0, %a0, %a1, {place}, {length};", pairs()[:, :2], lambda a, b: placed(a, b, place, length))


@pytest.mark.parametrize("code", [0x00, 0x80, 0x96, 0xE8, 0xCA, 0xFF])
def test_functions_of_three_bits(code):
    hold(f"lop3.b32 %o0, %a0, %a1, %a2, {code};", pairs()[::7][:128], lambda a, b, c: table(a, b, c, code))


def test_bytes_by_a_mode():
    rows = pairs()
    for mode, codes in {
        "f4e": ("3210", "4321", "5432", "6543"),
        "b4e": ("5670", "6701", "7012", "0123"),
        "rc8": ("0000", "1111", "2222", "3333"),
        "ecl": ("3210", "3211", "3222", "3333"),
        "ecr": ("0000", "1110", "2210", "3210"),
        "rc16": ("1010", "3232", "1010", "3232"),
    }.items():
        hold(
            f"prmt.b32.{mode} %o0, %a0, %a1, %a2;",
            rows,
            lambda a, b, c, codes=codes: chosen(a, b, int(codes[c & 3], 16)),
        )


WIDE = {
    "add.s64": lambda a, b: a + b,
    "sub.u64": lambda a, b: a - b,
    "mul.lo.u64": lambda a, b: a * b,
    "mul.hi.u64": lambda a, b: a * b >> 64,
    "mul.hi.s64": lambda a, b: signed(a, 64) * signed(b, 64) >> 64,
    "min.s64": lambda a, b: min(signed(a, 64), signed(b, 64)),
    "max.u64": max,
    "div.s64": lambda a, b: toward_zero(signed(a, 64), signed(b, 64)) if b else Q,
    "rem.u64": lambda a, b: a % b if b else (1 << 64) - 1,
    "and.b64": lambda a, b: a & b,
    "or.b64": lambda a, b: a | b,
    "xor.b64": lambda a, b: a ^ b,
}
"""Of 64 bits."""


@pytest.mark.parametrize("name", WIDE)
def test_64_bits(name):
    rows = np.concatenate([pairs(), pairs()[::-1, :1]], axis=1)
    got = results_of(f"{name} %l2, %l0, %l1;\nmov.b64 {{%o0, %o1}}, %l2;", rows)
    for row, found in zip(rows.tolist(), got.tolist(), strict=True):
        wanted = WIDE[name](row[1] << 32 | row[0], row[3] << 32 | row[2]) & Q
        assert found[1] << 32 | found[0] == wanted, (name, row)


@pytest.mark.parametrize("by", [0, 1, 31, 32, 63, 64, 200])
def test_shifts_of_64_bits(by):
    rows = pairs()[:64, :2]
    body = f"shl.b64 %l2, %l0, {by};\nshr.s64 %l3, %l0, {by};\nmov.b64 {{%o0, %o1}}, %l2;\nmov.b64 {{%o2, %o3}}, %l3;"
    for row, found in zip(rows.tolist(), results_of(body, rows).tolist(), strict=True):
        whole = row[1] << 32 | row[0]
        assert found[1] << 32 | found[0] == (whole << by if by < 64 else 0) & Q
        assert found[3] << 32 | found[2] == signed(whole, 64) >> min(by, 63) & Q


def test_counts_of_64_bits():
    rows = pairs()[:, :2]
    body = "clz.b64 %o0, %l0;\npopc.b64 %o1, %l0;\nbrev.b64 %l2, %l0;\nmov.b64 {%o2, %o3}, %l2;"
    for row, found in zip(rows.tolist(), results_of(body, rows).tolist(), strict=True):
        whole = row[1] << 32 | row[0]
        assert found[:2] == [64 - whole.bit_length(), whole.bit_count()]
        assert found[3] << 32 | found[2] == int(f"{whole:064b}"[::-1], 2)


@pytest.mark.parametrize("sign", ["u", "s"])
def test_products_of_twice_the_width(sign):
    rows = pairs()
    body = f"mul.wide.{sign}32 %l2, %a0, %a1;\nmov.b64 {{%o0, %o1}}, %l2;\nmul.wide.{sign}16 %o2, %h0, %h1;"
    value = signed if sign == "s" else lambda x, width: x
    for row, found in zip(rows.tolist(), results_of(body, rows).tolist(), strict=True):
        assert found[1] << 32 | found[0] == value(row[0], 32) * value(row[1], 32) & Q
        assert found[2] == value(row[0] & 0xFFFF, 16) * value(row[1] & 0xFFFF, 16) & W


def test_carries():
    """Sums, differences and products of 64 bits by halves."""
    rows = np.concatenate([pairs(), pairs()[::-1, :1]], axis=1)
    add = "add.cc.u32 %o0, %a0, %a2;\naddc.u32 %o1, %a1, %a3;\n"
    sub = "sub.cc.u32 %o2, %a0, %a2;\nsubc.u32 %o3, %a1, %a3;"
    for row, found in zip(rows.tolist(), results_of(add + sub, rows).tolist(), strict=True):
        left, right = row[1] << 32 | row[0], row[3] << 32 | row[2]
        assert found[1] << 32 | found[0] == left + right & Q
        assert found[3] << 32 | found[2] == left - right & Q
    body = "mad.lo.cc.u32 %o0, %a0, %a1, %a2;\nmadc.hi.u32 %o1, %a0, %a1, %a3;"
    for row, found in zip(rows.tolist(), results_of(body, rows).tolist(), strict=True):
        assert found[1] << 32 | found[0] == row[0] * row[1] + (row[3] << 32 | row[2]) & Q


@pytest.mark.parametrize(
    "name", ["add.s16", "sub.s16", "mul.lo.s16", "min.s16", "max.u16", "div.u16", "rem.u16", "and.b16"]
)
def test_16_bits(name):
    function = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "min": lambda a, b: min(signed(a, 16), signed(b, 16)),
        "max": max,
        "div": lambda a, b: a // b if b else 0xFFFF,
        "rem": lambda a, b: a % b if b else 0xFFFF,
        "and": lambda a, b: a & b,
    }[name.partition(".")[0]]
    body = f"{name} %h8, %h0, %h1;\ncvt.u32.u16 %o0, %h8;"
    hold(body, pairs()[:, :2], lambda a, b: function(a & 0xFFFF, b & 0xFFFF) & 0xFFFF)


def test_masks_and_extensions():
    rows = np.array(
        [[place, length, 0x1234_89AB] for place in (0, 3, 31, 32, 40) for length in (0, 1, 8, 31, 32, 40, 33)]
    )
    rows = np.resize(rows, (64, 3)).astype(np.uint32)
    hold("bmsk.clamp.b32 %o0, %a0, %a1;", rows, lambda a, b, c: ((1 << min(b, 32)) - 1) << min(a, 32))
    hold("bmsk.wrap.b32 %o0, %a0, %a1;", rows, lambda a, b, c: ((1 << (b & 31)) - 1) << (a & 31))
    hold("szext.clamp.u32 %o0, %a2, %a1;", rows, lambda a, b, c: c & (1 << min(b, 32)) - 1)
    hold(
        "szext.wrap.s32 %o0, %a2, %a1;",
        rows,
        lambda a, b, c: signed(c & (1 << (b & 31)) - 1, b & 31) if b & 31 else 0,
    )


def test_selections_and_predicates():
    rows = pairs()
    body = """setp.lt.s32 %p0|%p1, %a0, %a1;
    selp.b32 %o0, %a0, %a1, %p0;
    selp.b32 %o1, 1, 0, %p1;
    setp.ge.and.u32 %p2, %a0, %a2, !%p0;
    @%p2 mov.b32 %o2, 7;
    @!%p2 mov.b32 %o2, 9;
    set.eq.u32.u32 %o3, %a0, %a1;"""
    for (a, b, c), found in zip(rows.tolist(), results_of(body, rows).tolist(), strict=True):
        less = s(a) < s(b)
        assert found == [a if less else b, int(not less), 7 if a >= c and not less else 9, W if a == b else 0]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("eq", lambda a, b: a == b),
        ("ne", lambda a, b: a != b),
        ("lt.s32", lambda a, b: s(a) < s(b)),
        ("le.u32", lambda a, b: a <= b),
        ("gt.s32", lambda a, b: s(a) > s(b)),
        ("hi.u32", lambda a, b: a > b),
        ("lo.u32", lambda a, b: a < b),
        ("hs.u32", lambda a, b: a >= b),
        ("ls.u32", lambda a, b: a <= b),
    ],
)
def test_comparisons_of_integers(test, expected):
    name = test if "." in test else f"{test}.b32"
    body = f"setp.{name} %p0, %a0, %a1;\nselp.b32 %o0, 1, 0, %p0;"
    hold(body, pairs()[:, :2], lambda a, b: int(expected(a, b)))
