"""Loads and stores, and addresses.

Source: PTX ISA, "Data Movement and Conversion Instructions": ld, ld.global.nc, st, cvta, isspacep, prefetch,
applypriority, discard, createpolicy; "Cache Operators". The emulated memory has no caches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from portkit.emulate.core.bytestore import Words
from portkit.emulate.core.findings import Site
from portkit.emulate.core.memory import BASE
from portkit.emulate.ptx.decode import Decoder, Read, ReadOffsets, Step
from portkit.emulate.ptx.isa.control import nothing
from portkit.emulate.ptx.isa.registry import Entry
from portkit.emulate.ptx.machine import LOCAL_WINDOW, SHARED_WINDOW, Array, Machine, Strength
from portkit.emulate.ptx.program import Address, Operand, Space, Symbol
from portkit.emulate.ptx.types import RAW, Type, types_of

_MOVES = "Data Movement and Conversion Instructions"

WIDEST = 16
"""Bytes of one access of the memory; wider ones are made of several."""

HINTS = ("ca", "cg", "cs", "cv", "lu", "wb", "wt", "nc", "unified")
EVICTIONS = tuple(
    f"{cache}::{each}"
    for cache in ("L1", "L2")
    for each in ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")
)
PREFETCHES = ("L2::64B", "L2::128B", "L2::256B")
ORDERS = ("weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "seq_cst", "mmio")
SCOPES = ("cta", "cluster", "gpu", "sys")
SPACES = {
    "global": Space.GLOBAL,
    "shared": Space.SHARED,
    "shared::cta": Space.SHARED,
    "shared::cluster": Space.SHARED,
    "local": Space.LOCAL,
    "const": Space.GLOBAL,
    "param": Space.PARAMETER,
    "param::entry": Space.PARAMETER,
    "param::func": Space.LOCAL,
}
"""Suffix → space. Constants lie in global memory; a cluster has one block."""

VECTORS = {"v2": 2, "v4": 4, "v8": 8}


def space_of(decoder: Decoder) -> Space:
    """The space that an access names; generic where it names none."""
    name = decoder.one_of(*SPACES)
    return SPACES[name] if name else Space.GENERIC


def access_hints(decoder: Decoder) -> bool:
    """Let pass what changes no result on memory without caches; whether a policy is the last operand."""
    decoder.ignore(*HINTS, *ORDERS, *SCOPES, *EVICTIONS, *PREFETCHES)
    return decoder.has("L2::cache_hint")


def strength_of(decoder: Decoder) -> Strength | None:
    """What a load, store or atomic orders between blocks; None: it is a weak one."""
    names = {*decoder.instruction.modifiers}
    if not names & {*ORDERS[1:]}:
        return None
    wide = not names & {"cta", "cluster"}  # a cluster has one block
    both = {"acq_rel", "seq_cst"}
    return Strength(bool(wide and names & {"acquire", *both}), bool(wide and names & {"release", *both}))


def _location(decoder: Decoder, operand: Operand, space: Space) -> tuple[Space, ReadOffsets]:
    """Parameters of the kernel lie in memory, those of functions in each thread's own."""
    at = decoder.address(operand)
    if space is Space.PARAMETER and isinstance(operand, Address):
        if isinstance(operand.base, Symbol):
            return Space.LOCAL if decoder.space_of(operand.base) is Space.LOCAL else Space.GLOBAL, at
        return Space.GLOBAL, lambda machine: at(machine) | np.int64(BASE)
    return space, at


def load_words(
    machine: Machine, site: Site, space: Space, at: Array, size: int, strength: Strength | None = None
) -> Words:
    """A load of any width, checked: ``[selected threads, words]``."""
    if size <= WIDEST:
        return machine.load(site, space, at, size, strength=strength)
    machine.check_aligned(site, at, size, machine.selected)
    parts = [machine.load(site, space, at + start, WIDEST, strength=strength) for start in range(0, size, WIDEST)]
    return np.concatenate(parts, axis=1)


