"""Tensor memory and the matrix products that work on it: tcgen05.

Each block has 128 lanes of 512 columns of 32 bits. Products and copies into tensor memory run in the order of their
issue, but only when somebody asks for the mbarrier of a ``commit`` behind them; stores of threads end at their
``wait::st``. What is touched before that is a fault, and so is writing what a load reads before its ``wait::ld``. The
registers of a load need no wait: whoever uses them waits for them.

Source: PTX ISA, "TensorCore 5th Generation Family Instructions".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.bytestore import Offsets, Words
from portkit.emulate.core.findings import Fault, Finding, Kind, Site
from portkit.emulate.ptx.decode import Decoder, Read, ReadOffsets, Step, Write, all_reads
from portkit.emulate.ptx.isa.control import nothing
from portkit.emulate.ptx.isa.flight import Flights, Operation
from portkit.emulate.ptx.isa.mbarriers import Delivery, MemoryBarriers
from portkit.emulate.ptx.isa.operands_shared import Tile, read_tile
from portkit.emulate.ptx.isa.registry import Entry
from portkit.emulate.ptx.machine import LANES, Array, Machine
from portkit.emulate.ptx.matrix.formats import FORMATS, Format
from portkit.emulate.ptx.matrix.instruction_descriptor import Product, product_of
from portkit.emulate.ptx.matrix.models import tensor_model
from portkit.emulate.ptx.matrix.scales import BlockScales
from portkit.emulate.ptx.matrix.sums import multiply, multiply_integers
from portkit.emulate.ptx.program import Address, Immediate, Negated, Operand, Register, Space
from portkit.emulate.ptx.types import Type

_SECTION = "TensorCore 5th Generation Family Instructions"

TENSOR_LANES, COLUMNS = 128, 512
_SIZE = 4
_BARRIER = 8


@dataclass(frozen=True)
class Range:
    """Columns of one block's tensor memory."""

    group: int
    start: int
    end: int

    def meets(self, other: Range) -> bool:
        """Whether they share a column."""
        return self.group == other.group and self.start < other.end and other.start < self.end


@dataclass
class _Issued:
    """A product or copy that has not run."""

    site: Site
    thread: int
    run: Callable[[], None]
    units: list[Offsets]  # of shared memory that it reads
    writes: Range


@dataclass
class _Stored:
    """A store of threads that has not been waited for."""

    site: Site
    thread: int  # the first of its warp
    lanes: Array
    columns: Array
    words: Words
    range: Range


@dataclass
class _Block:
    """Tensor memory of one block."""

    allocated: dict[int, int] = field(default_factory=dict)  # first column → columns
    permitted: bool = True
    queue: list[_Issued] = field(default_factory=list)
    commits: list[Callable[[], None]] = field(default_factory=list)
    stores: list[_Stored] = field(default_factory=list)
    loads: list[tuple[Site, int, Range]] = field(default_factory=list)  # with the warp


