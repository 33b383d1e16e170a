"""From operands as written to functions that read and write a machine's state.

``Decoder`` serves one instruction. It notes which registers the functions it hands out read and write, so
that every instruction's uses and definitions are known without being declared.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from portkit.emulate.amdgcn.lanes import LanePermutation
from portkit.emulate.amdgcn.machine import Array, Machine, Mask
from portkit.emulate.amdgcn.operands import (
    EXEC,
    NULL,
    File,
    Register,
    Type,
    constant,
    is_constant,
    parse_register,
)
from portkit.emulate.amdgcn.program import Instruction, Program
from portkit.emulate.core.findings import Unsupported
from portkit.emulate.core.floats import flush

Read: TypeAlias = Callable[[Machine], Array]
Write: TypeAlias = Callable[[Machine, Array], None]
ReadMask: TypeAlias = Callable[[Machine], Mask]
WriteMask: TypeAlias = Callable[[Machine, Mask], None]
Step: TypeAlias = Callable[[Machine], None]

_WORD = np.uint64(0xFFFF_FFFF)
_UP = np.uint64(32)

WIDEST = 32
"""Registers of the widest operand, that of matrices."""


@dataclass
class Uses:
    """Registers that an instruction reads and writes, by file and index."""

    reads: set[tuple[File, int]] = field(default_factory=set)
    writes: set[tuple[File, int]] = field(default_factory=set)
    halves: list[Uses] = field(default_factory=list)  # where two results have nothing to do with each other


@dataclass(frozen=True)
class Source:
    """An operand as written, taken apart."""

    text: str  # without modifiers
    negate: bool = False
    absolute: bool = False
    sign_extend: bool = False  # SDWA


@functools.cache
def take_apart(text: str) -> Source:
    """An operand with its sign and absolute-value marks: ``-|v1|``, ``neg(v1)``, ``sext(v1)``."""
    negate = absolute = extend = False
    if text.startswith("sext("):
        extend, text = True, text[5:-1]
    if not is_constant(text) and text.startswith("-"):
        negate, text = True, text[1:]
    elif text.startswith("neg("):
        negate, text = True, text[4:-1]
    if text.startswith("|"):
        absolute, text = True, text[1:-1]
    elif text.startswith("abs("):
        absolute, text = True, text[4:-1]
    return Source(text, negate, absolute, extend)


class Decoder:
    """Operands and modifiers of one instruction.

    Every modifier that an entry does not ask for is refused, so none is dropped in silence.
    """

    def __init__(self, program: Program, instruction: Instruction) -> None:
        self.program, self.instruction = program, instruction
        self.architecture, self.lanes = program.architecture, program.wave_size
        self.uses = Uses()
        self._taken: set[str] = set()

    # -- modifiers

    @property
    def operands(self) -> tuple[str, ...]:
        """As written."""
        return self.instruction.operands

    def need(self, *counts: int) -> None:
        """Refuse any other number of operands."""
        if len(self.operands) not in counts:
            raise self.unsupported(f"{len(self.operands)} operands")

    def unsupported(self, cause: str) -> Unsupported:
        """The error for this instruction."""
        return Unsupported(cause, self.instruction.site)

    def has(self, name: str) -> bool:
        """Whether a modifier is there."""
        self._taken.add(name)
        return name in self.instruction.modifiers

    def modifier(self, name: str, default: str = "") -> str:
        """Value of a modifier."""
        self._taken.add(name)
        return self.instruction.modifiers.get(name, default)

    def number(self, name: str, default: int = 0) -> int:
        """Numeric value of a modifier."""
        self._taken.add(name)
        return self.instruction.number(name, default)

    def flags(self, name: str, count: int, default: int = 0) -> tuple[int, ...]:
        """Value of a modifier such as ``op_sel:[0,1]``."""
        self._taken.add(name)
        return self.instruction.flags(name, count, default)

    def ignore(self, *names: str) -> None:
        """Modifiers that change no result: cache hints and the like."""
        self._taken.update(names)

    def finish(self) -> None:
        """Refuse modifiers that the entry did not ask for."""
        left = set(self.instruction.modifiers) - self._taken
        if left:
            raise self.unsupported(f"modifier {', '.join(sorted(left))} on {self.instruction.mnemonic}")

    # -- registers

    def register(self, text: str) -> Register:
        """The register that an operand names."""
        found = parse_register(text, self.program.directive("accum_offset", 256))
        if found is None or not 0 < found.count <= WIDEST:
            raise self.unsupported(f"operand {text}")
        return found

    def vector_register(self, text: str) -> Register:
        """The same, refused unless it is a vector register."""
        found = self.register(text)
        if found.file is not File.VECTOR:
            raise self.unsupported(f"operand {text} where a vector register is needed")
        return found

    def reading(self, register: Register, count: int | None = None) -> None:
        """Note that the instruction reads this register (``count`` consecutive ones)."""
        for offset in range(count or register.count):
            if register.index != NULL:
                self.uses.reads.add((register.file, register.index + offset))

    def writing(self, register: Register, count: int | None = None) -> None:
        """Note that the instruction writes this register."""
        for offset in range(count or register.count):
            if register.index != NULL:
                self.uses.writes.add((register.file, register.index + offset))

    @contextlib.contextmanager
    def half(self) -> Iterator[Uses]:
        """What is read in here makes one of two results; who writes which is the caller's to add."""
        whole, part = self.uses, Uses()
        self.uses = part
        yield part
        self.uses = whole
        whole.reads |= part.reads
        whole.halves.append(part)

    # -- scalar operands

    def scalar(self, text: str, kind: Type) -> Read:
        """A scalar source: ``[waves, 1]``, or a constant."""
        if is_constant(text):
            value = constant(text, kind)
            return lambda machine: value
        if text in {"scc", "src_scc"}:
            return lambda machine: machine.read_scc().astype(kind.dtype)
        register = self.register(text)
        if register.file is not File.SCALAR:
            raise self.unsupported(f"operand {text} where a scalar one is needed")
        return self.read_register(register, kind)

    def scalar_result(self, text: str, kind: Type) -> Write:
        """A scalar destination."""
        register = self.register(text)
        if register.file is not File.SCALAR:
            raise self.unsupported(f"operand {text} where a scalar register is needed")
        self.writing(register, max(1, kind.bits // 32))
        index = register.index
        if index == NULL:
            return lambda machine, value: None
        if kind.bits <= 32:
            return lambda machine, value: machine.write_scalar(index, value, kind)
        return lambda machine, value: _write_scalar_pair(machine, index, value)

    def mask(self, text: str) -> ReadMask:
        """A scalar register or pair as one bit a lane: ``[waves, lanes]``."""
        if is_constant(text):
            bits = int(constant(text, Type.U64))
            fixed = np.array([[bool(bits >> lane & 1) for lane in range(self.lanes)]])
            return lambda machine: fixed
        register = self.register(text)
        if register.file is not File.SCALAR or register.index == NULL:
            raise self.unsupported(f"operand {text} where a mask is needed")
        self.reading(register, self.lanes // 32)
        index = register.index
        if index == EXEC:
            return lambda machine: machine.active
        return lambda machine: machine.read_mask(index)

    def mask_result(self, text: str) -> WriteMask:
        """A mask destination; lanes that EXEC disables become 0."""
        register = self.register(text)
        if register.file is not File.SCALAR:
            raise self.unsupported(f"operand {text} where a mask is needed")
        index = register.index
        if index == NULL:
            return lambda machine, value: None
        self.writing(register, self.lanes // 32)
        return lambda machine, value: machine.write_mask(index, value & machine.active)

    @property
    def vcc(self) -> str:
        """VCC by the name that fits the wave size."""
        return "vcc" if self.lanes == 64 else "vcc_lo"

    # -- vector operands

    def vector(self, text: str, kind: Type, *, permutation: LanePermutation | None = None, select: str = "") -> Read:
        """A source of a vector instruction: broadcastable to ``[waves, lanes]``.

        Args:
            text: the operand as written, with its sign marks.
            kind: how its bits are read.
            permutation: DPP, applied to the bits.
            select: SDWA's selection, such as ``WORD_1``.
        """
        source = take_apart(text)
        if is_constant(source.text):
            return self._constant(source, kind, select)
        if source.text in {"scc", "src_scc"}:
            return lambda machine: machine.read_scc().astype(kind.dtype)
        register = self.register(source.text)
        if select and select != "DWORD":
            bits: Read = _selected(self.read_register(register, Type.U32), select, source.sign_extend, kind)
        elif permutation:
            bits = self._permuted(register, kind, permutation)
        else:
            bits = self.read_register(register, kind)
        return self._signed(bits, source, kind)

    def _constant(self, source: Source, kind: Type, select: str) -> Read:
        if select and select != "DWORD":
            raise self.unsupported(f"selection {select} of a constant")
        value = constant(source.text, kind)
        if source.absolute:
            value = np.abs(value)
        if source.negate:
            value = -value
        return lambda machine: value

    def _permuted(self, register: Register, kind: Type, permutation: LanePermutation) -> Read:
        if kind.bits != 32:
            raise self.unsupported(f"lane permutation of a {kind.bits}-bit operand")
        self.reading(register)
        index = register.index
        return lambda machine: permutation.apply(machine, machine.read_vector(index, kind))

    def read_register(self, register: Register, kind: Type) -> Read:
        """What a register holds: ``[waves, lanes]`` of a vector register, ``[waves, 1]`` of a scalar one."""
        self.reading(register, max(1, kind.bits // 32))
        index, vector = register.index, register.file is File.VECTOR
        if index == NULL:
            zero = kind.dtype.type(0)
            return lambda machine: zero
        if kind.bits == 32:
            if vector:
                return lambda machine: machine.read_vector(index, kind)
            return lambda machine: machine.read_scalar(index, kind)
        if kind.bits == 64:
            return _pair(index, kind, vector)
        return _half(index, kind, vector, register.half or 0)

    def _signed(self, read: Read, source: Source, kind: Type) -> Read:
        """The source with absolute value, negation and, where the kernel asks for it, flushed denormals."""
        steps: list[Callable[[Any], Any]] = []
        if (source.negate or source.absolute) and not kind.floating:
            raise self.unsupported(f"sign modifier on an integer operand {source.text}")
        if kind is Type.F32 and self.flushes32:
            steps.append(flush)
        if source.absolute:
            steps.append(_absolute_bits if kind is Type.B16 else np.abs)
        if source.negate:
            steps.append(_negate_bits if kind is Type.B16 else np.negative)
        return _chained(read, steps)

    @property
    def flushes32(self) -> bool:
        """Whether the instruction runs with float32 denormals flushed."""
        return self.instruction.flushes32

    def vector_result(self, text: str, kind: Type, high_half: bool = False) -> Write:
        """A destination of a vector instruction: the lanes that EXEC enables.

        16-bit results leave the other half of the register on RDNA, and clear it on CDNA.
        """
        register = self.vector_register(text)
        half = 1 if high_half else register.half
        self.writing(register, max(1, kind.bits // 32))
        index = register.index
        if kind.bits == 32:
            return lambda machine, value: machine.write_vector(index, value, kind)
        if kind.bits == 64:
            return lambda machine, value: _write_vector_pair(machine, index, value)
        keep = self.architecture.keeps_upper_half or half is not None
        if keep:
            self.reading(register, 1)
        return _write_half(index, half or 0, keep)

    def vector_indices(self, text: str, count: int, *, write: bool) -> int:
        """First of ``count`` consecutive vector registers that an instruction moves as words."""
        register = self.vector_register(text)
        if register.count != count:
            raise self.unsupported(f"operand {text} where {count} registers are needed")
        (self.writing if write else self.reading)(register)
        return register.index


def _chained(read: Read, steps: Sequence[Callable[[Any], Any]]) -> Read:
    if not steps:
        return read
    if len(steps) == 1:
        (only,) = steps
        return lambda machine: only(read(machine))

    def chain(machine: Machine) -> Array:
        value = read(machine)
        for step in steps:
            value = step(value)
        return value

    return chain


def _absolute_bits(bits: Array) -> Array:
    return np.asarray(bits & np.uint16(0x7FFF))


def _negate_bits(bits: Array) -> Array:
    return np.asarray(bits ^ np.uint16(0x8000))


def _pair(index: int, kind: Type, vector: bool) -> Read:
    def read(machine: Machine) -> Array:
        fetch = machine.read_vector if vector else machine.read_scalar
        return (fetch(index).astype(np.uint64) | (fetch(index + 1).astype(np.uint64) << _UP)).view(kind.dtype)

    return read


def _half(index: int, kind: Type, vector: bool, half: int) -> Read:
    def read(machine: Machine) -> Array:
        word = machine.read_vector(index) if vector else machine.read_scalar(index)
        shifted = word >> np.uint32(16) if half else word
        return shifted.astype(np.uint16).view(kind.dtype)

    return read


def _selected(read: Read, select: str, extend: bool, kind: Type) -> Read:
    """SDWA: one byte or word of the source, zero- or sign-extended."""
    bits = 16 if select.startswith("WORD") else 8
    down, mask, up = np.uint32(int(select[-1]) * bits), np.uint32((1 << bits) - 1), 32 - bits

    def selected(machine: Machine) -> Array:
        part = (read(machine) >> down) & mask
        if extend:
            part = ((part << np.uint32(up)).view(np.int32) >> np.int32(up)).view(np.uint32)
        return part.astype(np.uint16).view(kind.dtype) if kind.bits == 16 else part.view(kind.dtype)

    return selected


def _words(value: Array) -> tuple[Array, Array]:
    bits = np.asarray(value).view(np.uint64)
    return (bits & _WORD).astype(np.uint32), (bits >> _UP).astype(np.uint32)


def _write_scalar_pair(machine: Machine, index: int, value: Array) -> None:
    low, high = _words(value)
    machine.write_scalar(index, low)
    machine.write_scalar(index + 1, high)


def _write_vector_pair(machine: Machine, index: int, value: Array) -> None:
    low, high = _words(value)
    machine.write_vector(index, low)
    machine.write_vector(index + 1, high)


def _write_half(index: int, half: int, keep: bool) -> Write:
    kept = np.uint32(0x0000_FFFF if half else 0xFFFF_0000)

    def write(machine: Machine, value: Array) -> None:
        bits = np.asarray(value).view(np.uint16).astype(np.uint32)
        if half:
            bits = bits << np.uint32(16)
        if keep:
            bits = bits | (machine.read_vector(index) & kept)
        machine.write_vector(index, bits)

    return write
