"""What mutants of AMD's instructions need: kinds of instructions, and programs with one of them changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from portkit.emulate.amdgcn.execute import Code, cut
from portkit.emulate.amdgcn.isa.control import IGNORED
from portkit.emulate.amdgcn.isa.lookup import compile_instruction
from portkit.emulate.amdgcn.isa.registry import base_name
from portkit.emulate.amdgcn.program import Instruction
from portkit.emulate.amdgcn.waits import waits_of

if TYPE_CHECKING:
    from mutants import Change

_MOST = {"vmcnt": 63, "loadcnt": 63, "storecnt": 63, "dscnt": 63, "vscnt": 63}
"""Of what a counter may be asked to come down to; of others 15."""


def kind_of(code: Code, index: int) -> str:
    """``barrier``, ``wait``, ``hint`` or ``other``."""
    instruction = code.compiled[index].instruction
    name = base_name(instruction.mnemonic)
    if name.startswith("s_barrier"):
        return "barrier"
    if waits_of(instruction):
        return "wait"
    return "hint" if name in IGNORED or name in {"s_endpgm", "s_sendmsg"} else "other"


def weaker(code: Code, index: int) -> list[str]:
    """Names of the changes of a wait: each of its counters may have one operation more out."""
    counts = waits_of(code.compiled[index].instruction)
    return [f"{counter}({count + 1})" for counter, count in counts.items() if count < _MOST.get(counter, 15)]


def changed(code: Code, change: Change) -> Code:
    """The program with one instruction changed, or replaced by one that does nothing."""
    old = code.compiled[change.index].instruction
    counts = waits(code, change)
    nothing = replace(old, mnemonic="s_nop", operands=("0",), modifiers={}, second=None)
    compiled = list(code.compiled)
    compiled[change.index] = compile_instruction(code.program, _waiting(old, counts) if counts else nothing)
    return cut(code.program, tuple(compiled))


def waits(code: Code, change: Change) -> Mapping[str, int]:
    """Counter → operations that may be out behind a changed wait; empty where it is deleted."""
    found = re.fullmatch(r"(\w+)\((\d+)\)", change.name)
    if not found:
        return {}
    return waits_of(code.compiled[change.index].instruction) | {found[1]: int(found[2])}


def _waiting(old: Instruction, counts: Mapping[str, int]) -> Instruction:
    """A wait for other counts; its text is what it is read from."""
    name, text = old.mnemonic, old.site.text
    if name == "s_waitcnt":
        words = " ".join(f"{counter}({count})" for counter, count in counts.items())
        return replace(old, site=replace(old.site, text=f"s_waitcnt {words}"))
    first, *more = counts.values()
    number = first << 8 | more[0] if more else first
    return replace(old, site=replace(old.site, text=re.sub(r"\S+$", str(number), text)))
