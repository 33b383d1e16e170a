"""Tensor memory of blocks, and what is under way in it.

Each block has 128 lanes of 512 columns of 32 bits. Products and copies into tensor memory of one thread run in the
order of their issue, but only when somebody asks for the mbarrier of its ``commit`` behind them; stores of threads end
at their ``wait::st``. What is touched before that is a fault, and so is writing what a load reads before its
``wait::ld``.

Source: PTX ISA, "TensorCore 5th Generation Family Instructions".
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.bytestore import Offsets, Words
from portkit.emulate.core.findings import Fault, Finding, Kind, Site
from portkit.emulate.ptx.isa.flight import Flights, Operation
from portkit.emulate.ptx.machine import LANES, Array, Machine

TENSOR_LANES, COLUMNS = 128, 512


class Range(NamedTuple):
    """Columns of one block's tensor memory."""

    group: int
    start: int
    end: int

    def meets(self, other: Range) -> bool:
        """Whether they share a column."""
        return self.group == other.group and self.start < other.end and other.start < self.end


@dataclass(eq=False)
class Issued(ABC):
    """A product or copy that has not run."""

    site: Site
    thread: int
    units: list[Offsets]  # of shared memory that it reads
    writes: Range
    done: bool = field(default=False, init=False)  # whether it has run, though its block has not come to it
    moment: int = field(default=0, init=False)  # of its warp's operations, where its block has clocks

    @property
    def alike(self) -> Hashable | None:
        """What those have in common that run as one; None: it runs alone."""
        return None

    def goes_on(self, before: Issued) -> bool:
        """Whether it may run as one with the one before it in its block."""
        return False

    @abstractmethod
    def run(self, others: Sequence[Sequence[Any]] = ()) -> None:
        """Run it, or several: of each block those that go on, in order, like those of the first."""


@dataclass
class Stored:
    """A store of threads that has not been waited for."""

    site: Site
    thread: int  # the first of its warp
    rows: Array  # of the chunk's lanes, by lane of the warp
    first: Array  # columns, likewise
    words: Words  # [32, columns]
    range: Range


@dataclass(frozen=True)
class _Ended:
    """A load or store of a warp that it has waited for; other warps come behind it after a barrier."""

    site: Site
    warp: int  # of the chunk
    range: Range
    moment: int  # of the warp, where its block has clocks
    write: bool


@dataclass
class _Block:
    """Tensor memory of one block."""

    allocated: dict[int, int] = field(default_factory=dict)  # first column → columns
    permitted: bool = True
    queue: list[Issued] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    stores: list[Stored] = field(default_factory=list)
    loads: list[tuple[Site, int, Range]] = field(default_factory=list)  # with the warp
    ended: list[_Ended] = field(default_factory=list)  # loads and stores of warps since the last barrier
    landed: dict[tuple[Range, int], Issued] = field(default_factory=dict)  # the last that ran, by columns and thread


@dataclass(eq=False)
class Commit:
    """What a thread had issued when it committed, and whom it arrives at behind that."""

    memory: TensorMemory
    group: int
    thread: int
    until: list[Issued]
    arrive: Callable[[], None]

    def run(self) -> None:
        """Run all that it covers, and arrive; commits of its thread before this one do so before it."""
        commits = self.memory.blocks[self.group].commits
        if self not in commits:
            return
        before = [each for each in commits[: commits.index(self)] if each.thread == self.thread]
        for each in before:
            each.run()
        commits.remove(self)
        self.memory.run(self.group, self.until)
        self.arrive()

    def prepare(self, others: Sequence[Commit]) -> None:
        """Compute what some commits cover that run next, each the first of its block."""
        self.memory.run_ahead(others)


def _first_free(allocated: Mapping[int, int], columns: int) -> int:
    """The first column behind which so many are free."""
    start = 0
    for first, count in sorted(allocated.items()):
        if first - start >= columns:
            break
        start = first + count
    return start


