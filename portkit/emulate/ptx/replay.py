"""Runs probes in the emulator, within a kernel of this module's own, and holds recorded results against them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from portkit.emulate.core.bytestore import Words
from portkit.emulate.core.launch import Emulation, Options
from portkit.emulate.core.replay import need_emulated, results_by, words_of
from portkit.emulate.core.vectors import (
    EXACT,
    Approximation,
    Comparison,
    Probe,
    Recording,
    compare,
    elements,
    kind_of,
    values_of,
)
from portkit.emulate.ptx.architecture import ARCHITECTURES, Architecture
from portkit.emulate.ptx.isa.lookup import all_entries
from portkit.emulate.ptx.launch import run
from portkit.emulate.ptx.machine import LANES
from portkit.emulate.ptx.matrix_probes import lanes_of
from portkit.emulate.ptx.probes import body
from portkit.emulate.ptx.types import TYPES

ISA = "ptx"
_APPROXIMATE = frozenset({"approx", "full"})
_SPECIFIC = 90
"""First compute capability that has instructions of its own alone, as Triton's targets name it."""


def comparisons(recording: Recording, name: str) -> Iterator[Comparison]:
    """Each recorded probe against the emulator.

    Args:
        recording: of an NVIDIA architecture.
        name: of the file, for errors.

    Raises:
        VectorsError: of another instruction set or architecture, or with lines that the emulator can't run.
    """
    architecture = ARCHITECTURES[need_emulated(recording, ISA, ARCHITECTURES, name)]
    for probe in recording.probes:
        if probe.name not in recording.refused:
            yield _compared(recording, probe, architecture, name)


def _compared(recording: Recording, probe: Probe, architecture: Architecture, name: str) -> Comparison:
    operands, recorded = recording.operands[probe.operands], recording.results[probe.name]
    declared = approximation(probe.name)
    computed = results_of(probe, operands, architecture, name)
    bound, sizes = declared.bound, None
    if declared.ranges:
        given = np.abs(operands[:, 0].view(np.float32))
        near = given <= declared.ranges[-1].reach
        operands, recorded, computed = operands[near], recorded[near], computed[near]
        bound = declared.bound_of(given[near])
    if declared.relative:
        kind = kind_of(probe.results[0])
        sizes = np.abs(values_of(elements(recorded, kind), kind))
    return compare(probe, operands, recorded, computed, bound, sizes)


def approximation(name: str) -> Approximation:
    """How far an instruction's results may lie from a device's; only forms that approximate have a bound."""
    parts = name.split(".")
    if not _APPROXIMATE & set(parts):
        return EXACT
    last = TYPES[parts[-1]]
    found = [entry for entry in all_entries()[parts[0]] if not entry.types or last in entry.types]
    return found[0].approximation or EXACT if found else EXACT


def results_of(probe: Probe, operands: Words, architecture: Architecture, name: str = "") -> Words:
    """What the emulator computes: ``[rows, words]``.

    Raises:
        VectorsError: it can't run the lines.
    """
    text, lanes = _kernel(probe, architecture, 4 * operands.shape[1], 4 * words_of(probe)), lanes_of(probe)

    def launch(groups: int, given: Words, results: Words) -> Emulation:
        return run(text, architecture.name, (groups,), [given, results], lanes // LANES, options=Options(check=False))

    return results_by(launch, probe, operands, lanes, name)


def _kernel(probe: Probe, architecture: Architecture, source: int, target: int) -> str:
    """PTX: a thread a row."""
    lines, lanes = "\n".join(body(probe, "%rd2", "%rd3")), lanes_of(probe)
    specific = "a" if architecture.number >= _SPECIFIC else ""
    return f"""
.version 8.8
.target {architecture.name}{specific}
.address_size 64
.visible .entry probe(.param .u64 operands, .param .u64 results)
.reqntid {lanes}
{{
.reg .b32 %r<3>;
.reg .b64 %rd<4>;
ld.param.u64 %rd0, [operands];
ld.param.u64 %rd1, [results];
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
mad.lo.s32 %r2, %r1, {lanes}, %r0;
mad.wide.u32 %rd2, %r2, {source}, %rd0;
mad.wide.u32 %rd3, %r2, {target}, %rd1;
{lines}
ret;
}}
"""
