"""Runs the waves of a machine block by block.

A block is a run of instructions that waves enter at the first and leave behind the last one. Waves that are
at the same block run it together.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.amdgcn.decode import Step
from portkit.emulate.amdgcn.isa.control import IGNORED, ends_block
from portkit.emulate.amdgcn.isa.lookup import compile_instruction
from portkit.emulate.amdgcn.isa.registry import Compiled, base_name
from portkit.emulate.amdgcn.machine import Machine
from portkit.emulate.amdgcn.operands import File
from portkit.emulate.amdgcn.program import Program
from portkit.emulate.core.findings import Fault, Finding, Halt, Kind, Place
from portkit.emulate.core.running import Blocks, Meter
from portkit.emulate.core.schedule import ENDED, READY, WAITING, Schedule


@dataclass(frozen=True)
class Block:
    """Instructions that run one after another."""

    start: int  # index of the first
    body: tuple[Compiled, ...]  # without those that change no state
    steps: tuple[Step, ...] = field(repr=False)  # of ``body``
    after: int  # index of the instruction behind the block
    last: Step | None = field(repr=False)  # the control instruction that ends it; None: it falls through
    counted: int  # instructions, those without effect left out


@dataclass(frozen=True)
class Code:
    """A program whose every instruction has its step."""

    program: Program
    compiled: tuple[Compiled, ...]
    blocks: Blocks[Block]  # by first instruction
    entry: int
    vectors: int  # vector registers that a wave needs, accumulation registers included

    @functools.cached_property
    def locks(self) -> bool:
        """Whether it may spin on a lock: it compares and swaps."""
        names = (item.instruction.mnemonic for item in self.compiled)
        return any("cmpswap" in name or "cmpst" in name for name in names)


def build(program: Program) -> Code:
    """Compile every instruction and cut the program into blocks.

    Raises:
        Unsupported: an instruction is not modelled.
    """
    return cut(program, tuple(compile_instruction(program, item) for item in program.instructions))


def cut(program: Program, compiled: tuple[Compiled, ...]) -> Code:
    """Cut a program into blocks. ``compiled`` has one item for each of its instructions."""
    entry = entry_of(program)
    starts = _starts(program, compiled, entry)
    ends = [*starts[1:], len(compiled)]
    found = {start: _block(compiled, start, end) for start, end in zip(starts, ends, strict=True)}
    blocks = Blocks(found, compiled[-1].instruction.site)
    return Code(program, compiled, blocks, entry, _vector_registers(program, compiled))


def entry_of(program: Program) -> int:
    """Where waves begin.

    With preloaded kernel arguments the first 256 bytes load them for firmware that can't preload; the
    firmware that can enters behind them (LLVM, AMDGPU usage, "Preloaded Kernel Arguments").
    """
    begin = program.labels.get(program.name, 0)
    preloads = program.directive("user_sgpr_kernarg_preload_length") > 0
    behind = [at for at in program.aligned if at > begin]
    return behind[0] if preloads and behind else begin


def _starts(program: Program, compiled: tuple[Compiled, ...], entry: int) -> list[int]:
    """First instructions of all blocks."""
    starts = {0, entry, *program.entries}
    for index, item in enumerate(step.instruction for step in compiled):
        if ends_block(item):
            starts.add(index + 1)
            starts.update(program.labels[name] for name in item.operands if name in program.labels)
    return sorted(start for start in starts if start < len(compiled))


def _block(compiled: tuple[Compiled, ...], start: int, end: int) -> Block:
    items = compiled[start:end]
    last = items[-1].step if ends_block(items[-1].instruction) else None
    straight = items[:-1] if last else items
    body = tuple(item for item in straight if base_name(item.instruction.mnemonic) not in IGNORED)
    return Block(start, body, tuple(item.step for item in body), end, last, len(body))


Watch = Callable[[Machine, Block], bool]
"""Called before a block runs; true where the block must run through ``watched``."""


class Runner:
    """Runs one chunk of workgroups to its end.

    Args:
        code: what runs.
        machine: the waves.
        schedule: which of them run next.
        meter: counts, and stops at the budget.
        before: called before each instruction of a block for which ``watch`` is true.
    """

    def __init__(self, code: Code, machine: Machine, schedule: Schedule, meter: Meter) -> None:
        self.code, self.machine, self.schedule, self.meter = code, machine, schedule, meter
        self.watch: Watch | None = None
        self.before: Callable[[Machine, Compiled], None] | None = None
        self.after: Callable[[Machine, Compiled], None] | None = None
        self.closing: list[Callable[[], None]] = []  # called when the chunk has run, or can't go on
        self.at_barrier: Callable[[Machine, NDArray[np.int64]], None] | None = None
        machine.pc[:] = code.entry

    def run(self) -> None:
        """Run until every wave has ended.

        Raises:
            Halt: a fault, something unsupported, or more work than allowed.
        """
        machine = self.machine
        while True:
            ready = machine.state == READY
            if ready.any():
                machine.choose(self.schedule.pick(ready, machine.pc, machine.waves_per_group))
                self._run_block(self.code.blocks[int(machine.pc[machine.select][0])])
            elif (machine.state == ENDED).all():
                return
            if machine.state.any() and not self._waits_long() and (machine.state == WAITING).any():
                self._barriers(stuck=not ready.any())

    def _waits_long(self) -> bool:
        """Whether barriers are left alone as long as a wave can go on, but for now and then.

        In a kernel with a lock, workgroups that spin on it would else run most of the time: so they wait at the barrier
        of their loop until its holder comes to one, too.
        """
        patient = self.code.locks and not self.schedule.turns
        return patient and bool((self.machine.state == READY).any())

    def _run_block(self, block: Block) -> None:
        machine = self.machine
        self.meter.add(block.counted + (block.last is not None), machine.count * machine.lanes)
        if self.watch and self.watch(machine, block):
            self._run_watched(block)
        else:
            self._run_plain(block)
        machine.pc[machine.select] = block.after
        if block.last:
            block.last(machine)

    def _run_plain(self, block: Block) -> None:
        machine, number = self.machine, 0
        try:
            for number, step in enumerate(block.steps):  # noqa: B007 - names the instruction of an error
                step(machine)
        except Halt:
            raise
        except Exception as error:
            site = block.body[number].instruction.site
            raise RuntimeError(f"emulator failed at line {site.line} `{site.text}`") from error

    def _run_watched(self, block: Block) -> None:
        for item in block.body:
            if self.before:
                self.before(self.machine, item)
            item.step(self.machine)
            if self.after:
                self.after(self.machine, item)

    def _barriers(self, stuck: bool) -> None:
        """Complete barriers that every live wave has signalled, and let waves on that waited for them."""
        machine = self.machine
        live = machine.state != ENDED
        signals = np.where(live, machine.signals, np.iinfo(np.int64).max).reshape(len(machine.groups), -1).min(axis=1)
        done = (signals > machine.passed) & (signals < np.iinfo(np.int64).max)
        machine.passed[done] += 1
        if self.at_barrier and done.any():
            self.at_barrier(machine, np.flatnonzero(done))
        freed = (machine.state == WAITING) & (machine.waits <= machine.passed[machine.group])
        machine.state[freed] = READY
        if stuck and not freed.any():
            raise Fault(self._deadlock())

    def _deadlock(self) -> Finding:
        wave = int(np.flatnonzero(self.machine.state == WAITING)[0])
        return self._about(wave, Kind.DEADLOCK, "waits at a barrier that other waves never reach", -1)

    def starvation(self) -> Finding:
        """Where a wave is that has not ended within the budget."""
        wave = int(np.flatnonzero(self.machine.state != ENDED)[0])
        return self._about(wave, Kind.STARVATION, f"has not ended after {self.meter.budget} lane-instructions", 0)

    def _about(self, wave: int, kind: Kind, message: str, behind: int) -> Finding:
        """A finding at a wave's program counter, or ``behind`` instructions further on."""
        machine = self.machine
        site = self.code.compiled[int(machine.pc[wave]) + behind].instruction.site
        return Finding(kind, message, site, Place(machine.groups[machine.group[wave]], wave % machine.waves_per_group))


def _vector_registers(program: Program, compiled: tuple[Compiled, ...]) -> int:
    used = [index for item in compiled for file, index in item.uses.reads | item.uses.writes if file is File.VECTOR]
    return max([program.directive("next_free_vgpr"), *(index + 1 for index in used), 1])
