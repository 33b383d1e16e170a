"""Loads that go straight to LDS, followed through a run: their data is there once vmcnt was waited for.

A program cannot be judged for them as for loads to registers: which of several buffers a pipelined loop reads
depends on the data. So each wave's loads are numbered, each word of LDS has the load that writes it, and a wait
settles all but the last few. The loading wave may read what is settled, other waves what was settled when a
barrier completed.

Source: CDNA3 ISA, "Memory Buffer Load to LDS"; CDNA4 ISA, the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.amdgcn.architecture import Generation
from portkit.emulate.amdgcn.execute import Block, Code
from portkit.emulate.amdgcn.isa.registry import Compiled, base_name
from portkit.emulate.amdgcn.machine import Access, Machine
from portkit.emulate.amdgcn.program import Instruction
from portkit.emulate.amdgcn.waits import issue_of, waits_of
from portkit.emulate.core.findings import Finding, Kind

COUNTER = "vmcnt"


def goes_to_lds(instruction: Instruction) -> bool:
    """Whether an instruction loads from global memory to LDS."""
    return "lds" in instruction.modifiers or base_name(instruction.mnemonic).startswith("global_load_lds_")


@dataclass(frozen=True)
class Plan:
    """Where a program issues and waits for operations of the counter, by instruction that runs."""

    issues: frozenset[int]  # lines
    waits: dict[int, int]  # line of an instruction → the fewest that waits right behind it leave out
    leading: dict[int, int]  # block → the same for waits at its start
    direct: frozenset[int]  # lines


def plan_of(code: Code) -> Plan | None:
    """None for programs without such loads."""
    direct = frozenset(item.instruction.site.line for item in code.compiled if goes_to_lds(item.instruction))
    if not direct:
        return None
    generation = code.program.architecture.generation
    issues = (item for item in code.compiled if COUNTER in _counters(item, generation))
    waits: dict[int, int] = {}
    leading: dict[int, int] = {}
    for block in code.blocks.values():
        _place_waits(code, block, waits, leading)
    return Plan(frozenset(item.instruction.site.line for item in issues), waits, leading, direct)


def _counters(item: Compiled, generation: Generation) -> tuple[str, ...]:
    issue = issue_of(item, generation)
    return issue.counters if issue else ()


def _place_waits(code: Code, block: Block, waits: dict[int, int], leading: dict[int, int]) -> None:
    """Hang each wait on the instruction before it that runs, or on the block."""
    ran = {item.instruction.site.line for item in block.body}
    last: int | None = None
    for item in code.compiled[block.start : block.after]:
        count = waits_of(item.instruction).get(COUNTER)
        if count is not None:
            table, key = (leading, block.start) if last is None else (waits, last)
            table[key] = min(count, table.get(key, count))
        elif item.instruction.site.line in ran:
            last = item.instruction.site.line


class DirectLoads:
    """The loads to LDS of one chunk.

    Attributes:
        issued: operations of the counter, by wave.
        settled: of those, how many have certainly ended.
        shared: the same as of the last barrier.
    """

    def __init__(self, plan: Plan, machine: Machine) -> None:
        self.plan, self.machine = plan, machine
        self.issued: NDArray[np.int64] = np.zeros(machine.waves, np.int64)
        self.settled, self.shared = self.issued.copy(), self.issued.copy()
        words = machine.shared.bytes.size // 4
        self.number: NDArray[np.int64] = np.zeros(words, np.int64)  # of the load that writes a word; 0: none
        self.wave: NDArray[np.int64] = np.zeros(words, np.int64)

    def on_block(self, machine: Machine, block: Block) -> None:
        """Waits at the start of a block."""
        if block.start in self.plan.leading:
            self._wait(machine, self.plan.leading[block.start])

    def before(self, machine: Machine, item: Compiled) -> None:
        """Number an operation."""
        if item.instruction.site.line in self.plan.issues:
            self.issued[machine.select] += 1

    def after(self, machine: Machine, item: Compiled) -> None:
        """Waits behind an instruction."""
        if item.instruction.site.line in self.plan.waits:
            self._wait(machine, self.plan.waits[item.instruction.site.line])

    def _wait(self, machine: Machine, count: int) -> None:
        done = self.issued[machine.select] - count
        self.settled[machine.select] = np.maximum(self.settled[machine.select], done)

    def at_barrier(self, machine: Machine, groups: NDArray[np.int64]) -> None:
        """Show workgroups' waves what each of them has waited for."""
        mine = np.isin(machine.group, groups)
        self.shared[mine] = self.settled[mine]

    def on_access(self, access: Access) -> None:
        """Judge an access to LDS, and note what writes its words."""
        at = access.at[:, None] + np.arange(0, access.size, 4)
        place, waves = at >> 2, access.waves[:, None]
        if not access.write and (early := self._early(place, waves)).any():
            self._note(access, int(np.argmax(early.any(axis=1))))
        if access.write:
            direct = access.site.line in self.plan.direct
            self.number[place] = self.issued[waves] if direct else 0
            self.wave[place] = waves

    def _early(self, place: NDArray[np.int64], waves: NDArray[np.int64]) -> NDArray[np.bool_]:
        number, loader = self.number[place], self.wave[place]
        limit = np.where(loader == waves, self.settled[loader], self.shared[loader])
        return np.asarray(number > limit)

    def _note(self, access: Access, which: int) -> None:
        offset = int(access.at[which]) % self.machine.shared.stride
        message = "shared memory is read before a wait for vmcnt has made sure of the load that goes there"
        place = self.machine.place(which, access.active)
        self.machine.note(Finding(Kind.MISSING_WAIT, message, access.site, place, offset, "shared"))
