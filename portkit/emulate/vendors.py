"""The instruction sets that are emulated, by vendor: what differs between them for those who launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from portkit.emulate.amdgcn import launch as _amdgcn
from portkit.emulate.amdgcn.architecture import ARCHITECTURES as _AMD
from portkit.emulate.core.findings import Unloadable, outcome_of
from portkit.emulate.core.launch import Emulation, Options, Value
from portkit.emulate.ptx import launch as _ptx
from portkit.emulate.ptx.architecture import ARCHITECTURES as _NVIDIA

Run: TypeAlias = Callable[[str, str, Sequence[int], Sequence[Value], int | None, int, Options | None], Emulation]


@dataclass(frozen=True)
class InstructionSet:
    """One of them."""

    text: str  # name under which Triton's compiled kernels keep the text
    architectures: frozenset[str]
    run: Run
    code_for: Callable[[str, str], object]  # of a text and an architecture: refuses what ``run`` would not begin
    atomic: tuple[str, ...]  # parts of the names of atomic operations in the text
    essence: Callable[[str, str], str] = lambda text, architecture: f"{architecture}\n{text}"
    """What a run depends on, of a text and the architecture that ``code_for`` takes it for."""
    takes: Callable[[str, str], bool] = lambda text, architecture: True
    """Whether ``code_for`` takes a text for an architecture, where it took one of the same essence for another."""


INSTRUCTION_SETS = (
    InstructionSet("amdgcn", frozenset(_AMD), _amdgcn.run, _amdgcn.code_for, ("_atomic_",)),
    InstructionSet("ptx", frozenset(_NVIDIA), _ptx.run, _ptx.code_for, ("atom.", "red."), _ptx.essence, _ptx.takes),
)

ARCHITECTURES: Mapping[str, InstructionSet] = {
    name: each for each in INSTRUCTION_SETS for name in sorted(each.architectures)
}
"""Architecture that can be emulated → its instruction set."""


def run(
    text: str,
    architecture: str,
    grid: Sequence[int],
    values: Sequence[Value],
    waves: int | None = None,
    shared_bytes: int = 0,
    options: Options | None = None,
) -> Emulation:
    """Execute one kernel on emulated hardware; buffers are written in place.

    Args:
        text: of one kernel: AMD's assembly as LLVM prints it, or PTX.
        architecture: that the caller takes the text to be for, such as ``gfx942`` or ``sm_90``.
        grid: workgroups in x, y, z; missing ones are 1.
        values: one value an argument, in order. Pointers that Triton adds at the end may be left out.
        waves: of each workgroup (warps); None: as many as the kernel was built for.
        shared_bytes: of each workgroup, for launches that ask for more than the kernel states.
        options: how to emulate.

    Returns:
        An emulation whatever the kernel does: a kernel that can't run has its status.
    """
    known = ARCHITECTURES.get(architecture)
    if known is None:
        emulated = ", ".join(ARCHITECTURES)
        refused = Unloadable(f"architecture {architecture} is not emulated; emulated: {emulated}")
        return Emulation(outcome_of((), refused))
    return known.run(text, architecture, grid, values, waves, shared_bytes, options)
