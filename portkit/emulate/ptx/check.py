"""Attaches the checker to launches: judges the program once, and every access of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from portkit.emulate.core.checker import MANY, SharedLedger, Use
from portkit.emulate.core.findings import Finding, Kind
from portkit.emulate.core.memory import Memory
from portkit.emulate.core.watch import GlobalCheck, GlobalWatch, SharedCheck
from portkit.emulate.ptx.definitions import unwritten_reads
from portkit.emulate.ptx.execute import Block, Code, Runner
from portkit.emulate.ptx.isa.mbarriers import MemoryBarriers
from portkit.emulate.ptx.machine import LANES, Access, Machine


@dataclass(frozen=True)
class Judged:
    """What is known of a program before it runs."""

    findings: Mapping[int, Sequence[Finding]]  # first instruction of a block → what is wrong whatever the data


def judge(code: Code) -> Judged:
    """Judge a program."""
    return Judged(unwritten_reads(code))


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
        self.launch = GlobalWatch(memory, grid, own)

    def attach(self, runner: Runner) -> None:
        """Watch one chunk of blocks."""
        machine = runner.machine
        warps = machine.per_group // LANES
        whole = GlobalCheck(self.launch, machine.groups, warps, machine.note)
        shared = SharedCheck(machine.shared, warps, machine.note)
        if self.judged.findings:
            runner.watch = self._on_block
        if self.launch.needed(warps):
            machine.observer = whole
        ends = any(item.instruction.name.startswith("mbarrier.inval") for item in runner.code.compiled)
        machine.unit(MemoryBarriers).all_end = ends
        machine.shared_observer, machine.settled = Data(machine, shared) if ends else shared, shared.settle
        made = MadeAndEnded(shared)
        machine.mbarrier_observer = made if warps > 1 else None

        def synchronised(group: int) -> None:
            whole.at_barrier(group)
            shared.at_barrier(group)
            made.ledger.at_barrier(group)

        machine.synchronised = synchronised

    def _on_block(self, machine: Machine, block: Block) -> None:
        for finding in self.judged.findings.get(block.start, ()):
            machine.note(dataclasses.replace(finding, place=machine.place(int(machine.selected[0]))))


class Data:
    """Accesses to shared memory as data: in order, and never writes where an mbarrier lives.

    Of programs that end mbarriers. Triton before 3.8 ends none in some specialised kernels, and puts data where they
    were; the device does not mind.

    Args:
        machine: of the chunk.
        shared: that judges their order.
    """

    def __init__(self, machine: Machine, shared: SharedCheck) -> None:
        self.machine, self.shared = machine, shared

    def __call__(self, access: Access) -> None:
        """Judge an access that is about to be made."""
        if access.write and (which := self.machine.unit(MemoryBarriers).living(access)) is not None:
            message = "writes data where an mbarrier lives: no mbarrier.inval ended it"
            self.shared.found(Kind.UNDEFINED, message, access, which, int(access.at[which]))
        self.shared(access)


class MadeAndEnded:
    """Whether an mbarrier is made before, and ended behind, all that other warps do with it.

    Arrivals, waits and copies that name it are in no order among themselves; with its ``init`` and ``inval`` a barrier
    of the block must order them. They are apart from accesses to its bytes as data.

    Args:
        shared: what is known of the chunk's warps.
    """

    def __init__(self, shared: SharedCheck) -> None:
        self.shared = shared
        self.ledger = SharedLedger(shared.shared.groups, shared.shared.stride)

    def __call__(self, access: Access) -> None:
        """Judge the use of mbarriers, as ``atomic``, or that they are made or ended."""
        groups, tags = access.spread(self.shared.group), access.spread(self.shared.tags)
        use = Use.ATOMIC if access.atomic else Use.WRITE
        conflict = self.ledger.note_of(groups, use, access.at, access.size, tags)
        if conflict is None:
            return
        other = "several warps" if conflict.other == MANY else f"warp {conflict.other - 1}"
        verbs = ("uses", "made or ended") if access.atomic else ("makes or ends", "used")
        message = f"{verbs[0]} an mbarrier that {other} {verbs[1]}, with no barrier between"
        at, place = conflict.byte % self.shared.shared.stride, access.place(conflict.which)
        self.shared.note(Finding(Kind.SHARED_RACE, message, access.site, place, at, "shared"))
