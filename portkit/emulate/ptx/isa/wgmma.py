"""Asynchronous matrix products of warpgroups: wgmma.

A product is under way from its instruction to the ``wait_group`` that covers its group. Until then nothing but other
products may touch its registers, and nothing may write the shared memory that it reads; registers that other
instructions wrote need a ``wgmma.fence`` before a product takes them. All three are held at run time.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": wgmma.mma_async, wgmma.fence, wgmma.commit_group,
wgmma.wait_group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.bytestore import Offsets
from portkit.emulate.core.findings import Fault, Finding, Kind, Site, Unsupported
from portkit.emulate.ptx.decode import Decoder, Read, Step
from portkit.emulate.ptx.isa.flight import UNIT, Flights, Operation
from portkit.emulate.ptx.isa.mma import Shape, shape_of, types_of, words_of, writer_of
from portkit.emulate.ptx.isa.operands_shared import Tile, read_tiles
from portkit.emulate.ptx.isa.pending import PendingRegisters, judged
from portkit.emulate.ptx.isa.registry import Compiled, Entry
from portkit.emulate.ptx.machine import LANES, Access, Array, Machine, Mask, Threads
from portkit.emulate.ptx.matrix import fragments
from portkit.emulate.ptx.matrix.formats import FORMATS, Format
from portkit.emulate.ptx.matrix.models import group_model
from portkit.emulate.ptx.matrix.sums import multiply, multiply_integers
from portkit.emulate.ptx.program import Immediate, Negated, Operand, Program, Register, Vector
from portkit.emulate.ptx.types import Type

_SECTION = "Asynchronous Warpgroup Level Matrix Instructions"

_WARPS = 4
_ROWS = 64


@dataclass(frozen=True)
class _Reads:
    """Units of shared memory that products of one instruction read."""

    site: Site
    threads: Threads  # one for each operand
    groups: NDArray[np.int64]  # that the products belong to
    units: Offsets  # [operands, units]

    def part(self, which: Mask) -> _Reads:
        """Of some threads."""
        return _Reads(self.site, self.threads[which], self.groups[which], self.units[which])


class Products(PendingRegisters):
    """Products under way: registers of their results, and shared memory that they read."""

    what = "a result of wgmma {} that is not there yet: no wgmma.wait_group covers it"

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.flights = machine.unit(Flights)
        self.committed: NDArray[np.int64] = np.zeros(machine.threads, np.int64)
        self._changed: dict[Register, Mask] = {}  # registers that some threads wrote since the last fence
        self._changed_by_all: set[Register] = set()  # those that all did
        self._reads: list[_Reads] = []
        self._left_open: NDArray[np.int64] = np.zeros(machine.threads, np.int64)  # group that a wait found uncommitted

    def changed(self, writes: Iterable[Register]) -> None:
        """Note registers that the selected threads have written."""
        if self.machine.all:
            self._changed_by_all.update(writes)
            return
        for register in writes:
            if register not in self._changed:
                self._changed[register] = np.zeros(self.machine.threads, np.bool_)
            self._changed[register][self.machine.select] = True

    def begin(self, site: Site, results: Sequence[Register], factors: Sequence[Register]) -> None:
        """Take registers for a product of the open group.

        Raises:
            Fault: other instructions wrote them since the last fence, or a product under way writes a factor.
        """
        self._refuse_changed(site, (*results, *factors))
        self.refuse(site, factors, "read")
        self.take(results, self.committed[self.machine.select] + 1)

    def _refuse_changed(self, site: Site, registers: Sequence[Register]) -> None:
        for register in registers if self._changed or self._changed_by_all else ():
            changed = self._changed_of(register)
            if changed is not None and changed[self.machine.select].any():
                thread = int(self.machine.selected[np.argmax(changed[self.machine.select])])
                message = "a wgmma takes a register that was written since the last wgmma.fence"
                raise Fault(Finding(Kind.MISSING_WAIT, message, site, self.machine.place(thread)))

    def _changed_of(self, register: Register) -> Mask | None:
        """Threads that have written a register since their last fence."""
        if register in self._changed_by_all:
            return np.ones(self.machine.threads, np.bool_)
        return self._changed.get(register)

    def read(self, site: Site, threads: Threads, units: Offsets) -> None:
        """Products of the open groups of some threads read units of shared memory: ``[threads, units]``."""
        self._begin_reads(_Reads(site, threads, self.committed[threads], units))

    def fence(self) -> None:
        """Let products see the registers of the selected threads."""
        if self.machine.all:
            self._changed.clear()
        else:
            for register in self._changed_by_all:
                self._changed[register] = np.ones(self.machine.threads, np.bool_)
        self._changed_by_all.clear()
        for changed in self._changed.values():
            changed[self.machine.select] = False

    def commit(self) -> None:
        """Close the open group of the selected threads."""
        self.committed[self.machine.select] += 1

    def excused(self, numbers: Array) -> bool:
        """A result may be used in the midst of its group: the assembler puts a wait there, and says so (C7517).

        Behind a wait it does not: that came before the commit, or the commit is missing.
        """
        select = self.machine.select
        early = (numbers == self.committed[select] + 1) & (numbers != self._left_open[select])
        return bool((early | (numbers == 0)).all())

    def wait(self, but: int) -> None:
        """End all groups of the selected threads but the last."""
        group = self.committed[self.machine.select] + 1
        open_ = self.out(group)
        if open_.any():
            self._left_open[self.machine.selected[open_]] = group[open_]
        self.free(self.committed[self.machine.select] - but)
        self._end_reads(but)

    def _end_reads(self, but: int) -> None:
        chosen: Mask = np.zeros(self.machine.threads, np.bool_)
        chosen[self.machine.select] = True
        before, self._reads = self._reads, []
        for reads in before:
            done = chosen[reads.threads] & (reads.groups < self.committed[reads.threads] - but)
            if not done.any():
                self._reads.append(reads)
                continue
            self.flights.has_read(reads.units)
            whole = bool(done.all())
            if self.flights.followed:
                self._judge_last(reads if whole else reads.part(done))
            if not whole:
                self._begin_reads(reads.part(~done))

    def _begin_reads(self, reads: _Reads) -> None:
        self.flights.reads(Operation(reads.site, "wgmma"), reads.units)
        self._reads.append(reads)

    def _judge_last(self, reads: _Reads) -> None:
        """A product may read until all warps of its group have waited for it; the first and the last stand for them."""
        at, group = reads.units.reshape(-1) << 4, LANES * _WARPS
        last = reads.threads // group * group + LANES * (_WARPS - 1)
        for threads in (reads.threads, last)[: 1 + (self.machine.per_group % group == 0)]:
            own: Threads = np.repeat(threads, reads.units.shape[1])
            self.flights.judge(Access(reads.site, at, UNIT, self.machine, own, write=False))


# -- the product


@dataclass(frozen=True)
class _Factor:
    """A or B of one instruction."""

    kind: Format
    negative: bool
    tile: Tile | None  # in shared memory
    descriptor: Read | None
    words: Callable[[Machine], Array] | None  # in registers

    def signed(self, values: Array) -> Array:
        """Values as the product takes them."""
        return -values if self.negative else values


def _mma(decoder: Decoder) -> Step:
    """Operands: D, A, B, whether D is added, and factors of A and B, and whether they are transposed."""
    if not decoder.architecture.specific or decoder.architecture.number != 90:
        raise decoder.unsupported(f"{decoder.architecture.name} has no wgmma")
    shape = shape_of(decoder)
    result, left, right = types_of(decoder, shape)
    _, first, second, *rest = decoder.operands
    adds = None if not rest or _is_zero(rest[0]) else _adds(decoder, rest[0])
    numbers = [_number(decoder, operand) for operand in rest[1:]]
    a, b = FORMATS[left], FORMATS[right]
    if shape.rows != _ROWS or shape.depth * a.bits != 256 or result not in {"f32", "f16", "s32"}:
        raise decoder.unsupported(f"shape {shape.name} of {left}")
    signs, across = _modes(decoder, numbers, in_registers=isinstance(first, Vector), kind=a)
    factors = (
        _factor(decoder, first, a, _ROWS, shape.depth, signs[0], across[0]),
        _factor(decoder, second, b, shape.columns, shape.depth, signs[1], across[1]),
    )
    return _product_step(decoder, shape, result, factors, adds)


def _is_zero(operand: Operand) -> bool:
    return isinstance(operand, Immediate) and int(operand.text, 0) == 0


def _adds(decoder: Decoder, operand: Operand) -> Read:
    if isinstance(operand, Register | Negated):
        return decoder.predicate(operand)
    return decoder.read(operand, Type.PRED)


def _number(decoder: Decoder, operand: Operand) -> int:
    if isinstance(operand, Negated) and isinstance(operand.operand, Immediate):
        return -int(operand.operand.text, 0)
    if isinstance(operand, Immediate):
        return int(operand.text, 0)
    raise decoder.unsupported("a mode of wgmma that is no constant")


def _modes(
    decoder: Decoder, numbers: Sequence[int], *, in_registers: bool, kind: Format
) -> tuple[tuple[bool, bool], tuple[bool, bool]]:
    """Whether A and B are negated, and whether they are transposed."""
    signs = [*numbers, 1, 1][:2]
    if any(each not in {1, -1} for each in signs) or (numbers and kind.integer):
        raise decoder.unsupported("a factor that is neither 1 nor -1")
    transposes = [*([0] if in_registers else []), *numbers[2:], 0, 0][:2]
    if any(transposes) and kind.bits != 16:
        raise decoder.unsupported(f"transposed operands of {kind.name}")
    return (signs[0] < 0, signs[1] < 0), (bool(transposes[0]), bool(transposes[1]))


def _factor(
    decoder: Decoder, operand: Operand, kind: Format, rows: int, depth: int, negative: bool, across: bool
) -> _Factor:
    if isinstance(operand, Vector):
        return _Factor(kind, negative, None, None, words_of(decoder, operand))
    return _Factor(kind, negative, Tile(kind, rows, depth, across), decoder.read(operand, Type.B64), None)


def _product_step(
    decoder: Decoder, shape: Shape, result: str, factors: tuple[_Factor, _Factor], adds: Read | None
) -> Step:
    target = decoder.operands[0]
    items = [item for item in decoder.items(target) if isinstance(item, Register)]
    if len(items) != _ROWS * shape.columns // (LANES * _WARPS) // (2 if result == "f16" else 1):
        raise decoder.unsupported(f"{len(items)} registers of results")
    never = adds is None and decoder.operands[3:] != ()
    old = _nothing(len(items)) if never else words_of(decoder, target)
    write = writer_of(decoder, target, Type.B32)
    compute = _sum_of(decoder, result, factors)
    taken = [item for item in decoder.items(decoder.operands[1]) if isinstance(item, Register)]
    taken = taken if factors[0].words else []
    site = decoder.site
    halves = result == "f16"

    def step(machine: Machine) -> None:
        products = machine.unit(Products)
        products.begin(site, items, taken)
        matrix = (fragments.tile_of_halves if halves else fragments.tile)(old(machine), 16)
        if adds is not None:
            matrix = np.where(_by_warp(machine, adds), matrix, matrix.dtype.type(0))
        a, b = _codes(machine, site, factors)
        matrix = compute(a, b, matrix)
        write(machine, (fragments.registers_of_halves if halves else fragments.registers)(matrix))

    return step


def _nothing(registers: int) -> Callable[[Machine], Array]:
    """Zeros in place of results that are not added to: their registers need not hold anything."""
    return lambda machine: np.zeros((registers, machine.count // LANES, LANES), np.uint32)


def _by_warp(machine: Machine, read: Read) -> Array:
    return machine.spread(read(machine))[::LANES]


def _codes(machine: Machine, site: Site, factors: tuple[_Factor, _Factor]) -> tuple[Array, Array]:
    """Codes ``[depth, 16, warps]`` of A and ``[depth, columns, batch]`` of B, of whole groups where there are."""
    leaders = machine.selected[::LANES]
    whole = _whole_groups(machine, leaders)
    step = _WARPS if whole else 1
    b = _shared_codes(machine, site, factors[1], leaders, step)
    if factors[0].words is not None:
        return fragments.rows_of_left(factors[0].words(machine), factors[0].kind, 16), b
    a = _shared_codes(machine, site, factors[0], leaders, step)
    if whole:
        return a.reshape(-1, _WARPS, 16, b.shape[-1]).transpose(0, 2, 3, 1).reshape(-1, 16, leaders.size), b
    own = leaders // LANES % _WARPS
    return np.stack([a[:, 16 * warp : 16 * warp + 16, which] for which, warp in enumerate(own)], axis=-1), b


def _whole_groups(machine: Machine, leaders: Array) -> bool:
    """Whether the selected warps are whole warpgroups, side by side."""
    if leaders.size % _WARPS:
        return False
    warps = (leaders % machine.per_group // LANES).reshape(-1, _WARPS)
    return bool((warps % _WARPS == np.arange(_WARPS)).all() and (warps // _WARPS == warps[:, :1] // _WARPS).all())


def _shared_codes(machine: Machine, site: Site, factor: _Factor, leaders: Array, step: int) -> Array:
    """``[depth, rows, batch]``, read once for every ``step`` warps."""
    if factor.tile is None or factor.descriptor is None:
        raise Unsupported("B in registers", site)
    descriptors, threads = _by_warp(machine, factor.descriptor)[::step], leaders[::step]
    codes, units = read_tiles(machine, site, factor.tile, descriptors.tolist(), threads)
    machine.unit(Products).read(site, threads, units)
    return np.ascontiguousarray(codes.transpose(2, 1, 0))


def _sum_of(decoder: Decoder, result: str, factors: tuple[_Factor, _Factor]) -> Callable[[Array, Array, Array], Array]:
    """Codes of A ``[depth, 16, warps]`` and B ``[depth, columns, batch]``, and old words, to new ones."""
    left, right = factors
    if result == "s32":
        saturate = decoder.has("satfinite")
        return lambda a, b, c: multiply_integers(
            left.kind.terms(a), right.kind.terms(b), c.view(np.int32), saturate
        ).view(np.uint32)
    model = group_model(left.kind)
    if result == "f16":
        model = model.into_half()
    kind = np.float16 if result == "f16" else np.float32

    def compute(a: Array, b: Array, c: Array) -> Array:
        x, y = left.kind.terms(a), right.kind.terms(b)
        x, y = replace(x, values=left.signed(x.values)), replace(y, values=right.signed(y.values))
        value = multiply(x, y, c.view(kind), model)
        return value if result == "f16" else value.view(np.uint32)

    return compute


# -- waits


def _fence(decoder: Decoder) -> Step:
    decoder.need(0)
    return lambda machine: machine.unit(Products).fence()


def _commit(decoder: Decoder) -> Step:
    decoder.need(0)
    return lambda machine: machine.unit(Products).commit()


def _wait(decoder: Decoder) -> Step:
    decoder.need(1)
    but = _number(decoder, decoder.operands[0])
    return lambda machine: machine.unit(Products).wait(but)


def watched(program: Program, compiled: tuple[Compiled, ...]) -> tuple[Compiled, ...]:
    """Let every instruction that touches a register of a product be judged when it runs.

    Factors may be written again before the wait: the assembler keeps what a product under way reads.
    """
    products = [item for item in compiled if _is_product(item)]
    factors = {each for item in products for each in _factors_of(item)}
    return judged(program, compiled, Products, _is_product, factors)


def _is_product(item: Compiled) -> bool:
    return item.instruction.opcode == "wgmma" and bool(item.uses.writes)


def _factors_of(item: Compiled) -> list[Register]:
    first = item.instruction.operands[1]
    return [each for each in first.items if isinstance(each, Register)] if isinstance(first, Vector) else []


TABLE: dict[str, tuple[Entry, ...]] = {
    "wgmma.mma_async.sync.aligned": (Entry(_mma, f"{_SECTION}: wgmma.mma_async", since=90, collective=True),),
    "wgmma.fence.sync.aligned": (Entry(_fence, f"{_SECTION}: wgmma.fence", since=90, collective=True),),
    "wgmma.commit_group.sync.aligned": (Entry(_commit, f"{_SECTION}: wgmma.commit_group", since=90, collective=True),),
    "wgmma.wait_group.sync.aligned": (Entry(_wait, f"{_SECTION}: wgmma.wait_group", since=90, collective=True),),
}
