"""Float64 quotients by the sequence that LLVM emits, against correctly rounded ones; roots and reciprocals."""

import math
from fractions import Fraction

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from assembly import computed

SEQUENCE = """v_div_scale_f64 v[20:21], {mask}, v[3:4], v[3:4], v[1:2]
v_rcp_f64_e32 v[22:23], v[20:21]
v_fma_f64 v[24:25], -v[20:21], v[22:23], 1.0
v_fma_f64 v[22:23], v[22:23], v[24:25], v[22:23]
v_fma_f64 v[24:25], -v[20:21], v[22:23], 1.0
v_fma_f64 v[22:23], v[22:23], v[24:25], v[22:23]
v_div_scale_f64 v[24:25], {vcc}, v[1:2], v[3:4], v[1:2]
v_mul_f64 v[26:27], v[24:25], v[22:23]
v_fma_f64 v[20:21], -v[20:21], v[26:27], v[24:25]
v_div_fmas_f64 v[20:21], v[20:21], v[22:23], v[26:27]
v_div_fixup_f64 v[12:13], v[20:21], v[3:4], v[1:2]"""
EDGES = [
    0.0,
    -0.0,
    1.0,
    -3.0,
    math.inf,
    -math.inf,
    math.nan,
    5e-324,
    -5e-324,
    2.0**-1022,
    1.7976931348623157e308,
    2.0**-1060,
]


def operands(lanes, seed):
    """Edges and numbers of every exponent: ``[lanes, 4]`` float64."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**64, (lanes, 4), dtype=np.uint64)
    return np.where(rng.random((lanes, 4)) < 0.3, rng.choice(EDGES, (lanes, 4)), bits.view(np.float64))


def quotient(a, b):
    if math.isfinite(a) and math.isfinite(b) and a != 0 and b != 0:
        try:
            return float(Fraction(a) / Fraction(b)) or math.copysign(0.0, a * math.copysign(1.0, b))
        except OverflowError:
            return math.copysign(math.inf, a) * math.copysign(1.0, b)
    with np.errstate(all="ignore"):
        return float(np.float64(a) / np.float64(b))


def same(x, y):
    return (math.isnan(x) and math.isnan(y)) or (x == y and math.copysign(1, x) == math.copysign(1, y))


@pytest.mark.parametrize("architecture", ["gfx942", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.instructions("v_div_scale_f64", "v_div_fmas_f64", "v_div_fixup_f64", "v_rcp_f64")
def test_quotients(architecture, seed):
    wave64 = architecture.startswith("gfx9")
    rows = operands(64 if wave64 else 32, seed)
    body = SEQUENCE.format(mask="s[8:9]" if wave64 else "null", vcc="vcc" if wave64 else "vcc_lo")
    ran = computed(architecture, body, rows.view(np.uint32))
    got = np.ascontiguousarray(ran.outputs[:, 2:]).view(np.float64)[:, 0]
    for (a, b, *_), x in zip(rows.tolist(), got.tolist(), strict=True):
        assert same(x, quotient(a, b)), (a, b, x, quotient(a, b))


@pytest.mark.parametrize("architecture", ["gfx942", "gfx1201"])
@pytest.mark.instructions("v_rcp_f64", "v_rsq_f64", "v_sqrt_f64")
def test_reciprocals_and_roots(architecture):
    rows = operands(64 if architecture.startswith("gfx9") else 32, 1)
    got = {}
    for name in ("rcp", "rsq", "sqrt"):
        ran = computed(architecture, f"v_{name}_f64_e32 v[12:13], v[1:2]", rows.view(np.uint32))
        got[name] = np.ascontiguousarray(ran.outputs[:, 2:]).view(np.float64)[:, 0].tolist()
    for n, x in enumerate(rows[:, 0].tolist()):
        root = math.sqrt(x) if x > 0 else x if x == 0 else math.nan
        assert same(got["rcp"][n], quotient(1.0, x))
        assert same(got["sqrt"][n], root)
        assert same(got["rsq"][n], quotient(1.0, root))
