"""What the lanes of a warp do together.

Source: PTX ISA, "Data Movement and Conversion Instructions": shfl.sync; "Parallel Synchronization and Communication
Instructions": vote.sync, match.sync, redux.sync, activemask, elect.sync.

Values are ``[warps, 32]``. Lanes that do not take part hold 0 there, and ``Machine.present`` says which do.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core import floats
from portkit.emulate.ptx.decode import Decoder, Read, Step, Write
from portkit.emulate.ptx.isa.floating import extreme
from portkit.emulate.ptx.isa.reductions import INTEGER
from portkit.emulate.ptx.isa.registry import Entry
from portkit.emulate.ptx.isa.rows import canonical
from portkit.emulate.ptx.machine import LANES, Array, Machine, bits_of
from portkit.emulate.ptx.program import Immediate, Sink
from portkit.emulate.ptx.types import Type, types_of

_MOVES = "Data Movement and Conversion Instructions"
_SYNC = "Parallel Synchronization and Communication Instructions"

_LANE: NDArray[np.int64] = np.arange(LANES, dtype=np.int64)


# -- shuffles


def shuffle_sources(mode: str, by: Array, limits: Array) -> tuple[Array, Array]:
    """Lane that each lane reads, and whether that is within its segment.

    Args:
        mode: up, down, bfly or idx.
        by: lane, or distance.
        limits: the third source: the segment in bits 8 to 12, the clamp in bits 0 to 4.
    """
    by, limits = np.asarray(by).astype(np.int64) & 31, np.asarray(limits).astype(np.int64)
    clamp, segment = limits & 31, limits >> 8 & 31
    last, first = (_LANE & segment) | (clamp & ~segment), _LANE & segment
    if mode == "up":
        source = _LANE - by
        inside = source >= last
    else:
        source = {"down": _LANE + by, "bfly": _LANE ^ by, "idx": first | (by & ~segment)}[mode]
        inside = source <= last
    return np.where(inside, source, _LANE), inside


def _for_others(machine: Machine, read: Read) -> Array:
    """``[warps, 32]`` of what each lane gives; of those that do not take part nobody knows what it is."""
    values = machine.by_warp(read(machine))
    return values if machine.whole else np.where(machine.present, values, np.uint32(machine.poison))


def _shuffle(decoder: Decoder) -> Step:
    decoder.need(5)
    mode = decoder.required("up", "down", "bfly", "idx")
    target, valid = decoder.both(decoder.operands[0])
    read, by, limits = (decoder.read(operand, Type.B32) for operand in decoder.operands[1:4])
    write = decoder.write(target, Type.B32)
    write_valid = None if isinstance(valid, Sink) else decoder.write(valid, Type.PRED)
    if all(isinstance(operand, Immediate) for operand in decoder.operands[2:4]):
        distance, limit = (int(operand.text, 0) for operand in decoder.operands[2:4] if isinstance(operand, Immediate))
        fixed = shuffle_sources(mode, np.asarray(distance), np.asarray(limit))
        return _shuffle_fixed(read, write, write_valid, *fixed)

    def step(machine: Machine) -> None:
        values = _for_others(machine, read)
        distance, limit = by(machine), limits(machine)
        if np.ndim(distance):
            distance = machine.by_warp(distance)
        if np.ndim(limit):
            limit = machine.by_warp(limit)
        source, inside = shuffle_sources(mode, distance, limit)
        if source.ndim == 1:
            moved = values[:, source]
        else:
            moved = np.take_along_axis(values, np.broadcast_to(source, values.shape), 1)
        write(machine, machine.by_thread(moved))
        if write_valid:
            write_valid(machine, machine.by_thread(np.broadcast_to(inside, values.shape)))

    return step


def _shuffle_fixed(read: Read, write: Write, write_valid: Write | None, source: Array, inside: Array) -> Step:
    """By constants, so that the lanes are the same in every warp."""

    def step(machine: Machine) -> None:
        moved = _for_others(machine, read).take(source, axis=1)
        write(machine, machine.by_thread(moved))
        if write_valid:
            write_valid(machine, machine.by_thread(np.broadcast_to(inside, moved.shape)))

    return step


# -- votes


def _uniform(values: Array, present: Array) -> Array:
    return np.asarray(values.all(axis=1, where=present) | ~values.any(axis=1, where=present))


_VOTES: dict[str, Callable[[Array, Array], Array]] = {
    "all": lambda values, present: values.all(axis=1, where=present),
    "any": lambda values, present: values.any(axis=1, where=present),
    "uni": _uniform,
}


def _vote(decoder: Decoder) -> Step:
    decoder.need(3)
    mode = decoder.required(*_VOTES, "ballot")
    source = decoder.operands[1]
    predicate = decoder.predicate(source)
    kind = Type.B32 if mode == "ballot" else Type.PRED
    write = decoder.write(decoder.operands[0], kind)

    def step(machine: Machine) -> None:
        values, present = machine.by_warp(predicate(machine)), machine.present
        found = bits_of(values & present) if mode == "ballot" else _VOTES[mode](values, present)
        write(machine, machine.by_thread(found[:, None]))

    return step


def _match(decoder: Decoder) -> Step:
    """match.sync: lanes that hold the same value."""
    decoder.need(3)
    everyone, kind = "all" in decoder.instruction.modifiers, decoder.kind
    target, same = decoder.both(decoder.operands[0])
    read = decoder.read(decoder.operands[1], kind)
    write, write_same = decoder.write(target, Type.B32), decoder.write(same, Type.PRED)

    def step(machine: Machine) -> None:
        values, present = machine.by_warp(read(machine)), machine.present
        equal = (values[:, :, None] == values[:, None, :]) & present[:, None, :]
        if everyone:
            all_alike = (equal | ~present[:, None, :]).all(axis=2).all(axis=1, where=present)
            words = np.where(all_alike, bits_of(present), np.uint32(0))[:, None]
            write_same(machine, machine.by_thread(all_alike[:, None]))
        else:
            words = np.packbits(equal, axis=2, bitorder="little").view(np.uint32)[:, :, 0]
        write(machine, machine.by_thread(words))

    return step


_IDENTITIES: dict[str, Callable[[Type], int]] = {
    "add": lambda kind: 0,
    "or": lambda kind: 0,
    "xor": lambda kind: 0,
    "and": lambda kind: -1,
    "min": lambda kind: int(np.iinfo(kind.dtype).max),
    "max": lambda kind: int(np.iinfo(kind.dtype).min),
}


def _reduce(decoder: Decoder) -> Step:
    """redux.sync: one result of a whole warp."""
    decoder.need(3)
    operation, kind = decoder.required(*INTEGER), decoder.kind
    if kind is Type.F32:
        return _reduce_floats(decoder, operation)
    function = INTEGER[operation]
    identity = np.array(_IDENTITIES[operation](kind) & 0xFFFF_FFFF, np.uint32).view(kind.dtype)
    read, write = decoder.read(decoder.operands[1], kind), decoder.write(decoder.operands[0], kind)

    def step(machine: Machine) -> None:
        values = np.where(machine.present, machine.by_warp(read(machine)), identity)
        result = function.reduce(values, axis=1, dtype=kind.dtype)
        write(machine, machine.by_thread(result[:, None]))

    return step


def _reduce_floats(decoder: Decoder, operation: str) -> Step:
    """Extremes of float32; with .NaN, of a NaN it is NaN."""
    decoder.since(100, "redux.sync of float32")
    if operation not in {"min", "max"}:
        raise decoder.unsupported(f"redux.{operation}.f32")
    quiet, sizes = not decoder.has("NaN"), decoder.has("abs")
    function = extreme({"min": floats.minimum, "max": floats.maximum}[operation], quiet)
    identity = np.float32(np.nan) if quiet else np.float32(np.inf if operation == "min" else -np.inf)
    read, write = decoder.read(decoder.operands[1], Type.F32), decoder.write(decoder.operands[0], Type.F32)

    def step(machine: Machine) -> None:
        given = machine.by_warp(read(machine))
        values = np.where(machine.present, np.abs(given) if sizes else given, identity)
        write(machine, machine.by_thread(canonical(_folded(function, values))))

    return step


def _folded(function: Callable[[Array, Array], Array], values: Array) -> Array:
    """One result a warp, ``[warps, 1]``: of both halves of what is left, until one is."""
    while (half := values.shape[1] // 2) > 0:
        values = function(values[:, :half], values[:, half:])
    return values


def _active(decoder: Decoder) -> Step:
    """activemask: the lanes that run it together."""
    decoder.need(1)
    write = decoder.write(decoder.operands[0], Type.B32)
    return lambda machine: write(machine, machine.by_thread(bits_of(machine.present)[:, None]))


def _elect(decoder: Decoder) -> Step:
    """elect.sync: the first lane."""
    decoder.need(2)
    lane, chosen = decoder.both(decoder.operands[0])
    write, write_chosen = decoder.write(lane, Type.B32), decoder.write(chosen, Type.PRED)

    def step(machine: Machine) -> None:
        if machine.whole:
            write(machine, np.asarray(np.uint32(0)))
            write_chosen(machine, machine.selected % LANES == 0)
            return
        first = np.argmax(machine.present, axis=1)[:, None]
        write(machine, machine.by_thread(first.astype(np.uint32)))
        write_chosen(machine, machine.by_thread(_LANE[None, :] == first))

    return step


def _together(
    build: Callable[[Decoder], Step], section: str, types: str, *, since: int = 0, masked: bool = True
) -> tuple[Entry, ...]:
    return (Entry(build, section, types_of(types), since, collective=True, masked=masked),)


TABLE: dict[str, tuple[Entry, ...]] = {
    "shfl.sync": _together(_shuffle, f"{_MOVES}: shfl.sync", "b32"),
    "vote.sync": _together(_vote, f"{_SYNC}: vote.sync", "pred b32"),
    "match.any.sync": _together(_match, f"{_SYNC}: match.sync", "b32 b64", since=70),
    "match.all.sync": _together(_match, f"{_SYNC}: match.sync", "b32 b64", since=70),
    "redux.sync": _together(_reduce, f"{_SYNC}: redux.sync", "u32 s32 b32 f32", since=80),
    "elect.sync": _together(_elect, f"{_SYNC}: elect.sync", "", since=90),
    "activemask": (Entry(_active, f"{_SYNC}: activemask", types_of("b32")),),
}
