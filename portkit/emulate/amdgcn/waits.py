"""Results that are used before their counter was waited for.

Loads and LDS operations end some time after they are issued. Counters say how many are still out:
``vmcnt`` (loads, and on CDNA stores), ``vscnt`` (stores on RDNA3), ``lgkmcnt`` (LDS and scalar loads); RDNA4 has
``loadcnt``, ``storecnt``, ``dscnt`` and ``kmcnt`` in their place. A wait for n of a counter makes sure that all
but the last n of its operations have ended, provided that they end in order, which scalar loads and on CDNA flat
accesses don't: those need a wait for 0.

This is judged on the program and not on a run, so it costs a run nothing, and ways that no wave takes are judged too.
Not so for LDS accesses that are still out at a barrier: some barriers only keep waves in step, and others' data is
touched behind a later one. The checker follows those through the run.

Sources: CDNA3 ISA, "Manually Inserted Wait States", S_WAITCNT; RDNA3 ISA, "Data Dependency Resolution"; RDNA4
ISA, the same; LLVM, AMDGPU usage, "Memory Model", and of flat accesses the subtarget feature
``FlatLgkmVMemCountInOrder``, by which LLVM places its waits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from portkit.emulate.amdgcn.architecture import CDNA, Generation
from portkit.emulate.amdgcn.execute import Block, Code
from portkit.emulate.amdgcn.flow import solve
from portkit.emulate.amdgcn.isa.registry import Compiled, base_name
from portkit.emulate.amdgcn.operands import File, parse_register
from portkit.emulate.amdgcn.program import Instruction
from portkit.emulate.core.findings import Finding, Kind, Unsupported

SHARED = "shared memory"
"""What is not in other waves' hands before an LDS access has ended."""

_RESULTS = ("vmcnt", "lgkmcnt", "loadcnt", "dscnt", "kmcnt")
"""Counters of operations that have a result; the others count stores."""

_CROSSBAR = re.compile(r"ds_(b?permute|swizzle)_b32|ds_nop")

_MOST = {"vmcnt": 63, "loadcnt": 63}
"""Operations that a counter can hold: a wave that would issue one more stalls until the first has ended, and LLVM
leaves out waits that this makes needless. Of other counters nothing is taken for ended."""

Item: TypeAlias = tuple[File, int] | tuple[File, int, int] | str | int
"""A register, one half of one (0 the low, 1 the high), shared memory as a whole, or the LDS access of a line."""

Key: TypeAlias = tuple[str, Item]  # counter, what the operation changes


@dataclass(frozen=True)
class Out:
    """An operation that may not have ended."""

    later: int  # operations of its counter that were issued after it, at least
    ordered: bool  # whether it ends before those
    line: int  # of the text


State: TypeAlias = Mapping[Key, Out]


@dataclass(frozen=True)
class Issue:
    """What an instruction counts on."""

    counters: tuple[str, ...]
    ordered: bool = True


_NO_COUNTER = re.compile(r"buffer_(inv|wbl2|gl[01]_inv)|global_(inv|wb|wbinv)$|ds_nop")


def issue_of(compiled: Compiled, generation: Generation) -> Issue | None:
    """Counters of an instruction; None where it has ended when the next one begins."""
    name = base_name(compiled.instruction.mnemonic)
    if name.startswith("s_load"):
        return Issue(("kmcnt" if generation is Generation.RDNA4 else "lgkmcnt",), ordered=False)
    if name.startswith("ds_"):
        return Issue((_shared_counter(generation),))
    if not name.startswith(("global_", "buffer_", "scratch_", "flat_")) or _NO_COUNTER.match(name):
        return None
    memory = _memory_counter(name, bool(compiled.uses.writes), generation)
    if name.startswith("flat_"):
        return Issue((memory, _shared_counter(generation)), ordered=generation not in CDNA)
    return Issue((memory,))


def _shared_counter(generation: Generation) -> str:
    return "dscnt" if generation is Generation.RDNA4 else "lgkmcnt"


def _memory_counter(name: str, returns: bool, generation: Generation) -> str:
    """Stores, and atomics that return nothing, have a counter of their own on RDNA."""
    if generation in CDNA:
        return "vmcnt"
    loads = "_load_" in name or returns
    if generation is Generation.RDNA4:
        return "loadcnt" if loads else "storecnt"
    return "vmcnt" if loads else "vscnt"


# -- waits

_NAMED = re.compile(r"(vmcnt|lgkmcnt|vscnt|expcnt)\((\d+)\)")
_SINGLE = re.compile(r"s_wait(?:cnt)?_(loadcnt|storecnt|dscnt|kmcnt|vscnt|vmcnt|lgkmcnt)$")
_DOUBLE = re.compile(r"s_wait_(loadcnt|storecnt)_dscnt$")


def waits_of(instruction: Instruction) -> dict[str, int]:
    """Counter → operations that may still be out behind a wait; empty for all other instructions."""
    name = instruction.mnemonic
    if name == "s_waitcnt":
        return _waits_of_names(instruction)
    if not name.startswith("s_wait"):
        return {}
    if name == "s_wait_idle":
        return dict.fromkeys(("loadcnt", "storecnt", "dscnt", "kmcnt"), 0)
    return _waits_of_number(name, instruction)


