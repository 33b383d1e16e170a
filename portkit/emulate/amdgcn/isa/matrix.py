"""Matrix multiplication: MFMA of CDNA, WMMA of RDNA.

D = A·B + C over the registers of a whole wave. How elements lie in lanes and registers is a ``Layout``; how
bits become numbers is an ``Elements``; how C and D lie in registers is an ``Accumulator``.

Sources: CDNA2, CDNA3 and CDNA4 ISA "Matrix Arithmetic Instructions" (dense layouts, broadcast and scale
operands); RDNA3 ISA and RDNA4 ISA "Wave Matrix Multiply Accumulate (WMMA)". The layouts are those that AMD's
matrix instruction calculator prints.

Approximations: products are summed in float64 in no particular order and rounded once, where devices round
in between; float64 matrices are summed likewise. xf32 operands are cut to 10 bits of mantissa.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from portkit.emulate.amdgcn.architecture import RDNA, Architecture, Generation
from portkit.emulate.amdgcn.decode import Decoder, Step
from portkit.emulate.amdgcn.isa import sections
from portkit.emulate.amdgcn.isa.registry import Build, Entry
from portkit.emulate.amdgcn.machine import Array, Machine
from portkit.emulate.amdgcn.operands import Type, constant, is_constant
from portkit.emulate.core.findings import Finding, Kind
from portkit.emulate.core.floats import bf16_to_f32, f32_to_bf16, flush
from portkit.emulate.core.smallfloats import (
    E2M1,
    E2M3,
    E3M2,
    E4M3,
    E4M3_FNUZ,
    E5M2,
    E5M2_FNUZ,
    SmallFloat,
    scale_of,
    unpack,
)
from portkit.emulate.core.vectors import Approximation

_CDNA2 = frozenset({Generation.CDNA2})
_CDNA3 = frozenset({Generation.CDNA3})
_CDNA4 = frozenset({Generation.CDNA4})
_RDNA3 = frozenset({Generation.RDNA3})
_RDNA4 = frozenset({Generation.RDNA4})

_TOP_NINETEEN = np.uint32(0xFFFF_E000)


# -- elements


@dataclass(frozen=True)
class Elements:
    """How words of a register become numbers: first parted, then valued, so that parts are moved while small."""

    bits: int
    part: Callable[[Array], Array]  # words [..., registers] → codes [..., elements]
    value: Callable[[Array], Array]  # codes of any shape → float64 of that shape, contiguous
    chunks: int = 1  # runs of consecutive K that a lane holds, where it holds more than one
    smallest_normal: float | None = None  # of 16-bit floats: below, CDNA2 takes operands for zeros


def _viewed(dtype: str) -> Callable[[Array], Array]:
    return lambda words: words.view(dtype)


def _widened(codes: Array) -> Array:
    return codes.astype(np.float64, order="C")


def _looked_up(table: Callable[[], Array]) -> Callable[[Array], Array]:
    """Values by a table, which is made when it is first needed."""
    return lambda codes: table().take(codes)


@functools.cache
def _half_table() -> Array:
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)


@functools.cache
def _bfloat_table() -> Array:
    return bf16_to_f32(np.arange(1 << 16, dtype=np.uint32)).astype(np.float64)


def _cut(words: Array) -> Array:
    return (words & _TOP_NINETEEN).view(np.float32)


def _signed_nibbles(words: Array) -> Array:
    codes = unpack(words, 4).astype(np.int8)
    return np.where(codes > 7, codes - 16, codes)


def _nibbles(words: Array) -> Array:
    return unpack(words, 4)


def _small(kind: SmallFloat, chunks: int = 1) -> Elements:
    table = kind.table.astype(np.float64)
    return Elements(kind.bits, lambda words: unpack(words, kind.bits), table.take, chunks)


_PLAIN = {
    "f64": Elements(64, _viewed("f8"), _widened),
    "f32": Elements(32, _viewed("f4"), _widened),
    "xf32": Elements(32, _cut, _widened),
    "f16": Elements(16, _viewed("u2"), _looked_up(_half_table), smallest_normal=2.0**-14),
    "bf16": Elements(16, _viewed("u2"), _looked_up(_bfloat_table), smallest_normal=2.0**-126),
    "i8": Elements(8, _viewed("i1"), _widened),
    "u8": Elements(8, _viewed("u1"), _widened),
    "i4": Elements(4, _signed_nibbles, _widened),
    "u4": Elements(4, _nibbles, _widened),
}

_EIGHT_BITS = {
    ("fp8", False): E4M3,
    ("bf8", False): E5M2,
    ("fp8", True): E4M3_FNUZ,
    ("bf8", True): E5M2_FNUZ,
}


def eight_bits(name: str, architecture: Architecture) -> SmallFloat:
    """The 8-bit format that an architecture means by ``fp8`` or ``bf8``."""
    return _EIGHT_BITS[name, architecture.fnuz]


def elements_of(name: str, architecture: Architecture) -> Elements:
    """Elements by the name that mnemonics use."""
    return _PLAIN.get(name) or _small(eight_bits(name, architecture))


# -- layouts


@dataclass(frozen=True)
class Layout:
    """Shape of a product, and where the rows of its result lie.

    ``run`` consecutive rows lie in consecutive registers of one lane; the next ``run`` rows belong to the next
    group of lanes, and when all groups have theirs, to the next registers.

    Along K, A and B share an order, which changes no sum; only f8f6f4, which mixes widths and has scales, needs
    the device's own.
    """

    rows: int
    columns: int
    depth: int
    blocks: int = 1  # independent products side by side
    run: int = 4
    lanes: int = 64
    duplicated: bool = False  # the upper lanes repeat the operands of the lower ones

    @property
    def results(self) -> int:
        """Elements of D a lane."""
        return self.rows * self.columns * self.blocks // self.lanes

    def held(self, bits: int) -> int:
        """Registers of an operand."""
        lanes = self.lanes // 2 if self.duplicated else self.lanes
        return self.rows * self.depth * self.blocks // lanes * bits // 32

    def operand(self, codes: Array, elements: Elements) -> Array:
        """``[waves, lanes, elements]`` as values ``[waves, blocks, row or column, depth]``."""
        waves, lanes, count = codes.shape
        groups = lanes // (self.blocks * self.rows)
        parts = codes.reshape(waves, groups, self.blocks, self.rows, elements.chunks, count // elements.chunks)
        values = elements.value(parts.transpose(0, 2, 3, 4, 1, 5))
        return values.reshape(waves, self.blocks, self.rows, self.depth)

    def result(self, product: Array) -> list[Array]:
        """``[waves, blocks, row, column]`` as one array ``[waves, lanes]`` an element."""
        waves = product.shape[0]
        side = self.blocks if self.rows == 4 else 1  # blocks of four rows lie in lanes, others in registers
        groups = self.lanes // (self.columns * side)
        over = self.rows // (groups * self.run)
        parts = product.reshape(waves, self.blocks // side, side, over, groups, self.run, self.columns)
        return list(parts.transpose(1, 3, 5, 0, 4, 2, 6).reshape(self.results, waves, self.lanes))


# -- accumulators

Values: TypeAlias = list[Array]
"""C and D: one array ``[waves, lanes]`` an element, of float64, or int64 for integers."""


@dataclass(frozen=True)
class Accumulator:
    """How C and D lie in registers: ``registers`` of them hold ``results`` values."""

    registers: int
    results: int
    kind: Type
    read: Callable[[Machine, int], Values]
    write: Callable[[Machine, int, Values], None]
    keeps: bool = False  # D is read too, since half of each register stays

    def addend(self, decoder: Decoder, text: str) -> Callable[[Machine], Values]:
        """C: registers, or a constant for all."""
        if is_constant(text):
            wide = np.int64 if self.kind is Type.I32 else np.float64
            values: Values = [np.asarray(wide(self._constant(text)))] * self.results
            return lambda machine: values
        first = decoder.vector_indices(text, self.registers, write=False)
        return lambda machine: self.read(machine, first)

    def _constant(self, text: str) -> float:
        value = constant(text, self.kind)
        return float(bf16_to_f32(value)) if self.kind is Type.B16 else value


def _words(count: int, kind: Type) -> Accumulator:
    """One register a value. Float32 is widened when it is added."""

    def read(machine: Machine, first: int) -> Values:
        return [machine.read_vector(first + n, kind) for n in range(count)]

    def write(machine: Machine, first: int, values: Values) -> None:
        for number, value in enumerate(values):
            machine.write_every_lane(first + number, value, kind)

    return Accumulator(count, count, kind, read, write)


def _doubles(count: int) -> Accumulator:
    """Two registers a value."""

    def read(machine: Machine, first: int) -> Values:
        pairs = [[machine.read_vector(first + 2 * n + half) for half in (0, 1)] for n in range(count)]
        return [np.stack(pair, axis=-1).view(np.float64)[..., 0] for pair in pairs]

    def write(machine: Machine, first: int, values: Values) -> None:
        for number, value in enumerate(values):
            words = np.ascontiguousarray(value)[..., None].view(np.uint32)
            for half in (0, 1):
                machine.write_every_lane(first + 2 * number + half, words[..., half])

    return Accumulator(2 * count, count, Type.F64, read, write)


def _from_bits(kind: Type, bits: Array) -> Array:
    if kind is Type.B16:
        return bf16_to_f32(bits).astype(np.float64)
    return bits.astype(np.uint16).view(np.float16).astype(np.float64)


def _to_bits(kind: Type, values: Array) -> Array:
    if kind is Type.B16:
        return f32_to_bf16(values.astype(np.float32)).astype(np.uint32)
    return values.astype(np.float16).view(np.uint16).astype(np.uint32)


def _halves(count: int, kind: Type, high: int) -> Accumulator:
    """One register a value, in its low or high half; the other half stays (RDNA3)."""
    shift, kept = np.uint32(16 * high), np.uint32(0x0000_FFFF if high else 0xFFFF_0000)

    def read(machine: Machine, first: int) -> Values:
        words = [machine.read_vector(first + n) for n in range(count)]
        return [_from_bits(kind, word >> shift & np.uint32(0xFFFF)) for word in words]

    def write(machine: Machine, first: int, values: Values) -> None:
        for number, value in enumerate(values):
            old = machine.read_vector(first + number) & kept
            machine.write_every_lane(first + number, old | _to_bits(kind, value) << shift)

    return Accumulator(count, count, kind, read, write, keeps=True)


def _packed(count: int, kind: Type) -> Accumulator:
    """Two values a register, the lower row in the low half (RDNA4)."""

    def read(machine: Machine, first: int) -> Values:
        words = [machine.read_vector(first + n) for n in range(count // 2)]
        bits = [part for word in words for part in (word & np.uint32(0xFFFF), word >> np.uint32(16))]
        return [_from_bits(kind, part) for part in bits]

    def write(machine: Machine, first: int, values: Values) -> None:
        bits = [_to_bits(kind, value) for value in values]
        for number in range(count // 2):
            machine.write_every_lane(first + number, bits[2 * number] | bits[2 * number + 1] << np.uint32(16))

    return Accumulator(count // 2, count, kind, read, write)


# -- steps

Operand: TypeAlias = Callable[[Machine], Array]
"""Reads A or B as float64 ``[waves, blocks, row or column, depth]``."""


def _operand(decoder: Decoder, text: str, layout: Layout, elements: Elements) -> Operand:
    count = layout.held(elements.bits)
    first = decoder.vector_indices(text, count, write=False)
    flushing = elements.smallest_normal if decoder.architecture.generation is Generation.CDNA2 else None

    def read(machine: Machine) -> Array:
        words = np.stack([machine.read_vector(first + n) for n in range(count)], axis=-1)
        if layout.duplicated:
            words = _lower_half(decoder, machine, text, words)
        values = layout.operand(elements.part(np.ascontiguousarray(words)), elements)
        if flushing is not None:
            values = np.where(np.abs(values) < flushing, np.copysign(0.0, values), values)
        return values

    return read


def _lower_half(decoder: Decoder, machine: Machine, text: str, words: Array) -> Array:
    """Operands of the lower lanes; the upper lanes must hold the same (RDNA3 ISA, WMMA)."""
    half = words.shape[1] // 2
    differs = (words[:, :half] != words[:, half:]).any(axis=2)
    if differs.any():
        wave, lane = (int(item[0]) for item in np.nonzero(differs))
        message = f"{text} of lane {lane + half} differs from lane {lane}, which a WMMA operand must repeat"
        place = machine.place(wave, None)
        machine.note(Finding(Kind.UNDEFINED, message, decoder.instruction.site, place))
    return words[:, :half]


def _whole_wave(decoder: Decoder, machine: Machine) -> None:
    """WMMA with lanes disabled has no defined result (RDNA3 ISA, WMMA)."""
    if not machine.full:
        wave = int(np.argmax(~machine.active.all(axis=1)))
        message = "lanes are disabled, which a WMMA does not allow"
        machine.note(Finding(Kind.UNDEFINED, message, decoder.instruction.site, machine.place(wave, None)))


def _multiply(decoder: Decoder, layout: Layout, a: Operand, b: Operand, into: Accumulator) -> Step:
    """The step of D = A·B + C; EXEC is ignored."""
    addend = into.addend(decoder, decoder.operands[3])
    first = decoder.vector_indices(decoder.operands[0], into.registers, write=True)
    if into.keeps:
        decoder.reading(decoder.vector_register(decoder.operands[0]))
    finish = _finish(decoder, into)

    def step(machine: Machine) -> None:
        product = layout.result(np.matmul(a(machine), b(machine).swapaxes(2, 3)))
        into.write(machine, first, [finish(*pair) for pair in zip(product, addend(machine), strict=True)])

    if decoder.architecture.generation not in RDNA:
        return step

    def whole(machine: Machine) -> None:
        _whole_wave(decoder, machine)
        step(machine)

    return whole


def _finish(decoder: Decoder, into: Accumulator) -> Callable[[Array, Array], Array]:
    """Sum of product and addend."""
    if into.kind is not Type.I32:
        return lambda product, addend: product + addend
    if not decoder.has("clamp"):
        return lambda product, addend: product.astype(np.int64) + addend
    return lambda product, addend: np.clip(product.astype(np.int64) + addend, -(2**31), 2**31 - 1)


def _accumulator(kind: Type, count: int) -> Accumulator:
    return _doubles(count) if kind is Type.F64 else _words(count, kind)


def _flushed_result(into: Accumulator) -> Accumulator:
    """Sums of 16-bit operands on CDNA2, whose denormals become zeros."""

    def write(machine: Machine, first: int, values: Values) -> None:
        into.write(machine, first, [flush(value.astype(np.float32)) for value in values])

    return replace(into, write=write)


def _shared_blocks(decoder: Decoder, layout: Layout, side: Operand) -> Operand:
    """A with one block for each 2^cbsz of them: the one that abid names (CDNA3 ISA, MFMA, "Broadcasting values")."""
    size, chosen = 1 << decoder.number("cbsz"), decoder.number("abid")
    if size > layout.blocks or chosen >= size:
        raise decoder.unsupported(f"block {chosen} of {size} in a product of {layout.blocks} blocks")
    if size == 1:
        return side
    blocks: Array = np.arange(layout.blocks) // size * size + chosen
    return lambda machine: side(machine)[:, blocks]


def _mfma(layout: Layout, names: tuple[str, str], kind: Type) -> Build:
    def build(decoder: Decoder) -> Step:
        decoder.need(4)
        sides = [elements_of(name, decoder.architecture) for name in names]
        a, b = (_operand(decoder, text, layout, side) for text, side in zip(decoder.operands[1:3], sides, strict=True))
        if layout.blocks > 1:
            a = _shared_blocks(decoder, layout, a)
        into = _accumulator(kind, layout.results)
        if decoder.architecture.generation is Generation.CDNA2 and sides[0].smallest_normal is not None:
            into = _flushed_result(into)
        return _multiply(decoder, layout, a, b, into)

    return build


# -- f8f6f4

_FORMATS = (_small(E4M3, 2), _small(E5M2, 2), _small(E2M3), _small(E3M2), _small(E2M1))
"""Formats by the codes of cbsz and blgp. A lane holds 32 elements; 8-bit ones as two runs of 16 in K."""

_SCALED = 32
"""Elements along K that share one scale."""


def _f8f6f4(layout: Layout, scaled: bool) -> Build:
    def build(decoder: Decoder) -> Step:
        decoder.need(6 if scaled else 4)
        codes = decoder.number("cbsz"), decoder.number("blgp")
        if max(codes) >= len(_FORMATS):
            raise decoder.unsupported(f"format {max(codes)}")
        sides = [_operand(decoder, decoder.operands[1 + n], layout, _FORMATS[code]) for n, code in enumerate(codes)]
        if scaled:
            low, high = decoder.flags("op_sel", 3), decoder.flags("op_sel_hi", 3, 1)
            sides = [_scaled(decoder, 4 + n, layout, side, low[n] + 2 * high[n]) for n, side in enumerate(sides)]
        return _multiply(decoder, layout, sides[0], sides[1], _words(layout.results, Type.F32))

    return build


def _scaled(decoder: Decoder, place: int, layout: Layout, side: Operand, byte: int) -> Operand:
    """An operand times its E8M0 scales: one byte a lane, for a row and 32 elements along K."""
    read, shift = decoder.vector(decoder.operands[place], Type.U32), np.uint32(8 * byte)

    def scaled(machine: Machine) -> Array:
        code = machine.spread(read(machine)) >> shift & np.uint32(255)
        scale = scale_of(code).reshape(machine.count, -1, layout.rows).swapaxes(1, 2)
        values = side(machine)
        parts = values.reshape(machine.count, layout.rows, -1, _SCALED) * scale[..., None]
        return parts.reshape(values.shape)

    return scaled


# -- WMMA


def _wmma_accumulator(decoder: Decoder, kind: Type, count: int) -> Accumulator:
    if kind.bits == 32:
        return _words(count, kind)
    if decoder.architecture.generation is Generation.RDNA3:
        return _halves(count, kind, decoder.flags("op_sel", 3)[2])
    return _packed(count, kind)


def _wmma(layout: Layout, names: tuple[str, str], kind: Type) -> Build:
    def build(decoder: Decoder) -> Step:
        decoder.need(4)
        into = _wmma_accumulator(decoder, kind, layout.results)
        sides = _signed_names(decoder, names) if names[0].startswith("iu") else names
        a, b = (
            _operand(decoder, text, layout, elements_of(name, decoder.architecture))
            for text, name in zip(decoder.operands[1:3], sides, strict=True)
        )
        return _multiply(decoder, layout, a, b, into)

    return build


def _signed_names(decoder: Decoder, names: tuple[str, str]) -> list[str]:
    """neg_lo says which operands of ``iu8`` and ``iu4`` are signed."""
    signed = decoder.flags("neg_lo", 3)
    return [("i" if signed[n] else "u") + name[2:] for n, name in enumerate(names)]


# -- tables

_KINDS = {"f32": Type.F32, "f64": Type.F64, "i32": Type.I32, "f16": Type.F16, "bf16": Type.B16}


def _shape(text: str) -> tuple[int, int, int]:
    rows, columns, depth = (int(number) for number in text.split("x"))
    return rows, columns, depth


_OLD = """
    f32_32x32x1_2b_f32 f32_16x16x1_4b_f32 f32_4x4x1_16b_f32 f32_32x32x2_f32 f32_16x16x4_f32
    f32_32x32x4_2b_f16 f32_16x16x4_4b_f16 f32_4x4x4_16b_f16 f32_32x32x8_f16 f32_16x16x16_f16
    f32_32x32x4_2b_bf16 f32_16x16x4_4b_bf16 f32_4x4x4_16b_bf16 f32_32x32x8_bf16 f32_16x16x16_bf16
    i32_32x32x4_2b_i8 i32_16x16x4_4b_i8 i32_4x4x4_16b_i8
    f64_16x16x4_f64 f64_4x4x4_4b_f64
