"""Matrix products against sums of rationals; places of elements from the ISA documents' layout tables."""

import dataclasses
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from wide_assembly import FIRST, passed, wide

# -- numbers by their bits, written out here on purpose


def small(bits, exponent_bits, mantissa_bits, bias):
    """Value of a small float without regard to infinities and NaNs."""
    sign = -1 if bits >> (exponent_bits + mantissa_bits) else 1
    exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1)
    fraction = Fraction(bits & ((1 << mantissa_bits) - 1), 1 << mantissa_bits)
    if exponent == 0:
        return sign * fraction * Fraction(2) ** (1 - bias)
    return sign * (1 + fraction) * Fraction(2) ** (exponent - bias)


def signed(bits, width):
    return Fraction(bits - (1 << width) if bits >> (width - 1) else bits)


DECODE = {
    "f32": (32, lambda b: small(b, 8, 23, 127)),
    "xf32": (32, lambda b: small(b >> 13, 8, 10, 127)),
    "f16": (16, lambda b: small(b, 5, 10, 15)),
    "bf16": (16, lambda b: small(b, 8, 7, 127)),
    "f64": (64, lambda b: small(b, 11, 52, 1023)),
    "i8": (8, lambda b: signed(b, 8)),
    "u8": (8, Fraction),
    "i4": (4, lambda b: signed(b, 4)),
    "u4": (4, Fraction),
    "fp8": (8, lambda b: small(b, 4, 3, 7)),
    "bf8": (8, lambda b: small(b, 5, 2, 15)),
    "fp8 fnuz": (8, lambda b: small(b, 4, 3, 8)),
    "bf8 fnuz": (8, lambda b: small(b, 5, 2, 16)),
    "fp6": (6, lambda b: small(b, 2, 3, 1)),
    "bf6": (6, lambda b: small(b, 3, 2, 3)),
    "fp4": (4, lambda b: small(b, 2, 1, 1)),
}


