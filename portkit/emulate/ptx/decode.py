"""From operands as written to functions that read and write a machine's state.

``Decoder`` serves one instruction. It notes which registers the functions it hands out read and write, so that
every instruction's uses and definitions are known without being declared, and which modifiers were asked for, so
that none is dropped in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from portkit.emulate.core.bytestore import Offsets
from portkit.emulate.core.findings import Site, Unsupported
from portkit.emulate.ptx.architecture import Architecture
from portkit.emulate.ptx.machine import Array, Machine, Mask
from portkit.emulate.ptx.operands import constant
from portkit.emulate.ptx.program import (
    Address,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Pair,
    Program,
    Register,
    Sink,
    Space,
    Symbol,
    Vector,
)
from portkit.emulate.ptx.special import SPECIAL
from portkit.emulate.ptx.types import RAW, TYPES, Type

Read: TypeAlias = Callable[[Machine], Array]
"""``[selected threads]``, or one value for all."""
Write: TypeAlias = Callable[[Machine, Array], None]
ReadOffsets: TypeAlias = Callable[[Machine], Offsets]
Step: TypeAlias = Callable[[Machine], None]


@dataclass
class Uses:
    """Registers that an instruction reads and writes."""

    reads: set[Register] = field(default_factory=set)
    writes: set[Register] = field(default_factory=set)


class Decoder:
    """Operands and modifiers of one instruction."""

    def __init__(self, program: Program, instruction: Instruction) -> None:
        self.program, self.instruction = program, instruction
        self.uses = Uses()
        self._left = list(instruction.modifiers)
        self._kinds = tuple(TYPES[name] for name in instruction.modifiers if name in TYPES)
        self._kinds_asked = 0

    # -- the instruction

    @property
    def operands(self) -> tuple[Operand, ...]:
        """As written."""
        return self.instruction.operands

    @property
    def site(self) -> Site:
        """Where it stands."""
        return self.instruction.site

    @property
    def architecture(self) -> Architecture:
        """That the text is for."""
        return self.program.architecture

    def unsupported(self, cause: str) -> Unsupported:
        """The error for this instruction."""
        return Unsupported(cause, self.site)

    def need(self, *counts: int) -> None:
        """Refuse any other number of operands."""
        if len(self.operands) not in counts:
            raise self.unsupported(f"{len(self.operands)} operands")

    def since(self, number: int, what: str) -> None:
        """Refuse what an architecture does not have."""
        if self.architecture.number < number:
            raise self.unsupported(f"{self.architecture.name} has no {what}")

    # -- modifiers

    def has(self, *names: str) -> bool:
        """Whether one of these modifiers is there."""
        return self.one_of(*names) is not None

    def one_of(self, *names: str) -> str | None:
        """That of these modifiers that is there; None: none is."""
        for name in names:
            if name in self._left:
                self._left.remove(name)
                return name
        return None

    def required(self, *names: str) -> str:
        """As ``one_of``, refused where none is there."""
        found = self.one_of(*names)
        if found is None:
            raise self.unsupported(f"none of .{', .'.join(names)}")
        return found

    def ignore(self, *names: str) -> None:
        """Let modifiers be there that change no result, such as hints for caches."""
        self._left = [name for name in self._left if name not in names]

    def ignore_matching(self, matches: Callable[[str], object]) -> None:
        """As ``ignore``, by a test of the name."""
        self._left = [name for name in self._left if not matches(name)]

    def finish(self) -> None:
        """Refuse modifiers, and types, that nobody asked for.

        Raises:
            Unsupported: there is one.
        """
        left = [name for name in self._left if name not in TYPES]
        if left:
            raise self.unsupported(f"modifier .{left[0]} of {self.instruction.opcode}")
        types = [name for name in self._left if name in TYPES]
        if len(types) > self._kinds_asked:
            raise self.unsupported(f"type .{types[0]} of {self.instruction.opcode}")

    @property
    def kinds(self) -> tuple[Type, ...]:
        """All types in the name; who asks for them answers for how many there are."""
        self._kinds_asked = len(self._kinds)
        return self._kinds

    def chosen_by_type(self) -> None:
        """The last type has been asked for by who chose the row."""
        self._kinds_asked = max(self._kinds_asked, 1)

    @property
    def kind(self) -> Type:
        """The last type in the name."""
        if not self._kinds:
            raise self.unsupported("no type")
        self.chosen_by_type()
        return self._kinds[-1]

    # -- sources

    def read(self, operand: Operand, kind: Type) -> Read:
        """A source: ``[selected threads]`` of the type, or one value."""
        if isinstance(operand, Register):
            return self._register(operand, kind)
        if isinstance(operand, Immediate):
            value = self.constant(operand, kind)
            return lambda machine: value
        if isinstance(operand, Negated) and isinstance(operand.operand, Immediate):
            value = self.constant(operand.operand, kind, "-")
            return lambda machine: value
        if isinstance(operand, Symbol):
            return self._symbol(operand, kind)
        if isinstance(operand, Vector):
            return self.packed(operand, kind)
        raise self.unsupported(f"operand {operand}")

    def constant(self, operand: Immediate, kind: Type, sign: str = "") -> Any:
        """The value of a constant."""
        return self.constant_of(sign + operand.text, kind)

    def constant_of(self, text: str, kind: Type) -> Any:
        """The value of a constant as written."""
        try:
            return constant(text, kind)
        except Unsupported as error:
            raise self.unsupported(error.cause) from None

    def _register(self, register: Register, kind: Type) -> Read:
        self.uses.reads.add(register)
        if register.bits == kind.bits:
            return self.fetch(register, kind)
        if register.bits < kind.bits or kind is Type.PRED or register.bits == 1:
            raise self.unsupported(f"{register.name} of {register.bits} bits where .{kind.suffix} is needed")
        whole, part = self.fetch(register, RAW[register.bits]), RAW[kind.bits].dtype
        return lambda machine: whole(machine).astype(part).view(kind.dtype)

    def fetch(self, register: Register, kind: Type) -> Read:
        """A register, as a type of its width."""
        index = register.index
        return lambda machine: machine.read(kind, index)

    def put(self, register: Register, kind: Type) -> Write:
        """Writes a register, from a type of its width."""
        index = register.index
        return lambda machine, value: machine.write(kind, index, value)

    def place(self, register: Register, kind: Type) -> Callable[[Machine], Array] | None:
        """The register itself, of all threads; None where it can't be had without a copy."""
        index = register.index
        return lambda machine: machine.rows[kind][index]

    def _symbol(self, symbol: Symbol, kind: Type) -> Read:
        name = symbol.name.removeprefix("%")
        if symbol.name.startswith("%"):
            special = SPECIAL.get(name)
            if special is None:
                raise self.unsupported(f"special register %{name}")
            dtype = kind.dtype
            return lambda machine: special(machine).astype(dtype, copy=False)
        if symbol.name == "WARP_SZ":
            return lambda machine: kind.dtype.type(32)
        address, mask = self.symbol_address(symbol), (1 << kind.bits) - 1
        if kind.bits < Type.U64.bits and self.space_of(symbol) in {Space.GLOBAL, Space.CONSTANT}:
            raise self.unsupported(f"{kind.bits} bits for the address of {symbol.name}")
        return lambda machine: kind.dtype.type(address(machine) & mask)

    def symbol_address(self, symbol: Symbol) -> Callable[[Machine], int]:
        """Address of a variable in its space, or of a parameter in memory."""
        variable = self.program.variables.get(symbol.name)
        offset = symbol.offset
        if variable is not None and variable.space in {Space.SHARED, Space.LOCAL}:
            place = variable.offset + offset
            return lambda machine: place
        if variable is None and all(item.name != symbol.name for item in self.program.parameters):
            raise self.unsupported(f"name {symbol.name} is not declared")
        return lambda machine: machine.addresses[symbol.name] + offset

    def space_of(self, symbol: Symbol) -> Space:
        """Where what a name stands for lies."""
        variable = self.program.variables.get(symbol.name)
        return Space.PARAMETER if variable is None else variable.space

    def packed(self, vector: Vector, kind: Type) -> Read:
        """``{a, b}`` as one value, ``a`` in the low bits."""
        self._splittable(vector, kind)
        part = RAW[kind.bits // len(vector.items)]
        reads = [self.read(item, part) for item in vector.items]
        wide = RAW[kind.bits].dtype.type

        def read(machine: Machine) -> Array:
            result = np.asarray(reads[0](machine)).astype(wide)
            for number, each in enumerate(reads[1:], 1):
                result = result | (np.asarray(each(machine)).astype(wide) << wide(number * part.bits))
            return np.asarray(result).view(kind.dtype)

        return read

    def guard(self) -> Callable[[Machine], Mask]:
        """``[selected threads]``: whether each runs the instruction; the instruction must have a guard."""
        guard = self.instruction.guard
        if guard is None:
            raise self.unsupported("no guard")
        self.uses.reads.add(guard.register)
        index = guard.register.index
        if guard.negated:
            return lambda machine: ~machine.read(Type.PRED, index)
        return lambda machine: machine.read(Type.PRED, index)

    def predicate(self, operand: Operand) -> Callable[[Machine], Mask]:
        """A predicate source, negated or not."""
        if isinstance(operand, Negated):
            inner = self.read(operand.operand, Type.PRED)
            return lambda machine: ~inner(machine)
        return self.read(operand, Type.PRED)

    def address(self, operand: Operand) -> ReadOffsets:
        """``[base+offset]`` as ``int64[selected threads]``."""
        if not isinstance(operand, Address):
            raise self.unsupported("an address is needed")
        offset = np.int64(operand.offset)
        base = operand.base
        if isinstance(base, Register):
            wide = RAW[base.bits]
            row = self._register(base, wide)
            if not offset:
                return lambda machine: row(machine).astype(np.int64)
            if wide is Type.B32:  # addresses of 32 bits wrap, as an H200's do
                small = np.uint32(operand.offset & 0xFFFF_FFFF)
                return lambda machine: (row(machine) + small).astype(np.int64)
            return lambda machine: row(machine).astype(np.int64) + offset
        if isinstance(base, Symbol):
            symbol = self.symbol_address(base)
            return lambda machine: np.full(machine.count, symbol(machine), np.int64) + offset
        if isinstance(base, Immediate):
            fixed = np.int64(int(base.text, 0)) + offset
            return lambda machine: np.full(machine.count, fixed, np.int64)
        raise self.unsupported(f"address {base}")

    # -- results

    def write(self, operand: Operand, kind: Type) -> Write:
        """A destination; narrower types widen to the register, by their sign if they have one."""
        if isinstance(operand, Sink):
            return lambda machine, value: None
        if isinstance(operand, Vector):
            return self._unpacked(operand, kind)
        if not isinstance(operand, Register):
            raise self.unsupported(f"destination {operand}")
        self.uses.writes.add(operand)
        if operand.bits == kind.bits:
            return self.put(operand, kind)
        if operand.bits < kind.bits or kind is Type.PRED or operand.bits == 1:
            raise self.unsupported(f"{operand.name} of {operand.bits} bits for a .{kind.suffix}")
        raw = RAW[operand.bits]
        put = self.put(operand, raw)
        wide = np.dtype(f"i{raw.bytes}") if kind.signed else raw.dtype
        narrow = kind.dtype if kind.signed else RAW[kind.bits].dtype

        def write(machine: Machine, value: Array) -> None:
            put(machine, np.asarray(value, kind.dtype).view(narrow).astype(wide).view(raw.dtype))

        return write

    def _splittable(self, vector: Vector, kind: Type) -> None:
        """Refuse what no integer of NumPy holds, and parts that have no width."""
        if kind.bits > Type.B64.bits or kind.bits // max(1, len(vector.items)) not in RAW:
            raise self.unsupported(f"{len(vector.items)} parts of a .{kind.suffix}")

    def _unpacked(self, vector: Vector, kind: Type) -> Write:
        self._splittable(vector, kind)
        part = RAW[kind.bits // len(vector.items)]
        writes = [self.write(item, part) for item in vector.items]
        whole = RAW[kind.bits].dtype.type

        def write(machine: Machine, value: Array) -> None:
            bits = np.asarray(value).view(whole)
            for number, each in enumerate(writes):
                each(machine, (bits >> whole(number * part.bits)).astype(part.dtype))

        return write

    def items(self, operand: Operand) -> tuple[Operand, ...]:
        """Of a vector; anything else is its only item."""
        return operand.items if isinstance(operand, Vector) else (operand,)

    def both(self, operand: Operand) -> tuple[Operand, Operand]:
        """``d|p``; what has one part has no second."""
        return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, Sink())


def all_reads(decoder: Decoder, operands: Sequence[Operand], kind: Type) -> list[Read]:
    """Sources of one type."""
    return [decoder.read(operand, kind) for operand in operands]
