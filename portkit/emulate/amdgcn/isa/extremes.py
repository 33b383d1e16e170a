"""Minimum and maximum that pass NaN on, and order -0 below +0 (IEEE 754-2019 minimum and maximum).

Sources: RDNA4 ISA "VOP3 Instructions" (V_MINIMUM_F32 and its kin); CDNA4 ISA "VOP3A & VOP3B Instructions"
(V_MINIMUM3_F32, V_MAXIMUM3_F32).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from portkit.emulate.amdgcn.architecture import Generation
from portkit.emulate.amdgcn.isa import sections
from portkit.emulate.amdgcn.isa.arithmetic import arithmetic
from portkit.emulate.amdgcn.isa.registry import Entry
from portkit.emulate.core import floats

_RDNA4 = frozenset({Generation.RDNA4})
_RDNA4_AND_CDNA4 = _RDNA4 | {Generation.CDNA4}


def _passing_nan(function: Callable[..., Any]) -> Callable[..., Any]:
    def operation(a: Any, b: Any) -> Any:
        nan = np.isnan(a) | np.isnan(b)
        return np.where(nan, a + b, function(a, b)) if np.any(nan) else function(a, b)

    return operation


minimum = _passing_nan(floats.minimum)
maximum = _passing_nan(floats.maximum)


def minimum3(a: Any, b: Any, c: Any) -> Any:
    """Of three."""
    return minimum(minimum(a, b), c)


def maximum3(a: Any, b: Any, c: Any) -> Any:
    """Of three."""
    return maximum(maximum(a, b), c)


def _tables() -> dict[str, Entry]:
    table = {}
    for kind in ("F16", "F32", "F64"):
        for name, function in (("minimum", minimum), ("maximum", maximum)):
            row = arithmetic(f"{kind} = {kind} {kind}", function, sections.RDNA4_VOP3, generations=_RDNA4)
            table[f"v_{name}_{kind.lower()}"] = row
    for kind in ("F16", "F32"):
        signature = f"{kind} = {kind} {kind} {kind}"
        generations = _RDNA4_AND_CDNA4 if kind == "F32" else _RDNA4
        for name, triple in (("minimum3", minimum3), ("maximum3", maximum3)):
            table[f"v_{name}_{kind.lower()}"] = arithmetic(
                signature, triple, sections.RDNA4_AND_CDNA4_VOP3, generations=generations
            )
        for name, triple in (
            ("minimummaximum", lambda a, b, c: maximum(minimum(a, b), c)),
            ("maximumminimum", lambda a, b, c: minimum(maximum(a, b), c)),
        ):
            table[f"v_{name}_{kind.lower()}"] = arithmetic(signature, triple, sections.RDNA4_VOP3, generations=_RDNA4)
    return table


TABLE: dict[str, Entry] = _tables()
"""Mnemonic → entry."""
