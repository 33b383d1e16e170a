"""What the gate judges beside times: figures by name, each with what counts as worse.

A compiler gives the same figures every time, and PP follows from times that were judged
already: no test, a size alone. A figure that has no rule here is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from portkit.analysis.gate.times import Level

Figures = Mapping[str, float | None]
"""Name → value; None is unknown. A name may have a part after a dot: ``pp.datacenter`` has the rule of ``pp``."""


@dataclass(frozen=True)
class Rule:
    """When a change of a figure counts; by how much it gets worse, in its unit or as a share of the baseline."""

    unit: str
    higher_is_worse: bool
    relative: bool
    warn: float  # worse by more than this
    fail: float | None  # None: never fails


RULES: Final[Mapping[str, Rule]] = {
    "registers_per_thread": Rule("registers", higher_is_worse=True, relative=True, warn=0.10, fail=None),
    "spill_bytes_per_thread": Rule("B/thread", higher_is_worse=True, relative=False, warn=0, fail=16),
    "occupancy_pct": Rule("points", higher_is_worse=False, relative=False, warn=5, fail=15),
    "pp": Rule("", higher_is_worse=False, relative=True, warn=0.05, fail=0.10),
}
"""Registers alone cost nothing: where they do, occupancy, spills or times show it."""


@dataclass(frozen=True)
class FigureChange:
    """A figure that got worse or better by more than its rule lets pass."""

    figure: str
    baseline: float
    current: float
    level: Level


def figure_changes(baseline: Figures, current: Figures) -> Iterator[FigureChange]:
    """Changes that count, of figures known on both sides, in the order of the current ones."""
    for name, now in current.items():
        rule, before = RULES.get(name.partition(".")[0]), baseline.get(name)
        if rule is None or now is None or before is None:
            continue
        level = _level(rule, before, now)
        if level is not Level.SAME:
            yield FigureChange(name, before, now, level)


def _level(rule: Rule, before: float, now: float) -> Level:
    worse = (now - before) if rule.higher_is_worse else (before - now)
    if rule.relative:
        worse = worse / before if before else (0.0 if not worse else float("inf") * worse)
    if rule.fail is not None and worse > rule.fail:
        return Level.FAIL
    if worse > rule.warn:
        return Level.WARN
    return Level.BETTER if -worse > rule.warn else Level.SAME
