"""All tables of instruction semantics, by family."""

from __future__ import annotations

from portkit.emulate.ptx.isa import (
    atomics,
    barriers,
    compare,
    control,
    convert,
    floating,
    halves,
    integer,
    logic,
    memory,
    warp,
)
from portkit.emulate.ptx.isa.registry import Pass, Table

FAMILIES: dict[str, Table] = {
    "integer": integer.TABLE,
    "logic, moves and selection": logic.TABLE,
    "floating point": floating.TABLE,
    "halves and pairs": halves.TABLE,
    "comparison": compare.TABLE,
    "control": control.TABLE,
    "conversion": convert.TABLE,
    "atomics": atomics.TABLE,
    "barriers": barriers.TABLE,
    "memory": memory.TABLE,
    "warp": warp.TABLE,
}
"""Family → its table."""

PASSES: tuple[Pass, ...] = ()
"""Changes of compiled programs, in order."""
