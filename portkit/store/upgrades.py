"""Brings the fields of a report's line from one schema version to the next.

Each function takes the kind of a line and its fields, and gives those of the version after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

Body = dict[str, Any]


def _to_2(kind: str, body: Body) -> Body:
    """Times of a function have two clocks, and a speedup has an interval; schema 1 had events alone and none."""
    timing = body.get("timing")
    if kind != "record" or timing is None:
        return body
    kept = {name: value for name, value in timing.items() if name not in ("clock", "cache")}
    timed = {
        "fused": {"events": timing["fused"]},
        "baselines": {name: {"events": clock} for name, clock in timing["baselines"].items()},
        "speedup": {name: {"value": value, "low": None, "high": None} for name, value in timing["speedup"].items()},
    }
    return body | {"timing": kept | timed}


UPGRADES: Final[Mapping[int, Callable[[str, Body], Body]]] = {1: _to_2}
"""Version → function of (kind, fields) that gives the fields of the next version."""
