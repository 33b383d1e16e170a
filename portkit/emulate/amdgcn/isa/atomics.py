"""Atomic operations on global, buffer and shared memory.

Sources: CDNA3 ISA "MUBUF", "FLAT, Scratch and Global" and "LDS & GDS Instructions"; RDNA3 ISA the same.
Lanes act one after another in lane order, and waves in the order of the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from portkit.emulate.amdgcn.architecture import ALL, CDNA, RDNA, Generation
from portkit.emulate.amdgcn.decode import Decoder, Step
from portkit.emulate.amdgcn.isa import sections
from portkit.emulate.amdgcn.isa.lds import shared_address
from portkit.emulate.amdgcn.isa.memory import CACHE_HINTS, Addresses, buffer_addresses, global_addresses
from portkit.emulate.amdgcn.isa.registry import Build, Entry
from portkit.emulate.amdgcn.machine import Array, Machine, Mask
from portkit.emulate.core import floats
from portkit.emulate.core.bytestore import ByteStore, Offsets


@dataclass(frozen=True)
class Operation:
    """One atomic: new = combine(old, data), or data where old equals the comparand."""

    combine: Callable[[Any, Any], Any] | None  # None: compare and swap
    dtype: str  # of the values
    accumulate: np.ufunc | None = None  # NumPy's unbuffered form, where order within an instruction does not matter

    @property
    def bytes(self) -> int:
        """Of one value."""
        return np.dtype(self.dtype).itemsize

    @property
    def words(self) -> int:
        """Registers of one value."""
        return self.bytes // 4


def _swap(old: Array, new: Array) -> Array:
    return new


def _packed_sum(kind: str) -> Callable[[Array, Array], Array]:
    """Two 16-bit floats of a word, added one by one."""

    def add(old: Array, new: Array) -> Array:
        left, right = (np.ascontiguousarray(word).view(np.uint16) for word in (old, new))
        if kind == "f16":
            total = (left.view(np.float16) + right.view(np.float16)).view(np.uint16)
        else:
            total = floats.f32_to_bf16(floats.bf16_to_f32(left) + floats.bf16_to_f32(right)).astype(np.uint16)
        return total.view(np.uint32)

    return add


def _operations(bits: int) -> dict[str, Operation]:
    unsigned, signed = f"u{bits // 8}", f"i{bits // 8}"
    return {
        "add": Operation(np.add, unsigned, np.add),
        "sub": Operation(np.subtract, unsigned, np.subtract),
        "smin": Operation(np.minimum, signed, np.minimum),
        "smax": Operation(np.maximum, signed, np.maximum),
        "umin": Operation(np.minimum, unsigned, np.minimum),
        "umax": Operation(np.maximum, unsigned, np.maximum),
        "and": Operation(np.bitwise_and, unsigned, np.bitwise_and),
        "or": Operation(np.bitwise_or, unsigned, np.bitwise_or),
        "xor": Operation(np.bitwise_xor, unsigned, np.bitwise_xor),
        "swap": Operation(_swap, unsigned),
        "cmpswap": Operation(None, unsigned),
    }


_ADD_F32, _ADD_F64 = Operation(np.add, "f4", np.add), Operation(np.add, "f8", np.add)
_WORD, _DOUBLE = _operations(32), _operations(64)


def _named() -> dict[str, Operation]:
    """Suffix of a global or buffer atomic → operation, by both generations' names."""
    table = dict(_WORD.items())
    table |= {f"{name}_x2": operation for name, operation in _DOUBLE.items()}
    for bits, operations in ((32, _WORD), (64, _DOUBLE)):
        for name in ("add", "sub"):
            table[f"{name}_u{bits}"] = operations[name]
        for name in ("and", "or", "xor", "swap", "cmpswap"):
            table[f"{name}_b{bits}"] = operations[name]
        for name in ("min", "max"):
            table[f"{name}_i{bits}"], table[f"{name}_u{bits}"] = operations[f"s{name}"], operations[f"u{name}"]
    table |= {"add_f32": _ADD_F32, "add_f64": _ADD_F64}
    for name, function in (("min", floats.minimum), ("max", floats.maximum)):
        table[f"{name}_f64"] = Operation(function, "f8")
        table[f"{name}_f32"] = table[f"{name}_num_f32"] = Operation(function, "f4")
    table |= {f"pk_add_{kind}": Operation(_packed_sum(kind), "u4") for kind in ("f16", "bf16")}
    return table


