"""Groups of cells that one process judges after another: what each takes, and which of them is next.

Cells that differ in their variant alone are a group: they share inputs, float64 reference and unfused chain.
Each has an estimate of the memory that it takes; as many are under way as the device holds.
"""

from __future__ import annotations

import functools
from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from portkit.model import DTYPE_BYTES, CaseSource, Cell, Direction, KernelCase
from portkit.run.calls import Upstream, upstream_for
from portkit.run.inputs import InputMaker
from portkit.run.load import load_case
from portkit.run.peak import peak_bytes
from portkit.run.reference import CHAIN_SHARE, ReferenceMaker, unfused
from portkit.run.tree import named_tensors

GIB = 2**30
SLACK = 1.1
"""PyTorch's allocator holds more than is asked of it."""
OWN_REFERENCE = 6 * GIB
"""Most bytes of a reference that is made in slices of rows, beside its results."""
FOR_LARGE = 2
"""Processes that go through the large groups."""
LARGE = 1 / 6
"""Share of the memory from which on a group is large."""
HUGE = 2 / 3
"""Share of the memory up to which it is, and that is kept for the next of them."""

Kind = tuple[str, Direction, str]


@dataclass(frozen=True)
class Group:
    """Cells that share inputs and reference."""

    source: CaseSource
    cells: tuple[Cell, ...]
    free: int  # bytes that its reference is told are free
    memory: int  # bytes that it takes at most, as far as can be told
    last: bool = False  # to be judged after all others
    claimed: bool = False  # by this run, of several that go through the same groups

    @property
    def kind(self) -> Kind:
        """What a process keeps to."""
        return (self.cells[0].case, self.cells[0].direction, self.cells[0].dtype)


