"""Which arithmetic instructions are recorded on a device, with the lines that run each on operands of its own.

The lines of a probe find their operands in vector registers from ``v32`` on (``places_of``), one lane a row, and
leave their results from ``v56`` on. They may use ``v32`` to ``v95``, ``s32`` to ``s63``, VCC and SCC. The same lines
run in the inline assembly of a Triton kernel on a device and, within a kernel of the emulator's own, in the emulator.

What is not recorded: moves, also those between lanes, memory, control, results that a mode bit changes.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence

from portkit.emulate.amdgcn.architecture import CDNA, Architecture, Generation
from portkit.emulate.amdgcn.isa.lookup import all_entries
from portkit.emulate.amdgcn.isa.registry import Entry, Operands
from portkit.emulate.core.vectors import Probe, kind_of

SOURCE, RESULT = 32, 56
"""First vector registers of operands and of results."""

CLOBBERED = (
    *(f"v{n}" for n in range(SOURCE, 96)),
    *(f"s{n}" for n in range(32, 64)),
    *("vcc", "scc", "memory"),
)
"""What the inline assembly of a probe changes."""

_LITERAL = "0x40490fdb"


def probes_of(architecture: Architecture) -> list[Probe]:
    """All probes of an architecture, by name."""
    found = [probe for maker in _MAKERS for probe in maker(architecture)]
    return sorted(found, key=lambda probe: probe.name)


def _having(architecture: Architecture, pattern: str) -> Iterator[tuple[str, Entry]]:
    """Entries of the architecture whose names match."""
    for name, entry in all_entries().items():
        if architecture.generation in entry.generations and re.fullmatch(pattern, name):
            yield name, entry


# -- lines


def _registers(first: int, kind: str, letter: str = "v") -> str:
    words = kind_of(kind).words
    return f"{letter}{first}" if words == 1 else f"{letter}[{first}:{first + words - 1}]"


def places_of(kinds: Sequence[str]) -> list[int]:
    """First vector register of each operand: one behind the other, pairs at even numbers, as CDNA wants them."""
    places, free = [], SOURCE
    for kind in kinds:
        words = kind_of(kind).words
        free += free % 2 if words > 1 else 0
        places.append(free)
        free += words
    return places


def _laid_out(kinds: Sequence[str]) -> list[str]:
    """Vector registers of operands."""
    return [_registers(place, kind) for place, kind in zip(places_of(kinds), kinds, strict=True)]


def _words_at(kinds: Sequence[str]) -> list[int]:
    """Vector register of each word of a row of operands."""
    return [place + n for place, kind in zip(places_of(kinds), kinds, strict=True) for n in range(kind_of(kind).words)]


def settle(architecture: Architecture) -> str:
    """An instruction after which every result so far can be read, whatever the device leaves to the compiler."""
    if architecture.generation in CDNA:
        return "s_nop 7"
    return "s_wait_alu 0xfc" if architecture.generation is Generation.RDNA4 else "s_waitcnt_depctr 0xfc"


def _mask(architecture: Architecture) -> str:
    return "vcc" if architecture.generation in CDNA else "vcc_lo"


def _flag(architecture: Architecture, register: int) -> list[str]:
    """VCC of each lane as 1 or 0."""
    return [settle(architecture), f"v_cndmask_b32 v{register}, 0, 1, {_mask(architecture)}"]


# -- arithmetic of vectors and scalars, from the tables' own types


def _names(operands: Operands) -> tuple[list[str], str]:
    return [kind.name for kind in operands.sources], operands.result.name


def _vector(architecture: Architecture) -> Iterator[Probe]:
    """Entries that compute one result from their operands."""
    for name, entry in _having(architecture, r"v_(?!accvgpr|s_|pk_).*"):
        if entry.operands is not None:
            kinds, result = _names(entry.operands)
            yield (
                _with_literal(name, kinds, result)
                if re.search("(fma|mad)(ak|mk)", name)
                else _plain(name, kinds, result, entry.operands.accumulate)
            )


def _plain(name: str, kinds: list[str], result: str, accumulate: bool) -> Probe:
    texts, target = _laid_out(kinds), _registers(RESULT, result)
    lines = [f"v_mov_b32 v{RESULT + n}, 0" for n in range(kind_of(result).words)]
    if accumulate:
        first = places_of(kinds)[-1]
        lines = [f"v_mov_b32 v{RESULT + n}, v{first + n}" for n in range(kind_of(result).words)]
        texts = texts[:-1]
    return Probe(name, name, (*lines, f"{name} {target}, {', '.join(texts)}"), tuple(kinds), (result,))


def _with_literal(name: str, kinds: list[str], result: str) -> Probe:
    literal = _LITERAL if kinds[0] == "F32" else "0x4248"
    texts = _laid_out(kinds[:2])
    texts.insert(2 if "ak" in name else 1, literal)
    return Probe(name, name, (f"{name} v{RESULT}, {', '.join(texts)}",), tuple(kinds[:2]), (result,))


def _scalar(architecture: Architecture) -> Iterator[Probe]:
    """Scalar entries, a lane after the other; SCC is a result too."""
    for name, entry in _having(architecture, r"(s|v_s)_.*"):
        if entry.operands is not None:
            yield _scalar_probe(architecture, name, entry.operands)


def _scalar_probe(architecture: Architecture, name: str, operands: Operands) -> Probe:
    kinds, result = _names(operands)
    literal = bool(re.search("fma(ak|mk)", name))
    kinds = kinds[:2] if literal else kinds
    texts = [_registers(place, kind, "s") for place, kind in zip(places_of(kinds), kinds, strict=True)]
    words = kind_of(result).words
    if literal:
        texts.insert(2 if "ak" in name else 1, _LITERAL)
    start = []
    if operands.accumulate:
        start = [f"s_mov_b32 s{48 + n}, s{places_of(kinds)[-1] + n}" for n in range(words)]
        texts = texts[:-1]
    line = f"{name} {_registers(48, result, 's')}, {', '.join(texts)}"
    return _with_scc(architecture, name, [*start, "s_cmp_eq_u32 0, 1", line], kinds, (result, "U32"))


def _with_scc(
    architecture: Architecture, name: str, lines: list[str], kinds: Sequence[str], results: tuple[str, ...]
) -> Probe:
    """Lines whose last one is the instruction, with SCC as the last result, behind what lies from ``s48`` on."""
    words = sum(kind_of(kind).words for kind in results[:-1])
    one = [*lines, "s_cselect_b32 s52, 1, 0"]
    every = tuple(_lane_by_lane(architecture, _words_at(kinds), one, [*range(48, 48 + words), 52]))
    return Probe(name, lines[-1].partition(" ")[0], every, tuple(kinds), results)


_IMMEDIATES = ("0x7", "0xffff")
"""Of 16 bits, to compare with and to compute with: both are edges of the operands where a sign extends them."""


def _scalar_comparisons(architecture: Architecture) -> Iterator[Probe]:
    """Comparisons with a register and with an immediate, and tests of a bit; SCC alone is the result."""
    for name, _ in _having(architecture, r"s_(cmp|bitcmp)_?.*"):
        if not name.startswith("s_cmpk"):
            kind = name.rsplit("_", 1)[1].upper().replace("B", "U")
            kinds = (kind, "U32" if "bitcmp" in name else kind)
            left, right = (_registers(place, each, "s") for place, each in zip(places_of(kinds), kinds, strict=True))
            yield _with_scc(architecture, name, [f"{name} {left}, {right}"], kinds, ("U32",))
    for name, _ in _having(architecture, r"s_cmpk_.*"):
        for value in _IMMEDIATES:
            kind = name.rsplit("_", 1)[1].upper()
            yield _with_scc(architecture, f"{name}.{value}", [f"{name} s32, {value}"], [kind], ("U32",))


def _scalar_sums(architecture: Architecture) -> Iterator[Probe]:
    """Sums with a carry in, and sums and products of an immediate and the destination."""
    for name, _ in _having(architecture, r"s_(addc|subb|(add|sub)_co_ci)_u32"):
        lines = ["s_cmp_gt_u32 s32, s34", f"{name} s48, s32, s33"]
        yield _with_scc(architecture, name, lines, ("U32",) * 3, ("U32", "U32"))
    for name, _ in _having(architecture, r"s_(add|mul)k(_co)?_i32"):
        for value in _IMMEDIATES:
            lines = ["s_mov_b32 s48, s32", "s_cmp_eq_u32 0, 1", f"{name} s48, {value}"]
            yield _with_scc(architecture, f"{name}.{value}", lines, ("I32",), ("I32", "U32"))


def _selections(architecture: Architecture) -> Iterator[Probe]:
    """One of two values, by SCC of each lane's scalars or by VCC."""
    compare, mask = "s_cmp_gt_u32 s32, s34", _mask(architecture)
    for name, _ in _having(architecture, r"s_(cselect|cmov)_b(32|64)"):
        kind = f"U{name[-2:]}"
        left, right = (_registers(place, kind, "s") for place in (32, 34))
        lines = [compare, f"{name} {_registers(48, kind, 's')}, {left}, {right}"]
        if "cmov" in name:
            starts = [f"s_mov_b32 s{48 + n}, s{34 + n}" for n in range(kind_of(kind).words)]
            lines = [*starts, compare, f"{name} {_registers(48, kind, 's')}, {left}"]
        yield _with_scc(architecture, name, lines, ("U64", "U64"), (kind, "U32"))
    for name, _ in _having(architecture, r"v_cndmask_b(16|32)"):
        kind = f"U{name[-2:]}"
        start = (f"v_mov_b32 v{RESULT}, 0", f"v_cmp_gt_u32 {mask}, v34, v33", settle(architecture))
        yield Probe(name, name, (*start, f"{name} v{RESULT}, v32, v33, {mask}"), (kind, kind, "U32"), (kind,))


