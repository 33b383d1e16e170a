"""Kernels × targets at a glance: what each evidence says there, and what does not carry over and why."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from portkit.analysis.rows import ComparisonRow
from portkit.analysis.views.operations import operation_of
from portkit.analysis.views.standing import Standing, standing
from portkit.model import Evidence, Platform, Status


@dataclass(frozen=True)
class Mark:
    """What rows of one kernel, target and evidence say together."""

    evidence: Evidence
    standing: Standing  # the worst
    rows: int
    alike: int  # rows of that standing


@dataclass(frozen=True)
class Gap:
    """Rows of one kernel that are not as wanted for one reason: not good, or good where the matrix expects a gap."""

    page: str  # kernel, and its direction if backward
    standing: Standing
    status: Status
    cause: str | None  # of the first row
    targets: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    rows: tuple[ComparisonRow, ...]

    @property
    def what(self) -> str:
        """The kernel, and of a single operation its shape, dtype and variant, since others may be good."""
        labels = {operation_of(row).label for row in self.rows}
        return f"{self.page} {labels.pop()}" if len(labels) == 1 else self.page


def targets_by_platform(rows: Iterable[ComparisonRow]) -> Mapping[Platform | None, list[str]]:
    """Targets of each platform that has rows, in the rows' order; those of none (the interpreter) last."""
    found: dict[Platform | None, dict[str, None]] = {platform: {} for platform in (*Platform, None)}
    for row in rows:
        found[row.platform][row.target] = None
    return {platform: list(targets) for platform, targets in found.items() if targets}


def marks(rows: Iterable[ComparisonRow]) -> Mapping[tuple[str, str], tuple[Mark, ...]]:
    """Kernel and target → marks in the order of evidence, the strongest first."""
    groups: dict[tuple[str, str, Evidence], list[Standing]] = collections.defaultdict(list)
    for row in rows:
        groups[operation_of(row).page, row.target, row.evidence].append(standing(row))
    found: dict[tuple[str, str], list[Mark]] = collections.defaultdict(list)
    for evidence in Evidence:
        for (page, target, of), standings in groups.items():
            if of is evidence:
                found[page, target].append(_mark(evidence, standings))
    return {place: tuple(each) for place, each in found.items()}


def _mark(evidence: Evidence, standings: Sequence[Standing]) -> Mark:
    worst = min(standings, key=lambda each: each.rank)
    return Mark(evidence, worst, len(standings), standings.count(worst))


def gaps(rows: Iterable[ComparisonRow]) -> tuple[Gap, ...]:
    """What is not good by kernel, status and cause; the gravest and those of most targets first."""
    groups: dict[tuple[str, Standing, Status, str], list[ComparisonRow]] = collections.defaultdict(list)
    for row in rows:
        if not row.as_wanted:
            groups[operation_of(row).page, standing(row), row.status, row.cause or ""].append(row)
    found = [_gap(page, stands, status, group) for (page, stands, status, _), group in groups.items()]
    return tuple(sorted(found, key=lambda gap: (gap.standing.rank, -len(gap.targets), gap.page, gap.cause or "")))


def _gap(page: str, stands: Standing, status: Status, rows: Sequence[ComparisonRow]) -> Gap:
    return Gap(
        page=page,
        standing=stands,
        status=status,
        cause=rows[0].cause,
        targets=tuple(dict.fromkeys(row.target for row in rows)),
        evidence=tuple(each for each in Evidence if any(row.evidence is each for row in rows)),
        rows=tuple(rows),
    )
