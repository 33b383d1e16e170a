"""Which arithmetic instructions of PTX are recorded on a device, with the lines that run each on operands of its own.

The lines stand in a block with registers of its own: words of operands in ``%i0`` and up, results in ``%q0`` and up.
The same lines run in the inline assembly of a Triton kernel on a device and, within a kernel of the emulator's own, in
the emulator.

Matrix products are those of ``matrix_probes``. What is not recorded: other things that lanes do together, memory,
control, and ``tcgen05``, whose operands lie in a memory of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from portkit.emulate.core.vectors import Probe, kind_of
from portkit.emulate.ptx.architecture import Architecture
from portkit.emulate.ptx.form_probes import FORMS
from portkit.emulate.ptx.matrix_probes import products_of

_SM_75, _SM_80, _SM_89, _SM_90 = 75, 80, 89, 90

_TWO_WORDS = """add.u32 add.sat.s32 sub.s32 sub.sat.s32 mul.lo.s32 mul.hi.s32 mul.hi.u32 mul24.lo.s32 mul24.lo.u32
min.s32 min.u32 max.s32 max.u32 and.b32 or.b32 xor.b32 shl.b32 shr.s32 shr.u32 div.s32 div.u32 rem.s32 rem.u32"""
_ONE_WORD = """neg.s32 abs.s32 not.b32 cnot.b32 popc.b32 clz.b32 bfind.s32 bfind.u32 bfind.shiftamt.u32 brev.b32
cvt.sat.u32.s32 cvt.sat.s32.u32 cvt.s32.s8 cvt.u32.u8 cvt.s32.s16"""
_THREE_WORDS = """mad.lo.s32 mad.hi.s32 mad.hi.u32 sad.s32 sad.u32 bfe.s32 bfe.u32 prmt.b32 shf.l.wrap.b32
shf.r.wrap.b32 shf.l.clamp.b32 shf.r.clamp.b32 dp4a.s32.s32 dp4a.u32.u32 dp4a.s32.u32"""
_TWO_LONGS = """add.s64 sub.s64 mul.lo.s64 mul.hi.s64 mul.hi.u64 min.s64 max.u64 and.b64 or.b64 xor.b64 div.s64 div.u64
rem.s64 rem.u64"""
_TWO_FLOATS = """add.rn.f32 add.rz.f32 add.rm.f32 add.rp.f32 add.ftz.f32 add.sat.f32 sub.rn.f32 sub.rz.f32 mul.rn.f32
mul.rz.f32 mul.rm.f32 mul.rp.f32 mul.ftz.f32 mul.sat.f32 min.f32 max.f32 min.ftz.f32 copysign.f32 div.rn.f32 div.rz.f32
div.full.f32 div.full.ftz.f32 div.approx.f32"""
_ONE_FLOAT = """neg.f32 abs.f32 rcp.approx.f32 rcp.approx.ftz.f32 rcp.rn.f32 sqrt.approx.f32 sqrt.approx.ftz.f32
sqrt.rn.f32 rsqrt.approx.f32 rsqrt.approx.ftz.f32 ex2.approx.f32 ex2.approx.ftz.f32
lg2.approx.f32 lg2.approx.ftz.f32 sin.approx.f32 cos.approx.f32 tanh.approx.f32
cvt.rni.f32.f32 cvt.rzi.f32.f32 cvt.rmi.f32.f32 cvt.rpi.f32.f32"""
_THREE_FLOATS = "fma.rn.f32 fma.rz.f32 fma.rm.f32 fma.rp.f32 fma.rn.ftz.f32 fma.rn.sat.f32"
_DOUBLES = (
    ("add.rn.f64", 2),
    ("mul.rn.f64", 2),
    ("div.rn.f64", 2),
    ("fma.rn.f64", 3),
    ("sqrt.rn.f64", 1),
    ("min.f64", 2),
)
_HALVES = (("add.rn", 2), ("sub.rn", 2), ("mul.rn", 2), ("fma.rn", 3), ("min", 2), ("max", 2), ("min.NaN", 2))
_FLOAT_TESTS = "eq ne lt le gt ge equ neu ltu leu gtu geu num nan"
_CONVERSIONS = (
    *(
        (f"cvt.{mode}.{kind}.f32", "F32", f"I{kind[1:]}")
        for mode in ("rni", "rzi", "rmi", "rpi")
        for kind in ("s32", "u32")
    ),
    *((f"cvt.{mode}.s64.f32", "F32", "I64") for mode in ("rni", "rzi")),
    *(
        (f"cvt.{mode}.f32.{kind}", f"I{kind[1:]}", "F32")
        for mode in ("rn", "rz")
        for kind in ("s32", "u32", "s64", "u64")
    ),
    *(
        (f"cvt.{mode}.{kind}.f32", "F32", name)
        for mode in ("rn", "rz")
        for kind, name in (("f16", "F16"), ("bf16", "B16"))
    ),
    ("cvt.f32.f16", "F16", "F32"),
    ("cvt.f32.bf16", "B16", "F32"),
    ("cvt.rn.f32.f64", "F64", "F32"),
    ("cvt.rz.f32.f64", "F64", "F32"),
    ("cvt.f64.f32", "F32", "F64"),
    ("cvt.rna.tf32.f32", "F32", "I32"),
)
_MANY_WORDS = {
    2: "bmsk.clamp.b32 bmsk.wrap.b32 szext.wrap.s32 szext.clamp.u32 cvt.pack.sat.s16.s32 cvt.pack.sat.u16.s32",
    3: "mad24.lo.s32 mad24.hi.u32 dp2a.lo.s32.s32 dp2a.hi.u32.u32 slct.s32.s32 cvt.pack.sat.s8.s32.b32",
    4: "bfi.b32",
}
"""Number of words → instructions of them."""
_APPROXIMATE_HALVES = (
    ("ex2.approx", "f16", _SM_75),
    ("ex2.approx.ftz", "bf16", _SM_90),
    ("tanh.approx", "f16", _SM_75),
)
_CLASSES = "finite infinite number notanumber normal subnormal"
_TRUTH_TABLES = ("0x96", "0xca", "0x1d")
"""Of lop3: a sum of bits, a choice, and one of no name."""
_CODES = ("e4m3", "e5m2")


def probes_of(architecture: Architecture) -> list[Probe]:
    """All probes of an architecture, by name."""
    return sorted({probe.name: probe for probe in _all(architecture)}.values(), key=lambda probe: probe.name)


def _all(architecture: Architecture) -> Iterator[Probe]:
    yield from _alike(_TWO_WORDS, "I32", 2)
    yield from _alike(_ONE_WORD, "I32", 1)
    yield from _alike(_THREE_WORDS, "I32", 3)
    yield from _alike(_TWO_LONGS, "I64", 2)
    yield from _alike(_TWO_FLOATS, "F32", 2)
    yield from _alike(_ONE_FLOAT, "F32", 1)
    yield from _alike(_THREE_FLOATS, "F32", 3)
    for name, count in _DOUBLES:
        yield _probe(name, ["F64"] * count, "F64")
    yield from _tests()
    for count, names in _MANY_WORDS.items():
        yield from _alike(names, "I32", count)
    yield from _of_predicates()
    yield from _with_carries()
    yield from _of_halves(architecture)
    yield from _conversions(architecture)
    yield from _of_forms(architecture)
    yield from products_of(architecture)


def _tests() -> Iterator[Probe]:
    """Comparisons, and what kind of number one is."""
    for test in _FLOAT_TESTS.split():
        yield _comparison(f"setp.{test}.f32", "F32")
    for name, kind in (
        ("setp.lt.s32", "I32"),
        ("setp.lo.u32", "I32"),
        ("setp.gtu.f64", "F64"),
        ("setp.leu.f16", "F16"),
    ):
        yield _comparison(name, kind)
    yield _probe("set.ltu.u32.f32", ["F32", "F32"], "I32")
    for test in _CLASSES.split():
        yield Probe(f"testp.{test}.f32", "testp", (f"testp.{test}.f32 %ok, %i0;", _AS_WORD), ("F32",), ("I32",))


def _of_predicates() -> Iterator[Probe]:
    """A choice, and functions of three bits by their tables."""
    lines = ("setp.lt.s32 %ok, %i0, 0;", "selp.b32 %q0, %i1, %i2, %ok;")
    yield Probe("selp.b32", "selp.b32", lines, ("I32",) * 3, ("I32",))
    for table in _TRUTH_TABLES:
        line = f"lop3.b32 %q0, %i0, %i1, %i2, {table};"
        yield Probe(f"lop3.b32.{table}", "lop3.b32", (line,), ("I32",) * 3, ("I32",))


def _with_carries() -> Iterator[Probe]:
    """Sums of two words with the carry between them."""
    for first, second in (("add.cc.u32", "addc.u32"), ("sub.cc.u32", "subc.u32")):
        lines = (f"{first} %q0, %i0, %i2;", f"{second} %q1, %i1, %i3;")
        yield Probe(second, second, lines, ("I32",) * 4, ("I32", "I32"))
    lines = ("mad.lo.cc.u32 %q0, %i0, %i1, %i2;", "madc.hi.u32 %q1, %i0, %i1, %i3;")
    yield Probe("madc.hi.u32", "madc.hi.u32", lines, ("I32",) * 4, ("I32", "I32"))


def _of_halves(architecture: Architecture) -> Iterator[Probe]:
    for suffix, kind, since in (("f16", "F16", _SM_80), ("bf16", "B16", _SM_90)):
        for name, count in _HALVES if architecture.number >= since else ():
            yield _probe(f"{name}.{suffix}", [kind] * count, kind)
            yield _probe(f"{name}.{suffix}x2", [f"{kind}x2"] * count, f"{kind}x2")
    for name, suffix, since in (*_APPROXIMATE_HALVES, ("tanh.approx", "bf16", _SM_90)):
        if architecture.number >= since:
            kind = "F16" if suffix == "f16" else "B16"
            yield _probe(f"{name}.{suffix}", [kind], kind)
            yield _probe(f"{name}.{suffix}x2", [f"{kind}x2"], f"{kind}x2")


def _conversions(architecture: Architecture) -> Iterator[Probe]:
    for name, source, result in _CONVERSIONS:
        if architecture.number >= _SM_80 or not ({"bf16", "tf32"} & set(name.split("."))):
            yield _probe(name, [source], result)
    for code in _CODES if architecture.number >= _SM_89 else ():
        yield _probe(f"cvt.rn.satfinite.{code}x2.f32", ["F32", "F32"], "I16")
        yield _probe(f"cvt.rn.satfinite.{code}x2.f16x2", ["F16x2"], "I16")
        yield _probe(f"cvt.rn.f16x2.{code}x2", ["I16"], "F16x2")


def _of_forms(architecture: Architecture) -> Iterator[Probe]:
    for (sources, result), names in FORMS.items() if architecture.number >= _SM_90 else ():
        for name in names.split():
            yield _probe(name, sources.split(), result)


def _alike(names: str, kind: str, count: int) -> Iterator[Probe]:
    for name in names.split():
        yield _probe(name, [kind] * count, kind)


# -- lines


def _probe(name: str, sources: Sequence[str], result: str) -> Probe:
    loads, operands = _sources(sources)
    before, target = _result(result)
    return Probe(name, name, (*loads, f"{name} {', '.join((target, *operands))};", *before), tuple(sources), (result,))


_AS_WORD = "selp.b32 %q0, 1, 0, %ok;"


def _comparison(name: str, kind: str) -> Probe:
    loads, operands = _sources([kind, kind])
    return Probe(name, name, (*loads, f"{name} %ok, {', '.join(operands)};", _AS_WORD), (kind, kind), ("I32",))


def _sources(kinds: Sequence[str]) -> tuple[list[str], list[str]]:
    """Lines that make operands of words, and their names."""
    lines, names, place = [], [], 0
    for number, kind in enumerate(kinds):
        width = kind_of(kind).bits * kind_of(kind).count
        if width == 64:
            lines.append(f"mov.b64 %w{number}, {{%i{place}, %i{place + 1}}};")
        elif width == 16:
            lines.append(f"cvt.u16.u32 %h{number}, %i{place};")
        names.append({64: f"%w{number}", 16: f"%h{number}"}.get(width, f"%i{place}"))
        place += kind_of(kind).words
    return lines, names


def _result(kind: str) -> tuple[list[str], str]:
    """Lines that make words of a result, and its name."""
    width = kind_of(kind).bits * kind_of(kind).count
    if width == 64:
        return ["mov.b64 {%q0, %q1}, %w9;"], "%w9"
    return (["cvt.u32.u16 %q0, %h9;"], "%h9") if width == 16 else ([], "%q0")


def body(probe: Probe, source: str, target: str) -> list[str]:
    """All lines of a probe, a block of its own.

    Args:
        probe: what to run.
        source: register with the address of the lane's row of operands.
        target: of its row of results.
    """
    words = sum(kind_of(kind).words for kind in probe.sources)
    results = sum(kind_of(kind).words for kind in probe.results)
    return [
        "{",
        ".reg .b32 %i<32>;",
        ".reg .b32 %q<8>;",
        ".reg .b32 %s<4>;",
        ".reg .b64 %w<24>;",
        ".reg .b16 %h<10>;",
        ".reg .pred %ok;",
        *(f"ld.global.b32 %i{n}, [{source}+{4 * n}];" for n in range(words)),
        *probe.lines,
        *(f"st.global.b32 [{target}+{4 * n}], %q{n};" for n in range(results)),
        "}",
    ]