def _lane_by_lane(
    architecture: Architecture, sources: list[int], lines: list[str], results: list[int]
) -> Iterator[str]:
    """Lines on scalar registers for each lane: operands in those of the vector registers' numbers."""
    lanes = 64 if architecture.generation in CDNA else 32
    yield from (f"v_mov_b32 v{RESULT + n}, 0" for n in range(len(results)))
    for lane in range(lanes):
        yield from (f"v_readlane_b32 s{register}, v{register}, {lane}" for register in sources)
        yield settle(architecture)
        yield from lines
        yield settle(architecture)
        yield from (f"v_writelane_b32 v{RESULT + n}, s{register}, {lane}" for n, register in enumerate(results))


# -- comparisons and carries


def _comparisons(architecture: Architecture) -> Iterator[Probe]:
    """v_cmp of every type; the mask is one bit a lane."""
    for name, _ in _having(architecture, r"v_cmp_.*"):
        kind = name.rsplit("_", 1)[1].upper()
        kinds = (kind, "U32" if "class" in name else kind)
        line = f"{name} {_mask(architecture)}, {', '.join(_laid_out(kinds))}"
        yield Probe(name, name, (line, *_flag(architecture, RESULT)), kinds, ("U32",))


def _executing_comparisons(architecture: Architecture) -> Iterator[Probe]:
    """v_cmpx of every type: which lanes run after it, all of which ran before."""
    wide = architecture.generation in CDNA
    mask, width = _mask(architecture), 64 if wide else 32
    every, kept = ("exec", "s[32:33]") if wide else ("exec_lo", "s32")
    for name, _ in _having(architecture, r"v_cmpx_.*"):
        kind = name.rsplit("_", 1)[1].upper()
        kinds = (kind, "U32" if "class" in name else kind)
        texts = [*([mask] if wide else []), *_laid_out(kinds)]
        lines = [f"s_mov_b{width} {kept}, {every}", f"{name} {', '.join(texts)}", settle(architecture)]
        back = [f"s_mov_b{width} {mask}, {every}", f"s_mov_b{width} {every}, {kept}"]
        yield Probe(name, name, (*lines, *back, *_flag(architecture, RESULT)), kinds, ("U32",))