def _waits_of_names(instruction: Instruction) -> dict[str, int]:
    words = re.split(r"[;/]", instruction.site.text)[0].partition("s_waitcnt")[2]
    if _NAMED.sub("", words).strip(" \t&,|"):
        raise Unsupported("a counter and its number are expected, as vmcnt(0)", instruction.site)
    return {counter: int(count) for counter, count in _NAMED.findall(words)}


def _waits_of_number(name: str, instruction: Instruction) -> dict[str, int]:
    single, double = _SINGLE.match(name), _DOUBLE.match(name)
    if not single and not double:
        return {}
    count = int(re.split(r"[ ,]+", instruction.site.text)[-1], 0)
    if single:
        return {single[1]: count}
    return {name.split("_")[2]: count >> 8, "dscnt": count & 0xFF}


# -- what is out


@dataclass(frozen=True)
class Event:
    """What one instruction does to the counters."""

    compiled: Compiled
    waits: Mapping[str, int]
    issue: Issue | None
    changed: Iterable[Item]  # when its operation ends
    used: Iterable[Item]


def events_of(code: Code) -> list[Event]:
    """Taken from the instructions once, since blocks are gone through several times."""
    generation = code.program.architecture.generation
    halved = generation not in CDNA and any(_loads_half(item.instruction) for item in code.compiled)
    return [_event_of(item, generation, halved) for item in code.compiled]


def _event_of(compiled: Compiled, generation: Generation, halved: bool) -> Event:
    mnemonic, uses = compiled.instruction.mnemonic, compiled.uses
    used: set[Item] = {*uses.reads, *uses.writes}
    changed: set[Item] = {*uses.writes}
    if halved:
        halves = list(_halves(compiled))
        used.update(halves)
        if _loads_half(compiled.instruction):
            changed = {half for half in halves if half[:2] in uses.writes}
    if mnemonic in {"s_barrier", "s_barrier_signal"}:
        used.add(SHARED)
    if mnemonic.startswith("ds_") and not _CROSSBAR.match(mnemonic):
        changed.add(SHARED)
    return Event(compiled, waits_of(compiled.instruction), issue_of(compiled, generation), changed, used)


# -- halves: RDNA's loads of 16 bits leave the other half of their register to whoever has it


def _loads_half(instruction: Instruction) -> bool:
    return "_load_" in instruction.mnemonic and "_d16" in instruction.mnemonic


def _halves(compiled: Compiled) -> Iterator[tuple[File, int, int]]:
    """Halves of registers that an instruction touches: both, but where an operand is one."""
    named: dict[tuple[File, int], set[int]] = {}
    for number, text in enumerate(compiled.instruction.operands):
        if register := parse_register(text, 256):
            half = register.half if register.half is not None else _half_moved(compiled.instruction.mnemonic, number)
            for index in register.indices:
                named.setdefault((register.file, index), set()).update((0, 1) if half is None else (half,))
    for file, index in {*compiled.uses.reads, *compiled.uses.writes}:
        yield from ((file, index, half) for half in named.get((file, index), (0, 1)))


_HALF = re.compile(r"_d16|_store_b(?:8|16)(?:_|$)")


def _half_moved(mnemonic: str, number: int) -> int | None:
    """The half that a load or store moves to or from an operand; None for addresses and wider data."""
    if not _HALF.search(mnemonic) or number != _data_operand(mnemonic):
        return None
    return int("_d16_hi" in mnemonic)


def _data_operand(mnemonic: str) -> int | None:
    if "_load_" in mnemonic or mnemonic.startswith("buffer_store_"):
        return 0
    return 1 if "_store_" in mnemonic else None


@dataclass
class Counters:
    """Operations that may be out while one block is gone through."""

    out: dict[Key, Out] = field(default_factory=dict)
    clock: dict[str, int] = field(default_factory=dict)  # counter → operations issued in this block

    def later(self, key: Key) -> int:
        """Operations of the same counter after the one that changes an item."""
        return self.out[key].later + self.clock.get(key[0], 0)

    def state(self) -> State:
        """At the end of the block."""
        return {key: Out(self.later(key), item.ordered, item.line) for key, item in self.out.items()}

    def step(self, event: Event) -> None:
        """Go past one instruction."""
        for counter, count in event.waits.items():
            self._wait(counter, count)
        if event.issue:
            for counter in event.issue.counters:
                self._issue(counter, event)

    def _wait(self, counter: str, count: int) -> None:
        """All but ``count`` have ended: those that end in order only, where any that does not is out."""
        mine = [key for key in self.out if key[0] == counter]
        if count and not all(self.out[key].ordered for key in mine):
            return
        for key in mine:
            if self.later(key) >= count:
                del self.out[key]

    def _issue(self, counter: str, event: Event) -> None:
        assert event.issue
        self.clock[counter] = self.clock.get(counter, 0) + 1
        out = Out(-self.clock[counter], event.issue.ordered, event.compiled.instruction.site.line)
        for item in event.changed:
            self.out[counter, item] = out

    def too_early(self, event: Event) -> Iterator[tuple[Key, Out]]:
        """Operations whose result an instruction uses, or whose target it overwrites."""
        if not self.out:
            return
        for item in event.used:
            for counter in _RESULTS:
                out = self.out.get((counter, item))
                if out and not _in_order(out, counter, item, event) and not self._over((counter, item)):
                    yield (counter, item), out

    def _over(self, key: Key) -> bool:
        """Whether so many operations came later that this one has ended."""
        most = _MOST.get(key[0])
        return most is not None and self.out[key].ordered and self.later(key) >= most


