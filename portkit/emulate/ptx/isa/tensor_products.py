"""Matrix products in tensor memory: what ``tcgen05.mma`` issues, and what it computes when its commit is asked for.

Products of one block that add to the same columns one behind the other are one product of a greater depth, and those
of several blocks run at once.

Source: PTX ISA, "TensorCore 5th Generation Family Instructions": tcgen05.mma.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from portkit.emulate.core.bytestore import Offsets, Words
from portkit.emulate.core.findings import Fault, Finding, Kind, Site
from portkit.emulate.ptx.decode import Decoder, Read, ReadOffsets, Step
from portkit.emulate.ptx.isa.operands_shared import Tile, checked_units, codes_of, free_units, judge_units
from portkit.emulate.ptx.isa.tensor_memory import COLUMNS, TENSOR_LANES, Issued, Range, TensorMemory
from portkit.emulate.ptx.machine import LANES, Array, Machine, Threads
from portkit.emulate.ptx.matrix.formats import least_of
from portkit.emulate.ptx.matrix.instruction_descriptor import Product, product_of
from portkit.emulate.ptx.matrix.models import tensor_model
from portkit.emulate.ptx.matrix.scales import BlockScales
from portkit.emulate.ptx.matrix.sums import multiply, multiply_integers
from portkit.emulate.ptx.program import Address, Negated, Operand, Register
from portkit.emulate.ptx.types import Type

_KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")

_WORDS = 8
"""Columns that a row of A takes in tensor memory."""


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


def mma(decoder: Decoder) -> Step:
    """Operands: D, A, B, the instruction descriptor, of scaled kinds both scales, and whether D is added."""
    kind = decoder.required(*(f"kind::{each}" for each in _KINDS)).removeprefix("kind::")
    scaled = _scales_of(decoder, kind)
    decoder.need(7 if scaled else 5)
    target, left, right, descriptor, *rest = decoder.operands
    in_memory = isinstance(left, Address)
    operands = _Mma(
        kind,
        scaled,
        decoder.address(target),
        decoder.address(left) if in_memory else decoder.read(left, Type.B64),
        in_memory,
        decoder.read(right, Type.B64),
        decoder.read(descriptor, Type.U32),
        (decoder.address(rest[0]), decoder.address(rest[1])) if scaled else None,
        _adds(decoder, rest[-1]),
    )
    site = decoder.site
    return lambda machine: _issue_all(machine, site, operands)


def _adds(decoder: Decoder, operand: Operand) -> Read:
    if isinstance(operand, Register | Negated):
        return decoder.predicate(operand)
    return decoder.read(operand, Type.PRED)


def _scales_of(decoder: Decoder, kind: str) -> BlockScales | None:
    """How the scales of a kind are shared out; None: it has none."""
    vector = decoder.one_of("scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32") or ""
    if decoder.has("block_scale") != (kind in _VECTORS) or vector not in _VECTORS.get(kind, {"": 0}):
        raise decoder.unsupported(f"kind::{kind} with {vector or 'no size of vectors'} of scales")
    count, depth = _VECTORS.get(kind, {"": 0})[vector], 64 if kind.startswith("mxf4") else 32
    return BlockScales(count, depth // count, depth == 64) if count else None


_VECTORS: dict[str, dict[str, int]] = {
    "mxf8f6f4": {"": 1, "scale_vec::1X": 1, "block32": 1},
    "mxf4": {"": 2, "scale_vec::2X": 2, "block32": 2},
    "mxf4nvf4": {"scale_vec::2X": 2, "scale_vec::4X": 4, "block16": 4, "block32": 2},
}
"""Block-scaled kind → how the size of its vectors is named, and scales of a row."""


# -- operands


@dataclass(eq=False, slots=True)
class _InShared:
    """A factor in shared memory."""

    tile: Tile
    units: Offsets


@dataclass(eq=False, slots=True)
class _InTensor:
    """A factor in tensor memory."""

    rows: Array  # of the chunk's lanes
    columns: Range


_Factor: TypeAlias = _InShared | _InTensor


@functools.cache
def _lanes(rows: int) -> Array:
    """Lanes of the rows of D: of 64 rows, 16 in each quarter."""
    every = np.arange(rows)
    return every if rows == TENSOR_LANES else every // 16 * LANES + every % 16


def _rows(product: Product, group: int, at: int) -> Array:
    """The chunk's lanes of the rows of D, from an address."""
    return _lanes(product.rows) + (group * TENSOR_LANES + (at >> 16))


def _fits(product: Product, at: int, columns: int) -> bool:
    """Whether so many columns of those lanes are there."""
    return (at & 0xFFFF) + columns <= COLUMNS and _last_lane(product.rows) + (at >> 16) < TENSOR_LANES


@functools.cache
def _last_lane(rows: int) -> int:
    return int(_lanes(rows)[-1])


# -- what was issued