def _carries(architecture: Architecture) -> Iterator[Probe]:
    """Sums with a carry out, with one in and none in, and 64-bit products with a sum."""
    mask = _mask(architecture)
    for name, _ in _having(architecture, r"v_(add|sub|subrev)_co_u32"):
        lines = (f"{name} v{RESULT}, {mask}, v32, v33", *_flag(architecture, RESULT + 1))
        yield Probe(name, name, lines, ("U32", "U32"), ("U32", "U32"))
    for name, _ in _having(architecture, r"v_(addc|subb|subbrev|add_co_ci|sub_co_ci|subrev_co_ci)(_co)?_u32"):
        start = (f"v_cmp_gt_u32 {mask}, v32, v34", settle(architecture))
        lines = (*start, f"{name} v{RESULT}, {mask}, v32, v33, {mask}", *_flag(architecture, RESULT + 1))
        yield Probe(name, name, lines, ("U32", "U32", "U32"), ("U32", "U32"))
    for name, _ in _having(architecture, r"v_mad_(co_)?(u64_u32|i64_i32)"):
        narrow, wide = ("I32", "I64") if "i64" in name else ("U32", "U64")
        line = f"{name} {_registers(RESULT, wide)}, {mask}, {', '.join(_laid_out((narrow, narrow, wide)))}"
        yield Probe(name, name, (line, *_flag(architecture, RESULT + 2)), (narrow, narrow, wide), (wide, "U32"))