class TensorMemory:
    """Tensor memory of all blocks of a chunk, and what is under way in it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.flights = machine.unit(Flights)
        self.words: NDArray[np.uint32] = np.full(
            (len(machine.groups), TENSOR_LANES, COLUMNS), machine.poison, np.uint32
        )
        self.blocks = [_Block() for _ in machine.groups]

    # -- allocation

    def allocate(self, site: Site, thread: int, columns: int) -> int:
        """The first of some free columns.

        Raises:
            Fault: there are not so many, or the number is none that can be asked for.
        """
        block = self.blocks[int(self.machine.group[thread])]
        start = sum(block.allocated.values())
        if columns < LANES or columns & (columns - 1) or start + columns > COLUMNS or not block.permitted:
            message = f"{columns} columns of tensor memory are asked for where {COLUMNS - start} are free"
            raise Fault(Finding(Kind.UNDEFINED, message, site, self.machine.place(thread)))
        block.allocated[start] = columns
        return start

    def free(self, site: Site, thread: int, start: int, columns: int) -> None:
        """Give columns back.

        Raises:
            Fault: they were not allocated so, or something is under way in them.
        """
        group = int(self.machine.group[thread])
        if self.blocks[group].allocated.pop(start & 0xFFFF, None) != columns:
            message = f"{columns} columns of tensor memory at {start & 0xFFFF} that were not allocated"
            raise Fault(Finding(Kind.UNDEFINED, message, site, self.machine.place(thread)))
        freed = Range(group, start & 0xFFFF, (start & 0xFFFF) + columns)
        self.check(site, thread, freed, "freed")
        self._check_loads(site, thread, freed)

    def relinquish(self, thread: int) -> None:
        """No more allocations of a block."""
        self.blocks[int(self.machine.group[thread])].permitted = False

    # -- what is under way

    def check(self, site: Site, thread: int, touched: Range, verb: str) -> None:
        """Refuse to touch what a product or a store has yet to write.

        Raises:
            Fault: it is touched.
        """
        block = self.blocks[touched.group]
        for issued in block.queue:
            if issued.writes.meets(touched):
                raise self._missing(site, thread, verb, "a product", "mbarrier of a commit", issued.site)
        for stored in block.stores:
            if stored.range.meets(touched):
                raise self._missing(site, thread, verb, "a store", "tcgen05.wait::st", stored.site)

    def _missing(self, site: Site, thread: int, verb: str, who: str, wait: str, at: Site) -> Fault:
        line = at.source or f"line {at.line}"
        message = f"tensor memory is {verb} that {who} of {line} has yet to write: no {wait} was waited for"
        return Fault(Finding(Kind.MISSING_WAIT, message, site, self.machine.place(thread)))

    def _check_loads(self, site: Site, thread: int, written: Range, but: int | None = None) -> None:
        """Refuse to write what loads may still read, but for those of one warp.

        Raises:
            Fault: it is written.
        """
        for at, warp, range_ in self.blocks[written.group].loads:
            if range_.meets(written) and warp != but:
                line = at.source or f"line {at.line}"
                message = (
                    f"tensor memory is written that a load of {line} may still read: no tcgen05.wait::ld covers it"
                )
                raise Fault(Finding(Kind.MISSING_WAIT, message, site, self.machine.place(thread)))

    def load(self, site: Site, thread: int, read: Range) -> None:
        """Begin a load of a warp."""
        self.check(site, thread, read, "read")
        self.blocks[read.group].loads.append((site, thread // LANES, read))

    def wait_loads(self, warps: set[int]) -> None:
        """End the loads of warps."""
        for block in self.blocks:
            block.loads = [load for load in block.loads if load[1] not in warps]

    def issue(self, issued: _Issued, touched: Sequence[Range]) -> None:
        """Let a product or copy run later, behind those that were issued before.

        Raises:
            Fault: it touches what a store has yet to write.
        """
        group = issued.writes.group
        self._check_loads(issued.site, issued.thread, issued.writes)
        for stored in self.blocks[group].stores:
            if any(stored.range.meets(each) for each in (*touched, issued.writes)):
                raise self._missing(issued.site, issued.thread, "used", "a store", "tcgen05.wait::st", stored.site)
        for units in issued.units:
            self.flights.reads(Operation(issued.site, "tcgen05"), units)
        self.blocks[group].queue.append(issued)

    def commit(self, thread: int, arrive: Callable[[], None]) -> Callable[[], None]:
        """Runs all that the block has issued so far, and arrives; commits before this one have done so before it."""
        block = self.blocks[int(self.machine.group[thread])]
        count = len(block.queue)

        def run() -> None:
            if run not in block.commits:
                return
            while block.commits[0] is not run:
                block.commits[0]()
            block.commits.pop(0)
            self._run(block, until)
            arrive()

        until = block.queue[:count]
        block.commits.append(run)
        return run

    def _run(self, block: _Block, until: list[_Issued]) -> None:
        while block.queue and block.queue[0] in until:
            issued = block.queue.pop(0)
            for units in issued.units:
                self.flights.has_read(units)
                self.flights.settle(units)
            issued.run()

    def store(self, stored: _Stored) -> None:
        """Begin a store of a warp."""
        self.check_products(stored.site, stored.thread, stored.range)
        self._check_loads(stored.site, stored.thread, stored.range, stored.thread // LANES)
        self.blocks[stored.range.group].stores.append(stored)

    def check_products(self, site: Site, thread: int, touched: Range) -> None:
        """Refuse to touch what a product has yet to write.

        Raises:
            Fault: it is touched.
        """
        for issued in self.blocks[touched.group].queue:
            if issued.writes.meets(touched):
                raise self._missing(site, thread, "written", "a product", "mbarrier of a commit", issued.site)

    def wait_stores(self, warps: set[int]) -> None:
        """End the stores of warps."""
        for group, block in enumerate(self.blocks):
            for stored in block.stores:
                if stored.thread // LANES in warps:
                    self.words[group, stored.lanes, stored.columns] = stored.words
            block.stores = [stored for stored in block.stores if stored.thread // LANES not in warps]

    def finish(self) -> None:
        """At the end of the blocks: what is still allocated is lost to others."""
        for group, block in enumerate(self.blocks):
            if block.allocated:
                message = "a block ends without giving back its tensor memory"
                self.machine.note(Finding(Kind.UNDEFINED, message, None, self.machine.place(self._first(group))))

    def _first(self, group: int) -> int:
        return group * self.machine.per_group


# -- allocation


def _one_block(decoder: Decoder) -> None:
    """Pairs of blocks are parts of a cluster."""
    if decoder.has("cta_group::2"):
        raise decoder.unsupported("a pair of blocks of a cluster")
    decoder.required("cta_group::1")
    if not decoder.architecture.tensor_memory:
        raise decoder.unsupported(f"{decoder.architecture.name} has no tensor memory")


def _warp_leaders(machine: Machine) -> list[int]:
    return machine.selected[::LANES].tolist()  # type: ignore[no-any-return]


def _allocate(decoder: Decoder) -> Step:
    """The document does not say by which proxy the address is written, so no fence is asked for behind it."""
    _one_block(decoder)
    decoder.ignore("sync", "aligned", "shared::cta")
    decoder.need(2)
    address, columns, site = decoder.address(decoder.operands[0]), _columns(decoder, 1), decoder.site

    def step(machine: Machine) -> None:
        memory = machine.unit(TensorMemory)
        at = machine.spread(address(machine))[::LANES]
        leaders = np.array(_warp_leaders(machine))
        starts = [memory.allocate(site, thread, columns) for thread in leaders.tolist()]
        machine.store(site, Space.SHARED, at, _SIZE, np.array(starts, np.uint32)[:, None], leaders)
        _, places = machine.locate(site, Space.SHARED, at, _SIZE, leaders)
        machine.unit(Flights).fenced(places >> 4)

    return step


def _columns(decoder: Decoder, number: int) -> int:
    operand = decoder.operands[number]
    if not isinstance(operand, Immediate):
        raise decoder.unsupported("a number of columns that is no constant")
    return int(operand.text, 0)


def _free(decoder: Decoder) -> Step:
    _one_block(decoder)
    decoder.ignore("sync", "aligned")
    decoder.need(2)
    start, columns, site = decoder.read(decoder.operands[0], Type.U32), _columns(decoder, 1), decoder.site

    def step(machine: Machine) -> None:
        starts = machine.spread(start(machine))[::LANES]
        for thread, at in zip(_warp_leaders(machine), starts.tolist(), strict=True):
            machine.unit(TensorMemory).free(site, thread, at, columns)

    return step


def _relinquish(decoder: Decoder) -> Step:
    _one_block(decoder)
    decoder.ignore("sync", "aligned")
    decoder.need(0)

    def step(machine: Machine) -> None:
        for thread in _warp_leaders(machine):
            machine.unit(TensorMemory).relinquish(thread)

    return step


# -- loads and stores of threads


@dataclass(frozen=True)
class _Shape:
    """Which lanes and columns the registers of a warp's lanes are."""

    registers: int
    halves: bool  # 16x32bx2: lanes 16 and up have columns further on
    further: int
    packed: bool  # two columns of 16 bits a register

    @property
    def columns(self) -> int:
        """That a lane has."""
        return self.registers * (2 if self.packed else 1)

    def places(self, addresses: Array) -> tuple[Array, Array]:
        """Lanes and columns ``[warps, 32, columns]``, from an address a lane."""
        lane, base = np.arange(LANES), addresses.astype(np.int64)
        rows = (base >> 16) + (lane % 16 if self.halves else lane)
        first = (base & 0xFFFF) + (lane // 16 * self.further if self.halves else 0)
        columns = first[..., None] + np.arange(self.columns)
        return np.broadcast_to(rows[..., None], columns.shape), columns

    def pack(self, words: Array) -> Array:
        """Words of columns ``[warps, 32, columns]`` to registers ``[warps, 32, registers]``."""
        if not self.packed:
            return words
        low, high = words[..., ::2] & np.uint32(0xFFFF), words[..., 1::2]
        return low | (high << np.uint32(16))

    def unpack(self, words: Array) -> Array:
        """The inverse; the high halves of columns are zeros."""
        if not self.packed:
            return words
        parts = np.stack([words & np.uint32(0xFFFF), words >> np.uint32(16)], axis=-1)
        return parts.reshape(*words.shape[:-1], -1)


_TIMES = re.compile(r"x(\d+)")


def _shape(decoder: Decoder, packing: str, registers: int, offset: Operand | None) -> _Shape:
    decoder.ignore("sync", "aligned")
    halves = decoder.required("32x32b", "16x32bx2") == "16x32bx2"
    times = next((int(match[1]) for name in decoder.instruction.modifiers if (match := _TIMES.fullmatch(name))), 0)
    decoder.ignore(f"x{times}")
    if times != registers or halves == (offset is None):
        raise decoder.unsupported(f"{registers} registers, x{times}")
    further = int(offset.text, 0) if isinstance(offset, Immediate) else 0
    return _Shape(registers, halves, further, decoder.has(packing))


def _checked_places(machine: Machine, site: Site, shape: _Shape, address: Read | ReadOffsets) -> tuple[Array, Array]:
    """Lanes and columns of the selected warps, which must be those of the warp's own quarter.

    Raises:
        Fault: they are not, or there are none such.
    """
    at = machine.spread(address(machine)).reshape(-1, LANES)
    lanes, columns = shape.places(at)
    own = np.array(_warp_leaders(machine)) % machine.per_group // LANES % 4
    wrong = (lanes // LANES != own[:, None, None]) | (columns >= COLUMNS)
    if wrong.any():
        warp = int(np.argmax(wrong.any(axis=(1, 2))))
        message = "tensor memory outside the quarter of lanes that a warp can reach, or behind the last column"
        raise Fault(Finding(Kind.OUT_OF_BOUNDS, message, site, machine.place(_warp_leaders(machine)[warp])))
    return lanes, columns


def _range(machine: Machine, thread: int, columns: Array) -> Range:
    return Range(int(machine.group[thread]), int(columns.min()), int(columns.max()) + 1)


def _load(decoder: Decoder) -> Step:
    """tcgen05.ld: registers, address, and of halves the offset of the second."""
    decoder.need(2, 3)
    items = decoder.items(decoder.operands[0])
    shape = _shape(decoder, "pack::16b", len(items), decoder.operands[2] if len(decoder.operands) > 2 else None)
    writes: list[Write] = [decoder.write(item, Type.B32) for item in items]
    address, site = decoder.address(decoder.operands[1]), decoder.site

    def step(machine: Machine) -> None:
        memory = machine.unit(TensorMemory)
        lanes, columns = _checked_places(machine, site, shape, address)
        leaders = _warp_leaders(machine)
        for thread, own in zip(leaders, columns, strict=True):
            memory.load(site, thread, _range(machine, thread, own))
        groups = machine.group[np.array(leaders)]
        words = shape.pack(memory.words[groups[:, None, None], lanes, columns])
        for number, write in enumerate(writes):
            write(machine, words[:, :, number].reshape(-1))

    return step


def _store(decoder: Decoder) -> Step:
    """tcgen05.st: address, of halves the offset of the second, and registers."""
    decoder.need(2, 3)
    items = decoder.items(decoder.operands[-1])
    shape = _shape(decoder, "unpack::16b", len(items), decoder.operands[1] if len(decoder.operands) > 2 else None)
    reads = all_reads(decoder, items, Type.B32)
    address, site = decoder.address(decoder.operands[0]), decoder.site

    def step(machine: Machine) -> None:
        memory = machine.unit(TensorMemory)
        lanes, columns = _checked_places(machine, site, shape, address)
        values = np.stack([machine.spread(read(machine)).reshape(-1, LANES) for read in reads], axis=-1)
        words = shape.unpack(values)
        for number, thread in enumerate(_warp_leaders(machine)):
            touched = _range(machine, thread, columns[number])
            memory.store(_Stored(site, thread, lanes[number], columns[number], words[number], touched))

    return step


def _wait_loads(decoder: Decoder) -> Step:
    decoder.need(0)
    decoder.ignore("sync", "aligned")

    def step(machine: Machine) -> None:
        machine.unit(TensorMemory).wait_loads({thread // LANES for thread in _warp_leaders(machine)})

    return step


def _wait_stores(decoder: Decoder) -> Step:
    decoder.need(0)
    decoder.ignore("sync", "aligned")

    def step(machine: Machine) -> None:
        machine.unit(TensorMemory).wait_stores({thread // LANES for thread in _warp_leaders(machine)})

    return step


# -- products

_KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")


@dataclass(frozen=True)
class _Mma:
    """Operands of a product, read from the machine by thread."""

    kind: str
    scaled: BlockScales | None
    target: ReadOffsets
    left: Read | ReadOffsets  # a descriptor, or an address of tensor memory
    left_in_memory: bool
    right: Read
    descriptor: Read
    scales: tuple[ReadOffsets, ReadOffsets] | None
    adds: Read


def _mma(decoder: Decoder) -> Step:
    """Operands: D, A, B, the instruction descriptor, of scaled kinds both scales, and whether D is added."""
    _one_block(decoder)
    kind = decoder.required(*(f"kind::{each}" for each in _KINDS)).removeprefix("kind::")
    scaled = decoder.has("block_scale")
    vector = decoder.one_of("scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32")
    decoder.need(7 if scaled else 5)
    target, left, right, descriptor, *rest = decoder.operands
    in_memory = isinstance(left, Address)
    operands = _Mma(
        kind,
        _scales_of(kind, vector) if scaled else None,
        decoder.address(target),
        decoder.address(left) if in_memory else decoder.read(left, Type.B64),
        in_memory,
        decoder.read(right, Type.B64),
        decoder.read(descriptor, Type.U32),
        (decoder.address(rest[0]), decoder.address(rest[1])) if scaled else None,
        _adds(decoder, rest[-1]),
    )
    site = decoder.site

    def step(machine: Machine) -> None:
        for which, thread in enumerate(machine.selected.tolist()):
            _issue(machine, site, operands, which, thread)

    return step


def _adds(decoder: Decoder, operand: Operand) -> Read:
    if isinstance(operand, Register | Negated):
        return decoder.predicate(operand)
    return decoder.read(operand, Type.PRED)


_VECTORS = {"block32": {"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 2}, "block16": {"mxf4nvf4": 4}}


def _scales_of(kind: str, vector: str | None) -> BlockScales:
    fours = kind.startswith("mxf4")
    depth = 64 if fours else 32
    given = {1: 1, 2: 2, 4: 4}.get(int(vector[-2]) if vector and vector not in _VECTORS else 0, 2 if fours else 1)
    count = _VECTORS.get(vector or "", {}).get(kind, given)
    return BlockScales(count, depth // count, fours)


def _value(machine: Machine, read: Read | ReadOffsets, which: int) -> int:
    return int(machine.spread(read(machine))[which])


def _issue(machine: Machine, site: Site, operands: _Mma, which: int, thread: int) -> None:
    """Read the operands of one thread, and let the product run later."""
    product = product_of(operands.kind, _value(machine, operands.descriptor, which))
    if isinstance(product, str):
        raise Fault(Finding(Kind.UNDEFINED, product, site, machine.place(thread)))
    group = int(machine.group[thread])
    at = _value(machine, operands.target, which)
    adds = bool(machine.spread(operands.adds(machine))[which])
    target = Range(group, at & 0xFFFF, (at & 0xFFFF) + product.columns)
    if target.end > COLUMNS:
        message = f"a product of {product.columns} columns at {target.start} of tensor memory"
        raise Fault(Finding(Kind.OUT_OF_BOUNDS, message, site, machine.place(thread)))
    left, left_units, touched = _left(machine, site, operands, product, which, thread)
    right, right_units = _shared(
        machine, site, product.right, product.columns, product.across[1], _value(machine, operands.right, which), thread
    )
    scales = None if operands.scales is None else tuple(_value(machine, each, which) for each in operands.scales)
    memory = machine.unit(TensorMemory)

    def run() -> None:
        old = _old(memory, product, group, at, adds)
        result = _result(memory, _Inputs(product, left(), right(), old), operands.scaled, group, scales)
        memory.words[group, _lanes(product, at)[:, None], (at & 0xFFFF) + np.arange(product.columns)] = result

    if scales is not None:
        touched += [Range(group, each & 0xFFFF, (each & 0xFFFF) + 1) for each in scales]
    memory.issue(_Issued(site, thread, run, [*left_units, right_units], target), touched)


def _shared(
    machine: Machine, site: Site, kind: Format, rows: int, across: bool, descriptor: int, thread: int
) -> tuple[Callable[[], Array], Offsets]:
    """Codes of an operand in shared memory at the time when they are asked for, and the units that they take."""
    tile = Tile(kind, rows, 256 // kind.bits, across)
    _, units = read_tile(machine, site, tile, descriptor, thread)
    return lambda: tile.codes(machine.shared.load(units << 4, 16)), units


def _left(
    machine: Machine, site: Site, operands: _Mma, product: Product, which: int, thread: int
) -> tuple[Callable[[], Array], list[Offsets], list[Range]]:
    """Codes of A, the units of shared memory and the columns that it reads."""
    at = _value(machine, operands.left, which)
    if not operands.left_in_memory:
        codes, units = _shared(machine, site, product.left, product.rows, product.across[0], at, thread)
        return codes, [units], []
    memory, group = machine.unit(TensorMemory), int(machine.group[thread])
    columns: Array = (at & 0xFFFF) + np.arange(8)

    def read() -> Array:
        return product.left.codes(memory.words[group, _lanes(product, at)[:, None], columns])

    return read, [], [Range(group, int(columns[0]), int(columns[-1]) + 1)]


def _lanes(product: Product, at: int) -> Array:
    """Lanes of the rows of D: of 64 rows, 16 in each quarter."""
    rows = np.arange(product.rows)
    return (at >> 16) + (rows if product.rows == TENSOR_LANES else rows // 16 * LANES + rows % 16)


def _old(memory: TensorMemory, product: Product, group: int, at: int, adds: bool) -> Array:
    """D before the product, as words."""
    shape = (product.rows, product.columns)
    if not adds:
        return np.zeros(shape, np.uint32)
    return memory.words[group, _lanes(product, at)[:, None], (at & 0xFFFF) + np.arange(product.columns)]


@dataclass(frozen=True)
class _Inputs:
    """A product with the codes of A and B, and D as words."""

    product: Product
    left: Array
    right: Array
    old: Array


def _result(
    memory: TensorMemory, inputs: _Inputs, scaled: BlockScales | None, group: int, scales: tuple[int, ...] | None
) -> Array:
    """D as words, which hold a float16 in their low half."""
    product, old = inputs.product, inputs.old
    if product.result == "s32":
        x, y = product.terms(inputs.left, inputs.right)
        return multiply_integers(x, y, old.view(np.int32)[..., None], product.saturate)[..., 0].view(np.uint32)
    if scaled is not None and scales is not None:
        return _scaled_result(memory, inputs, scaled, group, scales)
    model = tensor_model(product.left)
    x, y = product.terms(inputs.left, inputs.right)
    if product.result == "f16":
        addend = (old & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16)
        return multiply(x, y, addend[..., None], model.into_half())[..., 0].view(np.uint16).astype(np.uint32)
    return multiply(x, y, old.view(np.float32)[..., None], model)[..., 0].view(np.uint32)


def _scaled_result(
    memory: TensorMemory, inputs: _Inputs, scaled: BlockScales, group: int, scales: tuple[int, ...]
) -> Array:
    product = inputs.product
    of_rows, of_columns = (
        _scale_codes(memory, group, at, rows, scaled.count, first)[None]
        for at, rows, first in zip(scales, (product.rows, product.columns), product.scale_bytes, strict=True)
    )
    a, b = product.left.values(inputs.left)[None], product.right.values(inputs.right)[None]
    x, y = (-each if negative else each for each, negative in zip((a, b), product.negative, strict=True))
    result = scaled.multiply(x, y, of_rows, of_columns, product.scale_kind, inputs.old.view(np.float32)[None])[0]
    return np.ascontiguousarray(result).view(np.uint32)


def _scale_codes(memory: TensorMemory, group: int, at: int, rows: int, count: int, first: int) -> Array:
    """Codes ``[rows, count]``: row ``r`` has its scales in lane ``r % 32``, column ``r // 32``."""
    row = np.arange(rows)
    words = memory.words[group, (at >> 16) + row % LANES, (at & 0xFFFF) + row // LANES]
    return np.ascontiguousarray(words).view(np.uint8).reshape(rows, 4)[:, first : first + count]


def _commit(decoder: Decoder) -> Step:
    """The mbarrier is arrived at when all that was issued so far has run."""
    _one_block(decoder)
    decoder.required("mbarrier::arrive::one")
    decoder.ignore("shared::cluster", "shared::cta", "b64")
    decoder.need(1)
    address, site = decoder.address(decoder.operands[0]), decoder.site

    def step(machine: Machine) -> None:
        own, barriers = machine.selected, machine.unit(MemoryBarriers)
        _, places = machine.locate(site, Space.SHARED, machine.spread(address(machine)), _BARRIER, own)
        for place, thread in zip(places.tolist(), own.tolist(), strict=True):
            _owe(machine, barriers, site, place, thread)

    return step


def _owe(machine: Machine, barriers: MemoryBarriers, site: Site, place: int, thread: int) -> None:
    """Let a barrier be arrived at, when it is asked for or a later commit of the block is."""
    barrier = barriers.named(site, place, thread)

    def arrive() -> None:
        if delivery in barrier.owed:
            barrier.owed.remove(delivery)
        if barriers.known.get(place) is barrier:
            barriers.arrive(site, place, thread, expect=0)

    delivery = Delivery(machine.unit(TensorMemory).commit(thread, arrive), brings=False)
    barriers.owe(barrier, delivery)


def _copy(decoder: Decoder) -> Step:
    """tcgen05.cp of 32 rows of 16 bytes to all four quarters of lanes, as scales need it."""
    _one_block(decoder)
    decoder.need(2)
    decoder.required("32x128b")
    decoder.required("warpx4")
    target, descriptor = decoder.address(decoder.operands[0]), decoder.read(decoder.operands[1], Type.B64)
    site, tile = decoder.site, Tile(FORMATS["tf32"], LANES, 4, across=False)

    def step(machine: Machine) -> None:
        memory = machine.unit(TensorMemory)
        for which, thread in enumerate(machine.selected.tolist()):
            at, group = _value(machine, target, which) & 0xFFFF, int(machine.group[thread])
            _, units = read_tile(machine, site, tile, _value(machine, descriptor, which), thread)
            run = _copied(machine, memory, units, group, at)
            memory.issue(_Issued(site, thread, run, [units], Range(group, at, at + 4)), [])

    return step


def _copied(machine: Machine, memory: TensorMemory, units: Offsets, group: int, at: int) -> Callable[[], None]:
    def run() -> None:
        memory.words[group, :, at : at + 4] = np.tile(machine.shared.load(units << 4, 16), (4, 1))

    return run


def _entry(build: Callable[[Decoder], Step], name: str, *, collective: bool = True) -> tuple[Entry, ...]:
    return (Entry(build, f"{_SECTION}: {name}", since=100, collective=collective),)


TABLE: dict[str, tuple[Entry, ...]] = {
    "tcgen05.alloc": _entry(_allocate, "tcgen05.alloc"),
    "tcgen05.dealloc": _entry(_free, "tcgen05.dealloc"),
    "tcgen05.relinquish_alloc_permit": _entry(_relinquish, "tcgen05.relinquish_alloc_permit"),
    "tcgen05.ld": _entry(_load, "tcgen05.ld"),
    "tcgen05.st": _entry(_store, "tcgen05.st"),
    "tcgen05.wait::ld": _entry(_wait_loads, "tcgen05.wait"),
    "tcgen05.wait::st": _entry(_wait_stores, "tcgen05.wait"),
    "tcgen05.mma": _entry(_mma, "tcgen05.mma", collective=False),
    "tcgen05.cp": _entry(_copy, "tcgen05.cp", collective=False),
    "tcgen05.commit": _entry(_commit, "tcgen05.commit", collective=False),
    "tcgen05.fence::before_thread_sync": (Entry(nothing, f"{_SECTION}: tcgen05.fence", since=100, changes=False),),
    "tcgen05.fence::after_thread_sync": (Entry(nothing, f"{_SECTION}: tcgen05.fence", since=100, changes=False),),
}
