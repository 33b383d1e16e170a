"""Why a kernel does the same without an instruction: what can be seen of it in runs of the whole kernel.

=========  ==============================================================================================
equal      whenever it runs, its registers already hold what it writes
skips      a branch that is never taken, or only over code that no lane runs
dead       what it writes is never read before it is overwritten
flags      its result is read as the fourth word of buffer descriptors alone, which holds flags
refines    a step of a division behind the estimate of the reciprocal, which the emulator rounds right already
lost       it writes other bits, and they are read, but go to lanes or bits that no result is made of
=========  ==============================================================================================
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from portkit.emulate.amdgcn.execute import Block, Code
from portkit.emulate.amdgcn.isa.control import CONDITIONS
from portkit.emulate.amdgcn.isa.registry import Compiled, base_name
from portkit.emulate.amdgcn.machine import Machine
from portkit.emulate.amdgcn.operands import EXEC, File, Type, parse_register

CLASSES = ("equal", "skips", "dead", "flags", "refines", "lost")

_SKIPS = frozenset({"s_cbranch_execz", "s_cbranch_execnz"})
_SCC = ("scc", 0)
_READS_SCC = re.compile(r"s_(cbranch_scc|cselect|cmov|addc|subb|add_co_ci|sub_co_ci)")
_WRITES_SCC = re.compile(
    r"s_(?!mov|load|cselect|cmov|cbranch|branch|bitset|brev|ff1|ctz|flbit|clz|cls|bfm|mul|pack|sext|movk|getreg|setreg)"
)
_ESTIMATE = re.compile(r"v_(rcp|rsq|div_scale)")
_QUOTIENT = re.compile(r"v_(div_fmas|div_fixup|cvt_u32_f32|cvt_i32_f32)")
_STEP = re.compile(r"v_(dual_)?(fma|fmac|mul|fmaak|fmamk)_f(32|64)")
_NEAR = 40
"""Instructions within which a division has both ends."""

_FLAGS = 3
"""Place of the word of flags in a buffer descriptor."""


@dataclass
class Effects:
    """What the instructions of a kernel did in some runs."""

    code: Code
    changed: set[int] = field(default_factory=set)  # left other bits than were there
    partial: set[int] = field(default_factory=set)  # ran with some lanes disabled
    taken: set[int] = field(default_factory=set)  # branches
    live: set[int] = field(default_factory=set)  # wrote what was read later
    plain: set[int] = field(default_factory=set)  # the same, reads as flags of a descriptor left out
    traces: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))  # of the chunk that runs

    def __post_init__(self) -> None:
        self.index_of = {item.instruction.site.line: number for number, item in enumerate(self.code.compiled)}

    def attach(self, runner) -> None:
        """Watch one chunk of workgroups."""
        self.end()
        runner.watch, runner.before, runner.after = self._enter, self._before, self._after

    def _enter(self, machine: Machine, block: Block) -> bool:
        """Waves that come from elsewhere than the instruction before have taken a branch."""
        for wave in machine.selected():
            trace = self.traces[int(wave)]
            if trace and trace[-1] != block.start - 1:
                self.taken.add(trace[-1])
            trace.extend(range(block.start, block.after))
        return True

    def _before(self, machine: Machine, item: Compiled) -> None:
        if not machine.full:
            self.partial.add(self.index_of[item.instruction.site.line])
        self.held = _values(machine, item)

    def _after(self, machine: Machine, item: Compiled) -> None:
        if not all(map(np.array_equal, self.held, _values(machine, item))):
            self.changed.add(self.index_of[item.instruction.site.line])

    def end(self) -> None:
        """After a chunk: what each wave read of what it had written. Vector writes of some lanes end no value."""
        for trace in self.traces.values():
            self._wanted(trace, self.live, _read)
            self._wanted(trace, self.plain, _read_plainly)
        self.traces.clear()

    def _wanted(self, trace: list[int], found: set[int], read: Callable[[Compiled], set]) -> None:
        wanted: set = set()
        for number in reversed(trace):
            item = self.code.compiled[number]
            written = _written(item)
            if written & wanted:
                found.add(number)
            wanted -= {place for place in written if place[0] is not File.VECTOR or number not in self.partial}
            wanted |= read(item)


def _values(machine: Machine, item: Compiled) -> list[np.ndarray]:
    files = {File.VECTOR: machine.vector, File.SCALAR: machine.scalar}
    registers = [
        np.array(files[file][Type.U32][index][machine.select]) for file, index in sorted(item.uses.writes, key=str)
    ]
    return [*registers, machine.exec.copy(), machine.scc.copy(), machine.fp16_overflow.copy()]


def _written(item: Compiled) -> set:
    scc = {_SCC} if _WRITES_SCC.match(item.instruction.mnemonic) else set()
    return item.uses.writes | scc


def _read(item: Compiled) -> set:
    scc = {_SCC} if _READS_SCC.match(item.instruction.mnemonic) else set()
    vector = {(File.SCALAR, EXEC), (File.SCALAR, EXEC + 1)}
    return item.uses.reads | scc | vector


def _read_plainly(item: Compiled) -> set:
    """Without the word of flags, which the emulator does not model."""
    if not item.instruction.mnemonic.startswith("buffer_"):
        return _read(item)
    registers = [parse_register(text, 256) for text in item.instruction.operands]
    found = (each for each in registers if each and each.file is File.SCALAR and each.count == 4)
    return _read(item) - {(File.SCALAR, each.index + _FLAGS) for each in found}


def effects_of(code: Code, launches) -> Effects:
    """Effects over some launches, each of which takes a list of functions to attach."""
    effects = Effects(code)
    for launch in launches:
        launch.attach.append(effects.attach)
        launch.run()
    effects.end()
    return effects


def _refines(code: Code, index: int) -> bool:
    """Whether it stands in a division."""
    names = [item.instruction.mnemonic for item in code.compiled[max(0, index - _NEAR) : index + _NEAR]]
    place = index - max(0, index - _NEAR)
    ends = any(map(_ESTIMATE.match, names[:place])) and any(map(_QUOTIENT.match, names[place + 1 :]))
    return bool(_STEP.match(names[place])) and ends


def class_of(effects: Effects, index: int) -> str:
    """One of ``CLASSES``."""
    item = effects.code.compiled[index]
    name = base_name(item.instruction.mnemonic)
    if name in _SKIPS or (name in CONDITIONS and index not in effects.taken):
        return "skips"
    if name not in CONDITIONS and index not in effects.changed:
        return "equal"
    if item.uses.writes and index not in effects.live:
        return "dead"
    if item.uses.writes and index not in effects.plain:
        return "flags"
    if _refines(effects.code, index):
        return "refines"
    return "lost"