@dataclass(eq=False)
class _Issued(Issued):
    """A product that has not run."""

    memory: TensorMemory
    product: Product
    at: int  # of D
    adds: bool
    left: _Factor
    right: _InShared
    scaled: BlockScales | None
    scales: tuple[int, ...]

    @property
    def alike(self) -> Hashable | None:
        """Scaled products run alone."""
        if self.scaled:
            return None
        return id(self.product), self.at, self.adds, isinstance(self.left, _InTensor)

    def goes_on(self, before: Issued) -> bool:
        """Whether it adds to what the one before gives, which it does not read otherwise."""
        if not isinstance(before, _Issued) or self.scaled or not self.adds or self.product.result == "s32":
            return False
        if self.product is not before.product or self.at != before.at:
            return False
        if isinstance(self.left, _InTensor):
            return isinstance(before.left, _InTensor) and not self.left.columns.meets(self.writes)
        return isinstance(before.left, _InShared)

    def run(self, others: Sequence[Sequence[_Issued]] = ()) -> None:
        """Compute products, and write D."""
        chains = others or [[self]]
        memory, product, first = self.memory, self.product, self.writes.start
        rows = np.stack([_rows(product, chain[0].writes.group, self.at) for chain in chains])
        columns = np.full((len(chains), 1), first)
        shape = (*rows.shape, product.columns)
        old = memory.load_rows(rows, columns, product.columns) if self.adds else np.zeros(shape, np.uint32)
        left = _codes(memory, product, [[each.left for each in chain] for chain in chains])
        right = _codes(memory, product, [[each.right for each in chain] for chain in chains])
        if self.scaled:
            result = _scaled_result(self, left[:, 0].T, right[:, 0].T, old[0])[None]
        else:
            result = _result(product, left, right, old.transpose(1, 2, 0)).transpose(2, 0, 1)
        memory.store_rows(rows, columns, result)


def _codes(memory: TensorMemory, product: Product, chains: Sequence[Sequence[_Factor]]) -> Array:
    """Codes ``[depth, chains, rows]`` of factors that are alike, of each chain one behind the other."""
    factors = [each for position in zip(*chains, strict=True) for each in position]
    shared = [each for each in factors if isinstance(each, _InShared)]
    if shared:
        found = codes_of(memory.machine, shared[0].tile, np.stack([each.units for each in shared]))
    else:
        found = _codes_in_tensor(memory, product, [each for each in factors if isinstance(each, _InTensor)])
    by_position = found.reshape(-1, len(chains), *found.shape[1:])
    return by_position.transpose(0, 3, 1, 2).reshape(-1, len(chains), found.shape[1])


def _codes_in_tensor(memory: TensorMemory, product: Product, factors: Sequence[_InTensor]) -> Array:
    """Of A: codes ``[factors, rows, depth]``."""
    rows, first = np.stack([each.rows for each in factors]), np.array([[each.columns.start] for each in factors])
    return product.left.codes(memory.load_rows(rows, first, _WORDS))


def _result(product: Product, left: Array, right: Array, old: Words) -> Words:
    """D as words, which hold a float16 in their low half.

    Args:
        product: what it is.
        left: codes ``[depth, batch, rows]``.
        right: codes ``[depth, batch, columns]``.
        old: D before it, ``[rows, columns, batch]``.
    """
    x, y = (each.turned() for each in product.terms(left, right))
    if product.result == "s32":
        return multiply_integers(x, y, old.view(np.int32), product.saturate).view(np.uint32)
    model = tensor_model(product.left)
    if product.result == "f16":
        addend = (old & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16)
        return multiply(x, y, addend, model.into_half()).view(np.uint16).astype(np.uint32)
    return multiply(x, y, old.view(np.float32), model, least=least_of(product.left, product.right)).view(np.uint32)


def _scaled_result(issued: _Issued, left: Array, right: Array, old: Words) -> Words:
    """D of one product with scales, from codes ``[rows, depth]``."""
    memory, product, scaled = issued.memory, issued.product, issued.scaled
    assert scaled
    of_rows, of_columns = (
        _scale_codes(memory, issued.writes.group, at, rows, scaled.count, first)[None]
        for at, rows, first in zip(issued.scales, (product.rows, product.columns), product.scale_bytes, strict=True)
    )
    a, b = product.left.values(left)[None], product.right.values(right)[None]
    x, y = (-each if negative else each for each, negative in zip((a, b), product.negative, strict=True))
    result = scaled.multiply(x, y, of_rows, of_columns, product.scale_kind, old.view(np.float32)[None])[0]
    return np.ascontiguousarray(result).view(np.uint32)


