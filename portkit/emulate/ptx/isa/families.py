"""All tables of instruction semantics, by family."""

from __future__ import annotations

from portkit.emulate.ptx.isa import (
    atomics,
    barriers,
    bulk,
    calls,
    compare,
    control,
    convert,
    copies,
    flight,
    floating,
    halves,
    integer,
    ldmatrix,
    logic,
    mbarriers,
    memory,
    mma,
    proxies,
    tcgen05,
    tensormaps,
    warp,
    wgmma,
)
from portkit.emulate.ptx.isa.registry import Pass, Table

FAMILIES: dict[str, Table] = {
    "integer": integer.TABLE,
    "logic, moves and selection": logic.TABLE,
    "floating point": floating.TABLE,
    "halves and pairs": halves.TABLE,
    "comparison": compare.TABLE,
    "control": {**control.TABLE, **calls.TABLE},
    "conversion": convert.TABLE,
    "atomics": atomics.TABLE,
    "barriers": barriers.TABLE,
    "memory": memory.TABLE,
    "warp": warp.TABLE,
    "warp matrices": {**mma.TABLE, **ldmatrix.TABLE},
    "copies of threads": copies.TABLE,
    "barriers in memory": mbarriers.TABLE,
    "proxies": proxies.TABLE,
    "bulk copies": {**bulk.TABLE, **tensormaps.TABLE},
    "warpgroup matrices": wgmma.TABLE,
    "tensor memory": tcgen05.TABLE,
}
"""Family → its table."""

PASSES: tuple[Pass, ...] = (mma.fused, wgmma.chained, wgmma.watched, flight.followed)
"""Changes of compiled programs, in order."""