def _divisions(architecture: Architecture) -> Iterator[Probe]:
    """v_div_scale of the denominator and of the numerator, and v_div_fmas with VCC set in some lanes."""
    mask = _mask(architecture)
    for name, _ in _having(architecture, r"v_div_scale_f(32|64)"):
        kind = name[-3:].upper()
        denominator, numerator = _laid_out((kind, kind))
        for what, value in (("denominator", denominator), ("numerator", numerator)):
            line = f"{name} {_registers(RESULT, kind)}, {mask}, {value}, {denominator}, {numerator}"
            flag = _flag(architecture, RESULT + kind_of(kind).words)
            yield Probe(f"{name}.{what}", name, (line, *flag), (kind, kind), (kind, "U32"))
    for name, _ in _having(architecture, r"v_div_fmas_f(32|64)"):
        kinds = (name[-3:].upper(),) * 3
        lines = (f"v_cmp_gt_u32 {mask}, v32, v33", settle(architecture))
        line = f"{name} {_registers(RESULT, kinds[0])}, {', '.join(_laid_out(kinds))}"
        yield Probe(name, name, (*lines, line), kinds, kinds[:1])


# -- packed values, dot products, small floats


def _packed(architecture: Architecture) -> Iterator[Probe]:
    """v_pk_*: two values a register, or two registers of float32."""
    for name, _ in _having(architecture, r"v_pk_(?!mov|.*_(?:fp8|bf8)).*"):
        kind = f"{name.rsplit('_', 1)[1].upper().replace('B16', 'U16')}x2"
        count = 3 if re.search("fma|mad|3", name.rsplit("_", 1)[0]) else 2
        yield _of_three(name, (kind,) * count, kind)


def _of_three(name: str, kinds: tuple[str, ...], result: str) -> Probe:
    line = f"{name} {_registers(RESULT, result)}, {', '.join(_laid_out(kinds))}"
    return Probe(name, name, (line,), kinds, (result,))


_MIXED = {
    "single": ("", ("F32", "F32", "F32")),
    "low": (" op_sel_hi:[1,1,0]", ("F16x2", "F16x2", "F32")),
    "high": (" op_sel:[1,0,1] op_sel_hi:[1,0,1]", ("F16x2", "F32", "F16x2")),
}
"""Which sources are halves, and which half they are."""


def _mixed(architecture: Architecture) -> Iterator[Probe]:
    """v_fma_mix*: a source is a float32 or one half; a narrow result leaves the destination's other half."""
    for name, _ in _having(architecture, r"v_fma_mix(_f32|(lo|hi)_f16)"):
        for what, (modifiers, kinds) in _MIXED.items():
            start = f"v_mov_b32 v{RESULT}, v35"
            line = f"{name} v{RESULT}, v32, v33, v34{modifiers}"
            result = "F32" if name.endswith("f32") else "F16x2"
            yield Probe(f"{name}.{what}", name, (start, line), (*kinds, "U32"), (result,))


_TRUTH_TABLES = ("0x96", "0xca", "0x1d")
"""Of functions of three bits: the exclusive or, a selection, and one that is not alike in any two of them."""


def _bit_functions(architecture: Architecture) -> Iterator[Probe]:
    for name, _ in _having(architecture, r"v_bitop3_b(16|32)"):
        kind = f"U{name[-2:]}"
        for table in _TRUTH_TABLES:
            lines = (f"v_mov_b32 v{RESULT}, 0", f"{name} v{RESULT}, v32, v33, v34 bitop3:{table}")
            yield Probe(f"{name}.{table}", name, lines, (kind,) * 3, (kind,))


