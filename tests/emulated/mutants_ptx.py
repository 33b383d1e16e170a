"""What deletions of PTX instructions need beside those of AMD's: kinds of instructions, programs without one, and
whether what ordered something was needed.

A barrier, wait or commit is needed where the kernel, without it, leaves other bits when its warps run first to last,
or last to first: a pair of accesses that it ordered comes the other way round in one of the two. This says nothing of
fences between proxies, whose absence no order of warps shows; those count as needed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from portkit.emulate.ptx.decode import Uses
from portkit.emulate.ptx.execute import Code, cut
from portkit.emulate.ptx.isa.families import PASSES
from portkit.emulate.ptx.isa.registry import Compiled, compile_instruction
from portkit.emulate.ptx.launch import Launch
from portkit.emulate.ptx.machine import Machine
from portkit.emulate.ptx.program import Register
from portkit.emulate.ptx.types import Type

_BARRIER = re.compile(r"(bar|barrier)\.(?!warp)|mbarrier\.(init|arrive|expect_tx)|tcgen05\.commit|.*\.mbarrier::arrive")
_WAIT = re.compile(
    r"mbarrier\.(try|test)_wait|.*\.(wait|commit)_group|.*\.wait_all|wgmma\.fence|tcgen05\.wait|fence\.proxy"
)
_HINT = re.compile(r"ret$|exit$|mbarrier\.inval|tcgen05\.(dealloc|relinquish)|bar\.warp|trap$")


def kind_of(code: Code, index: int) -> str:
    """``barrier``, ``wait`` (commits and fences among them), ``hint`` or ``other``."""
    item = code.compiled[index]
    name = name_of(item)
    if not item.entry.changes or _HINT.match(name):
        return "hint"
    if _BARRIER.match(name):
        return "barrier"
    return "wait" if _WAIT.match(name) else "other"


def name_of(item: Compiled) -> str:
    """Opcode with its modifiers."""
    return ".".join((item.instruction.opcode, *item.instruction.modifiers))


def without(code: Code, index: int) -> Code:
    """The program with one instruction replaced by one that does nothing."""
    compiled = list(_compiled(code))
    old = compiled[index]
    entry = replace(old.entry, ends=False, begins=False, collective=False, masked=False, changes=False)
    compiled[index] = replace(old, entry=entry, step=lambda machine: None, uses=Uses(), members=None)
    passed = tuple(compiled)
    for each in PASSES:
        passed = each(code.program, passed)
    return cut(code.program, passed)


_COMPILED: dict[int, tuple[Code, tuple[Compiled, ...]]] = {}


def _compiled(code: Code) -> tuple[Compiled, ...]:
    """Instructions before the passes, which must see a deletion; of the last program alone."""
    if id(code) not in _COMPILED:
        _COMPILED.clear()
        _COMPILED[id(code)] = code, tuple(compile_instruction(code.program, item) for item in code.program.instructions)
    return _COMPILED[id(code)][1]


def is_fence(code: Code, index: int) -> bool:
    """Whether no order of warps could show its absence."""
    return "fence" in name_of(code.compiled[index])


def class_of(code: Code, index: int, launches: Sequence[Launch]) -> str:
    """What is known of a deletion that changes nothing, as in ``survivors.py``: equal, skips, dead or lost."""
    item = code.compiled[index]
    if item.entry.ends:
        return "skips"
    if not any(_changes(code, index, launch) for launch in launches):
        return "equal"
    reads: set[Register] = set().union(*(other.uses.reads for other in code.compiled))
    return "dead" if item.uses.writes and not item.uses.writes & reads else "lost"


def _changes(code: Code, index: int, launch: Launch) -> bool:
    """Whether its registers ever hold other bits behind it than before; of a store: whether it runs."""
    whole = _compiled(code)  # without the passes, by which some instructions run at the place of others
    item, changed = whole[index], [False]

    def step(machine: Machine) -> None:
        before = _values(machine, item)
        item.step(machine)
        changed[0] |= not before or not all(map(np.array_equal, before, _values(machine, item)))

    compiled = (*whole[:index], replace(item, step=step), *whole[index + 1 :])
    launch.code = cut(code.program, compiled)
    launch.run()
    return changed[0]


_KINDS = {1: Type.PRED, 16: Type.B16, 32: Type.B32, 64: Type.B64, 128: Type.B128}


def _values(machine: Machine, item: Compiled) -> list[np.ndarray]:
    return [np.array(machine.rows[_KINDS[each.bits]][each.index]) for each in item.uses.writes]
