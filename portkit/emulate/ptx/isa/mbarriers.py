"""Barriers in shared memory that count arrivals and bytes: mbarrier.

A phase of a barrier ends when all expected arrivals and all announced bytes have come; ``try_wait.parity`` asks whether
the phase of a parity has ended. What asynchronous operations owe a barrier they deliver when somebody asks for it, so
that nothing is there before it is waited for.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions": mbarrier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from portkit.emulate.core.bytestore import Offsets
from portkit.emulate.core.findings import Fault, Finding, Kind, Site
from portkit.emulate.ptx.decode import Decoder, Step
from portkit.emulate.ptx.isa.registry import Entry
from portkit.emulate.ptx.isa.telling import Told, follows, learn, tell_all
from portkit.emulate.ptx.machine import Access, Array, Machine, Mask, Threads
from portkit.emulate.ptx.program import Operand, Sink, Space
from portkit.emulate.ptx.types import Type

_SECTION = "Parallel Synchronization and Communication Instructions: mbarrier"

_SIZE = 8
_MOST = (1 << 20) - 1
"""Arrivals that a barrier can expect, and bytes."""


class Work(Protocol):
    """Of a delivery, what may be computed together with the work of other blocks."""

    def prepare(self, others: Sequence[Any]) -> None:
        """Compute the work of several blocks, this one's among them; their deliveries follow at once."""


@dataclass(eq=False)
class Delivery:
    """What an asynchronous operation still has to do; it ends with its arrival."""

    run: Callable[[], None]
    brings: bool  # bytes into shared memory
    work: Work | None = None


@dataclass
class Barrier:
    """One barrier in its current phase."""

    expected: int  # arrivals of a phase
    pending: int  # that are missing
    phase: int = 0  # completed phases
    bytes: int = 0  # announced and not come
    orders: bool = False  # whether threads arrived for what they did before
    owed: list[Delivery] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)  # by those that arrive, and of bytes that come
    tells: list[Told] = field(default_factory=list)  # the same of the phase before


