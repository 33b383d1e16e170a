"""Scalar entries of 64 bits, on EXEC, by immediates, of single bits and of floats: results and SCC on edges."""

import math
import operator
from dataclasses import dataclass

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from assembly import computed, everywhere, names_of
from float_references import extreme, fractional, fused, product, rounded, to_integer
from formats import F16, F32, signed

from portkit.emulate.amdgcn.isa import scalar

WORD, LONG = 0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF
BEFORE = 0x5A5A_5A5A_5A5A_5A5A
"""What the destination holds before."""

LONGS = (0, 1, 63, 64, 0x8000_0000, WORD, 1 << 32, 1 << 63, (1 << 63) - 1, LONG, 0x0123_4567_89AB_CDEF)
WORDS = (0, 1, 2, 31, 32, 33, 0x7FFF_FFFF, 0x8000_0000, WORD, 0xDEAD_BEEF, 0xFFFF_8000, 0xFFFF)
FLOATS = (
    *map(F32.bits, (0.0, -0.0, 1.0, -1.0, 1.5, -2.5, 0.5, 1e-40, -1e-45, 3.4e38, -3e9, 4e9, 2.0**31, 1e-3)),
    *(0x7F80_0000, 0xFF80_0000, 0x7FC0_0000, 0x3EFF_FFFF, 0x4B00_0001),
)


@dataclass(frozen=True)
class Ran:
    """What one lane's instruction left."""

    result: int
    scc: int


def words(x):
    return [x & WORD, x >> 32]


LOAD = "\n".join(f"v_readfirstlane_b32 s{8 + n}, v{1 + n}" for n in range(6))
SAVE = "s_cselect_b32 s16, 1, 0\n" + "\n".join(f"v_mov_b32 v{10 + n}, s{14 + n}" for n in range(3))


def run_rows(architecture, lines, rows, *, scc=0):
    """Run the lines once for each row: operands in s[8:9], s[10:11], s[12:13], result in s[14:15].

    Each row has a wave of its own.
    """
    lanes = names_of(architecture).lanes
    most, ran = 1024 // lanes, []
    before = [f"s_mov_b32 s{14 + n}, {word:#x}" for n, word in enumerate(words(BEFORE))]
    body = "\n".join([LOAD, *before, f"s_cmp_eq_u32 1, {scc}", *lines, SAVE])
    for start in range(0, len(rows), most):
        part = rows[start : start + most]
        inputs = np.zeros((len(part), lanes, 8), np.uint32)
        for wave, row in enumerate(part):
            inputs[wave, 0, : 2 * len(row)] = [word for x in row for word in words(x)]
        outputs = computed(architecture, body, inputs.reshape(-1, 8), waves=len(part)).outputs[::lanes, :3]
        ran += [Ran(int(low) | int(high) << 32, int(flag)) for low, high, flag in outputs]
    return ran


def check(architecture, line, rows, meaning, *, bits=32, scc=0):
    """``meaning`` gives result and SCC, None where it is left as it was."""
    for row, ran in zip(rows, run_rows(architecture, [line], rows, scc=scc), strict=True):
        result, flag = meaning(*row)
        want = result & ((1 << bits) - 1)
        got = ran.result & ((1 << bits) - 1)
        assert (got, ran.scc) == (want, scc if flag is None else flag), (architecture, [*map(hex, row)], hex(got))


def pairs(edges):
    return [(a, b) for a in edges for b in edges]


def not_zero(function, bits):
    """SCC says whether the result is not zero."""

    def meaning(*values):
        result = function(*values) & ((1 << bits) - 1)
        return result, int(result != 0)

    return meaning


# -- 64 bits

LOGIC = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
    "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b,
    "and_not1": lambda a, b: a & ~b,
    "or_not1": lambda a, b: a | ~b,
}