"""
"""Products that CDNA2, CDNA3 and CDNA4 share, by CDNA3's names."""

_ONLY_CDNA2 = """
    f32_32x32x2_2b_bf16 f32_16x16x2_4b_bf16 f32_4x4x2_16b_bf16 f32_32x32x4_bf16 f32_16x16x8_bf16
    i32_32x32x8_i8 i32_16x16x16_i8
"""

_FROM_CDNA3 = """
    i32_32x32x16_i8 i32_16x16x32_i8
    f32_16x16x32_fp8_fp8 f32_16x16x32_fp8_bf8 f32_16x16x32_bf8_fp8 f32_16x16x32_bf8_bf8
    f32_32x32x16_fp8_fp8 f32_32x32x16_fp8_bf8 f32_32x32x16_bf8_fp8 f32_32x32x16_bf8_bf8
"""

_ONLY_CDNA3 = "f32_16x16x8_xf32 f32_32x32x4_xf32"

_FROM_CDNA4 = """
    f32_16x16x32_f16 f32_16x16x32_bf16 f32_32x32x16_f16 f32_32x32x16_bf16
    i32_16x16x64_i8 i32_32x32x32_i8
"""

_PARTS = re.compile(r"(f32|f64|i32)_(\d+x\d+x\d+)(?:_(\d+)b)?_(.+)")