class MemoryBarriers:
    """All barriers of a chunk, by their offset in its shared memory."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.known: dict[int, Barrier] = {}
        self.all_end = False  # whether the program ends those that it makes before their bytes are used again
        self.lives: Mask = np.zeros(machine.shared.bytes.size // _SIZE, np.bool_)  # by eight bytes

    def at(self, site: Site, place: int, thread: int) -> Barrier:
        """The barrier at an offset.

        Raises:
            Fault: nothing has initialised it.
        """
        found = self.known.get(place)
        if found is None:
            message = f"an mbarrier at {place - int(self.machine.shared_base[thread])} that was not initialised"
            raise Fault(Finding(Kind.UNDEFINED, message, site, self.machine.place(thread), buffer="shared"))
        return found

    def named(self, site: Site, place: int, thread: int) -> Barrier:
        """The barrier at an offset, for an operation that will arrive at it.

        Raises:
            Fault: nothing has initialised it.
        """
        found = self.at(site, place, thread)
        if self.machine.mbarrier_observer:
            self.observe(site, np.array([place]), np.array([thread]))
        return found

    def observe(self, site: Site, places: Offsets, threads: Threads, *, lives: bool = True) -> None:
        """Let the checker see who uses barriers, or makes or ends them (``lives=False``)."""
        if self.machine.mbarrier_observer:
            access = Access(site, places, _SIZE, self.machine, threads, write=True, atomic=lives)
            self.machine.mbarrier_observer(access)

    def initialise(self, site: Site, place: int, count: int, thread: int) -> None:
        """Give an offset a barrier.

        Raises:
            Fault: for so many arrivals there is none, or one lives there in a program that ends its own.
        """
        if not 1 <= count <= _MOST:
            message = f"an mbarrier that expects {count} arrivals"
            raise Fault(Finding(Kind.UNDEFINED, message, site, self.machine.place(thread)))
        if place in self.known:
            if self.all_end:
                message = "an mbarrier is made where one lives: no mbarrier.inval ended it"
                raise Fault(Finding(Kind.UNDEFINED, message, site, self.machine.place(thread), buffer="shared"))
            self.forget(site, place, thread)
        self.known[place], self.lives[place // _SIZE] = Barrier(count, count), True

    def forget(self, site: Site, place: int, thread: int) -> None:
        """mbarrier.inval. Arrivals that nobody waited for come nowhere.

        Raises:
            Fault: bytes are still to come.
        """
        barrier = self.at(site, place, thread)
        if any(each.brings for each in barrier.owed):
            message = "an mbarrier is ended or made anew while a copy is to arrive at it"
            raise Fault(Finding(Kind.MISSING_WAIT, message, site, self.machine.place(thread)))
        del self.known[place]
        self.lives[place // _SIZE] = False

    def living(self, access: Access) -> int | None:
        """Number of the first access that touches bytes of an mbarrier; None: none does."""
        if not self.known:
            return None
        met = self.lives[access.at // _SIZE]
        if access.size > _SIZE:
            met |= self.lives[access.at // _SIZE + 1]
        return int(np.argmax(met)) if met.any() else None

    def arrive(
        self,
        site: Site,
        place: int,
        thread: int,
        count: int = 1,
        expect: int | None = None,
        told: Sequence[Told] = (),
    ) -> None:
        """Count arrivals, and announce bytes before that; None: arrivals of threads for what they did before."""
        barrier = self.at(site, place, thread)
        barrier.orders |= expect is None
        barrier.told += told
        barrier.bytes += expect or 0
        if abs(barrier.bytes) > _MOST:
            message = f"{barrier.bytes} bytes announced to an mbarrier, which counts up to {_MOST}"
            raise Fault(Finding(Kind.UNDEFINED, message, site, self.machine.place(thread)))
        if count > barrier.pending or (expect is None and count < 1):
            message = f"{count} arrivals at an mbarrier that expects {barrier.pending} more"
            raise Fault(Finding(Kind.UNDEFINED, message, site, self.machine.place(thread)))
        barrier.pending -= count
        self._complete(barrier, thread)

    def transferred(self, barrier: Barrier, size: int, thread: int) -> None:
        """Count bytes that have come."""
        barrier.bytes -= size
        self._complete(barrier, thread)

    def _complete(self, barrier: Barrier, thread: int) -> None:
        if barrier.pending or barrier.bytes:
            return
        barrier.phase += 1
        barrier.pending = barrier.expected
        barrier.tells, barrier.told = barrier.told, []
        orders, barrier.orders = barrier.orders, False
        if self.machine.synchronised and orders:
            self.machine.synchronised(self.machine.group[thread : thread + 1])
        self.machine.wake()

    def owe(self, barrier: Barrier, delivery: Delivery) -> None:
        """Leave something to be done before the next look at a barrier."""
        barrier.owed.append(delivery)
        self.machine.wake()

    def prepare(self, asked: Iterable[tuple[int, int]]) -> None:
        """Compute what comes first when barriers, by offset and parity, are asked, of all blocks at once."""
        first: dict[int, Delivery] = {}
        for place, parity in asked:
            barrier = self.known.get(place)
            if barrier and barrier.owed and barrier.phase & 1 == parity:
                first.setdefault(place // self.machine.shared.stride, barrier.owed[0])
        works = [each.work for each in first.values() if each.work]
        if works:
            works[0].prepare(works)

    def ended(self, barrier: Barrier, parity: int) -> bool:
        """Whether the phase of a parity has ended, after all that is owed has come."""
        while barrier.owed and barrier.phase & 1 == parity:
            barrier.owed.pop(0).run()
        return barrier.phase & 1 != parity


def _places(machine: Machine, site: Site, at: Offsets) -> tuple[Offsets, Threads]:
    """Offsets of the selected threads' barriers."""
    own = machine.selected
    return machine.locate(site, Space.SHARED, machine.spread(at), _SIZE, own)[1], own


def _sums(places: Offsets, own: Threads, numbers: Array) -> list[tuple[int, int, int, int]]:
    """Of each barrier: its offset, a thread that names it, how many do, and the sum of their numbers."""
    if places.size == 1:
        return [(int(places[0]), int(own[0]), 1, int(numbers[0]))]
    found, first, inverse, counts = np.unique(places, return_index=True, return_inverse=True, return_counts=True)
    sums = np.bincount(inverse.reshape(-1), weights=numbers, minlength=found.size).astype(np.int64)
    return list(zip(found.tolist(), own[first].tolist(), counts.tolist(), sums.tolist(), strict=True))


def _here(decoder: Decoder) -> None:
    """Barriers of the own block."""
    decoder.ignore("shared", "shared::cta", "b64", "release", "acquire", "relaxed", "cta", "cluster")


def _initialise(decoder: Decoder) -> Step:
    decoder.need(2)
    _here(decoder)
    address, count, site = (
        decoder.address(decoder.operands[0]),
        decoder.read(decoder.operands[1], Type.U32),
        decoder.site,
    )

    def step(machine: Machine) -> None:
        places, own = _places(machine, site, address(machine))
        counts = machine.spread(count(machine))
        machine.unit(MemoryBarriers).observe(site, places, own, lives=False)
        for place, each, thread in zip(places.tolist(), counts.tolist(), own.tolist(), strict=True):
            machine.unit(MemoryBarriers).initialise(site, place, each, thread)

    return step


