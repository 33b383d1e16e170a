"""Loads and stores of one kind that follow each other and run as one.

Each still is an access of its own to those who follow accesses, and where one of them has no right to its bytes, they
run one by one, so that the first of these is named.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from portkit.emulate.core.bytestore import Offsets, Words
from portkit.emulate.core.findings import Fault
from portkit.emulate.ptx.decode import Step
from portkit.emulate.ptx.isa.memory import HINTS, SPACES, VECTORS, WIDEST, elements, words_of
from portkit.emulate.ptx.isa.registry import Compiled
from portkit.emulate.ptx.machine import Access, Array, Machine, Mask, Rows
from portkit.emulate.ptx.program import Address, Instruction, Operand, Register, Vector
from portkit.emulate.ptx.types import RAW, TYPES, Type

_SPACES = frozenset({"global", "shared", "shared::cta"})
_PLAIN = frozenset({*_SPACES, *VECTORS, *HINTS, *TYPES})
"""Modifiers of accesses that are ordered with no others."""


def rows_of(indices: Sequence[int], reading: bool = False) -> Rows:
    """Registers as a slice where they lie evenly, which costs no copy."""
    step = indices[1] - indices[0]
    if reading and not any(index != indices[0] for index in indices):
        return slice(indices[0], indices[0] + 1)
    if step > 0 and all(after - before == step for before, after in itertools.pairwise(indices)):
        return slice(indices[0], indices[-1] + 1, step)
    return np.array(indices, np.int64)


def form_of(instruction: Instruction) -> Hashable | None:
    """What instructions have in common that may run as one; None: this one runs alone."""
    if instruction.opcode not in {"ld", "st"} or len(instruction.operands) != 2:
        return None
    if not _PLAIN.issuperset(instruction.modifiers) or not _SPACES.intersection(instruction.modifiers):
        return None
    data, at = _data(instruction), _address(instruction)
    kind = _kind(instruction)
    if not isinstance(at.base, Register) or at.more or kind.bytes * len(data) > WIDEST:
        return None
    if any(not isinstance(each, Register) or each.bits not in _widths(kind) for each in data):
        return None
    guard = instruction.guard and instruction.guard.negated
    return instruction.opcode, instruction.modifiers, at.base.bits, len(data), getattr(data[0], "bits", 0), guard


def _widths(kind: Type) -> tuple[int, ...]:
    """Of registers: narrower types lie in the least wide ones there are."""
    return (16,) if kind.bits == 8 and not kind.signed else (kind.bits,)


def _kind(instruction: Instruction) -> Type:
    return TYPES[next(name for name in reversed(instruction.modifiers) if name in TYPES)]


def _data(instruction: Instruction) -> tuple[object, ...]:
    operand = instruction.operands[0 if instruction.opcode == "ld" else 1]
    return operand.items if isinstance(operand, Vector) else (operand,)


def _address(instruction: Instruction) -> Address:
    operand = instruction.operands[1 if instruction.opcode == "ld" else 0]
    return operand if isinstance(operand, Address) else Address(operand, more=(operand,))


Roots: TypeAlias = dict[Register, frozenset[Register]]
"""Register → those of 64 bits that its address comes from, such as parameters; as the text has them in a row."""


def roots_of(items: Sequence[Compiled]) -> Roots:
    """Of the registers that a program's instructions write."""
    found: Roots = {}
    for item in items:
        wide = [found.get(each, frozenset([each])) for each in item.uses.reads if each.bits == 64]
        for register in item.uses.writes:
            loaded = item.instruction.opcode == "ld"
            found[register] = frozenset([register]) if loaded else frozenset().union(*wide)
    return found


def _root(base: Operand, roots: Roots) -> Hashable:
    return roots.get(base, base) if isinstance(base, Register) else base


def joins(group: Sequence[Compiled], item: Compiled, roots: Roots) -> bool:
    """Whether an instruction may run as one with those before it: of one form, and of one buffer as far as is known."""
    form, last = form_of(item.instruction), group[-1].instruction
    if form is None or form != form_of(last):
        return False
    base, other = _address(item.instruction).base, _address(last).base
    if base != other and _root(base, roots) != _root(other, roots):
        return False
    if any(each.also or each.step is not each.made for each in (*group, item)):
        return False
    written = {register for each in group for register in each.uses.writes}
    return not written & (item.uses.reads | item.uses.writes)


