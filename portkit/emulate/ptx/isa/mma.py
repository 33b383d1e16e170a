"""Matrix products of a warp: mma.sync.

Source: PTX ISA, "Warp-level Matrix Instructions": "Multiply-and-Accumulate Instruction: mma". How elements lie in
registers is ``matrix.fragments``; how products are summed is ``matrix.models``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from portkit.emulate.core.floats import fma64
from portkit.emulate.ptx.decode import Decoder, Step, all_reads
from portkit.emulate.ptx.isa.registry import Entry
from portkit.emulate.ptx.machine import LANES, Array, Machine, Rows
from portkit.emulate.ptx.matrix import fragments
from portkit.emulate.ptx.matrix.formats import FORMATS, Format
from portkit.emulate.ptx.matrix.models import through_halves, warp_model
from portkit.emulate.ptx.matrix.scales import BlockScales
from portkit.emulate.ptx.matrix.sums import multiply, multiply_integers, multiply_through_halves
from portkit.emulate.ptx.program import Operand, Register
from portkit.emulate.ptx.types import Type

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")

Product: TypeAlias = Callable[[Array, Array, Array], Array]
"""Codes of A ``[depth, rows, warps]`` and of B ``[depth, columns, warps]``, and C ``[rows, columns, warps]``, to D."""


@dataclass(frozen=True)
class Shape:
    """Rows of A, columns of B, and depth."""

    rows: int
    columns: int
    depth: int

    @property
    def name(self) -> str:
        """As instructions write it."""
        return f"m{self.rows}n{self.columns}k{self.depth}"


def shape_of(decoder: Decoder) -> Shape:
    """The shape in an instruction's name."""
    for name in decoder.instruction.modifiers:
        if match := _SHAPE.fullmatch(name):
            decoder.ignore(name)
            return Shape(*map(int, match.groups()))
    raise decoder.unsupported("no shape")


def types_of(decoder: Decoder, shape: Shape) -> list[str]:
    """Names of the types of elements, in the order of the instruction's name."""
    names = decoder.instruction.modifiers
    behind = names[names.index(shape.name) + 1 :]
    found = [name for name in behind if name in FORMATS or name in {"f32", "s32"}]
    decoder.ignore(*found)
    return found


def words_of(decoder: Decoder, operand: Operand, kind: Type = Type.B32) -> Callable[[Machine], Array]:
    """A vector of registers as ``[registers, warps, 32]``."""
    items = decoder.items(operand)
    reads = all_reads(decoder, items, kind)
    if (rows := _rows(items, kind)) is not None:
        return lambda machine: machine.read_all(kind, rows).reshape(len(reads), -1, LANES)

    def gather(machine: Machine) -> Array:
        return np.stack([machine.spread(read(machine)) for read in reads]).reshape(len(reads), -1, LANES)

    return gather


def writer_of(decoder: Decoder, operand: Operand, kind: Type) -> Callable[[Machine, Array], None]:
    """Writes ``[registers, warps, 32]`` to a vector of registers."""
    items = decoder.items(operand)
    writes = [decoder.write(item, kind) for item in items]
    if (rows := _rows(items, kind)) is not None:
        return lambda machine, values: machine.write_all(kind, rows, values.reshape(len(writes), -1))

    def write(machine: Machine, values: Array) -> None:
        for each, value in zip(writes, values.reshape(len(writes), -1), strict=True):
            each(machine, value)

    return write


def _rows(items: Sequence[Operand], kind: Type) -> Rows | None:
    """Where registers lie among those of their width; None where some are no such registers."""
    found = [item.index for item in items if isinstance(item, Register) and item.bits == kind.bits]
    if len(found) < len(items):
        return None
    beside = found == list(range(found[0], found[0] + len(found)))
    return slice(found[0], found[-1] + 1) if beside else np.array(found)


