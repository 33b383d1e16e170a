"""What a rule is, and what it finds."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from portkit.analysis.findings.points import Context, Point
from portkit.model import Direction, Evidence
from portkit.store.merge import Row


class Severity(enum.StrEnum):
    """What a finding stands for, the gravest first."""

    ERROR = "error"  # the kernel can't run there, or is wrong there
    WARNING = "warning"  # it costs time, or changes results within their limits
    INFO = "info"  # it explains a difference, or limits what can be said

    @property
    def rank(self) -> int:
        """0 is the gravest."""
        return list(Severity).index(self)


NEVER_RUN: Mapping[Evidence, str] = {
    Evidence.COMPILED: "only built",
    Evidence.EMULATED: "only emulated",
}
"""How a row that no GPU ran is told of."""


@dataclass(frozen=True)
class Finding:
    """A named, explained difference between targets."""

    rule: str  # PK203
    title: str
    severity: Severity
    kernel: str
    direction: Direction
    shape: tuple[int, ...]
    dtype: str
    variant: str | None  # None: of all variants together
    targets: tuple[str, ...]  # where it holds
    against: tuple[str, ...]  # where it does not, of those that were looked at
    evidence: tuple[Evidence, ...]  # of the rows it rests on
    explanation: str  # cause and cost, with the rows' own figures
    remedy: str
    page: str  # docs/rules/PK203.md
    runs: tuple[str, ...]  # run ids of the rows it rests on

    @property
    def operation(self) -> str:
        """Kernel, shape, dtype and variant in words."""
        parts = [self.kernel, "x".join(map(str, self.shape)), self.dtype, self.variant or ""]
        backward = [self.direction.value] if self.direction is Direction.BACKWARD else []
        return " ".join(part for part in [*parts, *backward] if part)


@dataclass(frozen=True)
class Rule:
    """One kind of difference.

    ``check`` yields findings made by :meth:`finding`. The texts are what
    ``portkit explain`` says; the page in the docs has the same title.
    """

    id: str
    title: str
    severity: Severity
    evidence: str  # what rows and figures it rests on
    cause: str  # why targets part ways here
    cost: str
    remedy: str
    check: Callable[[Rule, Context], Iterator[Finding]]

    @property
    def page(self) -> str:
        """Its page, from the root of the project."""
        return f"docs/rules/{self.id}.md"

    def found(self, context: Context) -> Iterator[Finding]:
        """All findings of this rule."""
        return self.check(self, context)

    def finding(
        self, point: Point, rows: Sequence[Row], against: Iterable[Row], explanation: str, *, of_variant: bool = True
    ) -> Finding:
        """A finding about rows of a point.

        Args:
            point: where it was found.
            rows: for which it holds, at least one.
            against: rows for which it does not hold.
            explanation: cause and cost with the rows' figures, and no time that was not measured:
                of targets that no GPU ran, a sentence says so.
            of_variant: whether it is about the point's variant and not all of them.
        """
        against = tuple(against)
        return Finding(
            rule=self.id,
            title=self.title,
            severity=self.severity,
            kernel=point.case,
            direction=point.direction,
            shape=point.shape,
            dtype=point.dtype,
            variant=point.variant if of_variant else None,
            targets=names(rows),
            against=names(against),
            evidence=tuple(sorted({row.record.evidence for row in (*rows, *against)}, key=list(Evidence).index)),
            explanation=f"{explanation} {_never_run(rows, self.severity)}".strip(),
            remedy=self.remedy,
            page=self.page,
            runs=tuple(sorted({row.record.run_id for row in (*rows, *against)})),
        )


def names(rows: Iterable[Row]) -> tuple[str, ...]:
    """Targets of rows, in their order, each once."""
    return tuple(dict.fromkeys(row.record.cell.target for row in rows))


def listed(words: Iterable[str]) -> str:
    """Words as a sentence has them: ``a, b and c``."""
    *first, last = list(words) or ["none"]
    return f"{', '.join(first)} and {last}" if first else last


def each(rows: Iterable[Row], figure: Callable[[Row], object]) -> str:
    """A figure of each row with its target: ``1036 B on sm80 and 112 B on sm90``; alike ones together."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        groups.setdefault(str(figure(row)), []).append(row.record.cell.target)
    return listed(f"{value} on {listed(dict.fromkeys(targets))}" for value, targets in groups.items())


def places(count: int) -> str:
    """How often something stands in the code: ``1 place`` or ``4 places``; a loop's body counts once."""
    return f"{count} place{'s' * (count != 1)}"


def _never_run(rows: Sequence[Row], severity: Severity) -> str:
    """Of which targets there are only rows without a time; empty where there are none, or nothing was built."""
    measured = {row.record.cell.target for row in rows if row.record.evidence is Evidence.MEASURED}
    places = {
        word: names(x for x in rows if x.record.evidence is evidence and x.record.build)
        for evidence, word in NEVER_RUN.items()
    }
    told = {word: [name for name in found if name not in measured] for word, found in places.items()}
    told = {word: found for word, found in told.items() if found}
    if not told:
        return ""
    if len(told) == 1 and list(names(rows)) in told.values():  # all of them, alike: not named again
        return _without_time(f"Never run ({next(iter(told))})", severity, "")
    return _without_time(
        f"Never run on {listed(f'{listed(x)} ({word})' for word, x in told.items())}", severity, " there"
    )


def _without_time(text: str, severity: Severity, where: str) -> str:
    """What can't run has no time to know."""
    return f"{text}." if severity is Severity.ERROR else f"{text}, so what it costs in time{where} is not known."