class Joint:
    """The step of several loads or stores.

    Args:
        items: of one form, none of which uses what another one writes.
    """

    def __init__(self, items: Sequence[Compiled]) -> None:
        first = items[0].instruction
        self.steps: list[Step] = [item.step for item in items]
        self.sites = tuple(item.instruction.site for item in items)
        self.kind, self.loads = _kind(first), first.opcode == "ld"
        self.space = SPACES[next(name for name in first.modifiers if name in _SPACES)]
        addresses = [_address(item.instruction) for item in items]
        bases = [each.base for each in addresses if isinstance(each.base, Register)]
        self.base, self.bases = RAW[bases[0].bits], rows_of([each.index for each in bases], reading=True)
        offsets = [
            each.offset % (1 << bases[0].bits) for each in addresses
        ]  # addresses of 32 bits wrap, as those of 64
        self.offsets = np.array(offsets, self.base.dtype)[:, None]
        guards = [item.instruction.guard for item in items if item.instruction.guard]
        self.guards = rows_of([each.register.index for each in guards], reading=True) if guards else None
        self.negated = bool(guards) and guards[0].negated
        data = [[each for each in _data(item.instruction) if isinstance(each, Register)] for item in items]
        self.data = [
            rows_of([each.index for each in column], self.loads is False) for column in zip(*data, strict=True)
        ]
        self.register, self.size = RAW[data[0][0].bits], self.kind.bytes * len(self.data)

    def __call__(self, machine: Machine) -> None:
        """Run them."""
        at = (machine.read_all(self.base, self.bases) + self.offsets).astype(np.int64)
        mask = self._mask(machine, at)
        if mask is not None and not np.count_nonzero(mask):
            return
        flat, own = at[mask] if mask is not None else at.reshape(-1), self._spread(machine, machine.selected, mask)
        try:
            _, place = machine.locate(self.sites[0], self.space, flat, self.size, own)
        except Fault:
            self._one_by_one(machine)
            return
        if self.loads:
            self._load(machine, place, own, mask)
        else:
            self._store(machine, place, own, mask)

    def _one_by_one(self, machine: Machine) -> None:
        for step in self.steps:
            step(machine)

    def _mask(self, machine: Machine, at: Array) -> Mask | None:
        """``[instructions, selected threads]``: who runs what; None: all do."""
        if self.guards is None:
            return None
        mask = machine.read_all(Type.PRED, self.guards)
        if self.negated:
            mask = ~mask
        return None if np.count_nonzero(mask) == mask.size else np.broadcast_to(mask, at.shape)

    def _spread(self, machine: Machine, of_threads: Array, mask: Mask | None) -> Array:
        """Of each access, from what the selected threads have, or each instruction's have."""
        wide = np.broadcast_to(of_threads, (len(self.steps), machine.count))
        return wide.reshape(-1) if mask is None else wide[mask]

    def _ends(self, machine: Machine, mask: Mask | None) -> list[int]:
        """How many accesses there are up to the end of each instruction's."""
        if mask is None:
            return list(range(machine.count, machine.count * len(self.steps) + 1, machine.count))
        return np.cumsum(np.count_nonzero(mask, axis=1)).tolist()  # type: ignore[no-any-return]

    # -- loads

    def _load(self, machine: Machine, place: Offsets, own: Array, mask: Mask | None) -> None:
        if observer := machine.observer_of(self.space):
            access = Access(self.sites[0], place, self.size, machine, own, write=False)
            ends, together = self._ends(machine, mask), getattr(observer, "together", None)
            if together is None or not together(access, ends, self.sites):
                for part in self._parts(access, ends):
                    observer(part)
        words = machine.store_of(self.space).load(place, self.size, aligned=True)
        values = elements(words, self.kind, len(self.data))
        for column, rows in enumerate(self.data):
            self._write(machine, rows, values[:, column], mask)

    def _parts(self, access: Access, ends: Sequence[int]) -> Iterator[Access]:
        """The accesses of each instruction that makes any."""
        for site, start, end in zip(self.sites, [0, *ends], ends, strict=False):
            if start < end:
                at, own = access.at[start:end], access.threads[start:end]
                yield Access(site, at, access.size, access.machine, own, write=access.write)

    def _write(self, machine: Machine, rows: Rows, values: Array, mask: Mask | None) -> None:
        raw = values.view(RAW[self.kind.bits].dtype).astype(self.register.dtype, copy=False)
        if mask is None:
            machine.write_all(self.register, rows, raw.reshape(-1, machine.count))
            return
        file = machine.rows.whole(self.register)
        if machine.all and isinstance(rows, slice):
            file[rows][mask] = raw
            return
        which, thread = mask.nonzero()
        numbers = np.arange(file.shape[0])[rows]
        file[numbers[which], machine.selected[thread]] = raw

    # -- stores

    def _store(self, machine: Machine, place: Offsets, own: Array, mask: Mask | None) -> None:
        values = [self._spread(machine, machine.read_all(self.register, rows), mask) for rows in self.data]
        kind = RAW[self.kind.bits]
        words: Words = words_of([each.astype(kind.dtype, copy=False) for each in values], kind, place.size)
        if observer := machine.observer_of(self.space):
            access = Access(self.sites[0], place, self.size, machine, own, write=True, words=words)
            together = getattr(observer, "together", None)
            if together is None or not together(access, self._ends(machine, mask), self.sites):
                self._one_by_one(machine)
                return
        machine.store_of(self.space).store(place, self.size, words, aligned=True)
