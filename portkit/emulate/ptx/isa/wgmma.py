"""Asynchronous matrix products of warpgroups: wgmma.

A product is under way from its instruction to the ``wait_group`` that covers its group. Until then nothing but other
products may touch its registers, and nothing may write the shared memory that it reads; registers that other
instructions wrote need a ``wgmma.fence`` before a product takes them. All three are held at run time.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": wgmma.mma_async, wgmma.fence, wgmma.commit_group,
wgmma.wait_group.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.bytestore import Offsets
from portkit.emulate.core.findings import Fault, Finding, Kind, Site, Unsupported
from portkit.emulate.ptx.decode import Decoder, Read, Step
from portkit.emulate.ptx.isa.copies import groups_left
from portkit.emulate.ptx.isa.flight import UNIT, Flights, Operation
from portkit.emulate.ptx.isa.mma import Shape, shape_of, types_of, words_of, writer_of
from portkit.emulate.ptx.isa.operands_shared import Tile, read_tiles
from portkit.emulate.ptx.isa.pending import PendingRegisters, judged
from portkit.emulate.ptx.isa.registry import Compiled, Entry
from portkit.emulate.ptx.machine import LANES, Access, Array, Machine, Mask, Threads
from portkit.emulate.ptx.matrix import fragments
from portkit.emulate.ptx.matrix.formats import FORMATS, Format
from portkit.emulate.ptx.matrix.forms import group_form_error
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
        self._fenced: Mask = np.zeros(machine.threads, np.bool_)  # threads that have made a fence
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
            Fault: there was no fence yet, other instructions wrote them since the last, or a product under way writes a
                factor.
        """
        self._refuse_changed(site, (*results, *factors))
        fenced = self._fenced[self.machine.select]
        if not fenced.all():
            place = self.machine.place(int(self.machine.selected[np.argmin(fenced)]))
            message = "a wgmma of a warp that has made no wgmma.fence yet"
            raise Fault(Finding(Kind.MISSING_WAIT, message, site, place))
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
        self._fenced[self.machine.select] = True
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
    if why := group_form_error(shape.name, (result, left, right)):
        raise decoder.unsupported(why)
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
    if any(each not in {0, 1} for each in numbers[2:]):
        raise decoder.unsupported("a transposition that is neither 0 nor 1")
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


@dataclass(frozen=True)
class _Product:
    """One instruction."""

    site: Site
    kind: tuple[Hashable, ...]  # equal for those that may be one product of a greater depth
    results: list[Register]
    taken: list[Register]  # of A
    factors: tuple[_Factor, _Factor]
    old: Callable[[Machine], Array]  # words of D before it
    adds: Read | None  # whether it is added; None: as it is
    write: Callable[[Machine, Array], None]
    total: Callable[[Array, Array, Array], Array]  # of codes and D: ``[batch, rows, columns]``
    halves: bool
    never: bool  # whether nothing is added
    merges: bool  # whether the sum of several is that of one of a greater depth

    def begin(self, machine: Machine) -> tuple[Array, Array]:
        """Take its registers, and read the codes of A and B."""
        machine.unit(Products).begin(self.site, self.results, self.taken)
        return _codes(machine, self.site, self.factors)

    def added(self, machine: Machine, matrix: Array) -> Array:
        """What it adds to, of D ``[warps, 16, columns]``."""
        if self.adds is None:
            return matrix
        return np.where(_by_warp(machine, self.adds)[:, None, None], matrix, matrix.dtype.type(0))


