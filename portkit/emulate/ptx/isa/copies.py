"""Copies of single threads from global to shared memory: cp.async, its groups and waits.

A copy reads global memory when it is issued and writes shared memory when its thread waits for its group: what others
find there before is what was there.

Source: PTX ISA, "Data Movement and Conversion Instructions": cp.async, cp.async.commit_group, cp.async.wait_group.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.bytestore import Offsets, Words
from portkit.emulate.core.findings import Fault, Finding, Kind, Site
from portkit.emulate.ptx.decode import Decoder, Read, Step
from portkit.emulate.ptx.isa.flight import Flights, Operation
from portkit.emulate.ptx.isa.registry import Entry
from portkit.emulate.ptx.machine import Access, Machine, Mask, Threads
from portkit.emulate.ptx.program import Immediate, Operand, Space
from portkit.emulate.ptx.types import Type

_SECTION = "Data Movement and Conversion Instructions"


@dataclass(eq=False, slots=True)
class _Copy:
    """What one execution of a cp.async has under way; nobody changes it."""

    site: Site
    number: int  # of the flight
    threads: Threads
    groups: NDArray[np.int64]  # by thread, that it will belong to
    places: Offsets  # in the chunk's shared memory
    size: int
    words: Words

    def part(self, which: Mask) -> _Copy:
        """Of some threads."""
        return _Copy(
            self.site,
            self.number,
            self.threads[which],
            self.groups[which],
            self.places[which],
            self.size,
            self.words[which],
        )


class Copies:
    """Copies under way, and how many groups each thread has committed."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.flights = machine.unit(Flights)
        self.committed: NDArray[np.int64] = np.zeros(machine.threads, np.int64)
        self.out: list[_Copy] = []
        self._open: NDArray[np.int64] | None = None  # groups of copies that all threads made since the last commit

    def issue(self, operation: Operation, at: Offsets, size: int, words: Words) -> None:
        """Begin copies of the selected threads, to addresses in shared memory."""
        machine, own, site = self.machine, self.machine.selected, operation.site
        _, places = machine.locate(site, Space.SHARED, at, size, own)
        if self.flights.followed or self.flights.busy:
            access = Access(site, places, size, machine, own, write=True, words=words)
            self.flights.check_write(access)
            self.flights.judge(access)
        number = self.flights.writes(operation, places, size)
        self.out.append(_Copy(site, number, own, self._groups(), places, size, words))

    def _groups(self) -> NDArray[np.int64]:
        """Of the selected threads; copies of all threads share an array."""
        if not self.machine.all:
            return self.committed[self.machine.select]
        if self._open is None:
            self._open = self.committed.copy()
        return self._open

    def commit(self) -> None:
        """Close the open group of the selected threads."""
        self.committed[self.machine.select] += 1
        self._open = None

    def wait(self, but: int | None) -> None:
        """End the copies of the selected threads, but of their last groups, and of the open one.

        Args:
            but: how many groups may stay out; None: end the open one too.
        """
        left, ended = [], []
        last: NDArray[np.int64] | None = None
        done: Mask = np.zeros(0, np.bool_)
        for copy in self.out:
            if copy.groups is not last:
                last, done = copy.groups, self._done(copy, but)
            if done.all():
                ended.append(copy)
                self.flights.ended(copy.number)
            elif done.any():
                ended.append(copy.part(done))
                left.append(copy.part(~done))
            else:
                left.append(copy)
        self._end_all(ended)
        self.out = left

    def _done(self, copy: _Copy, but: int | None) -> Mask:
        """By thread, whether a wait ends a copy; the same for those that share their groups."""
        selected = self._selected(copy.threads)
        return selected if but is None else selected & (copy.groups < self.committed[copy.threads] - but)

    def _selected(self, threads: Threads) -> Mask:
        if self.machine.all:
            return np.ones(threads.size, np.bool_)
        chosen: Mask = np.zeros(self.machine.threads, np.bool_)
        chosen[self.machine.select] = True
        return chosen[threads]

    def _end_all(self, copies: list[_Copy]) -> None:
        """End copies, at once: none of them goes where another thread's does, which is refused when it is issued."""
        for copy in copies if self.flights.followed else ():
            access = Access(copy.site, copy.places, copy.size, self.machine, copy.threads, write=True, words=copy.words)
            self.flights.judge(access)
        if len(copies) == 1:
            self._end(copies[0], np.int32(copies[0].number))
            return
        for _, alike in itertools.groupby(copies, lambda copy: copy.size):
            found = list(alike)
            numbers: NDArray[np.int32] = np.repeat(
                np.array([copy.number for copy in found], np.int32), [copy.places.size for copy in found]
            )
            self._end(_together(found), numbers)

    def _end(self, copy: _Copy, numbers: NDArray[np.int32] | np.int32) -> None:
        """Its writes are of the generic proxy; compilers that fence none of them count on the async one to see them.

        Args:
            copy: that ends.
            numbers: of the flight, or of that of each place.
        """
        self.flights.wrote(numbers, copy.places, copy.size)
        self.machine.shared.store(copy.places, copy.size, copy.words, aligned=True)
        if self.machine.fenced_copies:
            self.flights.wrote_generic(copy.places >> 4, copy.threads)
        else:
            self.flights.fenced(copy.places >> 4)


