"""Lets instructions of one kind that do not depend on each other run as one.

Triton unrolls what a thread does for its elements, so most instructions stand there many times, with other registers.
NumPy takes about as long to begin an operation as for a thousand numbers, so a block's instructions are put in another
order, that of a list scheduler: what accesses memory, waits or has other effects stays in its order, and what only
computes registers from registers runs with its like as soon as all they need is there. Loads, or stores, that then
follow each other run as one. Every value, finding and count
stays the same: such an instruction can't fail, and nobody sees when it runs.
"""

from __future__ import annotations

import functools
import heapq
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from portkit.emulate.core.findings import Unsupported
from portkit.emulate.ptx.decode import Decoder, Read, Step, Uses, Write
from portkit.emulate.ptx.isa.families import FAMILIES
from portkit.emulate.ptx.isa.joint import Joint, Roots, joins, rows_of
from portkit.emulate.ptx.isa.lookup import build_step, compile_instruction, row_name
from portkit.emulate.ptx.isa.registry import Compiled, Entry
from portkit.emulate.ptx.machine import Array, Machine
from portkit.emulate.ptx.program import (
    Address,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Pair,
    Program,
    Register,
    Symbol,
    Vector,
)
from portkit.emulate.ptx.types import Type

MOST = 16
"""Instructions that run as one: enough for the cost of a start, and few enough for their values to stay in a cache."""

_COMPUTING = ("integer", "logic, moves and selection", "floating point", "halves and pairs", "comparison", "conversion")
"""Families whose instructions compute each thread's result from its operands, whatever the shape of the arrays."""

_APART = frozenset({"addc", "subc", "madc", "dp4a", "dp2a", "lop3"})
"""Those of them that keep a carry, take words apart, or are told by a constant what to compute."""


@functools.cache
def _names() -> frozenset[str]:
    return frozenset(name for family in _COMPUTING for name in FAMILIES[family]) - _APART


class Several(Decoder):
    """Operands of several instructions that differ in their registers and constants: values have a row for each.

    Args:
        program: the kernel.
        instructions: of one ``key_of``.
    """

    def __init__(self, program: Program, instructions: Sequence[Instruction]) -> None:
        super().__init__(program, instructions[0])
        self._registers: dict[Register, list[int]] = {}
        self._constants: dict[int, list[str]] = {}
        for operands in zip(*(each.operands for each in instructions), strict=True):
            self._gather(operands)

    def _gather(self, operands: Sequence[Operand]) -> None:
        """Note what stands at one place of all instructions."""
        first = operands[0]
        if isinstance(first, Register):
            self._registers[first] = [each.index for each in operands if isinstance(each, Register)]
        elif isinstance(first, Immediate):
            self._constants[id(first)] = [each.text for each in operands if isinstance(each, Immediate)]
        else:
            for parts in zip(*map(_parts, operands), strict=True):
                self._gather(parts)

    def constant(self, operand: Immediate, kind: Type, sign: str = "") -> Array:
        """One value for all instructions, or a column with one for each."""
        texts = [sign + text for text in self._constants[id(operand)]]
        values = [self.constant_of(text, kind) for text in texts]
        return values[0] if len(set(texts)) == 1 else np.array(values, kind.dtype)[:, None]

    def fetch(self, register: Register, kind: Type) -> Read:
        """``[instructions, selected threads]``, or one row where all read the same register."""
        rows = rows_of(self._registers[register], reading=True)
        return lambda machine: machine.read_all(kind, rows)

    def put(self, register: Register, kind: Type) -> Write:
        """As ``fetch``, for results."""
        rows = rows_of(self._registers[register])
        return lambda machine, value: machine.write_all(kind, rows, value)

    def place(self, register: Register, kind: Type) -> Callable[[Machine], Array] | None:
        """Registers themselves where they lie evenly, of all threads."""
        rows = rows_of(self._registers[register])
        return (lambda machine: machine.rows.whole(kind)[rows]) if isinstance(rows, slice) else None


def _parts(operand: Operand) -> tuple[Operand, ...]:
    """Operands within one."""
    if isinstance(operand, Vector):
        return operand.items
    if isinstance(operand, Pair):
        return (operand.first, operand.second)
    return (operand.operand,) if isinstance(operand, Negated) else ()


def _key_of(instruction: Instruction) -> tuple[Hashable | None, tuple[Register, ...]]:
    """What instructions that may run as one have in common, and the registers that they differ in; None: it runs alone.

    Their names are equal, and the forms of their operands; a register that stands at two places does so in all.
    """
    if instruction.guard or row_name(instruction) not in _names() or "cc" in instruction.modifiers:
        return None, ()
    seen: dict[Register, int] = {}
    forms = tuple(_form(operand, seen) for operand in instruction.operands)
    key = None if None in forms else (instruction.opcode, instruction.modifiers, forms)
    return key, tuple(seen)


def _form(operand: Operand, seen: dict[Register, int]) -> Hashable | None:
    if isinstance(operand, Register):
        return operand.bits, seen.setdefault(operand, len(seen))
    if isinstance(operand, Address | Symbol):
        return None
    forms = tuple(_form(part, seen) for part in _parts(operand))
    return None if None in forms else (type(operand), forms)


# -- steps


class _Later:
    """The step of an instruction like another one that has been compiled; made when it is asked for."""

    def __init__(self, program: Program, entry: Entry, instruction: Instruction) -> None:
        self._of = program, entry, instruction

    @functools.cached_property
    def step(self) -> Step:
        """The step.

        Raises:
            Unsupported: a constant has a form that is not known.
        """
        program, entry, instruction = self._of
        return build_step(entry, Decoder(program, instruction))

    def __call__(self, machine: Machine) -> None:
        """Run it."""
        self.step(machine)