def perform(
    store: ByteStore, at: Offsets, operation: Operation, data: Array, comparand: Array | None, wanted: bool
) -> Array:
    """Act on elements of memory one lane after another; the values before, where they are wanted.

    Args:
        store: the memory that holds them.
        at: offset of each lane's element, aligned.
        operation: what to do.
        data: one value a lane.
        comparand: of compare-and-swap.
        wanted: whether the values before are needed.
    """
    memory, index = store.elements(operation.dtype), at >> (operation.bytes.bit_length() - 1)
    if comparand is not None:
        return _compare_and_swap(memory, index, data, comparand)
    if not wanted and operation.accumulate is not None:
        operation.accumulate.at(memory, index, data)
        return data
    assert operation.combine is not None
    return _one_by_one(memory, index, operation.combine, data)


def _one_by_one(memory: Array, index: Offsets, combine: Callable[[Array, Array], Array], data: Array) -> Array:
    """In rounds: in each the first lane left at every element."""
    before = np.zeros_like(data)
    left = np.arange(index.size)
    while left.size:
        _, first = np.unique(index[left], return_index=True)
        lanes = left[first]
        before[lanes] = memory[index[lanes]]
        memory[index[lanes]] = combine(before[lanes], data[lanes])
        left = np.delete(left, first)
    return before


def _compare_and_swap(memory: Array, index: Offsets, data: Array, comparand: Array) -> Array:
    """In rounds: in each, at every element, the lanes up to the first one that finds what it expects."""
    before = np.zeros_like(data)
    left = np.argsort(index, kind="stable")
    while left.size:
        current = memory[index[left]]
        matched = current == comparand[left]
        group = np.cumsum(np.r_[0, np.diff(index[left]) != 0])
        number = np.where(matched, np.arange(left.size), left.size)
        winner = np.full(int(group[-1]) + 1, left.size)
        np.minimum.at(winner, group, number)
        done = np.arange(left.size) <= winner[group]
        before[left[done]] = current[done]
        winners = left[winner[winner < left.size]]
        memory[index[winners]] = data[winners]
        left = left[~done]
    return before


def _values(machine: Machine, index: int, operation: Operation, live: Mask) -> Array:
    """One value a live lane from the registers from ``index`` on."""
    words = [machine.lanes_of(machine.read_vector(index + n), live) for n in range(operation.words)]
    if len(words) == 1:
        return np.ascontiguousarray(words[0]).view(operation.dtype)
    return np.ascontiguousarray(np.stack(words, axis=1)).view(operation.dtype)[:, 0]


def _return_values(machine: Machine, index: int, before: Array, live: Mask) -> None:
    words = np.ascontiguousarray(before).view(np.uint32).reshape(before.size, -1)
    for number in range(words.shape[1]):
        machine.put_lanes(index + number, words[:, number], live)


def _memory_atomic(operation: Operation, buffer: bool) -> Build:
    swap = operation.combine is None

    def build(decoder: Decoder) -> Step:
        wanted = decoder.has("sc0") or decoder.has("glc") or "RETURN" in decoder.modifier("th")
        decoder.ignore(*CACHE_HINTS)
        data, target, addresses = _operands(decoder, operation, wanted, buffer)
        site, width = decoder.instruction.site, operation.words
        source = decoder.vector_indices(data, width * (1 + swap), write=False)
        result = _result_register(decoder, target, width) if wanted else None

        def step(machine: Machine) -> None:
            at, live = addresses(machine)
            if not machine.some(live):
                return
            offsets = machine.lanes_of(at, live)
            access = machine.touch_atomically(site, offsets, operation.bytes, live)
            values = _values(machine, source, operation, live)
            comparand = _values(machine, source + width, operation, live) if swap else None
            machine.memory.mark(offsets, operation.bytes)
            before = perform(machine.memory, offsets, operation, values, comparand, wanted)
            machine.exchange(access, None if comparand is None else before == comparand)
            if result is not None:
                _return_values(machine, result, before, live)

        return step

    return build


def _result_register(decoder: Decoder, text: str, words: int) -> int:
    """Where the value before goes; compare-and-swap on a buffer writes the first half of its data."""
    register = decoder.vector_register(text)
    decoder.writing(register, words)
    return register.index


def _operands(decoder: Decoder, operation: Operation, wanted: bool, buffer: bool) -> tuple[str, str, Addresses]:
    """Data, destination and addresses; the order differs with the value wanted."""
    texts = decoder.operands
    if buffer:
        decoder.need(4)
        return texts[0], texts[0], buffer_addresses(decoder, texts[1], texts[2], texts[3], operation.bytes)
    decoder.need(4 if wanted else 3)
    target, address, data, base = texts if wanted else (texts[1], *texts)
    return data, target, global_addresses(decoder, address, base)