def ordinary(rng, kind, count):
    """Bits of numbers whose products sum exactly in float64."""
    width = DECODE[kind][0]
    if kind in {"f32", "xf32"}:
        return (rng.integers(-64, 64, count) / 8).astype(np.float32).view(np.uint32)
    if kind == "f64":
        return (rng.integers(-64, 64, count) / 8).astype(np.float64).view(np.uint64)
    if kind == "f16":
        return (rng.integers(-64, 64, count) / 8).astype(np.float16).view(np.uint16)
    if kind == "bf16":
        return ((rng.integers(-64, 64, count) / 8).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    bits = rng.integers(0, 1 << width, count)
    unlike_numbers = {"fp8": [0x7F, 0xFF], "bf8": [0x7C, 0x7D, 0x7E, 0x7F, 0xFC, 0xFD, 0xFE, 0xFF]}
    return np.where(np.isin(bits, unlike_numbers.get(kind, [0x80] if "fnuz" in kind else [])), 1, bits)


# -- places


@dataclass(frozen=True)
class Case:
    """One instruction: shape, types, and where its elements lie."""

    architecture: str
    mnemonic: str
    shape: tuple  # rows, columns, depth
    kinds: tuple
    result: str = "f32"
    blocks: int = 1
    modifiers: str = ""

    @property
    def lanes(self):
        return 64 if self.architecture.startswith("gfx9") else 32

    @property
    def doubled(self):
        """gfx11 repeats A and B in the upper lanes."""
        return self.architecture.startswith("gfx11")

    def held(self, kind):
        """Elements of A or B a lane."""
        lanes = 16 if self.doubled else self.lanes
        return self.shape[0] * self.shape[2] * self.blocks // lanes

    def source(self, side, i, k, block):
        """(lane, element) of A[i][k] or B[k][i]."""
        per = self.held(self.kinds[side])
        if "f8f6f4" in self.mnemonic and DECODE[self.kinds[side]][0] == 8:
            groups = self.lanes // self.shape[0]
            run, rest = divmod(k, 16 * groups)
            return i + self.shape[0] * (rest // 16), 16 * run + rest % 16
        return i + self.shape[0] * (block + self.blocks * (k // per)), k % per

    def target(self, i, j, block):
        """(lane, element) of D[i][j]."""
        rows = self.shape[0]
        if self.doubled:
            return j + 16 * (i % 2), i // 2
        if self.lanes == 32:
            return j + 16 * (i // 8), i % 8
        if self.result == "f64":
            return (j + 4 * block + 16 * i, 0) if rows == 4 else (j + 16 * (i % 4), i // 4)
        if rows == 4:
            return j + 4 * block, i
        if rows == 16:
            return j + 16 * (i // 4), 4 * block + i % 4
        return j + 32 * (i // 4 % 2), 16 * block + 4 * (i // 8) + i % 4


def words_of(case, side, elements):
    """``[lanes, words]`` of A or B, from element bits ``[blocks, rows, depth]``."""
    width, per = DECODE[case.kinds[side]][0], case.held(case.kinds[side])
    held = [0] * case.lanes
    for block, i, k in itertools.product(range(case.blocks), range(case.shape[0]), range(case.shape[2])):
        lane, place = case.source(side, i, k, block)
        held[lane] |= int(elements[block, i, k]) << (width * place)
    if case.doubled:
        held[16:] = held[:16]
    count = per * width // 32
    return np.array([[word >> 32 * n & 0xFFFFFFFF for n in range(count)] for word in held], np.uint32)


def run_case(case, a_bits, b_bits, c_words, *, accumulators=False):
    """D as words ``[lanes, registers]``."""
    a, b = words_of(case, 0, a_bits), words_of(case, 1, b_bits)
    inputs = np.concatenate([a, b, c_words], axis=1)
    spans = np.cumsum([FIRST, a.shape[1], b.shape[1], c_words.shape[1]])
    names = [f"v[{low}:{high - 1}]" if high - low > 1 else f"v{low}" for low, high in itertools.pairwise(spans)]
    body = f"{case.mnemonic} {names[2]}, {names[0]}, {names[1]}, {names[2]} {case.modifiers}"
    if accumulators:
        body = through_accumulators(case, body, names, int(spans[2]), c_words.shape[1])
    return passed(case.architecture, body, inputs, (int(spans[2]), c_words.shape[1]))


def through_accumulators(case, body, names, first, count):
    """The same with C and D in accumulation registers."""
    into = [f"v_accvgpr_write_b32 a{n}, v{first + n}" for n in range(count)]
    out = [f"v_accvgpr_read_b32 v{first + n}, a{n}" for n in range(count)]
    return "\n".join([*into, body.replace(names[2], f"a[0:{count - 1}]"), *out])


def exact(case, a_bits, b_bits):
    """A·B by rationals, ``[blocks, rows, columns]``."""
    sides = []
    for side, bits in enumerate((a_bits, b_bits)):
        number = DECODE[case.kinds[side]][1]
        known = {int(value): number(int(value)) for value in np.unique(bits)}
        scale = math.lcm(*(x.denominator for x in known.values()))
        whole = np.array([int(known[int(value)] * scale) for value in bits.reshape(-1)], object).reshape(bits.shape)
        sides.append((whole, scale))
    (a, a_scale), (b, b_scale) = sides
    return np.matmul(a, b.swapaxes(1, 2)), Fraction(1, a_scale * b_scale)


def expected(case, a_bits, b_bits, addend):
    """D as ``[lanes, elements]``, from C ``[lanes, elements]`` (float64 or integers)."""
    product, unit = exact(case, a_bits, b_bits)
    d = np.zeros(addend.shape, object)
    for block, i, j in itertools.product(range(case.blocks), range(case.shape[0]), range(case.shape[1])):
        lane, place = case.target(i, j, block)
        d[lane, place] = int(product[block, i, j]) * unit + Fraction(addend[lane, place].item())
    return d


CASES = [
    *(
        Case(architecture, f"v_mfma_{result}_{shape}_{kind}", tuple(map(int, size.split("x"))), (kind, kind), result, n)
        for architecture in ("gfx942", "gfx950")
        for result, shape, size, kind, n in [
            ("f32", "32x32x2", "32x32x2", "f32", 1),
            ("f32", "16x16x4", "16x16x4", "f32", 1),
            ("f32", "32x32x1_2b", "32x32x1", "f32", 2),
            ("f32", "16x16x1_4b", "16x16x1", "f32", 4),
            ("f32", "4x4x1_16b", "4x4x1", "f32", 16),
            ("f32", "32x32x8", "32x32x8", "f16", 1),
            ("f32", "16x16x16", "16x16x16", "f16", 1),
            ("f32", "32x32x4_2b", "32x32x4", "f16", 2),
            ("f32", "16x16x4_4b", "16x16x4", "f16", 4),
            ("f32", "4x4x4_16b", "4x4x4", "f16", 16),
            ("f32", "32x32x8", "32x32x8", "bf16", 1),
            ("f32", "16x16x16", "16x16x16", "bf16", 1),
            ("f32", "32x32x4_2b", "32x32x4", "bf16", 2),
            ("f32", "16x16x4_4b", "16x16x4", "bf16", 4),
            ("f32", "4x4x4_16b", "4x4x4", "bf16", 16),
            ("i32", "32x32x16", "32x32x16", "i8", 1),
            ("i32", "16x16x32", "16x16x32", "i8", 1),
            ("i32", "32x32x4_2b", "32x32x4", "i8", 2),
            ("i32", "16x16x4_4b", "16x16x4", "i8", 4),
            ("i32", "4x4x4_16b", "4x4x4", "i8", 16),
            ("f64", "16x16x4", "16x16x4", "f64", 1),
            ("f64", "4x4x4_4b", "4x4x4", "f64", 4),
        ]
    ),
    *(
        Case("gfx942", f"v_mfma_f32_{'x'.join(map(str, shape))}_xf32", shape, ("xf32", "xf32"))
        for shape in ((32, 32, 4), (16, 16, 8))
    ),
    *(
        Case(
            architecture,
            f"v_mfma_f32_{'x'.join(map(str, shape))}_{a}_{b}",
            shape,
            tuple(kind + (" fnuz" if architecture == "gfx942" else "") for kind in (a, b)),
        )
        for architecture in ("gfx942", "gfx950")
        for shape in ((32, 32, 16), (16, 16, 32))
        for a in ("fp8", "bf8")
        for b in ("fp8", "bf8")
    ),
    *(
        Case("gfx950", f"v_mfma_f32_{'x'.join(map(str, shape))}_{kind}", shape, (kind, kind))
        for shape in ((32, 32, 16), (16, 16, 32))
        for kind in ("f16", "bf16")
    ),
    Case("gfx950", "v_mfma_i32_32x32x32_i8", (32, 32, 32), ("i8", "i8"), "i32"),
    Case("gfx950", "v_mfma_i32_16x16x64_i8", (16, 16, 64), ("i8", "i8"), "i32"),
    *(
        Case("gfx950", f"v_mfma_f32_{name}_f8f6f4", shape, (a, b), modifiers=f"cbsz:{x} blgp:{y}")
        for name, shape in (("16x16x128", (16, 16, 128)), ("32x32x64", (32, 32, 64)))
        for (x, a), (y, b) in itertools.product(enumerate(("fp8", "bf8", "fp6", "bf6", "fp4")), repeat=2)
    ),
    *(
        Case("gfx90a", f"v_mfma_{result}_{size}{suffix}", tuple(map(int, size.split("x"))), (kind, kind), result, n)
        for result, size, suffix, kind, n in [
            ("f32", "32x32x2", "f32", "f32", 1),
            ("f32", "16x16x4", "f32", "f32", 1),
            ("f32", "32x32x1", "f32", "f32", 2),
            ("f32", "16x16x1", "f32", "f32", 4),
            ("f32", "4x4x1", "f32", "f32", 16),
            ("f32", "32x32x8", "f16", "f16", 1),
            ("f32", "16x16x16", "f16", "f16", 1),
            ("f32", "32x32x4", "f16", "f16", 2),
            ("f32", "16x16x4", "f16", "f16", 4),
            ("f32", "4x4x4", "f16", "f16", 16),
            ("f32", "32x32x8", "bf16_1k", "bf16", 1),
            ("f32", "16x16x16", "bf16_1k", "bf16", 1),
            ("f32", "32x32x4", "bf16_1k", "bf16", 2),
            ("f32", "16x16x4", "bf16_1k", "bf16", 4),
            ("f32", "4x4x4", "bf16_1k", "bf16", 16),
            ("f32", "32x32x4", "bf16", "bf16", 1),
            ("f32", "16x16x8", "bf16", "bf16", 1),
            ("f32", "32x32x2", "bf16", "bf16", 2),
            ("f32", "16x16x2", "bf16", "bf16", 4),
            ("f32", "4x4x2", "bf16", "bf16", 16),
            ("i32", "32x32x8", "i8", "i8", 1),
            ("i32", "16x16x16", "i8", "i8", 1),
            ("i32", "32x32x4", "i8", "i8", 2),
            ("i32", "16x16x4", "i8", "i8", 4),
            ("i32", "4x4x4", "i8", "i8", 16),
            ("f64", "16x16x4", "f64", "f64", 1),
            ("f64", "4x4x4", "f64", "f64", 4),
        ]
    ),
    *(
        Case(architecture, f"v_wmma_f32_16x16x16_{kind}", (16, 16, 16), (kind, kind))
        for architecture in ("gfx1100", "gfx1201")
        for kind in ("f16", "bf16")
    ),
    *(
        Case("gfx1201", f"v_wmma_f32_16x16x16_{a}_{b}", (16, 16, 16), (a, b))
        for a in ("fp8", "bf8")
        for b in ("fp8", "bf8")
    ),
    *(
        Case(
            architecture,
            f"v_wmma_i32_16x16x16_iu{width}",
            (16, 16, 16),
            ("ui"[a] + width, "ui"[b] + width),
            "i32",
            modifiers=f"neg_lo:[{a},{b},0]",
        )
        for architecture in ("gfx1100", "gfx1201")
        for width in "84"
        for a, b in ((0, 0), (1, 0), (1, 1))
    ),
    Case("gfx1201", "v_wmma_i32_16x16x32_iu4", (16, 16, 32), ("i4", "u4"), "i32", modifiers="neg_lo:[1,0,0]"),
]


def operands(case, seed=3):
    rng = np.random.default_rng(seed)
    sides = [
        ordinary(rng, kind, case.blocks * size * case.shape[2]).reshape(case.blocks, size, case.shape[2])
        for kind, size in zip(case.kinds, case.shape[:2], strict=True)
    ]
    count = case.shape[0] * case.shape[1] * case.blocks // case.lanes
    if case.result == "i32":
        addend = rng.integers(-(2**31), 2**31, (case.lanes, count)).astype(np.int32)
        return *sides, addend, addend.view(np.uint32)
    addend = (rng.integers(-64, 64, (case.lanes, count)) / 4).astype({"f32": "f4", "f64": "f8"}[case.result])
    return *sides, addend, addend.view(np.uint32)


def rounded(case, d):
    """Exact results in the type of D, as its words."""
    if case.result == "i32":
        return np.array([[int(x) & 0xFFFFFFFF for x in row] for row in d], np.uint32)
    kind = {"f32": np.float32, "f64": np.float64}[case.result]
    return np.array([[kind(float(x)) for x in row] for row in d], kind).view(np.uint32)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.architecture}-{c.mnemonic}-{c.modifiers.replace(' ', '')}")
def test_product(case):
    a, b, addend, words = operands(case)
    assert np.array_equal(run_case(case, a, b, words), rounded(case, expected(case, a, b, addend)))


@pytest.mark.parametrize(("size", "chosen"), [(4, 0), (4, 13), (2, 3), (1, 1), (0, 0)])
@pytest.mark.parametrize(
    ("mnemonic", "shape", "kind", "blocks"),
    [("4x4x4_16b_f16", (4, 4, 4), "f16", 16), ("16x16x1_4b_f32", (16, 16, 1), "f32", 4)],
)
def test_blocks_that_share_a_block_of_a(mnemonic, shape, kind, blocks, size, chosen):
    """cbsz: how many, as a power of two; abid: which of them."""
    case = Case("gfx942", f"v_mfma_f32_{mnemonic}", shape, (kind, kind), blocks=blocks)
    a, b, addend, words = operands(case)
    sharing = dataclasses.replace(case, modifiers=f"cbsz:{size} abid:{chosen}")
    if 1 << size > blocks:
        emulation, _ = wide("gfx942", f"{case.mnemonic} v[48:63], v32, v36, 0 cbsz:{size}", np.zeros((64, 8)), (48, 1))
        assert emulation.outcome.status == "unsupported"
        return
    shared = a[[block - block % (1 << size) + chosen for block in range(blocks)]]
    got = run_case(sharing, a, b, words)
    assert np.array_equal(got, rounded(case, expected(case, shared, b, addend)))


@pytest.mark.parametrize("number", [0, 20])
def test_accumulation_registers(number):
    case = CASES[number]
    a, b, addend, words = operands(case)
    got = run_case(case, a, b, words, accumulators=True)
    assert np.array_equal(got, rounded(case, expected(case, a, b, addend)))


@pytest.mark.parametrize("constant", ["0", "1.0", "-4.0"])
def test_constant_addend(constant):
    case = Case("gfx942", "v_mfma_f32_32x32x8_f16", (32, 32, 8), ("f16", "f16"))
    a, b, _, words = operands(case)
    inputs = np.concatenate([words_of(case, 0, a), words_of(case, 1, b)], axis=1)
    body = f"v_mfma_f32_32x32x8_f16 v[48:63], v[32:33], v[34:35], {constant}"
    got = passed("gfx942", body, inputs, (48, 16))
    addend = np.full(words.shape, float(constant), np.float32)
    assert np.array_equal(got, rounded(case, expected(case, a, b, addend)))


def test_integer_constant_addend():
    case = Case("gfx942", "v_mfma_i32_32x32x16_i8", (32, 32, 16), ("i8", "i8"), "i32")
    a, b, _, words = operands(case)
    inputs = np.concatenate([words_of(case, 0, a), words_of(case, 1, b)], axis=1)
    got = passed("gfx942", "v_mfma_i32_32x32x16_i8 v[48:63], v[32:33], v[34:35], -5", inputs, (48, 16))
    assert np.array_equal(got, rounded(case, expected(case, a, b, np.full(words.shape, -5, np.int32))))


# -- what is not a sum


def special(case, a_value, b_value, c_value):
    """D[0][0] of a product whose first terms are these, the others zeros."""
    width = DECODE[case.kinds[0]][0]
    to_bits = {16: lambda x: int(np.float16(x).view(np.uint16)), 32: lambda x: int(np.float32(x).view(np.uint32))}
    sides = [np.zeros((case.blocks, size, case.shape[2]), np.uint64) for size in case.shape[:2]]
    for side, value in zip(sides, (a_value, b_value), strict=True):
        side[0, 0, : len(value)] = [to_bits[width](x) for x in value]
    count = case.shape[0] * case.shape[1] * case.blocks // case.lanes
    addend = np.full((case.lanes, count), c_value, np.float32)
    lane, place = case.target(0, 0, 0)
    return run_case(case, *sides, addend.view(np.uint32)).view(np.float32)[lane, place]


INFINITY, NAN = math.inf, math.nan
SPECIALS = [
    ([INFINITY], [1], 0, INFINITY),
    ([INFINITY], [-1], 0, -INFINITY),
    ([INFINITY], [0], 0, NAN),
    ([INFINITY, -INFINITY], [1, 1], 0, NAN),
    ([1], [1], -INFINITY, -INFINITY),
    ([INFINITY], [1], -INFINITY, NAN),
    ([NAN], [1], 0, NAN),
    ([1], [1], NAN, NAN),
    ([0], [1], -0.0, 0.0),
    ([2.0**-24], [2.0**-14], 0, 2.0**-38),  # the smallest denormal of float16
    ([2.0**-24], [2.0**-24], 1, 1),
    ([65504, 65504], [65504, 65504], 0, 2 * 65504.0**2),
    ([1], [1], 2.0**-149, 1),
    ([0], [0], 2.0**-149, 2.0**-149),
    ([1, -1], [1, 1], 2.0**-149, 2.0**-149),  # summed wide, rounded once
]


@pytest.mark.parametrize(
    "case",
    [
        Case("gfx942", "v_mfma_f32_16x16x16_f16", (16, 16, 16), ("f16", "f16")),
        Case("gfx950", "v_mfma_f32_16x16x32_f16", (16, 16, 32), ("f16", "f16")),
        Case("gfx942", "v_mfma_f32_16x16x4_f32", (16, 16, 4), ("f32", "f32")),
        Case("gfx942", "v_mfma_f32_16x16x8_xf32", (16, 16, 8), ("xf32", "xf32")),
        Case("gfx1100", "v_wmma_f32_16x16x16_f16", (16, 16, 16), ("f16", "f16")),
        Case("gfx1201", "v_wmma_f32_16x16x16_f16", (16, 16, 16), ("f16", "f16")),
    ],
    ids=lambda case: case.mnemonic,
)
@pytest.mark.parametrize("terms", SPECIALS, ids=str)
def test_special_values(case, terms):
    a, b, c, want = terms
    if "xf32" in case.mnemonic and 65504 in a:  # which has more bits than xf32
        a = b = [65472, 65472]
        want = 2 * 65472.0**2
    got = special(case, a, b, c)
    assert np.isnan(got) if math.isnan(want) else got == np.float32(want)


def test_xf32_cuts_to_ten_bits():
    case = Case("gfx942", "v_mfma_f32_16x16x8_xf32", (16, 16, 8), ("xf32", "xf32"))
    assert special(case, [1 + 2.0**-10], [1], 0) == np.float32(1 + 2.0**-10)
    assert special(case, [1 + 2.0**-10 - 2.0**-23], [1], 0) == 1


def test_cdna2_flushes_sixteen_bit_denormals():
    case = Case("gfx90a", "v_mfma_f32_16x16x16f16", (16, 16, 16), ("f16", "f16"))
    assert special(case, [2.0**-14], [1], 0) == 2.0**-14
    assert special(case, [2.0**-15], [1], 0) == 0
    assert special(case, [1], [2.0**-24], 0.5) == 0.5
    assert special(case, [0], [0], 2.0**-130) == 0
    full = Case("gfx90a", "v_mfma_f32_16x16x4f32", (16, 16, 4), ("f32", "f32"))
    assert special(full, [2.0**-130], [1], 0) == np.float32(2.0**-130)


@pytest.mark.parametrize(("bits", "want"), [(0x7F, NAN), (0xFF, NAN), (0x7E, 448.0), (0x80, 0.0), (0x01, 2.0**-9)])
def test_eight_bit_codes_of_ocp(bits, want):
    check_eight_bits("gfx950", ("fp8", "fp8"), bits, 0x38, want)


@pytest.mark.parametrize(("bits", "want"), [(0x80, NAN), (0x7F, 240.0), (0xFF, -240.0), (0x01, 2.0**-10), (0x00, 0.0)])
def test_eight_bit_codes_without_negative_zero(bits, want):
    check_eight_bits("gfx942", ("fp8 fnuz", "fp8 fnuz"), bits, 0x40, want)


def check_eight_bits(architecture, kinds, bits, one, want):
    case = Case(architecture, "v_mfma_f32_16x16x32_fp8_fp8", (16, 16, 32), kinds)
    a, b = (np.zeros((1, 16, 32), np.uint32) for _ in range(2))
    a[0, 0, 0], b[0, 0, 0] = bits, one
    lane, place = case.target(0, 0, 0)
    got = run_case(case, a, b, np.zeros((64, 4), np.uint32)).view(np.float32)[lane, place]
    assert np.isnan(got) if math.isnan(want) else got == want


# -- scales


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        pytest.param("16x16x128", (16, 16, 128), id="v_mfma_scale_f32_16x16x128_f8f6f4"),
        pytest.param("32x32x64", (32, 32, 64), id="v_mfma_scale_f32_32x32x64_f8f6f4"),
    ],
)
@pytest.mark.parametrize(("code", "kind"), [(0, "fp8"), (2, "fp6"), (4, "fp4")])
@pytest.mark.parametrize("octet", [(0, 3), (2, 1)])
def test_scales(name, shape, code, kind, octet):
    case = Case("gfx950", f"v_mfma_scale_f32_{name}_f8f6f4", shape, (kind, kind))
    a, b, _, words = operands(case)
    rng = np.random.default_rng(8)
    scales = rng.integers(121, 134, (2, 64, 4))
    packed = (scales << np.array([0, 8, 16, 24])).sum(axis=2).astype(np.uint32)
    sides = [words_of(case, side, bits) for side, bits in enumerate((a, b))]
    inputs = np.concatenate([*sides, packed.T, words], axis=1)
    at = np.cumsum([FIRST, *(side.shape[1] for side in sides), 2])
    low, high = ([o & 1 for o in octet], [o >> 1 for o in octet])
    body = (
        f"{case.mnemonic} v[{at[3]}:{at[3] + words.shape[1] - 1}], v[{at[0]}:{at[1] - 1}], v[{at[1]}:{at[2] - 1}], 0, "
        f"v{at[2]}, v{at[2] + 1} op_sel:[{low[0]},{low[1]},0] op_sel_hi:[{high[0]},{high[1]},0] cbsz:{code} blgp:{code}"
    )
    got = passed("gfx950", body, inputs, (int(at[3]), words.shape[1])).view(np.float32)
    number = DECODE[kind][1]
    for i, j in itertools.product(range(0, shape[0], 5), range(0, shape[1], 7)):
        total = Fraction(0)
        for k in range(shape[2]):
            powers = [int(scales[s, n + shape[0] * (k // 32), octet[s]]) - 127 for s, n in ((0, i), (1, j))]
            total += number(int(a[0, i, k])) * number(int(b[0, j, k])) * Fraction(2) ** sum(powers)
        lane, place = case.target(i, j, 0)
        assert got[lane, place] == np.float32(float(total))


def test_scale_of_all_ones_is_nan():
    inputs = np.zeros((64, 10), np.uint32)
    inputs[:, 8:] = 0x7F7F7F7F
    inputs[3, 8] = 0x7F7F7FFF
    body = "v_mfma_scale_f32_16x16x128_f8f6f4 v[48:51], v[32:35], v[36:39], 0, v40, v41 op_sel_hi:[0,0,0] cbsz:4 blgp:4"
    got = passed("gfx950", body, inputs, (48, 4)).view(np.float32)
    nan_rows = {(4 * (lane // 16) + place) for lane, place in zip(*np.nonzero(np.isnan(got)), strict=True)}
    assert nan_rows == {3}


# -- 16-bit results of WMMA


def narrow(kind, x):
    if kind == "f16":
        return int(np.float16(float(x)).view(np.uint16))
    bits = int(np.float32(float(x)).view(np.uint32))
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


@pytest.mark.parametrize("kind", ["f16", "bf16"], ids=lambda kind: f"v_wmma_{kind}_16x16x16_{kind}")
@pytest.mark.parametrize("high", [0, 1])
def test_rdna3_results_in_one_half(kind, high):
    case = Case("gfx1100", f"v_wmma_{kind}_16x16x16_{kind}", (16, 16, 16), (kind, kind))
    a, b, addend, _ = operands(case)
    old = np.random.default_rng(2).integers(0, 2**16, (32, 8)).astype(np.uint32)
    codes = np.array([[narrow(kind, x) for x in row] for row in addend], np.uint32)
    words = codes << 16 | old if high else codes | old << 16
    case = Case(*(case.architecture, case.mnemonic, case.shape, case.kinds), modifiers=f"op_sel:[0,0,{high}]")
    got = run_case(case, a, b, words)
    want = np.array([[narrow(kind, x) for x in row] for row in expected(case, a, b, addend)], np.uint32)
    assert np.array_equal(got >> 16 if high else got & 0xFFFF, want)
    assert np.array_equal(got & 0xFFFF if high else got >> 16, old)


@pytest.mark.parametrize("kind", ["f16", "bf16"], ids=lambda kind: f"v_wmma_{kind}_16x16x16_{kind}")
def test_rdna4_results_in_both_halves(kind):
    case = Case("gfx1201", f"v_wmma_{kind}_16x16x16_{kind}", (16, 16, 16), (kind, kind))
    a, b, addend, _ = operands(case)
    codes = np.array([[narrow(kind, x) for x in row] for row in addend], np.uint32)
    got = run_case(case, a, b, codes[:, 0::2] | codes[:, 1::2] << 16)
    want = np.array([[narrow(kind, x) for x in row] for row in expected(case, a, b, addend)], np.uint32)
    assert np.array_equal(got, want[:, 0::2] | want[:, 1::2] << 16)


# -- the wave as a whole


def test_mfma_ignores_exec():
    case = Case("gfx942", "v_mfma_f32_16x16x16_f16", (16, 16, 16), ("f16", "f16"))
    a, b, addend, words = operands(case)
    inputs = np.concatenate([words_of(case, 0, a), words_of(case, 1, b), words], axis=1)
    body = """s_mov_b64 exec, 0x5
v_mfma_f32_16x16x16_f16 v[36:39], v[32:33], v[34:35], v[36:39]
s_mov_b64 exec, -1"""
    got = passed("gfx942", body, inputs, (36, 4))
    assert np.array_equal(got, rounded(case, expected(case, a, b, addend)))


def test_wmma_with_lanes_disabled_is_reported():
    body = "s_mov_b32 exec_lo, 0xffff\nv_wmma_f32_16x16x16_f16 v[48:55], v[32:35], v[36:39], 0\ns_mov_b32 exec_lo, -1"
    emulation, _ = wide("gfx1201", body, np.zeros((32, 8), np.uint32), (48, 8))
    assert [finding.kind for finding in emulation.findings] == ["undefined"]
    assert "disabled" in emulation.findings[0].message


def test_halves_that_differ_are_reported():
    inputs = np.zeros((32, 16), np.uint32)
    inputs[21, 3] = 1
    emulation, _ = wide("gfx1100", "v_wmma_f32_16x16x16_f16 v[48:55], v[32:39], v[40:47], 0", inputs, (48, 8))
    assert [finding.kind for finding in emulation.findings] == ["undefined"]
    assert "lane 21" in emulation.findings[0].message


def test_saturating_sum():
    inputs = np.full((32, 6), 0x7F7F7F7F, np.uint32)
    inputs[:, 4:] = 0x7FFFFFFF
    line = "v_wmma_i32_16x16x16_iu8 v[40:47], v[32:33], v[34:35], v[40:47] neg_lo:[1,1,0]"
    start = "\n".join(f"v_mov_b32_e32 v{n}, v36" for n in range(40, 48))
    wrapped = passed("gfx1201", f"{start}\n{line}", inputs, (40, 8))
    held = passed("gfx1201", f"{start}\n{line} clamp", inputs, (40, 8))
    assert (wrapped == (0x7FFFFFFF + 16 * 127 * 127) & 0xFFFFFFFF).all()
    assert (held == 0x7FFFFFFF).all()


@pytest.mark.parametrize(
    ("architecture", "line", "cause"),
    [
        ("gfx942", "v_mfma_f32_16x16x16_f16 v[36:39], v[32:33], v[34:35], 0 cbsz:1", "modifier cbsz"),
        ("gfx942", "v_mfma_f32_16x16x16_f16 v[36:39], v[32:33], v[34:35], 0 blgp:1", "modifier blgp"),
        ("gfx942", "v_mfma_f32_16x16x16_f16 v[36:39], v32, v[34:35], 0", "2 registers"),
        ("gfx950", "v_mfma_f32_16x16x8_xf32 v[36:39], v[32:33], v[34:35], 0", "gfx950 has no"),
        ("gfx942", "v_mfma_f32_16x16x128_f8f6f4 v[36:39], v[32:39], v[40:47], 0", "gfx942 has no"),
        ("gfx950", "v_mfma_f32_16x16x128_f8f6f4 v[36:39], v[32:39], v[40:47], 0 cbsz:5", "format 5"),
        ("gfx950", "v_mfma_f32_16x16x128_f8f6f4 v[36:39], v[32:39], v[40:47], 0 cbsz:4", "4 registers"),
        ("gfx1100", "v_wmma_f32_16x16x16_f16 v[48:55], v[32:39], v[40:47], 0 neg_lo:[1,0,0]", "modifier neg_lo"),
        ("gfx1201", "v_wmma_f32_16x16x16_f16 v[48:55], v[32:39], v[40:47], 0", "4 registers"),
        ("gfx942", "v_smfmac_f32_16x16x32_f16 v[36:39], v[32:33], v[34:37], v40", "not known"),
    ],
)
def test_refused(architecture, line, cause):
    lanes = 64 if architecture.startswith("gfx9") else 32
    emulation, _ = wide(architecture, line, np.zeros((lanes, 8), np.uint32), (36, 1))
    assert emulation.outcome.status == "unsupported"
    assert cause in emulation.outcome.message
    assert line.split()[0] in emulation.outcome.message
