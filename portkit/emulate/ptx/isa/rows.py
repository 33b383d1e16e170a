"""Instructions that compute one result a thread from their operands and nothing else: builder and table rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from portkit.emulate.core.vectors import Approximation
from portkit.emulate.ptx.decode import Decoder, Read, Step, Write
from portkit.emulate.ptx.isa.registry import Entry
from portkit.emulate.ptx.machine import Array, Machine
from portkit.emulate.ptx.program import Operand, Register
from portkit.emulate.ptx.types import Type, types_of

Function: TypeAlias = Callable[..., Any]
CANONICAL_NAN: np.float32 = np.uint32(0x7FFFFFFF).view(np.float32)
"""What every float32 result that is no number is, whatever its operands. Source: PTX ISA, "Floating Point
Instructions"."""


def canonical(result: Any) -> Any:
    """A float32 result whose NaNs have the device's bits.

    A sum is NaN where an element is, and costs less than a look at each.
    """
    result = np.asarray(result)
    if np.isnan(np.add.reduce(result, axis=None)):
        return np.where(np.isnan(result), CANONICAL_NAN, result)
    return result


def saturated(x: Array) -> Array:
    """Of .sat: from 0 to 1; NaN and -0 become 0, as on an H200."""
    x = np.asarray(x)
    return np.where(x > 0, np.minimum(x, x.dtype.type(1)), x.dtype.type(0))


def relu(x: Array) -> Array:
    """Of .relu: 0 for what is not above it, but NaN stays. NumPy's own maximum of -0 and 0 may be either."""
    x = np.asarray(x)
    return np.where((x > 0) | np.isnan(x), x, x.dtype.type(0))


Choose: TypeAlias = Callable[[Decoder], Function]
"""The function of an instruction, by its modifiers."""


def row(
    choose: Choose,
    types: str,
    section: str,
    *,
    sources: int,
    since: int = 0,
    approximation: Approximation | None = None,
) -> Entry:
    """A row whose sources and result have the instruction's one type.

    Args:
        choose: gives the function of the sources.
        types: suffixes for which the row holds.
        section: of the document.
        sources: how many.
        since: compute capability × 10.
        approximation: of the result.
    """

    def build(decoder: Decoder) -> Step:
        if len(decoder.kinds) != 1:
            raise decoder.unsupported(f"{len(decoder.kinds)} types")
        decoder.need(sources + 1)
        return computed(decoder, choose(decoder), decoder.kind, [decoder.kind] * sources)

    return Entry(build, section, types_of(types), since, approximation)


def plain(function: Function) -> Choose:
    """For instructions without modifiers."""
    return lambda decoder: function


def computed(decoder: Decoder, function: Function, result: Type, sources: Sequence[Type]) -> Step:
    """The step of ``operands[0] = function(operands[1], …)``."""
    operands = decoder.operands
    reads = [decoder.read(operand, kind) for operand, kind in zip(operands[1:], sources, strict=True)]
    return result_step(decoder, operands[0], function, result, reads)


def result_step(decoder: Decoder, target: Operand, function: Function, kind: Type, reads: Sequence[Read]) -> Step:
    """The step that writes what a function makes of its sources."""
    write = decoder.write(target, kind)
    if isinstance(function, np.ufunc) and isinstance(target, Register) and target.bits == kind.bits:
        place = decoder.place(target, kind)
        return _in_place(place, write, function, kind, reads) if place else _copied(write, function, kind, reads)
    if len(reads) == 1:
        (only,) = reads
        return lambda machine: write(machine, function(only(machine)))
    if len(reads) == 2:
        left, right = reads
        return lambda machine: write(machine, function(left(machine), right(machine)))
    return lambda machine: write(machine, function(*[read(machine) for read in reads]))


def _in_place(
    place: Callable[[Machine], Array], write: Write, function: Function, kind: Type, reads: Sequence[Read]
) -> Step:
    """NumPy writes the register itself where all threads are selected."""
    checked, copied = kind is Type.F32, _copied(write, function, kind, reads)

    def step(machine: Machine) -> None:
        if not machine.all:
            copied(machine)
            return
        target = place(machine)
        function(*[read(machine) for read in reads], out=target)
        if checked and np.isnan(np.add.reduce(target, axis=None)):
            target[np.isnan(target)] = CANONICAL_NAN

    return step


def _copied(write: Write, function: Function, kind: Type, reads: Sequence[Read]) -> Step:
    last = canonical if kind is Type.F32 else np.asarray
    return lambda machine: write(machine, last(function(*[read(machine) for read in reads])))
