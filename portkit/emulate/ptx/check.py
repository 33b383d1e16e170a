"""Attaches the checker to launches: judges the program once, and every access of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.checker import MANY, Conflict, Use, agent_of, lane_tags
from portkit.emulate.core.clocks import Clocks
from portkit.emulate.core.findings import Finding, Kind
from portkit.emulate.core.late import Kept
from portkit.emulate.core.memory import Memory
from portkit.emulate.core.races import LaneLedger
from portkit.emulate.core.watch import DONE, GlobalCheck, GlobalWatch, SharedCheck, use_of, values_of, verb_of
from portkit.emulate.ptx.definitions import unwritten_reads
from portkit.emulate.ptx.execute import Block, Code, Runner
from portkit.emulate.ptx.isa.atomics import orders_blocks
from portkit.emulate.ptx.isa.mbarriers import MemoryBarriers
from portkit.emulate.ptx.machine import LANES, Access, Machine
from portkit.emulate.ptx.program import Immediate, Instruction
from portkit.emulate.ptx.swaps import guesses


@dataclass(frozen=True)
class Judged:
    """What is known of a program before it runs."""

    findings: Mapping[int, Sequence[Finding]]  # first instruction of a block → what is wrong whatever the data
    guesses: frozenset[int] = frozenset()  # lines of loads that a compare-and-swap checks
    fences: bool = False  # whether it has some that order blocks
    meets: dict[int, bool] = field(default_factory=dict)  # threads of a block, as far as asked → ``meets_in_parts``

    def in_parts(self, code: Code, threads: int) -> bool:
        """``meets_in_parts`` of the program."""
        if threads not in self.meets:
            self.meets[threads] = meets_in_parts(code, threads)
        return self.meets[threads]


def judge(code: Code) -> Judged:
    """Judge a program."""
    return Judged(unwritten_reads(code), guesses(code), any(orders_blocks(item.instruction) for item in code.compiled))


class Check:
    """The checker of one launch.

    Args:
        judged: what is wrong with the program; noted where a thread runs it.
        memory: global memory.
        grid: blocks in x, y, z.
        own: end of what the driver keeps there for itself, where nothing is a race.
    """

    def __init__(self, judged: Judged, memory: Memory, grid: Sequence[int], own: int) -> None:
        self.judged = judged
        self.launch = GlobalWatch(memory, grid, own, judged.guesses, fences=judged.fences)

    def attach(self, runner: Runner) -> None:
        """Watch one chunk of blocks."""
        machine = runner.machine
        warps = machine.per_group // LANES
        whole = GlobalCheck(self.launch, machine.groups, warps, machine.note)
        if warps > 1 and self.judged.in_parts(runner.code, machine.per_group):
            machine.clocks = Clocks(len(machine.groups), warps)
        shared = SharedCheck(machine.shared, warps, machine.note, machine.clocks)
        if self.judged.findings:
            runner.watch = self._on_block
        if self.launch.needed(warps):
            machine.observer, machine.exchanged, machine.fenced = whole, whole.exchanged, whole.fenced
        made = MadeAndEnded(shared)
        lanes = Lanes(machine, shared) if "bar.warp.sync" in runner.code.names else None
        ends = any(name.startswith("mbarrier.inval") for name in runner.code.names)
        observers: list[Callable[[Access], None]] = [shared]
        observers += [Data(machine, shared)] if ends else []
        observers += [lanes] if lanes else []
        machine.unit(MemoryBarriers).all_end = ends
        machine.shared_observer = shared if len(observers) == 1 else _all_of(observers)
        machine.mbarrier_observer = made if warps > 1 else None
        machine.later_observer = shared.later
        runner.closing += [shared.ended, made.ledger.settle, *([lanes.ledger.settle] if lanes else [])]

        def synchronised(groups: NDArray[np.int64]) -> None:
            whole.at_barrier(groups)
            shared.at_barrier(groups)
            made.ledger.at_barrier(groups)
            if lanes:
                lanes.at_barrier(groups)

        def settled(start: int, end: int) -> None:
            shared.settle(start, end)
            if lanes:
                lanes.ledger.forget_range(start, end)

        machine.synchronised, machine.settled = synchronised, settled
        machine.lanes_synchronised = lanes.meet if lanes else None

    def _on_block(self, machine: Machine, block: Block) -> None:
        for finding in self.judged.findings.get(block.start, ()):
            machine.note(dataclasses.replace(finding, place=machine.place(int(machine.selected[0]))))


def meets_in_parts(code: Code, threads: int) -> bool:
    """Whether some of a block's threads meet without the others: at a barrier for fewer, or at an mbarrier.

    Args:
        code: the program.
        threads: of a block.
    """
    return any(_in_parts(item.instruction, threads) for item in code.compiled)


def _in_parts(instruction: Instruction, threads: int) -> bool:
    name = instruction.name
    if name.startswith("mbarrier.arrive"):
        return "expect_tx" not in name
    if not name.startswith(("bar.", "barrier.")) or "warp" in name:
        return False
    if "arrive" in instruction.modifiers:
        return True
    *_, count = instruction.operands
    counts = len(instruction.operands) > 1 and "red" not in instruction.modifiers
    return counts and not (isinstance(count, Immediate) and int(count.text, 0) == threads)


def _all_of(observers: Sequence[Callable[[Access], None]]) -> Callable[[Access], None]:
    """Each of them sees every access."""

    def observe(access: Access) -> None:
        for each in observers:
            each(access)

    return observe


class Data:
    """Whether data is written where an mbarrier lives.

    Of programs that end mbarriers. Triton before 3.8 ends none in some specialised kernels, and puts data where they
    were; the device does not mind.

    Args:
        machine: of the chunk.
        shared: that keeps findings.
    """

    def __init__(self, machine: Machine, shared: SharedCheck) -> None:
        self.machine, self.shared = machine, shared

    def __call__(self, access: Access) -> None:
        """Judge an access that is about to be made."""
        if access.write and (which := self.machine.unit(MemoryBarriers).living(access)) is not None:
            message = "writes data where an mbarrier lives: no mbarrier.inval ended it"
            self.shared.found(Kind.UNDEFINED, message, access, which, int(access.at[which]))


class Lanes:
    """Whether lanes of a warp touch a byte with no ``bar.warp.sync`` between, nor a barrier of the block.

    Of programs that synchronise lanes so; in others Triton leaves none to it.

    Args:
        machine: of the chunk.
        shared: that keeps findings.
    """

    def __init__(self, machine: Machine, shared: SharedCheck) -> None:
        self.shared = shared
        self.epochs: NDArray[np.int64] = np.zeros(machine.threads // LANES, np.int64)
        self.ledger = LaneLedger(shared.shared.bytes.size, self.epochs.size, self._found)
        self._of_block = np.arange(self.epochs.size).reshape(len(machine.groups), -1)

    def at_barrier(self, groups: NDArray[np.int64]) -> None:
        """What blocks did before comes before what they do from here on."""
        self._order(self._of_block[groups].reshape(-1))

    def meet(self, warps: NDArray[np.int64]) -> None:
        """The same of warps, which may stand there more than once."""
        self._order(np.unique(warps))

    def _order(self, warps: NDArray[np.int64]) -> None:
        self.epochs = self.epochs.copy()  # accesses that are kept have that of their time
        self.epochs[warps] += 1
        self.ledger.at_barrier(warps)

    def __call__(self, access: Access) -> None:
        """Judge an access that is about to be made."""
        if not access.at.size:
            return
        use, warps, epochs = use_of(access), access.threads // LANES, self.epochs

        def tags() -> NDArray[np.int64]:
            return lane_tags(warps, epochs[warps], access.threads % LANES)

        words = access.words if use is Use.WRITE else None
        if (words is not None or use is not Use.WRITE) and self.ledger.keep(
            Kept(use, access.at, access.size, tags, words, access), warps
        ):
            return
        values = values_of(access, self.shared.shared)
        conflict = self.ledger.note_of(warps, use, access.at, access.size, tags(), values)
        if conflict:
            self._found(access, conflict)

    def _found(self, access: Access, conflict: Conflict) -> None:
        other = agent_of(conflict.other)
        by = "other lanes" if other is None else f"lane {other}"
        message = f"{verb_of(access)} a byte that {by} of its warp {DONE[conflict.use]}, with no bar.warp.sync between"
        self.shared.found(Kind.SHARED_RACE, message, access, conflict.which, conflict.byte)


class MadeAndEnded:
    """Whether an mbarrier is made before, and ended behind, all that other warps do with it.

    Arrivals, waits and copies that name it are in no order among themselves; with its ``init`` and ``inval`` a barrier
    of the block must order them. They are apart from accesses to its bytes as data.

    Args:
        shared: what is known of the chunk's warps.
    """

    def __init__(self, shared: SharedCheck) -> None:
        self.shared = shared
        self.ledger = shared.new_ledger(self._found)

    def __call__(self, access: Access) -> None:
        """Judge the use of mbarriers, as ``atomic``, or that they are made or ended."""
        use = Use.ATOMIC if access.atomic else Use.WRITE
        if self.shared.kept(self.ledger, use, access):
            return
        groups, tags = access.spread(self.shared.group), access.spread(self.shared.tags)
        conflict = self.ledger.note_of(groups, use, access.at, access.size, tags)
        if conflict:
            self._found(access, conflict)

    def _found(self, access: Access, conflict: Conflict) -> None:
        other = "several warps" if conflict.other == MANY else f"warp {conflict.other - 1}"
        verbs = ("uses", "made or ended") if access.atomic else ("makes or ends", "used")
        message = f"{verbs[0]} an mbarrier that {other} {verbs[1]}, with no barrier between"
        at, place = conflict.byte % self.shared.shared.stride, access.place(conflict.which)
        self.shared.note(Finding(Kind.SHARED_RACE, message, access.site, place, at, "shared"))