_DOTS = {
    r"v_dot2_f16_f16": (("F16x2", "F16x2", "F16"), "F16"),
    r"v_dot2_bf16_bf16": (("B16x2", "B16x2", "B16"), "B16"),
    r"v_dot2_f32_f16": (("F16x2", "F16x2", "F32"), "F32"),
    r"v_dot2_f32_bf16": (("B16x2", "B16x2", "F32"), "F32"),
    r"v_dot2_i32_i16": (("I16x2", "I16x2", "I32"), "I32"),
    r"v_dot2_u32_u16": (("U16x2", "U16x2", "U32"), "U32"),
    r"v_dot4_i32_i8": (("I8x4", "I8x4", "I32"), "I32"),
    r"v_dot4_u32_u8": (("U8x4", "U8x4", "U32"), "U32"),
    r"v_dot8_i32_i4": (("I4x8", "I4x8", "I32"), "I32"),
    r"v_dot8_u32_u4": (("U4x8", "U4x8", "U32"), "U32"),
    r"v_dot4_i32_iu8": (("U8x4", "U8x4", "I32"), "I32"),
    r"v_dot8_i32_iu4": (("U4x8", "U4x8", "I32"), "I32"),
    r"v_dot4_f32_[fb][pf]8_[fb][pf]8": (("FP8x4", "FP8x4", "F32"), "F32"),
}
_ACCUMULATING = {
    r"v_dot2(c|acc)_f32_f16": (("F16x2", "F16x2", "F32"), "F32"),
    r"v_dot2c_f32_bf16": (("B16x2", "B16x2", "F32"), "F32"),
    r"v_dot4c_i32_i8": (("I8x4", "I8x4", "I32"), "I32"),
    r"v_dot8c_i32_i4": (("I4x8", "I4x8", "I32"), "I32"),
}
_CONVERSIONS = {
    r"v_cvt_f32_[fb][pf]8": (("U8",), "F32"),
    r"v_cvt_pk_f32_[fb][pf]8": (("U8x4",), "F32x2"),
    r"v_cvt_scalef32_pk_f32_([fb][pf]8|fp4)": (("U8x4", "F32"), "F32x2"),
    r"v_cvt_scalef32_pk_f16_([fb][pf]8|fp4)": (("U8x4", "F32"), "F16x2"),
    r"v_cvt_scalef32_pk_bf16_([fb][pf]8|fp4)": (("U8x4", "F32"), "B16x2"),
    r"v_cvt_scalef32_pk32_f32_[fb][pf]6": (("FP6x32", "F32"), "F32x32"),
    r"v_cvt_scalef32_pk32_f16_[fb][pf]6": (("FP6x32", "F32"), "F16x32"),
    r"v_cvt_scalef32_pk32_bf16_[fb][pf]6": (("FP6x32", "F32"), "B16x32"),
}
_NARROWING = {
    r"v_cvt_pk_[fb][pf]8_f32": ("F32", "F32"),
    r"v_cvt_scalef32_pk_([fb][pf]8|fp4)_f32": ("F32", "F32", "F32"),
    r"v_cvt_scalef32_pk_([fb][pf]8|fp4)_f16": ("F16x2", "F32"),
    r"v_cvt_scalef32_pk_([fb][pf]8|fp4)_bf16": ("B16x2", "F32"),
}
"""Conversions that leave a part of the destination as it was."""


def _dots(architecture: Architecture) -> Iterator[Probe]:
    for pattern, (kinds, result) in _DOTS.items():
        yield from (_of_three(name, kinds, result) for name, _ in _having(architecture, pattern))
    for pattern, (kinds, result) in _ACCUMULATING.items():
        for name, _ in _having(architecture, pattern):
            probe = _plain(name, list(kinds), result, True)
            only_dual = "acc" in name and architecture.generation is Generation.RDNA4
            yield _as_dual(probe) if only_dual else probe


def _as_dual(probe: Probe) -> Probe:
    """The instruction as one half of a pair, the other half of which is a move that nothing reads."""
    line = f"{probe.lines[-1].replace('v_', 'v_dual_', 1)} :: v_dual_mov_b32 v{RESULT + 1}, v{SOURCE + 2}"
    return dataclasses.replace(probe, lines=(*probe.lines[:-1], line))


def _small_floats(architecture: Architecture) -> Iterator[Probe]:
    """Conversions from floats of 8, 6 and 4 bits, and to them; a scale's exponent counts, its mantissa does not."""
    for pattern, (kinds, result) in _CONVERSIONS.items():
        yield from (_of_three(name, kinds, result) for name, _ in _having(architecture, pattern))
    for pattern, sources in _NARROWING.items():
        yield from (_plain(name, [*sources, "U32"], "U32", True) for name, _ in _having(architecture, pattern))
    for name, _ in _having(architecture, r"v_cvt_scalef32_pk32_[fb][pf]6_b?f16"):
        yield _from_many(name, "B16x2" if name.endswith("bf16") else "F16x2")