def _operand_format(name: str, decoder: Decoder) -> Format:
    """e2m1 lies in bytes of its own in all kinds but those of 4 bits."""
    padded = name == "e2m1" and "kind::f8f6f4" in decoder.instruction.modifiers
    padded = padded or (name == "e2m1" and "kind::mxf8f6f4" in decoder.instruction.modifiers)
    return FORMATS["padded e2m1" if padded else name]


SHAPES = {
    "m8n8k4": "f64",
    "m8n8k16": "s8 u8",
    "m8n8k32": "s4 u4",
    "m16n8k4": "tf32 f64",
    "m16n8k8": "f16 bf16 tf32 f64",
    "m16n8k16": "f16 bf16 s8 u8 e4m3 e5m2 f64",
    "m16n8k32": "s8 u8 s4 u4 e4m3 e5m2 e2m3 e3m2 e2m1",
    "m16n8k64": "s4 u4 e2m1",
}
"""Shape → formats of A that have it."""


def _mma(decoder: Decoder) -> Step:
    shape = shape_of(decoder)
    kinds = types_of(decoder, shape)
    if len(kinds) != 4 or kinds[1] not in SHAPES.get(shape.name, "").split():
        raise decoder.unsupported(f"shape {shape.name} of {' '.join(kinds)}")
    decoder.required("row")
    decoder.required("col")
    result, left, right, addend = kinds
    if result != addend:
        raise decoder.unsupported(f"{addend} added to {result}")
    a, b = _operand_format(left, decoder), _operand_format(right, decoder)
    if result == "f64":
        return _doubles(decoder, shape)
    if result == "s32":
        return _integers(decoder, shape, a, b)
    return _floats(decoder, shape, a, b, result)


def _integers(decoder: Decoder, shape: Shape, left: Format, right: Format) -> Step:
    saturate = decoder.has("satfinite")
    if not left.integer or not right.integer:
        raise decoder.unsupported("integers of floats")

    def product(a: Array, b: Array, c: Array) -> Array:
        return multiply_integers(left.values(a), right.values(b), c.view(np.int32), saturate).view(np.uint32)

    return _step(decoder, shape, left, right, product)


def _floats(decoder: Decoder, shape: Shape, left: Format, right: Format, result: str) -> Step:
    if left.integer or right.integer or result not in {"f32", "f16"}:
        raise decoder.unsupported(f"{result} of {left.name} and {right.name}")
    model = warp_model(decoder.architecture, left)
    if decoder.one_of("block_scale"):
        return _scaled(decoder, shape, left, right)
    decoder.ignore("kind::f8f6f4")
    total = multiply_through_halves if through_halves(decoder.architecture, left) else multiply
    if result == "f16":
        half = model.into_half()
        return _step(
            decoder, shape, left, right, lambda a, b, c: total(left.terms(a), right.terms(b), c, half), halves=True
        )

    def product(a: Array, b: Array, c: Array) -> Array:
        return total(left.terms(a), right.terms(b), c.view(np.float32), model).view(np.uint32)

    return _step(decoder, shape, left, right, product)


def _step(
    decoder: Decoder, shape: Shape, left: Format, right: Format, product: Product, *, halves: bool = False
) -> Step:
    decoder.need(4)
    target, *sources = decoder.operands
    a, b, c = (words_of(decoder, operand) for operand in sources)
    _check_counts(decoder, shape, left, right, halves)
    write = writer_of(decoder, target, Type.B32)
    into, out = (
        (fragments.tile_of_halves, fragments.registers_of_halves) if halves else (fragments.tile, fragments.registers)
    )

    def step(machine: Machine) -> None:
        x = fragments.rows_of_left(a(machine), left, shape.rows)
        y = fragments.columns_of_right(b(machine), right)
        write(machine, out(product(x, y, into(c(machine), shape.rows))))

    return step


