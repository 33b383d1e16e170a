"""All tables of instruction semantics, by family."""

from __future__ import annotations

from portkit.emulate.amdgcn.isa import (
    atomics,
    carry,
    compare,
    control,
    crosslane,
    division,
    division64,
    dots,
    extremes,
    fp8,
    halves,
    integers16,
    lds,
    matrix,
    memory,
    packed,
    scalar,
    transfer,
    vector,
)
from portkit.emulate.amdgcn.isa.registry import Table

FAMILIES: dict[str, Table] = {
    "scalar": scalar.TABLE,
    "control": control.TABLE,
    "vector": vector.TABLE,
    "compare": compare.TABLE,
    "carry": carry.TABLE,
    "division": division.TABLE,
    "division of float64": division64.TABLE,
    "crosslane": crosslane.TABLE,
    "extremes": extremes.TABLE,
    "halves": halves.TABLE,
    "16-bit integers": integers16.TABLE,
    "packed": packed.TABLE,
    "dots": dots.TABLE,
    "fp8": fp8.TABLE,
    "lds": lds.TABLE,
    "matrix": matrix.TABLE,
    "memory": {**memory.TABLE, **transfer.BUFFER_LOADS},
    "transfer": transfer.TABLE,
    "atomics": atomics.TABLE,
}
"""Family → its table."""
