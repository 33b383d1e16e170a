"""Atomic operations on global and shared memory.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions": atom, red; "membar, fence". Lanes that
meet at an address take turns in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from portkit.emulate.core.bytestore import Offsets
from portkit.emulate.core.floats import flush, maximum, minimum
from portkit.emulate.ptx.decode import Decoder, Step
from portkit.emulate.ptx.isa.control import nothing
from portkit.emulate.ptx.isa.halves import decode, encode, unpack
from portkit.emulate.ptx.isa.memory import ORDERS, SCOPES, VECTORS, access_hints, space_of, strength_of
from portkit.emulate.ptx.isa.reductions import INTEGER
from portkit.emulate.ptx.isa.registry import Entry
from portkit.emulate.ptx.machine import Array, Machine, Strength
from portkit.emulate.ptx.program import Instruction, Operand, Space
from portkit.emulate.ptx.types import RAW, Type

_SYNC = "Parallel Synchronization and Communication Instructions"

Combine = Callable[..., Array]
"""New bits of what is there and the operand's, or operands'."""


def _typed(function: Callable[[Array, Array], Array], kind: Type) -> Combine:
    """On values of a type, from and to their bits."""
    raw = RAW[kind.bits].dtype
    return lambda old, new: np.asarray(function(old.view(kind.dtype), new.view(kind.dtype))).view(raw)


def _increment(old: Array, limit: Array) -> Array:
    return np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1))


def _decrement(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


_INTEGER: dict[str, Callable[[Array, Array], Array]] = {
    **INTEGER,
    "inc": _increment,
    "dec": _decrement,
    "exch": lambda old, new: new,
}

_FLOAT: dict[str, Callable[[Array, Array], Array]] = {"add": np.add, "min": minimum, "max": maximum}


def _exchange_if_equal(old: Array, compared: Array, new: Array) -> Array:
    return np.where(old == compared, new, old)


def _halves(function: Callable[[Array, Array], Array], kind: Type) -> Combine:
    """Of 16-bit floats, and of pairs of them."""
    if kind.bits == Type.B32.bits:

        def pairs(old: Array, new: Array) -> Array:
            parts = zip(unpack(old, kind), unpack(new, kind), strict=True)
            low, high = (encode(function(a, b), kind).astype(np.uint32) for a, b in parts)
            return np.asarray(low | high << np.uint32(16))

        return pairs
    return lambda old, new: encode(function(decode(old, kind), decode(new, kind)), kind)


def _flushed(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda old, new: flush(function(flush(old), flush(new)))


def combination(operation: str, kind: Type, in_global: bool) -> Combine | None:
    """What an operation makes of the bits; None where a type has no such operation.

    Sums of float32 in global memory flush denormals.
    """
    if operation == "cas":
        return _exchange_if_equal
    if kind in {Type.F16, Type.BF16, Type.F16X2, Type.BF16X2}:
        return _halves(_FLOAT[operation], kind) if operation in _FLOAT else None
    if kind.floating:
        function = _FLOAT.get(operation)
        if function and kind is Type.F32 and operation == "add" and in_global:
            function = _flushed(function)
        return _typed(function, kind) if function else None
    function = _INTEGER.get(operation)
    return _typed(function, kind) if function else None


def turns(at: Offsets) -> Iterator[Any]:
    """Accesses in rounds in which no address comes twice, each address's in order."""
    if at.size < 2 or np.unique(at).size == at.size:
        yield slice(None)
        return
    order = np.argsort(at, kind="stable")
    sorted_at = at[order]
    first = np.concatenate([[True], sorted_at[1:] != sorted_at[:-1]])
    start = np.maximum.accumulate(np.where(first, np.arange(at.size), 0))
    rank = np.arange(at.size) - start
    by_rank = np.argsort(rank, kind="stable")
    bounds: Offsets = np.flatnonzero(np.diff(rank[by_rank])) + 1
    yield from np.split(order[by_rank], bounds)