def _shared_atomic(operation: Operation, wanted: bool) -> Build:
    swap = operation.combine is None

    def build(decoder: Decoder) -> Step:
        texts = decoder.operands[1:] if wanted else decoder.operands
        if len(texts) != 2 + swap:
            raise decoder.unsupported(f"{len(decoder.operands)} operands")
        address, offset = shared_address(decoder, texts[0]), decoder.number("offset")
        sources = [decoder.vector_indices(text, operation.words, write=False) for text in texts[1:]]
        result = decoder.vector_indices(decoder.operands[0], operation.words, write=True) if wanted else None
        site = decoder.instruction.site
        data, comparand = _data_and_comparand(sources, decoder)

        def step(machine: Machine) -> None:
            live = machine.active
            if not machine.some(live):
                return
            place = machine.touch_shared_atomically(site, address(machine, offset), operation.bytes, live)
            values = _values(machine, data, operation, live)
            expected = None if comparand is None else _values(machine, comparand, operation, live)
            machine.shared.mark(place, operation.bytes)
            before = perform(machine.shared, place, operation, values, expected, wanted)
            if result is not None:
                _return_values(machine, result, before, live)

        return step

    return build


def _data_and_comparand(sources: list[int], decoder: Decoder) -> tuple[int, int | None]:
    """Compare-and-swap names the comparand first on CDNA (ds_cmpst) and last on RDNA (ds_cmpstore)."""
    if len(sources) == 1:
        return sources[0], None
    return (sources[0], sources[1]) if decoder.architecture.generation in RDNA else (sources[1], sources[0])


def _shared_names() -> dict[str, Operation]:
    table = {}
    for bits, operations in ((32, _WORD), (64, _DOUBLE)):
        for name in ("add", "sub"):
            table[f"{name}_u{bits}"] = operations[name]
        for name in ("and", "or", "xor"):
            table[f"{name}_b{bits}"] = operations[name]
        for name in ("min", "max"):
            table[f"{name}_i{bits}"], table[f"{name}_u{bits}"] = operations[f"s{name}"], operations[f"u{name}"]
    for name, function in (("min", floats.minimum), ("max", floats.maximum)):
        table[f"{name}_f32"] = table[f"{name}_num_f32"] = Operation(function, "f4")
    return table | {"add_f32": _ADD_F32, "add_f64": _ADD_F64}


_RDNA3, _RDNA4 = frozenset({Generation.RDNA3}), frozenset({Generation.RDNA4})
_FLOATS: dict[str, frozenset[Generation]] = {
    "add_f32": ALL,
    "add_f64": CDNA,
    "pk_add_f16": CDNA | _RDNA4,
    "pk_add_bf16": CDNA - {Generation.CDNA2} | _RDNA4,
    **{f"{name}_f64": CDNA for name in ("min", "max")},
    **{f"{name}_f32": _RDNA3 for name in ("min", "max")},
    **{f"{name}_num_f32": _RDNA4 for name in ("min", "max")},
}


def _generations(name: str) -> frozenset[Generation]:
    """Those that call a global or buffer atomic so: RDNA says the type of integers, CDNA does not."""
    return _FLOATS.get(name) or (RDNA if name[-3:] in {"u32", "u64", "b32", "b64", "i32", "i64"} else CDNA)


def _shared_generations(name: str) -> frozenset[Generation]:
    return _RDNA4 if "_num_" in name else CDNA | _RDNA3 if name in {"min_f32", "max_f32"} else _FLOATS.get(name, ALL)


def _tables() -> dict[str, Entry]:
    table = {}
    for name, operation in _named().items():
        having = _generations(name)
        table[f"global_atomic_{name}"] = Entry(_memory_atomic(operation, buffer=False), sections.FLAT, having)
        having = having - {Generation.CDNA3} if name == "pk_add_bf16" else having
        table[f"buffer_atomic_{name}"] = Entry(_memory_atomic(operation, buffer=True), sections.BUFFER, having)
    for name, operation in _shared_names().items():
        having, (stem, _, kind) = _shared_generations(name), name.rpartition("_")
        table[f"ds_{name}"] = Entry(_shared_atomic(operation, wanted=False), sections.LDS, having)
        table[f"ds_{stem}_rtn_{kind}"] = Entry(_shared_atomic(operation, wanted=True), sections.LDS, having)
    for bits, operations in ((32, _WORD), (64, _DOUBLE)):
        table[f"ds_wrxchg_rtn_b{bits}"] = Entry(_shared_atomic(operations["swap"], wanted=True), sections.LDS, CDNA)
        table[f"ds_storexchg_rtn_b{bits}"] = Entry(_shared_atomic(operations["swap"], wanted=True), sections.LDS, RDNA)
        for suffix, wanted in (("", False), ("_rtn", True)):
            build = _shared_atomic(operations["cmpswap"], wanted)
            table[f"ds_cmpst{suffix}_b{bits}"] = Entry(build, sections.LDS, CDNA)
            table[f"ds_cmpstore{suffix}_b{bits}"] = Entry(build, sections.LDS, RDNA)
    return table


TABLE: dict[str, Entry] = _tables()
"""Mnemonic → entry."""