class Chain:
    """The step of products one behind the other that add to the same registers.

    Args:
        products: one or more, of one kind.
    """

    def __init__(self, products: Sequence[_Product]) -> None:
        self.products = products

    def __call__(self, machine: Machine) -> None:
        """Run them."""
        first = self.products[0]
        codes = [each.begin(machine) for each in self.products]
        old = first.old(machine)
        matrix = fragments.tiles_of_warps(fragments.halves_of(old) if first.halves else old, 16)
        if len(codes) > 1 and self._merges(machine):
            codes = [(np.concatenate([a for a, _ in codes]), np.concatenate([b for _, b in codes]))]
        for product, (a, b) in zip(self.products, codes, strict=False):
            batch = product.added(machine, matrix).reshape(a.shape[1], a.shape[2], -1)
            matrix = product.total(a, b, batch).reshape(matrix.shape)
        registers = fragments.registers_of_warps(matrix)
        first.write(machine, fragments.words_of_halves(registers) if first.halves else registers)

    def _merges(self, machine: Machine) -> bool:
        adding = (each.adds for each in self.products[1:])
        return self.products[0].merges and all(each is None or np.all(each(machine)) for each in adding)


def _product_step(
    decoder: Decoder, shape: Shape, result: str, factors: tuple[_Factor, _Factor], adds: Read | None
) -> Step:
    target, halves = decoder.operands[0], result == "f16"
    items = [item for item in decoder.items(target) if isinstance(item, Register)]
    if len(items) != _ROWS * shape.columns // (LANES * _WARPS) // (2 if halves else 1):
        raise decoder.unsupported(f"{len(items)} registers of results")
    never = adds is None and decoder.operands[3:] != ()
    taken = [item for item in decoder.items(decoder.operands[1]) if isinstance(item, Register)]
    product = _Product(
        decoder.site,
        (decoder.instruction.modifiers, target, factors[0].words is None, *(each.negative for each in factors)),
        items,
        taken if factors[0].words else [],
        factors,
        _nothing(len(items)) if never else words_of(decoder, target),
        adds,
        writer_of(decoder, target, Type.B32),
        _sum_of(decoder, result, factors),
        halves,
        never,
        merges=result != "s32",
    )
    return Chain([product])


