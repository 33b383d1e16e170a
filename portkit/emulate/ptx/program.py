"""A kernel as the text gives it: instructions, labels, registers, parameters and variables."""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from portkit.emulate.core.findings import Site
from portkit.emulate.ptx.architecture import Architecture
from portkit.emulate.ptx.types import Type


@dataclass(frozen=True, eq=False)
class Register:
    """A virtual register, one object for each. Registers of one width are numbered from 0 over the whole program."""

    name: str  # as written
    bits: int  # width, 1 for a predicate
    index: int


@dataclass(frozen=True)
class Immediate:
    """A constant as written."""

    text: str


@dataclass(frozen=True)
class Symbol:
    """The address of a variable or parameter, the name of a label or function, or a special register."""

    name: str
    offset: int = 0  # bytes


@dataclass(frozen=True)
class Sink:
    """``_``: a result that goes nowhere."""


@dataclass(frozen=True)
class Negated:
    """``!p`` or ``-x``."""

    operand: Register | Immediate


@dataclass(frozen=True)
class Vector:
    """``{a, b}``."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Pair:
    """``d|p``: two results."""

    first: Operand
    second: Operand


@dataclass(frozen=True)
class Address:
    """``[base+offset]``, with further operands within the brackets, such as coordinates of a tensor."""

    base: Operand
    offset: int = 0  # bytes
    more: tuple[Operand, ...] = ()


Operand: TypeAlias = Register | Immediate | Symbol | Sink | Negated | Vector | Pair | Address


@dataclass(frozen=True)
class Guard:
    """``@p`` or ``@!p``."""

    register: Register
    negated: bool


@dataclass(frozen=True)
class Instruction:
    """One instruction as written."""

    opcode: str  # up to the first dot
    modifiers: tuple[str, ...]  # what stands behind dots, in order
    operands: tuple[Operand, ...]
    guard: Guard | None
    site: Site
    index: int  # among those of the program

    @property
    def name(self) -> str:
        """Opcode and modifiers."""
        return ".".join((self.opcode, *self.modifiers))


class Space(enum.Enum):
    """State spaces."""

    GENERIC = "generic"
    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"
    CONSTANT = "const"
    PARAMETER = "param"


@dataclass(frozen=True)
class Parameter:
    """One parameter of the kernel."""

    name: str
    kind: Type | None  # None: an array of bytes
    offset: int  # bytes into the parameter space
    size: int  # bytes

    @property
    def pointer(self) -> bool:
        """Whether it has the width of an address."""
        return self.kind is not None and self.kind.bits == 64 and not self.kind.floating


@dataclass(frozen=True)
class Variable:
    """A variable, with its place in its space."""

    name: str
    space: Space
    offset: int  # bytes into the shared or local space; number of the variable for global and constant ones
    size: int  # bytes
    contents: bytes = b""  # that it begins with; short ones are followed by zeros


@dataclass(frozen=True)
class Function:
    """Code that ``call`` reaches."""

    name: str
    entry: int  # index of its first instruction
    parameters: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """One kernel, and the functions that it calls."""

    name: str
    architecture: Architecture
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]  # label → index of the instruction that follows
    tables: Mapping[str, tuple[str, ...]]  # label of a .branchtargets → labels
    registers: Mapping[int, int]  # width → how many
    parameters: tuple[Parameter, ...]
    variables: Mapping[str, Variable]
    functions: Mapping[str, Function]
    threads: int | None  # of a block, where the text says so
    shared_bytes: int  # of static shared memory
    local_bytes: int  # of a thread
    text: str = field(repr=False, default="")

    @functools.cached_property
    def targets(self) -> frozenset[int]:
        """Indices of instructions that a branch goes to."""
        named = {item.name for each in self.instructions for item in each.operands if isinstance(item, Symbol)}
        named.update(name for names in self.tables.values() for name in names)
        return frozenset(self.labels[name] for name in named if name in self.labels)

    @functools.cached_property
    def called(self) -> Mapping[str, frozenset[str]]:
        """Function → those of the text that it calls."""
        functions = sorted(self.functions.values(), key=lambda each: each.entry)
        ends = [*(each.entry for each in functions[1:]), len(self.instructions)]
        return {
            each.name: frozenset(
                operand.name
                for item in self.instructions[each.entry : end]
                for operand in item.operands
                if item.opcode == "call" and isinstance(operand, Symbol) and operand.name in self.functions
            )
            for each, end in zip(functions, ends, strict=True)
        }

    @property
    def parameter_bytes(self) -> int:
        """Size of the parameter space."""
        return max((item.offset + item.size for item in self.parameters), default=0)

    @property
    def global_variables(self) -> tuple[Variable, ...]:
        """Variables of the global and constant spaces, in the order of their numbers."""
        spaces = (Space.GLOBAL, Space.CONSTANT)
        found = [item for item in self.variables.values() if item.space in spaces]
        return tuple(sorted(found, key=lambda item: item.offset))
