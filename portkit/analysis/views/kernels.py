"""Which kernels carry over, and which do not and why: a line a kernel."""

from __future__ import annotations

import collections
import enum
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from portkit.analysis.findings.rule import Finding, Severity
from portkit.analysis.findings.summary import Alike, alike, of_measurement
from portkit.analysis.rows import Comparison, ComparisonRow
from portkit.analysis.views.operations import Operation, operation_of
from portkit.analysis.views.standing import Standing, standing
from portkit.model import INTERPRETER, Direction, Evidence, Status


class Carry(enum.StrEnum):
    """Whether a kernel carries over, the worst first."""

    NOWHERE = "fails on every target tried"  # so where it runs makes no difference
    NO = "does not carry over"  # some target can't run it, or is wrong
    INTERPRETER = "fails in the interpreter"  # which is no target to carry over to
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
    findings: tuple[Alike, ...]  # of the kernel, not of how it was measured; the gravest first
    known: Mapping[str, Evidence]  # target → the strongest evidence of what is good there
    nowhere: bool  # no target has anything good, and what is not good is the kernel's own fault
    failures: Mapping[str, Status]  # target on which some cell is bad → status of the first of them

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
    def failing(self) -> Carry | None:
        """How far what is bad reaches; None where nothing is."""
        if not self.bad:
            return None
        if self.nowhere:
            return Carry.NOWHERE
        return Carry.INTERPRETER if self.bad == (INTERPRETER,) else Carry.NO

    @property
    def failed_on(self) -> tuple[str, ...]:
        """Where it is bad; with a kernel that fails everywhere, where it was tried and is not good."""
        return (*self.bad, *self.unsure) if self.nowhere else self.bad

    @property
    def carry(self) -> Carry:
        """Whether it carries over."""
        if self.gravest is Severity.ERROR and self.failing is not Carry.NOWHERE:
            return Carry.NO
        if self.failing:
            return self.failing
        if self.unsure:
            return Carry.UNSURE
        if self.gravest is Severity.WARNING:
            return Carry.AT_A_COST
        return self._how_far()

    @property
    def causes(self) -> Mapping[str, tuple[str, ...]]:
        """What is bad in words → targets: titles of errors that were found, else the status."""
        errors = [each.first for each in self.findings if each.first.severity is Severity.ERROR]
        causes: dict[str, list[str]] = {}
        for target, status in self.failures.items():
            title = next((each.title for each in errors if target in each.targets), None)
            causes.setdefault(title or status.value, []).append(target)
        return {cause: tuple(targets) for cause, targets in causes.items()}

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
        if not of_measurement(finding):
            found[page_of(finding)].append(finding)
    made = [_summary(page, group, found[page]) for page, group in rows.items()]
    return tuple(sorted(made, key=_order))


def where_tried(summaries: Sequence[KernelSummary]) -> str:
    """On how many targets all kernels have rows and how they are known there, in words."""
    tried = [set(each.standings) - {INTERPRETER} for each in summaries]
    everywhere = set.union(*tried)
    if any(each != everywhere for each in tried):
        return f"wherever they have rows ({_known_how(summaries, everywhere)})"
    if len(everywhere) > 1:
        return f"on all {len(everywhere)} targets ({_known_how(summaries, everywhere)})"
    return f"on {''.join(everywhere)} ({_known_how(summaries, everywhere)})" if everywhere else f"on {INTERPRETER}"


def _known_how(summaries: Sequence[KernelSummary], targets: Set[str]) -> str:
    """Targets by what is known of the kernels there, ``1 measured, 16 only built``; of one target the kernels."""
    if len(targets) == 1:
        (only,) = targets
        of_each = _known_at(summaries, only)
        return of_each[0] if len(set(of_each)) == 1 else _counted(of_each)
    return _counted([_known_of_all(_known_at(summaries, target)) for target in targets])


def _known_at(summaries: Sequence[KernelSummary], target: str) -> list[str]:
    """What is known of each kernel that has rows on a target."""
    return [_KNOWN[each.known.get(target)] for each in summaries if target in each.standings]


def _known_of_all(of_each: Sequence[str]) -> str:
    """What is known of every kernel, or that the most is known of a part of them."""
    most = next(word for word in _KNOWN.values() if word in of_each)
    return most if set(of_each) == {most} else f"{most}{_IN_PART}"


def _counted(words: Sequence[str]) -> str:
    counts = collections.Counter(words)
    order = [name for word in _KNOWN.values() for name in (word, f"{word}{_IN_PART}")]
    return ", ".join(f"{counts[word]} {word}" for word in order if counts[word])


_KNOWN: Final[Mapping[Evidence | None, str]] = {
    Evidence.MEASURED: "measured",
    Evidence.EMULATED: "emulated",
    Evidence.COMPILED: "only built",
    None: "with a gap that the matrix knows",
}
"""The strongest evidence of a target → what is said of it, the most first."""

_IN_PART: Final = " in part"
"""Behind what is known of some kernels on a target, and not of all."""


def page_of(finding: Finding) -> str:
    """The page that a finding belongs to."""
    return Operation(finding.kernel, finding.direction, (), "", None).page


def _summary(page: str, rows: Sequence[ComparisonRow], findings: Sequence[Finding]) -> KernelSummary:
    standings: dict[str, Standing] = {}
    for row in rows:
        standings[row.target] = min(standing(row), standings.get(row.target, Standing.GOOD), key=lambda x: x.rank)
    seen = {each: dict.fromkeys(row.target for row in rows if row.evidence is each) for each in Evidence}
    evidence = {each: tuple(names) for each, names in seen.items() if names}
    first = rows[0]
    known = {row.target: each for each in reversed(_ON_TARGETS) for row in rows if row.evidence is each and _good(row)}
    failures = {row.target: row.status for row in reversed(rows) if standing(row) is Standing.BAD}
    return KernelSummary(
        page=page,
        kernel=first.kernel,
        direction=first.direction,
        standings=standings,
        evidence=evidence,
        findings=alike(findings),
        known=known,
        nowhere=_fails_everywhere(rows),
        failures={target: failures[target] for target in standings if target in failures},
    )


def _good(row: ComparisonRow) -> bool:
    return standing(row) is Standing.GOOD


def _fails_everywhere(rows: Sequence[ComparisonRow]) -> bool:
    """Whether all targets failed for the kernel's sake.

    Host code that raises is ``capture_failed`` where the GPU is absent, as is a question that only a GPU can answer;
    it is the kernel's own fault where it raised in a run as well.
    """
    raised = any(row.status is Status.LAUNCH_ERROR for row in rows)
    tried = [row for row in rows if row.target != INTERPRETER and standing(row) is not Standing.EXCLUDED]
    return bool(tried) and all(
        standing(row) in (Standing.BAD, Standing.EXPECTED) or (raised and row.status is Status.CAPTURE_FAILED)
        for row in tried
    )


def _order(summary: KernelSummary) -> tuple[int, int, str]:
    return list(Carry).index(summary.carry), -len(summary.bad), summary.page