@dataclass(frozen=True)
class _Product:
    """What the name of an MFMA says."""

    result: str
    shape: str
    blocks: int
    names: tuple[str, str]

    @property
    def build(self) -> Build:
        layout = Layout(*_shape(self.shape), blocks=self.blocks, run=1 if self.result == "f64" else 4)
        return _mfma(layout, self.names, _KINDS[self.result])

    @property
    def old_name(self) -> str:
        """CDNA2's name: no underscore before the type, no count of blocks; the second kind of bf16 is ``_1k``.

        CDNA2's first kind of bf16 has half the depth of the second one.
        """
        kind, depth = self.names[0], _shape(self.shape)[2]
        groups = 64 // (_shape(self.shape)[0] * self.blocks)
        suffix = "_1k" if kind == "bf16" and depth == 4 * groups else ""
        return f"v_mfma_{self.result}_{self.shape}{kind}{suffix}"


def _product(name: str) -> _Product:
    match = _PARTS.fullmatch(name)
    if not match:
        raise ValueError(name)
    first, _, second = match[4].partition("_")
    return _Product(match[1], match[2], int(match[3] or 1), (first, second or first))


def _mfma_rows() -> Iterator[tuple[str, Entry]]:
    sets = (
        (_OLD, _CDNA3 | _CDNA4, sections.CDNA3_MFMA),
        (_FROM_CDNA3, _CDNA3 | _CDNA4, sections.CDNA3_MFMA),
        (_ONLY_CDNA3, _CDNA3, sections.CDNA3_MFMA),
        (_FROM_CDNA4, _CDNA4, sections.CDNA4_MFMA),
    )
    for names, generations, section in sets:
        for name in names.split():
            yield f"v_mfma_{name}", Entry(_product(name).build, section, generations)
    for name in (_OLD + _ONLY_CDNA2).split():
        product = _product(name)
        yield product.old_name, Entry(product.build, sections.CDNA2_MFMA, _CDNA2)
    for shape in ("16x16x128", "32x32x64"):
        for scaled in (False, True):
            name = f"v_mfma_{'scale_' if scaled else ''}f32_{shape}_f8f6f4"
            yield name, Entry(_f8f6f4(Layout(*_shape(shape)), scaled), sections.CDNA4_MFMA, _CDNA4)