def store_words(
    machine: Machine, site: Site, space: Space, at: Array, size: int, words: Words, strength: Strength | None = None
) -> None:
    """A store of any width, checked."""
    if size <= WIDEST:
        machine.store(site, space, at, size, words, strength=strength)
        return
    machine.check_aligned(site, at, size, machine.selected)
    for start in range(0, size, WIDEST):
        part = np.ascontiguousarray(words[:, start // 4 : (start + WIDEST) // 4])
        machine.store(site, space, at + start, WIDEST, part, strength=strength)


def elements(words: Words, kind: Type, count: int) -> Array:
    """``[accesses, count]`` of the words of accesses."""
    if count == 1 and kind.bytes == 4:
        return words.view(kind.dtype)
    if kind.bytes * count < 4:
        words = words.astype(f"u{kind.bytes * count}")
    return np.ascontiguousarray(words).view(kind.dtype)


def words_of(values: Sequence[Array], kind: Type, count: int) -> Words:
    """``[accesses, words]`` of the values of each element."""
    raw = RAW[kind.bits].dtype
    if kind.bytes <= 4 and len(values) == 1 and values[0].ndim == 1:
        return values[0].view(raw).astype(np.uint32, copy=False)[:, None]
    if kind.bytes == 8 and len(values) == 1 and values[0].shape == (count,):
        return np.ascontiguousarray(values[0]).view(np.uint32).reshape(count, 2)
    table: Array = np.empty((count, len(values)), raw)
    for column, value in enumerate(values):
        table[:, column] = np.asarray(value).view(raw)
    size = kind.bytes * len(values)
    return table.view(np.uint32) if size >= 4 else table.view(f"u{size}").astype(np.uint32)


def _checked_count(decoder: Decoder, operand: Operand) -> int:
    vector = decoder.one_of(*VECTORS)
    count = VECTORS[vector] if vector else 1
    if len(decoder.items(operand)) != count:
        raise decoder.unsupported(f"{len(decoder.items(operand))} registers for a vector of {count}")
    return count


def _memory_type(decoder: Decoder) -> Type:
    kind = decoder.kind
    if kind is Type.B128:
        raise decoder.unsupported("accesses of .b128")
    return kind


def _load(decoder: Decoder) -> Step:
    strength, policy = strength_of(decoder), access_hints(decoder)
    decoder.need(3 if policy else 2)
    target, source, kind = decoder.operands[0], decoder.operands[1], _memory_type(decoder)
    space, at = _location(decoder, source, space_of(decoder))
    count = _checked_count(decoder, target)
    writes = [decoder.write(item, kind) for item in decoder.items(target)]
    if decoder.instruction.guard is None and _is_parameter(decoder, source, space):
        return _uniform_load(decoder, source, kind, writes)
    size, site = kind.bytes * count, decoder.site

    def step(machine: Machine) -> None:
        values = elements(load_words(machine, site, space, at(machine), size, strength), kind, count)
        for column, write in enumerate(writes):
            write(machine, values[:, column])

    return step


def _is_parameter(decoder: Decoder, source: Operand, space: Space) -> bool:
    """Whether a load reads one of the kernel's parameters by its name."""
    return (
        space is Space.GLOBAL
        and isinstance(source, Address)
        and isinstance(source.base, Symbol)
        and decoder.space_of(source.base) is Space.PARAMETER
    )


def _uniform_load(decoder: Decoder, source: Operand, kind: Type, writes: Sequence[Callable[..., None]]) -> Step:
    """Of a parameter: one value for all threads."""
    assert isinstance(source, Address)
    assert isinstance(source.base, Symbol)
    name = source.base.name
    (parameter,) = (item for item in decoder.program.parameters if item.name == name)
    start = parameter.offset + source.base.offset + source.offset
    size = kind.bytes * len(writes)
    if not parameter.offset <= start <= parameter.offset + parameter.size - size:
        at = start - parameter.offset
        raise decoder.unsupported(f"{size} bytes at {at} of parameter {name}, which has {parameter.size}")
    if start % size:
        raise decoder.unsupported(f"{size} bytes of parameter {name} at no multiple of {size}")

    def step(machine: Machine) -> None:
        for value, write in zip(np.frombuffer(machine.parameters, kind.dtype, len(writes), start), writes, strict=True):
            write(machine, value)

    return step


def _store(decoder: Decoder) -> Step:
    strength, policy = strength_of(decoder), access_hints(decoder)
    decoder.need(3 if policy else 2)
    target, source, kind = decoder.operands[0], decoder.operands[1], _memory_type(decoder)
    space, at = _location(decoder, target, space_of(decoder))
    count = _checked_count(decoder, source)
    reads = [decoder.read(item, RAW[kind.bits]) for item in decoder.items(source)]
    size, site = kind.bytes * count, decoder.site

    def step(machine: Machine) -> None:
        words = words_of([read(machine) for read in reads], kind, machine.count)
        store_words(machine, site, space, at(machine), size, words, strength)

    return step


# -- addresses

_WINDOWS = {Space.SHARED: SHARED_WINDOW, Space.LOCAL: LOCAL_WINDOW}


def _convert_address(decoder: Decoder) -> Step:
    """cvta: between the addresses of a space and generic ones.

    Of a parameter they differ in the upper half, which code of 32 bits leaves away.
    """
    decoder.need(2)
    back = decoder.has("to")
    space = space_of(decoder)
    kind = decoder.kind
    source = decoder.operands[1]
    named: Operand = source.base if isinstance(source, Address) else source
    read: Read = decoder.read(named, kind)
    write = decoder.write(decoder.operands[0], kind)
    window = _WINDOWS.get(space)
    if space is Space.PARAMETER and not back and kind is Type.U64:
        return lambda machine: write(machine, read(machine) | np.uint64(BASE))
    if window is None:
        return lambda machine: write(machine, read(machine))
    if kind.bits != Type.U64.bits:
        raise decoder.unsupported("32-bit generic addresses")
    shift = np.uint64(window)
    if back:
        return lambda machine: write(machine, read(machine) - shift)
    return lambda machine: write(machine, read(machine) + shift)


def _in_space(decoder: Decoder) -> Step:
    """Isspacep."""
    decoder.need(2)
    space = space_of(decoder)
    low, high = {
        Space.GLOBAL: (0, SHARED_WINDOW),
        Space.SHARED: (SHARED_WINDOW, LOCAL_WINDOW),
        Space.LOCAL: (LOCAL_WINDOW, 1 << 63),
    }[space]
    read, write = decoder.read(decoder.operands[1], Type.U64), decoder.write(decoder.operands[0], Type.PRED)

    def step(machine: Machine) -> None:
        address = read(machine)
        write(machine, (address >= np.uint64(low)) & (address < np.uint64(high)))

    return step


def _map_to_cluster(decoder: Decoder) -> Step:
    """mapa, in a cluster of one block."""
    decoder.need(3)
    space_of(decoder)
    kind = decoder.kind
    read, write = decoder.read(decoder.operands[1], kind), decoder.write(decoder.operands[0], kind)
    return lambda machine: write(machine, read(machine))


def _policy(decoder: Decoder) -> Step:
    """createpolicy: a word that hints name."""
    decoder.ignore("fractional", "range", "cvt", "L2", "global", *EVICTIONS)
    write = decoder.write(decoder.operands[0], Type.B64)
    return lambda machine: write(machine, np.uint64(0))


def _ignored(name: str) -> tuple[Entry, ...]:
    caches = nothing(*SPACES, "L1", "L2", "tensormap", *EVICTIONS)
    return (Entry(caches, f"{_MOVES}: {name}", changes=False),)


TABLE: dict[str, tuple[Entry, ...]] = {
    "ld": (Entry(_load, f"{_MOVES}: ld"),),
    "ldu": (Entry(_load, f"{_MOVES}: ldu"),),
    "st": (Entry(_store, f"{_MOVES}: st"),),
    "cvta": (Entry(_convert_address, f"{_MOVES}: cvta", types_of("u32 u64")),),
    "isspacep": (Entry(_in_space, f"{_MOVES}: isspacep"),),
    "mapa": (Entry(_map_to_cluster, f"{_MOVES}: mapa", types_of("u32 u64"), 90),),
    "createpolicy": (Entry(_policy, f"{_MOVES}: createpolicy", types_of("b64"), 80),),
    "prefetch": _ignored("prefetch"),
    "prefetchu": _ignored("prefetchu"),
    "applypriority": _ignored("applypriority"),
    "discard": _ignored("discard"),
}
