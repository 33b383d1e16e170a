"""A part of a comparison: some kernels, some targets."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import replace

from portkit.analysis.rows import Comparison, counts_of, expected_of
from portkit.errors import ReportError


def choose(comparison: Comparison, kernels: Sequence[str] = (), targets: Sequence[str] = ()) -> Comparison:
    """The rows, their counts, findings and distances of these kernels on these targets; an empty choice means all.

    Portability and tuning stay those of all targets: a part of a set is another set.

    Args:
        comparison: the whole.
        kernels: names, or patterns as in a shell.
        targets: the same of targets.

    Raises:
        ReportError: a name matches no row; the message has those there are.
    """
    check_known("kernel", kernels, {row.kernel for row in comparison.rows})
    check_known("target", targets, {row.target for row in comparison.rows})
    rows = tuple(row for row in comparison.rows if matches(row.kernel, kernels) and matches(row.target, targets))
    return replace(
        comparison,
        rows=rows,
        counts=counts_of(rows),
        expected=expected_of(rows),
        findings=tuple(
            x for x in comparison.findings if matches(x.kernel, kernels) and any_matches(x.targets, targets)
        ),
        distances=tuple(
            x for x in comparison.distances if matches(x.kernel, kernels) and any_matches(x.targets, targets)
        ),
        portability=tuple(x for x in comparison.portability if matches(x.kernel, kernels)),
        tuning=tuple(x for x in comparison.tuning if matches(x.kernel, kernels)),
        ratios=tuple(x for x in comparison.ratios if matches(x.kernel, kernels) and matches(x.target, targets)),
    )


def any_matches(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether any of the names is chosen."""
    return any(matches(name, patterns) for name in names)


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name is chosen by patterns as in a shell; without any, all are."""
    return not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def check_known(what: str, patterns: Sequence[str], known: set[str]) -> None:
    """Refuse a pattern that chooses nothing, which is a slip more often than a wish.

    Args:
        what: kernel or target.
        patterns: as in a shell.
        known: names of the rows.

    Raises:
        ReportError: one matches none; the message has those there are.
    """
    for pattern in patterns:
        if not fnmatch.filter(known, pattern):
            raise ReportError(
                f"no row of a {what} {pattern!r}", remedy=f"name one of {', '.join(sorted(known)) or 'none: no rows'}"
            )