_WMMA_NAMES = "f32_16x16x16_f16 f32_16x16x16_bf16 f16_16x16x16_f16 bf16_16x16x16_bf16 i32_16x16x16_iu8 i32_16x16x16_iu4"
_WMMA_FROM_RDNA4 = (
    "f32_16x16x16_fp8_fp8 f32_16x16x16_fp8_bf8 f32_16x16x16_bf8_fp8 f32_16x16x16_bf8_bf8 i32_16x16x32_iu4"
)


def _by_generation(three: Build, four: Build) -> Build:
    """RDNA3 and RDNA4 share names and differ in layout."""
    return lambda decoder: (three if decoder.architecture.generation is Generation.RDNA3 else four)(decoder)


def _wmma_builds(name: str) -> tuple[Build, Build]:
    result, shape, first, *more = name.split("_")
    names, kind = (first, more[0] if more else first), _KINDS[result]
    plain = Layout(*_shape(shape), run=8, lanes=32)
    doubled = replace(plain, run=1, duplicated=True)
    return _wmma(doubled, names, kind), _wmma(plain, names, kind)


def _wmma_rows() -> Iterator[tuple[str, Entry]]:
    for name in _WMMA_NAMES.split():
        yield f"v_wmma_{name}", Entry(_by_generation(*_wmma_builds(name)), sections.WMMA, RDNA)
    for name in _WMMA_FROM_RDNA4.split():
        yield f"v_wmma_{name}", Entry(_wmma_builds(name)[1], sections.WMMA, _RDNA4)


_ORDER = "products summed in float64 and rounded once, where devices round in between, in an order of their own"
_SUMMED = Approximation(_ORDER, ulps=1, relative=2.0**-20)
_SUMMED_DOUBLES = Approximation(_ORDER, ulps=1, relative=2.0**-50)
_CUT = Approximation("operands cut to 10 bits of mantissa; it is not documented how they are rounded", 1, 0.0, 2.0**-9)


def _approximation(name: str) -> Approximation | None:
    """Sums of integers are exact."""
    if "_i32_" in name:
        return None
    return _CUT if "xf32" in name else _SUMMED_DOUBLES if "_f64_" in name else _SUMMED


TABLE: dict[str, Entry] = {
    name: replace(entry, approximation=_approximation(name)) for name, entry in (*_mfma_rows(), *_wmma_rows())
}
"""Mnemonic → entry."""
