"""Matrix products of a warp: mma.sync.

Source: PTX ISA, "Warp-level Matrix Instructions": "Multiply-and-Accumulate Instruction: mma". How elements lie in
registers is ``matrix.fragments``; how products are summed is ``matrix.models``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.findings import Fault, Finding, Kind
from portkit.emulate.core.floats import fma64
from portkit.emulate.ptx.decode import Decoder, Step, all_reads
from portkit.emulate.ptx.isa.registry import Compiled, Entry
from portkit.emulate.ptx.machine import LANES, Array, Machine, Rows
from portkit.emulate.ptx.matrix import fragments
from portkit.emulate.ptx.matrix.formats import FORMATS, Format, Terms, least_of
from portkit.emulate.ptx.matrix.forms import FORMS, form_of
from portkit.emulate.ptx.matrix.models import through_halves, warp_model
from portkit.emulate.ptx.matrix.scales import BlockScales
from portkit.emulate.ptx.matrix.sums import Parts, multiply, multiply_integers, multiply_through_halves
from portkit.emulate.ptx.program import Operand, Program, Register, Vector
from portkit.emulate.ptx.types import Type

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")

Total: TypeAlias = Callable[[Terms, Terms, Array, Parts], Array]
"""A ``[depth, rows, warps]`` and B ``[depth, columns, warps]``, C ``[rows, columns, warps]``, and which go together."""


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


@dataclass(frozen=True)
class _Kind:
    """What instructions of one name compute."""

    shape: Shape
    left: Format
    right: Format
    result: str
    total: Total

    @property
    def word(self) -> Type:
        """Of C and D as ``total`` takes and gives them."""
        return {"f32": Type.F32, "s32": Type.S32}.get(self.result, Type.B32)


def _mma(decoder: Decoder) -> Step:
    shape = shape_of(decoder)
    kinds = types_of(decoder, shape)
    form = form_of(decoder.architecture, shape.name, _kind_of(decoder), kinds)
    if isinstance(form, str):
        raise decoder.unsupported(form)
    decoder.required("row")
    decoder.required("col")
    result, left, right, _ = kinds
    a, b = _operand_format(left, decoder), _operand_format(right, decoder)
    if result == "f64":
        return _doubles(decoder, shape)
    if form.scales:
        return _scaled(decoder, shape, a, b, form.scales)
    kind = _Kind(shape, a, b, result, _integers(decoder) if result == "s32" else _floats(decoder, shape, a, b, result))
    _check_counts(decoder, shape, a, b, halves=result == "f16")
    decoder.need(4)
    return Products(kind, [decoder])


def _kind_of(decoder: Decoder) -> str:
    """What the modifier ``kind`` names; empty where there is none."""
    found = decoder.one_of(*(f"kind::{form.kind}" for form in FORMS if form.kind))
    return found.removeprefix("kind::") if found else ""


def _integers(decoder: Decoder) -> Total:
    saturate = decoder.has("satfinite")
    return lambda a, b, c, parts: multiply_integers(a, b, c, saturate, parts)


def _floats(decoder: Decoder, shape: Shape, left: Format, right: Format, result: str) -> Total:
    model = warp_model(decoder.architecture, left, shape.depth)
    model = model.into_half() if result == "f16" else model
    total = multiply_through_halves if through_halves(decoder.architecture, left) else multiply
    least = least_of(left, right)
    return lambda a, b, c, parts: total(a, b, c, model, parts, least)


class Products:
    """The step of instructions of one kind that follow one another, none of which needs another's result.

    Args:
        kind: what each computes.
        decoders: one each; several, only of registers.
    """

    def __init__(self, kind: _Kind, decoders: Sequence[Decoder]) -> None:
        self.kind, self.decoders = kind, decoders
        (self.left, of_a), (self.right, of_b) = (_factors(decoders, number) for number in (1, 2))
        self.parts = of_a, of_b
        self.addend = _words_of_all(decoders, [each.operands[3] for each in decoders])
        self.write = _writer_of_all(decoders)

    def __call__(self, machine: Machine) -> None:
        """Run them."""
        kind, rows = self.kind, self.kind.shape.rows
        a = kind.left.terms(fragments.rows_of_left(self.left(machine), kind.left, rows))
        b = kind.right.terms(fragments.columns_of_right(self.right(machine), kind.right))
        if kind.result == "f16":
            halves = kind.total(a, b, fragments.tile_of_halves(self.addend(machine), rows), self.parts)
            self.write(machine, fragments.registers_of_halves(halves))
        else:
            addend = fragments.tile(self.addend(machine), rows).view(kind.word.dtype)
            self.write(machine, fragments.registers(kind.total(a, b, addend, self.parts).view(np.uint32)))


def _factors(decoders: Sequence[Decoder], number: int) -> tuple[Callable[[Machine], Array], list[int]]:
    """A factor of all instructions, each operand that is another once, and which of them each instruction takes."""
    operands = [each.operands[number] for each in decoders]
    different = list(dict.fromkeys(operands))
    return _words_of_all(decoders, different), [different.index(each) for each in operands]


def _words_of_all(decoders: Sequence[Decoder], operands: Sequence[Operand]) -> Callable[[Machine], Array]:
    """Operands side by side: ``[registers, operands * warps, 32]``."""
    first, *others = decoders
    if not others:
        return words_of(first, operands[0])
    rows = _rows_of_all(first, operands)
    return lambda machine: machine.read_all(Type.B32, rows).reshape(-1, len(operands) * machine.count // LANES, LANES)


def _writer_of_all(decoders: Sequence[Decoder]) -> Callable[[Machine, Array], None]:
    first, *others = decoders
    if not others:
        return writer_of(first, first.operands[0], Type.B32)
    rows = _rows_of_all(first, [each.operands[0] for each in decoders])
    return lambda machine, values: machine.write_all(Type.B32, rows, values.reshape(rows.size, -1))


def _rows_of_all(decoder: Decoder, operands: Sequence[Operand]) -> NDArray[np.int64]:
    """Rows of the first registers of all operands, then of the second, and so on."""
    registers = [[item.index for item in decoder.items(each) if isinstance(item, Register)] for each in operands]
    return np.array(registers).T.reshape(-1)


# -- several at once

_MOST = 16
"""Instructions that run as one."""


def fused(program: Program, compiled: tuple[Compiled, ...]) -> tuple[Compiled, ...]:
    """Let instructions that follow one another run at the place of the first, all at once."""
    result = list(compiled)
    for run in _runs(program, compiled):
        first = compiled[run[0]].step
        if len(run) > 1 and isinstance(first, Products):
            decoders = [Decoder(program, compiled[each].instruction) for each in run]
            also = tuple(compiled[each].uses for each in run[1:])
            result[run[0]] = replace(compiled[run[0]], step=Products(first.kind, decoders), also=also)
            for each in run[1:]:
                result[each] = replace(compiled[each], step=_done)
    return tuple(result)


def _done(machine: Machine) -> None:
    """What an instruction before has done."""


def _runs(program: Program, compiled: tuple[Compiled, ...]) -> list[list[int]]:
    """Instructions that may run as one."""
    runs: list[list[int]] = []
    written: set[Register] = set()
    for index, item in enumerate(compiled):
        if not _fusible(item):
            continue
        last = runs[-1] if runs else []
        joins = last and last[-1] == index - 1 and len(last) < _MOST and index not in program.targets
        same = joins and compiled[last[0]].instruction.modifiers == item.instruction.modifiers
        if same and not written & (item.uses.reads | item.uses.writes):
            last.append(index)
        else:
            runs.append([index])
            written = set()
        written |= item.uses.writes
    return runs


def _fusible(item: Compiled) -> bool:
    operands = item.instruction.operands
    words = (each for operand in operands for each in (operand.items if isinstance(operand, Vector) else (operand,)))
    plain = isinstance(item.step, Products) and item.instruction.guard is None
    return plain and all(isinstance(each, Register) and each.bits == Type.B32.bits for each in words)


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


def _scaled(decoder: Decoder, shape: Shape, left: Format, right: Format, known: Mapping[str, str]) -> Step:
    """D = (A · scales)(B · scales) + C.

    Args:
        decoder: of the instruction.
        shape: of the product.
        left: format of A.
        right: format of B.
        known: the sizes of the scales' vectors that there are, with the format of the scales.
    """
    decoder.need(8)
    decoder.required("block_scale")
    vector = decoder.one_of("scale_vec::1X", "scale_vec::2X", "scale_vec::4X")
    by, size = decoder.required("ue8m0", "ue4m3"), vector.removeprefix("scale_vec::") if vector else ""
    if known.get(size) != by:
        raise decoder.unsupported(f"{vector or 'no scale_vec'} of .{by}")
    scales = BlockScales.of(vector, left, shape.depth)
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
    word, site = decoder.read(decoder.operands[first], Type.B32), decoder.site
    byte, lane = (decoder.read(item, Type.U16) for item in decoder.items(decoder.operands[first + 1]))
    halves = rows // 8

    def read(machine: Machine) -> Array:
        start, pair = (int(np.asarray(each(machine)).reshape(-1)[0]) for each in (byte, lane))
        if start % count or start >= 4 or pair >= 4 // halves:
            message = f"byte {start} and lanes {pair} of a register with scales"
            raise Fault(Finding(Kind.UNDEFINED, message, site, machine.place(int(machine.selected[0]))))
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
