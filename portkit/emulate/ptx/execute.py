"""Runs the threads of a machine block by block.

A block is a run of instructions that threads enter at the first and leave behind the last one. Threads that are at
the same block run it together; where instructions need all lanes of a warp, lanes that come first wait for the others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from portkit.emulate.core.bytestore import Words
from portkit.emulate.core.findings import Fault, Finding, Halt, Kind
from portkit.emulate.core.running import Blocks, Meter
from portkit.emulate.core.schedule import ENDED, READY, Order, Schedule
from portkit.emulate.ptx.decode import Read, Step
from portkit.emulate.ptx.isa.barriers import Barriers
from portkit.emulate.ptx.isa.registry import Compiled, Pass
from portkit.emulate.ptx.machine import LANES, PARKED, SLEEPING, Machine, Mask
from portkit.emulate.ptx.program import Program
from portkit.emulate.ptx.together import arranged, compile_all

_NOWHERE = np.iinfo(np.int64).max
"""A program counter behind all others."""


@dataclass(frozen=True)
class Block:
    """Instructions that run one after another."""

    start: int  # index of the first
    steps: tuple[Step, ...] = field(repr=False)  # of what changes any state
    firsts: tuple[Compiled, ...]  # the first instruction that each step runs
    after: int  # index of the instruction behind the block
    last: Step | None = field(repr=False)  # the control instruction that ends it; None: it falls through
    counted: int  # instructions, those without effect left out
    gathers: bool  # whether lanes of a warp must be together at the first
    members: Read | None = field(repr=False)  # which, by bit; None: all


@dataclass(frozen=True)
class Code:
    """A program whose every instruction has its step."""

    program: Program
    compiled: tuple[Compiled, ...]
    blocks: Blocks[Block]  # by first instruction
    entry: int

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """Instructions that it has, with their modifiers."""
        return frozenset(item.instruction.name for item in self.compiled)

    @functools.cached_property
    def locks(self) -> bool:
        """Whether it may spin on a lock: it compares and swaps."""
        return any(item.instruction.opcode == "atom" and "cas" in item.instruction.modifiers for item in self.compiled)


def build(program: Program, passes: tuple[Pass, ...] = ()) -> Code:
    """Compile every instruction and cut the program into blocks.

    Raises:
        Unsupported: an instruction is not modelled.
    """
    compiled = compile_all(program)
    for each in passes:
        compiled = each(program, compiled)
    return cut(program, compiled)


def cut(program: Program, compiled: tuple[Compiled, ...]) -> Code:
    """Cut a program into blocks. ``compiled`` has one item for each of its instructions."""
    entry = program.functions[program.name].entry
    starts = _starts(program, compiled)
    ends = [*starts[1:], len(compiled)]
    found = {start: _block(program, compiled, start, end) for start, end in zip(starts, ends, strict=True)}
    blocks = Blocks(found, compiled[-1].instruction.site)
    return Code(program, compiled, blocks, entry)


def _starts(program: Program, compiled: tuple[Compiled, ...]) -> list[int]:
    """First instructions of all blocks.

    Of the instructions of whole warps that follow one another only the first needs to begin one: behind it, the lanes
    are together until threads part.
    """
    targets = {*program.targets, *(function.entry for function in program.functions.values())}
    starts, together = {0, *targets}, False
    for index, item in enumerate(compiled):
        together = together and index not in targets
        whole = item.entry.collective and item.members is None
        if item.entry.begins or (item.entry.collective and not (together and whole)):
            starts.add(index)
        together = together or whole
        if item.entry.ends:
            starts.add(index + 1)
            together = False
    return sorted(start for start in starts if start < len(compiled))


def _block(program: Program, compiled: tuple[Compiled, ...], start: int, end: int) -> Block:
    items = compiled[start:end]
    last = items[-1].step if items[-1].entry.ends else None
    straight = items[:-1] if last else items
    body = [item for item in straight if item.entry.changes]
    order = arranged(program, body)
    firsts, steps = tuple(first for first, _ in order), tuple(step for _, step in order)
    return Block(start, steps, firsts, end, last, len(body), items[0].entry.collective, items[0].members)


class Runner:
    """Runs one chunk of blocks to its end.

    Args:
        code: what runs.
        machine: the threads.
        schedule: which warps run next.
        meter: counts, and stops at the budget.
    """

    def __init__(self, code: Code, machine: Machine, schedule: Schedule, meter: Meter) -> None:
        self.code, self.machine, self.schedule, self.meter = code, machine, schedule, meter
        self.watch: Callable[[Machine, Block], None] | None = None  # called before a block runs
        self.closing: list[Callable[[], None]] = []  # called when the chunk has run, or can't go on
        machine.patient = code.locks
        machine.go(code.entry)

    def run(self) -> None:
        """Run until every thread has ended.

        Raises:
            Halt: a fault, something unsupported, or more work than allowed.
        """
        machine, fast = self.machine, self.schedule.order is Order.CONVERGED
        while True:
            if machine.uniform is not None and fast:
                machine.choose_all()
                self._run_block(self.code.blocks[machine.uniform])
            elif not self._pick():
                break
        for unit in machine.units:
            if finish := getattr(unit, "finish", None):
                finish()

    def _pick(self) -> bool:
        """Run one block by the warps whose turn it is; False where all threads have ended."""
        machine = self.machine
        ready = machine.state == READY
        if not np.count_nonzero(ready):
            if (machine.state == ENDED).all():
                return False
            self._release()
            return True
        chosen, at = self._turn(ready)
        machine.choose(chosen)
        block = self.code.blocks[at]
        if not block.gathers or self._gathered(block):
            self._run_block(block)
        if self.schedule.turns or (not machine.patient and np.count_nonzero(machine.state == ENDED)):
            machine.unit(Barriers).complete()
        return True

    def _turn(self, ready: Mask) -> tuple[Mask, int]:
        """Threads that run next, and where they are."""
        machine, schedule = self.machine, self.schedule
        last = schedule.turns
        if schedule.order is Order.CONVERGED and not last:
            schedule.picks += 1
            at = int(np.minimum.reduce(np.where(ready, machine.pc, _NOWHERE)))
            return ready & (machine.pc == at), at
        outside = -1 if last else _NOWHERE
        pc = np.where(ready, machine.pc, outside).reshape(-1, LANES)
        of_warp = pc.max(axis=1) if last else pc.min(axis=1)
        warps = schedule.pick(ready.reshape(-1, LANES).any(axis=1), of_warp, machine.per_group // LANES)
        at = int(of_warp[np.argmax(warps)])
        return np.repeat(warps, LANES) & ready & (machine.pc == at), at

    def _run_block(self, block: Block) -> None:
        machine = self.machine
        self.meter.add(block.counted + (block.last is not None), machine.count)
        if self.watch:
            self.watch(machine, block)
        number = 0
        try:
            for number, step in enumerate(block.steps):  # noqa: B007 - names the instruction of an error
                step(machine)
            if block.last:
                number = -1
                block.last(machine)
        except Halt:
            raise
        except Exception as error:
            site = (
                self.code.compiled[block.after - 1].instruction.site
                if number < 0
                else block.firsts[number].instruction.site
            )
            raise RuntimeError(f"emulator failed at line {site.line} `{site.text}`") from error
        if not block.last:
            machine.go(block.after)

    # -- lanes that need one another

    def _gathered(self, block: Block) -> bool:
        """Select the warps that are complete, and let lanes of others wait; False where no warp is."""
        machine = self.machine
        live = (machine.state != ENDED).reshape(-1, LANES)
        here: Mask = np.zeros((machine.threads // LANES, LANES), np.bool_)
        here.reshape(-1)[machine.select] = True
        needed = live & self._members(block)
        complete = (here | ~needed).all(axis=1)[:, None]
        waiting = np.flatnonzero(here & ~complete)
        if waiting.size:
            machine.halt(PARKED, waiting)
            self._unpark(block, complete)
        chosen = np.flatnonzero(here & complete)
        machine.select_threads(chosen)
        return chosen.size > 0

    def _members(self, block: Block) -> Mask:
        machine = self.machine
        masks: Mask = np.ones((machine.threads // LANES, LANES), np.bool_)
        if block.members is not None:
            bits = machine.spread(block.members(machine)).astype(np.uint32)
            of_warp: Words = np.zeros(machine.threads // LANES, np.uint32)
            of_warp[machine.selected >> 5] = bits
            masks = (of_warp[:, None] >> np.arange(LANES, dtype=np.uint32) & np.uint32(1)).astype(np.bool_)
        return masks

    def _unpark(self, block: Block, complete: Mask) -> None:
        """Let lanes go on that wait at this block, once all that they need wait with them."""
        machine = self.machine
        parked = ((machine.state == PARKED) & (machine.pc == block.start)).reshape(-1, LANES)
        live = (machine.state != ENDED).reshape(-1, LANES)
        whole = parked.any(axis=1) & (parked | ~live).all(axis=1) & ~complete[:, 0]
        machine.state.reshape(-1, LANES)[whole[:, None] & parked] = READY

    # -- nothing is ready

    def _release(self) -> None:
        """Let threads go on that wait for something that has come.

        Raises:
            Fault: none can.
        """
        machine = self.machine
        if machine.unit(Barriers).complete():
            return
        waiting = machine.state == PARKED
        if waiting.any():
            machine.state[waiting] = READY
            self._recheck()
            if (machine.state == READY).any():
                return
        raise Fault(self._deadlock())

    def _recheck(self) -> None:
        """Threads that wait at instructions of a warp: those whose other lanes have ended since go on."""
        machine = self.machine
        for at in np.unique(machine.pc[machine.state == READY]):
            block = self.code.blocks[int(at)]
            here = (machine.state == READY) & (machine.pc == at)
            machine.choose(here)
            machine.state[here] = PARKED
            live = (machine.state != ENDED).reshape(-1, LANES)
            mine = here.reshape(-1, LANES)
            complete = (mine | ~(live & self._members(block))).all(axis=1)[:, None] & mine
            machine.state[complete.reshape(-1)] = READY

    def _deadlock(self) -> Finding:
        machine = self.machine
        stuck = np.flatnonzero(machine.state != ENDED)
        thread = int(stuck[0])
        words = {
            PARKED: "waits for lanes of its warp that never come",
            SLEEPING: "waits for an asynchronous operation or a barrier in memory that never completes",
        }
        message = words.get(int(machine.state[thread]), "waits at a barrier that other threads never reach")
        return self._about(thread, Kind.DEADLOCK, message)

    def starvation(self) -> Finding:
        """Where a thread is that has not ended within the budget."""
        thread = int(np.flatnonzero(self.machine.state != ENDED)[0])
        message = f"has not ended after {self.meter.budget} lane-instructions"
        return self._about(thread, Kind.STARVATION, message)

    def _about(self, thread: int, kind: Kind, message: str) -> Finding:
        """A finding at a thread's program counter, or at the barrier that it waits at."""
        machine = self.machine
        at = machine.unit(Barriers).waits_at(thread)
        if at is None:
            at = min(int(machine.pc[thread]), len(self.code.compiled) - 1)
        return Finding(kind, message, self.code.compiled[at].instruction.site, machine.place(thread))
