"""Kernels in PTX, written around a few instructions, and exact results to hold them against.

A thread reads eight words of its row into %a0 to %a7, with %l0 and %l1 the 64 bits of two pairs and %h0 to %h3 the low
halves of the first four, and writes %o0 to %o3.
"""

import struct
from fractions import Fraction

import numpy as np

from portkit.emulate import Emulation, Options, run

EDGES = np.array(
    [
        *(0x0000_0000, 0x8000_0000, 0x3F80_0000, 0xBF80_0000, 0x7F80_0000, 0xFF80_0000, 0x7FC0_0000, 0x7FC1_2345),
        *(0x0000_0001, 0x8000_0001, 0x007F_FFFF, 0x0080_0000, 0x7F7F_FFFF, 0xFF7F_FFFF, 0x4B00_0001, 0xCF00_0000),
        *(0x4F00_0000, 0x4F7F_FFFF, 0x3EFF_FFFF, 0x3F00_0000, 0x3FC0_0000, 0x4020_0000, 0xFFFF_FFFF, 0x7FFF_FFFF),
        *(31, 32, 33, 0x0C0B_0A09, 0x0302_0100, 0x3C00_BC00, 0x7BFF_0001, 0x3380_0000),
    ],
    np.uint32,
)
"""Words that are edges of some type: zeros, units, infinities, NaNs, denormals, extremes, shift counts."""

HEAD = """.version {version}
.target {target}
.address_size 64
{module}
.visible .entry probe(.param .u64 probe_param_0, .param .u64 probe_param_1)
.reqntid {threads}
{{
    .reg .pred %p<8>;
    .reg .b16 %h<16>;
    .reg .b32 %a<8>;
    .reg .b32 %o<4>;
    .reg .b32 %r<16>;
    .reg .b64 %l<8>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd0, [probe_param_0];
    ld.param.u64 %rd1, [probe_param_1];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    mad.lo.s32 %r1, %r1, {threads}, %r0;
    mad.wide.u32 %rd2, %r1, 32, %rd0;
    mad.wide.u32 %rd3, %r1, 16, %rd1;
    ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%rd2];
    ld.global.v4.b32 {{%a4, %a5, %a6, %a7}}, [%rd2+16];
    mov.b64 %l0, {{%a0, %a1}};
    mov.b64 %l1, {{%a2, %a3}};
    cvt.u16.u32 %h0, %a0;
    cvt.u16.u32 %h1, %a1;
    cvt.u16.u32 %h2, %a2;
    cvt.u16.u32 %h3, %a3;
    mov.b32 %o0, 0;
    mov.b32 %o1, 0;
    mov.b32 %o2, 0;
    mov.b32 %o3, 0;
{body}
    st.global.v4.b32 [%rd3], {{%o0, %o1, %o2, %o3}};
    ret;
}}
"""


def kernel(body: str, *, target="sm_90", version="8.7", threads=32, module="") -> str:
    """Text of a kernel around some instructions."""
    return HEAD.format(body=body, target=target, version=version, threads=threads, module=module)


def execute(
    body: str, rows, *, target="sm_90", threads=32, shared=0, options=None, **more
) -> tuple[Emulation, np.ndarray]:
    """Run instructions on rows of up to eight words, a thread each; the outcome and ``[rows, 4]`` words."""
    given = np.zeros((len(rows), 8), np.uint32)
    given[:, : np.shape(rows)[1]] = rows
    results = np.zeros((len(rows), 4), np.uint32)
    grid = (len(rows) // threads,)
    text = kernel(body, target=target, threads=threads, **more)
    done = run(text, target.rstrip("af"), grid, [given, results], threads // 32, shared, options or Options())
    return done, results


def results_of(body: str, rows, **more) -> np.ndarray:
    """As ``execute``; nothing may be found."""
    done, results = execute(body, rows, **more)
    assert done.outcome.status == "passed", done.outcome
    return results


def pairs(edges=EDGES) -> np.ndarray:
    """All pairs of edges, with a third that goes round: ``[1024, 3]``."""
    first, second = np.meshgrid(edges, edges, indexing="ij")
    third = np.resize(np.roll(edges, 5), first.size)
    return np.stack([first.reshape(-1), second.reshape(-1), third], axis=1)


# -- exact arithmetic


FORMATS = {
    "f16": (11, -14, 16),
    "bf16": (8, -126, 16),
    "f32": (24, -126, 32),
    "f64": (53, -1022, 64),
}
"""Bits of precision, exponent of the smallest normal number, width."""

NAN = None
"""Result that is no number."""


def value(bits: int, form: str):
    """Fraction, or ±inf as a float, of bits; None for NaN."""
    precision, lowest, width = FORMATS[form]
    mantissa_bits = precision - 1
    factor = -1 if bits >> (width - 1) & 1 else 1
    exponent = bits >> mantissa_bits & (1 << (width - precision)) - 1
    mantissa = bits & (1 << mantissa_bits) - 1
    if exponent == (1 << (width - precision)) - 1:
        return NAN if mantissa else factor * float("inf")
    if exponent == 0:
        return factor * Fraction(mantissa) * Fraction(2) ** (lowest - mantissa_bits)
    return factor * Fraction(mantissa + (1 << mantissa_bits)) * Fraction(2) ** (exponent - 1 + lowest - mantissa_bits)


def _integer(size: Fraction, mode: str, negative: bool) -> int:
    """A size rounded to a whole number."""
    low, rest = divmod(size, 1)
    if mode == "rn":
        up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1)
    else:
        up = rest > 0 and mode == ("rm" if negative else "rp")
    return int(low) + up


def bits_of(exact, form: str, mode: str = "rn", *, negative_zero: bool = False) -> int | None:
    """Bits of an exact number, rounded once."""
    precision, lowest, width = FORMATS[form]
    top = 1 << (width - 1)
    infinity = ((1 << (width - precision)) - 1) << (precision - 1)
    if exact is NAN:
        return NAN
    if isinstance(exact, float):
        return infinity | (top if exact < 0 else 0)
    if exact == 0:
        return top if negative_zero else 0
    negative, size = exact < 0, abs(exact)
    power = size.numerator.bit_length() - size.denominator.bit_length()
    power -= Fraction(2) ** power > size
    power = max(power, lowest)
    unit = Fraction(2) ** (power - precision + 1)
    code = _integer(size / unit, mode, negative) + ((power - lowest) << (precision - 1))
    if code >= infinity:
        inward = mode in {"rz", "rp" if negative else "rm"}
        code = infinity - 1 if inward else infinity
    return code | (top if negative else 0)


def add(a, b):
    """Sum of numbers, infinities and NaN."""
    if a is NAN or b is NAN or (isinstance(a, float) and isinstance(b, float) and a != b):
        return NAN
    return a if isinstance(a, float) else b if isinstance(b, float) else a + b


def multiply(a, b):
    """Product likewise."""
    if a is NAN or b is NAN or (isinstance(a, float) and b == 0) or (isinstance(b, float) and a == 0):
        return NAN
    if isinstance(a, float) or isinstance(b, float):
        return float("inf") if (a > 0) == (b > 0) else -float("inf")
    return a * b


def sign(bits: int, width: int) -> bool:
    """Of a float's bits."""
    return bool(bits >> (width - 1) & 1)


def signed(bits: int, width: int) -> int:
    """Bits as a signed integer."""
    return bits - (1 << width) if bits >> (width - 1) & 1 else bits


def as_float(bits: int) -> float:
    """A float32's bits as Python's float."""
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def is_nan(bits: int, form: str) -> bool:
    """Whether bits are no number."""
    return value(bits, form) is NAN