def _from_many(name: str, pair: str) -> Probe:
    """32 values of 16 registers, each pair with edges of its own, to codes in six."""
    line = f"{name} {_group(RESULT, 6)}, {_group(SOURCE, 16)}, v{SOURCE + 16}"
    return Probe(name, name, (line,), ((pair,) * 16 + ("F32",)), ("U32x6",))


# -- matrices

_MATRIX = re.compile(r"v_(mfma|wmma)_(f32|f64|i32|f16|bf16)_(\d+)x(\d+)x(\d+)(?:_(\d+)b)?_([a-z]+\d+)(?:_[a-z]+\d+)?")
_ELEMENTS = {
    **{"f64": "F64", "f32": "F32", "xf32": "F32", "f16": "F16", "bf16": "B16", "i32": "I32"},
    **{"i8": "I8", "iu8": "U8", "iu4": "U4", "fp8": "FP8", "bf8": "FP8"},
}
_SCALE = "E8x4"


def _matrices(architecture: Architecture) -> Iterator[Probe]:
    """Products of a wave's matrices."""
    for name, _ in _having(architecture, r"v_(mfma|wmma)_(?!.*f8f6f4).*"):
        if architecture.generation is Generation.CDNA2:
            yield _old_product(architecture, name)
        else:
            yield _product(architecture, name)


def _product(architecture: Architecture, name: str) -> Probe:
    match = _matched(_MATRIX, name)
    rows, columns, depth, blocks = (int(match[n] or 1) for n in range(3, 7))
    lanes = 64 if match[1] == "mfma" else 32
    doubled = architecture.generation is Generation.RDNA3
    side = f"{_ELEMENTS[match[7]]}x{rows * depth * blocks // (lanes // (1 + doubled))}"
    kind, count = _ELEMENTS[match[2]], rows * columns * blocks // lanes
    results = (kind,) * count if doubled and kind in {"F16", "B16"} else (f"{kind}x{count}",)
    kinds = (side, side, *results)
    return Probe(name, name, tuple(_product_lines(architecture, name, kinds)), kinds, results)


_OLD_MATRIX = re.compile(r"v_mfma_(f32|f64|i32)_(\d+)x(\d+)x(\d+)(f32|f64|f16|bf16|i8)(_1k)?")
_OLD_DEPTHS = {"F64": 1, "F32": 1, "F16": 4, "B16": 2, "I8": 4}


def _old_product(architecture: Architecture, name: str) -> Probe:
    """CDNA2's names say no count of blocks; a lane holds a run of K that each type has its own length of."""
    match = _matched(_OLD_MATRIX, name)
    rows, columns, depth = (int(match[n]) for n in range(2, 5))
    held = _OLD_DEPTHS[_ELEMENTS[match[5]]] * (2 if match[6] else 1)
    blocks = 64 * held // (rows * depth)
    side, result = f"{_ELEMENTS[match[5]]}x{held}", f"{_ELEMENTS[match[1]]}x{rows * columns * blocks // 64}"
    lines = tuple(_product_lines(architecture, name, (side, side, result)))
    return Probe(name, name, lines, (side, side, result), (result,))


def _matched(pattern: re.Pattern[str], name: str) -> re.Match[str]:
    match = pattern.fullmatch(name)
    if match is None:
        raise ValueError(f"no probe for a product of the name {name}")
    return match


_FORMATS = {"fp8": "FP8x32", "bf8": "FP8x32", "fp6": "FP6x32", "bf6": "FP6x32", "fp4": "FP4x32"}
"""Of f8f6f4, in the order of their codes."""


def _mixed_matrices(architecture: Architecture) -> Iterator[Probe]:
    """f8f6f4 with and without scales; each format on either side, with itself and with another width."""
    for name, _ in _having(architecture, r"v_mfma_(scale_)?f32_\d+x\d+x\d+_f8f6f4"):
        for code, a in enumerate(_FORMATS):
            for other in (code, (code + 2) % len(_FORMATS)):
                yield _mixed_product(architecture, name, (a, list(_FORMATS)[other]))