class TensorMemory:
    """Tensor memory of all blocks of a chunk, and what is under way in it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.flights = machine.unit(Flights)
        self.words: NDArray[np.uint32] = np.full(
            (len(machine.groups), TENSOR_LANES, COLUMNS), machine.poison, np.uint32
        )
        self.blocks = [_Block() for _ in machine.groups]
        self._ordered, machine.synchronised = machine.synchronised, self.synchronised

    def synchronised(self, groups: NDArray[np.int64]) -> None:
        """Blocks have passed a barrier."""
        for group in () if self.machine.clocks else groups.tolist():
            self.blocks[group].ended.clear()
        if self._ordered:
            self._ordered(groups)

    # -- words

    def load_rows(self, rows: Array, first: Array, columns: int) -> Words:
        """Words ``[..., columns]``.

        Args:
            rows: lanes of the chunk, those of one block behind the other's.
            first: column of each.
            columns: that lie side by side.
        """
        return self._runs(columns)[rows * COLUMNS + first]

    def store_rows(self, rows: Array, first: Array, words: Words) -> None:
        """Write them."""
        self._runs(words.shape[-1])[rows * COLUMNS + first] = words

    def _runs(self, columns: int) -> Words:
        """All runs of so many columns, as a view."""
        flat = self.words.reshape(-1)
        return np.lib.stride_tricks.as_strided(flat, (flat.size - columns + 1, columns), (flat.itemsize,) * 2)

    # -- allocation

    def allocate(self, site: Site, thread: int, columns: int) -> int:
        """The first of some free columns.

        Raises:
            Fault: there are not so many, or the number is none that can be asked for.
        """
        block = self.blocks[int(self.machine.group[thread])]
        start = _first_free(block.allocated, columns)
        if columns < LANES or columns & (columns - 1) or start + columns > COLUMNS or not block.permitted:
            free = COLUMNS - sum(block.allocated.values())
            message = f"{columns} columns of tensor memory are asked for where {free} are free"
            raise Fault(Finding(Kind.UNDEFINED, message, site, self.machine.place(thread)))
        block.allocated[start] = columns
        return start

    def free(self, site: Site, thread: int, start: int, columns: int) -> None:
        """Give columns back.

        Raises:
            Fault: they were not allocated so, or something is under way in them.
        """
        group = int(self.machine.group[thread])
        if self.blocks[group].allocated.pop(start & 0xFFFF, None) != columns:
            message = f"{columns} columns of tensor memory at {start & 0xFFFF} that were not allocated"
            raise Fault(Finding(Kind.UNDEFINED, message, site, self.machine.place(thread)))
        freed = Range(group, start & 0xFFFF, (start & 0xFFFF) + columns)
        self.check(site, thread, freed, "freed")
        self._check_loads(site, thread, freed)

    def check_allocated(self, site: Site, thread: int, touched: Range) -> None:
        """Refuse columns that are not all of one allocation.

        Raises:
            Fault: they are not.
        """
        held = self.blocks[touched.group].allocated.items()
        if not any(start <= touched.start and touched.end <= start + columns for start, columns in held):
            message = f"columns {touched.start} to {touched.end} of tensor memory, which are not allocated"
            raise Fault(Finding(Kind.OUT_OF_BOUNDS, message, site, self.machine.place(thread)))

    def relinquish(self, thread: int) -> None:
        """No more allocations of a block."""
        self.blocks[int(self.machine.group[thread])].permitted = False

    # -- what is under way

    def check(self, site: Site, thread: int, touched: Range, verb: str) -> None:
        """Refuse to touch what a product or a store has yet to write.

        Raises:
            Fault: it is touched.
        """
        block = self.blocks[touched.group]
        for issued in block.queue:
            if issued.writes.meets(touched):
                raise self._missing(site, thread, verb, "a product", "mbarrier of a commit", issued.site)
        for stored in block.stores:
            if stored.range.meets(touched):
                raise self._missing(site, thread, verb, "a store", "tcgen05.wait::st", stored.site)
        self._check_landed(site, thread, touched, verb)

    def _check_landed(self, site: Site, thread: int, touched: Range, verb: str, but: int | None = None) -> None:
        """Refuse to touch what a product has written that a warp does not know of, but for those of one thread.

        Raises:
            Fault: it is touched.
        """
        clocks = self.machine.clocks
        for issued in self.blocks[touched.group].landed.values() if clocks else ():
            if issued.thread == but or not issued.writes.meets(touched):
                continue
            if clocks and not clocks.behind(thread // LANES, issued.thread // LANES, issued.moment, later=True):
                line = issued.site.source or f"line {issued.site.line}"
                message = (
                    f"tensor memory is {verb} that a product of {line} has written: "
                    "this warp has not waited for its commit, nor come behind one that has"
                )
                raise Fault(Finding(Kind.MISSING_WAIT, message, site, self.machine.place(thread)))

    def _missing(self, site: Site, thread: int, verb: str, who: str, wait: str, at: Site) -> Fault:
        line = at.source or f"line {at.line}"
        message = f"tensor memory is {verb} that {who} of {line} has yet to write: no {wait} was waited for"
        return Fault(Finding(Kind.MISSING_WAIT, message, site, self.machine.place(thread)))

    def _check_loads(self, site: Site, thread: int, written: Range, but: int | None = None) -> None:
        """Refuse to write what loads may still read, but for those of one warp.

        Raises:
            Fault: it is written.
        """
        for at, warp, range_ in self.blocks[written.group].loads:
            if range_.meets(written) and warp != but:
                line = at.source or f"line {at.line}"
                message = (
                    f"tensor memory is written that a load of {line} may still read: no tcgen05.wait::ld covers it"
                )
                raise Fault(Finding(Kind.MISSING_WAIT, message, site, self.machine.place(thread)))

    def load(self, site: Site, thread: int, read: Range) -> None:
        """Begin a load of a warp."""
        self.check_allocated(site, thread, read)
        self.check(site, thread, read, "read")
        self.blocks[read.group].loads.append((site, thread // LANES, read))

    def wait_loads(self, warps: set[int]) -> None:
        """End the loads of warps."""
        for block in self.blocks:
            for site, warp, range_ in (load for load in block.loads if load[1] in warps):
                self._end(block, _Ended(site, warp, range_, self._now(warp), write=False))
            block.loads = [load for load in block.loads if load[1] not in warps]

    def issue(self, issued: Issued, touched: Sequence[Range]) -> None:
        """Let a product or copy run later, behind those that were issued before.

        Raises:
            Fault: it touches what is not allocated, or what a store has yet to write, or comes in no order with loads
                and stores of other warps.
        """
        group = issued.writes.group
        for each in (*touched, issued.writes):
            self.check_allocated(issued.site, issued.thread, each)
        self._check_loads(issued.site, issued.thread, issued.writes)
        self._check_ended(issued, touched)
        self._check_others(issued, touched)
        if clocks := self.machine.clocks:
            issued.moment = int(clocks.later[issued.thread // LANES])
            for each in (*touched, issued.writes):
                self._check_landed(issued.site, issued.thread, each, "used", issued.thread)
        for stored in self.blocks[group].stores:
            if any(stored.range.meets(each) for each in (*touched, issued.writes)):
                raise self._missing(issued.site, issued.thread, "used", "a store", "tcgen05.wait::st", stored.site)
        operation = Operation(issued.site, "tcgen05")
        for units in issued.units:
            self.flights.reads(operation, units)
        self.blocks[group].queue.append(issued)

    def _check_ended(self, issued: Issued, touched: Sequence[Range]) -> None:
        """Refuse a product or copy of what other warps have stored, or into what they have loaded, since a barrier.

        Raises:
            Fault: there are such.
        """
        for each in self.blocks[issued.writes.group].ended:
            ranges = (*touched, issued.writes) if each.write else (issued.writes,)
            if not self._behind(issued.thread // LANES, each) and any(each.range.meets(range_) for range_ in ranges):
                did, line = "stored" if each.write else "loaded", each.site.source or f"line {each.site.line}"
                message = f"tensor memory is used that another warp {did} in {line}, with no barrier between"
                place = self.machine.place(issued.thread)
                raise Fault(Finding(Kind.SHARED_RACE, message, issued.site, place))

    def _now(self, warp: int) -> int:
        clocks = self.machine.clocks
        return int(clocks.now(np.array([warp]))[0]) if clocks else 0

    def _end(self, block: _Block, ended: _Ended) -> None:
        """Keep the last load or store of some columns by a warp."""
        alike = (ended.warp, ended.range, ended.write)
        block.ended = [each for each in block.ended if (each.warp, each.range, each.write) != alike]
        block.ended.append(ended)

    def _behind(self, warp: int, ended: _Ended) -> bool:
        """Whether a warp comes behind a load or store that has ended; without clocks, barriers forget these."""
        clocks = self.machine.clocks
        return warp == ended.warp or bool(clocks and clocks.behind(warp, ended.warp, ended.moment))

    def _check_others(self, issued: Issued, touched: Sequence[Range]) -> None:
        """Refuse a product or copy that meets one of another thread that has not run: these are in no order.

        Raises:
            Fault: it does.
        """
        for each in self.blocks[issued.writes.group].queue:
            others = each.thread != issued.thread
            if others and any(each.writes.meets(range_) for range_ in (*touched, issued.writes)):
                wait = "mbarrier of a commit of its thread"
                raise self._missing(issued.site, issued.thread, "used", "a product", wait, each.site)

    def commit(self, thread: int, arrive: Callable[[], None]) -> Commit:
        """Close what a thread has issued so far."""
        group = int(self.machine.group[thread])
        block = self.blocks[group]
        own = [issued for issued in block.queue if issued.thread == thread]
        block.commits.append(Commit(self, group, thread, own, arrive))
        return block.commits[-1]

    def run(self, group: int, until: list[Issued]) -> None:
        """End what a thread of a block has issued, as far as a commit covers it."""
        block = self.blocks[group]
        ended = [issued for issued in block.queue if issued in until]
        block.queue = [issued for issued in block.queue if issued not in until]
        for issued in ended:
            block.landed[issued.writes, issued.thread] = issued
            for units in issued.units:
                self.flights.has_read(units)
                if not self.machine.clocks:  # else who waits is known
                    self.flights.settle(units)
            if not issued.done:
                issued.run()

    def run_ahead(self, commits: Sequence[Commit]) -> None:
        """Compute what commits cover that run next, each the first of its block: the like of all blocks at once."""
        queues = [[each for each in self.blocks[commit.group].queue if each in commit.until] for commit in commits]
        for chains in itertools.zip_longest(*map(_chains, queues)):
            like: dict[Hashable, list[tuple[Issued, ...]]] = defaultdict(list)
            for number, chain in enumerate(chains):
                if chain:
                    like[number if chain[0].alike is None else (len(chain), chain[0].alike)].append(chain)
            for found in like.values():
                found[0][0].run(found)
        for issued in itertools.chain(*queues):
            issued.done = True

    def store(self, stored: Stored) -> None:
        """Begin a store of a warp."""
        self.check_allocated(stored.site, stored.thread, stored.range)
        self.check_products(stored.site, stored.thread, stored.range)
        self._check_loads(stored.site, stored.thread, stored.range, stored.thread // LANES)
        self.blocks[stored.range.group].stores.append(stored)

    def check_products(self, site: Site, thread: int, touched: Range) -> None:
        """Refuse to touch what a product has yet to write.

        Raises:
            Fault: it is touched.
        """
        for issued in self.blocks[touched.group].queue:
            if issued.writes.meets(touched):
                raise self._missing(site, thread, "written", "a product", "mbarrier of a commit", issued.site)
        self._check_landed(site, thread, touched, "written")

    def wait_stores(self, warps: set[int]) -> None:
        """End the stores of warps."""
        ended: list[Stored] = []
        for block in self.blocks:
            mine = [stored for stored in block.stores if stored.thread // LANES in warps]
            for each in mine:
                warp = each.thread // LANES
                self._end(block, _Ended(each.site, warp, each.range, self._now(warp), write=True))
            ended += mine
            block.stores = [stored for stored in block.stores if stored.thread // LANES not in warps]
        for _, alike in itertools.groupby(ended, lambda stored: stored.words.shape[-1]):
            found = list(alike)
            rows, first, words = (
                np.stack([getattr(stored, each) for stored in found]) for each in ("rows", "first", "words")
            )
            self.store_rows(rows, first, words)

    def finish(self) -> None:
        """At the end of the blocks: what is still allocated is lost to others."""
        for group, block in enumerate(self.blocks):
            if block.allocated:
                message = "a block ends without giving back its tensor memory"
                self.machine.note(Finding(Kind.UNDEFINED, message, None, self.machine.place(self._first(group))))

    def _first(self, group: int) -> int:
        return group * self.machine.per_group


def _chains(queue: Sequence[Issued]) -> Iterator[tuple[Issued, ...]]:
    """What may run as one."""
    start = 0
    for number in range(1, len(queue) + 1):
        if number == len(queue) or not queue[number].goes_on(queue[number - 1]):
            yield tuple(queue[start:number])
            start = number
