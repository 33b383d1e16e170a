"""Runs a probe's kernel on rows of operands, and says whether a recording can be held against the emulator."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from portkit.emulate.core.bytestore import Words
from portkit.emulate.core.launch import Emulation
from portkit.emulate.core.vectors import Probe, Recording, kind_of
from portkit.errors import VectorsError
from portkit.model import Status

Launch = Callable[[int, Words, Words], Emulation]
"""Runs so many workgroups on operands, each lane a row, and writes results."""


def need_emulated(recording: Recording, isa: str, architectures: Collection[str], name: str) -> str:
    """The architecture of a recording.

    Args:
        recording: what was recorded.
        isa: instruction set that it must be of.
        architectures: those that are emulated.
        name: of the file, for errors.

    Raises:
        VectorsError: it is of another instruction set or architecture.
    """
    origin = recording.origin
    if origin.isa != isa or origin.architecture not in architectures:
        message = f"recorded on {origin.architecture} ({origin.isa}), which is not emulated"
        raise VectorsError(message, place=name, remedy=f"record on one of {', '.join(architectures)}")
    return origin.architecture


def words_of(probe: Probe) -> int:
    """Of one row of its results."""
    return sum(kind_of(kind).words for kind in probe.results)


def results_by(launch: Launch, probe: Probe, operands: Words, lanes: int, name: str) -> Words:
    """What the emulator computes: ``[rows, words]``.

    Args:
        launch: runs the probe's kernel.
        probe: what is run.
        operands: ``[rows, words]``.
        lanes: of a workgroup.
        name: of the file, for errors.

    Raises:
        VectorsError: it can't run the lines.
    """
    groups = -(-len(operands) // lanes)
    padded: Words = np.zeros((groups * lanes, operands.shape[1]), np.uint32)
    padded[: len(operands)] = operands
    results: Words = np.zeros((groups * lanes, words_of(probe)), np.uint32)
    done = launch(groups, padded, results)
    if done.outcome.status is not Status.PASSED:
        raise VectorsError(f"{probe.name}: {done.outcome.message}", place=name or None)
    return results[: len(operands)]