def _mixed_product(architecture: Architecture, name: str, formats: tuple[str, str]) -> Probe:
    codes = [list(_FORMATS).index(each) for each in formats]
    count = 4 if "16x16" in name else 16
    kinds: tuple[str, ...] = (*(_FORMATS[each] for each in formats), f"F32x{count}")
    rest = f" cbsz:{codes[0]} blgp:{codes[1]}"
    if "scale" in name:  # bytes 1 and 2 of their words
        kinds = (*kinds, _SCALE, _SCALE)
        first, second = places_of(kinds)[3:]
        rest = f", v{first}, v{second} op_sel:[1,0,0] op_sel_hi:[0,1,0]{rest}"
    lines = tuple(_product_lines(architecture, name, kinds, rest))
    return Probe(f"{name}.{'.'.join(formats)}", name, lines, kinds, (f"F32x{count}",))


def _product_lines(architecture: Architecture, name: str, kinds: Sequence[str], rest: str = "") -> Iterator[str]:
    """On RDNA3 the upper lanes repeat the operands of the lower ones; what is kept of the result is zero before."""
    places = places_of(kinds)
    words = sum(kind_of(kind).words for kind in kinds[2:] if kind != _SCALE)
    if architecture.generation is Generation.RDNA3:
        registers = range(places[0], places[1] + kind_of(kinds[1]).words)
        yield from (f'ds_swizzle_b32 v{n}, v{n} offset:swizzle(BITMASK_PERM,"0pppp")' for n in registers)
        yield "s_waitcnt lgkmcnt(0)"
    apart = max(_words_at(kinds)) < RESULT
    target = RESULT if apart else places[2]  # where operands reach into the results, the sum takes the addend's place
    if apart:
        yield from (f"v_mov_b32 v{RESULT + n}, 0" for n in range(words))
    yield settle(architecture)
    a, b = (_registers(place, kind) for place, kind in zip(places[:2], kinds[:2], strict=True))
    yield f"{name} {_group(target, words)}, {a}, {b}, {_group(places[2], words)}{rest}"
    if architecture.generation in CDNA:  # up to 64 cycles until the result can be read
        yield from ("s_nop 15",) * 4
    if not apart:  # the last one first: what is overwritten has been moved
        yield from (f"v_mov_b32 v{RESULT + n}, v{target + n}" for n in reversed(range(words)))


def _group(first: int, words: int) -> str:
    return f"v{first}" if words == 1 else f"v[{first}:{first + words - 1}]"


_MAKERS: tuple[Callable[[Architecture], Iterator[Probe]], ...] = (
    *(_vector, _scalar, _comparisons, _executing_comparisons, _carries, _divisions),
    *(_scalar_comparisons, _scalar_sums, _selections),
    *(_packed, _mixed, _bit_functions, _dots, _small_floats, _matrices, _mixed_matrices),
)


# -- the whole of a probe: operands from memory, lines, results to memory


def with_named_halves(probe: Probe) -> Probe | None:
    """The probe with the low halves of registers named (``v32.l``), as LLVM wants it where 16-bit registers are on.

    None where the probe's instruction has no 16-bit operand.
    """
    kinds = [*zip(places_of(probe.sources), probe.sources, strict=True), (RESULT, probe.results[0])]
    narrow = {f"v{place}": f"v{place}.l" for place, kind in kinds if kind_of(kind).bits * kind_of(kind).count == 16}
    named = tuple(
        re.sub(r"\bv\d+\b(?!\.)", lambda found: narrow.get(found[0], found[0]), line)
        if line.startswith(probe.mnemonic)
        else line
        for line in probe.lines
    )
    return dataclasses.replace(probe, lines=named) if named != probe.lines else None


def body(probe: Probe, architecture: Architecture, source: str, target: str) -> list[str]:
    """All lines of a probe, around addresses a lane in two pairs of vector registers.

    Args:
        probe: what to run.
        architecture: for it.
        source: of the lane's row of operands.
        target: of its row of results.
    """
    old = architecture.generation in CDNA
    load, store = ("global_load_dword", "global_store_dword") if old else ("global_load_b32", "global_store_b32")
    wait = "s_wait_loadcnt 0x0" if architecture.generation is Generation.RDNA4 else "s_waitcnt vmcnt(0)"
    registers, results = _words_at(probe.sources), sum(kind_of(kind).words for kind in probe.results)
    return [
        *(f"{load} v{register}, {source}, off offset:{4 * n}" for n, register in enumerate(registers)),
        wait,
        *probe.lines,
        settle(architecture),
        *(f"{store} {target}, v{RESULT + n}, off offset:{4 * n}" for n in range(results)),
    ]
