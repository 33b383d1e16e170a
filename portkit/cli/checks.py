"""What ``portkit doctor`` says of one thing."""

from __future__ import annotations

from dataclasses import dataclass

OK, GAP, BLOCKED = "ok", "gap", "blocked"


@dataclass(frozen=True)
class Check:
    """One line of the answer."""

    name: str
    state: str  # ok; gap: a part of the evidence is out of reach; blocked: no run is possible
    found: str
    remedy: str = ""
