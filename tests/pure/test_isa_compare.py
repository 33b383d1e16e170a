"""Every comparison of every type on pairs of edges, to a mask and to EXEC; classes; selection by a mask."""

import math
import operator

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from assembly import EDGES, architectures_of, computed, everywhere, names_of
from formats import F16, F32, F64, signed

from portkit.emulate.amdgcn.isa import compare

ORDERED = {
    "lt": operator.lt,
    "eq": operator.eq,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "ne": operator.ne,
    "neq": operator.ne,
    "lg": lambda a, b: a < b or a > b,
    "o": lambda a, b: not (math.isnan(a) or math.isnan(b)),
    "u": lambda a, b: math.isnan(a) or math.isnan(b),
}
ORDERED |= {f"n{name}": (lambda a, b, test=ORDERED[name]: not test(a, b)) for name in ("lt", "le", "gt", "ge", "lg")}

FLOATS = {"f16": F16, "f32": F32, "f64": F64}
WORDS16 = (0, 1, 0x8000, 0x8001, 0x7FFF, 0xFFFF, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0x0400, 0x83FF, 0x7BFF)
LONGS = (
    *(0, 1, 1 << 63, (1 << 63) - 1, (1 << 64) - 1, 0x3FF0_0000_0000_0000, 0x7FF0_0000_0000_0000),
    *(0xFFF0_0000_0000_0000, 0x7FF8_0000_0000_0000, 0x0010_0000_0000_0000, 0x800F_FFFF_FFFF_FFFF, 1 << 32),
)


def number(bits, kind):
    """What the bits of an operand stand for."""
    if kind in FLOATS:
        return FLOATS[kind].value(bits)
    return signed(bits, int(kind[1:])) if kind[0] == "i" else bits


def pairs_of(kind, lanes):
    """One pair of edges a lane for each of some kernels: ``[kernels, lanes, 2]`` of Python's integers."""
    edges = {"16": WORDS16, "32": [int(x) for x in EDGES], "64": LONGS}[kind[1:]]
    every = [(a, b) for a in edges for b in edges]
    step = max(1, len(every) // (2 * lanes))
    chosen = every[::step] + [(a, a) for a in edges]
    return [chosen[n : n + lanes] for n in range(0, 2 * lanes, lanes)]


def rows_for(pairs, kind, lanes):
    """Operands in v1 and v2, or in v[1:2] and v[3:4]; the upper halves of 16-bit ones are no part of them."""
    rows = np.full((lanes, 8), 0xABCD_0000, np.uint32)
    for lane, pair in enumerate(pairs):
        for place, bits in enumerate(pair):
            if kind.endswith("64"):
                rows[lane, 2 * place : 2 * place + 2] = bits & 0xFFFF_FFFF, bits >> 32
            else:
                rows[lane, place] = bits | (0xABCD_0000 if kind.endswith("16") else 0)
    return rows


def line_of(architecture, name, kind):
    """The comparison, and where its mask goes."""
    wide = names_of(architecture).lanes == 64
    sources = "v[1:2], v[3:4]" if kind.endswith("64") else "v1, v2"
    if name.startswith("v_cmpx") and not wide:
        return f"{name} {sources}"
    return f"{name} {'vcc' if wide else 'vcc_lo'}, {sources}"


def observed(architecture, name, kind):
    """The instructions that leave the mask as 1 or 0 in each lane's v10."""
    wide = names_of(architecture).lanes == 64
    line = line_of(architecture, name, kind)
    if name.startswith("v_cmpx"):
        every = "s_mov_b64 exec, -1" if wide else "s_mov_b32 exec_lo, -1"
        return f"v_mov_b32 v10, 0\n{line}\nv_mov_b32 v10, 1\n{every}"
    return f"{line}\nv_cndmask_b32 v10, 0, 1, {'vcc' if wide else 'vcc_lo'}"


COMPARISONS = [name for name in compare.TABLE if name.split("_")[2] in ORDERED]


@pytest.mark.parametrize(("architecture", "name"), everywhere(COMPARISONS))
def test_comparison(architecture, name):
    _, _, condition, kind = name.split("_")
    lanes = names_of(architecture).lanes
    for pairs in pairs_of(kind, lanes):
        ran = computed(architecture, observed(architecture, name, kind), rows_for(pairs, kind, lanes))
        got = ran.outputs[: len(pairs), 0].tolist()
        want = [int(ORDERED[condition](number(a, kind), number(b, kind))) for a, b in pairs]
        assert got == want, [(hex(a), hex(b)) for (a, b), x, y in zip(pairs, got, want, strict=True) if x != y]


CLASSES = (
    *("signaling NaN", "quiet NaN", "-infinity", "-normal", "-denormal"),
    *("-0", "+0", "+denormal", "+normal", "+infinity"),
)


def class_of(bits):
    """Number of the class of a float32, in the order of the document's mask."""
    x, quiet = F32.value(bits), bits >> 22 & 1
    if math.isnan(x):
        return quiet
    sizes = ["0", "denormal", "normal", "infinity"]
    size = abs(x)
    place = 3 if math.isinf(x) else 0 if size == 0 else 2 if size >= 2.0**-126 else 1
    return CLASSES.index(("-" if bits >> 31 else "+") + sizes[place])


@pytest.mark.parametrize(("architecture", "name"), everywhere(["v_cmp_class_f32", "v_cmpx_class_f32"]))
def test_classes(architecture, name):
    """Each class alone, all but it, none and all, of every edge."""
    lanes = names_of(architecture).lanes
    edges = [*(int(x) for x in EDGES), 0x7F80_0001, 0xFFBF_FFFF, 0xFFC0_0000, 0x8040_0000]
    masks = [1 << n for n in range(10)] + [0x3FF & ~(1 << n) for n in range(10)] + [0, 0x3FF]
    pairs = [(x, mask) for x in edges for mask in masks]
    for start in range(0, len(pairs), lanes):
        part = pairs[start : start + lanes]
        ran = computed(architecture, observed(architecture, name, "f32"), rows_for(part, "f32", lanes))
        assert ran.outputs[: len(part), 0].tolist() == [mask >> class_of(x) & 1 for x, mask in part]


@pytest.mark.parametrize(("architecture", "name"), everywhere(["v_cndmask_b32", "v_cndmask_b16"]))
def test_selection(architecture, name):
    """By a mask in any scalar register, of halves too, and with sign marks on floats."""
    wide = names_of(architecture).lanes == 64
    mask = "s[8:9]" if wide else "s8"
    body = f"s_mov_b32 s8, 0xc3a5f00f\ns_mov_b32 s9, 0x0ff0aa55\n{name} v12, v1, v2, {mask}"
    ran = computed(architecture, body)
    bits, whole = 0x0FF0_AA55_C3A5_F00F, 0xFFFF if name.endswith("b16") else 0xFFFF_FFFF
    for lane, (row, out) in enumerate(zip(ran.inputs, ran.outputs, strict=True)):
        assert int(out[2]) & whole == int(row[1 if bits >> lane & 1 else 0]) & whole


def test_selection_by_vcc_without_a_name():
    for architecture in architectures_of("v_cndmask_b32"):
        low = "vcc" if architecture == "gfx942" else "vcc_lo"
        ran = computed(architecture, f"s_mov_b32 vcc_lo, 0xf0f0\ns_mov_b32 vcc_hi, 0\nv_cndmask_b32 v12, v1, v2, {low}")
        chosen = [int(row[1 if 0xF0F0 >> lane & 1 else 0]) for lane, row in enumerate(ran.inputs)]
        assert ran.outputs[:, 2].tolist() == chosen