def _check_counts(decoder: Decoder, shape: Shape, left: Format, right: Format, halves: bool) -> None:
    """Refuse operands of another number of registers."""
    results = shape.rows * shape.columns // LANES // (2 if halves else 1)
    needed = [
        results,
        shape.rows * shape.depth * left.bits // 32 // LANES,
        shape.columns * shape.depth * right.bits // 32 // LANES,
        results,
    ]
    given = [len(decoder.items(operand)) for operand in decoder.operands[:4]]
    if given != needed:
        raise decoder.unsupported(f"{given} registers where {needed} are needed")


def _scaled(decoder: Decoder, shape: Shape, left: Format, right: Format) -> Step:
    """D = (A · scales)(B · scales) + C."""
    decoder.need(8)
    decoder.ignore("kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4")
    scales = BlockScales.of(decoder.one_of("scale_vec::1X", "scale_vec::2X", "scale_vec::4X"), left, shape.depth)
    by = decoder.required("ue8m0", "ue4m3")
    target, *sources = decoder.operands[:4]
    a, b, c = (words_of(decoder, operand) for operand in sources)
    write = writer_of(decoder, target, Type.B32)
    _check_counts(decoder, shape, left, right, halves=False)
    of_rows = _scale_bytes(decoder, 4, shape.rows, scales.count)
    of_columns = _scale_bytes(decoder, 6, shape.columns, scales.count)

    def step(machine: Machine) -> None:
        x = left.values(fragments.rows_of_left(a(machine), left, shape.rows)).transpose(2, 1, 0)
        y = right.values(fragments.columns_of_right(b(machine), right)).transpose(2, 1, 0)
        addend = fragments.tile(c(machine), shape.rows).view(np.float32).transpose(2, 0, 1)
        result = np.ascontiguousarray(scales.multiply(x, y, of_rows(machine), of_columns(machine), by, addend))
        write(machine, fragments.registers(result.view(np.uint32).transpose(1, 2, 0)))

    return step


def _scale_bytes(decoder: Decoder, first: int, rows: int, count: int) -> Callable[[Machine], Array]:
    """Codes of scales ``[warps, rows, count]``, which lie in registers of some lanes of each group of four.

    Row ``g`` (and ``g + 8`` of A) is that of lanes ``4·g`` and up. The two selectors name the first byte, and the
    lanes: of A, a pair of lanes has rows ``g`` and ``g + 8``; of B, a single lane has the column.
    """
    word = decoder.read(decoder.operands[first], Type.B32)
    byte, lane = (decoder.read(item, Type.U16) for item in decoder.items(decoder.operands[first + 1]))
    halves = rows // 8

    def read(machine: Machine) -> Array:
        start, pair = (int(np.asarray(each(machine)).reshape(-1)[0]) for each in (byte, lane))
        words = machine.spread(word(machine)).reshape(-1, 8, 4)
        chosen = words[:, :, halves * pair : halves * pair + halves]
        octets = np.ascontiguousarray(chosen).view(np.uint8).reshape(-1, 8, halves, 4)[..., start : start + count]
        return octets.transpose(0, 2, 1, 3).reshape(-1, rows, count)

    return read


def _doubles(decoder: Decoder, shape: Shape) -> Step:
    """Float64: one fused multiply-add after the other, in the order of the depth."""
    decoder.need(4)
    kind = FORMATS["f64"]
    target, *sources = decoder.operands
    a, b, c = (words_of(decoder, operand, Type.F64) for operand in sources)
    write = writer_of(decoder, target, Type.F64)
    decoder.ignore("rn")

    def step(machine: Machine) -> None:
        x = kind.values(fragments.rows_of_left(a(machine).view(np.uint64), kind, shape.rows))
        y = kind.values(fragments.columns_of_right(b(machine).view(np.uint64), kind))
        total = fragments.tile(c(machine), shape.rows)
        for at in range(shape.depth):
            total = fma64(x[at, :, None], y[at, None], total)
        write(machine, fragments.registers(total))

    return step


TABLE: dict[str, tuple[Entry, ...]] = {
    "mma.sync.aligned": (Entry(_mma, "Warp-level Matrix Instructions: mma", since=75, collective=True),),
}