def compile_all(program: Program) -> tuple[Compiled, ...]:
    """Every instruction of a program. Of those that may run as one, the first is looked at, and tells of the others.

    Raises:
        Unsupported: an instruction is not modelled.
    """
    firsts: dict[Hashable, tuple[Compiled, tuple[Register, ...]]] = {}
    return tuple(_compiled(program, item, firsts) for item in program.instructions)


def _compiled(
    program: Program, instruction: Instruction, firsts: dict[Hashable, tuple[Compiled, tuple[Register, ...]]]
) -> Compiled:
    key, registers = _key_of(instruction)
    if key is None or key not in firsts:
        made = replace(compile_instruction(program, instruction), key=key)
        firsts[key] = made, registers
        return made
    like, its = firsts[key]
    own = dict(zip(its, registers, strict=True))
    uses = Uses({own[each] for each in like.uses.reads}, {own[each] for each in like.uses.writes})
    later = _Later(program, like.entry, instruction)
    return Compiled(instruction, like.entry, later, uses, made=later, key=key)


# -- the order


@dataclass
class _Node:
    """One instruction of a block."""

    key: Hashable | None
    waits: int = 0  # for so many others
    then: list[int] = field(default_factory=list)  # those that wait for it
    height: int = 0  # instructions from here to the end, each waiting for the one before


def _nodes(items: Sequence[Compiled]) -> list[_Node]:
    """What waits for what: by registers, and what runs alone for what did so before."""
    nodes = [_Node(item.key if item.step is item.made else None) for item in items]
    written: dict[Register, int] = {}
    read: dict[Register, list[int]] = defaultdict(list)
    alone: int | None = None
    for number, (item, node) in enumerate(zip(items, nodes, strict=True)):
        uses = _uses(item)
        before = {written[each] for each in uses.reads | uses.writes if each in written}
        before.update(*(read[each] for each in uses.writes if each in read))
        if node.key is None:
            before |= set() if alone is None else {alone}
            alone = number
        _note_uses(uses, number, written, read)
        before.discard(number)
        node.waits = len(before)
        for other in before:
            nodes[other].then.append(number)
    for node in reversed(nodes):
        node.height = 1 + max((nodes[each].height for each in node.then), default=0)
    return nodes


def _uses(item: Compiled) -> Uses:
    """Registers of an instruction, and of those that run with it."""
    if not item.also:
        return item.uses
    every = (item.uses, *item.also)
    return Uses(set().union(*(each.reads for each in every)), set().union(*(each.writes for each in every)))


def _note_uses(uses: Uses, number: int, written: dict[Register, int], read: dict[Register, list[int]]) -> None:
    for register in uses.reads:
        read[register].append(number)
    for register in uses.writes:
        written[register] = number
        read.pop(register, None)


class _Ready:
    """Instructions that wait for nothing any more."""

    def __init__(self, nodes: list[_Node]) -> None:
        self.nodes = nodes
        self.alone: list[int] = []
        self.alike: dict[Hashable, list[tuple[int, int]]] = defaultdict(list)  # heaps of negative height and number
        for number, node in enumerate(nodes):
            if not node.waits:
                self._add(number)

    def _add(self, number: int) -> None:
        node = self.nodes[number]
        if node.key is None:
            self.alone.append(number)
        else:
            heapq.heappush(self.alike[node.key], (-node.height, number))

    def take(self) -> list[int]:
        """What runs next: the one that must run alone, or else the like of the one that most wait for."""
        if self.alone:
            return self._taken([self.alone.pop()])
        key = min(self.alike, key=lambda each: self.alike[each][0])
        heap = self.alike[key]
        found = [heapq.heappop(heap)[1] for _ in range(min(MOST, len(heap)))]
        if not heap:
            del self.alike[key]
        return self._taken(sorted(found))

    def _taken(self, numbers: list[int]) -> list[int]:
        for each in (each for number in numbers for each in self.nodes[number].then):
            self.nodes[each].waits -= 1
            if not self.nodes[each].waits:
                self._add(each)
        return numbers

    def __bool__(self) -> bool:
        return bool(self.alone or self.alike)


def arranged(program: Program, items: Sequence[Compiled], roots: Roots) -> list[tuple[Compiled, Step]]:
    """The steps of a block's instructions, and the first instruction that each runs.

    Args:
        program: the kernel.
        items: that run one after another, those that change nothing left out.
        roots: of the program's registers.
    """
    ready = _Ready(_nodes(items))
    groups: list[list[Compiled]] = []
    while ready:
        group = [items[number] for number in ready.take()]
        if groups and len(group) == 1 and len(groups[-1]) < MOST and joins(groups[-1], group[0], roots):
            groups[-1] += group
        else:
            groups.append(group)
    return [(group[0], _step_of(program, group)) for group in groups]


def _step_of(program: Program, group: Sequence[Compiled]) -> Step:
    first = group[0]
    if len(group) > 1 and first.key is None:
        return Joint(group)
    if len(group) > 1:
        try:
            return build_step(first.entry, Several(program, [item.instruction for item in group]))
        except Unsupported:
            for item in group:
                compile_instruction(program, item.instruction)  # which names the one that can't be
            raise
    if isinstance(first.made, _Later):
        made = first.made.step  # now, so that what is wrong with it is told before it runs
        return made if first.step is first.made else first.step
    return first.step
