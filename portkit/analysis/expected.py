"""Targets that a comparison must have, such as those of a fleet: which of them sent nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from portkit.analysis.rows import Comparison, ComparisonRow
from portkit.errors import ReportError, nearest
from portkit.model import Evidence


def expect(comparison: Comparison, targets: Sequence[str]) -> Comparison:
    """The comparison with the targets that it must have, and those that are missing.

    Args:
        comparison: the whole.
        targets: names; ``h200:measured`` asks for a row of that evidence. A row that was excluded or
            whose backend was missing is none.

    Raises:
        ReportError: an evidence is none.
    """
    missing = tuple(each for each in targets if not any(_meets(row, each) for row in comparison.rows))
    return replace(comparison, expected_targets=tuple(targets), missing=missing)


def _meets(row: ComparisonRow, asked: str) -> bool:
    name, _, evidence = asked.partition(":")
    if evidence and evidence not in set(Evidence):
        raise ReportError(f"no evidence is named {evidence!r}", place="--expect", remedy=nearest(evidence, Evidence))
    return row.target == name and not row.status.skipped and evidence in ("", row.evidence.value)
