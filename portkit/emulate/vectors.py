"""Recorded results of either vendor's instructions against the emulator."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.emulate.amdgcn import replay as amdgcn
from portkit.emulate.core.vectors import Comparison, Recording
from portkit.emulate.ptx import replay as ptx


def comparisons(recording: Recording, name: str) -> Iterator[Comparison]:
    """Each recorded probe against the emulator.

    Args:
        recording: of any instruction set.
        name: of the file, for errors.

    Raises:
        VectorsError: of another instruction set or architecture, or with lines that the emulator can't run.
    """
    if recording.origin.isa == ptx.ISA:
        yield from ptx.comparisons(recording, name)
    else:
        yield from amdgcn.comparisons(recording, name)
