"""Runs the threads of a machine block by block.

A block is a run of instructions that threads enter at the first and leave behind the last one. Threads that are at
the same block run it together; where instructions need all lanes of a warp, lanes that come first wait for the others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from portkit.emulate.core.findings import Fault, Finding, Halt, Kind
from portkit.emulate.core.running import Blocks, Meter
from portkit.emulate.core.schedule import ENDED, READY, Order, Schedule
from portkit.emulate.ptx.decode import Read, Step
from portkit.emulate.ptx.isa.barriers import Barriers
from portkit.emulate.ptx.isa.joint import Roots, roots_of
from portkit.emulate.ptx.isa.registry import NOT_RUN, Compiled, Pass
from portkit.emulate.ptx.machine import LANES, PARKED, SLEEPING, Array, Machine, Mask, Threads, bits_of
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
    roots = roots_of(compiled)
    found = {start: _block(program, compiled, (start, end), roots) for start, end in zip(starts, ends, strict=True)}
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
        together = whole or (together and not item.entry.collective)  # lanes of other masks come later
        if item.entry.ends:
            starts.add(index + 1)
            together = False
    return sorted(start for start in starts if start < len(compiled))


def _block(program: Program, compiled: tuple[Compiled, ...], part: tuple[int, int], roots: Roots) -> Block:
    start, end = part
    items = compiled[start:end]
    last = items[-1].step if items[-1].entry.ends else None
    straight = items[:-1] if last else items
    body = [item for item in straight if item.entry.changes]
    order = arranged(program, body, roots)
    firsts, steps = tuple(first for first, _ in order), tuple(step for _, step in order)
    return Block(start, steps, firsts, end, last, len(body), items[0].entry.collective, items[0].members)


def _by_lane(machine: Machine, threads: Threads) -> Mask:
    """``[warps, 32]``: true for some threads."""
    found: Mask = np.zeros((machine.threads // LANES, LANES), np.bool_)
    found.reshape(-1)[threads] = True
    return found


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
            block = self.code.blocks[machine.uniform] if machine.uniform is not None and fast else None
            if block and not block.members:
                machine.choose_all()
                self._run_block(block)
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
        """Select the lanes that are complete, and let others wait for theirs; False where none are.

        Those that wait here already come along. Of lanes of a warp with several masks those of one run at a time.
        """
        machine = self.machine
        machine.uniform = None
        here = _by_lane(machine, machine.selected)
        parked = ((machine.state == PARKED) & (machine.pc == block.start)).reshape(-1, LANES)
        here |= parked & here.any(axis=1)[:, None]
        complete = self._complete(block, here)
        machine.halt(PARKED, np.flatnonzero(here & ~complete))
        chosen = np.flatnonzero(complete)
        if block.members is not None:
            chosen = self._of_one_mask(block, complete)
        machine.state[chosen] = READY
        machine.select_threads(chosen)
        return chosen.size > 0

    def _complete(self, block: Block, here: Mask) -> Mask:
        """``[warps, 32]``: which lanes have all that they need, of those that are at a block."""
        live = (self.machine.state != ENDED).reshape(-1, LANES)
        if block.members is None:
            return here & (here | ~live).all(axis=1)[:, None]
        masks = self._masks(block, here)
        self._check_own(block, here, masks)
        alike = (masks[:, :, None] == masks[:, None, :]) & here[:, None, :]
        have = np.packbits(alike, axis=2, bitorder="little").view(np.uint32)[:, :, 0]
        return here & (masks.astype(np.uint32) & bits_of(live)[:, None] & ~have == 0)

    def _masks(self, block: Block, here: Mask) -> Array:
        """Of lanes at a block, ``[warps, 32]``; of others 0."""
        machine = self.machine
        masks = np.zeros(here.shape, np.uint64)
        if block.members is not None:
            machine.select_threads(np.flatnonzero(here))
            masks[here] = machine.spread(np.asarray(block.members(machine)))
        return masks

    def _of_one_mask(self, block: Block, complete: Mask) -> Threads:
        """Of each warp, the complete lanes that have the mask of the first one."""
        masks = self._masks(block, complete)
        first = np.argmax(complete, axis=1)[:, None]
        return np.flatnonzero(complete & (masks == np.take_along_axis(masks, first, 1)))

    def _check_own(self, block: Block, here: Mask, masks: Array) -> None:
        """Refuse a mask without its own lane.

        Raises:
            Fault: there is one.
        """
        without = here & (masks != NOT_RUN) & (masks >> np.arange(LANES, dtype=np.uint64) & np.uint64(1) == 0)
        if without.any():
            thread = int(np.argmax(without))
            message = f"a lane that is not in its own mask of members, {masks.reshape(-1)[thread]:#x}"
            site = self.code.compiled[block.start].instruction.site
            raise Fault(Finding(Kind.UNDEFINED, message, site, self.machine.place(thread)))

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
            here = (machine.state == READY) & (machine.pc == at)
            machine.state[here] = PARKED
            complete = self._complete(self.code.blocks[int(at)], here.reshape(-1, LANES))
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