def _together(copies: list[_Copy]) -> _Copy:
    """Copies of one size as one, in their order."""
    first = copies[0]
    return replace(
        first,
        threads=np.concatenate([copy.threads for copy in copies]),
        places=np.concatenate([copy.places for copy in copies]),
        words=np.concatenate([copy.words for copy in copies]),
    )


def _copy(decoder: Decoder) -> Step:
    """cp.async: operands are target, source, size, and the bytes that the source has; the others are zeros."""
    decoder.need(3, 4, 5)
    around = decoder.required("ca", "cg") == "cg"
    decoder.ignore("shared", "shared::cta", "global")
    policy = decoder.has("L2::cache_hint")
    decoder.ignore("L2::64B", "L2::128B", "L2::256B")
    operands = decoder.operands[: len(decoder.operands) - policy]
    target, source = decoder.address(operands[0]), decoder.address(operands[1])
    size = _size(decoder, operands[2], around)
    given = decoder.read(operands[3], Type.U32) if len(operands) > 3 else None
    site = decoder.site
    operation = Operation(site, "cp.async")

    def step(machine: Machine) -> None:
        words = _source_words(machine, site, source(machine), size, given)
        machine.unit(Copies).issue(operation, target(machine), size, words)

    return step


def _size(decoder: Decoder, operand: Operand, around: bool) -> int:
    """Bytes of a copy; one around the first cache (.cg) has 16."""
    size = int(operand.text, 0) if isinstance(operand, Immediate) else 0
    if size not in ({16} if around else {4, 8, 16}):
        raise decoder.unsupported(f"a copy of a size other than {'16' if around else '4, 8 or 16'} bytes")
    return size


def _source_words(machine: Machine, site: Site, at: Offsets, size: int, given: Read | None) -> Words:
    """``[selected threads, words]``; bytes behind those that are given are 0, and not read."""
    at = machine.spread(at)
    if given is None:
        return machine.load(site, Space.GLOBAL, at, size)
    count = machine.spread(given(machine))
    if (too_many := count > size).any():
        message = f"a copy of {size} bytes from {count[too_many][0]} of its source"
        raise Fault(Finding(Kind.UNDEFINED, message, site, machine.place(int(machine.selected[np.argmax(too_many)]))))
    given_whole = count >= size
    whole = np.count_nonzero(given_whole)
    if whole == count.size:
        return machine.load(site, Space.GLOBAL, at, size)
    words: Words = np.zeros((at.size, size // 4), np.uint32)
    own = machine.selected
    if whole == np.count_nonzero(count):  # the others are given nothing, as mostly
        if whole:
            words[given_whole] = machine.load(site, Space.GLOBAL, at[given_whole], size, own[given_whole])
        return words
    for each in np.unique(count):
        which = np.flatnonzero(count == each)
        if each:
            words[which] = _first_bytes(machine, site, at[which], int(each), size, own[which])
    return words


def _first_bytes(machine: Machine, site: Site, at: Offsets, count: int, size: int, own: Threads) -> Words:
    """The first bytes of copies, as many words as the whole has."""
    octets = np.zeros((at.size, size), np.uint8)
    if count == size:
        return machine.load(site, Space.GLOBAL, at, size, own)
    for byte in range(count):
        octets[:, byte] = machine.load(site, Space.GLOBAL, at + byte, 1, own)[:, 0]
    return octets.view(np.uint32)


def _commit(decoder: Decoder) -> Step:
    decoder.need(0)
    return lambda machine: machine.unit(Copies).commit()


def groups_left(decoder: Decoder) -> int:
    """The only operand of a wait: how many groups may stay out."""
    decoder.need(1)
    operand = decoder.operands[0]
    left = int(operand.text, 0) if isinstance(operand, Immediate) else -1
    if left < 0:
        raise decoder.unsupported("a wait for a number of groups that is no constant from 0 on")
    return left


def _wait(decoder: Decoder) -> Step:
    but = groups_left(decoder)
    return lambda machine: machine.unit(Copies).wait(but)


def _wait_all(decoder: Decoder) -> Step:
    decoder.need(0)
    return lambda machine: machine.unit(Copies).wait(None)


TABLE: dict[str, tuple[Entry, ...]] = {
    "cp.async": (Entry(_copy, f"{_SECTION}: cp.async", since=80),),
    "cp.async.commit_group": (Entry(_commit, f"{_SECTION}: cp.async.commit_group", since=80),),
    "cp.async.wait_group": (Entry(_wait, f"{_SECTION}: cp.async.wait_group, cp.async.wait_all", since=80),),
    "cp.async.wait_all": (Entry(_wait_all, f"{_SECTION}: cp.async.wait_group, cp.async.wait_all", since=80),),
}
