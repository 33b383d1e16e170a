"""What a rule is, and what it finds."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from portkit.analysis.points import Context, Point, was_run, was_timed
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
                of targets where no GPU ran it, or none timed it, by any row of the point, a sentence says so.
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
            explanation=f"{explanation} {_not_timed(rows, (*point.rows, *rows), self.severity)}".strip(),
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


def sides(rows: Sequence[Row], others: Sequence[Row]) -> tuple[str, str]:
    """Targets of both as a sentence has them; one that is on both sides with what tells its rows apart."""
    return listed(_places(rows, others)), listed(_places(others, rows))


def _places(rows: Iterable[Row], others: Sequence[Row]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(place(row, others) for row in rows))


def place(row: Row, others: Iterable[Row]) -> str:
    """A row's target; where others are of that target too, with its evidence or partition: ``h200 (emulated)``."""
    cell, evidence = row.record.cell, row.record.evidence
    twins = [other.record for other in others if other.record.cell.target == cell.target]
    told = [
        *([evidence.value] if any(twin.evidence is not evidence for twin in twins) else []),
        *([cell.partition or "whole"] if any(twin.cell.partition != cell.partition for twin in twins) else []),
    ]
    return f"{cell.target} ({', '.join(told)})" if told else cell.target


def each(rows: Iterable[Row], figure: Callable[[Row], object], against: Sequence[Row] = ()) -> str:
    """A figure of each row with its target: ``1036 B on sm80 and 112 B on sm90``; alike ones together.

    Args:
        rows: told of.
        figure: of a row, in words.
        against: rows of the same sentence from which these are told apart.
    """
    groups: dict[str, list[str]] = {}
    for row in rows:
        groups.setdefault(str(figure(row)), []).append(place(row, against))
    return listed(f"{value} on {listed(dict.fromkeys(targets))}" for value, targets in groups.items())


def places(count: int) -> str:
    """How often something stands in the code: ``1 place`` or ``4 places``; a loop's body counts once."""
    return f"{count} place{'s' * (count != 1)}"


def _not_timed(rows: Sequence[Row], known: Iterable[Row], severity: Severity) -> str:
    """Of which targets no time is known, and why; empty where all were timed, or nothing was built.

    Args:
        rows: a finding is about their targets.
        known: all rows that could say that a target ran it: a finding may rest on an emulated row
            of a target that was measured too.
        severity: of the finding; what can't run has no time to know.
    """
    ran = [row for row in known if was_run(row)]
    never = _never_run(rows, set(names(ran)))
    untimed = [] if severity is Severity.ERROR else _without_time(rows, ran)
    groups = [*never.values(), *([untimed] if untimed else [])]
    alone = groups == [list(names(rows))]
    text = _sentence(never, untimed, alone=alone)
    if not text or severity is Severity.ERROR:
        return text and f"{text}."
    return f"{text}, so what it costs in time{'' if alone else ' there'} is not known."


def _never_run(rows: Iterable[Row], ran: Collection[str]) -> dict[str, list[str]]:
    """How a target is known that no GPU ran it on → those targets."""
    rows = [row for row in rows if row.record.build and row.record.cell.target not in ran]
    found = {word: list(names(x for x in rows if x.record.evidence is kind)) for kind, word in NEVER_RUN.items()}
    return {word: targets for word, targets in found.items() if targets}


def _without_time(rows: Iterable[Row], ran: Sequence[Row]) -> list[str]:
    """Targets that ran it, and of which no run has a time."""
    timed = names(row for row in ran if was_timed(row))
    return [name for name in names(rows) if name in names(ran) and name not in timed]


def _sentence(never: Mapping[str, Sequence[str]], untimed: Sequence[str], *, alone: bool) -> str:
    """Without a full stop; ``alone``: all targets of the finding are of one kind, and not named again."""
    parts = [f"run on {listed(untimed)} without a time"] if untimed else []
    if never:
        where = [f"{listed(targets)} ({word})" for word, targets in never.items()]
        parts.insert(0, f"never run ({next(iter(never))})" if alone else f"never run on {listed(where)}")
    text = "; ".join(parts)
    return text[:1].upper() + text[1:]