@dataclass(frozen=True)
class Needs:
    """Bytes of a group's parts."""

    inputs: int
    outputs: int  # of one call, as float64
    chain: int  # most at once of the unfused chain in the cell's dtype
    reference: int  # most at once of that in float64
    rows: int = 0  # of which both can be made slice by slice; 0: they are not independent
    reads_values: bool = False  # then chain and reference are all that is moved, of which they hold a part at once

    @property
    def shared_reference(self) -> int:
        """Most of the reference as it is made beside others: slice by slice where that can be."""
        if not self.rows:
            return self.reference
        return min(self.reference, max(self.reference // self.rows, OWN_REFERENCE + 3 * self.outputs))

    @property
    def free(self) -> int:
        """What the reference is told is free: it takes half of that."""
        return 2 * self.shared_reference + GIB

    @property
    def memory(self) -> int:
        """All of it: inputs in three copies, two references, results of chain and calls, and what one of them holds."""
        in_slices = bool(self.rows) and self.chain > CHAIN_SHARE * self.free
        chain = max(self.chain // self.rows, int(CHAIN_SHARE / 2 * self.free)) if in_slices else self.chain
        most = max(self.shared_reference + 2 * self.inputs, chain) // (3 if self.reads_values else 1)
        return int(SLACK * (3 * self.inputs + 4.5 * self.outputs + most) + GIB)


def needs(source: CaseSource, cell: Cell) -> Needs:
    """What a cell takes, found on tensors without memory; that of the work model where values are asked for."""
    case = loaded(source)
    maker, make = ReferenceMaker(case, cell, lambda device: 0), InputMaker(0, "meta")
    inputs = case.inputs(make, cell.shape, cell.dtype)
    own = sum(tensor.nbytes for _, tensor in named_tensors(inputs))
    moved = maker.moved(inputs)
    try:
        outputs, upstream = _outputs(case, cell, inputs, make)
    except Exception:  # it asks for values
        least = case.work(cell.shape, cell.dtype).fused_bytes * 8 // DTYPE_BYTES[cell.dtype]
        return Needs(own, int(least) // 2, moved, moved, reads_values=True)
    held = min(moved, maker.held(inputs, upstream) or moved)
    chain = peak_bytes(lambda: unfused(case, cell, inputs, upstream)) or moved
    by_row = named_tensors({name: inputs[name] for name in case.row_inputs})
    return Needs(own, outputs, chain, held, by_row[0][1].shape[0] if by_row else 0)


def _outputs(case: KernelCase, cell: Cell, inputs: dict[str, Any], make: InputMaker) -> tuple[int, Upstream]:
    """Bytes of the results as float64, and the gradients that come in."""
    outputs = unfused(case, replace(cell, direction=Direction.FORWARD), inputs)
    upstream: Upstream = ()
    if cell.direction is Direction.BACKWARD:
        upstream = upstream_for([tensor for _, tensor in outputs.named], make)
        outputs = unfused(case, cell, inputs, upstream)
    return sum(8 * tensor.numel() for _, tensor in outputs.named), upstream


def grouped(
    cells: Iterable[Cell], sources: Mapping[str, CaseSource], last: Callable[[Cell], bool] = lambda cell: False
) -> Iterator[Group]:
    """Groups of cells, in their order, and which of them are to be judged after all others."""
    found: dict[tuple[object, ...], list[Cell]] = {}
    for cell in cells:
        found.setdefault((cell.case, cell.direction, cell.shape, cell.dtype), []).append(cell)
    for own in found.values():
        source = sources[own[0].case]
        taken = needs(source, own[0])
        yield Group(source, tuple(own), taken.free, taken.memory, last(own[0]))


@functools.cache
def loaded(source: CaseSource) -> KernelCase:
    """A case, loaded once: what is compiled for it stays with its functions."""
    return load_case(source)


@dataclass(frozen=True)
class Claims:
    """Which run judges a group, of several on this host that go through the same: the first to name it in a folder."""

    folder: Path
    left: list[Group] = field(default_factory=list)  # to others, or to nobody where the folder is of an earlier run

    def __call__(self, group: Group) -> bool:
        """Whether the group is this run's."""
        if group.claimed:
            return True
        self.folder.mkdir(parents=True, exist_ok=True)
        cell = group.cells[0]
        name = "-".join((cell.case, cell.direction.value, cell.shape_text, cell.dtype))
        try:
            (self.folder / name).touch(exist_ok=False)
        except FileExistsError:
            self.left.append(group)
            return False
        return True

    @property
    def told(self) -> str | None:
        """What was left to others, in words; None where nothing was."""
        if not self.left:
            return None
        groups, cells = len(self.left), sum(len(group.cells) for group in self.left)
        return (
            f"{groups} group{'s' * (groups != 1)}, {cells} cell{'s' * (cells != 1)}, left to another run: "
            f"{self.folder} has their names. If no other run is at work, name a new folder with --beside"
        )


@dataclass
class Queue:
    """Groups that are to be judged, the smallest first, and the memory that is left for them.

    Two processes go through the large ones, the largest first; others take those once nothing small is left.
    What takes more than two thirds of the memory waits for all others.
    """

    room: int
    claim: Callable[[Group], bool] = lambda group: True
    waiting: list[Group] = field(default_factory=list)
    held: dict[int, Group] = field(default_factory=dict)  # process → what it judges
    kinds: dict[int, Kind] = field(default_factory=dict)  # process → what it keeps to

    def add(self, group: Group) -> None:
        """One more; if it takes more than there is, it waits until it is alone."""
        insort(self.waiting, replace(group, memory=min(group.memory, self.whole)), key=_order)

    @property
    def whole(self) -> int:
        """All the memory there is."""
        return self.room + sum(each.memory for each in self.held.values())

    def take(self, process: int) -> Group | None:
        """A group that fits and is this run's, if there is one."""
        while chosen := self._choose(process):
            self.waiting.remove(chosen)
            if self.claim(chosen):
                self.room -= chosen.memory
                self.held[process], self.kinds[process] = replace(chosen, claimed=True), chosen.kind
                return self.held[process]
        return None

    def _choose(self, process: int) -> Group | None:
        turn = [each for each in self.waiting if each.last == self.waiting[0].last]
        small = [each for each in turn if each.memory <= LARGE * self.whole]
        large = [each for each in turn if LARGE < each.memory / self.whole <= HUGE]
        large.sort(key=lambda each: -each.memory)
        if small and process >= FOR_LARGE:
            return self._of_kind(process, small, kept=self.whole * HUGE if large and not self._has_large() else 0)
        return self._first(large) or self._first(small) or (None if small or large else self._first(turn))

    def _has_large(self) -> bool:
        return any(each.memory > LARGE * self.whole for each in self.held.values())

    def _of_kind(self, process: int, small: list[Group], kept: float) -> Group | None:
        """Of the kind that the process keeps to, of one that none keeps to, or the first."""
        fitting = [each for each in small if each.memory <= self.room - kept]
        taken = {kind for other, kind in self.kinds.items() if other != process}
        own = [each for each in fitting if each.kind == self.kinds.get(process)]
        new = [each for each in fitting if each.kind not in taken]
        return next(iter(own or new or fitting), None)

    def _first(self, groups: list[Group]) -> Group | None:
        return next((each for each in groups if each.memory <= self.room), None)

    def give_back(self, process: int) -> None:
        """The process is done with its group."""
        self.room += self.held.pop(process).memory


def _order(group: Group) -> tuple[bool, int]:
    return (group.last, group.memory)