def _nothing(registers: int) -> Callable[[Machine], Array]:
    """Zeros in place of results that are not added to: their registers need not hold anything."""
    return lambda machine: np.zeros((registers, machine.count // LANES, LANES), np.uint32)


def _by_warp(machine: Machine, read: Read) -> Array:
    return machine.spread(read(machine))[::LANES]


def _codes(machine: Machine, site: Site, factors: tuple[_Factor, _Factor]) -> tuple[Array, Array]:
    """Codes ``[depth, batch, rows]`` of A and B: of whole groups of 64 rows where there are, else of warps of 16."""
    leaders = machine.selected[::LANES]
    whole = _whole_groups(machine, leaders)
    b = _shared_codes(machine, site, factors[1], leaders, _WARPS if whole else 1)
    if factors[0].words is not None:
        rows = fragments.rows_of_left(factors[0].words(machine), factors[0].kind, 16).swapaxes(1, 2)
        return rows.reshape(rows.shape[0], b.shape[1], -1), b
    a = _shared_codes(machine, site, factors[0], leaders, _WARPS if whole else 1)
    if whole:
        return a, b
    own = leaders // LANES % _WARPS
    return a.reshape(*a.shape[:2], _WARPS, -1)[:, np.arange(leaders.size), own], b


def _whole_groups(machine: Machine, leaders: Array) -> bool:
    """Whether the selected warps are whole warpgroups, side by side."""
    if leaders.size % _WARPS:
        return False
    warps = (leaders % machine.per_group // LANES).reshape(-1, _WARPS)
    return bool((warps % _WARPS == np.arange(_WARPS)).all() and (warps // _WARPS == warps[:, :1] // _WARPS).all())


def _shared_codes(machine: Machine, site: Site, factor: _Factor, leaders: Array, step: int) -> Array:
    """``[depth, batch, rows]``, read once for every ``step`` warps."""
    if factor.tile is None or factor.descriptor is None:
        raise Unsupported("B in registers", site)
    descriptors, threads = _by_warp(machine, factor.descriptor)[::step], leaders[::step]
    codes, units = read_tiles(machine, site, factor.tile, descriptors.tolist(), threads)
    machine.unit(Products).read(site, threads, units)
    return np.ascontiguousarray(codes.transpose(2, 0, 1))


def _sum_of(decoder: Decoder, result: str, factors: tuple[_Factor, _Factor]) -> Callable[[Array, Array, Array], Array]:
    """Codes of A and B ``[depth, batch, rows]``, and old words ``[batch, rows, columns]``, to new ones."""
    left, right = factors
    if result == "s32":
        saturate = decoder.has("satfinite")

        def integers(a: Array, b: Array, c: Array) -> Array:
            x, y = left.kind.terms(a).turned(), right.kind.terms(b).turned()
            total = multiply_integers(x, y, c.view(np.int32).transpose(1, 2, 0), saturate)
            return np.ascontiguousarray(total.transpose(2, 0, 1)).view(np.uint32)

        return integers
    model = group_model(left.kind)
    if result == "f16":
        model = model.into_half()
    kind = np.float16 if result == "f16" else np.float32

    def compute(a: Array, b: Array, c: Array) -> Array:
        x, y = left.kind.terms(a).turned(), right.kind.terms(b).turned()
        x, y = replace(x, values=left.signed(x.values)), replace(y, values=right.signed(y.values))
        value = multiply(x, y, c.view(kind).transpose(1, 2, 0), model).transpose(2, 0, 1)
        return value if result == "f16" else np.ascontiguousarray(value).view(np.uint32)

    return compute


# -- several at once


_MOST = 8
"""Products that run as one."""

_DESCRIBING = frozenset(
    {"add", "and", "bfe", "cvt", "mad", "mov", "mul", "or", "selp", "setp", "shl", "shr", "sub", "xor"}
)
"""Opcodes of what descriptors and predicates are computed with: they change registers alone, and can't fail."""


def chained(program: Program, compiled: tuple[Compiled, ...]) -> tuple[Compiled, ...]:
    """Let products that add to the same registers, one behind the other, run at the place of the last, all at once.

    Between them there may be what only computes registers that none of them touches, as their descriptors are.
    """
    result = list(compiled)
    for run in _runs(program, compiled):
        steps = [compiled[each].step for each in run]
        products = [product for step in steps if isinstance(step, Chain) for product in step.products]
        also = tuple(compiled[each].uses for each in run[:-1])
        result[run[-1]] = replace(compiled[run[-1]], step=Chain(products), also=also)
        for each in run[:-1]:
            result[each] = replace(compiled[each], step=_later)
    return tuple(result)


def _later(machine: Machine) -> None:
    """What an instruction behind does."""


def _runs(program: Program, compiled: tuple[Compiled, ...]) -> Iterator[list[int]]:
    """Numbers of products that may run as one, two or more."""
    run: list[int] = []
    for index, item in enumerate(compiled):
        if run and _joins(compiled, run, index) and index not in program.targets:
            run.append(index)
        elif not (run and _between(compiled, run, item) and index not in program.targets):
            if len(run) > 1:
                yield run
            run = [index] if _chainable(item) else []


def _chainable(item: Compiled) -> bool:
    return isinstance(item.step, Chain) and item.instruction.guard is None


def _joins(compiled: tuple[Compiled, ...], run: list[int], index: int) -> bool:
    first, step = compiled[run[0]].step, compiled[index].step
    if not (_chainable(compiled[index]) and isinstance(first, Chain) and isinstance(step, Chain)) or len(run) == _MOST:
        return False
    return first.products[0].kind == step.products[0].kind and not step.products[0].never


def _between(compiled: tuple[Compiled, ...], run: list[int], item: Compiled) -> bool:
    """Whether an instruction may run before products that stand before it."""
    if item.instruction.opcode not in _DESCRIBING or item.uses.reads & compiled[run[0]].uses.writes:
        return False
    return not any(item.uses.writes & (compiled[each].uses.reads | compiled[each].uses.writes) for each in run)


# -- waits


def _fence(decoder: Decoder) -> Step:
    decoder.need(0)
    return lambda machine: machine.unit(Products).fence()


def _commit(decoder: Decoder) -> Step:
    decoder.need(0)
    return lambda machine: machine.unit(Products).commit()


def _wait(decoder: Decoder) -> Step:
    but = groups_left(decoder)
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
