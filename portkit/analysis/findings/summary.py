"""Findings that say the same of several shapes, dtypes or variants of a kernel, as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from portkit.analysis.findings.rule import Finding

_MEASUREMENT = "PK5"


@dataclass(frozen=True)
class Alike:
    """Findings of one rule about one kernel on the same targets."""

    first: Finding  # whose figures are told
    operations: int  # it was found for so many

    @property
    def others(self) -> int:
        """Operations beside the one that is told of."""
        return self.operations - 1


def alike(findings: Iterable[Finding]) -> tuple[Alike, ...]:
    """Findings by rule, kernel, direction and targets, in the order of the first of each.

    Those on measurement are about the device and not about a kernel: by rule and targets alone.
    """
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        of_kernel = () if of_measurement(finding) else (finding.kernel, finding.direction)
        groups.setdefault((finding.rule, finding.targets, *of_kernel), []).append(finding)
    return tuple(Alike(group[0], len(group)) for group in groups.values())


def of_measurement(finding: Finding) -> bool:
    """Whether it is about how its rows were measured, and not about the kernel."""
    return finding.rule.startswith(_MEASUREMENT)


def top(groups: Sequence[Alike], most: int | None) -> tuple[tuple[Alike, ...], int]:
    """The first groups, and how many more there are: the gravest, and of these one a rule before a second.

    Args:
        groups: in the order of severity.
        most: how many at most; None for all.
    """
    if most is None or len(groups) <= most:
        return tuple(groups), 0
    seen: dict[str, int] = {}
    ranked = []
    for place, group in enumerate(groups):
        rank = seen[group.first.rule] = seen.get(group.first.rule, -1) + 1
        ranked.append(((group.first.severity.rank, rank, place), place))
    kept = sorted(place for _, place in sorted(ranked)[:most])
    return tuple(groups[place] for place in kept), len(groups) - most