def _in_order(out: Out, counter: str, item: Item, event: Event) -> bool:
    """Whether an operation overwrites the target of one that ends before it."""
    issue = event.issue
    ordered = issue is not None and issue.ordered and out.ordered and counter in issue.counters
    return ordered and (item[:2] if isinstance(item, tuple) else item) not in _taken(event.compiled)


def _taken(compiled: Compiled) -> set[tuple[File, int]]:
    """Registers that an operation takes: a load of one half keeps the other, which is there when both have ended."""
    instruction = compiled.instruction
    if not _loads_half(instruction):
        return compiled.uses.reads
    others = (parse_register(text, 256) for text in instruction.operands[1:])
    return {(each.file, index) for each in others if each for index in each.indices}


def join(left: State, right: State) -> State:
    """Ways that meet: what is out on either, as late as on the worse."""
    both = {**left, **right}
    for key in left.keys() & right.keys():
        first, second = left[key], right[key]
        if first != second:
            both[key] = Out(min(first.later, second.later), first.ordered and second.ordered, first.line)
    return both


@dataclass(frozen=True)
class Waits:
    """What a program does too early."""

    findings: Mapping[int, list[Finding]]  # by first instruction of a block: results used
    loose: Mapping[int, frozenset[int]]  # instruction behind a barrier → lines of LDS accesses that may be out there


def missing_waits(code: Code) -> Waits:
    """Instructions that use a result too early, and barriers that LDS accesses may outlast."""
    events = events_of(code)
    states = _states(code, events)
    judged = {
        start: _judge(events[start : code.blocks[start].after], Counters(dict(state)))
        for start, state in states.items()
    }
    outlasted = any(isinstance(item, str) for found in judged.values() for item, _ in found)
    findings = {first: [each for item, each in found if not isinstance(item, str)] for first, found in judged.items()}
    return Waits({first: found for first, found in findings.items() if found}, _loose(code) if outlasted else {})


def _states(code: Code, events: Sequence[Event]) -> Mapping[int, State]:
    """What may be out at the start of each block."""

    def through(block: Block, state: State) -> State:
        counters = Counters(dict(state))
        for event in events[block.start : block.after]:
            counters.step(event)
        return counters.state()

    start: State = {}
    return solve(code, start, through, join)


def _judge(events: Iterable[Event], counters: Counters) -> list[tuple[Item, Finding]]:
    """One finding an instruction, and what it is about."""
    found = []
    for event in events:
        for key, out in counters.too_early(event):
            found.append((key[1], _finding(event.compiled, key, out)))
            break
        counters.step(event)
    return found


def _loose(code: Code) -> dict[int, frozenset[int]]:
    """LDS accesses that may be out at each barrier, line by line."""
    events = [_by_line(event) for event in events_of(code)]
    found: dict[int, frozenset[int]] = {}
    for start, state in _states(code, events).items():
        counters = Counters(dict(state))
        for number in range(start, code.blocks[start].after):
            if SHARED in events[number].used and (lines := _lines_out(counters)):
                found[_behind_barrier(code, number)] = lines
            counters.step(events[number])
    return found


def _by_line(event: Event) -> Event:
    """The event with its LDS access told from others."""
    if SHARED not in event.changed:
        return event
    return replace(event, changed={event.compiled.instruction.site.line})


def _lines_out(counters: Counters) -> frozenset[int]:
    return frozenset(item for _, item in counters.out if isinstance(item, int))


def _behind_barrier(code: Code, number: int) -> int:
    """Where waves go on: behind the instruction, or behind the wait that follows a signal."""
    if code.compiled[number].instruction.mnemonic != "s_barrier_signal":
        return number + 1
    rest = enumerate(code.compiled[number:], number)
    return next((n + 1 for n, item in rest if item.instruction.mnemonic == "s_barrier_wait"), number + 1)


def _finding(compiled: Compiled, key: Key, out: Out) -> Finding:
    counter, item = key
    assert not isinstance(item, int)
    what = item if isinstance(item, str) else f"{item[0].value}{item[1]}"
    verb = "of all waves used" if isinstance(item, str) else "used"
    message = f"{what} {verb} before a wait for {counter} has made sure of the operation of line {out.line}"
    return Finding(Kind.MISSING_WAIT, message, compiled.instruction.site)