def _scale_codes(memory: TensorMemory, group: int, at: int, rows: int, count: int, first: int) -> Array:
    """Codes ``[rows, count]``: row ``r`` has its scales in lane ``r % 32``, column ``r // 32``."""
    row = np.arange(rows)
    words = memory.words[group, (at >> 16) + row % LANES, (at & 0xFFFF) + row // LANES]
    return np.ascontiguousarray(words).view(np.uint8).reshape(rows, 4)[:, first : first + count]


# -- issue


@dataclass(frozen=True)
class _Given:
    """Operands of the selected threads, by thread."""

    descriptors: list[int]
    targets: list[int]
    adds: list[int]
    lefts: list[int]
    rights: list[int]
    scales: list[list[int]]

    @staticmethod
    def of(machine: Machine, operands: _Mma) -> _Given:
        """Read them."""

        def values(read: Read | ReadOffsets) -> list[int]:
            return machine.spread(read(machine)).tolist()  # type: ignore[no-any-return]

        return _Given(
            values(operands.descriptor),
            values(operands.target),
            values(operands.adds),
            values(operands.left),
            values(operands.right),
            [values(each) for each in operands.scales or ()],
        )


def _issue_all(machine: Machine, site: Site, operands: _Mma) -> None:
    """Let the products of the selected threads run later; what is wrong is found thread by thread."""
    given, memory = _Given.of(machine, operands), machine.unit(TensorMemory)
    lefts, rights = _free_factors(machine, site, operands, given)
    for which, thread in enumerate(machine.selected.tolist()):
        product = _product(machine, site, operands.kind, given.descriptors[which], thread)
        at, tiles = given.targets[which], _tiles_of(product)
        target = _target(machine, site, product, at, thread)
        if operands.left_in_memory:
            left: _Factor = _left_in_tensor(machine, site, product, given.lefts[which], thread)
        else:
            left = _in_shared(machine, site, tiles[0], given.lefts[which], thread, lefts and lefts[which])
        right = _in_shared(machine, site, tiles[1], given.rights[which], thread, rights and rights[which])
        scales = tuple(each[which] for each in given.scales)
        units = [each.units for each in (left, right) if isinstance(each, _InShared)]
        adds = bool(given.adds[which])
        issued = _Issued(site, thread, units, target, memory, product, at, adds, left, right, operands.scaled, scales)
        read = [left.columns] if isinstance(left, _InTensor) else []
        memory.issue(issued, read + [Range(target.group, each & 0xFFFF, (each & 0xFFFF) + 1) for each in scales])


def _free_factors(
    machine: Machine, site: Site, operands: _Mma, given: _Given
) -> tuple[list[Offsets] | None, list[Offsets] | None]:
    """Units of A and B of each thread, where nothing can be wrong with them; who follows accesses has seen these."""
    product, threads = product_of(operands.kind, given.descriptors[0]), machine.selected
    if isinstance(product, str) or given.descriptors.count(given.descriptors[0]) < len(given.descriptors):
        return None, None
    left, right = _tiles_of(product)
    in_tensor = operands.left_in_memory
    of_left = None if in_tensor else free_units(machine, left, given.lefts, threads)
    of_right = free_units(machine, right, given.rights, threads)
    for tile, units in ((left, of_left), (right, of_right)):
        if units is not None:
            judge_units(machine, site, tile, units, threads, later=True)
    return None if of_left is None else list(of_left), None if of_right is None else list(of_right)


def _product(machine: Machine, site: Site, kind: str, descriptor: int, thread: int) -> Product:
    product = product_of(kind, descriptor)
    if isinstance(product, str):
        raise Fault(Finding(Kind.UNDEFINED, product, site, machine.place(thread)))
    return product


def _target(machine: Machine, site: Site, product: Product, at: int, thread: int) -> Range:
    target = Range(int(machine.group[thread]), at & 0xFFFF, (at & 0xFFFF) + product.columns)
    if not _fits(product, at, product.columns):
        message = f"a product of {product.columns} columns at {target.start} of tensor memory"
        raise Fault(Finding(Kind.OUT_OF_BOUNDS, message, site, machine.place(thread)))
    return target


@functools.lru_cache(maxsize=1024)
def _tiles_of(product: Product) -> tuple[Tile, Tile]:
    sides = zip((product.left, product.right), (product.rows, product.columns), product.across, strict=True)
    left, right = (Tile(kind, rows, 256 // kind.bits, across) for kind, rows, across in sides)
    return left, right


def _in_shared(
    machine: Machine, site: Site, tile: Tile, descriptor: int, thread: int, known: Offsets | None
) -> _InShared:
    """A factor in shared memory; its units, if nothing can be wrong with them, are known."""
    if known is not None:
        return _InShared(tile, known)
    own: Threads = np.array([thread])
    units = checked_units(machine, site, tile, [descriptor], own)[0]
    judge_units(machine, site, tile, units[None], own, later=True)
    return _InShared(tile, units)


def _left_in_tensor(machine: Machine, site: Site, product: Product, at: int, thread: int) -> _InTensor:
    group, first = int(machine.group[thread]), at & 0xFFFF
    if not _fits(product, at, _WORDS):
        message = f"a factor of {_WORDS} columns at {first} of tensor memory"
        raise Fault(Finding(Kind.OUT_OF_BOUNDS, message, site, machine.place(thread)))
    return _InTensor(_rows(product, group, at), Range(group, first, first + _WORDS))