def apply(memory: Array, at: Offsets, combine: Combine, *values: Array) -> Array:
    """Change elements one access after the other; what each found there."""
    found = np.empty(at.size, memory.dtype)
    for which in turns(at):
        place = at[which]
        old = memory[place]
        found[which] = old
        memory[place] = combine(old, *(each[which] for each in values))
    return found


_OPERATIONS = (*_INTEGER, "cas")


def _atomic(returns: bool) -> Callable[[Decoder], Step]:
    def build(decoder: Decoder) -> Step:
        strength, policy = strength_of(decoder) or Strength(False, False), access_hints(decoder)
        decoder.ignore("noftz")
        space, operation = space_of(decoder), decoder.required(*_OPERATIONS)
        kind, vector = decoder.kind, decoder.one_of(*VECTORS)
        operands = decoder.operands[:-1] if policy else decoder.operands
        given = operands if returns else (None, *operands)
        if len(given) != (4 if operation == "cas" else 3) or kind.bits > Type.B64.bits:
            raise decoder.unsupported(f"{len(operands)} operands of {operation}.{kind.suffix}")
        return _step(decoder, space, operation, kind, given, VECTORS[vector] if vector else 1, strength)

    return build


def _step(
    decoder: Decoder,
    space: Space,
    operation: str,
    kind: Type,
    given: tuple[Operand | None, ...],
    count: int,
    strength: Strength,
) -> Step:
    target, address, *sources = given
    assert address
    raw = RAW[kind.bits]
    at, site, width = decoder.address(address), decoder.site, kind.bytes
    items = [decoder.items(source) for source in sources if source]
    if any(len(each) != count for each in items):
        raise decoder.unsupported(f"a vector of {count}")
    reads = [[decoder.read(item, raw) for item in each] for each in items]
    writes = [decoder.write(item, raw) for item in decoder.items(target)] if target else []
    functions = {inside: combination(operation, kind, inside) for inside in (True, False)}
    if None in functions.values():
        raise decoder.unsupported(f"{operation} of .{kind.suffix}")

    def step(machine: Machine) -> None:
        base = at(machine)
        if count > 1:
            machine.check_aligned(site, base, count * width, machine.selected)
        for number in range(count):
            where, place = machine.touch_atomically(site, space, base + number * width, width)
            memory = machine.store_of(where).elements(str(raw.dtype))
            values = [machine.spread(np.asarray(each[number](machine))) for each in reads]
            combine = functions[where is Space.GLOBAL]
            assert combine
            found = apply(memory, place // width, combine, *values)
            if where is Space.GLOBAL and machine.exchanged:
                wrote = found == values[0] if operation == "cas" else None
                machine.exchange(place, machine.selected, strength, wrote=wrote)
            if writes:
                writes[number](machine, found)

    return step


def _fence(decoder: Decoder) -> Step:
    """Fences of wider scope than a block let relaxed accesses order blocks."""
    wide = orders_blocks(decoder.instruction)
    names = ("cta", "gl", "sys") if decoder.instruction.opcode == "membar" else (*ORDERS, *SCOPES, "sc")
    decoder.ignore(*names)

    def step(machine: Machine) -> None:
        if wide and machine.fenced:
            machine.fenced(machine.warps)

    return step


def orders_blocks(instruction: Instruction) -> bool:
    """Whether it is a fence of wider scope than a block."""
    names = set(instruction.modifiers)
    if instruction.opcode == "membar":
        return bool(names & {"gl", "sys"})
    return instruction.opcode == "fence" and bool(names & {"acq_rel", "sc"}) and bool(names & {"gpu", "sys"})


TABLE: dict[str, tuple[Entry, ...]] = {
    "atom": (Entry(_atomic(True), f"{_SYNC}: atom"),),
    "red": (Entry(_atomic(False), f"{_SYNC}: red"),),
    "membar": (Entry(_fence, f"{_SYNC}: membar"),),
    "fence": (Entry(_fence, f"{_SYNC}: fence"),),
    "griddepcontrol": (
        Entry(nothing("launch_dependents", "wait"), f"{_SYNC}: griddepcontrol", since=90, changes=False),
    ),
}