@pytest.mark.parametrize(("architecture", "name"), everywhere([f"s_{name}_b64" for name in LOGIC]))
def test_logic(architecture, name):
    function = LOGIC[name[2:].removesuffix("_b64")]
    check(architecture, f"{name} s[14:15], s[8:9], s[10:11]", pairs(LONGS), not_zero(function, 64), bits=64)


SAVING = [name for name in scalar.TABLE if "_saveexec_" in name]


@pytest.mark.parametrize(("architecture", "name"), everywhere(SAVING))
def test_saveexec(architecture, name):
    """The old EXEC to the destination; source and old EXEC, in that order, to EXEC; SCC: EXEC is not zero."""
    bits, function = int(name[-2:]), LOGIC[name[2:-13]]
    source, target, execute = ("s[8:9]", "s[14:15]", "exec") if bits == 64 else ("s8", "s14", "exec_lo")
    for before in (0, 1, 0x8000_0000, WORD, 0xF0F0_1234_00FF_00FF & ((1 << bits) - 1), (1 << bits) - 1):
        rows = [(x & ((1 << bits) - 1),) for x in LONGS]
        setting = [f"s_mov_b32 exec_{part}, {word:#x}" for part, word in zip(("lo", "hi"), words(before), strict=True)]
        line = f"{name} {target}, {source}"
        restore = [f"s_mov_b{bits} s[18:19], {execute}" if bits == 64 else f"s_mov_b32 s18, {execute}"]
        every = f"s_mov_b{bits} {execute}, -1"
        saved = run_rows(architecture, [*setting[: bits // 32], line, *restore, every], rows)
        taken = [
            *setting[: bits // 32],
            line,
            *restore,
            every,
            f"s_mov_b{bits} {target}, {'s[18:19]' if bits == 64 else 's18'}",
        ]
        after = run_rows(architecture, taken, rows)
        for (x,), old, new in zip(rows, saved, after, strict=True):
            want = function(x, before) & ((1 << bits) - 1)
            assert (old.result & ((1 << bits) - 1), new.result & ((1 << bits) - 1)) == (before, want)
            assert old.scc == int(want != 0)


def field64(x, packed):
    width = packed >> 16 & 127
    return x >> (packed & 63) & ((1 << min(width, 64)) - 1)


FIELDS = [(x, offset | width << 16) for x in LONGS for offset in (0, 1, 31, 32, 63) for width in (0, 1, 33, 63, 64)]
UNARY = {
    "s_not_b64": (64, not_zero(lambda a: ~a, 64)),
    "s_bcnt1_i32_b64": (32, not_zero(lambda a: a.bit_count(), 32)),
    "s_bcnt0_i32_b64": (32, not_zero(lambda a: 64 - a.bit_count(), 32)),
    "s_mov_b64": (64, lambda a: (a, None)),
}


@pytest.mark.parametrize(("architecture", "name"), everywhere(UNARY))
def test_one_operand(architecture, name):
    bits, meaning = UNARY[name]
    check(
        architecture, f"{name} {'s[14:15]' if bits == 64 else 's14'}, s[8:9]", [(x,) for x in LONGS], meaning, bits=bits
    )


def sign_run(a):
    return leading(~a & ((1 << 64) - 1) if a >> 63 else a)


def leading(a):
    return 64 - a.bit_length() if a else 0xFFFF_FFFF


def trailing(a):
    return (a & -a).bit_length() - 1 if a else 0xFFFF_FFFF


OF_64_BITS = {
    "gfx942": {"s_ff1_i32_b64": trailing, "s_flbit_i32_b64": leading, "s_flbit_i32_i64": sign_run},
    "gfx1201": {"s_ctz_i32_b64": trailing, "s_clz_i32_u64": leading, "s_cls_i32_i64": sign_run},
}


@pytest.mark.parametrize(("architecture", "name"), [(each, name) for each in OF_64_BITS for name in OF_64_BITS[each]])
def test_places_of_bits_in_64(architecture, name):
    values = [*LONGS, *(1 << n for n in (0, 1, 31, 32, 62, 63)), *((1 << 64) - (1 << n) for n in (1, 31, 32, 63))]
    meaning = OF_64_BITS[architecture][name]
    check(architecture, f"{name} s14, s[8:9]", [(x,) for x in values], lambda a: (meaning(a), None), bits=32)


@pytest.mark.parametrize(("architecture", "name"), everywhere(["s_bfe_u64"]))
def test_field(architecture, name):
    check(architecture, f"{name} s[14:15], s[8:9], s10", FIELDS, not_zero(field64, 64), bits=64)


@pytest.mark.parametrize(("architecture", "name"), everywhere(["s_bfm_b64"]))
def test_mask_of_width_and_offset(architecture, name):
    rows = [(a, b) for a in (0, 1, 31, 32, 63, 64, 100) for b in (0, 1, 32, 63, 65)]
    check(
        architecture, f"{name} s[14:15], s8, s10", rows, lambda a, b: (((1 << (a & 63)) - 1) << (b & 63), None), bits=64
    )


@pytest.mark.parametrize(
    ("architecture", "name"), everywhere(["s_cselect_b32", "s_cselect_b64", "s_cmov_b32", "s_cmov_b64"])
)
@pytest.mark.parametrize("scc", [0, 1])
def test_selection(architecture, name, scc):
    bits, binary = int(name[-2:]), "cselect" in name
    target, left, right = ("s[14:15]", "s[8:9]", "s[10:11]") if bits == 64 else ("s14", "s8", "s10")
    operands = f"{left}, {right}" if binary else left
    other = lambda b: b if binary else BEFORE  # noqa: E731
    check(
        architecture,
        f"{name} {target}, {operands}",
        pairs(LONGS[:6]),
        lambda a, b: (a if scc else other(b), None),
        bits=bits,
        scc=scc,
    )


# -- comparisons and single bits

RELATIONS = {
    "eq": operator.eq,
    "lg": operator.ne,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
}


def compared(function):
    """Only SCC is written."""
    return lambda *values: (BEFORE, int(function(*values)))


@pytest.mark.parametrize(
    ("architecture", "name"),
    everywhere([f"s_cmp_{c}_{k}" for c in RELATIONS for k in ("i32", "u32")] + ["s_cmp_eq_u64", "s_cmp_lg_u64"]),
)
def test_comparisons(architecture, name):
    _, _, condition, kind = name.split("_")
    convert = (lambda x: signed(x, 32)) if kind == "i32" else int
    operands = "s[8:9], s[10:11]" if kind == "u64" else "s8, s10"
    meaning = compared(lambda a, b: RELATIONS[condition](convert(a), convert(b)))
    check(architecture, f"{name} {operands}", pairs(LONGS if kind == "u64" else WORDS), meaning)


@pytest.mark.parametrize(
    ("architecture", "name"), everywhere([f"s_cmpk_{c}_{k}" for c in RELATIONS for k in ("i32", "u32")])
)
def test_comparisons_with_an_immediate(architecture, name):
    """The 16 bits are a signed number of an i32, an unsigned one of a u32."""
    _, _, condition, kind = name.split("_")
    for immediate in (0, 1, 0x7FFF, 0x8000, 0xFFFF, -1 if kind == "i32" else 2):
        right = signed(immediate, 16) if kind == "i32" else immediate
        convert = (lambda x: signed(x, 32)) if kind == "i32" else int
        meaning = compared(lambda a, right=right, convert=convert: RELATIONS[condition](convert(a), right))
        check(architecture, f"{name} s8, {immediate:#x}", [(x,) for x in WORDS], meaning)


UNORDERED = {
    **RELATIONS,
    "lg": lambda a, b: a < b or a > b,
    "o": lambda a, b: not (math.isnan(a) or math.isnan(b)),
    "u": lambda a, b: math.isnan(a) or math.isnan(b),
    "neq": operator.ne,
    "nlt": lambda a, b: not a < b,
    "nle": lambda a, b: not a <= b,
    "ngt": lambda a, b: not a > b,
    "nge": lambda a, b: not a >= b,
    "nlg": lambda a, b: not (a < b or a > b),
}


@pytest.mark.parametrize(("architecture", "name"), everywhere([f"s_cmp_{c}_f32" for c in UNORDERED]))
def test_comparisons_of_floats(architecture, name):
    condition = name.split("_")[2]
    meaning = compared(lambda a, b: UNORDERED[condition](F32.value(a), F32.value(b)))
    check(architecture, f"{name} s8, s10", pairs(FLOATS[::2] + FLOATS[-3:]), meaning)


@pytest.mark.parametrize(
    ("architecture", "name"), everywhere([f"s_bitcmp{to}_b{bits}" for to in (0, 1) for bits in (32, 64)])
)
def test_one_bit_compared(architecture, name):
    bits, to = int(name[-2:]), int(name[8])
    rows = [(a & ((1 << bits) - 1), bit) for a in LONGS for bit in (0, 1, 31, 32, 33, 63, 64)]
    meaning = compared(lambda a, bit: (a >> (bit & (bits - 1)) & 1) == to)
    check(architecture, f"{name} {'s[8:9]' if bits == 64 else 's8'}, s10", rows, meaning)


@pytest.mark.parametrize(("architecture", "name"), everywhere(["s_bitset0_b32", "s_bitset1_b32"]))
def test_one_bit_set(architecture, name):
    old = BEFORE & WORD

    def meaning(bit):
        mask = 1 << (bit & 31)
        return (old | mask if name[8] == "1" else old & ~mask), None

    check(architecture, f"{name} s14, s8", [(bit,) for bit in (0, 1, 15, 30, 31, 32, 47, 63)], meaning)


# -- immediates


@pytest.mark.parametrize(
    ("architecture", "name"), everywhere(["s_movk_i32", "s_addk_i32", "s_addk_co_i32", "s_mulk_i32"])
)
@pytest.mark.parametrize("immediate", [0, 1, 0x7FFF, 0x8000, 0xFFFF, -3])
def test_immediates(architecture, name, immediate):
    value = signed(immediate, 16)

    def meaning(a):
        if "mov" in name:
            return value, None
        exact = signed(a, 32) + value if "add" in name else signed(a, 32) * value
        return exact, int(not -(2**31) <= exact < 2**31) if "add" in name else None

    ran = run_rows(architecture, ["s_mov_b32 s14, s8", f"{name} s14, {immediate:#x}"], [(x,) for x in WORDS])
    for x, one in zip(WORDS, ran, strict=True):
        result, flag = meaning(x)
        assert (one.result & WORD, one.scc) == (result & WORD, flag or 0)


# -- floats

BINARY = {
    "s_add_f32": fractional(F32, operator.add),
    "s_sub_f32": fractional(F32, operator.sub),
    "s_mul_f32": fractional(F32, product),
    "s_max_f32": extreme(F32, max),
    "s_min_f32": extreme(F32, min),
    "s_max_num_f32": extreme(F32, max),
    "s_min_num_f32": extreme(F32, min),
}
ALONE = {
    "s_rndne_f32": rounded(F32, round),
    "s_floor_f32": rounded(F32, math.floor),
    "s_ceil_f32": rounded(F32, math.ceil),
    "s_trunc_f32": rounded(F32, math.trunc),
    "s_cvt_f32_i32": lambda a: F32.bits(float(signed(a, 32))),
    "s_cvt_f32_u32": lambda a: F32.bits(float(a)),
    "s_cvt_f32_f16": lambda a: F32.bits(F16.value(a & 0xFFFF)),
    "s_cvt_hi_f32_f16": lambda a: F32.bits(F16.value(a >> 16)),
    "s_cvt_i32_f32": to_integer(F32, -(2**31), 2**31 - 1),
    "s_cvt_u32_f32": to_integer(F32, 0, 2**32 - 1),
}
HALVES = (0x8000, 0x0001, 0x83FF, 0x3C00, 0x7BFF, 0x7C00, 0xFC00, 0x7E01, 0xABCD3555)
"""Numbers of 16 bits, the last with bits above them: zeros, denormals, 1, the largest, infinities, NaN, a third."""


def check_floats(architecture, lines, rows, meaning, floats=True):
    for row, ran in zip(rows, run_rows(architecture, lines, rows), strict=True):
        got, want = ran.result & WORD, meaning(*row) & WORD
        assert F32.same(got, want) if floats else got == want, ([*map(hex, row)], hex(got), hex(want))
        assert ran.scc == 0


@pytest.mark.parametrize(("architecture", "name"), everywhere(BINARY))
def test_floats(architecture, name):
    check_floats(architecture, [f"{name} s14, s8, s10"], pairs(FLOATS[::2] + FLOATS[-3:]), BINARY[name])


@pytest.mark.parametrize(("architecture", "name"), everywhere(ALONE))
def test_floats_alone(architecture, name):
    rows = [(x,) for x in (*FLOATS, *WORDS, *HALVES, *(half << 16 & 0xFFFFFFFF for half in HALVES))]
    check_floats(architecture, [f"{name} s14, s8"], rows, ALONE[name], "cvt_i" not in name and "cvt_u" not in name)


@pytest.mark.parametrize(("architecture", "name"), everywhere(["s_fmac_f32", "s_fmaak_f32", "s_fmamk_f32"]))
def test_product_and_sum(architecture, name):
    texts = {"s_fmac_f32": "s8, s10", "s_fmaak_f32": "s8, s10, 0x3fc00000", "s_fmamk_f32": "s8, 0x3fc00000, s10"}
    lines = ["s_mov_b32 s14, s12", f"{name} s14, {texts[name]}"]
    rows = [(a, b, c) for a in FLOATS[::3] for b in FLOATS[::4] for c in FLOATS[::5]]

    def meaning(a, b, c):
        orders = {"s_fmac_f32": (a, b, c), "s_fmaak_f32": (a, b, 0x3FC0_0000), "s_fmamk_f32": (a, 0x3FC0_0000, b)}
        return fractional(F32, fused)(*orders[name])

    check_floats(architecture, lines, rows, meaning)


def power(x):
    return 2.0**x if abs(x) < 1000 or math.isnan(x) else math.inf if x > 0 else 0.0


def logarithm(x):
    return -math.inf if x == 0 else math.nan if x < 0 or math.isnan(x) else x if math.isinf(x) else math.log2(x)


def reciprocal(x):
    return math.copysign(math.inf, x) if x == 0 else 1 / x


def root(x):
    return x if x == 0 else math.nan if x < 0 or math.isnan(x) else math.sqrt(x)


APPROXIMATE = {
    "v_s_exp_f32": power,
    "v_s_log_f32": logarithm,
    "v_s_rcp_f32": reciprocal,
    "v_s_rsq_f32": lambda x: reciprocal(root(x)),
    "v_s_sqrt_f32": root,
}


@pytest.mark.parametrize(("architecture", "name"), everywhere(APPROXIMATE))
def test_approximate_functions(architecture, name):
    """Denormals are taken and given as zeros; elsewhere one step at most from Python's own."""
    small = 2.0**-126
    for bits, ran in zip(FLOATS, run_rows(architecture, [f"{name} s14, s8"], [(x,) for x in FLOATS]), strict=True):
        x = F32.value(bits)
        want = APPROXIMATE[name](math.copysign(0.0, x) if abs(x) < small else x)
        got = F32.value(ran.result & WORD)
        if abs(want) < small or not math.isfinite(want):
            assert F32.same(ran.result & WORD, F32.bits(want if not abs(want) < small else math.copysign(0.0, want)))
        else:
            assert got == pytest.approx(want, rel=2.0**-23)