def _invalidate(decoder: Decoder) -> Step:
    decoder.need(1)
    _here(decoder)
    address, site = decoder.address(decoder.operands[0]), decoder.site

    def step(machine: Machine) -> None:
        places, own = _places(machine, site, address(machine))
        for place, thread in zip(places.tolist(), own.tolist(), strict=True):
            machine.unit(MemoryBarriers).forget(site, place, thread)
        machine.unit(MemoryBarriers).observe(site, places, own, lives=False)

    return step


def _arrive(decoder: Decoder) -> Step:
    """mbarrier.arrive, with a count, and mbarrier.arrive.expect_tx, with bytes."""
    decoder.need(2, 3)
    _here(decoder)
    expects = decoder.has("expect_tx")
    target, *rest = decoder.operands
    if not isinstance(target, Sink) or (expects and len(rest) != 2):
        raise decoder.unsupported("the state of an mbarrier as a result")
    return _counting(decoder, rest, arrives=True, expects=expects)


def _expect(decoder: Decoder) -> Step:
    """mbarrier.expect_tx: bytes without an arrival."""
    decoder.need(2)
    _here(decoder)
    return _counting(decoder, decoder.operands, arrives=False, expects=True)


def _counting(decoder: Decoder, operands: Sequence[Operand], *, arrives: bool, expects: bool) -> Step:
    address, site = decoder.address(operands[0]), decoder.site
    number = decoder.read(operands[1], Type.U32) if len(operands) > 1 else None

    def step(machine: Machine) -> None:
        barriers = machine.unit(MemoryBarriers)
        places, own = _places(machine, site, address(machine))
        barriers.observe(site, places, own)
        given: Array = np.asarray(1) if number is None else number(machine)
        for place, thread, threads, total in _sums(places, own, machine.spread(given)):
            count = (threads if expects else total) if arrives else 0
            told = tell_all(machine, own[places == place]) if arrives else ()
            barriers.arrive(site, place, thread, count, total if expects else None, told)

    return step


def _asks(decoder: Decoder) -> Callable[[Machine], Array]:
    """Whether the phases that the selected threads name have ended."""
    decoder.need(3, 4)
    _here(decoder)
    decoder.required("parity")
    _, where, which, *_ = decoder.operands
    address, parity, site = decoder.address(where), decoder.read(which, Type.U32), decoder.site

    def ask(machine: Machine) -> Array:
        barriers = machine.unit(MemoryBarriers)
        places, own = _places(machine, site, address(machine))
        barriers.observe(site, places, own)
        keys = places * 2 + (machine.spread(parity(machine)) & np.uint32(1))
        first = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1])  # of neighbours that ask the same
        asked = [(key >> 1, key & 1) for key in keys[first].tolist()]
        barriers.prepare(asked)
        answers = [
            barriers.ended(barriers.at(site, place, thread), parity)
            for (place, parity), thread in zip(asked, own[first].tolist(), strict=True)
        ]
        if follows(machine):
            for (place, _), threads, answer in zip(asked, np.split(own, first[1:]), answers, strict=True):
                if answer:
                    learn(machine, barriers.known[place].tells, threads)
        return np.repeat(answers, np.diff(first, append=keys.size))

    return ask


def _test_wait(decoder: Decoder) -> Step:
    ask, write = _asks(decoder), decoder.write(decoder.operands[0], Type.PRED)
    return lambda machine: write(machine, ask(machine))


def _try_wait(decoder: Decoder) -> Step:
    """Threads whose phase has not ended sleep, and ask again when something has changed."""
    ask, write, index = _asks(decoder), decoder.write(decoder.operands[0], Type.PRED), decoder.instruction.index
    condition = decoder.guard() if decoder.instruction.guard else None

    def asked(machine: Machine) -> None:
        own, answers = machine.selected, ask(machine)
        write(machine, answers)
        if not answers.all():
            machine.sleep(index, own[~answers])

    def step(machine: Machine) -> None:
        machine.go(index + 1)
        machine.guarded(condition(machine), asked) if condition else asked(machine)

    return step


TABLE: dict[str, tuple[Entry, ...]] = {
    "mbarrier.init": (Entry(_initialise, f"{_SECTION}.init", since=80),),
    "mbarrier.inval": (Entry(_invalidate, f"{_SECTION}.inval", since=80),),
    "mbarrier.arrive": (Entry(_arrive, f"{_SECTION}.arrive", since=80),),
    "mbarrier.expect_tx": (Entry(_expect, f"{_SECTION}.expect_tx", since=90),),
    "mbarrier.test_wait": (Entry(_test_wait, f"{_SECTION}.test_wait, mbarrier.try_wait", since=80),),
    "mbarrier.try_wait": (
        Entry(_try_wait, f"{_SECTION}.test_wait, mbarrier.try_wait", since=90, begins=True, ends=True),
    ),
}
