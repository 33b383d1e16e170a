"""Which kernels carry over, and which do not and why: a line a kernel."""

from __future__ import annotations

import collections
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from portkit.analysis.findings.rule import Finding, Severity
from portkit.analysis.findings.summary import Alike, alike
from portkit.analysis.rows import Comparison, ComparisonRow
from portkit.analysis.views.operations import Operation, operation_of
from portkit.analysis.views.standing import Standing, standing
from portkit.model import INTERPRETER, Direction, Evidence


class Carry(enum.StrEnum):
    """Whether a kernel carries over, the worst first."""

    NO = "does not carry over"  # some target can't run it, or is wrong
    UNSURE = "no verdict on some targets"  # our side or the host failed there
    AT_A_COST = "runs, at a cost"  # no target is bad, and a warning says what it costs
    BUILT = "builds for all, run on one at most"  # no obstacle is known, and little is
    ALONE = "known on one target alone"  # so there is nothing to carry over to
    YES = "carries over"  # right on several, gaps that the matrix expects apart, with no finding worse than a note


_RAN = (Evidence.MEASURED, Evidence.EMULATED)
_ON_TARGETS = (*_RAN, Evidence.COMPILED)


@dataclass(frozen=True)
class KernelSummary:
    """One kernel in one direction over all targets."""

    page: str
    kernel: str
    direction: Direction
    standings: Mapping[str, Standing]  # target → the worst of its cells
    evidence: Mapping[Evidence, tuple[str, ...]]  # evidence → targets that have it
    findings: tuple[Alike, ...]  # the gravest first

    @property
    def bad(self) -> tuple[str, ...]:
        """Targets on which some cell is bad."""
        return self._at(Standing.BAD)

    @property
    def unsure(self) -> tuple[str, ...]:
        """Targets on which some cell has no verdict, and none is bad."""
        return self._at(Standing.NO_VERDICT)

    def _at(self, standing: Standing) -> tuple[str, ...]:
        return tuple(target for target, found in self.standings.items() if found is standing)

    @property
    def gravest(self) -> Severity | None:
        """Severity of the gravest finding."""
        return self.findings[0].first.severity if self.findings else None

    @property
    def carry(self) -> Carry:
        """Whether it carries over."""
        if self.bad or self.gravest is Severity.ERROR:
            return Carry.NO
        if self.unsure:
            return Carry.UNSURE
        if self.gravest is Severity.WARNING:
            return Carry.AT_A_COST
        return self._how_far()

    def _how_far(self) -> Carry:
        """Of a kernel without any trouble, on how many targets it was seen."""
        ran = {target for each in _RAN for target in self.evidence.get(each, ())}
        if len(ran) > 1:
            return Carry.YES
        built = {target for each in _ON_TARGETS for target in self.evidence.get(each, ())}
        return Carry.BUILT if len(built) > 1 else Carry.ALONE


def kernel_summaries(comparison: Comparison) -> tuple[KernelSummary, ...]:
    """Every kernel, those that do not carry over first."""
    rows: dict[str, list[ComparisonRow]] = collections.defaultdict(list)
    for row in comparison.rows:
        rows[operation_of(row).page].append(row)
    found = collections.defaultdict(list)
    for finding in comparison.findings:
        found[page_of(finding)].append(finding)
    made = [_summary(page, group, found[page]) for page, group in rows.items()]
    return tuple(sorted(made, key=_order))


def of_standing(summaries: Sequence[KernelSummary], kind: Standing) -> dict[str, int]:
    """Kernels whose worst cell stands so → on how many targets."""
    worst = {each.page: min(each.standings.values(), key=lambda found: found.rank) for each in summaries}
    return {
        each.page: sum(found is kind for found in each.standings.values())
        for each in summaries
        if worst[each.page] is kind
    }


def where_tried(summaries: Sequence[KernelSummary]) -> str:
    """On how many targets all kernels have rows, in words."""
    tried = [set(each.standings) - {INTERPRETER} for each in summaries]
    everywhere = set.union(*tried)
    if any(each != everywhere for each in tried):
        return "wherever they have rows"
    return f"on all {len(everywhere)} targets" if len(everywhere) > 1 else f"on {''.join(everywhere) or INTERPRETER}"


def page_of(finding: Finding) -> str:
    """The page that a finding belongs to."""
    return Operation(finding.kernel, finding.direction, (), "", None).page


def _summary(page: str, rows: Sequence[ComparisonRow], findings: Sequence[Finding]) -> KernelSummary:
    standings: dict[str, Standing] = {}
    for row in rows:
        standings[row.target] = min(standing(row), standings.get(row.target, Standing.GOOD), key=lambda x: x.rank)
    seen = {each: dict.fromkeys(row.target for row in rows if row.evidence is each) for each in Evidence}
    evidence = {each: tuple(names) for each, names in seen.items() if names}
    return KernelSummary(page, rows[0].kernel, rows[0].direction, standings, evidence, alike(findings))


def _order(summary: KernelSummary) -> tuple[int, int, str]:
    return list(Carry).index(summary.carry), -len(summary.bad), summary.page
